"""Copy instructions as data: plain loads and stores, `cp.async`, `ldmatrix`, `stmatrix`,
`movmatrix`; the registry takes in bulk copies (bulk_copy_atoms.py). The layouts of an atom map
(thread, value) to the element of the moved tile, once for who supplies it and once for who gets it;
a thread's value of the memory side is what its address points at. Sources: PTX ISA 9.1, "ld", "st",
"cp.async", "ldmatrix", "stmatrix", "movmatrix".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

from cutedialect.atoms.capability import Target, target, targets_with
from cutedialect.layout import Layout
from cutedialect.layout.text import parse_layout

# Every element width that a register can hold at least one of.
_ANY_WIDTH = (8, 16, 32, 64, 128)


@dataclass(frozen=True)
class CopyAtom:
    """One copy instruction.

    `unit_bits` is the width of the elements that the layouts count; `bits` what one instruction
    moves for each thread, seen from the register side (from the shared-memory side for `cp.async`).
    The tile of a matrix instruction is (8 rows, 8 columns, matrices), column-major: row + 8*column
    + 64*matrix, where a row is what one address points at. A thread mode of stride 0 in the memory
    side says that the hardware ignores these threads' addresses. `alignment` is in bytes, of every
    address. `element_bits` are the widths of logical elements for which the atom may be used: a
    transposing instruction moves 16-bit elements only, all others move bytes of any width.
    """

    name: str
    ptx: str
    kind: str
    src_space: str
    dst_space: str
    bits: int
    unit_bits: int
    requires: str
    ptx_version: tuple[int, int]
    src_text: str
    dst_text: str
    alignment: int
    element_bits: tuple[int, ...]
    matrices: int = 0
    transposes: bool = False
    zero_fills: bool = False
    asynchronous: bool = False
    thr_text: str = "32:1"

    @cached_property
    def thr_id(self) -> Layout:
        """Logical thread to lane; one thread for an instruction that each lane does alone."""
        return parse_layout(self.thr_text)

    @cached_property
    def src_layout(self) -> Layout:
        """(thread, value) of the source side to the element of the tile."""
        return parse_layout(self.src_text)

    @cached_property
    def dst_layout(self) -> Layout:
        """(thread, value) of the destination side to the element of the tile."""
        return parse_layout(self.dst_text)

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Names of the targets that have the instruction, oldest first."""
        return targets_with(self.requires)

    @property
    def threads(self) -> int:
        """Threads that take part in one copy: 32, or 1."""
        return 32 if self.matrices else 1

    @property
    def bytes(self) -> int:
        """Bytes that one thread moves."""
        return self.bits // 8

    @property
    def registers(self) -> int:
        """32-bit registers of one thread; 0 when no register is involved."""
        return (self.bits + 31) // 32 if "rmem" in (self.src_space, self.dst_space) else 0

    def is_legal_on(self, name: str | Target) -> bool:
        """Whether a target has it; raises ValueError for one that does not exist."""
        return target(name).has(self.requires)


_PTX_SPACE = {"gmem": "global", "smem": "shared"}
_WIDTHS = {
    8: "b8",
    16: "b16",
    32: "b32",
    64: "v2.b32",
    128: "v4.b32",
    256: "v8.b32",
}


def _plain(kind: str, space: str, bits: int) -> CopyAtom:
    """A load or a store of `bits` by each thread alone."""
    src, dst = (space, "rmem") if kind == "ld" else ("rmem", space)
    text = f"(1,{bits // 8}):(0,1)"
    return CopyAtom(
        name=f"{kind}_{_PTX_SPACE[space]}_{bits}",
        ptx=f"{kind}.{_PTX_SPACE[space]}.{_WIDTHS[bits]}",
        kind=kind,
        src_space=src,
        dst_space=dst,
        bits=bits,
        unit_bits=8,
        requires="sm_70+" if bits <= 128 else "sm_100+",
        ptx_version=(6, 0) if bits <= 128 else (8, 8),
        src_text=text,
        dst_text=text,
        alignment=bits // 8,
        element_bits=tuple(width for width in _ANY_WIDTH if width <= bits),
        thr_text="1:0",
    )


def _cp_async(cache_at: str, size: int) -> CopyAtom:
    """Each thread copies `size` bytes; a shorter source size fills the rest with zeros."""
    text = f"(1,{size}):(0,1)"
    return CopyAtom(
        name=f"cp_async_{cache_at}_{8 * size}",
        ptx=f"cp.async.{cache_at}.shared.global",
        kind="cp.async",
        src_space="gmem",
        dst_space="smem",
        bits=8 * size,
        unit_bits=8,
        requires="sm_80+",
        ptx_version=(7, 0),
        src_text=text,
        dst_text=text,
        alignment=size,
        element_bits=tuple(width for width in _ANY_WIDTH if width <= 8 * size),
        zero_fills=True,
        asynchronous=True,
        thr_text="1:0",
    )


# Lane 8*j + r points at row r of matrix j; lanes past the last matrix point nowhere.
_ROWS = {
    1: "((8,4),8):((1,0),8)",
    2: "((8,2,2),8):((1,64,0),8)",
    4: "((8,4),8):((1,64),8)",
}
# Register j of lane 4*g + q holds row g, columns 2*q and 2*q + 1 of matrix j; transposed, it holds
# column g, rows 2*q and 2*q + 1.
_REGISTERS = {
    (matrices, transposes): (
        f"((4,8),(2,{matrices})):((2,8),(1,64))"
        if transposes
        else f"((4,8),(2,{matrices})):((16,1),(8,64))"
    )
    for matrices in (1, 2, 4)
    for transposes in (False, True)
}


