"""Statements that a class of multiplied programs is about: views of tiles that change, arguments
of `cute.gemm`, places of maxima, open batch modes, arrays in two arguments, long rows, pages, lists
and dictionaries that loops fill; and the stores by which a program tells what it computed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from .multiplied_operands import LotOfOperands, Shape
from .program_views import Value
from .tile_program import Argument

_STORED = {
    "f32": ("f32", "f32", "f16"), "f16": ("f16", "f32"), "bf16": ("bf16", "f32"),
    "e4m3": ("e4m3", "f32"), "i8": ("i8", "i32"), "i32": ("i32", "i32", "f32"),
}  # fmt: skip
# What `cute.gemm` knows outside of kernels alone.
_FOREIGN = (
    'precision="nonsense"', "bias=acc_", "beta=3.0", 'activation="relu"', "transpose_a=True",
    'out_dtype="f16"', 'schedule="stages = 2"', "alpha=2.0", "scale_a=0.5",
)  # fmt: skip
_LONG = (33, 1000, 4097, 8192, 9000, 9001, 12288, 16384, 20000)


@dataclass
class LotOfSpecials(LotOfOperands):
    """Statements of one class each, and stores."""

    left_over: int = 0
    must_be_refused: bool = False
    may_be_refused: str = ""
    out_shape: Shape = (0, 0)

    def fresh(self, shape: Shape | None = None) -> Value:
        raise NotImplementedError

    def update(self, value: Value) -> None:
        raise NotImplementedError

    def loop(self, kind: str) -> AbstractContextManager[object]:
        raise NotImplementedError

    # Stores

    def store(self, value: Value) -> None:
        """A tile into an output of its own."""
        assert value.shape is not None
        dtype = self.lot.choice(_STORED[value.dtype])
        view = self.output_view(value.shape, dtype)
        self.say(f"cute.copy({self.stored_text(value, dtype)}, {view})")
        self.features.add("stores")
        self.step("store", value)

    def stored_text(self, value: Value, dtype: str) -> str:
        """A tile in the type of an output."""
        if value.dtype == dtype:
            plain = value.dtype in ("e4m3", "i8") or self.chance(0.5)
            return value.name if plain else f"{value.name} * 1"
        narrow = dtype in ("f16", "bf16", "i8", "e4m3")
        text = self.small(value) if narrow and value.dtype != "e4m3" else value.name
        return f"{text}.to(cute.{dtype})"

    def output_view(self, shape: Shape, dtype: str) -> str:
        """A view of a new output, at the place of this work item and of these trips."""
        names = [name for name in self.coords if name != "j"]
        if self.loops and self.chance(0.12):
            self.features.add("stores over each other")
            names = [name for name in names if name == "i"]
        rows, count = "0", 1
        for name in names:
            rows = name if rows == "0" else f"({rows}) * {self.coords[name]} + {name}"
            count *= self.coords[name]
        coords, counts = [rows, "0"], [count, 1]
        if "j" in self.coords:
            coords[1], counts[1] = "j", self.coords["j"]
        whole = [self.extent(e, c) for e, c in zip(shape, counts, strict=True)]
        kept = shape
        turned = self.chance(0.15)
        if turned:
            self.features.add("stores to transposed views")
            whole, coords, kept = whole[::-1], coords[::-1], shape[::-1]
        out = self.tensor((whole[0], whole[1]), dtype)
        text = f"cute.local_tile({out.name}, {kept}, ({', '.join(coords)}))"
        return f"{text}.T" if turned else text

    def some_result(self) -> Value:
        """A tile that multiplies add to, filled if it is new."""
        found = self.results()
        if found and self.chance(0.8):
            return self.lot.choice(found)
        value = self.fresh()
        assert value.shape is not None
        self.say(f"{value.name} += {self.view_of(value.shape, self.total)}.load()")
        return value

    def use(self, value: Value) -> None:
        """A computed tile read by a store or by a result of its shape."""
        fitting = [v for v in self.results() if v.shape == value.shape]
        if fitting and value.dtype == self.total and self.chance(0.5):
            self.say(f"{self.lot.choice(fitting).name} += {value.name}")
        else:
            self.store(value)

    # Views of mutable tiles

    def turned_and_changed(self) -> None:
        value = self.some_result()
        assert value.shape is not None
        rows, columns = value.shape
        before = self.add(f"{value.name}.T", (columns, rows), value.dtype)
        self.update(value)
        self.use(before)

    def columns_and_changed(self) -> None:
        value = self.some_result()
        rows, columns = value.shape or (1, 1)
        count = self.lot.choice((columns, columns // 2, 8))
        first = self.lot.choice((0, columns - count))
        before = self.add(f"{value.name}.columns({first}, {count})", (rows, count), value.dtype)
        self.update(value)
        self.use(before)

    def old_row(self) -> None:
        """The maxima so far as a row, beside new ones (an online softmax)."""
        side = self.lot.choice(self.sides)
        most = self.add(f"cute.zeros(({side}, 1))", None, "f32").name
        total = self.add(f"cute.zeros(({side}, {side}))", (side, side), "seen")
        self.values = [v for v in self.values if v.name not in (most, total.name)]
        with self.loop("loop"):
            old = self.name("o")
            self.say(f"{old} = {most}.T")
            new = f"cute.row_max({self.view_of((side, side), 'f32')}.load())"
            self.say(f"{most}.assign(cute.maximum({most}, {new}))")
            self.say(f"{total.name} += {most} - {old}")
        self.store(replace(total, dtype="f32"))

    # Calls of cute.gemm

    def call(self, options: str, low: int | None = None) -> Value:
        x, y, k = (self.lot.choice(self.sides) for _ in range(3))
        acc = self.fresh((x, y))
        at, count = self.place()
        depth = self.extent(k, count)
        left = self.view_of((x, k), self.operand, (1, at, depth))
        right = self.view_of((k, y), self.operand, (0, at, depth))
        self.say(f"cute.gemm({left}, {right}, {acc.name}, {options.replace('acc_', acc.name)})")
        return acc

    def is_no_argument(self) -> None:
        """A call here has to be refused, unless a loop of Python without a trip does not say it."""
        self.must_be_refused |= all(loop.trips or loop.at_run_time for loop in self.loops)

    def negated(self) -> None:
        if self.operand == "i8":
            self.is_no_argument()  # The instructions negate floats alone.
        self.call(f'negate="{self.lot.choice(("a", "b", "ab"))}"')

    def summed(self) -> None:
        """Rows of the left operand, added up beside the product."""
        x, y, k = (self.lot.choice(self.sides) for _ in range(3))
        acc = self.add(f"cute.zeros(({x}, {y + 8}), cute.{self.total})", (x, y + 8), self.total)
        self.values.pop()
        name = self.name("p")
        self.say(f"{name} = cute.full(({x}, {k}), 1, cute.f32).to(cute.{self.operand})")
        right = self.view_of((k, y), self.operand)
        self.say(f"cute.gemm({name}, {right}, {acc.name}, sums=True)")
        if y % 8 == 0:
            self.store(self.add(f"{acc.name}.columns(0, {y})", (x, y), self.total))
        total = f"cute.row_max({acc.name}.columns({y}, 8))"
        self.store(self.add(total, (x, 1), self.total))

    def scaled_call(self) -> None:
        """Arguments that change no exact result, or are refused: tiles of f32 alone have another
        precision, and sums of a multiply are those of its accumulator.
        """
        option = self.lot.choice(('precision="tf32"', "fast_accum=False", "fast_accum=True"))
        if option == "fast_accum=False" or (option[0] == "p" and self.operand != "f32"):
            self.is_no_argument()
        self.call(option)

    def foreign_argument(self) -> None:
        self.is_no_argument()
        self.call(self.lot.choice(_FOREIGN))

    # Places of maxima

    def _row_of_few(self, rows: int, columns: int) -> Value:
        """Rows of which few numbers are above -inf."""
        given = self.view_of((rows, columns), "f32")
        tile = self.add(f"{given}.load()", (rows, columns), "f32")
        limit = self.lot.choice((0, 1, 2, 3, columns))
        if self.total != "i32" and self.results() and self.chance(0.3):
            fit = [v for v in self.results() if v.dtype == "f32"]
            if fit:
                tile = self.lot.choice(fit)
        test = f"cute.coord({tile.name}, 1) < {limit}"
        if self.chance(0.4):
            test = f"{tile.name} > {self.lot.choice((0, 1, 2))}"
        made = f"cute.where({test}, {tile.name}, -cute.inf)"
        value = self.add(made, tile.shape, "f32")
        self.values.pop()
        return value

    def top(self) -> None:
        rows, columns = self.lot.choice((1, 4, 16, 64)), self.lot.choice((8, 16, 20, 64))
        value = self._row_of_few(rows, columns)
        assert value.shape is not None
        count = self.lot.choice((1, 2, 4, 6))
        names = self.name("v"), self.name("p")
        self.say(f"{names[0]}, {names[1]} = cute.top_k({value.name}, {count})")
        for name, dtype in zip(names, ("f32", "i32"), strict=True):
            view = self.output_view((value.shape[0], count), dtype)
            self.say(f"cute.copy({name}, {view})")

    def place_of_maximum(self) -> None:
        rows, columns = self.lot.choice((1, 4, 16, 64)), self.lot.choice((1, 8, 16, 20, 64))
        value = self._row_of_few(rows, columns)
        assert value.shape is not None
        mode = self.lot.randrange(2)
        shape = (1, value.shape[1]) if mode == 0 else (value.shape[0], 1)
        name = self.name("p")
        self.say(f"{name} = cute.argmax({value.name}, {mode})")
        self.say(f"cute.copy({name}, {self.output_view(shape, 'i32')})")

    # Batches

    def _batch(self, shape: Shape, dtype: str) -> tuple[str, int]:
        """A run of tiles along a batch mode, and how many there are."""
        count = self.lot.choice((1, 2, 3, 5))
        places = [self.place() for _ in range(2)]
        whole = tuple(self.extent(e, c) for e, (_, c) in zip(shape, places, strict=True))
        given = self.tensor((count, *whole), dtype)
        name = self.name("r")
        at = ", ".join(coord for coord, _ in places)
        self.say(f"{name} = cute.local_tile({given.name}, {shape}, (None, {at}))")
        return name, count

    def open_batch(self) -> None:
        value = self.some_result()
        assert value.shape is not None
        name, _ = self._batch(value.shape, self.total)
        index = self.name("t")
        self.say(f"for {index} in cute.range({name}.tiles):")
        self.say(f"    {value.name} += {name}[{index}].load()")

    def multiplied_batch(self) -> None:
        x, y, k = (self.lot.choice(self.sides) for _ in range(3))
        acc = self.fresh((x, y))
        left, _ = self._batch((x, k), self.operand)
        right = self.tensor((k, y), self.operand, -1, 1)
        index = self.name("t")
        self.say(f"for {index} in cute.range({left}.tiles):")
        weights = f"cute.local_tile({right.name}, ({k}, {y}), (0, 0))"
        self.say(f"    cute.gemm({left}[{index}], {weights}, {acc.name})")

    # Arrays in two arguments

    def goes_round(self) -> bool:
        """Whether the loops around have a trip: without one, a refusal and a result are right."""
        return all(loop.trips for loop in self.loops)

    def _aliases(self, shape: Shape, shift: int = 0) -> tuple[Argument, Argument, str]:
        """An input, an output over it, so many rows further on, and the place of a tile."""
        counts = [self.coords.get(name, 1) for name in "ij"]
        whole = [e * c for e, c in zip(shape, counts, strict=True)]
        source = self.tensor((whole[0], whole[1]), "f32", -3, 3)
        plain = replace(source, order=(0, 1), offset=0, pad=0)
        self.arguments[self.arguments.index(source)] = plain
        out = replace(plain, name=f"{plain.name}_", alias=plain.name, shift=shift)
        self.arguments.append(out)
        if shift or self.loops:
            # What a later trip reads, an earlier one has stored; tensors are taken apart.
            self.may_be_refused = "memory of its own"
        at = ", ".join(name if name in self.coords else "0" for name in "ij")
        return plain, out, at

    def in_place(self) -> None:
        """A tile read and written at the same place."""
        shape = self.lot.choice(self.sides), self.lot.choice(self.sides)
        source, out, at = self._aliases(shape)
        tile = self.add(f"cute.local_tile({source.name}, {shape}, ({at})).load()", shape, "f32")
        acc = [v for v in self.results() if v.shape == shape and v.dtype == "f32"]
        text = f"{tile.name} + {acc[0].name}" if acc else f"{tile.name} * 2"
        self.say(f"cute.copy({text}, cute.local_tile({out.name}, {shape}, ({at})))")

    def shifted_alias(self) -> None:
        """A tile written where another work item reads."""
        shape = self.lot.choice(self.sides), self.lot.choice(self.sides)
        source, out, at = self._aliases(shape)
        count = self.coords.get("i", 1)
        self.must_be_refused |= count > 1 and self.goes_round()
        rows = f"(i + 1) % {count}" if count > 1 else "0"
        place = f"{rows}, {at.split(', ')[1]}"
        tile = self.add(f"cute.local_tile({source.name}, {shape}, ({place})).load()", shape, "f32")
        self.say(f"cute.copy({tile.name} * 2, cute.local_tile({out.name}, {shape}, ({at})))")

    def moved_alias(self) -> None:
        """Arrays of which one begins some rows behind the other."""
        shape = self.lot.choice(self.sides), self.lot.choice(self.sides)
        source, out, at = self._aliases(shape, shift=4)
        self.must_be_refused |= self.coords.get("i", 1) > 1 and self.goes_round()
        tile = self.add(f"cute.local_tile({source.name}, {shape}, ({at})).load()", shape, "f32")
        self.say(f"cute.copy({tile.name} * 2, cute.local_tile({out.name}, {shape}, ({at})))")

    # Long rows

    def long_row(self) -> None:
        """A row of thousands reduced along either mode, stored or added in memory."""
        length = self.lot.choice(_LONG)
        real = length - self.lot.choice((0, 0, 1, length // 8))
        dtype = self.lot.choice(("f32", "f32", "i32", "f16"))
        if self.chance(0.5):
            given = self.tensor((real,), dtype, -5, 5)
            text = f"cute.local_tile({given.name}, ({length},), (0,)).T"
        else:
            given = self.tensor((1, real), dtype, -5, 5)
            text = f"cute.local_tile({given.name}, (1, {length}), (0, 0))"
        row = self.add(f"{text}.to(cute.f32)", (1, length), "f32").name
        self.values.pop()
        kind = self.lot.choice(("column_max", "column_sum", "row_max", "row_sum", "row_max"))
        reduced = self.name("m")
        self.say(f"{reduced} = cute.{kind}({row})")
        if kind == "row_sum":
            self.say(f"cute.copy({reduced}, {self.output_view((1, 1), 'f32')})")
            return
        value = reduced if kind.startswith("column") and self.chance(0.5) else f"{row} - {reduced}"
        if self.chance(0.5):
            out = self.tensor((1, real), "f32", 0, 3)
            place = f"cute.local_tile({out.name}, (1, {length}), (0, 0))"
            self.say(f"cute.atomic_add({value} * 1, {place})")
        else:
            self.say(f"cute.copy({value}, {self.output_view((1, length), 'f32')})")

    def long_column(self) -> None:
        """A column of hundreds reduced along either mode."""
        length = self.lot.choice((33, 100, 1000, 1024, 2000))
        given = self.tensor((length - self.lot.choice((0, 1)), 1), "f32", -3, 3)
        text = f"cute.local_tile({given.name}, ({length}, 1), (0, 0)).load()"
        column = self.add(text, (length, 1), "f32").name
        self.values.pop()
        kind = self.lot.choice(("column_max", "column_sum", "row_max", "row_sum"))
        shape = (1, 1) if kind.startswith("column") else (length, 1)
        name = self.name("m")
        self.say(f"{name} = cute.{kind}({column})")
        self.say(f"cute.copy({name}, {self.output_view(shape, 'f32')})")
        self.say(f"cute.copy({column} + {name}, {self.output_view((length, 1), 'f32')})")

    def flat_reduction(self) -> None:
        """A vector reduced along its mode of one element, and along both."""
        value = self.some_result()
        rows, columns = value.shape or (1, 1)
        first, second, shape = self.lot.choice(
            (
                ("row", "row", (rows, 1)),
                ("column", "column", (1, columns)),
                ("row", "column", (1, 1)),
            )
        )
        kinds = self.lot.choice(("max", "sum")), self.lot.choice(("max", "sum"))
        vector = f"cute.{first}_{kinds[0]}({value.name})"
        made = self.add(f"cute.{second}_{kinds[1]}({vector})", shape, self.total)
        self.values.pop()
        self.store(made)

    # Pages

    def _pages(self, shape: Shape, dtype: str) -> str:
        """The text of a tile (keys, 1, d) of a cache of pages."""
        page = self.lot.choice((8, 16, 16, 32, 64))
        keys, deep = shape
        entries, heads, many = self.lot.choice((1, 2)), self.lot.choice((1, 2)), 6
        length = -(-keys * 2 // page)
        cache = self.tensor((many, page, heads, deep), dtype, -1, 1)
        plain = replace(cache, order=(0, 1, 2, 3), offset=0, pad=0)
        self.arguments[self.arguments.index(cache)] = plain
        table = self.tensor((entries, length), "i32", 0, many - 1)
        order = replace(table, order=(0, 1), offset=0, pad=0)
        self.arguments[self.arguments.index(table)] = order
        name = self.name("c")
        self.say(f"{name} = {cache.name}.paged(1, {table.name}, {page})")
        at, count = self.place()
        rows = at if count <= 2 else "1"
        place = f"{self.lot.randrange(entries)}, {rows}, {self.lot.randrange(heads)}, 0"
        return f"cute.local_tile({name}, ({keys}, 1, {deep}), ({place}))"

    def pages(self) -> None:
        rows, columns = self.lot.choice((16, 32, 64)), self.lot.choice((16, 32, 64))
        text = self._pages((rows, columns), "f16")
        if self.chance(0.5):
            self.store(self.add(f"{text}.T.load()", (columns, rows), "f16"))
        else:
            self.store(self.add(f"{text}.load()", (rows, columns), "f16"))

    def multiplied_pages(self) -> None:
        x, y, k = (self.lot.choice((16, 32, 64)) for _ in range(3))
        acc = self.add(f"cute.zeros(({x}, {y}))", (x, y), "f32", mutable=True)
        left = self.tensor((x, k), "f16", -1, 1)
        tile = f"cute.local_tile({left.name}, ({x}, {k}), (0, 0))"
        if self.chance(0.5):
            right = f"{self._pages((y, k), 'f16')}.T"
        else:
            right = self._pages((k, y), "f16")
        self.say(f"cute.gemm({tile}, {right}, {acc.name})")
        self.store(acc)

    def short_atomic(self) -> None:
        value = self.some_result()
        assert value.shape is not None
        dtype = self.lot.choice(("f16", "bf16"))
        out = self.tensor(value.shape, dtype, 0, 0)
        text = f"cute.minimum(cute.maximum({value.name}, -1), 1).to(cute.{dtype})"
        self.say(f"cute.atomic_add({text}, cute.local_tile({out.name}, {value.shape}, (0, 0)))")

    # Lists and dictionaries

    def filled_dictionary(self) -> None:
        self._filled("{}", '["x"]', '["s"]')

    def filled_list(self) -> None:
        self._filled("[None, None]", "[0]", "[1]")

    def _filled(self, empty: str, first: str, second: str) -> None:
        """A container that holds what a trip computes, for this trip alone."""
        x, y, k = (self.lot.choice(self.sides) for _ in range(3))
        acc = self.fresh((x, y))
        name = self.name("d")
        self.say(f"{name} = {empty}")
        with self.loop("loop" if self.chance(0.8) else "unrolled"):
            at, count = self.place()
            depth = self.extent(k, count)
            left = self.view_of((x, k), self.operand, (1, at, depth))
            self.say(
                f"{name}{first} = {left if self.chance(0.5) else self.registers(left, (x, k))}"
            )
            self.say(f"{name}{second} = cute.zeros(({x}, {y}), cute.{self.total})")
            right = self.view_of((k, y), self.operand, (0, at, depth))
            self.say(f"cute.gemm({name}{first}, {right}, {name}{second})")
            self.say(f"{acc.name} += {name}{second}")
