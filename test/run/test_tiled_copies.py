"""Tiled copies that a program names: of loads, stores and operands, on every generation."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.layout import Layout, TiledCopy

ARCHES = ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a")
COLUMNS = TiledCopy.of(Layout((32, 4)), Layout((2, 1)))
ROWS = TiledCopy.of(Layout((16, 8), (8, 1)), Layout((1, 4)))


@cute.kernel
def doubled(X, Y, *, tile=(64, 64), load=None, store=None):
    i, j = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, j), copy=load)
    cute.copy(x.load() * 2, cute.local_tile(Y, tile, (i, j), copy=store))


@cute.kernel
def multiplied(A, B, C, *, tile=(64, 64, 32), a_copy=None):
    bm, bn, bk = tile
    i, j = cute.tile_index(C, (bm, bn))
    acc = cute.zeros((bm, bn))
    a, b = cute.local_tile(A, (bm, bk), (i, None), a_copy), cute.local_tile(B, (bk, bn), (None, j))
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc.to(C.dtype), cute.local_tile(C, (bm, bn), (i, j)))


@pytest.mark.some(5)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("shape", [(128, 64), (100, 70)])
def test_loads_and_stores_by_named_copies(arch, shape, every_stage):
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    y = np.zeros_like(x)
    options = {"arch": arch, "backend": "emulator", "schedule": "warps = (4,1)"}
    doubled(x, y, load=COLUMNS, store=ROWS, **options)
    assert np.array_equal(y, 2 * x)


def test_a_named_copy_is_seen_in_the_ir_and_decides_the_accesses():
    """Threads along the columns of row-major memory take one element at a time."""
    x = cute.TensorSpec((128, 64), "f32", (64, 1))
    named = cute.compile(doubled, x, x, load=COLUMNS, arch="sm_80", schedule="warps = (4,1)")
    plain = cute.compile(doubled, x, x, arch="sm_80", schedule="warps = (4,1)")
    assert "ld.global.v4" in plain.ptx
    assert "ld.global.v" not in named.ptx
    assert "ld.global" in named.ptx


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ARCHES)
def test_an_operand_by_a_named_copy(arch, every_stage):
    """Threads bring A even where TMA would."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-2, 3, (128, 128)).astype(np.float16) for _ in range(2))
    c = np.zeros((128, 128), np.float32)
    copy = TiledCopy.of(Layout((32, 4), (4, 1)), Layout((1, 8)))
    multiplied(
        a, b, c, tile=(64, 64, 32) if arch != "sm_100a" else (128, 64, 64), a_copy=copy, arch=arch,
        backend="emulator", schedule="warps = (4,1)",
    )  # fmt: skip
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_narrow_values_take_narrow_instructions():
    """A copy of one element of 16 bits a thread is none for cp.async: plain loads instead."""
    x = cute.TensorSpec((128, 128), "f16", (128, 1))
    c = cute.TensorSpec((128, 128), "f32", (128, 1))
    widths = {}
    for values in (1, 2, 4, 8):
        copy = TiledCopy.of(Layout((128 * values // 32, 32 // values), (32 // values, 1)),
                            Layout((1, values)))  # fmt: skip
        ptx = cute.compile(
            multiplied, x, x, c, a_copy=copy, arch="sm_80", schedule="warps = (4,1)"
        ).ptx
        widths[values] = {size for size in (4, 8, 16) if f"], {size}" in ptx and "cp.async" in ptx}
    assert [2 * each in widths[each] for each in (2, 4, 8)] == [True] * 3


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("copy", "message"),
    [
        (TiledCopy.of(Layout((32, 2)), Layout((1, 2))), "expected a tiled copy of 128 threads"),
        (TiledCopy.of(Layout((48, 1)), Layout((1, 2))), "that .* divides"),
        (TiledCopy(Layout((128, 2), (0, 1)), (2, 1)), None),
        (TiledCopy(Layout((128, 2), (1, 64)), (64, 4)), "moves each of the"),
        (TiledCopy(Layout((128, 2), (3, 1)), (64, 6)), "that .* divides"),
        (TiledCopy(Layout((128, 4), (3, 1)), (64, 8)), "go along one mode"),
        ("rows", "expected a TiledCopy, got str"),
    ],
)
def test_what_no_copy_can_be(copy, message):
    x = cute.TensorSpec((128, 64), "f32", (64, 1))

    def compiled():
        return cute.compile(doubled, x, x, load=copy, arch="sm_80", schedule="warps = (4,1)").ptx

    if message is None:  # replicas: all threads load all elements, and one of them stores
        assert "ld.global" in compiled()
        return
    with pytest.raises((cute.CompileError, ValueError, TypeError), match=message):
        compiled()
