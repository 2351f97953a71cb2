"""Results whose lines begin at any element: stored in aligned words, and nothing around them."""

from __future__ import annotations

import random
import re

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas

# Types of operands and of the result.
KINDS = {
    "bf16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
    "f16": (np.float16, np.float32),
    "e4m3": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fn),
    "s8": (np.int8, np.int32),
    "f32": (np.float32, np.float32),
}
TILES = ("(64,64,{})", "(128,96,{})", "(128,128,{})", "(192,176,{})", "(64,256,{})", "(64,32,{})")
MARK = 7


def drawn(number):
    """Sizes, types, where the result begins, what its rows are longer by, and a schedule."""
    rng = random.Random(number)
    kind = rng.choice(tuple(KINDS))
    m, n = (rng.choice((rng.randint(1, 40), rng.randint(41, 300))) for _ in range(2))
    depth = 128 // np.dtype(KINDS[kind][0]).itemsize
    tile = rng.choice(TILES).format(depth)
    roles = "alternate" if tile.startswith("(64") and rng.random() < 0.3 else "specialized"
    schedule = f"tile = {tile}, roles = {roles}"
    if roles == "specialized" and rng.random() < 0.3 and tile.startswith("(128"):
        schedule += ", swap_ab = yes"
    if rng.random() < 0.3:
        schedule += ", epilogue = smem"
    beyond = rng.choice((0, 0, 1, 2, 4, 6))
    return (m, n, 16), kind, rng.randint(0, 9), beyond, rng.choice((schedule, schedule, None))


def stored(sizes, kind, offset, beyond, schedule, arch="sm_90a", **options):
    """(memory around and in the result, what is right) of a product of small integers."""
    rng = np.random.default_rng(sum(sizes) + offset)
    m, n, k = sizes
    operand, result = KINDS[kind]
    a = rng.integers(-2, 3, (m, k)).astype(operand)
    b = rng.integers(-2, 3, (n, k)).astype(operand).T
    memory = np.full(offset + m * (n + beyond) + 16, MARK).astype(result)
    right = memory.copy()
    for each in (memory, right):
        out = each[offset : offset + m * (n + beyond)].reshape(m, n + beyond)[:, :n]
        if each is right:
            out[...] = (a.astype(np.float64) @ b.astype(np.float64)).astype(result)
        else:
            cute.gemm(
                a, b, out=out, out_dtype=result, arch=arch, backend="emulator",
                schedule=schedule, **options,
            )  # fmt: skip
    return memory, right


@pytest.mark.some(2)
@pytest.mark.parametrize("number", range(60))
def test_drawn_result(number):
    memory, right = stored(*drawn(number))
    assert np.array_equal(memory, right)


@pytest.mark.some(2)
@pytest.mark.parametrize("offset", range(8))
def test_every_offset_of_a_result(offset):
    """Tiles that lie in the result, hang over its rows, over its columns, and over both."""
    schedule = "tile = (64,64,64), roles = specialized"
    memory, right = stored((70, 130 + offset % 2, 16), "bf16", offset, 0, schedule)
    assert np.array_equal(memory, right)


def test_two_results_of_two_types():
    """What precedes the activation is stored beside the result, through a buffer of its own."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((70, 16), (16, 131)))
    aux = np.zeros((70, 131), np.float32)
    schedule = "tile = (64,64,64), roles = specialized"
    out = cute.gemm(
        a, b, aux=aux, activation="relu", arch="sm_90a", backend="emulator", schedule=schedule
    )
    right = a.astype(np.float32) @ b.astype(np.float32)
    assert np.array_equal(aux, right)
    assert np.array_equal(out, np.maximum(right, 0).astype(np.float16))


def test_results_with_an_addend_leave_registers_for_it():
    """Where few are left beside accumulators and a tile that is loaded, nothing spills."""
    shapes = (2, 14, 49), (49, 199), (2, 14, 199)
    a, b, c = (cute.TensorSpec(shape, "f16", align=2) for shape in shapes)
    schedule = "tile = (256,64,64), cluster = (2,1), stages = 1"
    options = {"beta": 1.0, "activation": "relu", "schedule": schedule, "arch": "sm_90a"}
    kernel = cute.gemm.compile(a, b, c=c, **options)
    if ptxas.candidates():
        ptxas.check_strict(ptxas.assemble(kernel.ptx, "sm_90a"), kernel.ptx)


@pytest.mark.parametrize(("columns", "piece"), [(1001, 16), (1002, 32), (1004, 64)])
def test_stores_are_aligned_vectors(columns, piece):
    """Single pieces are stored of the ends of lines alone, as wide as their alignment allows."""
    specs = [cute.TensorSpec((300, 64), "bf16"), cute.TensorSpec((64, columns), "bf16", (1, None))]
    schedule = "tile = (128,128,64), roles = specialized"
    ptx = cute.gemm.compile(*specs, arch="sm_90a", schedule=schedule).ptx
    vectors = len(re.findall(r"st\.global\.v4\.b32", ptx))
    pieces = re.findall(r"st\.global\.b(\d+)", ptx)
    assert vectors >= 8
    # Where the result ends within a tile, at any element.
    assert set(pieces) == {"16", str(piece)}
    assert "stmatrix" in ptx
    # A vector is shifted by words and half words only where its line may begin there.
    assert ("shf.r.wrap.b32" in ptx) == (piece == 16)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("first", [-3, 2])
def test_a_result_in_a_slice(arch, first):
    """A slice may begin in front of its tensor, where nothing is stored; nor behind its end."""

    @cute.kernel
    def program(A, B, C, C2):
        i, j = cute.tile_index(C2, (16, 32))
        acc = cute.zeros((16, 32))
        a = cute.local_tile(A, (16, 16), (i, None))
        b = cute.local_tile(B, (16, 32), (None, j))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc, cute.local_tile(C.slice(1, first, 54), (16, 32), (i, j)))

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((19, 16), (16, 64)))
    memory = np.full(1 + 18 * 54 + 16, MARK, np.float32)
    right = memory.copy()
    c, wanted = (each[1 : 1 + 18 * 54].reshape(18, 54) for each in (memory, right))
    product = (a.astype(np.float32) @ b.astype(np.float32))[:18]
    skipped = max(0, -first)
    wanted[:, first + skipped :] = product[:, skipped : 54 - first]
    program(a, b, c, np.zeros((19, 64), np.float32), arch=arch, backend="emulator")
    assert np.array_equal(memory, right)
