"""`TiledMma`: the instruction of a multiply, the warps that share it and the tile over which they
repeat, as a program or a schedule names them, with a text form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from cutedialect.atoms.capability import WARP_SIZE

if TYPE_CHECKING:
    from cutedialect.layout import Layout, TiledMMA

_RANK = 3


@dataclass(frozen=True)
class TiledMma:
    """An `mma.sync` atom by its name, repeated over warps and, by them, over a tile: CuTe's
    `make_tiled_mma`.

    `atoms` is how many warps lie along M, N and K, in column-major order or with strides, as a
    tuple or the text of a layout. Warps along K multiply slices of the depth each, whose sums are
    added in the order of the warps behind the loop. Each entry of `tile` (M, N, K) is None, an
    extent, the shape of a compact layout, or the text of a layout: it maps the coordinates that the
    instructions see to those of the tile, which interleaves what a warp owns. Raises ValueError for
    what is no tiled multiply.

    >>> mma = TiledMma("mma_m16n8k16_f32_f16", (2, 2, 1), (32, "(8,2,2):(1,16,8)", 16))
    >>> print(mma)
    (mma_m16n8k16_f32_f16; (2,2,1):(1,2,0); (32,(8,2,2):(1,16,8),16))
    >>> mma.warps, mma.tiled.threads, mma.tiled.tile_mnk, TiledMma.parse(str(mma)) == mma
    ((2, 2), 128, (32, 32, 16), True)
    >>> sliced = TiledMma("mma_m16n8k16_f32_f16", (1, 2, 2))
    >>> sliced.warps, sliced.slices, sliced.grid, sliced.depth
    ((1, 2, 2), 2, (1, 4), 32)
    """

    atom: str
    atoms: Any = (1, 1, 1)
    tile: Any = (None, None, None)

    def __post_init__(self) -> None:
        from cutedialect.layout import to_text

        atoms = self.atoms if isinstance(self.atoms, str) else to_text(self.atoms)
        object.__setattr__(self, "atoms", str(_layout("atoms", atoms)))
        given: Any = _parts(self.tile) if isinstance(self.tile, str) else self.tile
        parts: list[Any] = [*given] if hasattr(given, "__iter__") else []
        if len(parts) != _RANK:
            raise ValueError(f"tile: expected 3 entries (M, N, K), got {self.tile}")
        object.__setattr__(self, "tile", tuple(map(_entry, parts)))
        _check(self)

    @cached_property
    def tiled(self) -> TiledMMA:
        """The same as an object of the algebra, whose `tv_layout` says which thread has what."""
        from cutedialect.layout import Layout, TiledMMA, parse_layout

        from .mma_atoms import mma_atom

        layouts = tuple(
            parse_layout(entry) if isinstance(entry, str) else entry for entry in self.tile
        )
        atoms = parse_layout(self.atoms)
        assert isinstance(atoms, Layout)
        return TiledMMA(mma_atom(self.atom), atoms, layouts)  # type: ignore[arg-type]

    @cached_property
    def warps(self) -> tuple[int, ...]:
        """The warps over M and N, and over K where there are several."""
        rows, columns, slices = (mode.size() for mode in self.tiled.atom_layout_mnk)
        return (rows, columns) if slices == 1 else (rows, columns, slices)

    @property
    def slices(self) -> int:
        """How many warps share the depth of a product."""
        return self.tiled.atom_layout_mnk[2].size()

    @property
    def grid(self) -> tuple[int, int]:
        """The grid of warps of a schedule: those along K count as more along N."""
        return self.warps[0], self.warps[1] * self.slices

    @property
    def depth(self) -> int:
        """The extent of K after which warps repeat: one instruction of each, or the permutation."""
        if isinstance(self.tile[2], str):
            return self.tiled.tile_mnk[2]
        return self.tiled.atom.shape_mnk[2] * self.slices

    def __str__(self) -> str:
        entries = ",".join("_" if entry is None else str(entry) for entry in self.tile)
        return f"({self.atom}; {self.atoms}; ({entries}))"

    @staticmethod
    def parse(text: str) -> TiledMma:
        """Read what `str` gave; entries that are left open are `_`, and the tile may be missing."""
        return _parsed(text)

    def _repr_svg_(self) -> str | None:
        return self.tiled._repr_svg_()  # pyright: ignore[reportPrivateUsage]


def is_tiled_mma(text: str | None) -> bool:
    """Whether the text of an atom is that of a `TiledMma`, not a name."""
    return text is not None and text.lstrip().startswith("(")


def atom_name(text: str) -> str:
    """The name of the atom in a text that is a name or a `TiledMma`."""
    return TiledMma.parse(text).atom if is_tiled_mma(text) else text


def multiply_text(tiled: TiledMma | str | None, atom: TiledMma | str | None) -> str:
    """What names the instruction of a multiply: a TiledMMA, with which an atom beside it has to
    agree, or an atom alone. Raises ValueError for what is none or does not agree.

    >>> multiply_text(None, "mma_m16n8k16_f32_f16")
    'mma_m16n8k16_f32_f16'
    """
    from .mma_atoms import mma_atom

    if atom is not None:
        try:
            mma_atom(atom_name(str(atom)))
        except ValueError as failure:
            raise ValueError(f"atom: {failure}") from None
    if tiled is None:
        return str(atom)
    try:
        tiled = tiled if isinstance(tiled, TiledMma) else TiledMma.parse(str(tiled))
    except ValueError as failure:
        raise ValueError(f"tiled: {failure}") from None
    if atom is not None and str(atom) not in (tiled.atom, str(tiled)):
        raise ValueError(
            f"expected atom and tiled to agree, got atom = {atom} and tiled = {tiled}; leave atom "
            "out"
        )
    return str(tiled)


@lru_cache(maxsize=256)
def _parsed(text: str) -> TiledMma:
    body = text.strip()
    if not (body.startswith("(") and body.endswith(")")):
        raise ValueError(
            f"expected a TiledMMA such as (mma_m16n8k16_f32_f16; (2,2,1); (32,32,16)), got '{text}'"
        )
    name, *rest = (part.strip() for part in body[1:-1].split(";"))
    if len(rest) > 2:
        raise ValueError(f"expected an atom, warps and a tile, got {len(rest) + 1} parts: '{text}'")
    return TiledMma(name, *rest)


def _parts(text: str) -> tuple[str, ...]:
    """The entries in `(32,(2,4,2):(1,4,2),16)`."""
    body, depth, parts = text.strip(), 0, [""]
    if not (body.startswith("(") and body.endswith(")")):
        raise ValueError(f"tile: expected entries in parentheses, got '{text}'")
    for char in body[1:-1]:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return tuple(part.strip() for part in parts)


def _entry(given: Any) -> int | str | None:
    """An entry of a tile: None, an extent, or the text of a layout."""
    from cutedialect.layout import to_text

    if given is None or given == "_":
        return None
    text = given if isinstance(given, str) else to_text(given) if _is_shape(given) else str(given)
    if re.fullmatch(r"\d+", text):
        if int(text) < 1:
            raise ValueError(f"tile: expected positive extents, got {text}")
        return int(text)
    return str(_layout("tile", text))


def _is_shape(given: Any) -> bool:
    return isinstance(given, tuple | int) and not isinstance(given, bool)


def _layout(name: str, text: str) -> Layout:
    from cutedialect.layout import parse_layout
    from cutedialect.layout.expression import is_static_value

    try:
        layout = parse_layout(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not is_static_value(layout):
        raise ValueError(f"{name}: expected static extents, got {layout}")
    return layout


def _check(mma: TiledMma) -> None:
    atom = mma.tiled.atom  # which raises for an atom or a layout that does not do
    spaces = getattr(atom, "spaces", ())
    if atom.thr_id.size() != WARP_SIZE or spaces != ("rmem",) * _RANK:
        raise ValueError(
            f"expected an atom of which a warp computes one product (mma.sync), got {mma.atom}; "
            "name another one by atom= and warps="
        )
