"""Which MMA atom a `cute.gemm` gets: `tcgen05` where tensor memory can hold its accumulator,
`wgmma` where a warpgroup can feed it, else `mma.sync`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
)
from xdsl.ir import Attribute, SSAValue

from cutedialect.atoms import MmaAtom, find_mma, mma_atom, target, targets_with
from cutedialect.atoms.matrix_descriptor import matrix_descriptor
from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom, find_tcgen05, tcgen05_of
from cutedialect.atoms.tmem_layouts import COLUMNS
from cutedialect.atoms.wgmma_atoms import WgmmaAtom, find_wgmma
from cutedialect.dialects.cute import (
    FragmentType,
    GemmOp,
    MemRefType,
    TransposeOp,
    element_bits,
    element_of,
    named_copy,
    shape_of,
)
from cutedialect.dialects.element_names import element_name, operand_name
from cutedialect.layout import Layout, LayoutError
from cutedialect.passes.bind.layout_inference import (
    begins_anywhere,
    contiguous_mode,
    operand_major,
    vector_bytes,
)
from cutedialect.passes.bind.smem_layouts import operand_layout
from cutedialect.passes.bind.tensor_accumulators import tensor_plan
from cutedialect.passes.bind.tensor_maps import asks_tiles_around, is_joined
from cutedialect.passes.bind.thread_layouts import mma_accumulator, tensor_accumulator

_GROUP = 4
# Bytes of the narrowest asynchronous copy.
_LEAST_ASYNC = 4
_LANES = 32
_WORD_BITS = 32
# Bits of the elements of register tiles that are written to shared memory for a unit.
_STAGED_BITS = {"wgmma": (16,), "tcgen05": (8, 16)}
# Columns of 16 bits that the widest swizzle holds side by side.
_SPAN = 64
# Rows of tensor memory, which one warpgroup reads.
_TENSOR_ROWS = 128
# Elements of accumulators in registers of a thread beside which it has room for a product.
_MOST_SUMMED = 128


def choose_mma(
    op: GemmOp,
    warps: tuple[int, int],
    arch: str,
    asked: str | None = None,
    has_load_role: bool = True,
) -> MmaAtom | None:
    """The atom for a multiply on a grid of warps, or None where the tile does not divide. Those of
    warpgroups want their operands from a role that loads.

    Raises `ValueError` when the target has no atom for the types, or nothing has the name `asked`,
    and where no multiply of warpgroups gives the sums that the program wants.
    """
    if op.sums is not None:
        return _with_sums(op, warps, arch, has_load_role)
    asked = op.asked or asked
    if asked is not None:
        named = _named(op, mma_atom(asked), arch, has_load_role)
        return named if _divides(op, named, warps) else None
    candidates: Sequence[MmaAtom] = _warp_wide(op, arch)
    if has_load_role:
        candidates = [*_tcgen05(op, warps, arch), *_wgmma(op, warps, arch), *candidates]
    return next((atom for atom in candidates if _divides(op, atom, warps)), None)


def _with_sums(
    op: GemmOp, warps: tuple[int, int], arch: str, has_load_role: bool
) -> WgmmaAtom | None:
    """The atom of a multiply that adds up the rows of A, too: one as wide as the accumulator, with
    A in registers, beside whose B, one span of a swizzle wide, a tile of ones lies.
    """
    columns = shape_of(op.acc.type)[1] - op.columns_of_sums
    is_power = columns <= _SPAN and columns & (columns - 1) == 0
    is_short = isinstance(op.b.type, MemRefType) and op.b.type.bits == 16
    found = [each for each in _wgmma(op, (_GROUP, 1), arch) if each.shape_mnk[1] == columns + 8]
    why = ""
    if not isinstance(op.a.type, FragmentType):
        why = "A in memory"
    elif target(arch) not in [target(name) for name in targets_with("sm_90a")]:
        why = f"target {arch}"
    elif not found or not is_short or contiguous_mode(op.b.type) != 0:  # pyright: ignore[reportArgumentType]
        why = f"B {op.b.type}"
    elif not is_power:
        why = f"{columns} columns"
    elif not has_load_role:
        why = "a schedule with roles = uniform"
    if why:
        raise ValueError(
            "sums: expected a multiply by warpgroups (wgmma) whose A is in registers, and whose B "
            f"has 16, 32 or {_SPAN} columns of 16 bits that are contiguous in memory, got {why}; "
            "add cute.row_sum(a) to a tile of its own"
        )
    return found[0] if warps[1] == 1 and _divides(op, found[0], warps) else None


def _divides(op: GemmOp, atom: MmaAtom, warps: tuple[int, int]) -> bool:
    """Whether a grid of warps divides a multiply's tile into products of an atom."""
    wm, wn = warps
    m, n = shape_of(op.acc.type)
    k = shape_of(op.a.type)[1]
    am, an, ak = atom.shape_mnk
    if isinstance(atom, Tcgen05Atom):
        # Each product is on all rows of tensor memory, but for one row of products.
        is_whole = m == am or (am == _TENSOR_ROWS and m % am == 0)
        return is_whole and n % an == 0 and k % ak == 0
    if isinstance(atom, WgmmaAtom):
        if wm % _GROUP:
            return False
        wm //= _GROUP
    return m % (am * wm) == 0 and n % (an * wn) == 0 and k % ak == 0


