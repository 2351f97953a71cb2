"""MMA instructions as data: one entry per shape and type combination of `mma.sync`; the registry of
names takes in `wgmma` (wgmma_atoms.py) and `tcgen05` (tcgen05_atoms.py). A layout maps
(thread, value) to a column-major coordinate (A: m + M*k, B: n + N*k, C and D: m + M*n); values run
in register order, low bits of a register first. Sources: PTX ISA 9.1, "Matrix Fragments for mma".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import NamedTuple

from cutedialect.atoms.capability import Target, target, targets_with
from cutedialect.layout import Layout
from cutedialect.layout.text import parse_layout

BITS = {
    "f64": 64,
    "f32": 32,
    "s32": 32,
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "s8": 8,
    "u8": 8,
    "e4m3": 8,
    "e5m2": 8,
    "e3m2": 8,
    "e2m3": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
}
# Kinds that a multiply gets without being asked for one; `and` came later than `xor`.
DEFAULT_KINDS = ("", "xor")


class MmaTypes(NamedTuple):
    """Element types of the four operands, by their PTX names."""

    a: str
    b: str
    c: str
    d: str


@dataclass(frozen=True)
class MmaAtom:
    """One MMA instruction.

    `thr_id` maps the logical thread of the layouts to a lane; an instruction that does several
    products side by side (m8n8k4 f16) gives the first group and the lane `thr_offsets` of all.
    `majors` are the letters of A and B that the instruction takes (`row.col` is `"TN"`). `kind`
    tells apart what agrees in shape and types: `satfinite` clamps sums of integers, `xor` and `and`
    say how single bits are multiplied.
    `requires` is a requirement of `Target.has`; `ptx_version` the oldest ISA with the instruction.
    """

    name: str
    ptx: str
    shape_mnk: tuple[int, int, int]
    types: MmaTypes
    requires: str
    ptx_version: tuple[int, int]
    a_text: str
    b_text: str
    c_text: str
    thr_text: str = "32:1"
    thr_offsets: tuple[int, ...] = (0,)
    majors: str = "TN"
    saturates: bool = False
    roundings: tuple[str, ...] = ()
    spaces: tuple[str, str, str] = ("rmem", "rmem", "rmem")
    kind: str = ""

    @cached_property
    def thr_id(self) -> Layout:
        """Logical thread to lane."""
        return parse_layout(self.thr_text)

    @cached_property
    def a_layout(self) -> Layout:
        """(thread, value) to m + M*k."""
        return parse_layout(self.a_text)

    @cached_property
    def b_layout(self) -> Layout:
        """(thread, value) to n + N*k."""
        return parse_layout(self.b_text)

    @cached_property
    def c_layout(self) -> Layout:
        """(thread, value) to m + M*n; D has the same layout as C."""
        return parse_layout(self.c_text)

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Names of the targets that have the instruction, oldest first."""
        return targets_with(self.requires)

    @property
    def scaling(self) -> str:
        """The type of scale factors and how many elements share one, such as `ue8m0x32`; empty
        without.
        """
        return ""

    @property
    def in_bytes(self) -> MmaAtom:
        """The atom of operands in which bytes are elements, where two elements have one."""
        return self

    @property
    def threads(self) -> int:
        """Threads that take part in one product."""
        return 32 // len(self.thr_offsets)

    @property
    def values(self) -> tuple[int, int, int]:
        """Elements that one thread holds of A, B and C."""
        m, n, k = self.shape_mnk
        return m * k // self.threads, n * k // self.threads, m * n // self.threads

    @property
    def register_classes(self) -> tuple[str, str, str, str]:
        """PTX register type of an operand register of A, B, C and D: `b32`, `f32` or `f64`."""
        a, b, c, d = (_register_class(each) for each in self.types)
        return ("b32" if a == "f32" else a, "b32" if b == "f32" else b, c, d)

    @property
    def registers_a(self) -> int:
        """Registers of A per thread, each 32 bits wide (64 for f64)."""
        return self._registers(self.values[0], self.types.a)

    @property
    def registers_b(self) -> int:
        """Registers of B per thread, each 32 bits wide (64 for f64)."""
        return self._registers(self.values[1], self.types.b)

    @property
    def registers_c(self) -> int:
        """Registers of C (and of D) per thread, each 32 bits wide (64 for f64)."""
        return self._registers(self.values[2], self.types.c)

    @property
    def registers_d(self) -> int:
        return self._registers(self.values[2], self.types.d)

    @property
    def flops(self) -> int:
        """Multiplications and additions of one instruction, all groups of threads together."""
        m, n, k = self.shape_mnk
        return 2 * m * n * k * len(self.thr_offsets)

    def is_legal_on(self, name: str | Target) -> bool:
        """Whether a target has it; raises ValueError for one that does not exist."""
        return target(name).has(self.requires)

    @staticmethod
    def _registers(values: int, kind: str) -> int:
        return values * BITS[kind] // max(32, BITS[kind])


