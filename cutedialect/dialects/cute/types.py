"""Types of the `cute` dialect: memory tensors and register tiles.

A memref maps a coordinate to an offset in memory; a fragment maps (thread, value) to a coordinate
of a tile that the threads of a CTA hold together in registers.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from xdsl.dialects.builtin import (
    AnyFloat,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    IntegerType,
)
from xdsl.ir import Attribute, Data, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.effects import RMEM
from cutedialect.layout import Dyn, Layout, Swizzle, coalesce, flatten, product
from cutedialect.layout import text as layout_text

from .attributes import parse_quoted

SPACES = ("gmem", "smem", "rmem", "tmem", "generic")
ALIGNMENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def fragment_of(value: SSAValue) -> FragmentType:
    """The type of a value that is a register tile."""
    assert isinstance(value.type, FragmentType)
    return value.type


def memref_of(value: SSAValue) -> MemRefType:
    """The type of a value that is a tensor, or a tile of one, in memory."""
    assert isinstance(value.type, MemRefType)
    return value.type


def element_bits(element: Attribute) -> int:
    """Width in bits of an element in memory: floats of 4 and 6 bits are in the low bits of a byte."""
    kind = type(element)
    if not _has_width(kind):
        raise VerifyException(f"expected an integer or float element type, got {element}")
    return 8 if kind in _IN_BYTES else element.bitwidth  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


# By class: `isinstance` is slow of xDSL's abstract ones, and this is asked some thousand times.
_IN_BYTES = frozenset((Float4E2M1FNType, Float6E2M3FNType, Float6E3M2FNType))


@cache
def _has_width(kind: type[Attribute]) -> bool:
    return issubclass(kind, IntegerType | AnyFloat)


@irdl_attr_definition
class MemRefType(Data[tuple[Any, ...]], TypeAttribute):
    """A tensor in memory.

    `!cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">`: element type, memory space,
    alignment of the base in bytes (always printed), the swizzle of *byte addresses* if there is
    one, and the layout from coordinates to element offsets. Dynamic leaves (`?`) belong to the
    value: a kernel argument is a pointer, its dynamic extents (i32) and dynamic strides (i64).
    """

    name = "cute.memref"

    @classmethod
    def get(
        cls,
        element: Attribute,
        space: str,
        alignment: int,
        layout: Layout,
        swizzle: Swizzle | None = None,
    ) -> MemRefType:
        return cls((element, space, alignment, swizzle, layout))

    @property
    def element(self) -> Attribute:
        return self.data[0]

    @property
    def space(self) -> str:
        return self.data[1]

    @property
    def alignment(self) -> int:
        """Bytes."""
        return self.data[2]

    @property
    def swizzle(self) -> Swizzle | None:
        return self.data[3]

    @property
    def layout(self) -> Layout:
        return self.data[4]

    @property
    def bits(self) -> int:
        return element_bits(self.element)

    @property
    def rank(self) -> int:
        return len(self.modes)

    @property
    def modes(self) -> tuple[Any, ...]:
        """Shape of each top-level mode; a mode may be nested."""
        shape = self.layout.shape
        return shape if isinstance(shape, tuple) else (shape,)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extent of each top-level mode: an int, or a dynamic leaf."""
        return tuple(product(mode) if isinstance(mode, tuple) else mode for mode in self.modes)

    @property
    def stride(self) -> tuple[Any, ...]:
        stride = self.layout.stride
        return stride if isinstance(stride, tuple) else (stride,)

    def with_layout(self, layout: Layout, alignment: int | None = None) -> MemRefType:
        return MemRefType.get(
            self.element,
            self.space,
            self.alignment if alignment is None else alignment,
            layout,
            self.swizzle,
        )

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Any, ...]:
        with parser.in_angle_brackets():
            element = parser.parse_type()
            parser.parse_punctuation(",")
            start = parser.pos
            space = parser.parse_identifier()
            if space not in SPACES:
                parser.raise_error(
                    f"expected a memory space ({', '.join(SPACES)}), got {space}", start, parser.pos
                )
            parser.parse_punctuation(",")
            parser.parse_keyword("align")
            with parser.in_angle_brackets():
                start = parser.pos
                alignment = parser.parse_integer(allow_boolean=False, allow_negative=False)
                if alignment not in ALIGNMENTS:
                    parser.raise_error(
                        f"expected an alignment in bytes that is a power of two up to 1024, "
                        f"got {alignment}",
                        start,
                        parser.pos,
                    )
            parser.parse_punctuation(",")
            swizzle = None
            if parser.parse_optional_keyword("S"):
                start = parser.pos
                with parser.in_angle_brackets():
                    bits = parser.parse_integer()
                    parser.parse_punctuation(",")
                    base = parser.parse_integer()
                    parser.parse_punctuation(",")
                    shift = parser.parse_integer()
                try:
                    swizzle = Swizzle(bits, base, shift)
                except ValueError as error:
                    parser.raise_error(str(error), start, parser.pos)
                parser.parse_punctuation(",")
            layout = parse_quoted(parser, layout_text.parse_layout)
            value = (element, space, alignment, swizzle, layout)
            problem = _memref_problem(value)
            if problem is not None:
                parser.raise_error(problem, start, parser.pos)
        return value

    def print_parameter(self, printer: Printer) -> None:
        element, space, alignment, swizzle, layout = self.data
        with printer.in_angle_brackets():
            printer.print_attribute(element)
            printer.print_string(f", {space}, align<{alignment}>, ")
            if swizzle is not None:
                printer.print_string(f"{swizzle}, ")
            printer.print_string_literal(str(layout))

    def verify(self) -> None:
        problem = _memref_problem(self.data)
        if problem is not None:
            raise VerifyException(problem)


