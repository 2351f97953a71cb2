"""Tile programs drawn by lot: a program is Python text and a list of arrays, and each is drawn from
its number alone. Statements are appended one by one from what is there so far: tensors, tiles,
scalars, and the tiles' shapes, in which one extent is always 1 or one of the program's few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from .numpy_tiles import INSTRUCTIONS
from .program_lines import LotOfLines
from .program_multiplies import MULTIPLIED
from .program_views import BYTES, ELEMENTS, LARGE, Sizes, Value
from .tile_program import Argument, Program

# The feature of programs that need sm_89.
EIGHT_BITS = "8-bit floats"


@dataclass
class _Lot(LotOfLines):
    """The statements of a program."""

    # The frame

    def draw(self) -> Program:
        lot = self.lot
        multiplies = self.multiplies = self.chance(0.5)
        self.eight_bits = self.chance(0.15)
        if self.eight_bits:
            self.features.add(EIGHT_BITS)
        of = self.sizes
        modes = zip("mnk", (of.rows, of.columns, of.depths), strict=True)
        self.extents = {
            mode: lot.choice(known if multiplies else of.extents) for mode, known in modes
        }
        if not multiplies and self.extents["m"] * self.extents["n"] == 1:
            self.extents["n"] = 8
        batch = lot.choice((0, 0, 0, 1, 1, 2))
        counts = [1] * (batch + 2)
        # Two to four work items: what goes wrong between them goes wrong with few.
        for place in lot.sample(range(batch + 2), 2):
            counts[place] = lot.choice((1, 2, 2))
        names = ["b", "h"][:batch] + ["i", "j"]
        self.coords = dict(zip(names, counts, strict=True))
        self.running, self.items = list(names), list(names)
        if batch:
            self.features.add("batch modes")
        dtype = lot.choice(MULTIPLIED)[0] if multiplies else lot.choice(ELEMENTS)
        out = self.output(batch, ("m", "n"), lot.choice((dtype, "f32", "i32")))
        tile = ", ".join(["1"] * batch + [str(self.extents["m"]), str(self.extents["n"])])
        self.say(f"{', '.join(names)} = cute.tile_index({out.name}, ({tile}))")
        self.load(("m", "n"), dtype)
        for _ in range(lot.choice((1, 2, 2, 3, 4, 6))):
            self.statement(multiplies)
        if multiplies and "multiply" not in self.features:
            self.multiply()
        if self.chance(0.5):
            self.store()
        self.store_into(out)
        return Program(
            self.number, tuple(self.arguments), tuple(self.lines), frozenset(self.features)
        )

    def statement(self, multiplies: bool) -> None:
        choices: list[tuple[float, Callable[[], None]]] = [
            (3.6, self.elementwise),
            (1.4, self.integers),
            (1.2, self.of_floats),
            (0.8, self.instructions),
            (1, lambda: self.load()),
            (2.4, self.reduction),
            (1, self.masked),
            (0.8, self.convert),
            (0.5, self.scalar),
            (1.0, self.mutable),
            (0.9, self.store),
            (0.5, self.view_copy),
            (1.7, self.atomic),
            (0.6, self.transposed),
            (0.5, self.part),
            (1.2, self.scan),
            (0.7, self.sort),
            (0.8, self.places),
            (0.9, self.ranks),
            (0.9, self.vectors),
            (0.8, self.reread),
            (0.5, self.stencil),
            (0.8, self.read_element),
            (0.6, self.leave),
        ]
        if self.indent < 4:
            choices += [(2.7, self.loop), (0.6, self.repeat), (1.8, self.branch)]
        if multiplies:
            choices.append((6, self.multiply))
        weights = [weight for weight, _ in choices]
        self.lot.choices([made for _, made in choices], weights)[0]()

    # Computing

    def fitting(self, value: Value) -> Value:
        """Another tile whose shape agrees, often by a broadcast."""
        assert value.shape is not None
        kept = [
            v
            for v in self.tiles()
            if all(1 in (a, b) or a == b for a, b in zip(v.shape, value.shape, strict=True))  # pyright: ignore[reportArgumentType]
        ]
        found = [v for v in kept if v.shape != value.shape] if self.chance(0.9) else kept
        return self.lot.choice(found or kept)

    def elementwise(self) -> None:
        lot = self.lot
        one = lot.choice(self.tiles())
        other = self.fitting(one)
        assert one.shape is not None
        assert other.shape is not None
        shape = tuple(max(a, b) for a, b in zip(one.shape, other.shape, strict=True))
        if one.shape != other.shape:
            self.features.add("broadcasts")
        dtype = promoted(one.dtype, other.dtype)
        kind = lot.choice(("+", "-", "*", "max", "min", "clip", "number", "abs", "where", "where"))
        match kind:
            case "+" | "-" | "*":
                self.add(f"{one.name} {kind} {other.name}", shape, dtype)  # pyright: ignore[reportArgumentType]
            case "max" | "min":
                self.add(f"cute.{kind}imum({one.name}, {other.name})", shape, dtype)  # pyright: ignore[reportArgumentType]
            case "number":
                number = lot.choice(("1", "2", "3"))
                self.add(f"{one.name} {lot.choice('+-*')} {number}", one.shape, one.dtype)
            case "where":
                test = f"{one.name} {lot.choice(('<', '<=', '>', '>=', '==', '!='))} {other.name}"
                self.features.add("where")
                if self.chance(0.7):
                    self.features.add("conditions joined")
                    test = f"({test}) {lot.choice('&|^')} ({one.name} > {lot.randrange(3)})"
                    test = f"~({test})" if self.chance(0.3) else test
                no = lot.choice((other.name, "1"))
                self.add(
                    f"cute.where({test}, {one.name}, {no})",
                    shape,  # pyright: ignore[reportArgumentType]
                    dtype,
                )
                # The type of a number is that of the tile beside it.
                if self.lines[-1].endswith(", 1)"):
                    self.values[-1] = replace(self.values[-1], dtype=one.dtype)
            case "abs" if one.dtype not in ("u8",):
                kept = "f32" if one.dtype in ("f16", "bf16") else one.dtype
                self.add(f"cute.abs({one.name})", one.shape, kept)
            case _:
                self.clipped(one)

    def integers(self) -> None:
        """What only integers know."""
        found = self.tiles(lambda value: value.dtype in ("i32", "i64", "i8", "u8"))
        if not found:
            text = self.lot.choice(self.tiles())
            found = [self.add(f"{text.name}.to(cute.i32)", text.shape, "i32")]
        value = self.lot.choice(found)
        self.features.add("integer arithmetic")
        if self.chance(0.5):
            self.bits(value)
            return
        form = self.lot.choice(("{} // 3", "{} % 5", "{} & 3", "{} | 4", "{} ^ 1"))
        self.add(form.format(value.name), value.shape, value.dtype)

    def bits(self, value: Value) -> None:
        """Shifts and counts of the bits of an integer."""
        self.features.add("shifts and bits")
        shifted = ("{} << 1", "{} >> 1", "{} >> ({} & 3)", "2 << ({} & 3)", "cute.brev({}) & 7")
        form = self.lot.choice((*shifted, "cute.popc({})", "cute.clz({})"))
        counts = form.startswith(("cute.popc", "cute.clz"))
        text = form.format(*[value.name] * form.count("{}"))
        self.add(text, value.shape, "i32" if counts else value.dtype)

    def instructions(self) -> None:
        """Instructions that the program spells itself, which NumPy knows by their text."""
        value = self.lot.choice(self.tiles())
        self.features.add("instructions of its own")
        name = value.name
        if value.dtype != "i32":
            name = self.add(f"{self.clipped(value).name}.to(cute.i32)", value.shape, "i32").name
        text = self.lot.choice(list(INSTRUCTIONS))
        self.add(f"cute.inline_ptx({text!r}, {name}, cute.i32)", value.shape, "i32")

    def of_floats(self) -> None:
        """Functions of floats whose results are exact."""
        found = self.tiles(lambda value: value.dtype in ("f16", "bf16", "f32", "f64"))
        if not found:
            text = self.lot.choice(self.tiles())
            found = [self.add(f"{text.name}.to(cute.f32)", text.shape, "f32")]
        value = self.lot.choice(found)
        name, dtype = value.name, value.dtype
        self.features.add("functions of floats")
        kind = self.lot.choice(("whole", "whole", "sign", "fma", "class", "bits"))
        match kind:
            case "whole":
                word = self.lot.choice(("floor", "ceil", "trunc", "round"))
                wide = "f32" if dtype in ("f16", "bf16") else dtype
                self.add(f"cute.{word}({name} * 0.5)", value.shape, wide)
            case "sign":
                form = self.lot.choice(("cute.sign({0})", "cute.copysign({0}, 1 - {0})"))
                self.add(form.format(name), value.shape, dtype)
            case "fma":
                small = f"cute.clamp({name}, -3, 3)"
                self.add(f"cute.fma({small}, 2, {small})", value.shape, dtype)
            case "class":
                word = self.lot.choice(("isnan", "isinf", "isfinite"))
                self.add(f"cute.where(cute.{word}({name}), {name}, 1)", value.shape, dtype)
            case _:
                integer = {"f16": "i16", "bf16": "i16", "f32": "i32", "f64": "i64"}[dtype]
                # A sum with 0 has no negative zero.
                text = f"({name} + 0).bitcast(cute.{integer}).to(cute.i32) >> 3"
                self.add(text, value.shape, "i32")

    def reduction(self) -> None:
        value = self.lot.choice(self.tiles())
        assert value.shape is not None
        self.features.add("reductions")
        kind, mode = self.lot.choice(("max", "sum")), self.lot.choice((0, 1))
        m, n = value.shape
        shape = (1, n) if mode == 0 else (m, 1)
        dtype = value.dtype
        if kind == "sum" and BYTES[dtype] == 1:
            dtype = "i32" if dtype in ("i8", "u8") else "f32"
        if self.chance(0.4):
            self.by_mode(value, mode, shape)
            return
        word = "column" if mode == 0 else "row"
        if kind == "max" and self.chance(0.75):
            self.features.add("minima and places of maxima")
            if self.chance(0.5):
                self.add(f'cute.reduce({value.name}, {mode}, "min")', shape, dtype)
            else:
                self.add(f"cute.argmax({value.name}, {mode})", shape, "i32")
            return
        self.add(f"cute.{word}_{kind}({value.name})", shape, dtype)

    def by_mode(self, value: Value, mode: int, shape: tuple[int, int]) -> None:
        """A reduction that names its mode, or none for all of the tile."""
        lot, name = self.lot, value.name
        self.features.add("reductions by mode")
        word = lot.choice(("sum", "max", "min", "prod", "any", "all", "argmin"))
        if word == "argmin":
            self.add(f"cute.argmin({name}, mode={mode})", shape, "i32")
        elif word in ("any", "all"):
            text = f"cute.{word}({name} > {lot.randrange(3)}, mode={mode}).to(cute.i32)"
            self.add(text, shape, "i32")
        else:
            dtype = value.dtype
            if word in ("sum", "prod") and BYTES[dtype] == 1:
                dtype = "i32" if dtype in ("i8", "u8") else "f32"
            if word == "prod":  # of 0 and 1, since products grow
                name = f"cute.clamp({name}, 0, 1)"
            whole = lot.choice((False, False, True))
            text = f"cute.{word}({name})" if whole else f"cute.{word}({name}, mode={mode - 2})"
            self.add(text, (1, 1) if whole else shape, dtype)

    def masked(self) -> None:
        value = self.lot.choice(self.tiles())
        self.features.add("masks by coordinate")
        mode = self.lot.randrange(2)
        limit = self.lot.choice((str(self.lot.randrange(20)), *self.scalars()))
        test = f"cute.coord({value.name}, {mode}) < {limit}"
        self.add(f"cute.where({test}, {value.name}, 0)", value.shape, value.dtype)

    def convert(self) -> None:
        value = self.lot.choice(self.tiles())
        self.features.add("conversions")
        if self.eight_bits and self.chance(0.5):
            small = self.clipped(value)
            kind = self.lot.choice(("e4m3", "e5m2"))
            wide = self.lot.choice(("f16", "f32"))
            self.add(f"{small.name}.to(cute.{kind}).to(cute.{wide})", value.shape, wide)
            return
        target = self.lot.choice(ELEMENTS)
        if target in ("u8",) and value.dtype != "u8":
            value = self.add(f"cute.abs({value.name})", value.shape, value.dtype)
            self.values[-1] = replace(
                value, dtype="f32" if value.dtype in ("f16", "bf16") else value.dtype
            )
        self.add(f"{value.name}.to(cute.{target})", value.shape, target)

    def transposed(self) -> None:
        value = self.lot.choice(self.tiles())
        assert value.shape is not None
        self.features.add("transposed tiles")
        # Back again: shapes stay those that others fit.
        text = f"({value.name}.T + {self.lot.choice((0, 1))}).T"
        self.add(text, value.shape, value.dtype)

    def part(self) -> None:
        """The first or the last half of a tile along each mode that has one, at times."""
        value = self.lot.choice(self.tiles())
        assert value.shape is not None
        self.features.add("parts of tiles")
        texts: list[str] = []
        shape: list[int] = []
        for extent in value.shape:
            half = extent // 2 if extent % 2 == 0 and self.chance(0.7) else extent
            texts.append(":" if half == extent else self.lot.choice((f":{half}", f"{half}:")))
            shape.append(half)
        self.add(f"{value.name}[{', '.join(texts)}]", (shape[0], shape[1]), value.dtype)

    def scalars(self) -> list[str]:
        """Texts of small scalars."""
        tensors = [a for a in self.arguments if a.number is None]
        given = self.lot.choice(tensors)
        return [*self.running, f"{given.name}.dim({self.lot.randrange(len(given.shape))})"]

    def read_element(self) -> None:
        """An element of a tensor beside a tile, or in a condition."""
        dtype = self.lot.choice(ELEMENTS)
        name = self.lot.choice(list(self.coords))
        given = self.tensor((self.coords[name] + 7,), dtype)
        self.features.add("elements")
        value = self.lot.choice(self.tiles())
        text = f"{given.name}[{name}]"
        if self.chance(0.5):
            test = f"cute.coord({value.name}, {self.lot.randrange(2)}) < {text}.to(cute.i32)"
            self.add(f"cute.where({test}, {value.name}, 0)", value.shape, value.dtype)
        else:
            form = f"{value.name} + cute.full({value.shape}, {text}, cute.{dtype})"
            self.add(form, value.shape, promoted(value.dtype, dtype))

    def stencil(self) -> None:
        """The sum of a tile and of its neighbors along a mode, those outside being 0."""
        lot = self.lot
        self.features.add("halo stencils")
        dtype = lot.choice(ELEMENTS)
        shape = self.extents["m"], self.extents["n"]
        whole = [self.ragged(e, self.coords[at]) for e, at in zip(shape, "ij", strict=True)]
        given = self.tensor(tuple(whole), dtype)
        mode = lot.randrange(2)
        total = self.add(f"cute.zeros({shape}, cute.{dtype})", shape, dtype, mutable=True)
        shift = self.name("d")
        self.say(f"for {shift} in {lot.choice(('range', 'cute.range'))}(3):")
        view = f"{given.name}.slice({mode}, {shift} - 1, {given.name}.dim({mode}) + 2)"
        self.indent += 1
        self.say(f"{total.name} += cute.local_tile({view}, {shape}, (i, j)).load()")
        self.indent -= 1

    def scalar(self) -> None:
        """A scalar argument beside a tile; bytes do not hold one."""
        found = self.tiles(lambda value: value.dtype not in ("i8", "u8"))
        if not found:
            self.convert()
            return
        value = self.lot.choice(found)
        self.features.add("scalar arguments")
        made = Argument(f"s{len(self.arguments)}", number=self.lot.randrange(4))
        self.arguments.append(made)
        self.add(f"{value.name} {self.lot.choice('+-*')} {made.name}", value.shape, value.dtype)

    def mutable(self) -> None:
        value = self.lot.choice(self.tiles())
        known = [v for v in self.tiles() if v.mutable and v.shape == value.shape]
        if known and self.chance(0.7):
            self.update(self.lot.choice(known), value)
            return
        self.features.add("mutable tiles")
        start = self.lot.choice(("0", "1", "-1" if value.dtype != "u8" else "2"))
        self.add(
            f"cute.full({value.shape}, {start}, cute.{value.dtype})",
            value.shape,
            value.dtype,
            mutable=True,
        )

    def update(self, target: Value, value: Value) -> None:
        small = self.clipped(value)
        small = self.converted(small, target.dtype)
        form = self.lot.choice(
            ("{0} += {1}", "{0}.assign({1})", "{0}.assign(cute.maximum({0}, {1}))")
        )
        self.say(form.format(target.name, small.name))

    # Control

    def loop(self) -> None:
        lot = self.lot
        mutable = [v for v in self.tiles() if v.mutable]
        if not mutable:
            self.mutable()
        kept, coords, stored = list(self.values), dict(self.coords), list(self.stored)
        index = self.name("k")
        count = lot.choice((1, 2, 3, 3))
        kind = lot.random()
        if kind < 0.2:
            self.features.add("unrolled loops")
            self.say(f"for {index} in range({count}):")
        else:
            self.features.add("loops")
            bound, end = str(count), count
            if kind < 0.4:
                made = Argument(f"s{len(self.arguments)}", number=lot.randrange(4))
                self.arguments.append(made)
                bound = made.name
                self.features.add("run-time trips")
            elif kind < 0.48:
                bound, end = f"{lot.randrange(2)}, {count + 1}", count + 1
            elif kind < 0.66:
                self.features.add("trips from memory")
                bounds = self.tensor((len(self.coords) + 3,), "i32", 0, 3)
                bound, end = f"{bounds.name}[0], {bounds.name}[1] + 2, {bounds.name}[2] + 1", 5
            elif kind < 0.97:
                self.features.add("loops with a step")
                bound = lot.choice((f"0, {count + 2}, 2", f"{count}, 0, -1", "s + 3, 0, -2"))
                end = 7 if "s" in bound else count + 2
                if "s" in bound:
                    made = Argument(f"s{len(self.arguments)}", number=lot.randrange(4))
                    self.arguments.append(made)
                    bound = bound.replace("s", made.name)
            self.say(f"for {index} in cute.range({bound}):")
            self.running.append(index)
            count = end
        self.indent += 1
        self.coords[index] = count
        self.body(kept)
        self.indent -= 1
        self.values, self.coords, self.stored = kept, coords, stored
        self.running = [name for name in self.running if name != index]

    def repeat(self) -> None:
        """A loop that goes on while the elements of a tile are small, which the body changes."""
        lot = self.lot
        self.features.add("loops while a condition holds")
        if not any(v.mutable for v in self.tiles()):
            self.mutable()
        target = lot.choice(self.tiles(lambda value: value.mutable))
        kept, coords, stored = list(self.values), dict(self.coords), list(self.stored)
        index, most = self.name("k"), lot.choice((2, 3))
        condition = f"~cute.any({target.name} > {lot.randrange(4)})"
        self.say(f"for {index} in cute.while_(lambda: {condition}, max_trips={most}):")
        self.running.append(index)
        self.indent += 1
        self.coords[index] = most
        self.body(kept)
        self.say(f"{target.name}.assign(cute.minimum({target.name}, 2) + 1)")
        self.indent -= 1
        self.values, self.coords, self.stored = kept, coords, stored
        self.running.remove(index)

    @property
    def in_loop(self) -> bool:
        """Whether a loop at run time is around."""
        return len(self.running) > len(self.items)

    def leave(self) -> None:
        """The end of a loop, or of the work item, where a condition holds."""
        ends_loop = self.in_loop and self.chance(0.8)
        self.features.add("loops left early" if ends_loop else "work items left early")
        self.say(f"cute.{'break' if ends_loop else 'return'}_if({self.condition()})")

    def condition(self) -> str:
        """A condition of the CTA, of its scalars or of a tile."""
        lot = self.lot
        if self.chance(0.4):
            self.features.add("branches on tiles")
            return f"cute.any({lot.choice(self.tiles()).name} > {lot.randrange(5)})"
        return f"{lot.choice(self.scalars())} {lot.choice(('<', '>', '=='))} {lot.randrange(3)}"

    def body(self, outside: list[Value]) -> None:
        """Statements in a body, the last of which changes what lives outside."""
        for _ in range(self.lot.choice((1, 1, 2, 3))):
            self.statement(self.multiplies and self.chance(0.8))
        if self.in_loop and self.chance(0.2):
            self.leave()
        targets = [v for v in outside if v.mutable]
        if targets:
            target = self.lot.choice(targets)
            fitting = [v for v in self.tiles() if v.shape == target.shape and v != target]
            if fitting:
                self.update(target, self.lot.choice(fitting))
                return
        self.store()

    def branch(self) -> None:
        self.features.add("branches")
        kept, stored = list(self.values), list(self.stored)
        self.say(f"with cute.when({self.condition()}):")
        self.indent += 1
        self.body(kept)
        self.indent -= 1
        self.values, self.stored = list(kept), list(stored)
        if self.chance(0.4):
            self.features.add("otherwise")
            self.say("with cute.otherwise():")
            self.indent += 1
            self.body(kept)
            self.indent -= 1
            self.values, self.stored = list(kept), stored

    # Results

    def store_view(self, shape: tuple[int, int], dtype: str) -> str:
        """A view of a new output, at this work item's own place."""
        work = [name for name in ("b", "h") if name in self.coords]
        counts = [self.coords[name] for name in work]
        turned = self.chance(0.2)
        kept = shape[::-1] if turned else shape
        sizes = [self.ragged(e, self.coords[at]) for e, at in zip(kept, "ij", strict=True)]
        given = self.tensor((*counts, *sizes), dtype)
        text = given.name
        if self.chance(0.15):
            self.features.add("stores to slices")
            mode = len(counts) + self.lot.randrange(2)
            first, end = (
                self.lot.choice((-2, 0, 1, 2)),
                sizes[mode - len(counts)] + self.lot.choice((-1, 0, 4)),
            )
            text = f"{text}.slice({mode}, {first}, {end})"
        coords = ", ".join([*work, "i", "j"])
        text = f"cute.local_tile({text}, {kept}, ({coords}))"
        if turned:
            self.features.add("stores to transposed views")
        return f"{text}.T" if turned else text

    def store(self) -> None:
        value = self.lot.choice(self.tiles())
        assert value.shape is not None
        view = self.name("v")
        self.say(f"{view} = {self.store_view(value.shape, value.dtype)}")
        if self.chance(0.15):
            self.features.add("stores with a mask")
            mask = f"cute.coord({value.name}, {self.lot.randrange(2)}) < {self.lot.randrange(9)}"
            self.say(f"cute.copy({value.name}, {view}, {mask})")
        else:
            self.say(f"cute.copy({value.name}, {view})")
        self.stored.append((view, value.shape, value.dtype))

    def store_into(self, out: Argument) -> None:
        shape = self.extents["m"], self.extents["n"]
        found = [v for v in self.tiles() if v.shape == shape]
        value = found[-1] if found else self.lot.choice(self.tiles())
        if value.dtype != out.dtype:
            value = self.converted(self.clipped(value), out.dtype)
        text = value.name
        if value.shape != shape:
            text = f"{text} + cute.zeros({shape}, cute.{out.dtype})"
        coords = ", ".join(name for name in self.coords if name in ("b", "h", "i", "j"))
        self.say(f"cute.copy({text}, cute.local_tile({out.name}, {shape}, ({coords})))")

    def reread(self) -> None:
        """Read again what this work item stored."""
        if not self.stored:
            self.store()
        view, shape, dtype = self.lot.choice(self.stored)
        self.features.add("stored and read again")
        self.add(self.loaded(view), shape, dtype)

    def view_copy(self) -> None:
        self.features.add("copies of views")
        text, shape = self.view(self.modes(), self.lot.choice(ELEMENTS))
        view = self.store_view(shape, self.arguments_of(text).dtype)
        self.say(f"cute.copy({text}, {view})")

    def atomic(self) -> None:
        value = self.lot.choice(self.tiles())
        assert value.shape is not None
        self.features.add("atomics")
        value = self.clipped(value)
        is_integer = value.dtype.startswith(("i", "u")) or self.chance(0.4)
        kind = "i32" if is_integer else "f32"
        text = value.name if value.dtype == kind else f"{value.name}.to(cute.{kind})"
        word = "add"
        if kind == "i32" and self.chance(0.7):
            self.features.add("atomics of integers")
            word = self.lot.choice(("max", "min", "and", "or", "xor"))
        is_asked = self.chance(0.6)
        if is_asked:
            self.features.add("atomics that give what was there")
            if kind == "i32":
                word = self.lot.choice((word, word, "exchange", "compare_and_swap"))
        expected = f"{text} & 1, " if word == "compare_and_swap" else ""
        call = f"cute.atomic_{word}({expected}{text}, {self.store_view(value.shape, kind)})"  # pyright: ignore[reportArgumentType]
        if is_asked:
            self.add(call, value.shape, kind)
        else:
            self.say(call)


def promoted(one: str, other: str) -> str:
    """The type that an operator computes in."""
    if one == other:
        return one
    floats = [each in ("f16", "bf16", "f32", "f64") for each in (one, other)]
    if floats[0] != floats[1]:
        return one if floats[0] else other
    if BYTES[one] == BYTES[other]:
        return "f32" if floats[0] else "i32"
    return one if BYTES[one] > BYTES[other] else other


def draw(number: int, sizes: Sizes = LARGE) -> Program:
    """The program of this number."""
    return _Lot(Random(number), number, sizes).draw()
