"""Multiplies in a program in the making: in a loop, at once, of register tiles, chained, and as
convolutions of two modes with padding.
"""

from __future__ import annotations

from dataclasses import dataclass

from .program_views import BYTES, LotOfViews, Value

# Element types of multiplies: operand, accumulator.
MULTIPLIED = (
    ("f16", "f32"), ("f16", "f32"), ("f16", "f32"), ("bf16", "f32"), ("bf16", "f32"),
    ("f32", "f32"), ("i8", "i32"), ("u8", "i32"), ("f64", "f64"), ("f16", "f16"),
)  # fmt: skip
# Those of programs with 8-bit floats, which begin with sm_89.
_EIGHT_BITS = (("e4m3", "f32"), ("e4m3", "f32"), ("e5m2", "f32"), ("e4m3", "f16"))


@dataclass
class LotOfMultiplies(LotOfViews):
    """The statements that multiply."""

    def clipped(self, value: Value) -> Value:
        """Made small again, so that what follows stays exact."""
        low = 0 if value.dtype == "u8" else -2
        text = f"cute.minimum(cute.maximum({value.name}, {low}), 2)"
        return self.add(text, value.shape, value.dtype)

    def converted(self, value: Value, dtype: str) -> Value:
        """A tile in another type; what is converted to u8 has no sign."""
        if value.dtype == dtype:
            return value
        if dtype == "u8":
            value = self.add(f"cute.maximum({value.name}, 0)", value.shape, value.dtype)
        return self.add(f"{value.name}.to(cute.{dtype})", value.shape, dtype)

    def multiply(self) -> None:
        lot = self.lot
        # Mostly one pair of types in a program.
        if self.multiplied is None or self.chance(0.2):
            self.multiplied = lot.choice(_EIGHT_BITS if self.eight_bits else MULTIPLIED)
        operand, total = self.multiplied
        self.features.add("multiply")
        if self.indent > 1:
            self.features.add("multiply in a body")
        if operand in ("e4m3", "e5m2"):  # their atoms are 32 deep
            self.extents["k"] = -(-self.extents["k"] // 32) * 32
        shape = self.extents["m"], self.extents["n"]
        accs = [v for v in self.tiles() if v.mutable and v.shape == shape and v.dtype == total]
        if accs and self.chance(0.8):
            acc = lot.choice(accs)
            self.features.add("accumulators reused")
        else:
            acc = self.add(f"cute.zeros({shape}, cute.{total})", shape, total, mutable=True)
        made = (self.in_a_loop, self.at_once, self.of_registers, self.chained, self.convolution)
        lot.choices(made, (5, 2.5, 3.5, 2.5, 2))[0](operand, total, acc)

    def depth(self, operand: str) -> int:
        """Every atom of a type is as deep as a divisor of this."""
        return {1: 32 if operand in ("e4m3", "e5m2") else 16}.get(BYTES[operand], 8)

    def in_a_loop(self, operand: str, total: str, acc: Value) -> None:
        self.features.add("multiply in a loop")
        a, b = self.operands(operand)
        trips = self.lot.choice((0, 1, 2, 3, 4))
        index = self.name("k")
        self.say(
            f"for {index} in cute.range({a}.tiles):"
            if self.chance(0.7)
            else f"for {index} in cute.range({trips}):"
        )
        self.indent += 1
        kept = list(self.values)
        self.say(f"cute.gemm({a}[{index}], {b}[{index}], {acc.name})")
        if self.chance(0.5):
            self.features.add("work beside a multiply")
            extra, _ = self.view(("m", "n"), total)
            if self.chance(0.5):
                self.say(f"{acc.name} += {self.loaded(extra)}")
            else:
                self.say(f"{acc.name}.assign(cute.minimum({acc.name}, 9))")
        self.indent -= 1
        self.values = kept

    def at_once(self, operand: str, total: str, acc: Value) -> None:
        self.features.add("multiply without a loop")
        depth = self.ragged(self.extents["k"], 1)
        a, _ = self.view(("m", "k"), operand, depth)
        b, _ = self.view(("k", "n"), operand, depth)
        self.say(f"cute.gemm({a}, {b}, {acc.name})")

    def of_registers(self, operand: str, total: str, acc: Value) -> None:
        """A register tile on one side: (m, n) times (n, n), or (m, m) times (m, n)."""
        shape = acc.shape
        assert shape is not None
        same = [v for v in self.tiles() if v.shape == shape]
        found = [v for v in same if v.dtype == operand and not v.mutable]
        if not same:
            self.load(("m", "n"), operand)
            found = self.values[-1:]
        self.features.add("register operands")
        tile = self.clipped(self.lot.choice(found or same))
        tile = self.converted(tile, operand)
        m, n = shape
        if n % self.depth(operand) or (self.chance(0.45) and m % self.depth(operand) == 0):
            self.features.add("register operands on the right")
            a, _ = self.view(("m", "m"), operand, of_slice=True)
            self.say(f"cute.gemm({a}, {tile.name}, {acc.name})")
            return
        b, _ = self.view(("n", "n"), operand, of_slice=True)
        self.say(f"cute.gemm({tile.name}, {b}, {acc.name})")

    def chained(self, operand: str, total: str, acc: Value) -> None:
        """The product of each trip, made small, masked, is multiplied again."""
        lot = self.lot
        self.features.add("chained multiplies")
        (m, n), k = (self.extents["m"], self.extents["n"]), self.extents["k"]
        depth, keys = lot.choice((32, 32, k)), lot.choice((1, 2, 3)) * k - lot.choice((0, 0, 3))
        keys = max(keys, 1)
        q = self.tensor((self.ragged(m, self.coords["i"]), depth), operand)
        turned = self.chance(0.6)
        x = self.tensor((keys, depth) if turned else (depth, keys), operand)
        v = self.tensor((keys, self.ragged(n, self.coords["j"])), operand)
        names = self.name("q"), self.name("x"), self.name("v")
        self.say(f"{names[0]} = cute.local_tile({q.name}, ({m}, {depth}), (i, 0))")
        self.say(
            f"{names[1]} = cute.local_tile({x.name}, ({k}, {depth}), (None, 0))"
            if turned
            else f"{names[1]} = cute.local_tile({x.name}, ({depth}, {k}), (0, None))"
        )
        self.say(f"{names[2]} = cute.local_tile({v.name}, ({k}, {n}), (None, j))")
        sums = None
        if self.chance(0.5):
            sums = self.add(f"cute.zeros(({m}, 1), cute.{total})", (m, 1), total, mutable=True)
        kept = list(self.values)
        index = self.name("k")
        self.say(f"for {index} in cute.range({names[1]}.tiles):")
        self.indent += 1
        given = f"{names[1]}[{index}]" + (".T" if turned else "")
        s = self.add(f"cute.zeros(({m}, {k}), cute.{total})", (m, k), total)
        self.say(f"cute.gemm({names[0]}, {given}, {s.name})")
        p = self.clipped(s)
        if self.chance(0.5):
            keys_left = f"{x.name}.dim({0 if turned else 1}) - {lot.choice((0, 1))}"
            test = f"cute.coord({p.name}, 1, {given}) < {keys_left}"
            p = self.add(f"cute.where({test}, {p.name}, 0)", (m, k), total)
        if sums is not None:
            self.say(f"{sums.name} += cute.row_sum({p.name})")
        p = self.converted(p, operand)
        if self.chance(0.3):
            self.say(f"{acc.name}.assign(cute.minimum({acc.name}, 99))")
        self.say(f"cute.gemm({p.name}, {names[2]}[{index}], {acc.name})")
        self.indent -= 1
        self.values = kept

    def convolution(self, operand: str, total: str, acc: Value) -> None:
        """Pixels of a row times weights, for each place of a window: rows and columns outside of
        the image are 0.
        """
        lot = self.lot
        self.features.add("convolutions")
        m, n, k = (self.extents[mode] for mode in "mnk")
        height, width = lot.choice((1, 3)), lot.choice((2, 3))
        pad = lot.choice((0, 1))
        row = lot.choice(list(self.coords))
        deep = lot.choice((k, k, k + 5, 3))
        image = self.tensor(
            (self.coords[row] + lot.choice((0, 1)), self.ragged(m, self.coords["i"]), deep), operand
        )
        weights = self.tensor(
            (height, width, deep, self.ragged(n, self.coords["j"])), operand, 0, 1
        )
        kept, running = list(self.values), list(self.running)
        first = self.indent
        names = self.name("d"), self.name("d"), self.name("k")
        for name, count in zip(names, (height, width), strict=False):
            kind = lot.choice(("range", "cute.range"))
            self.say(f"for {name} in {kind}({count}):")
            self.indent += 1
        pixels, places = self.name("p"), self.name("w")
        window = f"{image.name}.slice(1, {names[1]} - {pad}, {image.name}.dim(1) + {width})"
        at = f"({row} + {names[0]} - {pad}, i, None)"
        self.say(f"{pixels} = cute.local_tile({window}, ({m}, {k}), {at})")
        at = f"({names[0]}, {names[1]}, None, j)"
        self.say(f"{places} = cute.local_tile({weights.name}, ({k}, {n}), {at})")
        self.say(f"for {names[2]} in cute.range({pixels}.tiles):")
        self.indent += 1
        self.say(f"cute.gemm({pixels}[{names[2]}], {places}[{names[2]}], {acc.name})")
        self.indent = first
        self.values, self.running = kept, running

    def operands(self, operand: str) -> tuple[str, str]:
        """Two runs of tiles along the depth, in names."""
        lot = self.lot
        m, n, k = (self.extents[mode] for mode in "mnk")
        deep = lot.choice((0, 1, 2, 3)) * k + lot.choice((0, 0, k // 2, 3, 8))
        deep = max(deep, 1)
        rows, columns = self.ragged(m, self.coords["i"]), self.ragged(n, self.coords["j"])
        a, b = self.tensor((rows, deep), operand), self.tensor((deep, columns), operand)
        names = self.name("a"), self.name("b")
        self.say(f"{names[0]} = cute.local_tile({a.name}, ({m}, {k}), (i, None))")
        self.say(f"{names[1]} = cute.local_tile({b.name}, ({k}, {n}), (None, j))")
        return names