@lru_cache(maxsize=4096)
def _memref_problem(value: tuple) -> str | None:
    """What is wrong with the parameters of a memref, or None."""
    element, space, alignment, swizzle, layout = value
    bits = element_bits(element)
    if bits >= 8 and alignment * 8 < bits:
        return f"expected an alignment of at least the element ({bits // 8} bytes), got {alignment}"
    if swizzle is not None and space != "smem":
        return f"expected a swizzle on an smem memref only, got {swizzle} on {space}"
    if space != "gmem" and any(isinstance(s, Dyn) for s in flatten(layout.shape)):
        return f"expected a static shape in {space}, got {layout.shape}"
    return None


@irdl_attr_definition
class FragmentType(Data[tuple[Any, ...]], TypeAttribute):
    """A register tile that the threads of a CTA hold together.

    `!cute.fragment<f32, "(128,128)">` says only the shape (tile level);
    `!cute.fragment<f32, "(16,8)", "((4,8),(2,2)):((32,1),(16,8))">` is bound: the layout maps
    (thread, value) to the column-major coordinate of the tile. A thread mode with stride 0 means
    that those threads hold the same elements.
    """

    name = "cute.fragment"
    space = RMEM

    @classmethod
    def get(
        cls, element: Attribute, shape: tuple[int, ...], tv: Layout | None = None
    ) -> FragmentType:
        return cls((element, tuple(shape), tv))

    @property
    def element(self) -> Attribute:
        return self.data[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data[1]

    @property
    def tv(self) -> Layout | None:
        return self.data[2]

    @property
    def bits(self) -> int:
        return element_bits(self.element)

    @property
    def threads(self) -> int:
        """How many threads share the tile (bound fragments)."""
        return product(self.bound.shape[0])

    @property
    def values(self) -> int:
        """How many elements each thread holds (bound fragments)."""
        return product(self.bound.shape[1])

    @property
    def bound(self) -> Layout:
        """`tv` (bound fragments)."""
        if self.tv is None:
            raise VerifyException(f"expected a thread-value layout (cute-partition), got {self}")
        return self.tv

    def with_tv(self, tv: Layout | None) -> FragmentType:
        return FragmentType.get(self.element, self.shape, tv)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Any, ...]:
        with parser.in_angle_brackets():
            start = parser.pos
            element = parser.parse_type()
            parser.parse_punctuation(",")
            shape = parse_quoted(parser, layout_text.parse_int_tuple)
            shape = shape if isinstance(shape, tuple) else (shape,)
            tv = None
            if parser.parse_optional_punctuation(","):
                tv = parse_quoted(parser, layout_text.parse_layout)
            value = (element, shape, tv)
            problem = _fragment_problem(value)
            if problem is not None:
                parser.raise_error(problem, start, parser.pos)
        return value

    def print_parameter(self, printer: Printer) -> None:
        element, shape, tv = self.data
        with printer.in_angle_brackets():
            printer.print_attribute(element)
            printer.print_string(", ")
            printer.print_string_literal("(" + ",".join(map(str, shape)) + ")")
            if tv is not None:
                printer.print_string(", ")
                printer.print_string_literal(str(tv))

    def verify(self) -> None:
        problem = _fragment_problem(self.data)
        if problem is not None:
            raise VerifyException(problem)


@lru_cache(maxsize=4096)
def _fragment_problem(value: tuple) -> str | None:
    """What is wrong with the parameters of a fragment, or None."""
    element, shape, tv = value
    element_bits(element)
    if not all(isinstance(extent, int) and extent > 0 for extent in shape):
        return f"expected a flat static shape of positive extents, got {shape}"
    if tv is None:
        return None
    if not (isinstance(tv.shape, tuple) and len(tv.shape) == 2):
        return f"expected a thread-value layout of rank 2, got {tv}"
    elements = product(shape)
    covered = 1
    reach = 1
    flat = list(zip(flatten(tv.shape), flatten(tv.stride), strict=True))
    for extent, stride in flat:
        if stride != 0:
            covered *= extent
            reach += (extent - 1) * stride
    if covered != elements or reach > elements:
        return (
            f"expected a thread-value layout onto the {elements} elements of {shape}, "
            f"got {coalesce(tv)} with {covered} distinct elements up to coordinate {reach - 1}"
        )
    return None


def mode_of(stride: int, shape: tuple[int, ...]) -> int:
    """The mode of a tile in which a stride of its column-major coordinate moves.

    >>> mode_of(3, (4, 8)), mode_of(4, (4, 8)), mode_of(32, (4, 8, 2))
    (0, 1, 2)
    """
    mode, begin = 0, shape[0]
    while mode + 1 < len(shape) and stride >= begin:
        mode += 1
        begin *= shape[mode]
    return mode


def threads_along(tv: Layout, shape: tuple[int, ...], mode: int) -> list[tuple[int, int]]:
    """The thread modes that run along a mode of a tile: (threads in front of it, extent)."""
    found: list[tuple[int, int]] = []
    threads = 1
    for extent, stride in zip(flatten(tv[0].shape), flatten(tv[0].stride), strict=True):
        if extent > 1 and stride and mode_of(stride, shape) == mode:
            found.append((threads, extent))
        threads *= extent
    return found
