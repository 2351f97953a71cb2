"""Atomics that give what was in memory: tickets, places that are claimed, exchanges."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

ARCHES = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"]


@cute.kernel
def tickets(C, T):
    """Each work item takes as many numbers as it has elements."""
    i, _ = cute.tile_index(T, (4, 32))
    taken = cute.atomic_add(cute.full((1, 1), 128, cute.i32), cute.local_tile(C, (1, 1), (0, 0)))
    place = cute.coord(cute.zeros((4, 32)), 0) * 32 + cute.coord(cute.zeros((4, 32)), 1)
    cute.copy(place + taken, cute.local_tile(T, (4, 32), (i, 0)))


@pytest.mark.parametrize("arch", ARCHES)
def test_tickets(arch):
    """All threads of a CTA know the number that one of them was given."""
    for backend in ("emulator", "interpreter") if arch == "sm_90a" else ("emulator",):
        c, t = np.full((1, 1), 5, np.int32), np.zeros((20, 32), np.int32)
        tickets(c, t, arch=arch, backend=backend)
        assert c[0, 0] == 5 + 5 * 128
        assert np.array_equal(np.sort(t.ravel()), 5 + np.arange(5 * 128))


OPERATIONS = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exchange": lambda old, new: new,
}


def fetched(kind, x, y, arch="sm_90a", backend="emulator"):
    @cute.kernel
    def program(X, Y, Z):
        at = cute.tile_index(X, (8, 32))
        x, y, z = (cute.local_tile(v, (8, 32), at) for v in (X, Y, Z))
        old = getattr(cute, f"atomic_{kind}")(x.load(), y)
        cute.copy(old, z)

    z = np.full_like(x, 77)
    program(x, y, z, arch=arch, backend=backend)
    return z


@pytest.mark.some(12)
@pytest.mark.parametrize("kind", OPERATIONS)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_what_was_there(kind, dtype):
    rng = np.random.default_rng(0)
    x, old = (rng.integers(0, 99, (13, 50)).astype(dtype) for _ in range(2))
    for backend in ("emulator", "interpreter"):
        y = old.copy()
        assert np.array_equal(fetched(kind, x, y, backend=backend), old)
        assert np.array_equal(y, OPERATIONS[kind](old, x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_floats(dtype):
    rng = np.random.default_rng(1)
    x, old = (rng.integers(-9, 9, (9, 40)).astype(dtype) for _ in range(2))
    y = old.copy()
    assert np.array_equal(fetched("add", x, y, "sm_80"), old)
    assert np.array_equal(y, old + x)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_places_that_are_claimed_once(arch):
    """Each of three work items claims what is free; each place has one owner."""

    @cute.kernel
    def claim(P, W):
        (i, _) = cute.tile_index(W, (1, 64))
        free, me = cute.full((1, 64), -1, cute.i32), cute.full((1, 64), i, cute.i32)
        mine = me + cute.where(cute.coord(me, 1) % 3 == i, 0, 10)
        want = cute.where(mine < 10, mine, -1)
        old = cute.atomic_compare_and_swap(free, want, cute.local_tile(P, (1, 64), (0, 0)))
        won = (old == free) & (want >= 0)
        cute.copy(won.to(cute.i32), cute.local_tile(W, (1, 64), (i, 0)))

    o, w = np.full((1, 50), -1, np.int32), np.zeros((3, 50), np.int32)
    claim(o, w, arch=arch, backend="emulator")
    assert np.array_equal(o[0], np.arange(50) % 3)
    assert np.array_equal(w, np.arange(50) % 3 == np.arange(3)[:, None])


def test_what_is_not_used_is_not_asked_for():
    def made(function):
        @cute.kernel
        def program(X, Y):
            at = cute.tile_index(X, (8, 32))
            x, y = (cute.local_tile(v, (8, 32), at) for v in (X, Y))
            function(x.load(), y)

        spec = cute.TensorSpec((None, None), cute.i32)
        return cute.compile(program, spec, spec, arch="sm_90a").ptx

    assert "red.relaxed.gpu.global.max.s32" in made(cute.atomic_max)
    assert "atom." not in made(cute.atomic_max)
    given = made(lambda x, y: cute.copy(cute.atomic_max(x, y, scope="sys"), y))
    assert "atom.relaxed.sys.global.max.s32" in given


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y: cute.atomic_add(x.to(cute.f16), y) + 1, "a tile of f16|expected .*f16|f16"),
        (lambda x, y: cute.atomic_exchange(x.to(cute.f32), y), "integers of 32 or 64 bits"),
        (lambda x, y: cute.atomic_exchange(x, x), r"expected cute.atomic_exchange\(tile, view\)"),
        (lambda x, y: cute.atomic_exchange(x, y, scope="all"), "expected scope to be one of"),
        (lambda x, y: cute.atomic_compare_and_swap(1, x, y), r"compare_and_swap\(expected, tile"),
        (lambda x, y: cute.atomic_compare_and_swap(x.to(cute.i64), x, y), "to compare with"),
    ],
)
def test_what_is_refused(function, message):
    @cute.kernel
    def program(X, Y):
        x, y = (cute.local_tile(v, (8, 32), (0, 0)) for v in (X, Y))
        function(x.load(), y)

    with pytest.raises(CompileError, match=message):
        program(*(np.zeros((8, 32), np.int32) for _ in range(2)), backend="emulator")
