"""Which MMA atom a `cute.gemm` gets: `tcgen05` where tensor memory can hold its accumulator,
`wgmma` where a warpgroup can feed it, else `mma.sync`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm, prod

from xdsl.ir import Operation, SSAValue

from cutedialect.allocation import reading_warps
from cutedialect.atoms import (
    WARP_SIZE,
    MmaAtom,
    find_mma,
    mma_atom,
    target,
    targets_with,
    tmem_layouts,
)
from cutedialect.atoms.matrix_descriptor import matrix_descriptor
from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom, find_tcgen05, tcgen05_of
from cutedialect.atoms.tiled_mma import TiledMma, atom_name, is_tiled_mma
from cutedialect.atoms.wgmma_atoms import WgmmaAtom, find_wgmma
from cutedialect.dialects.cute import (
    FragmentType,
    GemmOp,
    MemRefType,
    TransposeOp,
    element_bits,
    element_of,
    memref_of,
    shape_of,
)
from cutedialect.dialects.effects import Unit, effects_of
from cutedialect.dialects.element_names import element_name, operand_name
from cutedialect.layout import Layout, LayoutError, coalesce
from cutedialect.passes.analysis.layout_inference import (
    contiguous_mode,
    operand_major,
)
from cutedialect.passes.analysis.operand_plans import (
    TENSOR_MEMORY,
    WARPGROUPS,
    WARPS,
    gmem_type,
    is_converted,
    multiplied_element,
    multiplied_elements,
    plan_of,
)
from cutedialect.passes.analysis.smem_layouts import (
    held_type,
    operand_layout,
    parts_of_rows,
    untransposed,
)
from cutedialect.passes.analysis.tensor_accumulators import tensor_plan
from cutedialect.passes.analysis.tensor_maps import asks_tiles_around
from cutedialect.passes.analysis.thread_layouts import (
    GROUP_WARPS,
    mma_accumulator,
    mma_operand,
    named_layout,
    tensor_accumulator,
    tensor_rows,
)

FAST_ATOMS = (WgmmaAtom, Tcgen05Atom)
"""Atoms of warpgroups, and of the unit beside them."""
_WORD_BITS = 32
# Bits of the elements of register tiles that are written to shared memory for a unit.
_STAGED_BITS = {"wgmma": (16,), "tcgen05": (8, 16)}
# Columns of 16 bits that the widest swizzle holds side by side.
_SPAN = 64
# Elements of accumulators in registers of a thread beside which it has room for a product.
_MOST_SUMMED = 128
_OTHER_TILE = "a tile whose modes are multiples of an atom's"
# The grid of warps of one warpgroup.
_WHOLE_GROUP = (GROUP_WARPS, 1)


@dataclass(frozen=True)
class BoundMma:
    """The atom of a multiply, and the grid of warps that share its tile; each has one block of it,
    unless a program or a schedule names another TiledMMA. Warps along K count along N. `by_rows`: a
    thread has whole rows of what tensor memory holds.
    """

    atom: MmaAtom
    warps: tuple[int, int]
    named: TiledMma | None = None
    by_rows: bool = False

    @property
    def units(self) -> tuple[int, int]:
        """The grid of warps, or of warpgroups where the atom takes four warps at once."""
        wm, wn = self.warps
        return (wm // GROUP_WARPS, wn) if isinstance(self.atom, WgmmaAtom) else (wm, wn)

    @property
    def unit(self) -> str:
        """Who multiplies."""
        units = {WgmmaAtom: WARPGROUPS, Tcgen05Atom: TENSOR_MEMORY}
        return units.get(type(self.atom), WARPS)

    @property
    def depth(self) -> int:
        """The part of K that warps multiply at a time, in elements of tiles, which may have two."""
        return self.atom.in_bytes.shape_mnk[2] if self.named is None else self.named.depth

    def accumulator(self, shape: tuple[int, ...]) -> Layout:
        """Which thread holds what of an accumulator that the multiply makes."""
        if isinstance(self.atom, Tcgen05Atom):
            if self.by_rows:
                return tensor_rows(shape, self.warps[0])
            return tensor_accumulator(shape, self.warps)
        if self.named is not None:
            return named_layout(self.named, "C", shape)
        return mma_accumulator(self.atom, shape, self.units)

    def operand(self, which: str, shape: tuple[int, ...]) -> Layout:
        """The same of an operand in registers: "a" (M,K) or "b" (N,K)."""
        if self.named is not None:
            return named_layout(self.named, which.upper(), shape)
        return mma_operand(self.atom.in_bytes, which, shape, self.units)  # pyright: ignore[reportArgumentType]

    def makes(self, tile: FragmentType) -> bool:
        """Whether a register tile lies in threads as an accumulator of the multiply does, whatever
        its modes are: those of an operand in registers are its k blocks.
        """
        try:
            mine = self.accumulator(tile.shape)
        except LayoutError:
            return False
        return tile.tv is not None and coalesce(tile.tv, (1, 1)) == coalesce(mine, (1, 1))


@dataclass(frozen=True)
class MmaChoice:
    """The choice of an atom for one multiply on one target, by the name that the schedule asks for
    where the multiply has none. Atoms of warpgroups want their operands from a role that loads.
    """

    op: GemmOp
    arch: str
    asked: str | None = None
    has_load_role: bool = True

    def atom(self, warps: tuple[int, int]) -> MmaAtom | None:
        """The atom on a grid of warps, or None where the tile does not divide.

        Raises `ValueError` when the target has no atom for the types, or nothing has the name that
        is asked for, and where no multiply of warpgroups gives the sums that the program wants.
        """
        if self.op.sums is not None:
            return self._with_sums(warps)
        if self.op.scales is not None:
            return self._with_scales(warps)
        asked = self.op.asked or self.asked
        if asked is not None:
            named = self._named(mma_atom(atom_name(asked)))
            if self.named is not None:
                return named if self._fits(self.named, warps) else None
            return named if self._divides(named, warps) else None
        candidates: Sequence[MmaAtom]
        if self.op.held is not None:
            candidates = self._tcgen05(warps)
            if not candidates:
                raise ValueError(
                    "elements of 6 bits that bytes hold without gaps: expected a multiply of "
                    f"tcgen05, got {self._not_tcgen05(warps)}"
                )
        else:
            candidates = self._warp_wide()
            if self.has_load_role:
                candidates = [*self._tcgen05(warps), *self._wgmma(warps), *candidates]
        return next((atom for atom in candidates if self._divides(atom, warps)), None)

    @property
    def named(self) -> TiledMma | None:
        """The TiledMMA that the program or the schedule names."""
        asked = self.op.asked or self.asked
        return TiledMma.parse(asked) if asked is not None and is_tiled_mma(asked) else None

    @property
    def slices(self) -> int:
        """How many warps share the depth: several only where a TiledMMA says so."""
        return 1 if (named := self.named) is None else named.slices

    def misfit(self, warps: tuple[int, int]) -> str:
        """Why no atom fits a grid of warps, and what would."""
        tile, asked = self._tile, self.op.asked or self.asked
        if (named := self.named) is not None:
            parts = self._parts(named)
            if any(size % part for size, part in zip(tile, parts, strict=True)):
                return (
                    f"expected a tile of multiples of {parts}, over which the TiledMMA {named} "
                    f"repeats, got {tile}"
                )
            count = prod(named.warps)
            return (
                f"expected the {count} warps {named.warps} of the TiledMMA {named}, got the "
                f"schedule's {prod(warps)}, warps = {warps}; leave warps out of it"
            )
        grids = self.grids(warps)
        near = f"warps = ({grids[0][0]},{grids[0][1]})" if grids else self._other_tile()
        return (
            f"expected a tile {tile} that the {warps[0]}x{warps[1]} warps divide into MMA atoms of "
            f"{self.shapes}{f' (atom {asked})' if asked else ''}, got no atom that fits; take "
            f"{near}"
        )

    def _other_tile(self) -> str:
        """The least tile around this one that an atom divides, in words."""
        tile, asked = self._tile, self.op.asked or self.asked
        atoms = self._warp_wide() if asked is None else [mma_atom(atom_name(asked))]
        tiles = [
            tuple(-(-size // part) * part for size, part in zip(tile, atom.shape_mnk, strict=True))
            for atom in atoms
        ]
        nearest = min(tiles, key=prod)
        return _OTHER_TILE if nearest == tile else f"a tile such as {nearest}"

    @staticmethod
    def _parts(mma: TiledMma) -> tuple[int, int, int]:
        """What of a tile a TiledMMA repeats over."""
        rows, columns, depth = mma.tiled.tile_mnk
        return rows, columns, lcm(depth, mma.depth)

    def _fits(self, mma: TiledMma, warps: tuple[int, int]) -> bool:
        """Whether a TiledMMA has a grid of warps, and repeats over the tile."""
        parts = self._parts(mma)
        return mma.grid == warps and all(
            size % part == 0 for size, part in zip(self._tile, parts, strict=True)
        )

    def bind(self, warps: tuple[int, int], is_fixed: bool = False) -> BoundMma | None:
        """The atom for a grid of as many warps as `warps` has: that one, unless only another one
        (not if the grid `is_fixed`) divides the tile, or lets warpgroups multiply.

        Raises `ValueError` as `atom` does.
        """
        if (named := self.named) is not None:
            grid = named.grid if prod(named.grid) == prod(warps) and not is_fixed else warps
            atom = self.atom(grid)
            return None if atom is None else BoundMma(atom, grid, named)
        atom = self.atom(warps)
        found = [] if atom is None else [BoundMma(atom, warps)]
        if is_fixed or isinstance(atom, FAST_ATOMS) or (found and not self.has_load_role):
            return found[0] if found else None
        for grid in self.grids(warps):
            if prod(grid) == prod(warps) and (other := self.atom(grid)) is not None:
                if isinstance(other, FAST_ATOMS):
                    return BoundMma(other, grid)
                found.append(BoundMma(other, grid))
        return found[0] if found else None

    def grids(self, warps: tuple[int, int]) -> list[tuple[int, int]]:
        """The grids of warps for which there is an atom, those of as many warps first."""
        counts = (1, 2, 4, 8, 16)
        grids = [(wm, wn) for wm in counts for wn in counts if wm * wn <= counts[-1]]
        fit = [grid for grid in grids if self.atom(grid) is not None]
        return sorted(
            fit, key=lambda grid: (abs(prod(grid) - prod(warps)), abs(grid[0] - warps[0]))
        )

    def takes(self, kind: type[MmaAtom], warps: tuple[int, int]) -> bool:
        """Whether `bind` takes an atom of a class."""
        try:
            bound = self.bind(warps)
        except ValueError:
            return False
        return bound is not None and isinstance(bound.atom, kind)

    def declined(self, bound: BoundMma) -> str:
        """Why the fastest tensor cores of the target do not multiply; empty where they do."""
        chip, taken = target(self.arch), bound.atom
        if isinstance(taken, FAST_ATOMS) or taken.scaling:
            return ""
        if _has_wgmma(self.arch):
            return f"wgmma not taken, but {taken.name}: {self._not_wgmma(bound.warps)}"
        if chip.tmem_columns:
            return f"tcgen05.mma not taken, but {taken.name}: {self._not_tcgen05(bound.warps)}"
        having = [target(name) for name in targets_with("sm_90a")]
        if chip.number > max(each.number for each in having) and not self.has_load_role:
            return f"{self.arch} has no path of its own: {taken.name} takes the way of sm_80"
        if any(each.number == chip.number for each in having):
            near = ", ".join(each.name for each in having)
            return f"wgmma not taken, but {taken.name}: {near} has it, got {self.arch}"
        return ""

    @property
    def shapes(self) -> str:
        """The shapes of the warps' own atoms for the operands' types, for messages."""
        return ", ".join(str(atom.shape_mnk) for atom in self._warp_wide())

    @cached_property
    def _tile(self) -> tuple[int, int, int]:
        rows, columns = shape_of(self.op.acc.type)[:2]
        return rows, columns, self.op.depth

    @property
    def _names(self) -> tuple[str, str, str]:
        a, b, acc = multiplied_elements(self.op)
        return operand_name(a), operand_name(b), element_name(acc)

    def _in_tensor_memory(self) -> Sequence[Tcgen05Atom]:
        """The tcgen05 atoms for the types of the operands, pairs of 4 bits among them. Raises
        `ValueError` for none.
        """
        narrow = [name for name in self._names if name in ("e2m3", "e3m2")]
        if narrow and self.op.held is None:
            why = "packed, where memory has a byte of each; e4m3 has all of its numbers"
            raise ValueError(f"tcgen05 reads {narrow[0]} {why}")
        found = find_tcgen05(*self._names, self.arch, scaling=self.op.scales or "")
        return [atom for atom in found if atom.kind != "mxf8f6f4"] if self.op.has_pairs else found

    def _divides(self, atom: MmaAtom, warps: tuple[int, int]) -> bool:
        """Whether a grid of warps divides the tile into products of an atom."""
        (wm, wn), (m, n, k), (am, an, ak) = warps, self._tile, atom.shape_mnk
        if isinstance(atom, Tcgen05Atom):
            # Each product is on all rows of tensor memory, but for one row of products.
            is_whole = m == am or (am == tmem_layouts.LANES and m % am == 0)
            return is_whole and n % an == 0 and k % ak == 0
        if isinstance(atom, WgmmaAtom):
            if wm % GROUP_WARPS:
                return False
            wm //= GROUP_WARPS
        return m % (am * wm) == 0 and n % (an * wn) == 0 and k % ak == 0

    def _with_sums(self, warps: tuple[int, int]) -> WgmmaAtom | None:
        """The atom of a multiply that adds up the rows of A, too: one as wide as the accumulator,
        with A in registers, beside whose B, one span of a swizzle wide, a tile of ones lies.
        """
        op = self.op
        columns = shape_of(op.acc.type)[1] - op.columns_of_sums
        found = [each for each in self._wgmma(_WHOLE_GROUP) if each.shape_mnk[1] == columns + 8]
        b, why = op.b.type, ""
        if not isinstance(op.a.type, FragmentType):
            why = "A in memory"
        elif not _has_wgmma(self.arch):
            why = f"target {self.arch}"
        elif not (found and isinstance(b, MemRefType) and b.bits == 16 and contiguous_mode(b) == 0):
            why = f"B {b}"
        elif columns > _SPAN or columns & (columns - 1):
            why = f"{columns} columns"
        elif not self.has_load_role:
            why = "a schedule with roles = uniform"
        if why:
            raise ValueError(
                "sums: expected a multiply by warpgroups (wgmma) whose A is in registers, and "
                f"whose B has 16, 32 or {_SPAN} columns of 16 bits that are contiguous in memory, "
                f"got {why}; add cute.row_sum(a) to a tile of its own"
            )
        return found[0] if warps[1] == 1 and self._divides(found[0], warps) else None

    def _with_scales(self, warps: tuple[int, int]) -> MmaAtom | None:
        """The atom of a multiply with scales of blocks: of tcgen05, or of `mma.sync`."""
        asked = self.op.asked or self.asked
        if asked is not None:
            raise ValueError(f"expected no atom or TiledMMA with scales of blocks, got {asked}")
        in_words = all(element_bits(element_of(x.type)) == _WORD_BITS for x in self.op.factors)
        found: Sequence[MmaAtom] = self._tcgen05(warps) or (self._of_words() if in_words else ())
        words = "words of 64 bits where threads read those of 32" if self._of_words() else ""
        if not found and (why := words or self._not_tcgen05(warps)):
            raise ValueError(
                f"scales of blocks ({self.op.scales}): expected a multiply of tcgen05 (sm_100a and "
                f"its family, tiles of 128 rows and columns or multiples), got {why}"
            )
        return next((atom for atom in found if self._divides(atom, warps)), None)

    def _of_words(self) -> Sequence[MmaAtom]:
        """The atoms of `mma.sync` that multiply blocks by their scales."""
        from cutedialect.atoms.block_scaled_atoms import find_block_scaled

        return find_block_scaled(*self._names[:2], self.arch, self.op.scales or "")

    def _named(self, atom: MmaAtom) -> MmaAtom:
        """An atom that was asked for by name; ValueError that says why it does not do here."""
        names, arch = self._names, self.arch
        if atom.scaling and not isinstance(atom, Tcgen05Atom):
            raise ValueError(f"{atom.name}: expected one without scales of blocks")
        if tuple(atom.types[:3]) != names:
            a, b, c, _ = atom.types
            raise ValueError(
                f"expected an atom for {names[0]} x {names[1]} into {names[2]}, got {atom.name} "
                f"for {a} x {b} into {c}"
            )
        if not atom.is_legal_on(arch):
            raise ValueError(
                f"expected an atom that {arch} has, got {atom.name}, which needs {atom.requires}"
            )
        if isinstance(atom, Tcgen05Atom):
            why = self._not_tcgen05(_WHOLE_GROUP)
            if atom.cta_group == 2 and not atom.scale:
                # What each of the two CTAs does; `multiply_pairs.py` puts them together.
                m, n, k = atom.shape_mnk
                atom = tcgen05_of(*names, (m // 2, n, k))
            if not why and atom not in find_tcgen05(*names, arch):
                why = "expected one without scales of blocks"
            if why:
                raise ValueError(f"{atom.name}: {why}")
        elif isinstance(atom, WgmmaAtom):
            self._check_wgmma(atom)
        elif atom.thr_id.size() != WARP_SIZE:
            try:
                there = ", ".join(each.name for each in self._warp_wide())
            except ValueError:
                there = "none"
            raise ValueError(
                "expected an atom of which a whole warp computes one product, got "
                f"{atom.name}, of which the four quarters of a warp compute one each (sm_70); of "
                f"whole warps there are on {arch}: {there}"
            )
        return atom

    def _check_wgmma(self, atom: WgmmaAtom) -> None:
        if not self._divides(atom, _WHOLE_GROUP):
            there = find_wgmma(*self._names, self.arch)
            fitting = [each for each in there if self._divides(each, _WHOLE_GROUP)]
            widest = max(fitting, key=lambda each: each.shape_mnk[1], default=None)
            raise ValueError(
                f"{atom.name}: expected a tile of multiples of {atom.shape_mnk}, got {self._tile}"
                + ("" if widest is None else f"; {widest.name} divides it")
            )
        if not self._wgmma(_WHOLE_GROUP):
            raise ValueError(
                f"{atom.name}: {replace(self, has_load_role=True)._not_wgmma(_WHOLE_GROUP)}"
            )
        if not self.has_load_role:
            raise ValueError(
                f"{atom.name}: its operands come from a role that loads; expected the roles "
                "specialized or alternate, got uniform"
            )

    def _warp_wide(self) -> Sequence[MmaAtom]:
        """The `mma.sync` atoms of a target in which the lanes of a warp multiply one tile."""
        names = self._names
        if self.op.scales is not None:
            return self._of_words()
        found = [atom for atom in find_mma(*names, self.arch) if atom.thr_id.size() == WARP_SIZE]
        if not found:
            raise ValueError(
                f"expected sm_75 or later to multiply {' by '.join(names[:2])}, got {self.arch}, "
                "where quarters of a warp multiply tiles of their own"
            )
        return found

    def _wgmma(self, warps: tuple[int, int]) -> Sequence[WgmmaAtom]:
        """The warpgroup atoms whose operands can be brought where they are read, widest first."""
        groups, columns = warps[0] // GROUP_WARPS, warps[1]
        if warps[0] % GROUP_WARPS or not (self._feeds_b(columns) and self._feeds_a(groups)):
            return ()
        try:
            found = find_wgmma(*self._names, self.arch)
        except ValueError:
            return ()
        return sorted(found, key=lambda atom: -atom.shape_mnk[1])

    def _feeds_b(self, parts: int = 1) -> bool:
        """Whether `wgmma` can read B, in so many equal parts of its rows."""
        op = self.op
        return _feeds(op, op.b, "wgmma", parts) or plan_of(op, op.b).form == "transpose"

    def _feeds_a(self, parts: int = 1) -> bool:
        """The same of A. What a thread holds of an accumulator is what it needs of A, which holds
        for 16-bit elements, and for 8-bit ones where B is put in the same order.
        """
        op = self.op
        if isinstance(op.a.type, FragmentType):
            bits = op.a.type.bits
            return bits == 16 or (bits == 8 and plan_of(op, op.b).form == "transpose")
        plan = plan_of(op, op.a)
        is_brought = plan.form == "transpose" or plan.computes == "multiplies"
        return is_brought or _feeds(op, op.a, "wgmma", parts)

    def _not_wgmma(self, warps: tuple[int, int]) -> str:
        """What keeps warpgroups from a multiply; of several reasons the one that the program, not
        the schedule, gives.
        """
        op = self.op
        try:
            shapes = find_wgmma(*self._names, self.arch)
        except ValueError as error:
            return str(error)
        if isinstance(op.b.type, FragmentType):
            return "it reads B from shared memory, got a register tile"
        if not self._feeds_b():
            return self._no_layout("B", op.b)
        if not self._feeds_a():
            if isinstance(op.a.type, FragmentType):
                return f"it reads A in registers as 16-bit elements, got {self._names[0]}"
            return self._no_layout("A", op.a)
        (m, _, k), (rows, _, depth) = self._tile, shapes[0].shape_mnk
        if m % rows or k % depth:
            return f"it multiplies {rows} rows by {depth} of the depth at once, got {m} and {k}"
        if not self.has_load_role:
            return "its operands come from a role that loads, got a schedule with roles = uniform"
        if warps[0] % GROUP_WARPS == 0 and not self._wgmma(warps):
            return f"{warps[0]}x{warps[1]} warps cut through blocks of an operand in shared memory"
        return (
            f"expected whole warpgroups of {rows} rows each, got {warps[0]}x{warps[1]} warps on "
            f"{m} rows"
        )

    def _no_layout(self, name: str, value: SSAValue) -> str:
        rows, depth = shape_of(value.type)
        element = self._names[value is not self.op.a]
        return f"no layout in shared memory that it reads holds {name}, {rows}x{depth} {element}"

    def _tcgen05(self, warps: tuple[int, int]) -> Sequence[Tcgen05Atom]:
        """The tcgen05 atoms for a multiply whose operands come through shared memory, and whose
        accumulator can live in tensor memory; largest first.
        """
        if not target(self.arch).tmem_columns or self._not_tcgen05(warps):
            return ()
        return self._in_tensor_memory()

    def _not_tcgen05(self, warps: tuple[int, int]) -> str:
        """What keeps tcgen05 from a multiply; empty if nothing does."""
        op = self.op
        try:
            shapes = self._in_tensor_memory()
        except ValueError as error:
            return str(error)
        for name, value in (("A", op.a), ("B", op.b)):
            type_ = value.type
            if isinstance(type_, FragmentType) and type_.bits not in _STAGED_BITS["tcgen05"]:
                return (
                    f"a register tile becomes {name} with elements of 8 or 16 bits here, got "
                    f"{type_.bits}"
                )
            if is_converted(op, value):
                return f"{name} would have to be converted in shared memory"
            is_across = op.packs and operand_major(memref_of(value)) == 0
            if is_across or not _feeds(op, value, "tcgen05"):
                return self._no_layout(name, value)
        m, n, k = self._tile
        if not self.has_load_role:
            # Another plan's warps: those that would read the results.
            warps = reading_warps((m, n))
        if not any(self._divides(atom, warps) for atom in shapes):
            return f"no shape of it divides the tile {m}x{n}x{k}"
        if element_bits(element_of(op.acc.type)) != 32:
            return f"accumulators in tensor memory have 32 bits here, got {self._names[2]}"
        plan = tensor_plan(op)
        if plan.columns > tmem_layouts.COLUMNS:
            return (
                f"accumulators take at most {tmem_layouts.COLUMNS} columns of tensor memory, those "
                f"of the kernel's multiplies {plan.columns}"
            )
        values = plan.summed // (WARP_SIZE * prod(warps))
        if values > _MOST_SUMMED:
            return (
                f"a thread adds to at most {_MOST_SUMMED} elements of accumulators that are "
                f"changed between multiplies, got {values}"
            )
        groups, rest = divmod(warps[0], GROUP_WARPS)
        if rest or max(1, m // tmem_layouts.LANES) % groups or n % (8 * warps[1]):
            return (
                f"expected warpgroups that divide blocks of {tmem_layouts.LANES} rows of a result, "
                f"got {warps[0]}x{warps[1]} warps on {m}x{n}"
            )
        if asks_tiles_around(op):
            return "one thread issues it: expected no branch around it that values of tiles decide"
        if not self.has_load_role:
            return "its operands come from a role that loads, got a schedule with roles = uniform"
        return ""


def _has_wgmma(arch: str) -> bool:
    return target(arch) in [target(name) for name in targets_with("sm_90a")]


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
    elif (memory := gmem_type(value)) is not None:
        shape, major = shape_of(held_type(op, value)), operand_major(memory)
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


def is_warpgroup_multiply(op: Operation) -> bool:
    """Whether a group of warps multiplies asynchronously."""
    return isinstance(op, GemmOp) and effects_of(op).unit is Unit.WGMMA
