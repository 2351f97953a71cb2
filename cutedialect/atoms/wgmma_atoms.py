"""`wgmma` as data: every m64nNk shape and type combination. Four warps do one product; B is read
from shared memory through a descriptor, A from there or from registers. Layouts map (thread, value)
to a column-major coordinate as those of `mma.sync` do; `a_layout` is that of A in registers.
Source: PTX ISA 9.1, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from cutedialect.atoms.capability import Target, target
from cutedialect.atoms.mma_atoms import MmaAtom, MmaTypes
from cutedialect.layout import Layout

A_SPACES = ("smem", "rmem")


@dataclass(frozen=True)
class WgmmaAtom(MmaAtom):
    """One `wgmma.mma_async`.

    `spaces` is the form with both operands in shared memory; `a_spaces` where A may be. `scales`
    says whether the instruction can negate A and B, `transposes` whether an operand in shared
    memory may be MN-major.
    """

    scales: bool = False
    transposes: bool = False
    a_spaces: tuple[str, ...] = A_SPACES

    @property
    def threads(self) -> int:
        """Threads that take part in one product: a warpgroup."""
        return 128

    @property
    def values(self) -> tuple[int, int, int]:
        """Elements that one thread holds of A (in registers) and C; of B, all that it shares."""
        m, n, k = self.shape_mnk
        return m * k // 128, n * k, m * n // 128

    @property
    def registers_b(self) -> int:
        """B is in shared memory."""
        return 0

    @cached_property
    def a_smem_layout(self) -> Layout:
        """(thread, value) to m + 64*k of A in shared memory: every thread's descriptor is all."""
        m, _, k = self.shape_mnk
        return Layout((128, (m, k)), (0, (1, m)))

    def immediates(
        self,
        *,
        a_space: str = "smem",
        a_major: str = "K",
        b_major: str = "K",
        negate_a: bool = False,
        negate_b: bool = False,
    ) -> tuple[int, ...]:
        """The integers after scale-d: scales of A and B, then their transpositions.

        `ValueError` for what this instruction cannot do.

        >>> wgmma_atom("wgmma_m64n8k16_f32_f16_f16").immediates(a_space="rmem", b_major="MN")
        (1, 1, 1)
        """
        if a_space not in self.a_spaces:
            raise ValueError(f"expected A in {' or '.join(self.a_spaces)}, got {a_space!r}")
        for operand, major in (("A", a_major), ("B", b_major)):
            if major not in ("K", "MN"):
                raise ValueError(f"expected {operand} K- or MN-major, got {major!r}")
            if major == "MN" and not self.transposes:
                kind = self.types.a if operand == "A" else self.types.b
                raise ValueError(
                    f"expected a K-major {operand} (only 16-bit types may be MN-major), got "
                    f"MN-major {kind}"
                )
        if a_space == "rmem" and a_major == "MN":
            raise ValueError("expected a K-major A in registers, got MN-major")
        if not self.scales:
            if negate_a or negate_b:
                raise ValueError(f"expected no negation with integer types, got {self.name}")
            return ()
        result = [-1 if negate_a else 1, -1 if negate_b else 1]
        if self.transposes:
            majors = (a_major, b_major) if a_space == "smem" else (b_major,)
            result += [int(major == "MN") for major in majors]
        return tuple(result)


class _Row(NamedTuple):
    """One line of the shape table; integers have fewer values of N than floats."""

    k: int
    d: str
    a: str
    b: str


_FP8 = ("e4m3", "e5m2")
_INT8 = ("s8", "u8")
_ROWS = (
    _Row(16, "f32", "f16", "f16"),
    _Row(16, "f16", "f16", "f16"),
    _Row(16, "f32", "bf16", "bf16"),
    _Row(8, "f32", "tf32", "tf32"),
    *(_Row(32, d, a, b) for d in ("f32", "f16") for a in _FP8 for b in _FP8),
    *(_Row(32, "s32", a, b) for a in _INT8 for b in _INT8),
)
_EVERY_N = tuple(range(8, 257, 8))
_INTEGER_N = (8, 16, 24, *range(32, 257, 16))

