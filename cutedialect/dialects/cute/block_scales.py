"""What holds of a `cute.gemm` with scales of blocks: panels of words in memory beside whole tiles,
and a word for each row in registers beside the multiplies of a warp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, SSAValue

from cutedialect.dialects.checks import check
from cutedialect.dialects.cute_nvgpu import MmaType, Sm80MmaType

from .tile_ops import (
    HELD,
    HELD_TOGETHER,
    PANEL_COLUMNS,
    PANEL_ROWS,
    PANEL_WORDS,
    SCALINGS,
    SIX,
)
from .types import FragmentType, element_bits
from .views import element_of, shape_of

if TYPE_CHECKING:
    from .tile_ops import GemmOp


def panels_of(factor: SSAValue) -> tuple[int, int]:
    """Panels of rows and of columns of a tile of words of scales."""
    rows, words = shape_of(factor.type)
    return rows, words * element_bits(element_of(factor.type)) // (8 * PANEL_ROWS * PANEL_COLUMNS)


def verify_held(op: GemmOp) -> None:
    """Bytes of both operands hold whole rows of elements of 6 bits as TMA brings them."""
    names = op.held.data.split() if op.held is not None else []
    check(
        len(names) == 2 and HELD.keys() >= set(names),
        f"expected held to name elements of A and B ({', '.join(HELD)}), got {op.held}",
    )
    for value in (op.a, op.b):
        depth = shape_of(value.type)[1]
        is_whole = not isinstance(depth, int) or depth * 8 % (SIX * HELD_TOGETHER) == 0
        check(
            element_bits(element_of(value.type)) == 8 and is_whole,
            f"expected bytes of whole rows of {HELD_TOGETHER} elements of 6 bits, got {value.type}",
        )


def verify_scaling(op: GemmOp) -> None:
    """Factors of both operands lie in panels, or in words of registers."""
    check(
        len(op.factors) in ((0,) if op.scaling is None else (2, 3)),
        "expected two factors (and columns of tensor memory) with scaling, none without, got "
        f"{len(op.factors)}",
    )
    if op.scaling is None:
        return
    check(
        op.scales in SCALINGS,
        f"expected a scaling ({', '.join(SCALINGS)}), got {op.scales}",
    )
    check(
        op.negate is None and op.sums is None and op.slices == 1,
        "expected scales of blocks without negate, sums and slices",
    )
    is_bound = isinstance(op.atom, Sm80MmaType)
    columns, depth = PANEL_COLUMNS * SCALINGS[op.scales or ""], op.depth
    # A CTA of a pair has half of B, and the scales of all of it.
    for name, rows, factor in zip("AB", shape_of(op.acc.type), op.factors, strict=False):
        if not (isinstance(rows, int) and isinstance(depth, int)):
            continue
        check(
            rows % PANEL_ROWS == 0 and (is_bound or depth % columns == 0),
            f"expected {name} of multiples of ({PANEL_ROWS}, {columns}), whose scales are a "
            f"panel, got {(rows, depth)}",
        )
        panels, across = rows // PANEL_ROWS, 1 if is_bound else depth // columns
        wanted: list[tuple[tuple[int, int], Attribute]] = [((panels, PANEL_ROWS * across), i32)]
        if not is_bound:
            wanted.insert(0, ((panels, PANEL_WORDS * across), i64))
        found = shape_of(factor.type), element_of(factor.type)
        check(
            found in wanted and isinstance(factor.type, FragmentType) == is_bound,
            f"expected the scales of {name} as "
            + " or ".join(f"words ({element}) of shape {shape}" for shape, element in wanted)
            + f" in {'registers' if is_bound else 'memory'}, got {factor.type}",
        )


def verify_scaled_atom(op: GemmOp) -> None:
    """The bound atom multiplies the scales, which are where it reads them."""
    assert isinstance(op.atom, MmaType)
    scaling = op.atom.scaling
    in_registers = isinstance(op.atom, Sm80MmaType)
    count = (2 if in_registers else 3) if scaling else 0
    check(
        scaling == (op.scales or "") and len(op.factors) == count,
        f"expected the scales of the atom ({scaling or 'none'}), and "
        f"{'words' if in_registers else 'columns of tensor memory'} for them, got "
        f"{op.scales or 'none'} and {len(op.factors)} factors",
    )
    first, least = op.first_factor, 0
    if in_registers and scaling:
        least = op.atom.shape[2] // SCALINGS[scaling]
    check(
        first == 0 if not least else first % least == 0 and first + least <= PANEL_COLUMNS,
        f"expected first_scale to be a multiple of the {least or 'no'} scales of a row that the "
        f"atom takes of a word of {PANEL_COLUMNS}, got {first}",
    )
