"""Tensors and views of them, drawn by lot for a program in the making: majors, alignment, batch
modes, coordinates that lie outside, slices.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from .tile_program import Argument

BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "e4m3": 1, "e5m2": 1}
BYTES |= {"i8": 1, "u8": 1, "i32": 4, "i64": 8}
# Element types of tensors.
ELEMENTS = ("f16", "f16", "bf16", "f32", "f32", "f64", "i8", "u8", "i32", "i32", "i64")
# Largest integers in inputs: products and short sums stay exact in every type.
_SPREAD = {"f16": 4, "bf16": 3, "e4m3": 2, "e5m2": 2, "u8": 9}


@dataclass(frozen=True)
class Sizes:
    """From which extents of tiles a program draws: rows, columns and depths of multiplies, and
    those of programs without one.
    """

    rows: tuple[int, ...] = (16, 32, 32, 48, 64, 64)
    columns: tuple[int, ...] = (8, 16, 16, 24, 32, 32)
    depths: tuple[int, ...] = (16, 32, 32, 48, 64)
    extents: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8, 8, 12, 16, 16, 24, 32, 32, 33, 48, 64)


LARGE = Sizes()
# Whatever is compiled and emulated for so small tiles is short.
SMALL = Sizes(
    (16, 16, 32, 64), (8, 16, 16, 16, 24), (16, 16, 32), (1, 2, 3, 4, 5, 8, 12, 16, 17, 24)
)


@dataclass(frozen=True)
class Value:
    """A name in scope: a tile (of `shape`), or with shape None a scalar below `most`."""

    name: str
    shape: tuple[int, int] | None
    dtype: str
    mutable: bool = False
    # Of conditions: a tile of i1, or a scalar condition.
    most: int = 0


@dataclass
class LotOfViews:
    """A program in the making."""

    lot: Random
    number: int
    sizes: Sizes
    arguments: list[Argument] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    features: set[str] = field(default_factory=set)
    values: list[Value] = field(default_factory=list)
    # Work coordinates and loop indices: name to how many values each has.
    coords: dict[str, int] = field(default_factory=dict)
    extents: dict[str, int] = field(default_factory=dict)
    # Those of `coords` that are scalars at run time, unlike the index of an unrolled loop.
    running: list[str] = field(default_factory=list)
    # Those that `cute.tile_index` gives.
    items: list[str] = field(default_factory=list)
    multiplied: tuple[str, str] | None = None
    # Whether there are 8-bit floats, and whether there are multiplies.
    eight_bits: bool = False
    multiplies: bool = False
    indent: int = 1
    made: int = 0
    # How many tensors have their modes in another order, from 0 to 1.
    other_majors: float = 0.3
    # How many tensors have strides below zero, from 0 to 1.
    steps_back: float = 0.05
    # Stored tiles, to be read again: (text of the view, shape, dtype, indent's names).
    stored: list[tuple[str, tuple[int, int], str]] = field(default_factory=list)

    # Small tools

    def say(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def name(self, prefix: str = "t") -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def chance(self, share: float) -> bool:
        return self.lot.random() < share

    def tiles(self, test: Callable[[Value], bool] = lambda value: True) -> list[Value]:
        return [v for v in self.values if v.shape is not None and v.dtype != "i1" and test(v)]

    def add(self, text: str, shape: tuple[int, int] | None, dtype: str, **more: object) -> Value:
        made = Value(self.name(), shape, dtype, **more)  # pyright: ignore[reportArgumentType]
        self.say(f"{made.name} = {text}")
        self.values.append(made)
        return made

    # Tensors and views

    def tensor(
        self, shape: tuple[int, ...], dtype: str, low: int | None = None, high: int | None = None
    ) -> Argument:
        lot = self.lot
        order = list(range(len(shape)))
        if len(shape) > 1 and self.chance(self.other_majors):
            lot.shuffle(order)
            if order != sorted(order):
                self.features.add("majors")
        offset = pad = 0
        if self.chance(0.6):
            # Rows of whole lines of 16 bytes, as TMA takes them.
            self.features.add("aligned rows")
            pad = -shape[order[-1]] % max(1, 16 // BYTES[dtype])
        elif self.chance(0.5):
            self.features.add("odd addresses")
            offset, pad = lot.choice((0, 1, 2, 4, 8)), lot.choice((0, 1, 3, 4, 8))
        most = _SPREAD.get(dtype, 5)
        made = Argument(
            "XYZABCDEFGHPQRSUVW"[len(self.arguments) % 18] + str(len(self.arguments)),
            shape,
            dtype,
            tuple(order),
            offset,
            pad,
            lot.randrange(1000),
            (0 if dtype == "u8" else -most) if low is None else low,
            most if high is None else high,
            back=self.modes_back(len(shape)),
        )
        self.arguments.append(made)
        self.features.add("8-bit floats" if dtype[0] == "e" else f"dtype {dtype}")
        return made

    def modes_back(self, rank: int) -> tuple[int, ...]:
        """The modes of a tensor that have strides below zero, of a lot of their own, by which all
        else of a program is drawn as without them.
        """
        lot = Random(f"{self.number} {len(self.arguments)}")
        if lot.random() >= self.steps_back:
            return ()
        self.features.add("negative strides")
        return tuple(sorted(lot.sample(range(rank), lot.randint(1, rank))))

    def output(self, batch: int, modes: tuple[str, ...], dtype: str) -> Argument:
        """A tensor of as many tiles as there are work items."""
        names = list(self.coords)[:batch]
        shape = [self.coords[name] for name in names]
        for mode, at in zip(modes, ("i", "j"), strict=True):
            shape.append(self.ragged(self.extents.get(mode, 1), self.coords[at]))
        return self.tensor(tuple(shape), dtype)

    def ragged(self, extent: int, count: int) -> int:
        """So many elements that `count` tiles are needed, the last one perhaps not whole."""
        if extent > 1 and self.chance(0.5):
            self.features.add("odd edges")
            return extent * count - self.lot.randrange(extent)
        return extent * count

    def coordinate(self, extent: int) -> tuple[str, int]:
        """A tile coordinate and how many tiles a tensor has that it fits."""
        lot = self.lot
        name = lot.choice(list(self.coords))
        count = self.coords[name]
        kind = lot.random()
        if kind < 0.6:
            return name, count
        if kind < 0.75:
            return str(lot.randrange(2)), 2
        if kind < 0.85:
            self.features.add("neighbor coordinates")
            return lot.choice((f"{name} - 1", f"{name} + 1", f"({name} + 1) % {count}")), count
        if kind < 0.93:
            self.features.add("index from memory")
            table = self.tensor((max(count, 4),), "i32", -1, 2)
            return f"{table.name}[{name}]", 2
        return "0", 1

    def view(
        self, modes: tuple[str, str], dtype: str, depth: int | None = None, of_slice: bool = False
    ) -> tuple[str, tuple[int, int]]:
        """The text of a view of a new tensor, of a tile of these modes, the mode `k` of which has
        this `depth`: operands of one multiply agree in it, but for the rows `of_slice` of one.
        """
        lot = self.lot
        shape = tuple(self.extents.get(mode, 1) for mode in modes)
        turned = self.chance(0.2)
        if turned:
            self.features.add("transposed views")
        kept = shape[::-1] if turned else shape
        names = modes[::-1] if turned else modes
        is_vector = kept[1] == 1 and depth is None and self.chance(0.5)
        batch = lot.choice((0, 0, 0, 0, 1, 1, 2)) if len(self.arguments) < 10 else 0
        coords: list[str] = []
        whole: list[int] = []
        for _ in range(batch):
            at, count = self.coordinate(1)
            coords.append(at)
            whole.append(count)
        tile: list[str] = []
        for name, extent in list(zip(names, kept, strict=True))[: 1 if is_vector else 2]:
            if name == "k" and depth is not None:
                coords.append("0")
                whole.append(depth)
                tile.append(str(extent))
                continue
            at, count = self.coordinate(extent)
            coords.append(at)
            whole.append(self.ragged(extent, count))
            tile.append(str(extent))
        at = list(range(batch, len(coords)))
        if len(tile) == 2 and 1 not in kept and depth is None and self.chance(0.15):
            # A mode of one element of the tile, behind its other ones or between them.
            self.features.add("modes of one element")
            place = lot.choice((1, 2))
            inner, count = self.coordinate(1)
            tile.insert(place, "1")
            coords.insert(batch + place, inner)
            whole.insert(batch + place, count)
            at = [batch, batch + 3 - place]
        given = self.tensor(tuple(whole), dtype)
        text = given.name
        if self.chance(0.15):
            self.features.add("slices")
            mode = lot.choice(at)
            first, end = lot.choice((-3, -1, 0, 1, 2)), whole[mode] + lot.choice((-2, 0, 0, 3))
            if self.chance(0.4):
                bounds = self.tensor((2,), "i32", -2, whole[mode])
                text = f"{text}.slice({mode}, {bounds.name}[0], {bounds.name}[1])"
            else:
                text = f"{text}.slice({mode}, {first}, {end})"
        elif of_slice:
            text = f"{text}.slice({batch + turned}, 0, 1000)"
        tail = "," if len(tile) == 1 else ""
        comma = "," if len(coords) == 1 else ""
        text = f"cute.local_tile({text}, ({', '.join(tile)}{tail}), ({', '.join(coords)}{comma}))"
        return (f"{text}.T" if turned else text), shape  # pyright: ignore[reportReturnType]

    def modes(self) -> tuple[str, str]:
        return self.lot.choice((("m", "n"), ("m", "n"), ("m", "1"), ("1", "n")))

    def load(self, modes: tuple[str, str] | None = None, dtype: str | None = None) -> None:
        text, shape = self.view(modes or self.modes(), dtype or self.element())
        dtype = self.arguments_of(text).dtype
        if self.chance(0.15):
            self.features.add("load with a mask")
            self.values.append(Value(self.name("v"), None, "view"))
            view = self.values.pop().name
            self.say(f"{view} = {text}")
            coord = f"cute.coord(cute.zeros({shape}), {self.lot.randrange(2)})"
            mask = f"{coord} < {self.lot.randrange(9)}"
            other = self.lot.choice(("", "", ", 1", ", other=2"))
            column = "[:, None]" * is_of_one_mode(text)
            self.add(f"cute.load({view}, {mask}{other}){column}", shape, dtype)
            return
        self.add(self.loaded(text), shape, dtype)

    def loaded(self, view: str) -> str:
        """The text of the tile of a view, that of a vector as a column."""
        form = self.lot.choice(("cute.load({})", "{}.load()"))
        return form.format(view) + "[:, None]" * is_of_one_mode(view)

    def arguments_of(self, text: str) -> Argument:
        """The tensor that a view's text starts with."""
        name = text.removeprefix("cute.local_tile(").split(",")[0].split(".")[0]
        return next(each for each in self.arguments if each.name == name)

    def element(self) -> str:
        """Mostly a type that is there."""
        known = [v.dtype for v in self.tiles()]
        return self.lot.choice(known) if known and self.chance(0.6) else self.lot.choice(ELEMENTS)


def is_of_one_mode(view: str) -> bool:
    """Whether the text of a view is one of a vector as it lies in its tensor."""
    return re.search(r", \(\d+,\), \(", view) is not None and not view.endswith(".T")
