"""Short vectors inside Numba kernels.

LLVM vectorises a loop only where it can prove that its arrays do not overlap, and a loop of a few
dozen elements over many arrays is left alone. Here a kernel says itself what is a vector: `load`,
`store`, `splat`, `spread`, `total`, `larger` and functions such as `exp` around ordinary `+`, `-`,
`*` and `/`. A vector holds `LANES` numbers of the array's dtype; LLVM maps it to whatever registers
the machine has. Indices are taken as they are: a negative one does not count from the end.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

from llvmlite import binding, ir
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


def _first_lanes(builder: Any, count: Any) -> Any:
    """A mask of the first `count` lanes."""
    lanes = ir.VectorType(count.type, LANES)
    numbers = ir.Constant(lanes, list(range(LANES)))
    return builder.icmp_signed("<", numbers, _repeat(builder, lanes, count))


@intrinsic  # type: ignore[untyped-decorator]
def load_first(typing_context: Any, array: Any, index: Any, count: Any) -> Any:
    """`load` of `count` numbers, and 0 in the other lanes.

    Where the count is LANES, written as such, it compiles to `load`.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, array, args[0], args[1])
        kind = context.get_value_type(signature.return_type)
        mask = _first_lanes(builder, args[2])
        word = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(kind, [pointer.type, word, mask.type, kind]),
            f"llvm.masked.load.{_LLVM_NAME[array.dtype]}.p0",
        )
        align = ir.Constant(word, array.dtype.bitwidth // 8)
        return builder.call(function, [pointer, align, mask, ir.Constant(kind, None)])

    return _Vector(array.dtype)(array, types.intp, types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def store_first(typing_context: Any, array: Any, index: Any, value: Any, count: Any) -> Any:
    """`store` of the first `count` lanes, the counterpart of `load_first`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, array, args[0], args[1])
        mask = _first_lanes(builder, args[3])
        word = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [args[2].type, pointer.type, word, mask.type]),
            f"llvm.masked.store.{_LLVM_NAME[array.dtype]}.p0",
        )
        align = ir.Constant(word, array.dtype.bitwidth // 8)
        builder.call(function, [args[2], pointer, align, mask])
        return context.get_dummy_value()

    return types.none(array, types.intp, value, types.intp), codegen


def _repeat(builder: Any, kind: Any, value: Any) -> Any:
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, nothing, mask)


@intrinsic  # type: ignore[untyped-decorator]
def splat(typing_context: Any, value: Any) -> Any:
    """One number in every lane."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _repeat(builder, context.get_value_type(signature.return_type), args[0])

    return _Vector(value)(value), codegen


@intrinsic  # type: ignore[untyped-decorator]
def spread(typing_context: Any, array: Any, index: Any) -> Any:
    """The number at `index` of a contiguous 1-D array in every lane."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(array)(context, builder, args[0]).data
        kind = context.get_value_type(signature.return_type)
        return _repeat(builder, kind, builder.load(builder.gep(data, [args[1]])))

    return _Vector(array.dtype)(array, types.intp), codegen


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
def larger(typing_context: Any, left: Any, right: Any) -> Any:
    """The larger of two vectors in every lane; the right one where either is NaN."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[0], args[1])

    return left(left, right), codegen


def _series(rate: float, degree: int) -> list[float]:
    """Taylor's coefficients of e^(rate f)."""
    return [rate**k / math.factorial(k) for k in range(degree + 1)]


# 2^f to a relative 1e-7 and exact at 0, by the polynomial whose largest error is least.
_AROUND_0 = [1.0, 0.69314697756, 0.24022242011, 0.05550733769, 0.00967151754, 0.00132647352]
_FROM_0_TO_1 = [1.0, 0.69315131230, 0.24016444412, 0.05579993503, 0.00901699970, 0.00186714453]


class _Power(NamedTuple):
    """Numbers of the exponential function for one base and dtype."""

    mantissa: int
    shift: float
    """Added to a number, it leaves the nearest integer in the lowest bits."""
    per_two: float
    """log2 of the base."""
    two: tuple[float, float]
    """1 / per_two in two parts, the first with trailing zeros so that n times it is exact."""
    least: float
    most: float
    """Beyond these exponents of two the result is 0 and infinity."""
    coefficients: list[float]


_POWERS = {
    ("e", types.float32): _Power(
        23,
        1.5 * 2.0**23 + 127,
        1 / math.log(2),
        (0.693359375, math.log(2) - 0.693359375),
        -127.0,
        128.0,
        _series(1.0, 7),
    ),
    ("e", types.float64): _Power(
        52,
        1.5 * 2.0**52 + 1023,
        1 / math.log(2),
        (0.693147180369123816490, 1.90821492927058770002e-10),
        -1023.0,
        1024.0,
        _series(1.0, 13),
    ),
    ("2", types.float32): _Power(
        23, 1.5 * 2.0**23 + 127, 1.0, (1.0, 0.0), -127.0, 128.0, _AROUND_0
    ),
    ("2", types.float64): _Power(
        52, 1.5 * 2.0**52 + 1023, 1.0, (1.0, 0.0), -1023.0, 1024.0, _series(math.log(2), 13)
    ),
}


def _power(base: str, vector: Any, less_one: bool = False) -> Any:
    """Code for base^x: x = (n + f) / per_two with |f| <= 1/2, a polynomial for f, bits for n.

    With less_one, for base^x - 1: 2^n (p(f) - 1) + (2^n - 1), where nothing cancels for n = 0.
    """
    numbers = _POWERS[base, vector.dtype]
    integer = ir.IntType(vector.dtype.bitwidth)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[0].type

        def constant(value: float) -> Any:
            return ir.Constant(kind, [value] * LANES)

        def multiply_add(a: Any, b: Any, c: Any) -> Any:
            return builder.fadd(builder.fmul(a, b, flags=("contract",)), c, flags=("contract",))

        def at_least(low: float, value: Any) -> Any:  # compare and select keeps NaN
            return builder.select(
                builder.fcmp_ordered(">", constant(low), value), constant(low), value
            )

        def at_most(high: float, value: Any) -> Any:
            return builder.select(
                builder.fcmp_ordered("<", constant(high), value), constant(high), value
            )

        x = at_most(
            numbers.most / numbers.per_two, at_least(numbers.least / numbers.per_two, args[0])
        )
        shifted = multiply_add(x, constant(numbers.per_two), constant(numbers.shift))
        # Kernels allow sums to be reordered, which would undo this one.
        fence = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(kind, [kind]),
            f"llvm.arithmetic.fence.{_LLVM_NAME[vector.dtype]}",
        )
        shifted = builder.call(fence, [shifted])
        n = builder.fsub(shifted, constant(numbers.shift))
        high, low = numbers.two
        f = multiply_add(n, constant(-high), x)
        if low:
            f = multiply_add(n, constant(-low), f)
        p = constant(numbers.coefficients[-1])
        for coefficient in reversed(numbers.coefficients[1:-1]):
            p = multiply_add(f, p, constant(coefficient))
        bits = builder.bitcast(shifted, ir.VectorType(integer, LANES))
        steps = ir.Constant(ir.VectorType(integer, LANES), [numbers.mantissa] * LANES)
        scale = builder.bitcast(builder.shl(bits, steps), kind)
        if less_one:
            return multiply_add(scale, builder.fmul(f, p), builder.fsub(scale, constant(1.0)))
        return builder.fmul(multiply_add(f, p, constant(numbers.coefficients[0])), scale)

    return vector(vector), codegen


@intrinsic  # type: ignore[untyped-decorator]
def exp(typing_context: Any, vector: Any) -> Any:
    """e to the x in every lane, to about one unit in the last step.

    NaN stays NaN, underflow gives 0 and overflow infinity, half a power of two early.
    """
    return _power("e", vector)


@intrinsic  # type: ignore[untyped-decorator]
def expm1(typing_context: Any, vector: Any) -> Any:
    """e to the x, less 1, in every lane, to a few units in the last step however small x is.

    For x at most 0, NaN included.
    """
    return _power("e", vector, less_one=True)


@intrinsic  # type: ignore[untyped-decorator]
def log1p(typing_context: Any, vector: Any) -> Any:
    """ln(1 + x) in every lane for x from 0 to 1, to a few units in the last step.

    ln(1 + x) = 2 artanh(s) with s = x / (2 + x), at most 1/3.
    """
    terms = 8 if vector.dtype == types.float32 else 16

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (x,) = args

        def constant(value: float) -> Any:
            return ir.Constant(x.type, [value] * LANES)

        s = builder.fdiv(x, builder.fadd(x, constant(2.0)))
        square = builder.fmul(s, s)
        p = constant(2 / (2 * terms - 1))
        for k in range(terms - 2, -1, -1):
            product = builder.fmul(p, square, flags=("contract",))
            p = builder.fadd(product, constant(2 / (2 * k + 1)), flags=("contract",))
        return builder.fmul(s, p)

    return vector(vector), codegen


@intrinsic  # type: ignore[untyped-decorator]
def exp2(typing_context: Any, vector: Any) -> Any:
    """2 to the x in every lane, like `exp` and cheaper."""
    return _power("2", vector)


def times_exp2(factor: Any, x: Any) -> Any:
    """factor times 2 to the x in every lane, for use inside kernels."""
    raise TypeError("resel.networks.ops.cpu.vectors.times_exp2 is for Numba kernels only")


@overload(times_exp2)  # type: ignore[untyped-decorator]
def _times_exp2(factor: Any, x: Any) -> Any:
    if x.dtype == types.float32 and HAS_SCALEF:

        def scaled(factor: Any, x: Any) -> Any:
            return _scalef_exp2(factor, x)

        return scaled

    def multiplied(factor: Any, x: Any) -> Any:
        return factor * exp2(x)

    return multiplied


def _has_scalef() -> bool:
    features = binding.get_host_cpu_features()
    return bool(features.get("avx512f") and features.get("avx512dq"))


HAS_SCALEF = _has_scalef()
"""This machine takes 2 to an integer, and what is left of it, in one instruction each."""


@intrinsic  # type: ignore[untyped-decorator]
def _scalef_exp2(typing_context: Any, factor: Any, x: Any) -> Any:
    """factor 2^x for float32 with AVX-512: VREDUCE gives x - floor(x), VSCALEF 2^floor(x)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, short, word = args[0].type, ir.IntType(16), ir.IntType(32)
        every = ir.Constant(short, -1)
        floor, current = ir.Constant(word, 1), ir.Constant(word, 4)  # rounding modes
        names = "llvm.x86.avx512.mask.reduce.ps.512", "llvm.x86.avx512.mask.scalef.ps.512"
        reduce_type = ir.FunctionType(kind, [kind, word, kind, short, word])
        scale_type = ir.FunctionType(kind, [kind, kind, kind, short, word])
        reduce = cgutils.get_or_insert_function(builder.module, reduce_type, names[0])
        scale = cgutils.get_or_insert_function(builder.module, scale_type, names[1])
        factor, x = args
        f = builder.call(reduce, [x, floor, x, every, current])
        p = ir.Constant(kind, [_FROM_0_TO_1[-1]] * LANES)
        for coefficient in reversed(_FROM_0_TO_1[:-1]):
            constant = ir.Constant(kind, [coefficient] * LANES)
            p = builder.fadd(builder.fmul(f, p, flags=_FLAGS), constant, flags=_FLAGS)
        scaled = builder.call(scale, [factor, x, factor, every, current])
        return builder.fmul(p, scaled, flags=_FLAGS)

    return factor(factor, x), codegen