def _matrix(kind: str, matrices: int, transposes: bool) -> CopyAtom:
    """`ldmatrix` or `stmatrix` of 8x8 matrices of 16-bit elements."""
    load = kind == "ldmatrix"
    rows, registers = _ROWS[matrices], _REGISTERS[matrices, transposes]
    trans = ".trans" if transposes else ""
    return CopyAtom(
        name=f"{kind}_x{matrices}{'_trans' if transposes else ''}",
        ptx=f"{kind}.sync.aligned.m8n8.x{matrices}{trans}.shared.b16",
        kind=kind,
        src_space="smem" if load else "rmem",
        dst_space="rmem" if load else "smem",
        bits=32 * matrices,
        unit_bits=16,
        requires="sm_75+" if load else "sm_90+",
        ptx_version=(6, 5) if load else (7, 8),
        src_text=rows if load else registers,
        dst_text=registers if load else rows,
        alignment=16,
        element_bits=(16,) if transposes else (8, 16, 32),
        matrices=matrices,
        transposes=transposes,
    )


_MOVMATRIX = CopyAtom(
    name="movmatrix_trans",
    ptx="movmatrix.sync.aligned.m8n8.trans.b16",
    kind="movmatrix",
    src_space="rmem",
    dst_space="rmem",
    bits=32,
    unit_bits=16,
    requires="sm_75+",
    ptx_version=(7, 8),
    src_text=_REGISTERS[1, False],
    dst_text=_REGISTERS[1, True],
    alignment=0,
    element_bits=(16,),
    matrices=1,
    transposes=True,
)


@cache
def _all() -> tuple[CopyAtom, ...]:
    plain = [
        _plain(kind, space, bits)
        for kind in ("ld", "st")
        for space in ("gmem", "smem")
        for bits in _WIDTHS
        if bits <= 128 or space == "gmem"
    ]
    asynchronous = [_cp_async("ca", 4), _cp_async("ca", 8), _cp_async("ca", 16)]
    matrix = [
        _matrix(kind, matrices, transposes)
        for kind in ("ldmatrix", "stmatrix")
        for transposes in (False, True)
        for matrices in (1, 2, 4)
    ]
    return (*plain, *asynchronous, _cp_async("cg", 16), *matrix, _MOVMATRIX)


def copy() -> list[CopyAtom]:
    """Every copy instruction of the registry: those of threads, then the bulk copies, then those of
    tensor memory."""
    from cutedialect.atoms.bulk_copy_atoms import bulk_copies
    from cutedialect.atoms.tmem_copy_atoms import tmem_copies

    return [*_all(), *bulk_copies(), *tmem_copies()]


@cache
def _by_name() -> dict[str, CopyAtom]:
    return {atom.name: atom for atom in copy()}


def copy_atom(name: str) -> CopyAtom:
    """The entry of this name; `ValueError` with the near names for none.

    >>> copy_atom("ldmatrix_x4").registers
    4
    """
    found = _by_name().get(name)
    if found is None:
        from difflib import get_close_matches

        near = get_close_matches(name, list(_by_name()), n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"expected the name of a copy atom, got {name!r}{hint}")
    return found


def find_copy(
    src: str,
    dst: str,
    on: str | Target,
    *,
    alignment: int = 16,
    element_bits: int = 8,
    kind: str | None = None,
    transposes: bool | None = None,
) -> tuple[CopyAtom, ...]:
    """The atoms from space `src` to space `dst` (`gmem`, `smem`, `rmem`) on a target, widest first.

    `alignment` is what the addresses are known to be multiples of, in bytes. `kind` and
    `transposes` narrow the choice; without a kind of theirs bulk copies, which one thread starts
    for all, are left out. `ValueError` when nothing is left, naming the condition that
    refused the last candidates.
    """
    chip = target(on)
    tests: tuple[tuple[str, Callable[[CopyAtom], bool]], ...] = (
        (f"from {src} to {dst}", lambda atom: (atom.src_space, atom.dst_space) == (src, dst)),
        (
            f"of kind {kind}" if kind else f"from {src} to {dst} that needs no kind named",
            lambda atom: atom.kind == kind if kind else not atom.kind.startswith(("bulk", "tma")),
        ),
        (
            "that transposes" if transposes else "that does not transpose",
            lambda atom: transposes is None or atom.transposes == transposes,
        ),
        (f"on {chip.name}", lambda atom: chip.has(atom.requires)),
        (f"of {element_bits}-bit elements", lambda atom: element_bits in atom.element_bits),
        (f"at an alignment of {alignment} bytes", lambda atom: alignment >= atom.alignment),
    )
    left = copy()
    for words, test in tests:
        kept = [atom for atom in left if test(atom)]
        if not kept:
            candidates = ", ".join(atom.name for atom in left[:8])
            raise ValueError(f"expected a copy {words}, got none among {candidates}")
        left = kept
    return tuple(sorted(left, key=lambda atom: -atom.bits))