def _register_class(kind: str) -> str:
    return kind if kind in ("f32", "f64") else "b32"


class _Fragments(NamedTuple):
    a: str
    b: str
    c: str


_C_16 = "((4,8),(2,2)):((32,1),(16,8))"
_C_8 = "((4,8),2):((16,1),8)"

# (shape, element bits of A) to layouts. A 32-bit register r of A holds row g + 8*(r & 1) and
# elements k = e*q + j + 4*e*(r >> 1), with lane = 4*g + q and e elements to a register.
_FRAGMENTS = {
    ((16, 8, 8), 16): _Fragments(_C_16, _C_8, _C_16),
    ((16, 8, 16), 16): _Fragments(
        "((4,8),(2,2,2)):((32,1),(16,8,128))", "((4,8),(2,2)):((16,1),(8,64))", _C_16
    ),
    ((16, 8, 4), 32): _Fragments("((4,8),2):((16,1),8)", "((4,8),1):((8,1),0)", _C_16),
    ((16, 8, 8), 32): _Fragments("((4,8),(2,2)):((16,1),(8,64))", "((4,8),2):((8,1),32)", _C_16),
    ((8, 8, 16), 8): _Fragments("((4,8),4):((32,1),8)", "((4,8),4):((32,1),8)", _C_8),
    ((16, 8, 16), 8): _Fragments("((4,8),(4,2)):((64,1),(16,8))", "((4,8),4):((32,1),8)", _C_16),
    ((16, 8, 32), 8): _Fragments(
        "((4,8),(4,2,2)):((64,1),(16,8,256))", "((4,8),(4,2)):((32,1),(8,128))", _C_16
    ),
    ((8, 8, 32), 4): _Fragments("((4,8),8):((64,1),8)", "((4,8),8):((64,1),8)", _C_8),
    ((16, 8, 32), 4): _Fragments("((4,8),(8,2)):((128,1),(16,8))", "((4,8),8):((64,1),8)", _C_16),
    ((16, 8, 64), 4): _Fragments(
        "((4,8),(8,2,2)):((128,1),(16,8,512))", "((4,8),(8,2)):((64,1),(8,256))", _C_16
    ),
    ((8, 8, 128), 1): _Fragments("((4,8),32):((256,1),8)", "((4,8),32):((256,1),8)", _C_8),
    ((16, 8, 128), 1): _Fragments(
        "((4,8),(32,2)):((512,1),(16,8))", "((4,8),32):((256,1),8)", _C_16
    ),
    ((16, 8, 256), 1): _Fragments(
        "((4,8),(32,2,2)):((512,1),(16,8,2048))", "((4,8),(32,2)):((256,1),(8,1024))", _C_16
    ),
    ((8, 8, 4), 64): _Fragments("((4,8),1):((8,1),0)", "((4,8),1):((8,1),0)", _C_8),
    ((16, 8, 4), 64): _Fragments("((4,8),2):((16,1),8)", "((4,8),1):((8,1),0)", _C_16),
    ((16, 8, 8), 64): _Fragments("((4,8),(2,2)):((16,1),(8,64))", "((4,8),2):((8,1),32)", _C_16),
    ((16, 8, 16), 64): _Fragments("((4,8),(2,4)):((16,1),(8,64))", "((4,8),4):((8,1),32)", _C_16),
}


