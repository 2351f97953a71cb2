"""`tcgen05.mma` as data: every dense shape and type combination, with and without block scaling, of
one CTA and of a pair. D is in tensor memory, B behind a descriptor in shared memory, A in either.
The "threads" of the layouts are the CTAs of the group. Source: PTX ISA 9.1, "TensorCore 5th
Generation Matrix Multiply and accumulate Operations", "Instruction descriptor".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from cutedialect.atoms.capability import Target, target
from cutedialect.atoms.mma_atoms import MmaAtom, MmaTypes
from cutedialect.atoms.tmem_layouts import (
    accumulator_columns,
    accumulator_layout,
    operand_layout,
    scale_layout,
)
from cutedialect.layout import Layout

A_SPACES = ("smem", "tmem")
# Bytes along K that one instruction takes of every type, padding included.
K_BYTES = 32


@dataclass(frozen=True)
class Tcgen05Atom(MmaAtom):
    """One `tcgen05.mma`. M and N are those of the CTA pair when `cta_group` is 2; PTX has them, and
    the types, in the instruction descriptor, so `ptx` is the same for many entries.

    `block` is the number of elements of k that share a scale factor of type `scale` (0 and the
    empty string without block scaling). `transposes` says for which operands an MN-major layout in
    shared memory exists, `negates` whether A and B can be negated.
    """

    kind: str = "f16"
    cta_group: int = 1
    scale: str = ""
    block: int = 0
    negates: bool = True
    transposes: tuple[bool, bool] = (True, True)
    a_spaces: tuple[str, ...] = A_SPACES

    @property
    def threads(self) -> int:
        """CTAs that take part in one product; one thread issues it for all."""
        return self.cta_group

    @property
    def values(self) -> tuple[int, int, int]:
        """Elements that one CTA holds of A, B and D."""
        m, n, k = self.shape_mnk
        return m // self.cta_group * k, n // self.cta_group * k, m // self.cta_group * n

    @property
    def registers_a(self) -> int:
        return 0

    @property
    def registers_b(self) -> int:
        return 0

    @property
    def registers_c(self) -> int:
        """D is in tensor memory."""
        return 0

    @property
    def registers_d(self) -> int:
        return 0

    @cached_property
    def c_tmem_layout(self) -> Layout:
        """(m, n) of one CTA's part of D to its tensor memory address."""
        m, n, _ = self.shape_mnk
        return accumulator_layout(m, n, self.cta_group)

    @property
    def columns(self) -> int:
        """Columns of tensor memory that D takes."""
        m, n, _ = self.shape_mnk
        return accumulator_columns(m, n, self.cta_group)

    @cached_property
    def a_tmem_layout(self) -> Layout:
        """(m, k) of one CTA's part of A in tensor memory to an offset in its elements."""
        m, _, k = self.shape_mnk
        return operand_layout(m, k, K_BYTES * 8 // k, self.cta_group)

    @property
    def factors(self) -> int:
        """Scale factors along K of one row."""
        return self.shape_mnk[2] // self.block if self.block else 0

    def scale_layout(self, operand: str) -> Layout:
        """(row, factor, copy) of the scale factors of `A` or `B` in one CTA to a byte of tensor
        memory; `ValueError` without block scaling."""
        if not self.block:
            raise ValueError(f"expected a block-scaled instruction, got {self.name}")
        m, n, _ = self.shape_mnk
        if operand == "A":
            return scale_layout(m // self.cta_group, self.factors)
        halves = self.cta_group == 2 and m == 128
        step = 64 if halves else 32
        return scale_layout(-(-n // step) * step, self.factors, halves=halves)

    def descriptor(
        self,
        *,
        a_major: str = "K",
        b_major: str = "K",
        negate_a: bool = False,
        negate_b: bool = False,
        saturate: bool = False,
        scale_ids: tuple[int, int] = (0, 0),
    ) -> int:
        """The 32-bit instruction descriptor; `ValueError` for what the instruction cannot do.

        >>> hex(tcgen05_atom("tcgen05_f16_cg1_m128n256k16_f32_bf16_bf16").descriptor())
        '0x8400490'
        """
        m, n, _ = self.shape_mnk
        majors = (a_major, b_major)
        for operand, major, allowed in zip("AB", majors, self.transposes, strict=True):
            if major not in ("K", "MN"):
                raise ValueError(f"expected {operand} K- or MN-major, got {major!r}")
            if major == "MN" and not allowed:
                raise ValueError(f"expected a K-major {operand}, got MN-major in {self.name}")
        if (negate_a or negate_b) and not self.negates:
            raise ValueError(f"expected no negation with integer types, got {self.name}")
        if saturate and not self.saturates:
            raise ValueError(f"expected no saturation with floating types, got {self.name}")
        a, b = (_type_code(self.kind, kind) for kind in self.types[:2])
        bits = saturate << 3 | a << 7 | b << 10 | negate_a << 13 | negate_b << 14
        bits |= (a_major == "MN") << 15 | (b_major == "MN") << 16 | n // 8 << 17 | m // 16 << 24
        if self.block:
            step = 2 if self.factors == 2 else 1
            for operand, number in zip("AB", scale_ids, strict=True):
                if number % step or not 0 <= number <= 4 - self.factors:
                    raise ValueError(
                        f"expected {self.factors} scale factors of {operand} within a word, from "
                        f"byte 0{' or 2' if step == 2 else ''} on, got byte {number}"
                    )
            return bits | scale_ids[1] << 4 | (self.scale == "ue8m0") << 23 | scale_ids[0] << 29
        return bits | _ACCUMULATORS[self.types.d] << 4


_ACCUMULATORS = {"f16": 0, "f32": 1, "s32": 2}
_CODES = {
    "f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0,
    "s8": 1,
}  # fmt: skip


def _type_code(kind: str, name: str) -> int:
    return 1 if kind in ("mxf4", "mxf4nvf4") else _CODES[name]


class _Row(NamedTuple):
    """One line of the table of kinds: types of A, B and D, K, scale type and block."""

    kind: str
    a: str
    b: str
    d: str
    k: int
    scale: str = ""
    block: int = 0

    @property
    def scaling(self) -> str:
        """The scales of blocks, such as `ue8m0x32`; empty without."""
        return f"{self.scale}x{self.block}" if self.scale else ""


NARROW = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
_INT8 = ("s8", "u8")
_ROWS = (
    _Row("f16", "f16", "f16", "f32", 16),
    _Row("f16", "f16", "f16", "f16", 16),
    _Row("f16", "bf16", "bf16", "f32", 16),
    _Row("tf32", "tf32", "tf32", "f32", 8),
    *(_Row("f8f6f4", a, b, d, 32) for d in ("f32", "f16") for a in NARROW for b in NARROW),
    *(_Row("i8", a, b, "s32", 32) for a in _INT8 for b in _INT8),
    *(_Row("mxf8f6f4", a, b, "f32", 32, "ue8m0", 32) for a in NARROW for b in NARROW),
    _Row("mxf4", "e2m1", "e2m1", "f32", 64, "ue8m0", 32),
    _Row("mxf4nvf4", "e2m1", "e2m1", "f32", 64, "ue8m0", 32),
    _Row("mxf4nvf4", "e2m1", "e2m1", "f32", 64, "ue8m0", 16),
    _Row("mxf4nvf4", "e2m1", "e2m1", "f32", 64, "ue4m3", 16),
)
KINDS = tuple(dict.fromkeys(row.kind for row in _ROWS))
# 8-bit integers are for exact chips, and sm_103a has none.
_INTEGER_TARGETS = "sm_100a sm_110a"
_TARGETS = "sm_100f sm_110f"


def rows_of(kind: str, cta_group: int) -> tuple[int, ...]:
    """M of a kind (of the CTA pair when `cta_group` is 2)."""
    if cta_group == 2:
        return (128, 256)
    return (128,) if kind.startswith("mx") else (64, 128)


def columns_of(kind: str, m: int, cta_group: int, *, a_space: str = "smem") -> range:
    """N of a kind: the steps that both the manual and CUTLASS allow."""
    step = 8 if cta_group == 1 and m == 64 else 16
    if kind.startswith("mx") and cta_group == 1:
        step = 8
    if kind == "i8":
        step = 16 * cta_group
    if cta_group == 2 and a_space == "tmem":
        step = 32
    return range(step, 257, step)


def _targets_of(kind: str) -> str:
    return _INTEGER_TARGETS if kind == "i8" else _TARGETS


def _entry(row: _Row, cta_group: int, m: int, n: int) -> Tcgen05Atom:
    scaled = f"_{row.scaling}" if row.scale else ""
    suffix = f".block_scale.block{row.block}" if row.scale else ""
    narrow = [name in ("e2m3", "e3m2", "e2m1") for name in (row.a, row.b)]
    # B of 8 bits moves by whole groups of 16 columns in each CTA.
    groups = n % (16 * cta_group) == 0 or row.k != 32
    half_m, half_n, k = m // cta_group, n // cta_group, row.k
    return Tcgen05Atom(
        name=f"tcgen05_{row.kind}_cg{cta_group}_m{m}n{n}k{k}_{row.d}_{row.a}_{row.b}{scaled}",
        ptx=f"tcgen05.mma.cta_group::{cta_group}.kind::{row.kind}{suffix}",
        shape_mnk=(m, n, k),
        types=MmaTypes(row.a, row.b, row.d, row.d),
        requires=_targets_of(row.kind),
        ptx_version=(8, 8) if row.scale else (8, 6),
        a_text=f"({cta_group},({half_m},{k})):({half_m if cta_group > 1 else 0},(1,{m}))",
        b_text=f"({cta_group},({half_n},{k})):({half_n if cta_group > 1 else 0},(1,{n}))",
        c_text=f"({cta_group},({half_m},{n})):({half_m if cta_group > 1 else 0},(1,{m}))",
        thr_text=f"{cta_group}:{1 if cta_group > 1 else 0}",
        saturates=row.kind == "i8",
        spaces=("smem", "smem", "tmem"),
        kind=row.kind,
        cta_group=cta_group,
        scale=row.scale,
        block=row.block,
        negates=row.kind != "i8",
        transposes=(not narrow[0], not narrow[1] and groups),
        a_spaces=A_SPACES if n in columns_of(row.kind, m, cta_group, a_space="tmem") else ("smem",),
    )


def _shapes(kind: str) -> Iterator[tuple[int, int, int]]:
    for cta_group in (1, 2):
        for m in rows_of(kind, cta_group):
            for n in columns_of(kind, m, cta_group):
                yield cta_group, m, n


@cache
def tcgen05() -> tuple[Tcgen05Atom, ...]:
    """Every dense `tcgen05.mma`, by kind and types, then by group, M and N."""
    return tuple(_entry(row, *shape) for row in _ROWS for shape in _shapes(row.kind))


@cache
def tcgen05_atom(name: str) -> Tcgen05Atom:
    """The entry of this name; `ValueError` with the near names for none."""
    parts = name.split("_")
    kind = parts[1] if len(parts) > 1 else ""
    candidates = [row for row in _ROWS if row.kind == kind]
    for row in candidates:
        for shape in _shapes(kind):
            if f"_cg{shape[0]}_m{shape[1]}n{shape[2]}k" in name:
                found = _entry(row, *shape)
                if found.name == name:
                    return found
    from difflib import get_close_matches

    near = get_close_matches(name, [atom.name for atom in tcgen05()], n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise ValueError(f"expected the name of a tcgen05 atom, got {name!r}{hint}")


@cache
def tcgen05_of(
    a: str, b: str, c: str, shape: tuple[int, int, int], cta_group: int = 1, scaling: str = ""
) -> Tcgen05Atom:
    """The entry of these types, this shape and scales of blocks (empty for none); `ValueError` for
    none.

    >>> tcgen05_of("f16", "f16", "f32", (128, 64, 16)).name
    'tcgen05_f16_cg1_m128n64k16_f32_f16_f16'
    >>> tcgen05_of("e4m3", "e5m2", "f32", (128, 64, 32), scaling="ue8m0x32").name
    'tcgen05_mxf8f6f4_cg1_m128n64k32_f32_e4m3_e5m2_ue8m0x32'
    """
    rows = [row for row in _ROWS if (row.a, row.b, row.d, row.scaling) == (a, b, c, scaling)]
    m, n, k = shape
    for row in rows:
        if row.k == k and (cta_group, m, n) in _shapes(row.kind):
            return _entry(row, cta_group, m, n)
    listed = ", ".join(f"{each}xNx{row.k}" for row in rows for each in rows_of(row.kind, cta_group))
    raise ValueError(
        f"expected a tcgen05.mma of {a} x {b} into {c} ({listed or 'there is none'}), got "
        f"{m}x{n}x{k} with cta_group {cta_group}"
    )


def find_tcgen05(
    a: str,
    b: str,
    c: str,
    on: str | Target,
    *,
    cta_group: int = 1,
    kind: str | None = None,
    scaling: str = "",
) -> tuple[Tcgen05Atom, ...]:
    """The atoms for element types `a` x `b` accumulated in `c` on a target, largest product first.

    Without `kind` those with the `scaling` that is asked for, such as `ue8m0x32`, or none.
    `ValueError` when there is none, with the nearest legal choice.

    >>> find_tcgen05("bf16", "bf16", "f32", "sm_100a")[0].name
    'tcgen05_f16_cg1_m128n256k16_f32_bf16_bf16'
    """
    found, why = _search(a, b, c, on, cta_group, kind, scaling)
    if why:
        raise ValueError(why)
    return found


@cache
def _search(
    a: str, b: str, c: str, on: str | Target, cta_group: int, kind: str | None, scaling: str
) -> tuple[tuple[Tcgen05Atom, ...], str]:
    """What `find_tcgen05` finds, or why there is none: a question of each multiply of a kernel."""
    chip = target(on)
    wanted = [row for row in _ROWS if (row.kind == kind if kind else row.scaling == scaling)]
    typed = [row for row in wanted if (row.a, row.b) == (a, b)]
    matching = [row for row in typed if row.d == c]
    found = [
        _entry(row, group, m, n)
        for row in matching
        if chip.has(_targets_of(row.kind))
        for group, m, n in _shapes(row.kind)
        if group == cta_group
    ]
    if found:
        found.sort(key=lambda atom: (-atom.shape_mnk[0], -atom.shape_mnk[1]))
        return tuple(found), ""
    scales = f" with scales {scaling}" if scaling else ""
    asked = f"no tcgen05.mma takes {a} x {b} into {c}{scales} on {chip.name}"
    if not chip.has(_TARGETS):
        return (), f"{asked}; sm_100f and sm_110f have tcgen05, with their a targets"
    if matching:
        return (), f"{asked}; {_INTEGER_TARGETS.replace(' ', ' and ')} have it"
    if typed:
        there = ", ".join(sorted({row.d for row in typed}))
        return (), f"{asked}; accumulators for these types: {there}"
    pairs = ", ".join(sorted({f"{row.a} x {row.b}" for row in wanted}))
    return (), f"{asked}; operand types: {pairs}"