# Bits of A to its fragment: warp w of four holds rows 16w to 16w + 15 as mma.sync's A.
_A_TEXT = {
    8: "((4,8,4),(4,2,2)):((256,1,16),(64,8,1024))",
    16: "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))",
    32: "((4,8,4),(2,2)):((64,1,16),(8,256))",
}


def _entry(row: _Row, n: int, kind: str = "") -> WgmmaAtom:
    types = MmaTypes(row.a, row.b, row.d, row.d)
    is_float = row.d != "s32"
    name, spelled = (f"{mark}{kind}" if kind else "" for mark in "_.")
    return WgmmaAtom(
        name=f"wgmma_m64n{n}k{row.k}_{row.d}_{row.a}_{row.b}{name}",
        ptx=f"wgmma.mma_async.sync.aligned.m64n{n}k{row.k}{spelled}.{row.d}.{row.a}.{row.b}",
        shape_mnk=(64, n, row.k),
        types=types,
        requires="sm_90a",
        ptx_version=(8, 4) if row.a != row.b and not is_float else (8, 0),
        a_text=_A_TEXT[256 // row.k],
        b_text=f"(128,({n},{row.k})):(0,(1,{n}))",
        c_text=f"((4,8,4),(2,2,{n // 8})):((128,1,16),(64,8,512))",
        thr_text="128:1",
        saturates=not is_float,
        spaces=("smem", "smem", "rmem"),
        scales=is_float,
        transposes=row.k == 16,
        kind=kind,
    )


@cache
def wgmma() -> tuple[WgmmaAtom, ...]:
    """Every dense `wgmma` of the registry, by types, then by kind, then by N."""
    return tuple(atom for row in _ROWS for atom in _of_row(row))


def wgmma_of(a: str, b: str) -> tuple[WgmmaAtom, ...]:
    """Those of them for operands of two element types: a kernel takes few of the registry."""
    return tuple(atom for row in _ROWS if (row.a, row.b) == (a, b) for atom in _of_row(row))


@cache
def _of_row(row: _Row) -> tuple[WgmmaAtom, ...]:
    return tuple(
        _entry(row, n, kind)
        for kind in (("", "satfinite") if row.d == "s32" else ("",))
        for n in (_INTEGER_N if row.d == "s32" else _EVERY_N)
    )


@cache
def _by_name() -> dict[str, WgmmaAtom]:
    return {atom.name: atom for atom in wgmma()} | {atom.ptx: atom for atom in wgmma()}


def wgmma_atom(name: str) -> WgmmaAtom:
    """The entry with this name or PTX spelling; `ValueError` with the near names for none."""
    found = _by_name().get(name)
    if found is None:
        from difflib import get_close_matches

        near = get_close_matches(name, [atom.name for atom in wgmma()], n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"expected the name of a wgmma atom, got {name!r}{hint}")
    return found


def find_wgmma(a: str, b: str, c: str, on: str | Target) -> tuple[WgmmaAtom, ...]:
    """The atoms for element types `a` x `b` accumulated in `c` on a target, largest N first.

    `ValueError` when there is none, with the nearest legal choice.

    >>> find_wgmma("bf16", "bf16", "f32", "sm_90a")[0].name
    'wgmma_m64n256k16_f32_bf16_bf16'
    """
    found, why = _search(a, b, c, on)
    if why:
        raise ValueError(why)
    return found


@cache
def _search(a: str, b: str, c: str, on: str | Target) -> tuple[tuple[WgmmaAtom, ...], str]:
    """What `find_wgmma` finds, or why there is none: a question of each multiply of a kernel."""
    chip = target(on)
    typed = [atom for atom in wgmma_of(a, b) if not atom.kind]
    matching = [atom for atom in typed if atom.types.c == c]
    found = [atom for atom in matching if chip.has(atom.requires)]
    if found:
        return tuple(sorted(found, key=lambda atom: -atom.shape_mnk[1])), ""
    asked = f"no wgmma takes {a} x {b} into {c} on {chip.name}"
    if not chip.has("sm_90a"):
        return (), f"{asked}; only sm_90a has wgmma"
    if typed:
        there = ", ".join(sorted({atom.types.c for atom in typed}))
        return (), f"{asked}; accumulators for these types: {there}"
    pairs = ", ".join(sorted({f"{atom.types.a} x {atom.types.b}" for atom in wgmma()}))
    return (), f"{asked}; operand types: {pairs}"
