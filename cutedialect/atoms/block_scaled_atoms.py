"""`mma.sync` with scale factors of blocks as data (sm_120a and its family): each block of 32 or 16
elements along K of a row of A and of a column of B counts times a factor. A thread gives a word of
up to four factors of a row; which of a quad's threads does, the instruction says.
Source: PTX ISA 9.1, "Multiply-and-Accumulate Instruction: mma", "Block Scaling for mma.sync".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product

from .mma_atoms import MmaAtom, MmaTypes, fragments_of

QUAD = 4
"""Threads that have words of factors of the same rows, and factors of a word."""
ROWS_OF_A, ROWS_OF_B = 16, 8
"""Rows of A and columns of B of an instruction."""


@dataclass(frozen=True)
class BlockScaledAtom(MmaAtom):
    """One instruction. `scale` is the type of factors, `block` how many elements share one, and
    `packed` how many elements a byte of a register has.
    """

    scale: str = "ue8m0"
    block: int = 32
    packed: int = 1

    @property
    def scaling(self) -> str:
        return f"{self.scale}x{self.block}"

    @property
    def factors(self) -> int:
        """Factors of a row along K: neighbors in a word, from a multiple of so many bytes on."""
        return self.shape_mnk[2] // self.block

    @property
    def in_bytes(self) -> MmaAtom:
        return self if self.packed == 1 else self._of_bytes

    @cached_property
    def _of_bytes(self) -> MmaAtom:
        """The same of bytes that hold elements."""
        m, n, k = self.shape_mnk
        shape = m, n, k // self.packed
        texts = fragments_of(shape, 8)
        types = MmaTypes("u8", "u8", *self.types[2:])
        a, b, _ = texts
        return replace(self, shape_mnk=shape, types=types, a_text=a, b_text=b, packed=1)

    @property
    def registers_a(self) -> int:
        return self.values[0] // (QUAD * self.packed)

    @property
    def registers_b(self) -> int:
        return self.values[1] // (QUAD * self.packed)


# Kinds, their shape, types of elements, scales, elements that share one, and elements of a byte.
# Elements of e2m1 in bytes of their own stand two bits higher there than they do in memory.
_KINDS = (
    ("mxf8f6f4", (16, 8, 32), "e4m3 e5m2 e3m2 e2m3", "ue8m0", 32, 1, "1X"),
    ("mxf4", (16, 8, 64), "e2m1", "ue8m0", 32, 2, "2X"),
    ("mxf4nvf4", (16, 8, 64), "e2m1", "ue4m3", 16, 2, "4X"),
)


@cache
def block_scaled() -> tuple[BlockScaledAtom, ...]:
    """Every entry."""
    found: list[BlockScaledAtom] = []
    for kind, shape, elements, scale, block, packed, vector in _KINDS:
        m, n, k = shape
        texts = fragments_of(shape, 8 // packed)
        for a, b in product(elements.split(), repeat=2):
            operands = a if a == b else f"{a}_{b}"
            spelled = (
                f"mma.sync.aligned.m{m}n{n}k{k}.row.col.kind::{kind}.block_scale."
                f"scale_vec::{vector}.f32.{a}.{b}.f32.{scale}"
            )
            found.append(
                BlockScaledAtom(
                    f"mma_m{m}n{n}k{k}_f32_{operands}_{kind}",
                    spelled,
                    shape,
                    MmaTypes(a, b, "f32", "f32"),
                    "sm_120f",
                    (8, 7),
                    *texts,
                    kind=kind,
                    scale=scale,
                    block=block,
                    packed=packed,
                )
            )
    return tuple(found)


def find_block_scaled(a: str, b: str, on: str, scaling: str) -> tuple[BlockScaledAtom, ...]:
    """The entries for types `a` x `b` with scales such as `ue8m0x32` on a target; empty for none.

    >>> [atom.name for atom in find_block_scaled("e2m1", "e2m1", "sm_120a", "ue4m3x16")]
    ['mma_m16n8k64_f32_e2m1_mxf4nvf4']
    """
    return tuple(
        atom
        for atom in block_scaled()
        if atom.types[:2] == (a, b) and atom.scaling == scaling and atom.is_legal_on(on)
    )