def fragments_of(shape: tuple[int, int, int], bits: int) -> tuple[str, str, str]:
    """The layouts of A, B and C of a shape with elements of so many bits in registers."""
    return _FRAGMENTS[shape, bits]


class _Row(NamedTuple):
    """One line of the table: A types x B types x accumulators of one shape."""

    shape: tuple[int, int, int]
    a: str
    b: str
    accumulators: str
    requires: str
    ptx_version: tuple[int, int]
    kinds: str = ""
    infix: str = ""


_SATURATING = "- satfinite"
# Floats of 6 bits stand in bytes, beside others of 6 or 8 bits.
_OF_SIX, _OF_BYTES, _NARROW = "e3m2 e2m3", "e4m3 e5m2 e3m2 e2m3", ".kind::f8f6f4"
# PTX ISA 9.1, "Multiply-and-Accumulate Instruction: mma", shapes, target notes and versions.
_ROWS = (
    _Row((16, 8, 8), "f16", "f16", "f32 f16", "sm_75+", (6, 5)),
    _Row((16, 8, 16), "f16", "f16", "f32 f16", "sm_80+", (7, 0)),
    _Row((16, 8, 8), "bf16", "bf16", "f32", "sm_80+", (7, 0)),
    _Row((16, 8, 16), "bf16", "bf16", "f32", "sm_80+", (7, 0)),
    _Row((16, 8, 4), "tf32", "tf32", "f32", "sm_80+", (7, 0)),
    _Row((16, 8, 8), "tf32", "tf32", "f32", "sm_80+", (7, 0)),
    _Row((8, 8, 16), "s8 u8", "s8 u8", "s32", "sm_75+", (6, 5), _SATURATING),
    _Row((16, 8, 16), "s8 u8", "s8 u8", "s32", "sm_80+", (7, 0), _SATURATING),
    _Row((16, 8, 32), "s8 u8", "s8 u8", "s32", "sm_80+", (7, 0), _SATURATING),
    _Row((8, 8, 32), "s4 u4", "s4 u4", "s32", "sm_75+", (6, 5), _SATURATING),
    _Row((16, 8, 32), "s4 u4", "s4 u4", "s32", "sm_80+", (7, 0), _SATURATING),
    _Row((16, 8, 64), "s4 u4", "s4 u4", "s32", "sm_80+", (7, 0), _SATURATING),
    _Row((8, 8, 128), "b1", "b1", "s32", "sm_75+", (7, 0), "xor"),
    _Row((8, 8, 128), "b1", "b1", "s32", "sm_80+", (7, 1), "and"),
    _Row((16, 8, 128), "b1", "b1", "s32", "sm_80+", (7, 0), "xor"),
    _Row((16, 8, 128), "b1", "b1", "s32", "sm_80+", (7, 1), "and"),
    _Row((16, 8, 256), "b1", "b1", "s32", "sm_80+", (7, 0), "xor"),
    _Row((16, 8, 256), "b1", "b1", "s32", "sm_80+", (7, 1), "and"),
    _Row((8, 8, 4), "f64", "f64", "f64", "sm_80+", (7, 0)),
    _Row((16, 8, 4), "f64", "f64", "f64", "sm_90+", (7, 8)),
    _Row((16, 8, 8), "f64", "f64", "f64", "sm_90+", (7, 8)),
    _Row((16, 8, 16), "f64", "f64", "f64", "sm_90+", (7, 8)),
    _Row((16, 8, 32), "e4m3 e5m2", "e4m3 e5m2", "f32", "sm_89+", (8, 4)),
    _Row((16, 8, 32), "e4m3 e5m2", "e4m3 e5m2", "f16", "sm_89+", (8, 7)),
    _Row((16, 8, 16), "e4m3 e5m2", "e4m3 e5m2", "f32 f16", "sm_89+", (8, 7)),
    _Row((16, 8, 32), _OF_SIX, _OF_BYTES, "f32 f16", "sm_120f", (8, 7), infix=_NARROW),
    _Row((16, 8, 32), "e4m3 e5m2", _OF_SIX, "f32 f16", "sm_120f", (8, 7), infix=_NARROW),
)

