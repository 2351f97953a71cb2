"""How many kernels lengths ask for: attention and products of lengths drawn at random, each a class
of which others of its schedule are. Nothing is compiled: what a call asks for is enough.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import cutedialect as cute
from cutedialect.frontend import launch

PROBLEMS = 200
_ARCH = "sm_90a"
_SEVERAL = 8
# Columns and depths of weights that rows are multiplied with.
_WEIGHTS = ((4096, 4096), (14336, 4096), (4096, 14336))


@dataclass(frozen=True)
class Classes:
    """What the lengths of one kind ask for: so many kernels, of so many schedules."""

    name: str
    problems: int
    kernels: int
    schedules: int
    most: int


@dataclass(frozen=True)
class _Kind:
    """Problems of one kind, drawn one by one, and the most kernels that they may ask for."""

    name: str
    draw: Callable[[random.Random], None]
    most: int


def classes(seed: int, problems: int | None = None) -> Iterator[Classes]:
    """The kernels that each kind of problem asks for, as it is counted.

    Raises `AssertionError` where one call asks for more than one kernel.
    """
    problems = PROBLEMS if problems is None else problems
    for kind in _kinds():
        rng = random.Random(f"{seed} {kind.name}")
        asked: list[tuple[object, ...]] = []
        with patch.object(launch, "_compile", _noting(asked)):
            for number in range(problems):
                kind.draw(rng)
                assert len(asked) == number + 1, f"{kind.name}: {len(asked) - number} kernels"
        schedules = {(program, schedule) for program, _, _, schedule in asked}
        yield Classes(kind.name, problems, len(set(asked)), len(schedules), kind.most)


class _AskedError(Exception):
    """Enough is known: a kernel was asked for."""


def _noting(asked: list[tuple[object, ...]]) -> Callable[..., Any]:
    def compiled(kernel: Any, options: Any, variants: Any) -> Any:
        told = str(sorted(kernel.constants.items(), key=str))
        asked.append((kernel.program.__name__, kernel.keys, told, str(kernel.schedule)))
        raise _AskedError

    return compiled


def _ask(operation: Any, *args: Any, **options: Any) -> None:
    try:
        cute.compile(operation, *args, arch=_ARCH, backend="emulator", **options)
    except _AskedError:
        return
    raise AssertionError("expected a kernel that is not kept from a call before")


def _kinds() -> Iterator[_Kind]:
    for depth in (64, 128):
        for mask in ("full", "causal", "window"):
            yield _Kind(f"{mask} of {depth}", _whole(depth, mask), 32)
        yield _Kind(f"decode of {depth}", _decode(depth), 24)
        yield _Kind(f"packed causal of {depth}", _packed(depth), 20)
    for columns, deep in _WEIGHTS:
        yield _Kind(f"rows x {columns} x {deep}", _rows(columns, deep), 80)


def _whole(depth: int, mask: str) -> Callable[[random.Random], None]:
    """As many queries as keys, of 1 to 8 sequences."""

    def draw(rng: random.Random) -> None:
        many = _between(rng, 16, 16384)
        q = cute.TensorSpec((_between(rng, 1, _SEVERAL), 16, many, depth), "bf16")
        options: dict[str, Any] = {"causal": True} if mask == "causal" else {}
        if mask == "window":
            options["window"] = (_between(rng, 16, 4096), 0)
        _ask(cute.attention, q, q, q, **options)

    return draw


def _decode(depth: int) -> Callable[[random.Random], None]:
    """One to four queries of heads of which four share keys."""

    def draw(rng: random.Random) -> None:
        batch, rows = _between(rng, 1, 64), rng.choice((1, 1, 1, 2, 4))
        q = cute.TensorSpec((batch, 32, rows, depth), "bf16")
        k = cute.TensorSpec((batch, 8, _between(rng, 64, 131072), depth), "bf16")
        _ask(cute.attention, q, k, k)

    return draw


def _packed(depth: int) -> Callable[[random.Random], None]:
    """2 to 64 sequences behind each other."""

    def draw(rng: random.Random) -> None:
        count = _between(rng, 2, 64)
        q = cute.TensorSpec((1, 16, _between(rng, 4 * count, 32768), depth), "bf16")
        offsets = cute.TensorSpec((count + 1,), "i32")
        _ask(cute.attention, q, q, q, causal=True, cu_seqlens=(offsets, offsets))

    return draw


def _rows(columns: int, depth: int) -> Callable[[random.Random], None]:
    """Tokens times the weights of a layer."""

    def draw(rng: random.Random) -> None:
        a = cute.TensorSpec((_between(rng, 1, 8192), depth), "bf16")
        b = cute.TensorSpec((depth, columns), "bf16", (1, None))
        _ask(cute.gemm, a, b)

    return draw


def _between(rng: random.Random, low: int, high: int) -> int:
    """A number whose logarithm is spread evenly."""
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))
