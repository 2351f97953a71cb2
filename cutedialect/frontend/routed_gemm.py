"""`cute.routed_gemm`: products of groups of rows, whose offsets are numbers on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cutedialect.backend.runtime.arrays import tensor_argument
from cutedialect.schedule import Schedule

from .captured import exact
from .doors import Door
from .dtypes import f32
from .gemm_operands import check_types, has_tcgen05, has_wgmma, is_widened
from .gemm_scales import number_of
from .gemm_weights import check_blocks
from .packed import Packed, Packing, packing_from
from .plain_calls import PlainCall, PlainReady
from .routed_operands import NUMBERS, ROUTED_GEMM, matrix_of
from .rules import as_operand, tile_of

_ZEROS = ("zero_b", "zero_gated")
# Rows of a tile, and of one for groups that are not larger on average; its columns, those where two
# products share it, where one warpgroup alone holds 128 rows of the sums, and of two products that
# are added to memory, or of narrow numbers; bytes of its depth, and of that where all warps do the
# same.
_ROWS, _FEW_ROWS = 128, 64
_COLUMNS, _MOST_COLUMNS = 128, 256
_FEW_COLUMNS = 64
_DEPTH_BYTES, _SHORT_BYTES = 128, 64


@dataclass
class RoutedReady(PlainReady):
    """Such a call after its checks. Of arrays of the host the numbers are checked, too."""

    def run(self, arrays: Sequence[Any], numbers: tuple[float, ...], stream: Any) -> Any:
        _check_numbers(dict(zip(self.names, arrays, strict=True)), self.out_shape[0])
        return super().run(arrays, numbers, stream)


class RoutedCall(PlainCall):
    """The checked arguments of a call."""

    ready_type = RoutedReady

    def __init__(self, given: SimpleNamespace) -> None:
        _unwrap(given)
        super().__init__(ROUTED_GEMM, None, given)
        from .library.routed_gemm import program_for

        sums = "" if self.scatter is None else ("atomics", "order")[len(self.scatter.shape) - 1]
        activation = given.activation
        self.program = program_for(exact(activation) if callable(activation) else activation, sums)

    def constants(self, arch: str, schedule: Schedule | None) -> dict[str, Any]:
        """The tile: the schedule's, or one for the groups' rows on average."""
        check_types(self.a, self.b, arch)
        found: dict[str, Any] = {"tile": tile_of(schedule) or self._tile(arch)}
        self._check_groups(found["tile"])
        spans = (
            (self.scale_b_spans, self.zero_b_spans),
            (self.scale_gated_spans, self.zero_gated_spans),
        )
        zeros = tuple(number_of(getattr(self.given, name)) or 0.0 for name in _ZEROS)
        for name, value, default in (
            ("spans", spans, (((0, 0), (0, 0)),) * 2),
            ("zeros", zeros, (0.0, 0.0)),
            ("packed", self._packed(found["tile"]), None),
            # Threads of warpgroups multiply the weights that they convert from registers.
            ("turned", self._is_weight and has_wgmma(*self._types, arch), False),
        ):
            if value != default:
                found[name] = value
        return found

    @property
    def _types(self) -> tuple[Any, Any, Any]:
        return self.a.dtype, self.b.dtype, f32

    @property
    def _is_weight(self) -> bool:
        return is_widened(self.a.dtype, self.b.dtype)

    @property
    def _group(self) -> int:
        """Rows of K that share a scale or a zero, 0 for all."""
        names = ("scale_b", "zero_b", "scale_gated", "zero_gated")
        spans = [getattr(self, f"{name}_spans")[0] for name in names]
        return min([each for each in spans if each] or [0])

    def _check_groups(self, tile: Sequence[int]) -> None:
        """Refuse a tile of which steps have parts of groups."""
        if self._group and self._group % tile[2]:
            raise ValueError(
                f"schedule: expected a tile whose depth divides {self._group}, the rows of K that "
                f"share a scale, got {tuple(tile)}"
            )

    @property
    def _packing(self) -> Packing | None:
        """How integers hold the elements of the matrices, if they hold several."""
        text = self.given.packed_b
        if text is None:
            return None
        return packing_from(text, as_operand(self.b.value, "b").dtype, len(self.b.shape))

    def _packed(self, tile: Sequence[int]) -> tuple[Any, ...] | None:
        """The same as the program takes it; refuses a tile of parts of blocks."""
        packing = self._packing
        if packing is None:
            return None
        remedy = "; cute.pack takes an order of blocks that divide groups"
        check_blocks(tile, (0, 2, 1)[packing.axis], packing, remedy)
        return packing.dtype.name, packing.axis, str(packing.order)

    def _tile(self, arch: str) -> tuple[int, int, int]:
        in_tensor_memory = has_tcgen05(*self._types, arch)
        by_groups = in_tensor_memory or has_wgmma(*self._types, arch)
        depth = self._depth(_DEPTH_BYTES if by_groups else _SHORT_BYTES)
        is_gated = self.gated is not None
        if self._is_weight or self.scale_a is not None:
            # Numbers that become wider, and products beside their sums, take registers.
            is_tall = in_tensor_memory and not self._is_weight
            few = is_tall or is_gated
            return _ROWS if is_tall else _FEW_ROWS, _FEW_COLUMNS if few else _COLUMNS, depth
        if not by_groups:
            return _FEW_ROWS if self._has_few or is_gated else _ROWS, _COLUMNS, depth
        rows = _FEW_ROWS if self._has_few and not in_tensor_memory else _ROWS
        return rows, self._columns(rows), depth

    @property
    def _has_few(self) -> bool:
        """Whether groups are not larger than the lower tile on average."""
        total = (self.a if self.rows is None else self.rows).shape[0]
        groups = self.b.shape[0]
        return total is not None and groups is not None and total <= _FEW_ROWS * groups

    def _columns(self, rows: int) -> int:
        """The columns of a tile of warpgroups or of tensor memory."""
        # Sums that threads add to memory want registers for their places.
        adds = self.scatter is not None and len(self.scatter.shape) == 1
        if self.gated is not None:
            return _FEW_COLUMNS if adds else _COLUMNS
        columns = self.b.shape[2]
        is_wide = columns is None or columns >= _MOST_COLUMNS
        return _MOST_COLUMNS if is_wide and rows == _ROWS and not adds else _COLUMNS

    def _depth(self, most: int) -> int:
        """The depth of a step of so many bytes, of whole blocks of packed elements, which divides
        groups that share a scale.
        """
        depth = most * 8 // self.a.dtype.bits
        if (packing := self._packing) is not None:
            depth = max(depth, packing.block)
        return min(depth, self._group or depth)


def _unwrap(given: SimpleNamespace) -> None:
    """Take packed matrices apart, of calls that are compiled without being run."""
    if type(given.b) is Packed:
        given.b, given.packed_b = given.b.array, given.b.text
    if type(given.gated) is Packed:
        given.gated = matrix_of(given.gated, given.packed_b)


def _check_numbers(given: dict[str, Any], count: int | None) -> None:
    """Refuse offsets that fall and numbers of no rows, of those that lie where they can be read at
    once; -1 is the number of no row.
    """
    found = {name: _of_host(given[name]) for name in NUMBERS}
    total = given["a" if given["rows"] is None else "rows"].shape[0]
    offsets, lengths, scatter = found["offsets"], found["lengths"], found["scatter"]
    if offsets is not None:
        falls = (offsets[1:] < offsets[:-1]).nonzero()[0]
        if len(falls):
            at = int(falls[0])
            raise ValueError(
                f"offsets: expected numbers that do not fall, got {offsets[at + 1]} behind "
                f"{offsets[at]} at {at + 1}"
            )
        if offsets[0] < 0 or offsets[-1] > total:
            raise ValueError(
                f"offsets: expected 0 to {total}, the rows that there are, got {offsets[0]} to "
                f"{offsets[-1]}"
            )
    if lengths is not None and len(lengths) and lengths.min() < 0:
        raise ValueError(f"lengths: expected 0 or more, got {lengths.min()}")
    is_of_sums = scatter is not None and scatter.ndim > 1
    rows = {"rows": given["a"].shape[0], "scatter": total if is_of_sums else count}
    for name, most in rows.items():
        numbers = found[name]
        if numbers is None or most is None:
            continue
        wrong = numbers[(numbers < -1) | (numbers >= most)]
        if len(wrong):
            raise ValueError(
                f"{name}: expected numbers of the {most} rows, or -1 for none, got {wrong[0]}"
            )


def _of_host(value: Any) -> Any:
    """An array of the host, as one of NumPy."""
    found = None if value is None else tensor_argument(value)
    if found is None or found.device is not None:
        return None
    import numpy as np

    return np.asarray(value)


door: Door[RoutedCall, RoutedReady] = Door(ROUTED_GEMM, RoutedCall)

if TYPE_CHECKING:
    from .typed_calls import routed_gemm
else:
    _NAMES = {"Packed": Packed, "matrix_of": matrix_of, "number_of": number_of}
    routed_gemm = door.function(__name__, _NAMES)
