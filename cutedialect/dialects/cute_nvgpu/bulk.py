"""Bulk copies of contiguous tiles as atoms (`cp.async.bulk` without a tensor map): one thread starts
one instruction for the whole tile, which ends in an mbarrier (loads) or in a bulk group of that
thread (stores). Both sides hold the elements in one order, without a gap; nothing is clipped.
"""

from __future__ import annotations

from typing import Any, Self

from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from cutedialect.atoms import copy
from cutedialect.atoms.bulk_copy_atoms import GRANULE
from cutedialect.dialects.checks import check
from cutedialect.dialects.effects import Unit
from cutedialect.dialects.element_names import element_name
from cutedialect.layout import Layout, coalesce, flatten

from .copy_atoms import CopyType
from .syntax import check_cache, parse_cache, parse_key

# The transaction count of an mbarrier holds less than 2^20 bytes.
MOST_BYTES = (1 << 20) - GRANULE
_BITWISE = ("and", "or", "xor")


class BulkCopyType(CopyType):
    """Base of the bulk copies: element, and how long L2 keeps what is touched."""

    @property
    def element(self) -> Attribute:
        return self.data[0]

    @property
    def cache(self) -> str | None:
        """L2 hint; None leaves it to the hardware."""
        return self.data[-1]

    def verify(self) -> None:
        if self.cache is not None:
            check_cache(self.cache)

    def check_tiles(self, source: Any, destination: Any) -> None:
        """Raise VerifyException for tiles (memref types) that no such copy can move."""
        for side in (source, destination):
            check(
                side.alignment >= GRANULE,
                f"expected tiles aligned to {GRANULE} bytes with {self.name}, got {side}",
            )
            check(
                side.swizzle is None,
                f"expected a tile without a swizzle with {self.name} (tma_load and tma_store "
                f"swizzle), got {side}",
            )
            check(
                _is_gapless(side.layout),
                f"expected a contiguous tile with {self.name}, got {side}",
            )
        check(
            coalesce(source.layout) == coalesce(destination.layout),
            f"expected tiles that hold the elements in one order with {self.name}, got "
            f"{source.layout} and {destination.layout}",
        )
        size = _bytes(source)
        check(
            size % GRANULE == 0 and GRANULE <= size <= MOST_BYTES,
            f"expected a tile of a multiple of {GRANULE} bytes up to {MOST_BYTES} with "
            f"{self.name}, got {size}",
        )


@irdl_attr_definition
class BulkLoadType(BulkCopyType):
    """`cp.async.bulk` into shared memory: `!cute_nvgpu.atom.bulk_load<f32>`.

    `cache = evict_first` (or `evict_last`, `normal`) is as of `tma_load`. PTX ISA 9.7.9.25.4.1.
    """

    name = "cute_nvgpu.atom.bulk_load"
    unit = Unit.TMA_LOAD

    @classmethod
    def get(cls, element: Attribute, cache: str | None = None) -> Self:
        return cls((element, cache))

    def entry_name(self, rank: int) -> str:
        return "bulk_load"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            element = parser.parse_type()
            if not parser.parse_optional_punctuation(","):
                return element, None
            parser.parse_keyword("cache")
            return element, parse_cache(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)
            if self.cache is not None:
                printer.print_string(f", cache = {self.cache}")


@irdl_attr_definition
class BulkStoreType(BulkCopyType):
    """`cp.async.bulk` out of shared memory: `!cute_nvgpu.atom.bulk_store<f32>`.

    `bulk_store<f32, reduce = add>` combines with what is there (`cp.reduce.async.bulk`). PTX ISA
    9.7.9.25.4.1 and 9.7.9.25.4.2.
    """

    name = "cute_nvgpu.atom.bulk_store"
    unit = Unit.TMA_STORE

    @classmethod
    def get(cls, element: Attribute, reduce: str | None = None, cache: str | None = None) -> Self:
        return cls((element, reduce, cache))

    @property
    def reduce(self) -> str | None:
        return self.data[1]

    def entry_name(self, rank: int) -> str:
        if self.reduce is None:
            return "bulk_store"
        return f"bulk_reduce_{self.reduce}_{_reduced_name(self.reduce, self.element)}"

    @property
    def operation(self) -> str | None:
        """The reduction and its type as PTX spells them, `add.noftz.bf16`; None for a store."""
        if self.reduce is None:
            return None
        return self.entry("smem", "gmem").ptx.rpartition("bulk_group.")[2]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        reduce, cache = None, None
        with parser.in_angle_brackets():
            element = parser.parse_type()
            while parser.parse_optional_punctuation(","):
                if parser.parse_optional_keyword("cache"):
                    cache = parse_cache(parser)
                else:
                    parse_key(parser, "reduce")
                    reduce = parser.parse_identifier()
        return element, reduce, cache

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)
            if self.reduce is not None:
                printer.print_string(f", reduce = {self.reduce}")
            if self.cache is not None:
                printer.print_string(f", cache = {self.cache}")

    def verify(self) -> None:
        super().verify()
        if self.reduce is None:
            return
        atoms = [atom for atom in copy() if atom.kind == "bulk_reduce"]
        known = dict.fromkeys(atom.name.split("_")[2] for atom in atoms)
        check(self.reduce in known, f"expected a reduction {', '.join(known)}, got {self.reduce}")
        types = [
            atom.name.split("_")[3] for atom in atoms if atom.name.split("_")[2] == self.reduce
        ]
        name = _reduced_name(self.reduce, self.element)
        check(
            name in types,
            f"expected a type that a bulk copy can {self.reduce}: {', '.join(types)}; got {name}",
        )


def _reduced_name(operation: str, element: Attribute) -> str:
    """PTX's name of a type that a reduction takes: bits for logic, and for sums of 64 bits u64."""
    name = element_name(element)
    if operation in _BITWISE and name[0] in "su":
        return f"b{name[1:]}"
    return "u64" if (operation, name) == ("add", "s64") else name


def _is_gapless(layout: Layout) -> bool:
    """Whether the elements fill consecutive places, in whatever order."""
    found = coalesce(layout)
    extents, strides = flatten(found.shape), flatten(found.stride)
    if not all(isinstance(each, int) for each in (*extents, *strides)):
        return False
    expected = 1
    for stride, extent in sorted(zip(strides, extents, strict=True)):  # pyright: ignore[reportArgumentType]
        if stride != expected and extent != 1:
            return False
        expected *= extent  # pyright: ignore[reportOperatorIssue]
    return True


def _bytes(type_: Any) -> int:
    size = type_.bits // 8
    for extent in type_.shape:
        size *= extent
    return size
