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
from .gemm_operands import check_types, has_tcgen05, has_wgmma
from .plain_calls import PlainCall, PlainReady
from .routed_operands import NUMBERS, ROUTED_GEMM

# Rows of a tile, and of one for groups that are not larger on average; its columns, those where two
# products share it, and where one warpgroup alone holds 128 rows of the sums; bytes of its depth,
# and of that where all warps do the same.
_ROWS, _FEW_ROWS = 128, 64
_COLUMNS, _MOST_COLUMNS = 128, 256
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
        super().__init__(ROUTED_GEMM, None, given)
        from .library.routed_gemm import program_for

        sums = "" if self.scatter is None else ("atomics", "order")[len(self.scatter.shape) - 1]
        activation = given.activation
        self.program = program_for(exact(activation) if callable(activation) else activation, sums)

    def constants(self, arch: str, schedule: Schedule | None) -> dict[str, Any]:
        """The tile: the schedule's, or one for the groups' rows on average."""
        check_types(self.a, self.b, arch)
        tile = None if schedule is None else schedule.tile
        if tile is not None and len(tile) != 3:
            raise ValueError(f"schedule: expected a tile (M, N, K), got {tile}")
        return {"tile": tile or self._tile(arch)}

    def _tile(self, arch: str) -> tuple[int, int, int]:
        total = (self.a if self.rows is None else self.rows).shape[0]
        groups, columns = self.b.shape[0], self.b.shape[2]
        types = self.a.dtype, self.b.dtype, f32
        by_groups = has_wgmma(*types, arch) or has_tcgen05(*types, arch)
        has_few = None not in (total, groups) and total <= _FEW_ROWS * groups
        rows = _FEW_ROWS if has_few and not has_tcgen05(*types, arch) else _ROWS
        if not by_groups:
            rows = _FEW_ROWS if self.gated is not None else rows
            return rows, _COLUMNS, _SHORT_BYTES * 8 // self.a.dtype.bits
        is_wide = columns is None or columns >= _MOST_COLUMNS
        # Sums that threads add to memory want registers for their places.
        adds = self.scatter is not None and len(self.scatter.shape) == 1
        wide = is_wide and rows == _ROWS and self.gated is None and not adds
        depth = _DEPTH_BYTES * 8 // self.a.dtype.bits
        return rows, _MOST_COLUMNS if wide else _COLUMNS, depth


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
    routed_gemm = door.function(__name__)
