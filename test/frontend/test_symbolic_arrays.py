"""Views of symbolic arrays against NumPy's views of arrays."""

from __future__ import annotations

import itertools
import random
from math import prod
from types import SimpleNamespace

import numpy as np
import pytest

from cutedialect.backend.runtime.errors import CompileError
from cutedialect.frontend.symbolic_arrays import Extent, SymbolicArray


def named(*shape: Extent) -> SymbolicArray:
    return SymbolicArray("x", shape, tuple(f"x.stride[{mode}]" for mode in range(len(shape))))


def factors(rng: random.Random, count: int) -> tuple[int, ...]:
    """A shape of so many elements, with ones."""
    shape = []
    while count > 1:
        divisors = [part for part in range(2, count + 1) if count % part == 0]
        shape.append(rng.choice(divisors))
        count //= shape[-1]
    for _ in range(rng.randrange(3)):
        shape.insert(rng.randrange(len(shape) + 1), 1)
    return tuple(shape)


def strides(view: SymbolicArray, array: np.ndarray) -> list[int]:
    """Those of a view in bytes, of modes that have any."""
    names = {"x": SimpleNamespace(stride=array.strides)}
    assert all(eval(fact, names) for fact in view.requires)
    modes = zip(view.shape, view.stride, strict=True)
    return [eval(step, names) for extent, step in modes if extent != 1]


@pytest.mark.parametrize("seed", range(40))
def test_shapes_drawn_by_lot(seed: int) -> None:
    """Modes are split and joined as NumPy does, or refused where strides are unlike."""
    rng = random.Random(seed)
    one, other = factors(rng, 24), factors(rng, 24)
    array = np.zeros(one, np.int8)
    try:
        view = named(*one).reshape(other)
    except CompileError:  # parts of both that none divides, such as (4, 6) as (6, 4)
        heads = [{prod(shape[:mode]) for mode in range(len(shape))} for shape in (one, other)]
        places = sorted(heads[0] | heads[1])
        assert any(b % a for a, b in itertools.pairwise(places))
        return
    wanted = array.reshape(other)
    moved = [step for extent, step in zip(other, wanted.strides, strict=True) if extent != 1]
    assert strides(view, array) == moved


def test_what_a_view_requires() -> None:
    view = named("x.shape[0]", 8, 3, 16).reshape("x.shape[0]", 2, 12, 16)
    assert view.requires == ("x.stride[1] == 3 * x.stride[2]",)
    assert view.stride == ("x.stride[0]", "4 * x.stride[1]", "x.stride[2]", "x.stride[3]")
    three = named(2, 3, 4).reshape(24)
    assert three.requires == ("x.stride[1] == 4 * x.stride[2]", "x.stride[0] == 12 * x.stride[2]")


def test_broadcasts_and_exchanges() -> None:
    wide = named("x.shape[0]", 16).expand((7, "x.shape[0]", 16)).swapaxes(-1, -2)
    assert wide.shape == (7, 16, "x.shape[0]")
    assert wide.stride == ("0", "x.stride[1]", "x.stride[0]")
    assert named(5)[:1].expand(("n", 3)).stride == ("0", "0")


@pytest.mark.parametrize(
    "view",
    [
        lambda: named("x.shape[0]", 16).reshape("x.shape[0]", 3, 5),
        lambda: named("x.shape[0]", 16).reshape(4, 16),
        lambda: named(4, 6).reshape(6, 4),
        lambda: named(2, 3).reshape(2, 3, 4),
        lambda: named("x.shape[0]", 16).expand(("n", 16)),
        lambda: named(2, 3)[1:],
    ],
)
def test_what_has_no_words(view) -> None:
    with pytest.raises(CompileError, match="expected a view of x"):
        view()
