"""The Triton kernels down to machine code; `test_scan_gpu.py` runs this without the interpreter."""

from __future__ import annotations

from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from resel.networks.ops.triton import scan as triton_scan

TARGETS = {
    "sm_80": (GPUTarget("cuda", 80, 32), "cubin"),
    "sm_90": (GPUTarget("cuda", 90, 32), "cubin"),
    "gfx942": (GPUTarget("hip", "gfx942", 64), "hsaco"),
}
"""Each with the name of its machine code among what Triton makes."""


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
@pytest.mark.parametrize("kernel", [triton_scan._forward, triton_scan._backward])
def test_compiles(kernel: Any, dtype: str, machine: str) -> None:
    target, product = TARGETS[machine]
    wide, padded, _ = triton_scan._layout(512, 64)
    options = triton_scan._options(*[object()] * 3, wide, padded) | {
        "KEEP": True,
        "HAS_INITIAL": True,
    }
    constants = {name: options[name] for name in kernel.arg_names if name in options}
    kinds = dict.fromkeys(constants, "constexpr") | {"is_first": "*u8"}
    kinds |= dict.fromkeys(("length", "channels", "states"), "i32")
    signature = {name: kinds.get(name, f"*{dtype}") for name in kernel.arg_names}
    compiled = triton.compile(
        ASTSource(fn=kernel, signature=signature, constexprs=constants),
        target=target,
        options={name: options[name] for name in ("num_warps", "num_stages", "enable_fp_fusion")},
    )
    assert len(compiled.asm[product]) > 1000
    assert "atomic" not in str(compiled.asm["ttir"])
