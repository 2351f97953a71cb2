"""`mma.sync`: one op for all instructions of a `cute.gemm`, their registers in tables."""

from __future__ import annotations

from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms import MmaAtom, find_mma
from cutedialect.dialects import ptx
from cutedialect.dialects.cute import GemmOp
from cutedialect.dialects.cute_nvgpu import Sm80MmaType
from cutedialect.dialects.element_names import element_name, operand_name
from cutedialect.layout import Layout, product

from .context import Context, fail
from .elementwise import Fragment, as_operand

_LANES = 32


def lower_gemm(context: Context, op: GemmOp, a: Fragment, b: Fragment, acc: Fragment) -> None:
    """acc += a b^T; k outermost, so that an accumulator rests between two of its updates."""
    atom = _atom(context, op)
    counts = (atom.registers_c, atom.registers_a, atom.registers_b)
    grids = [
        _grid(op, "abc"[i], each, values, layout)
        for i, (each, values, layout) in enumerate(
            zip(
                (a, b, acc), atom.values, (atom.a_layout, atom.b_layout, atom.c_layout), strict=True
            )
        )
    ]
    (rows_a, depth_a), (columns_b, depth_b), (rows, columns) = grids
    if (rows_a, columns_b) != (rows, columns) or depth_a != depth_b:
        raise fail(
            op,
            f"expected repetitions (M,K), (N,K) and (M,N) that agree, got {grids[0]}, {grids[1]} "
            f"and {grids[2]}",
        )
    c_table, a_table, b_table = [], [], []
    for k in range(depth_a):
        for n in range(columns):
            for step in range(rows):
                # Every other column runs backwards: the last A registers are used again at once.
                m = step if n % 2 == 0 else rows - 1 - step
                c_table.append((m + rows * n) * counts[0])
                a_table.append((m + rows * k) * counts[1])
                b_table.append((n + columns * k) * counts[2])
    modifiers = atom.ptx.split(".", 1)[1]
    context.builder.emit(
        ptx.MmaOp(
            modifiers,
            acc.array,
            as_operand(context, a),
            as_operand(context, b),
            counts,
            c_table,
            a_table,
            b_table,
        )
    )


def _atom(context: Context, op: GemmOp) -> MmaAtom:
    type_ = op.atom
    if not isinstance(type_, Sm80MmaType):
        raise fail(op, f"expected an MMA atom (cute_nvgpu.sm80.mma), got {type_}")
    if type_.kind:
        try:
            return type_.entry(context.arch)
        except VerifyException as error:
            raise fail(op, str(error)) from error
    try:
        found = find_mma(
            operand_name(type_.a), operand_name(type_.b), element_name(type_.c), context.arch
        )
    except ValueError as error:
        raise fail(op, str(error)) from error
    for atom in found:
        if atom.shape_mnk == type_.shape and atom.thr_id.size() == _LANES:
            return atom
    whole = [atom for atom in found if atom.thr_id.size() == _LANES]
    shapes = ", ".join("x".join(map(str, atom.shape_mnk)) for atom in whole)
    shapes = shapes or "none of a whole warp, but of its quarters"
    raise fail(
        op,
        f"expected a shape that {context.arch} has for these types ({shapes}), "
        f"got {'x'.join(map(str, type_.shape))}",
    )


def _grid(op: GemmOp, name: str, fragment: Fragment, values: int, atom: Layout) -> tuple[int, int]:
    """How often the atom repeats along the two modes of an operand."""
    tv = fragment.type.tv
    if tv is None:
        raise fail(op, f"expected operand {name} bound to a thread-value layout")
    modes = tv.shape[1]  # type: ignore[index]
    if not isinstance(modes, tuple) or len(modes) != 3 or product(modes[0]) != values:
        raise fail(
            op,
            f"expected values (atom, rest, rest) with {values} values of the atom {atom} in "
            f"operand {name}, got {modes}",
        )
    return product(modes[1]), product(modes[2])
