"""A tile program as data: the text of its body, and the arrays and numbers that it is given."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

_NUMPY = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64",
}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """One argument of a program: an array of small integers drawn from a seed, or a number.

    `order` lists the modes from the outermost to the contiguous one; rows are `pad` elements
    apart, and the first element lies `offset` elements behind an address of 256 bytes.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "i32"
    order: tuple[int, ...] = ()
    offset: int = 0
    pad: int = 0
    seed: int = 0
    low: int = 0
    high: int = 0
    number: int | None = None

    def make(self) -> np.ndarray | int:
        """The array, or the number."""
        if self.number is not None:
            return self.number
        return array(
            self.shape,
            self.dtype,
            self.order,
            self.offset,
            self.pad,
            self.seed,
            self.low,
            self.high,
        )

    @property
    def text(self) -> str:
        """The Python expression that makes it."""
        if self.number is not None:
            return repr(self.number)
        return (
            f"array({self.shape}, {self.dtype!r}, {self.order}, {self.offset}, {self.pad}, "
            f"{self.seed}, {self.low}, {self.high})"
        )


def array(
    shape: tuple[int, ...],
    dtype: str,
    order: tuple[int, ...],
    offset: int = 0,
    pad: int = 0,
    seed: int = 0,
    low: int = -3,
    high: int = 3,
) -> np.ndarray:
    """Integers from `low` to `high` in an array whose modes lie in memory in this order."""
    kind = getattr(ml_dtypes, _NUMPY[dtype], None) or np.dtype(_NUMPY[dtype])
    outer = [shape[mode] for mode in order]
    row = outer[-1] + pad
    size = int(np.prod(outer[:-1])) * row
    store = np.zeros(size + offset + 256, kind)
    begin = (-store.ctypes.data % 256) // store.itemsize + offset
    placed = store[begin : begin + size].reshape((*outer[:-1], row))[..., : outer[-1]]
    back = [order.index(mode) for mode in range(len(order))]
    view = placed.transpose(back)
    view[...] = np.random.default_rng(seed).integers(low, high + 1, shape).astype(kind)
    return view


@dataclass(frozen=True)
class Program:
    """A tile program: the lines of its body, its arguments, and what it shows of the language."""

    number: int
    arguments: tuple[Argument, ...]
    lines: tuple[str, ...]
    features: frozenset[str]

    @property
    def source(self) -> str:
        """The kernel alone."""
        names = ", ".join(argument.name for argument in self.arguments)
        return "\n".join(["@cute.kernel", f"def program({names}):", *self.lines, ""])

    @property
    def script(self) -> str:
        """A file that runs it in the emulator."""
        made = [f"    {argument.text},  # {argument.name}" for argument in self.arguments]
        return "\n".join(
            [
                "import cutedialect as cute",
                "from benchmarks.tile_program import array",
                "",
                "",
                self.source,
                "",
                "arguments = [",
                *made,
                "]",
                'program(*arguments, arch="sm_80", backend="emulator")',
            ]
        )
