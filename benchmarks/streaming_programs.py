"""Streaming programs drawn by lot, in the kernel language and as torch's formula: some matrices of
mixed types, perhaps with rows apart in memory, vectors along either mode, a few functions, perhaps
a statistic of each row, one or two outputs, and a tile. `benchmarks.streaming --programs` times
them at shapes of their own.
"""

from __future__ import annotations

import linecache
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import log2
from typing import Any

import cutedialect as cute

from .streaming_workloads import EPS, Shape, Workload

PREFIX = "program "
_TYPES = ("bfloat16", "bfloat16", "float16", "float32", "float8_e4m3fn", "int8")
_OUTPUTS = ("bfloat16", "bfloat16", "float16", "float32", "float8_e4m3fn")
_ELEMENTS = 1 << 26
# Within the largest number of every type, and so that nothing is lost of what is clamped.
_CLAMPED = (
    "cute.minimum(cute.maximum(v, -400.0), 400.0)",
    "v.clamp(-400.0, 400.0)",
)
_TILES = ((32, 128), (16, 256), (8, 512), (4, 1024), (2, 1024), (2, 2048), (1, 4096))
# What is done to a tile `v`, in the kernel language and in torch.
_UNARY = {
    "silu": ("cute.silu(v)", "torch.nn.functional.silu(v)"),
    "gelu": ("cute.gelu(v)", "torch.nn.functional.gelu(v)"),
    "tanh": ("cute.exact.tanh(v)", "torch.tanh(v)"),
    "sigmoid": ("cute.sigmoid(v)", "torch.sigmoid(v)"),
    "relu": ("cute.maximum(v, 0.0)", "torch.relu(v)"),
    "exp": ("cute.exp(-cute.abs(v))", "torch.exp(-v.abs())"),
    "square": ("v * v", "v * v"),
}
# What a tile `v` becomes with another, `w`.
_BINARY = {
    "sum": ("v + w", "v + w"),
    "product": ("v * w", "v * w"),
    "gate": ("v * cute.sigmoid(w)", "v * torch.sigmoid(w)"),
    "maximum": ("cute.maximum(v, w)", "torch.maximum(*torch.broadcast_tensors(v, w))"),
    "blend": ("v * 0.75 + w * 0.25", "v * 0.75 + w * 0.25"),
}
# What a row becomes of it and of a statistic.
_ROWS = {
    "rms": (
        "v * cute.rsqrt(cute.row_sum(v * v) / width + EPS)",
        "v * torch.rsqrt((v * v).mean(1, keepdim=True) + EPS)",
    ),
    "magnitude": (
        "v / (cute.row_max(cute.abs(v)) + 1.0)",
        "v / (v.abs().amax(1, keepdim=True) + 1.0)",
    ),
    "mean": ("v - cute.row_sum(v) / width", "v - v.mean(1, keepdim=True)"),
}


@dataclass(frozen=True)
class Operand:
    """An input: its type, `matrix`, `row` (a vector along rows) or `column`, and by how many
    elements the rows of a matrix lie further apart than they are long.
    """

    name: str
    kind: str
    role: str = "matrix"
    pad: int = 0

    def array(self, shape: Shape) -> tuple[tuple[int, ...], str]:
        """Its shape and type as a workload lists them."""
        if self.role == "row":
            return (shape[1],), self.kind
        if self.role == "column":
            return (shape[0],), self.kind
        return shape, f"{self.kind} +{self.pad}" if self.pad else self.kind

    @property
    def loaded(self) -> str:
        """The expression that brings its tile."""
        tile = {
            "matrix": f"cute.local_tile({self.name}, tile, (i, j))",
            "row": f"cute.row_vector({self.name}, j, tile[1])",
            "column": f"cute.column_vector({self.name}, i, tile[0])",
        }[self.role]
        return f"{tile}.to(cute.f32)"

    @property
    def shaped(self) -> str:
        """The expression that broadcasts it in torch."""
        return f"{self.name}.to(wide)" + (".unsqueeze(1)" if self.role == "column" else "")