# Four independent 8x8x4 products, each by a pair of quads: lanes 4p..4p+3 and 16+4p..19+4p.
_VOLTA_ROW = "(8,4):(1,8)"
_VOLTA_COL = "((4,2),4):((8,4),1)"
_VOLTA_C = {"f16": "(8,8):(1,8)", "f32": "((2,2,2),(2,2,2)):((1,16,4),(8,2,32))"}


def _name(shape: tuple[int, int, int], types: MmaTypes, majors: str = "TN", kind: str = "") -> str:
    m, n, k = shape
    operands = types.a if types.a == types.b else f"{types.a}_{types.b}"
    major = "" if majors == "TN" else f"_{majors.lower()}"
    return f"mma_m{m}n{n}k{k}_{types.d}_{operands}{major}{kind and f'_{kind}'}"


def _spell(
    shape: tuple[int, int, int],
    types: MmaTypes,
    order: str = "row.col",
    kind: str = "",
    infix: str = "",
) -> str:
    m, n, k = shape
    clamps = ".satfinite" if kind == "satfinite" else ""
    bits = f".{kind}.popc" if kind in ("xor", "and") else ""
    return (
        f"mma.sync.aligned.m{m}n{n}k{k}.{order}{infix}{clamps}.{types.d}.{types.a}.{types.b}.{types.c}"
        f"{bits}"
    )


def _entries(row: _Row) -> list[MmaAtom]:
    result: list[MmaAtom] = []
    kinds = [word.strip("-") for word in row.kinds.split()] or [""]
    for accumulator, a, b, kind in product(
        row.accumulators.split(), row.a.split(), row.b.split(), kinds
    ):
        fragments = _FRAGMENTS[row.shape, BITS[a]]
        types = MmaTypes(a, b, accumulator, accumulator)
        result.append(
            MmaAtom(
                _name(row.shape, types, kind=kind),
                _spell(row.shape, types, kind=kind, infix=row.infix),
                row.shape,
                types,
                row.requires,
                row.ptx_version,
                fragments.a,
                fragments.b,
                fragments.c,
                saturates=accumulator == "s32" and a != "b1",
                roundings=("rn", "rz", "rm", "rp") if accumulator == "f64" else (),
                kind=kind,
            )
        )
    return result


def _volta_entries() -> list[MmaAtom]:
    result: list[MmaAtom] = []
    for accumulator, c_text in _VOLTA_C.items():
        for majors, order in (
            ("TN", "row.col"),
            ("TT", "row.row"),
            ("NN", "col.col"),
            ("NT", "col.row"),
        ):
            types = MmaTypes("f16", "f16", accumulator, accumulator)
            shape = (8, 8, 4)
            result.append(
                MmaAtom(
                    _name(shape, types, majors),
                    _spell(shape, types, order),
                    shape,
                    types,
                    "sm_70+",
                    (6, 4),
                    _VOLTA_ROW if order.startswith("row") else _VOLTA_COL,
                    _VOLTA_ROW if order.endswith("col") else _VOLTA_COL,
                    c_text,
                    thr_text="(4,2):(1,16)",
                    thr_offsets=(0, 4, 8, 12),
                    majors=majors,
                )
            )
    return result


@cache
def _all() -> tuple[MmaAtom, ...]:
    return tuple(_volta_entries()) + tuple(atom for row in _ROWS for atom in _entries(row))


def mma_sync() -> tuple[MmaAtom, ...]:
    """Every `mma.sync` of the registry, oldest target first within a type."""
    return _all()


