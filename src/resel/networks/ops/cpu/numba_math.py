"""Elementary functions that LLVM can vectorise inside Numba kernels.

Numba calls the C library once per element for `exp`; here float32 gets a polynomial with a
relative error below 4e-7, while float64 keeps the library's accuracy.
NaN stays NaN, underflow gives 0 and overflow gives infinity.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic, overload

FASTMATH = {"reassoc", "contract", "nsz"}
"""Flags that allow reordering sums, and nothing that assumes the absence of NaN or infinity."""


@functools.cache
def _helper_digest() -> str:
    """Changes whenever the code that is compiled into every kernel does."""
    here = Path(__file__)
    sources = (here, *map(here.with_name, ("vectors.py", "blocks.py", "places.py")))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function on first use, keep the result on disk, and let other threads run."""
    # Numba's cache watches the kernel's own file; its name carries the helpers' sources as well.
    function.__qualname__ = f"{function.__qualname__}_{_helper_digest()}"
    compiled: Callable[..., Any] = njit(
        cache=True, nogil=True, fastmath=FASTMATH, error_model="numpy"
    )(function)
    return compiled


def is_compiled(name: str = "*") -> bool:
    """Whether a process has left a kernel of this version on disk, `FILE.FUNCTION` or any."""
    from resel.networks.ops.cpu import kernels

    folder = Path(kernels.bias_elu._cache.cache_path)  # type: ignore[attr-defined]
    return any(folder.glob(f"{name}_{_helper_digest()}-*.nbi"))


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A small function that becomes part of every kernel which calls it."""
    compiled: Callable[..., Any] = njit(
        nogil=True, fastmath=FASTMATH, error_model="numpy", forceinline=True
    )(function)
    return compiled


_LOG2E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
_LOWEST = np.float32(-88.0)  # rounds to the exponent whose bits are zero
_HIGHEST = np.float32(89.0)  # rounds to the exponent whose bits are infinity
_C2 = np.float32(1 / 2)
_C3 = np.float32(1 / 6)
_C4 = np.float32(1 / 24)
_C5 = np.float32(1 / 120)
_C6 = np.float32(1 / 720)
_C7 = np.float32(1 / 5040)
_ONE = np.float32(1)
_HALF = np.float32(0.5)


@intrinsic  # type: ignore[untyped-decorator]
def _float_from_bits(typing_context: Any, bits: Any) -> Any:
    """Reinterpret an int32 as a float32."""
    signature = types.float32(types.int32)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float32))

    return signature, codegen


def exp(x: Any) -> Any:
    """e to the x, for use inside kernels."""
    raise TypeError("resel.networks.ops.cpu.numba_math.exp is for Numba kernels only")


@overload(exp, jit_options={"fastmath": FASTMATH})  # type: ignore[untyped-decorator]
def _exp(x: Any) -> Any:
    if x == types.float32:

        def exp_float32(x: Any) -> Any:
            x = _LOWEST if x < _LOWEST else x
            x = _HIGHEST if x > _HIGHEST else x
            n = np.floor(x * _LOG2E + _HALF)
            f = x - n * _LN2_HIGH - n * _LN2_LOW
            p = _C6 + f * _C7
            p = _C5 + f * p
            p = _C4 + f * p
            p = _C3 + f * p
            p = _C2 + f * p
            p = _ONE + f * (_ONE + f * p)
            bits = (np.int32(n) + np.int32(127)) << np.int32(23)
            return p * _float_from_bits(bits)

        return exp_float32

    def exp_float64(x: Any) -> Any:
        return math.exp(x)

    return exp_float64
