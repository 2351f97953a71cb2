"""Scans in reverse of rows that lanes do not share: tiles are padded, and what is behind the end of
a row is not seen.
"""

import numpy as np
import pytest

import cutedialect as cute

TARGETS = ("sm_80", "sm_90a")
ABOVE = 3


@cute.kernel
def sums(X, Y, *, mode, exclusive, tile):
    i, j = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, j)).load()
    y = cute.cumsum(x, mode, reverse=True, exclusive=exclusive)
    cute.copy(y, cute.local_tile(Y, tile, (i, j)))


@cute.kernel
def largest(X, Y, *, mode, exclusive, tile):
    i, j = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, j)).load()
    initial = 7 if exclusive else None
    y = cute.scan(x, mode, "max", reverse=True, exclusive=exclusive, initial=initial)
    cute.copy(y, cute.local_tile(Y, tile, (i, j)))


@cute.kernel
def segments(X, Y, *, mode, exclusive, tile):
    i, j = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, j)).load()
    begins = (x > ABOVE).to(cute.i32)
    initial = (7, 0) if exclusive else None

    def combine(a, f, b, g):
        return cute.where(g != 0, b, a + b), f | g

    y, _ = cute.scan((x, begins), mode, combine, reverse=True, exclusive=exclusive, initial=initial)
    cute.copy(y, cute.local_tile(Y, tile, (i, j)))


# By program: what follows a sum, and what an exclusive scan begins with.
PROGRAMS = {
    sums: (lambda a, b: a + b, 0),
    largest: (max, 7),
    segments: (lambda a, b: b if b > ABOVE else a + b, 7),
}


def reference(program, line, exclusive):
    combine, first = PROGRAMS[program]
    walked = list(line[::-1])
    found = walked[:1]
    for value in walked[1:]:
        found.append(combine(found[-1], value))
    return np.array([first, *found[:-1]] if exclusive else found)[::-1]


@pytest.mark.some(6)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize(("mode", "shape"), [(1, (2, 261)), (1, (3, 131)), (0, (67, 40))])
def test_a_row_ends_where_it_ends(program, dtype, exclusive, arch, mode, shape):
    rng = np.random.default_rng(1)
    # Below zero, so that a zero behind the end would be the largest; few segments of small sums.
    x = np.where(rng.random(shape) < 0.2, ABOVE + 1, -1) if program is segments else None
    x = (rng.integers(-6, 0, shape) if x is None else x).astype(dtype)
    y = np.zeros_like(x)
    options = {"tile": shape, "arch": arch, "backend": "emulator"}
    program(x, y, mode=mode, exclusive=exclusive, **options)
    exact = np.apply_along_axis(lambda line: reference(program, line, exclusive), mode, x)
    np.testing.assert_array_equal(y, exact)


def test_threads_share_a_long_row():
    spec = cute.TensorSpec((3, 9001), "f32", (None, 1), 4)
    options = {"mode": 1, "exclusive": False, "tile": (1, 9001), "arch": "sm_90a"}
    kernel = cute.compile(sums, spec, spec, **options)
    assert ".reqntid 256," in kernel.ptx
