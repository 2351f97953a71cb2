"""Shared-memory layouts that TMA writes and `wgmma` reads: INTER, SW32, SW64, SW128, K- and
MN-major. A layout counts elements, (row, depth) to offset, where a row is one m of A or one n of B
and depth is k; the swizzle beside it permutes the bits of byte addresses, whatever the element.
Source: PTX ISA 9.1, "Shared memory matrix layout" and "Tensor swizzling modes".
"""

from __future__ import annotations

from dataclasses import dataclass

from cutedialect.layout import Layout, Swizzle

# Mode to (swizzle of byte addresses, bytes in one row of the pattern).
_MODES: dict[str, tuple[Swizzle | None, int]] = {
    "none": (None, 16),
    "32B": (Swizzle(1, 4, 3), 32),
    "64B": (Swizzle(2, 4, 3), 64),
    "128B": (Swizzle(3, 4, 3), 128),
}
_NAMES = {"none": "INTER", "32B": "SW32", "64B": "SW64", "128B": "SW128"}
MAJORS = ("K", "MN")
MODES = tuple(_MODES)


# Rows of 128 bytes in which 32 bytes stay together: what tcgen05 asks of MN-major operands of 32
# bits and of no others, and what TMA writes for it from sm_100 on.
ATOM_32B = "128B_32B"
SWIZZLE_32B = Swizzle(2, 5, 2)


def swizzle_of(mode: str) -> Swizzle | None:
    """The swizzle of byte addresses of a mode: `none`, `32B`, `64B` or `128B`.

    >>> print(swizzle_of("128B"))
    S<3,4,3>
    """
    if mode not in _MODES:
        raise ValueError(f"expected a swizzle mode of {', '.join(MODES)}, got {mode!r}")
    return _MODES[mode][0]


def span_of(mode: str) -> int:
    """Bytes in one row of the mode's pattern: 32, 64, 128; 16 without a swizzle."""
    swizzle_of(mode)
    return _MODES[mode][1]


def swizzle_mode(swizzle: Swizzle | None) -> str:
    """The mode of a swizzle of byte addresses; `ValueError` when the hardware has none.

    >>> swizzle_mode(Swizzle(2, 4, 3)), swizzle_mode(None)
    ('64B', 'none')
    """
    if swizzle is None or swizzle.bits == 0:
        return "none"
    for mode, (known, _) in _MODES.items():
        if swizzle == known:
            return mode
    raise ValueError(
        f"expected a swizzle of byte addresses that TMA and wgmma have (S<1,4,3>, S<2,4,3>, "
        f"S<3,4,3> or none), got {swizzle}"
    )


@dataclass(frozen=True)
class SmemLayoutAtom:
    """The smallest piece of a tile in one mode: 8 rows of `span` bytes (K-major), or 8 steps of k
    with `span` bytes of rows each (MN-major). `bits` is the width of an element: 8, 16 or 32."""

    mode: str
    major: str
    bits: int

    def __post_init__(self) -> None:
        swizzle_of(self.mode)
        if self.major not in MAJORS:
            raise ValueError(f"expected major K or MN, got {self.major!r}")
        if self.bits not in (8, 16, 32):
            raise ValueError(f"expected elements of 8, 16 or 32 bits, got {self.bits}")

    @property
    def name(self) -> str:
        """`K_SW128`: CuTe's name of the layout."""
        return f"{self.major}_{_NAMES[self.mode]}"

    @property
    def swizzle(self) -> Swizzle | None:
        """On byte addresses; None for INTER."""
        return swizzle_of(self.mode)

    @property
    def span(self) -> int:
        """Bytes of the contiguous mode in one atom."""
        return span_of(self.mode)

    @property
    def width(self) -> int:
        """Elements of the contiguous mode in one atom."""
        return self.span * 8 // self.bits

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, depth) of one atom."""
        return (8, self.width) if self.major == "K" else (self.width, 8)

    @property
    def layout(self) -> Layout:
        """(row, depth) to element of one atom, before the swizzle."""
        return Layout(self.shape, (self.width, 1) if self.major == "K" else (1, self.width))

    @property
    def alignment(self) -> int:
        """Bytes that the tile's address has to be a multiple of, so that its pattern starts
        where the hardware's does; never below the 128 of a TMA box."""
        return max(128, 8 * self.span)

    def fits(self, shape: tuple[int, int]) -> bool:
        """Whether whole atoms fill a tile of (rows, depth)."""
        return all(
            extent > 0 and extent % each == 0
            for extent, each in zip(shape, self.shape, strict=True)
        )

    def tile(self, shape: tuple[int, int]) -> Layout:
        """The layout of a tile of (rows, depth), as TMA leaves it when every box has all of the
        strided mode and one `span` of the contiguous one: block after block of the latter.

        >>> print(SmemLayoutAtom("128B", "K", 16).tile((128, 128)))
        (128,(64,2)):(64,(1,8192))
        >>> print(SmemLayoutAtom("128B", "MN", 16).tile((128, 32)))
        ((64,2),32):((1,2048),64)
        """
        if not self.fits(shape):
            raise ValueError(
                f"expected a tile of a multiple of {self.shape[0]}x{self.shape[1]} elements for "
                f"{self.name} with {self.bits}-bit elements, got {shape[0]}x{shape[1]}"
            )
        along, across = (shape[1], shape[0]) if self.major == "K" else shape
        blocks = along // self.width
        inner: tuple[object, object] = (self.width, 1)
        if blocks > 1:
            inner = ((self.width, blocks), (1, self.width * across))
        if self.major == "K":
            return Layout((across, inner[0]), (self.width, inner[1]))
        return Layout((inner[0], across), (inner[1], self.width))


def smem_layout_atoms(major: str, bits: int) -> tuple[SmemLayoutAtom, ...]:
    """The atoms for one major and element width, widest swizzle first."""
    return tuple(SmemLayoutAtom(mode, major, bits) for mode in reversed(MODES))


def find_smem_layout(shape: tuple[int, int], major: str, bits: int) -> SmemLayoutAtom:
    """The widest atom that fills a tile of (rows, depth); `ValueError` when not even INTER does.

    >>> find_smem_layout((128, 32), "K", 16).name, find_smem_layout((96, 64), "MN", 16).name
    ('K_SW64', 'MN_SW64')
    """
    found = next((atom for atom in smem_layout_atoms(major, bits) if atom.fits(shape)), None)
    if found is None:
        least = SmemLayoutAtom("none", major, bits).shape
        raise ValueError(
            f"expected a {major}-major tile of a multiple of {least[0]}x{least[1]} elements of "
            f"{bits} bits, got {shape[0]}x{shape[1]}"
        )
    return found
