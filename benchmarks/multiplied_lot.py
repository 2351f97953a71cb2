"""Programs of two to five multiplies, drawn by lot: each class draws operands, loops, conditions,
stores and reductions in its own shares (`multiplied_family`). All values are small integers, so
that every right compilation gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from .multiplied_family import FAMILIES
from .multiplied_operands import Loop, Shape, TooLongError
from .multiplied_specials import LotOfSpecials
from .multiplied_steps import combinations
from .program_views import LARGE, Value
from .tile_program import Argument, Program

# Element types of operands and of sums, and the depth that every atom of them divides.
_TYPES = (
    ("f16", "f32"), ("f16", "f32"), ("f16", "f32"), ("f16", "f32"), ("bf16", "f32"),
    ("bf16", "f32"), ("bf16", "f32"), ("f32", "f32"), ("i8", "i32"), ("e4m3", "f32"),
    ("f16", "f16"),
)  # fmt: skip
_DEPTHS = {"f32": 16, "f16": 16, "bf16": 16, "i8": 32, "e4m3": 32}


@dataclass
class _Lot(LotOfSpecials):
    """The statements of a program of several multiplies."""

    def draw(self) -> Program:
        lot, family = self.lot, self.family
        self.operand, self.total = lot.choice(_TYPES)
        if self.operand == "e4m3":
            self.features.add("8-bit floats")
        depth = _DEPTHS[self.operand]
        # A warpgroup's rows in most programs: a single other tile takes mma.sync for all.
        whole = tuple(side for side in family.sides if side % 64 == 0)
        sides = whole if self.chance(0.65) else family.sides
        self.sides = [-(-lot.choice(sides) // depth) * depth for _ in range(3)]
        self.left_over = lot.choice(family.multiplies)
        out = self.frame()
        specials = [lot.choice(family.specials)] if family.specials else []
        if specials and self.chance(0.3):
            specials.append(lot.choice(family.specials))
        while self.left_over > 0 or specials:
            if specials and self.chance(0.5):
                self.special(specials.pop())
            elif self.left_over > 0:
                self.part()
        self.ends(out)
        self.features.update(combinations(self.steps))
        schedule = lot.choice(family.schedules) if self.chance(family.scheduled) else ""
        if self.must_be_refused:
            schedule = ""
        return Program(
            self.number,
            tuple(self.arguments),
            tuple(self.lines),
            frozenset({*self.features, f"class {family.name}"}),
            schedule,
            self.must_be_refused,
            self.may_be_refused,
        )

    def special(self, name: str) -> None:
        """A statement of this class, in a loop at times."""
        self.features.add(name.replace("_", " "))
        if self.chance(0.4) and not self.loops:
            with self.loop(self.lot.choice(("loop", "loop", "unrolled"))):
                getattr(self, name)()
        else:
            getattr(self, name)()

    # The frame

    def frame(self) -> Argument | None:
        """Work items: of tiles of an output, a single one, or none at all."""
        kind = self.lot.random()
        items = self.family.items
        if kind < 0.3 and 1 in items:
            self.features.add("no work items")
            return None
        shape = self.lot.choice(self.sides), self.lot.choice(self.sides)
        if kind < 0.4 and 1 in items:
            self.features.add("a single work item")
            out = self.tensor(shape, "f32")
            self.say(f"cute.tile_index({out.name}, (None, None))")
            self.coords = {}
            self.out_shape = shape
            return out
        counts = self.lot.choice(items), self.lot.choice(items)
        self.coords = dict(zip("ij", counts, strict=True))
        self.running = ["i", "j"]
        whole = tuple(self.extent(s, c) for s, c in zip(shape, counts, strict=True))
        out = self.tensor(whole, self.lot.choice(("f32", "f32", "f16")))
        self.say(f"i, j = cute.tile_index({out.name}, {shape})")
        self.out_shape = shape
        return out

    # Parts

    def part(self) -> None:
        """Multiplies in a row, in a loop, in two loops, or in a branch."""
        kinds = self.family.structures
        kind = self.lot.choices(list(kinds), list(kinds.values()))[0]
        if kind == "straight":
            self.multiply()
            self.between()
        elif kind == "condition":
            with self.branch():
                self.multiply()
                if self.chance(0.5):
                    self.store(self.lot.choice(self.results()))
        elif kind == "nested":
            self.features.add("nested loops")
            if not self.results() or self.chance(0.3):
                self.fresh()
            with self.loop(self.lot.choice(("loop", "loop", "unrolled"))):
                if self.chance(0.5):
                    self.multiply()
                with self.loop("loop"):
                    self.body()
                self.between()
        else:
            if not self.results() or self.chance(0.3):
                self.fresh()
            if self.chance(0.3):
                self.vector()
            with self.loop(kind):
                self.body()

    def body(self) -> None:
        """One to three multiplies, and what each trip stores, in front of them too."""
        early = self.early() if self.chance(self.family.early) else None
        for _ in range(self.lot.choice((1, 2, 2, 3))):
            if self.left_over <= 0:
                break
            if self.loops[-1].at_run_time and self.chance(0.12):
                with self.branch():
                    self.multiply()
            else:
                self.multiply()
            self.between()
        if early is not None and self.chance(0.6):
            rows = (early.shape or (0,))[0]
            fitting = [v.name for v in self.results() if v.shape and v.shape[0] == rows]
            if fitting:
                self.say(f"{self.lot.choice(fitting)} += cute.row_sum({early.name})")
                if not early.mutable:
                    self.step("sum", early)
        for _ in range(self.lot.choice(self.family.stores)):
            self.features.add("stores in a loop")
            found = self.tiles()
            multiplied = [step.tile for step in self.steps if step.kind == "multiply"]
            products = [value for value in found if value.name in multiplied[-1:]]
            if products and self.chance(0.6):
                self.store(products[0])
            elif found and self.chance(0.8):
                self.store(self.lot.choice(found))
            else:
                shape = self.lot.choice(self.sides), self.lot.choice(self.sides)
                self.store(self.fetched(shape))

    def early(self) -> Value:
        """A tile in front of the multiplies of a trip, stored there or summed up behind them."""
        self.features.add("tiles in front of multiplies")
        found = self.results()
        if found and self.chance(0.3):
            value = self.lot.choice(found)
        else:
            value = self.fetched((self.lot.choice(self.sides), self.lot.choice(self.sides)))
        if self.chance(0.75):
            self.store(value)
        return value

    @contextmanager
    def loop(self, kind: str) -> Iterator[Loop]:
        lot = self.lot
        index = self.name("t")
        trips = lot.choice(self.family.trips if len(self.loops) == 0 else (0, 1, 2, 2, 3))
        if kind == "unrolled":
            self.features.add("unrolled loops")
            trips = min(trips, 3)
            header = f"for {index} in range({trips}):"
        else:
            bound = str(trips)
            if self.chance(0.25):
                self.features.add("trips at run time")
                given = Argument(f"s{len(self.arguments)}", number=trips)
                self.arguments.append(given)
                bound = given.name
            header = f"for {index} in cute.range({bound}):"
        self.features.add(f"trips {min(trips, 4)}{'+' * (trips >= 4)}")
        loop = Loop(index, trips, len(self.lines), self.indent, kind != "unrolled")
        self.say(header)
        kept, coords = list(self.values), dict(self.coords)
        self.loops.append(loop)
        self.coords[index] = max(1, trips)
        if loop.at_run_time:
            self.running.append(index)
        self.indent += 1
        empty = len(self.lines)
        yield loop
        if len(self.lines) == empty:
            self.say("pass")
        self.indent -= 1
        self.loops.pop()
        self.values, self.coords = kept, coords
        self.running = [name for name in self.running if name != index]

    @contextmanager
    def branch(self) -> Iterator[None]:
        lot = self.lot
        self.features.add("branches")
        if not self.results():
            self.fresh()
        if self.running and self.chance(0.7):
            name = lot.choice(self.running)
            test = f"{name} {lot.choice(('<', '>', '==', '!=', '>='))} {lot.randrange(3)}"
        else:
            given = Argument(f"s{len(self.arguments)}", number=lot.randrange(3))
            self.arguments.append(given)
            test = f"{given.name} > {lot.randrange(2)}"
        self.say(f"with cute.when({test}):")
        self.indent += 1
        kept = list(self.values)
        yield
        self.indent -= 1
        self.values = kept

    # Multiplies

    def fresh(self, shape: Shape | None = None) -> Value:
        """A new accumulator."""
        if shape is None:
            shape = self.lot.choice(self.sides), self.lot.choice(self.sides)
        text = f"cute.zeros({shape}, cute.{self.total})"
        if self.chance(0.15):
            text = f"cute.full({shape}, 1, cute.{self.total})"
        return self.add(text, shape, self.total, mutable=True)

    def vector(self) -> Value:
        """A vector that sums of rows or columns are added to."""
        side = self.lot.choice(self.sides)
        shape = self.lot.choice(((side, 1), (1, side)))
        return self.add(f"cute.zeros({shape}, cute.{self.total})", shape, self.total, mutable=True)

    def multiply(self) -> None:
        lot, family = self.lot, self.family
        self.left_over -= 1
        found = self.results()
        acc = lot.choice(found) if found and self.chance(0.5) else None
        shape = acc.shape if acc is not None else (lot.choice(self.sides), lot.choice(self.sides))
        assert shape is not None
        (x, y), k = shape, lot.choice(self.sides)
        kinds = [
            lot.choices(list(weights), list(weights.values()))[0]
            for weights in (family.left, family.right or family.left)
        ]
        # A result decides about the depth, and about rows or columns where they are open.
        for side in range(2):
            if kinds[side] in ("result", "known"):
                x, y, k = self._fitted(kinds[side], side, (x, y, k), acc is None)
        at, count = self.place()
        extents = [self.extent(k, count)] * 2
        if family.unlike and self.chance(0.7):
            extents[lot.randrange(2)] += lot.choice((-7, -1, 8, k))
        items = 1
        for name in ("i", "j"):
            items *= self.coords.get(name, 1)
        for loop in self.loops:
            items *= max(1, loop.trips)
        self.work += x * y * k * items
        if self.work > family.work:
            raise TooLongError
        left, right = self._pair((x, k, y), kinds, at, extents)
        if acc is None:
            acc = self.fresh((x, y))
        self.say(f"cute.gemm({left}, {right}, {acc.name})")
        self.features.add("multiply")
        self.step("multiply", acc, *kinds)

    def _pair(
        self, extents: tuple[int, int, int], kinds: list[str], at: str, depths: list[int]
    ) -> tuple[str, str]:
        """Both operands of a multiply, from the sources `kinds`, which are told what they became:
        the right one first, from the left one, or behind it.
        """
        x, k, y = extents

        def left() -> str:
            text, kinds[0] = self._operand(kinds[0], (x, k), (1, at, depths[0]))
            return text

        def right() -> str:
            text, kinds[1] = self._operand(kinds[1], (k, y), (0, at, depths[1]))
            return text

        if kinds[1] not in ("memory", "known") and self.chance(0.5):
            self.features.add("right operands first")
            text = right()
            return left(), text
        text = left()
        if x == y and self.chance(0.15):
            self.features.add("an operand beside its transpose")
            text, kinds[1] = self.named(text), kinds[0]
            return text, f"{text}.T"
        if x == k == y and self.chance(0.15):
            self.features.add("the same operand twice")
            text, kinds[1] = self.named(text), kinds[0]
            return text, text
        return text, right()

    def _fitted(
        self, kind: str, side: int, extents: tuple[int, int, int], is_open: bool
    ) -> tuple[int, int, int]:
        """Rows, columns and depth so that a tile that is there is the operand of a side."""
        x, y, _ = extents
        if kind == "result":
            known = self.results()
        else:
            known = self.tiles(lambda v: v.dtype == self.operand and not v.mutable)
        given = [value.shape for value in known if value.shape is not None]
        shapes = [shape for each in given for shape in (each, each[::-1])]
        outer = x if side == 0 else y
        if not is_open:
            shapes = [shape for shape in shapes if shape[side] == outer]
        if not shapes:
            return extents
        rows, columns = self.lot.choice(shapes)
        return (rows, y, columns) if side == 0 else (x, columns, rows)

    def _operand(self, kind: str, shape: Shape, depth: tuple[int, str, int]) -> tuple[str, str]:
        """The text of an operand and where it comes from."""
        made = self.source(kind, shape, depth)
        while made is None:
            kinds = self.family.left
            kind = self.lot.choices(list(kinds), list(kinds.values()))[0]
            if kind in ("result", "known") and self.chance(0.3):
                kind = "scaled"
            made = self.source(kind, shape, depth)
        return made, kind

    # Beside multiplies

    def between(self) -> None:
        kinds = self.family.beside
        while self.chance(self.family.busy):
            kind = self.lot.choices(list(kinds), list(kinds.values()))[0]
            found = self.results()
            if found:
                getattr(self, kind)(self.lot.choice(found))

    def update(self, value: Value) -> None:
        """An accumulator changed in place."""
        self.features.add("accumulators updated")
        shape = value.shape
        assert shape is not None
        kind = self.lot.randrange(5)
        name = value.name
        if kind == 0:
            self.say(f"{name} += {self.lot.choice((1, 2))}")
        elif kind == 1:
            self.say(f"{name}.assign(cute.minimum(cute.maximum({name}, -2), 2))")
        elif kind == 2:
            self.say(f"{name} += {self.view_of(shape, self.total)}.load()")
        elif kind == 3:
            mask = f"cute.coord({name}, 1) {self.lot.choice(('<=', '>'))} cute.coord({name}, 0)"
            self.say(f"{name}.assign(cute.where({mask}, {name}, 0))")
        else:
            scales = self.tensor((shape[0],), self.total, 0, 1)
            self.say(f"{name}.assign({name} * cute.column_vector({scales.name}, 0, {shape[0]}))")

    def fetch(self, value: Value) -> None:
        """A tile from memory beside multiplies: added, stored, or reduced."""
        self.features.add("tiles fetched beside multiplies")
        assert value.shape is not None
        tile = self.fetched(value.shape)
        kind = self.lot.randrange(4)
        if kind == 0:
            self.say(f"{value.name} += {tile.name}")
        elif kind == 1:
            self.store(tile)
        elif kind == 2:
            scales = self.tensor((value.shape[0],), self.total, 0, 1)
            column = f"cute.column_vector({scales.name}, 0, {value.shape[0]})"
            self.say(f"{value.name} += cute.row_sum({tile.name} * {column})")
        else:
            self.sums(tile)

    def sums(self, value: Value) -> None:
        """Rows or columns of a result added up, in a vector that lives outside."""
        self.features.add("sums of results")
        shape = value.shape
        assert shape is not None
        word, kept = self.lot.choice((("row", (shape[0], 1)), ("column", (1, shape[1]))))
        known = [v for v in self.tiles() if v.mutable and v.shape == kept and v.dtype == self.total]
        kind = self.lot.choice(("sum", "sum", "max"))
        if not known:
            self.add(f"cute.{word}_{kind}({value.name})", kept, self.total)
            if not value.mutable or self.chance(0.5):
                self.store(self.values[-1])
            else:
                self.say(f"{value.name}.assign(cute.minimum({value.name}, {self.values[-1].name}))")
            return
        text = f"cute.{word}_{kind}({value.name})"
        if kind == "max":
            text = f"cute.maximum({known[0].name}, {text})"
            self.say(f"{known[0].name}.assign({text})")
        else:
            self.say(f"{known[0].name} += {text}")

    def atomic(self, value: Value) -> None:
        """A result added into memory that work items share."""
        self.features.add("atomics")
        shape = value.shape
        assert shape is not None
        kind = "i32" if self.total == "i32" else "f32"
        out = self.tensor((self.extent(shape[0], 1), self.extent(shape[1], 1)), kind)
        text = value.name if value.dtype == kind else f"{value.name}.to(cute.{kind})"
        self.say(f"cute.atomic_add({text}, cute.local_tile({out.name}, {shape}, (0, 0)))")

    # The end

    def ends(self, out: Argument | None) -> None:
        """What lives is stored, at least one tile of it."""
        found = self.tiles(lambda v: v.mutable and v.dtype == self.total) or [self.fresh()]
        if out is not None:
            fitting = [value for value in found if value.shape == self.out_shape]
            value = fitting[-1] if fitting else None
            text = (
                f"cute.zeros({self.out_shape})"
                if value is None
                else self.stored_text(value, out.dtype)
            )
            if value is None and out.dtype != "f32":
                text = f"{text}.to(cute.{out.dtype})"
            at = "i, j" if "i" in self.coords else "0, 0"
            self.say(f"cute.copy({text}, cute.local_tile({out.name}, {self.out_shape}, ({at})))")
        stored = self.lot.sample(found, self.lot.randrange(len(found) + 1)) or found[-1:]
        if out is not None and self.chance(0.5):
            return
        for value in stored:
            self.store(value)


def draw(number: int, family: str) -> Program:
    """The program of this number of a class.

    Raises TooLongError for one that does too much.
    """
    lot = _Lot(Random(f"{family} {number}"), number, LARGE)
    lot.family = FAMILIES[family]
    return lot.draw()
