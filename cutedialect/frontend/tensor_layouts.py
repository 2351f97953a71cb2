"""Layouts of tensors inside of a kernel, and tensors through layouts: `x.layout`, `make_layout`,
`make_tensor` and `composition`. What is known while the kernel is traced is a `Layout` of the
layout algebra; with run-time numbers it is a `LayoutValue`, whose operations are IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, NoReturn, overload

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.cute import (
    DimOp,
    GetLayoutOp,
    LayoutType,
    MakeViewOp,
    StrideOp,
    memref_of,
    view_type,
)
from cutedialect.layout import Dyn, Layout, LayoutError
from cutedialect.layout import composition as composed
from cutedialect.layout.expression import dynamic_leaves

from .hints import Hinted
from .scalar import Scalar, as_i32
from .tile import Tensor
from .trace import Scope, current, error

_EXACT = (arith.AddiOp, arith.SubiOp, arith.MuliOp)
Numbers = int | Scalar | Sequence[Any]
"""A number, or a nested tuple of them; each is an int or a scalar."""


class LayoutValue(Hinted):
    """A layout with run-time numbers: a value of the layout algebra in the IR."""

    def __init__(self, value: SSAValue) -> None:
        self.value = value
        self.scope: Scope = current().scope

    @property
    def layout(self) -> Layout:
        """What is known of it while the kernel is traced; the rest is `?`."""
        assert isinstance(self.value.type, LayoutType)
        return self.value.type.data

    def __str__(self) -> str:
        return str(self.layout)

    @property
    def shape(self) -> Any:
        """Extents, nested as they are: ints, and scalars where they are run-time numbers."""
        return self._numbers()[0]

    @property
    def stride(self) -> Any:
        """Strides in elements, nested as the extents are."""
        return self._numbers()[1]

    def __call__(self, *coord: Numbers) -> int | Scalar:
        """The offset of a coordinate: of one number for each mode, or of an index of all."""
        given = _value("coord", coord[0] if len(coord) == 1 else coord)
        return _first(_applied("layout_eval", given, self.use()))

    def composition(self, other: Layout | LayoutValue) -> Layout | LayoutValue:
        """The layout that maps a coordinate of `other` to `self(other(coordinate))`."""
        return _as_layout(_applied("composition", self.use(), _of_layout(other)))

    def logical_divide(self, tiler: Numbers | Layout | LayoutValue) -> Layout | LayoutValue:
        """Each mode as (a tile's elements, tiles)."""
        return self._divided("logical_divide", tiler)

    def zipped_divide(self, tiler: Numbers | Layout | LayoutValue) -> Layout | LayoutValue:
        """((elements of a tile by modes), (tiles by modes))."""
        return self._divided("zipped_divide", tiler)

    def flat_divide(self, tiler: Numbers | Layout | LayoutValue) -> Layout | LayoutValue:
        """(elements of a tile by modes..., tiles by modes...)."""
        return self._divided("flat_divide", tiler)

    def size(self) -> NoReturn:
        """Refused: what asks for sizes while a kernel is traced, such as a `TiledCopy`, takes a
        static layout. The number is the product of `shape`.
        """
        raise error(
            f"expected a layout of numbers, since a kernel names the registers of each thread, got "
            f"{self.layout}; take numbers for threads and values, and leave what is known at run "
            "time to the tensor (cute.make_tensor, cute.local_tile)",
            code="CD-P4",
        )

    def use(self) -> SSAValue:
        """The value, checked to be alive."""
        current().check_alive(self.scope, "a layout")
        return self.value

    def _divided(self, name: str, tiler: Any) -> Layout | LayoutValue:
        is_layout = isinstance(tiler, Layout | LayoutValue)
        given = _of_layout(tiler) if is_layout else _value("shape", tiler)
        return _as_layout(_applied(name, self.use(), given))

    def _numbers(self) -> tuple[Any, Any]:
        numbers = iter([Scalar(each) for each in _scalars(self.use())])
        layout = self.layout
        return tuple(_filled(part, numbers) for part in (layout.shape, layout.stride))  # pyright: ignore


def layout_of(tensor: Tensor) -> Layout | LayoutValue:
    """The layout of a tensor, from coordinates to offsets in elements."""
    layout = tensor.memref.layout
    if layout.is_static():
        return layout
    return LayoutValue(_checked(GetLayoutOp(tensor.value)))


def make_layout(shape: Numbers, stride: Numbers | None = None) -> Layout | LayoutValue:
    """The layout of a shape and strides, nested alike: ints, and scalars for run-time numbers.
    Without strides it is compact, the first mode contiguous.

    A `Layout` where all numbers are ints. Strides have 64 bits, also those that are sums or
    products of extents, such as the compact ones; extents have 32, and one that is a product of
    others is your promise to be below 2^31.
    """
    strides = _compact(shape) if stride is None else stride
    if not _has_scalars(shape) and not _has_scalars(strides):
        try:
            return Layout(_tuples(shape), _tuples(strides))
        except LayoutError as why:
            raise error(str(why), code="CD-P4") from why
    parts = _value("shape", shape), _value("stride", strides)
    return _as_layout(_applied("make_layout", *parts))


def make_tensor(tensor: Tensor, layout: Layout | LayoutValue, offset: int | Scalar = 0) -> Tensor:
    """The memory of a tensor through another layout: coordinate `c` is the element at
    `offset + layout(c)`, counted from the tensor's first one. No data moves; tiles, copies and
    multiplies take it as they take the tensor, and it ends where its layout does. TMA copies tiles
    of it where layout and tensor follow from arguments, and there is no offset.

    A static layout of a static tensor is checked to stay in it; run-time numbers are your promise,
    which the emulator checks. An offset that is a sum or a product is computed in 64 bits.
    """
    if not isinstance(tensor, Tensor):
        raise error(f"expected a tensor to view, got {type(tensor).__name__}", code="CD-P1")
    at, div = None, None
    if isinstance(offset, Scalar) or offset != 0:
        is_wide = isinstance(offset, Scalar) and offset.type == i64
        at = offset.use() if is_wide else as_i32(offset, "an offset")
        if not is_wide and isinstance(at.owner, _EXACT):
            at = exact(at)
        div = known_divisor(at) if isinstance(offset, Scalar) else None
    if isinstance(layout, LayoutValue):
        view = _made(MakeViewOp, tensor.value, layout.use(), None, at, div)
    elif isinstance(layout, Layout):
        start = offset if isinstance(offset, int) else Dyn(div or 1)
        type_ = _made(view_type, memref_of(tensor.value), layout, start)
        view = MakeViewOp(tensor.value, [], type_, at, div)
    else:
        raise error(
            f"expected a layout of cute.make_layout or cute.Layout, got {type(layout).__name__}",
            code="CD-P1",
        )
    return Tensor(_checked(view, tensor.name), tensor.name, tensor.held)


@overload
def composition(tensor: Tensor, layout: Layout | LayoutValue) -> Tensor: ...


@overload
def composition(
    tensor: Layout | LayoutValue, layout: Layout | LayoutValue
) -> Layout | LayoutValue: ...


def composition(
    tensor: Tensor | Layout | LayoutValue, layout: Layout | LayoutValue
) -> Tensor | Layout | LayoutValue:
    """A tensor whose coordinate `c` is the element `layout(c)` of another one, counted down its
    first mode first; or the composition of two layouts.
    """
    if isinstance(tensor, Tensor):
        return make_tensor(tensor, composition(layout_of(tensor), layout))
    if isinstance(tensor, Layout) and isinstance(layout, Layout):
        try:
            return composed(tensor, layout)
        except LayoutError as why:
            raise error(str(why), code="CD-P4") from why
    return _as_layout(_applied("composition", _of_layout(tensor), _of_layout(layout)))


def _made(make: Any, *operands: Any) -> Any:
    try:
        return make(*operands)
    except VerifyException as why:
        raise error(str(why), code="CD-P4") from why


def _checked(op: Operation, hint: str | None = None) -> SSAValue:
    """Append an op whose operands a program gives."""
    try:
        op.verify_()
    except VerifyException as why:
        op.erase()
        raise error(str(why), code="CD-P4") from why
    return current().insert(op, hint).results[0]


def _applied(name: str, *operands: SSAValue) -> SSAValue:
    """What an operation of the layout algebra gives."""
    from cutedialect.dialects.cute.algebra import OPS
    from cutedialect.dialects.cute.algebra.algebra_op import infer

    kind = OPS[name]
    types = _made(infer, kind, [operand.type for operand in operands], {})
    return current().insert(kind.create(operands=operands, result_types=types)).results[0]


def _of_layout(layout: object) -> SSAValue:
    """A layout as a value of the IR."""
    from cutedialect.dialects.cute.algebra import OPS

    if isinstance(layout, LayoutValue):
        return layout.use()
    if not isinstance(layout, Layout):
        raise error(f"expected a layout, got {type(layout).__name__}", code="CD-P1")
    return current().insert(OPS["static"].create(result_types=[LayoutType(layout)])).results[0]


def _as_layout(value: SSAValue) -> Layout | LayoutValue:
    assert isinstance(value.type, LayoutType)
    layout = value.type.data
    return layout if layout.is_static() else LayoutValue(value)


def _scalars(value: SSAValue) -> Sequence[SSAValue]:
    """The run-time numbers of a value."""
    from cutedialect.dialects.cute.algebra import OPS, scalar_types

    return (
        current()
        .insert(
            OPS["get_scalars"].create(
                operands=[value],
                result_types=scalar_types(value.type, True),
                properties={"only_dynamic": UnitAttr()},
            )
        )
        .results
    )


def _first(value: SSAValue) -> int | Scalar:
    """The number that an int tuple is."""
    from cutedialect.dialects.cute.algebra import value_of

    number = value_of(value.type)
    return number if isinstance(number, int) else Scalar(_scalars(value)[0])


def _value(kind: str, numbers: Any) -> SSAValue:
    """A shape, stride or coordinate as a value of the IR."""
    from cutedialect.dialects.cute.algebra import OPS
    from cutedialect.dialects.cute.algebra.values import KINDS

    operands: list[SSAValue] = []

    def leaf(number: Any) -> Any:
        if isinstance(number, tuple | list):
            return tuple(leaf(part) for part in number)
        if not isinstance(number, Scalar):
            if isinstance(number, bool) or not isinstance(number, int):
                raise error(
                    f"expected ints and scalars in a {kind}, got {type(number).__name__}",
                    code="CD-P1",
                )
            return number
        is_wide = kind == "stride" and number.dtype.kind == "i" and number.dtype.bits == 64
        value = number.use() if is_wide else as_i32(number, f"a number of a {kind}")
        if kind == "stride" and not is_wide and isinstance(value.owner, _EXACT):
            value, is_wide = exact(value), True
        operands.append(value)
        return Dyn(known_divisor(value), 64 if is_wide else 32)

    type_ = _made(KINDS[kind], leaf(numbers))
    name = f"make_{kind}" if operands else "static"
    made = OPS[name].create(operands=operands, result_types=[type_])
    return current().insert(made).results[0]


def exact(value: SSAValue) -> SSAValue:
    """An i32 number in i64: sums and products, such as an extent times another one for a stride,
    are computed there, since a tensor has more elements than an i32 counts.
    """
    op = value.owner
    if isinstance(op, _EXACT) and value.type == i32:
        sides = [exact(operand) for operand in op.operands]
        made = type(op).create(operands=sides, result_types=[i64])
    else:
        made = arith.ExtSIOp(value, i64)
    return current().insert(made).results[0]


def known_divisor(value: SSAValue) -> int:
    """A number that a scalar is known to be a multiple of, by the code that computes it."""
    op = value.owner
    match op:
        case arith.ConstantOp() if isinstance(op.value, IntegerAttr):
            return abs(op.value.value.data) or 1
        case arith.MuliOp():
            return known_divisor(op.lhs) * known_divisor(op.rhs)
        case arith.AddiOp() | arith.SubiOp():
            return gcd(known_divisor(op.lhs), known_divisor(op.rhs))
        case arith.ExtSIOp() | arith.TruncIOp():
            return known_divisor(op.operands[0])
        case DimOp() | StrideOp():
            type_ = memref_of(op.memref)
            of_modes = type_.shape if isinstance(op, DimOp) else type_.stride
            number = of_modes[op.mode.value.data]
            return number.div if isinstance(number, Dyn) else 1
        case Operation() if op.name == "cute.get_scalars":
            from cutedialect.dialects.cute.algebra import value_of

            leaves = list(dynamic_leaves(value_of(op.operands[0].type)))
            return leaves[op.results.index(value)].div  # pyright: ignore[reportArgumentType]
        case _:
            return 1


def _filled(part: Any, numbers: Any) -> Any:
    if isinstance(part, tuple):
        return tuple(_filled(each, numbers) for each in part)
    return next(numbers) if isinstance(part, Dyn) else part


def _has_scalars(numbers: Any) -> bool:
    if isinstance(numbers, tuple | list):
        return any(map(_has_scalars, numbers))
    return isinstance(numbers, Scalar)


def _tuples(numbers: Any) -> Any:
    return tuple(map(_tuples, numbers)) if isinstance(numbers, tuple | list) else numbers


def _compact(shape: Any) -> Any:
    """Column-major strides of a shape."""
    size: Any = 1

    def strides(part: Any) -> Any:
        nonlocal size
        if isinstance(part, tuple | list):
            return tuple(strides(each) for each in part)
        stride, size = size, part * size
        return stride

    return strides(shape)
