"""Short vectors inside Numba kernels.

LLVM vectorises a loop only where it can prove that its arrays do not overlap, and a loop of a few
dozen elements over many arrays is left alone. Here a kernel says itself what is a vector: `load`,
`store`, `splat`, `total` and `exp` around ordinary `+`, `-`, `*`
and `/`. A vector holds `LANES` numbers of
the array's dtype; LLVM maps it to whatever registers the machine has.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

LANES = 16

_FLAGS = ("reassoc", "contract", "nsz")
_ELEMENT = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}
_LLVM_NAME = {types.float32: f"v{LANES}f32", types.float64: f"v{LANES}f64"}


class _Vector(types.Type):  # type: ignore[misc]
    """LANES numbers of one dtype."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Vector({dtype}, {LANES})")


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.VectorType(_ELEMENT[kind.dtype], LANES))


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    vector = ir.VectorType(_ELEMENT[array_type.dtype], LANES)
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def load(typing_context: Any, array: Any, index: Any) -> Any:
    """LANES numbers of a contiguous 1-D array from `index` on."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, array, args[0], args[1])
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return _Vector(array.dtype)(array, types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Write a vector to a contiguous 1-D array from `index` on."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, array, args[0], args[1])
        builder.store(args[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.none(array, types.intp, value), codegen


@intrinsic  # type: ignore[untyped-decorator]
def splat(typing_context: Any, value: Any) -> Any:
    """One number in every lane."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        one = builder.insert_element(
            ir.Constant(kind, ir.Undefined), args[0], ir.Constant(ir.IntType(32), 0)
        )
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), mask)

    return _Vector(value)(value), codegen


@intrinsic  # type: ignore[untyped-decorator]
def total(typing_context: Any, vector: Any) -> Any:
    """Sum over the lanes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = _ELEMENT[vector.dtype]
        kind = ir.FunctionType(element, [element, args[0].type])
        name = f"llvm.vector.reduce.fadd.{_LLVM_NAME[vector.dtype]}"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, [ir.Constant(element, 0.0), args[0]], fastmath=_FLAGS)

    return vector.dtype(vector), codegen


def _binary(name: str) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def operation(typing_context: Any, left: Any, right: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, name)(args[0], args[1], flags=_FLAGS)

        return left(left, right), codegen

    return operation


def _overload_operator(symbol: Any, operation: Any) -> None:
    @overload(symbol)  # type: ignore[untyped-decorator]
    def choose(left: Any, right: Any) -> Any:
        if not (isinstance(left, _Vector) and isinstance(right, _Vector)):
            return None

        def implementation(left: Any, right: Any) -> Any:
            return operation(left, right)

        return implementation


_overload_operator(operator.add, _binary("fadd"))
_overload_operator(operator.sub, _binary("fsub"))
_overload_operator(operator.mul, _binary("fmul"))
_overload_operator(operator.truediv, _binary("fdiv"))


@intrinsic  # type: ignore[untyped-decorator]
def exp(typing_context: Any, vector: Any) -> Any:
    """e to the x in every lane, to about one unit in the last place.

    x = n ln 2 + f with |f| <= ln 2 / 2; the polynomial gives e^f and the exponent bits 2^n. NaN
    stays NaN, underflow gives 0 and overflow infinity.
    """
    double = vector.dtype == types.float64
    bits, mantissa, bias = (64, 52, 1023) if double else (32, 23, 127)
    lowest, highest = (-709.0, 710.0) if double else (-88.0, 89.0)
    degree = 13 if double else 7
    # ln 2 in two parts, the first with trailing zeros so that n times it is exact
    high = 0.693147180369123816490 if double else 0.693359375
    low = math.log(2) - high if not double else 1.90821492927058770002e-10

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[0].type
        integers = ir.VectorType(ir.IntType(bits), LANES)

        def constant(value: float) -> Any:
            return ir.Constant(kind, [value] * LANES)

        def whole(value: int) -> Any:
            return ir.Constant(integers, [value] * LANES)

        def multiply_add(a: Any, b: Any, c: Any) -> Any:
            return builder.fadd(builder.fmul(a, b, flags=_FLAGS), c, flags=("contract",))

        def rounded(value: Any) -> Any:
            function_type = ir.FunctionType(kind, [kind])
            name = f"llvm.rint.{_LLVM_NAME[vector.dtype]}"
            return builder.call(
                cgutils.get_or_insert_function(builder.module, function_type, name), [value]
            )

        x = args[0]
        # compare and select rather than min and max, which would swallow NaN
        x = builder.select(builder.fcmp_ordered("<", x, constant(lowest)), constant(lowest), x)
        x = builder.select(builder.fcmp_ordered(">", x, constant(highest)), constant(highest), x)
        n = rounded(builder.fmul(x, constant(1 / math.log(2))))
        most = constant(float(bias))  # beyond it the polynomial grows and overflows by itself
        n = builder.select(builder.fcmp_ordered(">", n, most), most, n)
        f = multiply_add(n, constant(-high), x)
        f = multiply_add(n, constant(-low), f)
        p = constant(1 / math.factorial(degree))
        for k in range(degree - 1, -1, -1):
            p = multiply_add(f, p, constant(1 / math.factorial(k)))
        is_number = builder.fcmp_ordered("ord", n, n)
        exponent = builder.fptosi(builder.select(is_number, n, constant(0.0)), integers)
        scale = builder.shl(builder.add(exponent, whole(bias)), whole(mantissa))
        return builder.fmul(p, builder.bitcast(scale, kind))

    return vector(vector), codegen
