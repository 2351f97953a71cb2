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
    apart, and the first element lies `offset` elements behind an address of 256 bytes; the modes of
    `back` have strides below zero, where it is the last element. One with an `alias` lies in memory
    where the argument of that name does, `shift` rows further on.
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
    alias: str = ""
    shift: int = 0
    back: tuple[int, ...] = ()

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
            self.back,
        )

    @property
    def text(self) -> str:
        """The Python expression that makes it."""
        if self.number is not None:
            return repr(self.number)
        if not (self.pad or self.offset or self.back) and list(self.order) == sorted(self.order):
            kind = _NUMPY[self.dtype]
            module = "np" if hasattr(np, kind) else "ml_dtypes"
            drawn = f"np.random.default_rng({self.seed}).integers({self.low}, {self.high + 1}, "
            return f"{drawn}{self.shape}).astype({module}.{kind})"
        return (
            f"array({self.shape}, {self.dtype!r}, {self.order}, {self.offset}, {self.pad}, "
            f"{self.seed}, {self.low}, {self.high}{f', {self.back}' if self.back else ''})"
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
    back: tuple[int, ...] = (),
) -> np.ndarray:
    """Integers from `low` to `high` in an array whose modes lie in memory in this order, those of
    `back` from their last element to their first.
    """
    kind = getattr(ml_dtypes, _NUMPY[dtype], None) or np.dtype(_NUMPY[dtype])
    outer = [shape[mode] for mode in order]
    row = outer[-1] + pad
    size = int(np.prod(outer[:-1])) * row
    store = np.zeros(size + offset + 256, kind)
    begin = (-store.ctypes.data % 256) // store.itemsize + offset
    placed = store[begin : begin + size].reshape((*outer[:-1], row))[..., : outer[-1]]
    places = [order.index(mode) for mode in range(len(order))]
    steps = [slice(None, None, -1 if mode in back else 1) for mode in range(len(order))]
    view = placed.transpose(places)[tuple(steps)]
    view[...] = np.random.default_rng(seed).integers(low, high + 1, shape).astype(kind)
    return view


@dataclass(frozen=True)
class Program:
    """A tile program: the lines of its body, its arguments, and what it shows of the language."""

    number: int
    arguments: tuple[Argument, ...]
    lines: tuple[str, ...]
    features: frozenset[str]
    # The schedule that it is called with, and whether every target has to refuse it; and what a
    # refusal says that is as right as a result: arrays that the language takes for different ones.
    schedule: str = ""
    must_be_refused: bool = False
    may_be_refused: str = ""

    def make(self) -> list[np.ndarray | int]:
        """The arrays and numbers that it is called with."""
        made: dict[str, np.ndarray | int] = {}
        for argument in self.arguments:
            if not argument.alias:
                made[argument.name] = argument.make()
        for argument in self.arguments:
            if argument.alias:
                made[argument.name] = under(made[argument.alias], argument.shift)
        return [made[argument.name] for argument in self.arguments]

    @property
    def source(self) -> str:
        """The kernel alone."""
        names = ", ".join(argument.name for argument in self.arguments)
        return "\n".join(["@cute.kernel", f"def program({names}):", *self.lines, ""])

    @property
    def script(self) -> str:
        """A file that runs it in the emulator and compares with the interpreter."""
        made = [
            f"{argument.name} = {argument.alias}[{argument.shift}:]"
            if argument.alias
            else f"{argument.name} = {argument.text}"
            for argument in sorted(self.arguments, key=lambda each: each.alias != "")
        ]
        drawn = any("array(" in line for line in made)
        # What is stored is compared where no array is in two arguments.
        compared = not any(argument.alias for argument in self.arguments)
        schedule = f', schedule="{self.schedule}"' if self.schedule else ""
        names = ", ".join(argument.name for argument in self.arguments)
        return "\n".join(
            [
                *(["import copy", ""] if compared else []),
                "import ml_dtypes",
                "import numpy as np",
                "",
                "import cutedialect as cute",
                *(["from benchmarks.tile_program import array"] if drawn else []),
                "",
                "",
                self.source,
                "",
                *made,
                f"arguments = [{names}]",
                *(["wanted = copy.deepcopy(arguments)"] if compared else []),
                f'program(*arguments, arch="sm_80", backend="emulator"{schedule})',
                *(_COMPARISON if compared else ()),
            ]
        )


_COMPARISON = (
    'program(*wanted, arch="sm_80", backend="interpreter")',
    "for got, want in zip(arguments, wanted):",
    "    np.testing.assert_array_equal(got, want)",
)


def under(base: np.ndarray | int, shift: int) -> np.ndarray:
    """The array that lies over another one, so many rows further on."""
    assert isinstance(base, np.ndarray)
    return base[shift:]
