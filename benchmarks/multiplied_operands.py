"""Operands of multiplies, drawn by lot for a program in the making: from memory, computed in
registers, or results of other multiplies, each as it is or transposed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from .multiplied_family import FAMILIES, Family
from .multiplied_steps import Step
from .program_views import LotOfViews, Value

Shape = tuple[int, int]

# Largest integers of inputs: sums over a few hundred products stay exact in f16.
_MOST = {"f16": 1, "bf16": 1, "f32": 2, "e4m3": 1, "i8": 2, "i32": 3}


class TooLongError(Exception):
    """A program that takes too long in the emulator: another one is drawn."""


@dataclass(frozen=True)
class Loop:
    """A loop around what is said now: its index, its trips, the line of its header, its indent."""

    index: str
    trips: int
    line: int
    indent: int
    at_run_time: bool


@dataclass
class LotOfOperands(LotOfViews):
    """Tiles in memory and in registers that a multiply takes."""

    other_majors: float = 0.15
    # Plans that are drawn for them copy by TMA alone.
    steps_back: float = 0.0
    family: Family = FAMILIES["mixed"]
    loops: list[Loop] = field(default_factory=list)
    operand: str = "f16"
    total: str = "f32"
    sides: list[int] = field(default_factory=list)
    work: float = 0
    steps: list[Step] = field(default_factory=list)

    def step(self, kind: str, tile: Value, left: str = "", right: str = "") -> None:
        """What a program does to a tile here, with the loop around it."""
        inner = self.loops[-1] if self.loops else None
        runs = inner is None or (inner.trips >= 2 and inner.at_run_time)
        loop = "" if inner is None else inner.index
        self.steps.append(
            Step(kind, tile.name, (tile.shape or (1,))[0], loop if runs else None, left, right)
        )

    # Places in tensors

    def place(self) -> tuple[str, int]:
        """A tile coordinate, and how many values it has: mostly that of the innermost loop."""
        if self.loops and self.chance(0.6):
            loop = self.loops[-1] if self.chance(0.8) else self.lot.choice(self.loops)
            return loop.index, max(1, loop.trips)
        names = [name for name in ("i", "j") if name in self.coords]
        if names and self.chance(0.5):
            name = self.lot.choice(names)
            return name, self.coords[name]
        return "0", 1

    def say_before(self, loop: Loop, line: str) -> None:
        """A line in front of a loop."""
        self.lines.insert(loop.line, "    " * loop.indent + line)
        self.loops = [
            replace(each, line=each.line + 1) if each.line >= loop.line else each
            for each in self.loops
        ]

    def extent(self, side: int, count: int) -> int:
        """Elements along a mode of so many tiles, of which the last one is ragged at times."""
        if side > 8 and self.chance(0.2):
            self.features.add("ragged sizes")
            return side * count - self.lot.choice((1, 3, 8, side // 2))
        return side * count

    def view_of(self, shape: Shape, dtype: str, depth: tuple[int, str, int] | None = None) -> str:
        """The text of a view of a new tensor. `depth` is the mode that is multiplied over, with its
        coordinate and its extent.
        """
        turned = self.chance(0.3)
        coords, whole = [], []
        for mode, side in enumerate(shape):
            if depth is not None and mode == depth[0]:
                coords.append(depth[1])
                whole.append(depth[2])
                continue
            at, count = self.place()
            coords.append(at)
            whole.append(self.extent(side, count))
        if turned:
            self.features.add("transposed views")
            coords, whole, shape = coords[::-1], whole[::-1], (shape[1], shape[0])
        most = _MOST[dtype]
        given = self.tensor((whole[0], whole[1]), dtype, -most, most)
        text = self._run(given.name, shape, coords) or (
            f"cute.local_tile({given.name}, {shape}, ({', '.join(coords)}))"
        )
        return f"{text}.T" if turned else text

    def _run(self, tensor: str, shape: Shape, coords: list[str]) -> str | None:
        """A run of tiles that is named in front of the loop along which it goes, at its index."""
        loop = next((each for each in self.loops if coords.count(each.index) == 1), None)
        if loop is None or self.chance(0.4):
            return None
        other = coords[1 - coords.index(loop.index)]
        if any(other == each.index for each in self.loops):
            return None
        name = self.name("r")
        shown = ["None" if at == loop.index else at for at in coords]
        self.say_before(loop, f"{name} = cute.local_tile({tensor}, {shape}, ({', '.join(shown)}))")
        self.features.add("runs of tiles")
        return f"{name}[{loop.index}]"

    # Sources of operands: each gives a text, or None where there is no such one.

    def source(self, kind: str, shape: Shape, depth: tuple[int, str, int]) -> str | None:
        """The operand of this kind and shape."""
        made = getattr(self, f"from_{kind}")(shape, depth)
        if made is not None:
            self.features.add(f"operands: {kind}")
        return made

    def from_memory(self, shape: Shape, depth: tuple[int, str, int]) -> str:
        return self.view_of(shape, self.operand, depth)

    def loaded(self, shape: Shape, depth: tuple[int, str, int], dtype: str) -> str:
        """A tile in registers, in a type that computes."""
        view = self.view_of(shape, dtype, depth)
        if dtype in ("e4m3", "i8"):
            return f"{view}.to(cute.{'f32' if dtype == 'e4m3' else 'i32'})"
        return f"{view}.to(cute.f32)" if self.chance(0.3) else f"{view}.load()"

    def fetched(self, shape: Shape) -> Value:
        """A tile from memory, in the type of sums."""
        return self.add(f"{self.view_of(shape, self.total)}.load() * 2", shape, self.total)

    def registers(self, text: str, shape: Shape) -> str:
        """A name for a tile of operands computed in registers."""
        return self.add(f"({text}).to(cute.{self.operand})", shape, self.operand).name

    def from_scaled(self, shape: Shape, depth: tuple[int, str, int]) -> str:
        tile = self.loaded(shape, depth, self.operand)
        form = self.lot.choice(("{} * 2", "{} + 1", "cute.maximum({}, 0)", "cute.abs({})"))
        return self.registers(form.format(tile), shape)

    def from_masked(self, shape: Shape, depth: tuple[int, str, int]) -> str:
        tile = self.named(self.loaded(shape, depth, self.operand))
        mode = self.lot.randrange(2)
        limit = self.lot.choice((str(shape[mode] // 2), "5", str(shape[mode])))
        return self.registers(f"cute.where(cute.coord({tile}, {mode}) < {limit}, {tile}, 0)", shape)

    def from_dequantized(self, shape: Shape, depth: tuple[int, str, int]) -> str:
        view = self.view_of(shape, "i8", depth)
        wide = "i32" if self.operand == "i8" else self.lot.choice(("f32", "f16"))
        text = f"{view}.to(cute.{wide})"
        if self.chance(0.5):
            self.features.add("scales of columns")
            dtype = "i32" if wide == "i32" else wide
            scales = self.tensor((shape[1],), dtype, 0, 1)
            text = f"{text} * cute.row_vector({scales.name}, 0, {shape[1]})"
        return self.registers(text, shape)

    def from_normalized(self, shape: Shape, depth: tuple[int, str, int]) -> str:
        """A tile by factors that are sums of its own rows or of another tile's."""
        tile = self.named(self.loaded(shape, depth, self.operand))
        summed = Value(tile, shape, self.operand)
        if self.chance(0.6):
            summed = self.fetched((shape[0], self.lot.choice(self.sides)))
        sums = self.named(f"cute.row_sum({summed.name})")
        self.step("sum", summed)
        return self.registers(f"{tile} * cute.minimum(cute.maximum({sums}, -1), 1)", shape)

    def from_constant(self, shape: Shape, depth: tuple[int, str, int]) -> str:
        kind = self.operand if self.operand in ("f16", "bf16", "f32") else "f32"
        return self.registers(f"cute.full({shape}, 1, cute.{kind})", shape)

    def from_triangle(self, shape: Shape, depth: tuple[int, str, int]) -> str:
        base = self.name("z")
        self.say(f"{base} = cute.zeros({shape})")
        sign = self.lot.choice(("<=", "<", ">=", "=="))
        return self.registers(
            f"cute.where(cute.coord({base}, 0) {sign} cute.coord({base}, 1), {base} + 1, 0)", shape
        )

    def from_known(self, shape: Shape, depth: tuple[int, str, int]) -> str | None:
        """A tile that is there: as it is, or transposed."""
        found = [
            (value, turned)
            for value in self.tiles(lambda v: v.dtype == self.operand and not v.mutable)
            for turned in (False, True)
            if value.shape == (shape[::-1] if turned else shape)
        ]
        if not found:
            return None
        value, turned = self.lot.choice(found)
        return f"{value.name}.T" if turned else value.name

    def from_result(self, shape: Shape, depth: tuple[int, str, int]) -> str | None:
        """What a multiply gave, made small."""
        found = [
            (value, turned)
            for value in self.results()
            for turned in (False, True)
            if value.shape == (shape[::-1] if turned else shape)
        ]
        if not found:
            return None
        value, turned = self.lot.choice(found)
        text = self.small(value)
        if turned and self.chance(0.5):
            return self.registers(f"{text}.T" if "(" in text else f"({text}).T", shape)
        name = self.registers(text, value.shape)  # pyright: ignore[reportArgumentType]
        return f"{name}.T" if turned else name

    def named(self, text: str) -> str:
        """A name for what a text computes."""
        if re.fullmatch(r"\w+", text):
            return text
        name = self.name("v")
        self.say(f"{name} = {text}")
        return name

    def results(self) -> list[Value]:
        """Tiles that multiplies add to."""
        return self.tiles(
            lambda v: v.mutable and v.dtype == self.total and 1 not in (v.shape or (1,))
        )

    def small(self, value: Value) -> str:
        """The text of a tile made small."""
        low, high = self.lot.choice(((-1, 1), (-1, 1), (0, 1), (-2, 2)))
        kind = self.lot.random()
        if kind < 0.15:
            return f"cute.minimum({value.name}, {high})"
        if kind < 0.3:
            mask = f"cute.coord({value.name}, 1) <= cute.coord({value.name}, 0)"
            return f"cute.where({mask}, cute.minimum(cute.maximum({value.name}, {low}), {high}), 0)"
        return f"cute.minimum(cute.maximum({value.name}, {low}), {high})"
