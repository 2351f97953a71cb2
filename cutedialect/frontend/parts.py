"""Parts of register tiles, and tiles of other shapes made of them."""

from __future__ import annotations

from collections.abc import Sequence

from .hints import refuse_elements
from .local_tiles import as_extent
from .tile import Tile, View, broadcast_shape, elementwise
from .trace import error


def part_of(tile: Tile, key: object) -> Tile:
    """What brackets behind a tile mean: a part with constant bounds, `t[2:6, :]`, with modes of
    extent 1, `v[:, None]` and `v[None, :]`, and without modes of which it is one place, `t[:, 0]`.
    It is a value: later changes leave it alone.
    """
    keys = key if isinstance(key, tuple) else (key,)
    is_matrix = len(tile.shape) == 2 and all(isinstance(k, slice) for k in keys)
    if not is_matrix or len(keys) > 2:
        named = [k for k in keys if k is not None]
        is_element = None not in keys and all(type(k) is int for k in keys)
        is_known = all(isinstance(k, slice) or type(k) is int for k in named)
        if not is_known or (is_element and len(keys) >= len(tile.shape)):
            refuse_elements(tile, key)
        from .modes import part_of_modes

        return part_of_modes(tile, keys)
    part = tile
    for mode, bounds in enumerate(keys):
        assert isinstance(bounds, slice)
        first, count = bounds_of(bounds, tile.shape[mode])
        if count == tile.shape[mode]:
            continue
        part = part.columns(first, count) if mode else part.T.columns(first, count).T
    return _kept(part)


def _kept(tile: Tile) -> Tile:
    """The value that a tile has now."""
    return tile.to(tile.dtype) if tile.mutable else tile


def bounds_of(bounds: slice, extent: int) -> tuple[int, int]:
    """The first element of a slice, and how many there are."""
    for bound in (bounds.start, bounds.stop, bounds.step):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int)):
            raise error(
                f"expected bounds of a tile's part that Python knows, got {type(bound).__name__}; "
                "a part at a run-time place is a tile of the tensor: X.slice(mode, first, end)",
                code="CD-P4",
            )
    first, end, step = bounds.indices(extent)
    if step != 1 or end <= first:
        raise error(
            f"expected a part of one element or more, with step 1, of {extent}, got "
            f"{bounds.start}:{bounds.stop}:{bounds.step}",
            code="CD-P4",
        )
    return first, end - first


def broadcast_to(tile: Tile | View, shape: Sequence[int]) -> Tile:
    """The tile with modes of extent 1 repeated, so that it has a shape."""
    source = tile.load() if isinstance(tile, View) else tile
    if not isinstance(source, Tile):
        raise error(f"expected a tile to broadcast, got {type(tile).__name__}")
    wanted = tuple(as_extent(extent) for extent in shape)
    ranks = len(source.shape), len(wanted)
    if ranks[0] != ranks[1] or broadcast_shape(source.shape, wanted) != wanted:
        raise error(
            f"expected a shape of {ranks[0]} modes that {source.shape} broadcasts to, got {wanted}",
            code="CD-P2",
        )
    return elementwise(lambda x: x, (source,), wanted, source.dtype)


def permute(tile: Tile | View, modes: Sequence[int]) -> Tile:
    """The tile with its modes in another order: mode i of the result is mode `modes[i]`, so that
    (1, 0) exchanges two. Threads exchange tiles of more modes through shared memory.
    """
    source = tile.load() if isinstance(tile, View) else tile
    if not isinstance(source, Tile):
        raise error(f"expected a tile to permute, got {type(tile).__name__}")
    rank = len(source.shape)
    if sorted(modes) != list(range(rank)):
        raise error(
            f"expected the modes 0 to {rank - 1} in some order, got {tuple(modes)}", code="CD-P4"
        )
    if rank > 2:
        from .modes import permuted

        return _kept(permuted(source, tuple(modes)))
    return source.T if tuple(modes) == (1, 0) else _kept(source)
