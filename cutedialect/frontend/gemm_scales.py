"""The scales of `cute.gemm`: which numbers multiply which elements of an operand.

A host number joins alpha. An array has, for each of the operand's last two modes, one entry for the
whole mode, one for each index, or one for each block of 128: its spans say which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

from cutedialect.atoms import target

from .block_formats import PANEL, PANEL_WORDS, panels
from .dtypes import DType, e2m1, e2m3, e3m2, f32, i32, i64, ue4m3, ue8m0
from .gemm_operands import BYTE_FLOATS, expanded, transposed, viewable
from .kernel import TensorSpec
from .rules import Operand, as_operand, differ, is_dense, shapes_differ, shown

if TYPE_CHECKING:
    from cutedialect.schedule import Schedule

BLOCK = 128
# Targets whose warpgroups multiply, bits of a byte, and the most sums that leave a thread room for
# as many products.
_WARPGROUPS, _BYTE, _MOST_SUMS = "sm_90", 8, 96
# Columns from which sums leave no registers for scales of weights on their way: with them 256 rows
# took 1.05 to 1.21 times as long (an H200).
_WIDE_COLUMNS = 128
# Columns of a tile whose scales a thread reads while a step multiplies.
_MOST_COLUMNS = 96
# Rows of weights that may share a scale.
GROUPS = (128, 64, 32)
_WHOLE, _EACH = 0, 1
# What multiplies blocks by scales that threads read.
_BY_THREADS = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0"
# Modes of one panel.
_INSIDE = 3
# By the type of scales in panels: types of elements, how many share one, and the name in quantize.
_FORMATS = {
    "ue8m0": ((*BYTE_FLOATS, e2m1), 32, "mxfp8"),
    "e4m3": ((e2m1,), 16, "nvfp4"),
}
# What a swizzle of shared memory spans.
_DEPTH_BITS = 1024


@dataclass(frozen=True)
class Scale:
    """How the scale of an operand lies: `spans` are the elements of (rows, columns) that share an
    entry, 0 for all of them. `shape` is what the array is broadcast to, None where it is as given.
    """

    spans: tuple[int, int]
    rank: int
    shape: tuple[int | None, ...] | None = None
    dtype: DType = f32

    def view(self, value: Any, swapped: bool) -> Any:
        """The array as the tile program takes it."""
        if self.rank == 0:
            is_spec = isinstance(value, TensorSpec)
            return TensorSpec((1,), self.dtype) if is_spec else viewable(value).reshape(1)
        if self.shape is not None:
            value = expanded(value, self.shape)
        return transposed(value) if swapped and self.rank > 1 else value

    def argument(self, value: Any, swapped: bool) -> Any:
        """What the kernel is compiled for: single numbers at any address share one."""
        viewed = self.view(value, swapped)
        if self.spans == (_WHOLE, _WHOLE) and self.shape is None:
            rank = max(1, self.rank)
            align = min(4, self.dtype.bits // 8)
            return TensorSpec((1,) * rank, self.dtype, (None,) * (rank - 1) + (1,), align=align)
        return viewed


@dataclass(frozen=True)
class Panels(Scale):
    """Scales of blocks along K in panels of 128 rows of an operand (columns of b) and 4 blocks, as
    `cute.quantize(..., swizzled=True)` lays them out, which tensor cores read beside the operand.
    """

    scaling: str = ""
    is_read_by_threads: bool = False

    def view(self, value: Any, swapped: bool) -> Any:
        """Words of 64 bits: (batch..., panels of rows, 64 for each panel of blocks); where threads
        read them, twice as many of 32 bits.
        """
        from .quantize_operands import as_words_of

        *leading, columns = value.shape[: self.rank - _INSIDE]
        dtype, each = (i32, PANEL[0]) if self.is_read_by_threads else (i64, PANEL_WORDS)
        words = None if columns is None else columns * each
        return as_words_of(value, dtype, (*leading, words))

    def argument(self, value: Any, swapped: bool) -> Any:
        """What the kernel is compiled for. An array without blocks says nothing of its strides."""
        view = self.view(value, swapped)
        if 0 not in value.shape:
            return view
        dtype = i32 if self.is_read_by_threads else i64
        return TensorSpec((None,) * (self.rank - _INSIDE), dtype)


def panels_of(
    value: Any, name: str, operand: Operand, batch: Sequence[int | None], k_mode: int
) -> Panels:
    """The scales of blocks along K that an array (batch..., rows / 128, blocks / 4, 32, 4, 4) is:
    of ue8m0 for 32 elements, or of e4m3 for 16 of e2m1. An operand without batches has scales
    without.

    Raises TypeError or ValueError naming the argument where it is none, or where the operand has no
    such scales.
    """
    given = as_operand(value, name)
    kinds, block, format = _FORMATS[given.dtype.name]
    if operand.dtype not in kinds:
        listed = " or ".join("pairs of e2m1" if kind == e2m1 else kind.name for kind in kinds)
        raise TypeError(
            f"{name}: expected {operand.name} of {listed} with scales of {given.dtype.name} in "
            f"panels, got {operand.dtype.name}"
        )
    if given.dtype == ue8m0:
        format = {"e2m1": "mxfp4"}.get(operand.dtype.name, format)
        format = f"mxfp6_{operand.dtype.name}" if operand.dtype in (e2m3, e3m2) else format
    *leading, _, _ = operand.shape
    if leading and any(map(differ, leading, batch)):
        raise ValueError(
            f"{name}: expected {operand.name} with all batches {shown(batch)}, or without any, "
            f"beside scales in panels, got shape {shown(operand.shape)}"
        )
    extents = operand.shape[-2:]
    k, rows = extents[k_mode], extents[1 - k_mode]
    wanted = (*leading, *panels(rows, None if k is None else -(-k // block)))
    of = operand.name if k_mode == 1 else f"{operand.name}.T"
    if shapes_differ(given.shape, wanted):
        raise ValueError(
            f"{name}: expected scales of blocks of {block} in panels, {shown(wanted)}, got shape "
            f"{shown(given.shape)}; cute.quantize({of}, {format!r}, swizzled=True) gives them"
        )
    strides = given.array.strides if given.array is not None else given.value.strides
    if strides is not None and not is_dense(given.shape, strides):
        raise ValueError(f"{name}: expected panels without gaps, got strides {tuple(strides)}")
    spans = (_EACH, block) if k_mode == 1 else (block, _EACH)
    scale = ue8m0 if given.dtype == ue8m0 else ue4m3
    return Panels(spans, len(wanted), None, scale, f"{scale.name}x{block}")


def panel_facts(element: DType, scales: Sequence[Scale | None]) -> dict[str, int]:
    """What the choice of a schedule is told of a product with scales of blocks: bits of an element
    of an operand in memory, and how many share a scale.
    """
    block = max(span for scale in scales if scale for span in scale.spans)
    return {"bits": _bits(element), "scaled": block}


def _bits(element: DType) -> int:
    """Bits of an element beside scales in panels: those of 4 bits come in pairs."""
    return 4 if element == e2m1 else element.bits


def panel_tile(element: DType, arch: str) -> tuple[int, int, int]:
    """The tile of a product with scales of blocks where no space of schedules is asked: a panel of
    either operand. Threads that bring operands have four stages of rows of 64 bytes, or two.
    """
    rows, _ = PANEL
    by_threads = target(arch).has_instruction(_BY_THREADS)
    return rows, rows, rows if by_threads else _DEPTH_BITS // _bits(element)


def panel_constants(
    tile: Sequence[int], scales: Sequence[Scale | None], arch: str
) -> dict[str, object]:
    """The parameters of the tile program that say which scales tensor cores multiply.

    Raises ValueError where one operand alone has scales in panels, where the target does not
    multiply them, and where a tile takes parts of panels.
    """
    found = {each.scaling if isinstance(each, Panels) else None for each in scales}
    if len(found) > 1:
        raise ValueError(
            "scale_a, scale_b: expected scales in panels of one type for both operands, got "
            f"{' and '.join(sorted(x or 'none' for x in found))}; cute.quantize gives both"
        )
    chip = target(arch)
    if not (chip.tmem_columns or chip.has_instruction(_BY_THREADS)):
        raise ValueError(
            f"scale_a: expected f32 on {arch}, got scales in panels, whose products sm_100a, "
            "sm_120a and their families have; cute.quantize(x, 'fp8_block') gives scales of f32"
        )
    (scaling,) = found
    rows, blocks = PANEL
    steps = (rows, rows, blocks * max(span for scale in scales if scale for span in scale.spans))
    if any(extent % step for extent, step in zip(tile, steps, strict=True)):
        raise ValueError(
            f"schedule: expected a tile of multiples of {steps} with scales in panels, got "
            f"{tuple(tile)}"
        )
    return {"scaling": scaling}


def scales_on(
    scales: tuple[Scale | None, Scale | None], arch: str
) -> tuple[Scale | None, Scale | None]:
    """The scales of both operands as a target reads them."""
    by_threads = target(arch).has_instruction(_BY_THREADS)
    a, b = (
        replace(each, is_read_by_threads=by_threads) if isinstance(each, Panels) else each
        for each in scales
    )
    return a, b


def scale_constants(
    tile: Sequence[int],
    scales: Sequence[Scale | None],
    schedule: Schedule | None,
    arch: str,
    bits: int,
) -> dict[str, object]:
    """The parameters of the tile program that say how it takes scales: in panels, or by threads,
    which load those of blocks a step before the one that takes them: the assembler multiplies them
    with each other in front of the step's multiplies, which would wait for memory. Beside the next
    step's multiplies they have a step to come in, and those of weights come in their ring, in CTAs
    that share a tile and beside many columns too. Lines of those of bytes come in rings, where TMA
    takes them, and are read while the step multiplies; those of columns if they are few. `bits`:
    those of an element of A.
    """
    if any(isinstance(scale, Panels) for scale in scales):
        return panel_constants(tile, scales, arch)
    is_wide = arch.startswith(_WARPGROUPS) and tile[1] >= _WIDE_COLUMNS
    is_late = schedule is not None and (
        schedule.overlap == "yes" or (bits != _BYTE and (schedule.shares_tiles or is_wide))
    )
    bands = bands_of(tile, schedule, arch) if bits == _BYTE else 1
    rings = bits == _BYTE and arch.startswith(_WARPGROUPS)
    if schedule is not None:
        swapped = schedule.swap_ab == "yes" and tile[1] > _MOST_COLUMNS
        rings &= schedule.loads != "threads" and not swapped
    return {"loads_ahead": not is_late, "rings": rings, "bands": bands}


def bands_of(tile: Sequence[int], schedule: Schedule | None, arch: str) -> int:
    """Parts of a tile's rows whose products of 8-bit floats follow each other: two where threads of
    warpgroups have no room for those of all beside their sums.
    """
    if schedule is None or schedule.overlap == "yes" or not arch.startswith(_WARPGROUPS):
        return 1
    from cutedialect.choosing.gemm_problem import warpgroups
    from cutedialect.schedule import replace_set

    groups = warpgroups(replace_set(schedule, {"tile": tuple(tile)}))
    is_crowded = tile[0] * tile[1] > _MOST_SUMS * 128 * groups
    return 2 if is_crowded and tile[0] % (2 * 64 * groups) == 0 else 1


def view_of(scale: Scale, value: Any, swapped: bool) -> Any:
    """The array of a scale as the tile program takes it."""
    return scale.view(value, swapped)


def argument_of(scale: Scale, value: Any, swapped: bool) -> Any:
    """What the kernel is compiled for."""
    return scale.argument(value, swapped)


def member_of(scale: Scale, value: Any, swapped: bool) -> Any:
    """The same of one array of a list, to whose layout those without blocks add nothing."""
    return (scale.view if isinstance(scale, Panels) else scale.argument)(value, swapped)


def scale_of(
    value: Any,
    name: str,
    operand: Operand,
    batch: Sequence[int | None],
    k_mode: int,
    dtypes: Sequence[DType] = (f32,),
    groups: Sequence[int] = (BLOCK,),
) -> Scale:
    """The scale that an array of one of some types is, for an operand whose mode `k_mode` (0 or 1)
    is contracted, of which groups of so many elements may share an entry.

    Raises TypeError or ValueError naming the argument when its type or shape is none of a scale.
    """
    given = as_operand(value, name)
    if given.dtype == ue8m0 or operand.dtype == e2m1:
        return panels_of(value, name, operand, batch, k_mode)
    if given.dtype not in dtypes:
        names = " or ".join(each.name for each in dtypes)
        raise TypeError(f"{name}: expected {names}, got {given.dtype.name}")
    shape, extents = given.shape, operand.shape[-2:]
    if all(extent == 1 for extent in shape):
        return Scale((_WHOLE, _WHOLE), len(shape), None, given.dtype)
    if len(shape) == 1:
        free = 1 - k_mode
        span = _span(shape[0], extents[free], ())
        if span == _EACH:
            spans = (_EACH, _WHOLE) if free == 0 else (_WHOLE, _EACH)
            return Scale(spans, 1, None, given.dtype)
        raise _unfit(name, shape, extents, k_mode, groups)
    whole = (*batch, *shape[-2:])
    fits = len(shape) <= len(whole) and all(
        x in (1, y) or x is None or y is None
        for x, y in zip(shape[:-2], whole[len(whole) - len(shape) : -2], strict=True)
    )
    inner = _span(shape[-2 + k_mode], extents[k_mode], groups, each=False)
    outer = _span(
        shape[-1 - k_mode], extents[1 - k_mode], prefers_blocks=inner == BLOCK and k_mode == 0
    )
    if not fits or inner is None or outer is None:
        raise _unfit(name, shape, extents, k_mode, groups)
    spans = (outer, inner) if k_mode == 1 else (inner, outer)
    return Scale(spans, len(whole), None if shape == whole else whole, given.dtype)


def _span(
    count: int | None,
    extent: int | None,
    blocks: Sequence[int] = (BLOCK,),
    *,
    each: bool = True,
    prefers_blocks: bool = False,
) -> int | None:
    """Elements of a mode that share an entry when there are `count` entries, or None."""
    if count == 1:
        return _WHOLE
    unknown = count is None or extent is None
    fits_each = each and (unknown or count == extent)
    block = next(
        (each for each in blocks if unknown or count == -(-extent // each)),  # type: ignore[operator]
        None,
    )
    if block is not None and (prefers_blocks or not fits_each):
        return block
    return _EACH if fits_each else None


def _unfit(
    name: str,
    got: Sequence[int | None],
    extents: Sequence[int | None],
    k_mode: int,
    groups: Sequence[int],
) -> ValueError:
    m = extents[1 - k_mode]
    row = (m, 1) if k_mode == 1 else (1, m)
    blocks = [None if extent is None else -(-extent // BLOCK) for extent in extents]
    if k_mode == 1:
        blocks[0] = m
    each = "row" if k_mode == 1 else "column"
    if len(groups) > 1:
        k = extents[k_mode]
        rows = [shown((None if k is None else -(-k // g), m)) for g in groups]
        return ValueError(
            f"{name}: expected a number, one element, {shown((m,))} or {shown(row)} for each "
            f"{each}, {', '.join(rows)} for groups of {', '.join(map(str, groups))} rows, or "
            f"{shown(blocks)} for blocks of {BLOCK}, got shape {shown(got)}"
        )
    return ValueError(
        f"{name}: expected a number, one element, {shown((m,))} or {shown(row)} for each {each}, "
        f"or {shown(blocks)} for blocks of {BLOCK}, got shape {shown(got)}"
    )


def number_of(value: Any) -> float | None:
    """A host number as a float, None for anything else."""
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    return None


def fold_numbers(alpha: float, scale_a: Any, scale_b: Any) -> tuple[float, Any, Any]:
    """Scales that are host numbers become factors of alpha."""
    arrays: list[Any] = []
    for scale in (scale_a, scale_b):
        number = number_of(scale)
        alpha = alpha if number is None else alpha * number
        arrays.append(scale if number is None else None)
    return alpha, arrays[0], arrays[1]


def check_tile(tile: Sequence[int], spans: Sequence[int | None]) -> None:
    """Refuse a tile that would need several entries of a block scale, or parts of a block.

    `spans` are those along (M, N, K) of the tile, None for no scale.
    """
    for name, extent, span in zip(("rows", "columns", "depth"), tile, spans, strict=True):
        if span is not None and span > 1 and span % extent:
            raise ValueError(
                f"schedule: expected a tile whose {name} divide {span} with scales of {span}-"
                f"blocks, got {extent} in {tuple(tile)}"
            )
