"""`TiledMma`: the instruction of a multiply, the warps that share it and the tile over which they
repeat, as a program or a schedule names them, with a text form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutedialect.layout import Layout, TiledMMA

_RANK = 3
_LANES = 32


@dataclass(frozen=True)
class TiledMma:
    """An `mma.sync` atom by its name, repeated over warps and, by them, over a tile: CuTe's
    `make_tiled_mma`.

    `atoms` is how many warps lie along M, N and K, in column-major order or with strides, as a
    tuple or the text of a layout. Each entry of `tile` (M, N, K) is None, an extent, the shape of a
    compact layout, or the text of a layout: it maps the coordinates that the instructions see to
    those of the tile, which interleaves what a warp owns. Raises ValueError for what is no tiled
    multiply.

    >>> mma = TiledMma("mma_m16n8k16_f32_f16", (2, 2, 1), (32, "(8,2,2):(1,16,8)", 16))
    >>> print(mma)
    (mma_m16n8k16_f32_f16; (2,2,1):(1,2,0); (32,(8,2,2):(1,16,8),16))
    >>> mma.warps, mma.tiled.threads, mma.tiled.tile_mnk, TiledMma.parse(str(mma)) == mma
    ((2, 2), 128, (32, 32, 16), True)
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

    @property
    def warps(self) -> tuple[int, int]:
        """The grid of warps over M and N."""
        sizes = [mode.size() for mode in self.tiled.atom_layout_mnk]
        return sizes[0], sizes[1]

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
    sizes = tuple(mode.size() for mode in mma.tiled.atom_layout_mnk)
    spaces = getattr(atom, "spaces", ())
    if atom.thr_id.size() != _LANES or spaces != ("rmem",) * _RANK:
        raise ValueError(
            f"expected an atom of which a warp computes one product (mma.sync), got {mma.atom}; "
            "name another one by atom= and warps="
        )
    if sizes[2] != 1:
        raise ValueError(
            f"expected one warp along K, got {sizes[2]}: sums that warps share are not added yet; "
            "CTAs share K by split_k"
        )
    if isinstance(mma.tile[2], str):
        raise ValueError(f"expected None or an extent for K of the tile, got {mma.tile[2]}")
