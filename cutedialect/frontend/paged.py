"""Tensors whose rows go through a table of pages: tiles of whole pages are put together from one
view for each page, so that every page is copied by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from cutedialect.dialects.cute import ConcatOp, LocalTileOp
from cutedialect.layout import TiledCopy

from .dtypes import i32, i64
from .elementwise import maximum, minimum
from .scalar import Scalar, as_i32
from .tile import Tensor, View, as_matrix_extents, tile_origins
from .trace import Scope, current, error

# Rows that the swizzles of shared memory repeat in.
LEAST_PAGE = 8


def paged(tensor: Tensor, mode: int, table: Tensor, page_size: int) -> Tensor:
    """What `Tensor.paged` returns, its arguments checked."""
    if isinstance(tensor, PagedTensor) or not isinstance(table, Tensor) or table.rank != 2:
        raise error("expected a tensor of pages and a table (entries, pages) of page numbers")
    if table.dtype not in (i32, i64):
        raise error(f"expected a table of i32 or i64, got {table.dtype.name}", code="CD-P3")
    if not 0 < mode < tensor.rank:
        raise error(
            f"expected a mode in 1..{tensor.rank - 1} of {tensor.name}, got {mode}", code="CD-P4"
        )
    if not is_page_size(page_size):
        raise error(
            f"expected a page size that is a power of two from 8 on, got {page_size}", code="CD-P4"
        )
    pages = _pages_of(table, page_size)
    return PagedTensor(tensor, mode, pages, pages.all_rows)


@dataclass
class Pages:
    """A table in use. Keys and values of one cache go through it side by side: what one of their
    tiles has looked up or computed, the other one takes too.
    """

    table: Tensor
    size: int
    all_rows: Scalar
    known: dict[tuple[object, ...], tuple[Scope, tuple[Scalar, ...]]] = field(default_factory=dict)

    def once(
        self, key: tuple[object, ...], make: Callable[[], tuple[Scalar, ...]]
    ) -> tuple[Scalar, ...]:
        """What `make` gave for this key in the scope that is being traced."""
        scope = current().scope
        found = self.known.get((id(scope), *key))
        if found is None:
            found = self.known[(id(scope), *key)] = scope, make()
        return found[1]

    def look_up(self, entry: Scalar, number: Scalar, end: Scalar) -> tuple[Scalar, Scalar]:
        """A page of an entry, and how many rows lie between its first one and `end`."""
        before = number * self.size
        # What lies behind the end is no page: any page will do, of which no row is taken.
        last = maximum(_scalar(self.table.dim(1)) - 1, 0)
        found = self.table[entry, minimum(number, last)].to(i32)
        return found * (before < end).to(i32), end - before


def _pages_of(table: Tensor, size: int) -> Pages:
    """The pages of a table, the same ones for all tensors of the scope that go through it."""
    for scope, pages in table.pages:
        if scope is current().scope and pages.size == size:
            return pages
    pages = Pages(table, size, _scalar(table.dim(1)) * size)
    table.pages.append((current().scope, pages))
    return pages


def is_page_size(value: object) -> bool:
    """Whether pages may have so many rows."""
    return isinstance(value, int) and value >= LEAST_PAGE and value & (value - 1) == 0


class PagedTensor(Tensor):
    """A tensor of pages seen through a table, up to row `end` along `mode`."""

    def __init__(self, tensor: Tensor, mode: int, pages: Pages, end: Scalar) -> None:
        super().__init__(tensor.value, tensor.name)
        self.tensor = tensor
        self.mode = mode
        self.through = pages
        self.end = end

    def dim(self, mode: int) -> int | Scalar:
        """Extent of one mode, that of the table's entries for the first one."""
        if mode == self.mode:
            return self.end
        return self.through.table.dim(0) if mode == 0 else self.tensor.dim(mode)

    def slice(self, mode: int, first: int | Scalar, end: int | Scalar) -> Tensor:
        """The rows up to `end` - 1 along the paged mode; pages behind are never looked at."""
        if mode != self.mode or not isinstance(first, int) or first != 0:
            raise error(
                f"expected a slice from 0 on along mode {self.mode} of the paged {self.name}",
                code="CD-P14",
            )
        limit = _scalar(end)
        (shorter,) = self.through.once(
            (limit.value, self.end.value), lambda: (maximum(minimum(limit, self.end), 0),)
        )
        return PagedTensor(self.tensor, mode, self.through, shorter)

    def paged(self, mode: int, table: Tensor, page_size: int) -> Tensor:
        """Refused: pages of pages have no meaning."""
        return paged(self, mode, table, page_size)

    def __getitem__(self, coords: object) -> Scalar:
        raise error(
            f"expected tiles of the paged {self.name}, got single elements of it", code="CD-P14"
        )

    def view(
        self, tile: Sequence[int], coords: Sequence[SSAValue], copy: TiledCopy | None = None
    ) -> View:
        """The tile at tile coordinates: a part of a page, or pages one after the other."""
        if copy is not None:
            raise error(
                f"expected no tiled copy for a tile of the paged {self.name}, got one",
                code="CD-P14",
            )
        tile = as_matrix_extents(tile)
        rows, size = max(1, tile[self.mode]), self.through.size
        if rows % size and size % rows:
            raise error(
                f"expected tiles of {self.name} that are whole pages of {size} rows or divide one, "
                f"got {rows} rows; take a power of two",
                code="CD-P14",
            )
        if tile[0] != 0 or tile[self.mode] < 0:
            raise error(
                f"expected tiles of one entry of the paged {self.name} with a static number of "
                "rows",
                code="CD-P14",
            )
        inside, count = list(tile), max(1, rows // size)
        inside[self.mode] = min(tile[self.mode], size)
        parts = [self._part(inside, coords, number, count) for number in range(count)]
        value = parts[0]
        if count > 1:
            dropped = sum(extent == 0 for extent in tile[: self.mode])
            joined = ConcatOp(parts, self.mode - dropped)
            value = current().insert(joined, self.name).results[0]
        return View(value, self, tile_origins(tile, coords))

    def _part(
        self, tile: Sequence[int], coords: Sequence[SSAValue], number: int, count: int
    ) -> SSAValue:
        """The part with this number, of so many, of the tile at `coords`, inside of its page."""
        entry, at = Scalar(coords[0]), Scalar(coords[self.mode])
        in_page = self.through.size // max(1, tile[self.mode])

        def find() -> tuple[Scalar, ...]:
            page = at * count + number if in_page == 1 else at // in_page
            place = _scalar(0) if in_page == 1 else at % in_page
            return *self.through.look_up(entry, page, self.end), place

        key = (entry.value, at.value, self.end.value, number, count, in_page)
        page, left, place = self.through.once(key, find)
        rows = self.tensor.slice(self.mode, 0, left)
        inside = list(coords)
        inside[0], inside[self.mode] = page.use(), place.use()
        made = current().insert(LocalTileOp(rows.value, list(tile), inside), self.name)
        return made.results[0]


def _scalar(value: int | Scalar) -> Scalar:
    return value if isinstance(value, Scalar) else Scalar(as_i32(value, "an extent"))