@dataclass(frozen=True)
class Program:
    """One program, as its two texts, and the shape that it is timed at."""

    inputs: tuple[Operand, ...]
    outputs: tuple[str, ...]
    body: tuple[str, ...]
    formula: tuple[str, ...]
    tile: tuple[int, int]
    shape: Shape

    @property
    def source(self) -> str:
        names = [each.name for each in self.inputs] + [f"Y{n}" for n in range(len(self.outputs))]
        lines = [f"def program({', '.join(names)}, *, tile):", *self.body]
        return "\n    ".join(lines) + "\n"

    @property
    def torch_source(self) -> str:
        names = ", ".join(each.name for each in self.inputs)
        return "\n    ".join([f"def formula(torch, {names}):", *self.formula]) + "\n"

    def workload(self) -> Workload:
        return Workload(
            lambda shape: [each.array(shape) for each in self.inputs],
            lambda shape: [(shape, kind) for kind in self.outputs],
            _function(self.torch_source, "formula"),
            lambda: cute.kernel(_function(self.source, "program")),
            lambda shape: {"tile": self.tile},
        )


@cache
def program_of(name: str) -> Program:
    """The program that a name as `program 7.3` stands for: of seed 7 the third."""
    seed, _, number = name.removeprefix(PREFIX).partition(".")
    return draw(random.Random(1_000_003 * int(seed) + int(number)))


def draw(rng: random.Random) -> Program:
    """A program."""
    reduces = rng.random() < 0.5
    columns = round(2 ** rng.uniform(log2(100), log2(16000 if reduces else 40000)))
    if rng.random() < 0.6:
        columns = -(-columns // 8) * 8
    inputs = _inputs(rng)
    names = [each.name for each in inputs]
    body, formula = ["i, j = cute.tile_index(Y0, tile)"], ["wide = A.dtype"]
    for each in inputs:
        body.append(f"{each.name.lower()} = {each.loaded}")
        formula.append(f"{each.name.lower()} = {each.shaped}")

    def both(name: str, pair: tuple[str, str], **parts: str) -> None:
        for lines, text in zip((body, formula), pair, strict=True):
            for part, value in parts.items():
                text = _replaced(text, part, value)
            lines.append(f"{name} = {text}")

    both("v", ("a", "a"))
    for name in names[1:]:
        both("v", rng.choice(list(_BINARY.values())), w=name.lower())
    if rng.random() < 0.7:
        both("v", rng.choice(list(_UNARY.values())))
    if reduces:
        body.append("width = Y0.shape[1]")
        body.append("v = cute.where(cute.coord(v, 1) < width, v, 0.0)")
        both("v", rng.choice(list(_ROWS.values())))
    both("v", _CLAMPED)
    outputs = [rng.choice(_OUTPUTS)]
    results = ["v"]
    if rng.random() < 0.3:
        outputs.append(rng.choice(_OUTPUTS))
        both("u", rng.choice([each for name, each in _UNARY.items() if name != "square"]))
        results.append("u")
    for number, result in enumerate(results):
        view = f"cute.local_tile(Y{number}, tile, (i, j))"
        body.append(f"cute.copy({result}.to(Y{number}.dtype), {view})")
    formula.append(f"return {', '.join(results)},")
    if reduces:
        tile = max(1, 4096 // columns), columns
    else:
        tile = rng.choice([each for each in _TILES if each[1] < 2 * columns] or [(32, 128)])
    shape = max(1, round(_ELEMENTS / columns)), columns
    return Program(tuple(inputs), tuple(outputs), tuple(body), tuple(formula), tile, shape)


def _inputs(rng: random.Random) -> list[Operand]:
    """A matrix of floats, and up to three other operands."""
    first = Operand("A", rng.choice([kind for kind in _TYPES if kind != "int8"]))
    found = [first]
    for name in "BCD"[: rng.choice([0, 1, 1, 2, 2, 3])]:
        role = rng.choice(["matrix", "matrix", "row", "column"])
        pad = rng.choice([0, 0, 0, 8, 3]) if role == "matrix" else 0
        found.append(Operand(name, rng.choice(_TYPES), role, pad))
    return found


def _replaced(text: str, name: str, value: str) -> str:
    """A text with a name of one letter replaced, where it stands alone."""
    return re.sub(rf"\b{name}\b", value, text)


@cache
def _function(source: str, name: str) -> Callable[..., Any]:
    """The function of a text, which tracebacks and the tracer find again."""
    file = f"<{name} {abs(hash(source))}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"cute": cute, "EPS": EPS}
    exec(compile(source, file, "exec"), scope)
    return scope[name]