def mma() -> list[MmaAtom]:
    """Every MMA instruction of the registry: `mma.sync`, oldest target first within a type, with
    scales of blocks behind those without, then `wgmma`, then `tcgen05`."""
    from cutedialect.atoms.tcgen05_atoms import tcgen05

    return [*_spelled(), *tcgen05()]


def _spelled() -> list[MmaAtom]:
    """Those whose PTX spelling says everything."""
    from cutedialect.atoms.block_scaled_atoms import block_scaled
    from cutedialect.atoms.wgmma_atoms import wgmma

    return [*_all(), *block_scaled(), *wgmma()]


@cache
def _by_name() -> dict[str, MmaAtom]:
    return {atom.name: atom for atom in _spelled()} | {atom.ptx: atom for atom in _spelled()}


def mma_atom(name: str) -> MmaAtom:
    """The entry with this name or PTX spelling; `ValueError` with the near names for none.

    >>> mma_atom("mma_m16n8k16_f32_f16").registers_a
    4
    """
    if name.startswith("tcgen05_"):
        from cutedialect.atoms.tcgen05_atoms import tcgen05_atom

        return tcgen05_atom(name)
    found = _by_name().get(name)
    if found is None:
        from difflib import get_close_matches

        near = get_close_matches(name, [atom.name for atom in _spelled()], n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"expected the name of an MMA atom, got {name!r}{hint}")
    return found


def find_mma(a: str, b: str, c: str, on: str | Target) -> tuple[MmaAtom, ...]:
    """The `row.col` atoms of `mma.sync` for types `a` x `b` accumulated in `c` on target `on`, of
    the kind that needs no name.

    The largest product comes first, except that a shape which the target only carries for
    compatibility (m8n8k4 f16 after sm_70) comes last. `ValueError` when there is none, with the
    nearest legal choice: another accumulator, another target, or other operand types. For `wgmma`
    and `tcgen05` ask `find_wgmma` and `find_tcgen05`.
    """
    found, why = _search(a, b, c, on)
    if why:
        raise ValueError(why)
    return found


@cache
def _search(a: str, b: str, c: str, on: str | Target) -> tuple[tuple[MmaAtom, ...], str]:
    """What `find_mma` finds, or why there is none: a question of each multiply of a kernel."""
    chip = target(on)
    typed = [
        x for x in _all() if x.types[:2] == (a, b) and x.majors == "TN" and x.kind in DEFAULT_KINDS
    ]
    matching = [x for x in typed if x.types.c == c]
    found = [x for x in matching if chip.has(x.requires)]
    if found:
        found.sort(key=lambda x: (len(x.thr_offsets) > 1, -x.flops))
        return tuple(found), ""
    asked = f"no mma takes {a} x {b} into {c} on {chip.name}"
    here = sorted({x.types.c for x in typed if chip.has(x.requires)})
    if here:
        return (), f"{asked}; accumulators there: {', '.join(here)}"
    if matching:
        first = min((target(x.targets[0]) for x in matching), key=lambda each: each.number)
        there = _pairs_on(chip)
        return (), (
            f"{asked}; the first target that has it is {first.name}, operand types on "
            f"{chip.name}: {there}"
        )
    if typed:
        legal = sorted({x.types.c for x in typed})
        return (), f"{asked}; accumulators for these types: {', '.join(legal)}"
    return (), f"{asked}; operand types there: {_pairs_on(chip)}"


def first_target(a: str, b: str) -> Target | None:
    """The earliest target that multiplies types `a` x `b` by some `mma.sync`; None if none does.

    >>> first_target("e4m3", "e5m2").name
    'sm_89'
    """
    names = {x.targets[0] for x in _all() if x.types[:2] == (a, b) and x.kind in DEFAULT_KINDS}
    return min((target(name) for name in names), key=lambda each: each.number, default=None)


def _pairs_on(chip: Target) -> str:
    """The operand types of whole bytes that a target multiplies, for messages."""
    pairs = {
        f"{x.types.a} x {x.types.b}"
        for x in _all()
        if chip.has(x.requires) and BITS[x.types.a] >= 8
    }
    return ", ".join(sorted(pairs))
