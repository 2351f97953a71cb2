"""Multiplies of CTA pairs (`tcgen05.mma.cta_group::2`): two CTAs of a cluster that lie one below
the other multiply their tiles at once. Each loads its own rows of A and half of the B that they
share, and the even one issues for both.

    A (256,K) = rows of CTA 0, rows of CTA 1     B (N,K) = half of CTA 0, half of CTA 1

Until `cute-synchronize` each CTA loads and multiplies its whole tile; a buffer of B with `pair` has
the halves one behind the other, and each CTA will keep one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.atoms import MmaAtom
from cutedialect.atoms.matrix_descriptor import matrix_descriptor
from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom, tcgen05_atom, tcgen05_of
from cutedialect.dialects.cute import GemmOp, MemRefType, element_bits, memref_of
from cutedialect.dialects.effects import is_in_memory
from cutedialect.layout import Layout
from cutedialect.passes.analysis.layout_inference import operand_major
from cutedialect.passes.analysis.memory_views import expression_of
from cutedialect.passes.analysis.mma_choice import (
    BoundMma,
    MmaChoice,
    untransposed,
)
from cutedialect.passes.analysis.operand_plans import multiplied_element
from cutedialect.passes.analysis.smem_layouts import Staging, operand_layout
from cutedialect.passes.analysis.tensor_maps import boxes_of, cluster_modes, deciding, is_joined
from cutedialect.passes.remarks import remark
from cutedialect.schedule import Schedule

# Rows of a product in each CTA: all lanes of tensor memory.
_ROWS = 128
# Where boxes start in shared memory (PTX ISA 5.5).
_BOX_ALIGNMENT = 128


def pair_atom(op: GemmOp, atom: Tcgen05Atom) -> Tcgen05Atom:
    """The atom of a CTA pair that multiplies what one CTA does with `atom`; ValueError that says
    why for none.
    """
    (m, n), (_, depth) = _shape(op.acc), _shape(op.a)
    if m % _ROWS:
        raise ValueError(f"each CTA of a pair multiplies {_ROWS} rows at once, got {m}")
    shape, scaling = (2 * _ROWS, n, atom.shape_mnk[2]), op.scales or ""
    paired = tcgen05_of(*atom.types[:3], shape, 2, scaling)
    layout, swizzle, _ = half_layout(op, op.b)
    bits = element_bits(multiplied_element(op, op.b))
    described = matrix_descriptor(layout, swizzle, bits, unit="tcgen05")
    if described.major == "MN" and not paired.transposes[1]:
        raise ValueError(f"no half of {n}x{depth} that is contiguous along N")
    return paired


def pair_multiplies(atoms: dict[GemmOp, BoundMma], schedule: Schedule) -> None:
    """Let CTA pairs multiply where the cluster has pairs, and no atom of one CTA is asked for."""
    cluster = schedule.cluster or (1, 1)
    names = {op: op.asked or schedule.atom for op in atoms}
    asked = [tcgen05_atom(name) for name in names.values() if name and "tcgen05" in name]
    must = any(atom.cta_group == 2 for atom in asked)
    if not must and (
        asked
        or cluster[0] % 2
        or not any(isinstance(bound.atom, Tcgen05Atom) for bound in atoms.values())
    ):
        return
    first = next(iter(atoms))
    try:
        paired = paired_atoms({op: bound.atom for op, bound in atoms.items()}, schedule)
    except ValueError as error:
        if must:
            raise PassFailedException(first, f"no multiply of a CTA pair: {error}") from error
        remark("cute-partition", first, f"no multiplies of CTA pairs: {error}")
        return
    for op, atom in paired.items():
        if names[op] not in (None, atom.name):
            raise PassFailedException(op, f"expected {atom.name} here, got {names[op]}")
        atoms[op] = replace(atoms[op], atom=atom)


def paired_type(op: GemmOp, tile: SSAValue) -> MemRefType:
    """The buffer of a tile of which each CTA of a pair keeps half of the rows."""
    layout, swizzle, alignment = half_layout(op, tile)
    alignment = max(alignment, _BOX_ALIGNMENT)
    element = multiplied_element(op, tile)
    whole = both_halves(layout, alignment * 8 // element_bits(element))
    return MemRefType.get(element, "smem", alignment, whole, swizzle)


def half_layout(op: GemmOp, tile: SSAValue) -> Staging:
    """(layout, swizzle, alignment) of half of an operand's rows in shared memory."""
    type_ = memref_of(tile)
    rows, depth = _shape(tile)
    if op.held_element(tile) is not None:
        depth = op.depth
    bits = element_bits(multiplied_element(op, tile))
    return operand_layout((rows // 2, depth), operand_major(type_), bits, "tcgen05")


def both_halves(layout: Layout, repeat: int) -> Layout:
    """A tile whose two halves of rows have a layout each and lie one behind the other, at a
    multiple of `repeat` elements.

    >>> print(both_halves(Layout((32, 64), (64, 1)), 512))
    ((32,2),64):((64,2048),1)
    """
    rows, depth = layout
    step = -(-layout.size() // repeat) * repeat
    return Layout(((rows.shape, 2), depth.shape), ((rows.stride, step), depth.stride))


def half_type(type_: MemRefType) -> MemRefType:
    """The half that a CTA keeps of a buffer with `pair`."""
    rows, depth = type_.layout
    (inner, _), (stride, _) = rows.shape, rows.stride  # pyright: ignore[reportGeneralTypeIssues]
    return type_.with_layout(Layout((inner, depth.shape), (stride, depth.stride)))


def paired_atoms(atoms: Mapping[GemmOp, MmaAtom], schedule: Schedule) -> dict[GemmOp, Tcgen05Atom]:
    """The atoms with which CTA pairs do all multiplies of a kernel, which has them in order;
    ValueError that says why for none.
    """
    paired: dict[GemmOp, Tcgen05Atom] = {}
    for op, atom in atoms.items():
        if not isinstance(atom, Tcgen05Atom):
            raise ValueError(f"one of its multiplies takes {atom.name}")
        if not is_in_memory(op.b):
            raise ValueError("B does not come by TMA: threads have it in registers")
        paired[op] = pair_atom(op, atom)
    if why := _why_alone(list(atoms), schedule):
        raise ValueError(why)
    return paired


def multiplies_in_pairs(
    gemms: Sequence[GemmOp], warps: tuple[int, int], arch: str, schedule: Schedule
) -> bool:
    """Whether CTA pairs will do the multiplies of a kernel with a schedule, before it is bound."""
    if _why_no_pairs(schedule):
        return False
    names = {op.asked or schedule.atom for op in gemms}
    if any(name and tcgen05_atom(name).cta_group == 1 for name in names):
        return False
    bound = {op: MmaChoice(op, arch, schedule.multiply).bind(warps) for op in gemms}
    try:
        atoms = {op: each.atom for op, each in bound.items() if each is not None}
        return len(paired_atoms(atoms, schedule)) == len(gemms)
    except ValueError:
        return False


def _why_no_pairs(schedule: Schedule) -> str:
    """What in a schedule keeps CTAs from pairs, whatever they multiply; empty if nothing does."""
    cluster = schedule.cluster or (1, 1)
    if schedule.loads == "threads":
        return "threads copy the operands (loads = threads)"
    if cluster[0] % 2:
        return f"expected an even number of CTAs along M in a cluster, got {cluster}"
    return ""


def _why_alone(gemms: list[GemmOp], schedule: Schedule) -> str:
    if why := _why_no_pairs(schedule):
        return why
    cluster = schedule.cluster or (1, 1)
    sides = [{expression_of(untransposed(tile)[0]) for tile in side if is_in_memory(tile)}
             for side in ([op.a for op in gemms], [op.b for op in gemms])]  # fmt: skip
    if sides[0] & sides[1]:
        return "a tile is an operand of A and of B, and a pair shares B alone"
    for op in gemms:
        if any(cluster_modes(value) != set() for value in deciding(op)):
            return (
                "control around it differs between the CTAs of a pair; take cute.cluster_min and "
                "cute.cluster_max of where loops begin and end"
            )
        # An A that threads compute is that of their own rows.
        by_tma = [("A", op.a, True)] if is_in_memory(op.a) else []
        for name, tile, wanted in (*by_tma, ("B", op.b, False)):
            reached = cluster_modes(tile)
            if reached is None or (0 in reached) is not wanted:
                return f"expected {'a tile' if wanted else 'the same tile'} of {name} for each CTA"
            if why := _why_no_boxes(tile, cluster, is_half=not wanted):
                return f"{name} does not come by TMA: {why}"
    return ""


def _why_no_boxes(tile: SSAValue, cluster: tuple[int, int], is_half: bool) -> str:
    type_ = memref_of(tile)
    if is_joined(tile):
        return "it is put together from several tiles"
    rows, depth = _shape(tile)
    shape = (rows // 2, depth) if is_half else (rows, depth)
    layout, _, _ = operand_layout(shape, operand_major(type_), type_.bits, "tcgen05")
    found = boxes_of(tile, shape, layout, cluster[0] // 2 if is_half else cluster[1])
    return found if isinstance(found, str) else ""


def _shape(value: SSAValue) -> tuple[int, int]:
    rows, columns = value.type.shape  # pyright: ignore[reportAttributeAccessIssue]
    return rows, columns
