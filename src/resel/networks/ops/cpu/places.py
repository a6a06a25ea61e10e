"""Memory of tensors as arrays inside kernels, by address.

To make an array of a tensor takes longer than a small kernel does (some microseconds each for
`detach`, `view` and `numpy`), to ask for its address a tenth of one. A kernel is given addresses
and sizes, and `like(tensor)` for the type of the numbers; whoever calls it keeps the tensors alive
and sees to it that they are dense.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import carray, types
from numba.extending import intrinsic
from torch import Tensor

from resel.networks.ops.cpu.numba_math import inlined

_LIKE = {torch.float32: np.float32(0), torch.float64: np.float64(0)}


def like(tensor: Tensor) -> Any:
    """What tells a kernel the type of the numbers."""
    return _LIKE[tensor.dtype]


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(typing_context: Any, address: Any, number: Any) -> Any:
    kind = types.CPointer(number)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.intp, number), codegen


@inlined
def array(address: Any, shape: Any, number: Any) -> Any:
    """The array of this shape, in C order, that begins at an address; for use inside kernels."""
    return carray(_pointer(address, number), shape)


@inlined
def flat(address: Any, count: Any, number: Any) -> Any:
    """`array` of one dimension."""
    return carray(_pointer(address, number), (count,))
