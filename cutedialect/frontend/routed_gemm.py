"""`cute.routed_gemm`: products of groups of rows, whose offsets are numbers on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cutedialect.atoms import usual_device
from cutedialect.backend.runtime.arrays import tensor_argument
from cutedialect.choosing.choose import choose
from cutedialect.choosing.gathered_space import GATHERED, GatheredProblem, beside_tile
from cutedialect.schedule import Schedule

from .captured import exact
from .doors import Door
from .dtypes import f32
from .fitting import Memory, fitted
from .gemm_operands import check_types, is_widened, unit_of
from .gemm_scales import number_of
from .gemm_weights import check_blocks
from .launch import as_schedule
from .packed import Packed, Packing, packing_from
from .plain_calls import PlainCall, PlainReady
from .routed_operands import NUMBERS, ROUTED_GEMM, matrix_of
from .rules import as_operand, tile_of

_ZEROS = ("zero_b", "zero_gated")


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

    def prepare(self) -> PlainReady:
        """Compile (or find) the kernel of a tile that is given, or chosen for the groups' rows on
        average.
        """
        given, arch = self.given, self.target()

        def prepared(asked: Schedule | None, chosen: Schedule | None) -> PlainReady:
            if chosen is not None:
                return self.prepared_with(beside_tile(chosen), arch, chosen.tile)
            if asked is not None and self._is_turned(arch):
                # Tiles of the kernel are those of the transposed product.
                return self.prepared_with(beside_tile(asked), arch, asked.tile)
            return self.prepared_with(asked, arch)

        def choice(asked: Schedule | None) -> Any:
            if 0 in self.out_shape or tile_of(asked) is not None:
                return None
            return partial(choose, GATHERED, self.problem(arch), asked)

        memory = Memory(lambda: f"{self.call.name} {self.a.dtype.name} {self.b.dtype.name}", arch)
        return fitted(prepared, choice, as_schedule(given.schedule), given.backend, memory)

    def problem(self, arch: str) -> GatheredProblem:
        """What a tile is chosen for."""
        check_types(self.a, self.b, arch)
        total = (self.a if self.rows is None else self.rows).shape[0]
        groups, depth, columns = self.b.shape
        rows = None if total is None or groups is None else -(-total // max(1, groups))
        packing = self._packing
        return GatheredProblem(
            "rows", rows, columns, depth, groups or 1, self.a.dtype.bits,
            unit_of(self._types, arch), is_gated=self.gated is not None,
            adds=self.scatter is not None and len(self.scatter.shape) == 1,
            is_weight=self._is_weight, has_blocks=self.scale_a is not None, group=self._group,
            block=1 if packing is None else packing.block, device=usual_device(arch),
        )  # fmt: skip

    def constants(self, arch: str, tile: tuple[int, ...] | None) -> dict[str, Any]:
        """Compile-time parameters."""
        assert tile is not None
        found: dict[str, Any] = {"tile": tile}
        self._check_groups(tile)
        spans = (
            (self.scale_b_spans, self.zero_b_spans),
            (self.scale_gated_spans, self.zero_gated_spans),
        )
        zeros = tuple(number_of(getattr(self.given, name)) or 0.0 for name in _ZEROS)
        for name, value, default in (
            ("spans", spans, (((0, 0), (0, 0)),) * 2),
            ("zeros", zeros, (0.0, 0.0)),
            ("packed", self._packed(tile), None),
            ("turned", self._is_turned(arch), False),
        ):
            if value != default:
                found[name] = value
        return found

    def _is_turned(self, arch: str) -> bool:
        """Whether threads of warpgroups multiply the weights that they convert from registers."""
        return self._is_weight and unit_of(self._types, arch) == "groups"

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