def _named(op: GemmOp, atom: MmaAtom, arch: str, has_load_role: bool) -> MmaAtom:
    """An atom that was asked for by name; ValueError that says why it does not do here."""
    names = _names(op)
    if tuple(atom.types[:3]) != names:
        a, b, c, _ = atom.types
        raise ValueError(
            f"expected an atom for {names[0]} x {names[1]} into {names[2]}, got {atom.name} for "
            f"{a} x {b} into {c}"
        )
    if not atom.is_legal_on(arch):
        raise ValueError(
            f"expected an atom that {arch} has, got {atom.name}, which needs {atom.requires}"
        )
    if isinstance(atom, Tcgen05Atom):
        why = _not_tcgen05(op, (_GROUP, 1), arch, has_load_role)
        if atom.cta_group == 2 and not atom.scale:
            # What each of the two CTAs does; `multiply_pairs.py` puts them together.
            m, n, k = atom.shape_mnk
            atom = tcgen05_of(*names, (m // 2, n, k))
        if not why and atom not in find_tcgen05(*names, arch):
            why = "expected one without scales of blocks"
        if why:
            raise ValueError(f"{atom.name}: {why}")
    elif isinstance(atom, WgmmaAtom):
        whole_group = (_GROUP, 1)
        if not _divides(op, atom, whole_group):
            fitting = [each for each in find_wgmma(*names, arch) if _divides(op, each, whole_group)]
            widest = max(fitting, key=lambda each: each.shape_mnk[1], default=None)
            raise ValueError(
                f"{atom.name}: expected a tile of multiples of {atom.shape_mnk}, got "
                f"{(*shape_of(op.acc.type), shape_of(op.a.type)[1])}"
                + ("" if widest is None else f"; {widest.name} divides it")
            )
        if not _wgmma(op, whole_group, arch):
            raise ValueError(f"{atom.name}: {_not_wgmma(op, whole_group, arch, True)}")
        if not has_load_role:
            raise ValueError(
                f"{atom.name}: its operands come from a role that loads; expected the roles "
                "specialized or alternate, got uniform"
            )
    elif atom.thr_id.size() != _LANES:
        try:
            there = ", ".join(each.name for each in _warp_wide(op, arch))
        except ValueError:
            there = "none"
        raise ValueError(
            "expected an atom of which a whole warp computes one product, got "
            f"{atom.name}, of which the four quarters of a warp compute one each (sm_70); of whole "
            f"warps there are on {arch}: {there}"
        )
    return atom


def grids_that_divide(
    op: GemmOp,
    warps: tuple[int, int],
    arch: str,
    asked: str | None = None,
    has_load_role: bool = True,
) -> list[tuple[int, int]]:
    """The grids of warps for which a multiply has an atom, those of as many warps first."""
    count = warps[0] * warps[1]
    grids = [(wm, wn) for wm in (1, 2, 4, 8, 16) for wn in (1, 2, 4, 8, 16) if wm * wn <= 16]
    fit = [grid for grid in grids if choose_mma(op, grid, arch, asked, has_load_role) is not None]
    return sorted(fit, key=lambda grid: (abs(grid[0] * grid[1] - count), abs(grid[0] - warps[0])))


@dataclass(frozen=True)
class BoundMma:
    """The atom of a multiply, and the grid of warps that share its tile."""

    atom: MmaAtom
    warps: tuple[int, int]

    @property
    def units(self) -> tuple[int, int]:
        """The grid of warps, or of warpgroups where the atom takes four warps at once."""
        wm, wn = self.warps
        return (wm // _GROUP, wn) if isinstance(self.atom, WgmmaAtom) else (wm, wn)

    def accumulator(self, shape: tuple[int, int]) -> Layout:
        """Which thread holds what of an accumulator that the multiply makes."""
        if isinstance(self.atom, Tcgen05Atom):
            return tensor_accumulator(shape, self.warps)
        return mma_accumulator(self.atom, shape, self.units)

    def makes(self, tile: FragmentType) -> bool:
        """Whether a register tile lies in threads as an accumulator of the multiply does."""
        try:
            return tile.tv == self.accumulator(tile.shape)  # pyright: ignore[reportArgumentType]
        except LayoutError:
            return False


def bind_mma(
    op: GemmOp,
    warps: tuple[int, int],
    arch: str,
    asked: str | None = None,
    has_load_role: bool = True,
    is_fixed: bool = False,
) -> BoundMma | None:
    """The atom for a multiply and a grid of as many warps as `warps` has: that one, unless only
    another one (not if the grid `is_fixed`) divides the tile, or lets warpgroups multiply.

    Raises `ValueError` as `choose_mma` does.
    """
    atom = choose_mma(op, warps, arch, asked, has_load_role)
    if (
        is_fixed
        or isinstance(atom, WgmmaAtom | Tcgen05Atom)
        or (atom is not None and not has_load_role)
    ):
        return None if atom is None else BoundMma(atom, warps)
    count = warps[0] * warps[1]
    found = [] if atom is None else [BoundMma(atom, warps)]
    for grid in grids_that_divide(op, warps, arch, asked, has_load_role):
        if grid[0] * grid[1] == count:
            other = choose_mma(op, grid, arch, asked, has_load_role)
            assert other is not None
            if isinstance(other, WgmmaAtom | Tcgen05Atom):
                return BoundMma(other, grid)
            found.append(BoundMma(other, grid))
    return found[0] if found else None


def takes_wgmma(op: GemmOp, warps: tuple[int, int], arch: str, asked: str | None = None) -> bool:
    """Whether `bind_mma` takes a warpgroup atom."""
    return _takes(WgmmaAtom, op, warps, arch, asked)


def takes_tcgen05(op: GemmOp, warps: tuple[int, int], arch: str, asked: str | None = None) -> bool:
    """Whether `bind_mma` takes an atom that accumulates in tensor memory."""
    return _takes(Tcgen05Atom, op, warps, arch, asked)


def _takes(
    kind: type[MmaAtom], op: GemmOp, warps: tuple[int, int], arch: str, asked: str | None
) -> bool:
    try:
        bound = bind_mma(op, warps, arch, asked)
    except ValueError:
        return False
    return bound is not None and isinstance(bound.atom, kind)


def shapes_of(op: GemmOp, arch: str) -> str:
    """The shapes of the atoms for the operands' types, for messages."""
    return ", ".join(str(atom.shape_mnk) for atom in _warp_wide(op, arch))


def _warp_wide(op: GemmOp, arch: str) -> Sequence[MmaAtom]:
    """The `mma.sync` atoms of a target in which the lanes of a warp multiply one tile."""
    found = [atom for atom in find_mma(*_names(op), arch) if atom.thr_id.size() == _LANES]
    if not found:
        raise ValueError(
            f"expected sm_75 or later to multiply {' by '.join(_names(op)[:2])}, got {arch}, "
            "where quarters of a warp multiply tiles of their own"
        )
    return found


def declined(
    op: GemmOp, taken: MmaAtom, warps: tuple[int, int], arch: str, has_load_role: bool
) -> str:
    """Why a multiply does not use the fastest tensor cores of its target; empty where it does."""
    chip = target(arch)
    if isinstance(taken, WgmmaAtom | Tcgen05Atom):
        return ""
    warpgroup_wide = [target(name) for name in targets_with("sm_90a")]
    if chip not in warpgroup_wide:
        if chip.tmem_columns:
            why = _not_tcgen05(op, warps, arch, has_load_role)
            return f"tcgen05.mma not taken, but {taken.name}: {why}"
        if chip.number > max(each.number for each in warpgroup_wide):
            return f"{arch} has no path of its own: {taken.name} takes the way of sm_80"
        if any(each.number == chip.number for each in warpgroup_wide):
            near = ", ".join(each.name for each in warpgroup_wide)
            return f"wgmma not taken, but {taken.name}: {near} has it, got {arch}"
        return ""
    return f"wgmma not taken, but {taken.name}: {_not_wgmma(op, warps, arch, has_load_role)}"


def _not_wgmma(op: GemmOp, warps: tuple[int, int], arch: str, has_load_role: bool) -> str:
    """What keeps warpgroups from a multiply; of several reasons the one that the program, not the
    schedule, gives.
    """
    a, b, _ = _names(op)
    try:
        shapes = find_wgmma(*_names(op), arch)
    except ValueError as error:
        return str(error)
    if isinstance(op.b.type, FragmentType):
        return "it reads B from shared memory, got a register tile"
    for name, value, element in (("B", op.b, b), ("A", op.a, a)):
        if value is op.a and _stays_in_registers(op):
            continue
        if isinstance(value.type, FragmentType):
            return f"it reads A in registers as 16-bit elements, got {element}"
        if not (
            _feeds_wgmma(op, value) or needs_transposing(op, value) or is_read_by_threads(op, value)
        ):
            rows, depth = shape_of(value.type)
            return (
                f"no layout in shared memory that it reads holds {name}, {rows}x{depth} {element}"
            )
    rows, depth = shapes[0].shape_mnk[0], shapes[0].shape_mnk[2]
    if shape_of(op.acc.type)[0] % rows or shape_of(op.a.type)[1] % depth:
        got = f"{shape_of(op.acc.type)[0]} and {shape_of(op.a.type)[1]}"
        return f"it multiplies {rows} rows by {depth} of the depth at once, got {got}"
    if not has_load_role:
        return "its operands come from a role that loads, got a schedule with roles = uniform"
    if warps[0] % _GROUP == 0 and not _wgmma(op, warps, arch):
        return f"{warps[0]}x{warps[1]} warps cut through blocks of an operand in shared memory"
    return (
        f"expected whole warpgroups of {rows} rows each, got {warps[0]}x{warps[1]} warps on "
        f"{shape_of(op.acc.type)[0]} rows"
    )


def _wgmma(op: GemmOp, warps: tuple[int, int], arch: str) -> Sequence[WgmmaAtom]:
    """The warpgroup atoms whose operands can be brought where they are read, widest first."""
    groups, columns = warps[0] // _GROUP, warps[1]
    if warps[0] % _GROUP or not (_feeds_wgmma(op, op.b, columns) or needs_transposing(op, op.b)):
        return ()
    feeds_a = (
        _feeds_wgmma(op, op.a, groups)
        or needs_transposing(op, op.a)
        or is_read_by_threads(op, op.a)
    )
    if not (_stays_in_registers(op) or feeds_a):
        return ()
    try:
        found = find_wgmma(*_names(op), arch)
    except ValueError:
        return ()
    return sorted(found, key=lambda atom: -atom.shape_mnk[1])


def _tcgen05(op: GemmOp, warps: tuple[int, int], arch: str) -> Sequence[Tcgen05Atom]:
    """The tcgen05 atoms for a multiply whose operands come through shared memory, and whose
    accumulator can live in tensor memory; largest first."""
    if not target(arch).tmem_columns or _not_tcgen05(op, warps, arch, True):
        return ()
    return find_tcgen05(*_names(op), arch)


def _not_tcgen05(op: GemmOp, warps: tuple[int, int], arch: str, has_load_role: bool) -> str:
    """What keeps tcgen05 from a multiply; empty if nothing does."""
    try:
        shapes = find_tcgen05(*_names(op), arch)
    except ValueError as error:
        return str(error)
    for name, value in (("A", op.a), ("B", op.b)):
        if isinstance(value.type, FragmentType) and value.type.bits not in _STAGED_BITS["tcgen05"]:
            bits = value.type.bits
            return f"a register tile becomes {name} with elements of 8 or 16 bits here, got {bits}"
        if needs_widening(op, value):
            return f"{name} would have to be converted in shared memory"
        if not _feeds(op, value, "tcgen05"):
            rows, depth = shape_of(value.type)
            return (
                f"no layout in shared memory that it reads holds {name}, {rows}x{depth} "
                f"{_names(op)[0 if value is op.a else 1]}"
            )
    (m, n), depth = shape_of(op.acc.type), shape_of(op.a.type)[1]
    if not has_load_role:
        # Another plan's warps: those that would read the results.
        warps = tensor_warps((m, n))
    if not any(_divides(op, atom, warps) for atom in shapes):
        return f"no shape of it divides the tile {m}x{n}x{depth}"
    if op.acc.type.bits != 32:  # pyright: ignore[reportAttributeAccessIssue]
        return f"accumulators in tensor memory have 32 bits here, got {_names(op)[2]}"
    plan = tensor_plan(op)
    columns = plan.columns + plan.corrected
    if columns > COLUMNS:
        return (
            f"accumulators take at most {COLUMNS} columns of tensor memory, those of the kernel's "
            f"multiplies {columns}"
        )
    values = plan.summed // (_LANES * warps[0] * warps[1])
    if values > _MOST_SUMMED:
        return (
            f"a thread adds to at most {_MOST_SUMMED} elements of accumulators that are changed "
            f"between multiplies, got {values}"
        )
    groups = warps[0] // _GROUP
    blocks = max(1, m // _TENSOR_ROWS)
    if warps[0] % _GROUP or blocks % groups or n % (8 * warps[1]):
        return (
            f"expected warpgroups that divide blocks of {_TENSOR_ROWS} rows of a result, got "
            f"{warps[0]}x{warps[1]} warps on {m}x{n}"
        )
    if asks_tiles_around(op):
        return "one thread issues it: expected no branch around it that values of tiles decide"
    if not has_load_role:
        return "its operands come from a role that loads, got a schedule with roles = uniform"
    return ""


def tensor_warps(tile: tuple[int, ...]) -> tuple[int, int]:
    """The warps that read a tile of tensor memory: one warpgroup, or two where each has whole
    blocks of its 128 rows.
    """
    return (2 * _GROUP if tile[0] % (2 * _TENSOR_ROWS) == 0 else _GROUP), 1


def _stays_in_registers(op: GemmOp) -> bool:
    """Whether a register tile can be A: what a thread holds of an accumulator is then what it needs
    of A, which holds for 16-bit elements, and for 8-bit ones where B is put in the same order.
    """
    type_ = op.a.type
    if not isinstance(type_, FragmentType):
        return False
    return type_.bits == 16 or (type_.bits == 8 and needs_transposing(op, op.b))


def multiplied_element(op: GemmOp, value: SSAValue) -> Attribute:
    """The element type with which an operand is multiplied: 8-bit floats in memory beside 16-bit
    ones are converted to these, which is exact.
    """
    mine = element_of(value.type)
    other = element_of((op.b if value is op.a else op.a).type)
    is_short = isinstance(other, Float16Type | BFloat16Type)
    is_byte = isinstance(mine, Float8E4M3FNType | Float8E5M2Type)
    return other if is_short and is_byte and isinstance(value.type, MemRefType) else mine


def needs_widening(op: GemmOp, value: SSAValue) -> bool:
    """Whether an operand is converted before it is multiplied."""
    return multiplied_element(op, value) != element_of(value.type)


def needs_transposing(op: GemmOp, value: SSAValue) -> bool:
    """Whether a tile of bytes, or of words, feeds `wgmma` after a copy that makes its depth
    contiguous: warps move 16 rows by 32 of the depth of bytes, two of them side by side, and a
    quarter of that of words.
    """
    type_ = value.type
    if not isinstance(type_, MemRefType) or type_.space != "gmem" or type_.bits not in (8, 32):
        return False
    if needs_widening(op, value) or is_read_by_threads(op, value):
        return False
    rows, depth = type_.shape
    return contiguous_mode(type_) == 0 and rows % 32 == 0 and depth % 32 == 0


def is_read_by_threads(op: GemmOp, value: SSAValue) -> bool:
    """Whether threads bring an A of words with contiguous rows from shared memory to registers,
    each what it holds of A there: a word is an element, wherever its neighbors lie.
    """
    type_ = value.type
    if value is not op.a or value is op.b:
        return False
    if not isinstance(type_, MemRefType) or type_.space != "gmem" or type_.bits != _WORD_BITS:
        return False
    return contiguous_mode(type_) == 0 and not begins_anywhere(type_)


def needs_shifting(op: GemmOp, value: SSAValue) -> bool:
    """Whether a tile whose rows begin at any element feeds `wgmma` after a copy that shifts them
    into place: one that asynchronous copies of 4 bytes do not take, or of f32, which is rounded.
    """
    type_ = value.type
    if not isinstance(type_, MemRefType) or type_.space != "gmem" or is_joined(value):
        return False
    if needs_widening(op, value) or needs_transposing(op, value) or named_copy(value) is not None:
        return False
    takes_words = vector_bytes(type_) >= _LEAST_ASYNC and not isinstance(type_.element, Float32Type)
    return begins_anywhere(type_) and not takes_words


def _feeds_wgmma(op: GemmOp, value: SSAValue, parts: int = 1) -> bool:
    return _feeds(op, value, "wgmma", parts)


def _feeds(op: GemmOp, value: SSAValue, unit: str, parts: int = 1) -> bool:
    """Whether a tile has a layout in shared memory that the descriptors of a unit describe, and so
    many equal parts of its rows too. Register tiles of 16 bits are written there, line by line as a
    thread holds them; those of 8 bits for tcgen05, which `wgmma` reads from registers.
    """
    type_, is_turned = value.type, False
    if isinstance(type_, FragmentType):
        tile, is_turned = untransposed(value)
        shape, major, bits = shape_of(tile.type), 1, type_.bits
        if bits not in _STAGED_BITS[unit] or len(shape) != 2 or (is_turned and bits != 16):
            return False
    elif isinstance(type_, MemRefType) and type_.space == "gmem":
        shape, major = type_.shape, operand_major(type_)
        bits = element_bits(multiplied_element(op, value))
    else:
        return False
    tvs = parts_of_rows(shape, parts, is_turned)
    layout, swizzle, _ = operand_layout(shape, major, bits, unit, *tvs)
    try:
        matrix_descriptor(layout, swizzle, bits, unit=unit)
    except ValueError:
        return False
    # A part starts where a block of the layout does.
    assert isinstance(layout.shape, tuple)
    rows = layout.shape[is_turned]
    return not isinstance(rows, tuple) or shape[is_turned] // parts % rows[0] == 0  # pyright: ignore[reportOperatorIssue]


def parts_of_rows(shape: tuple[int, ...], parts: int, is_turned: bool) -> tuple[Layout, ...]:
    """Where equal parts of the rows of an operand start, one for each warpgroup; rows are the
    second mode of an operand whose tile `is_turned`.
    """
    if parts == 1 or len(shape) != 2:
        return ()
    step = shape[0] * (shape[1] // parts) if is_turned else shape[0] // parts
    return (Layout((parts, 1), (step, 0)),)


def untransposed(tile: SSAValue) -> tuple[SSAValue, bool]:
    """The tile that another one is a transpose of, and whether it is: two transposes are none."""
    is_turned = False
    while isinstance(tile.owner, TransposeOp):
        tile, is_turned = tile.owner.source, not is_turned
    return tile, is_turned


def goes_through_smem(op: GemmOp, value: SSAValue, bound: BoundMma) -> bool:
    """Whether a multiply of warpgroups reads a register tile from shared memory: B always, and an A
    whose elements are in other threads than the multiply wants: of a transpose, and where several
    warpgroups want the same rows, each of which has computed some of their columns.
    """
    if not isinstance(value.type, FragmentType):
        return False
    if value is op.b or isinstance(value.owner, TransposeOp):
        return True
    return bound.warps[1] > 1 and _feeds(op, value, "wgmma", bound.units[0])


def _names(op: GemmOp) -> tuple[str, str, str]:
    acc = op.acc.type
    assert isinstance(acc, FragmentType)
    return (
        operand_name(multiplied_element(op, op.a)),
        operand_name(multiplied_element(op, op.b)),
        element_name(acc.element),
    )
