"""Multiplies that add up the rows of A, too: `cute.gemm` with `sums`, and columns of a tile."""

from __future__ import annotations

import random
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def compiled(dtype, rows, depth, keys, width, schedule="", arch: Any = "sm_90a", **options):
    """(A B^T) V and the rows' sums of A B^T, by blocks of so many keys."""
    takes, sums = options.get("columns", width), options.get("sums", True)
    is_turned = options.get("is_turned", False)
    negate = options.get("negate")

    @cute.kernel
    def program(a, b, v, out, total):
        i = cute.tile_index(out, (rows,))
        acc = cute.zeros((rows, width + 8))
        left = cute.local_tile(a, (rows, depth), (i, 0))
        right = cute.local_tile(b, (keys, depth), (None, 0))
        shape, place = ((width, keys), (0, None)) if is_turned else ((keys, width), (None, 0))
        values = cute.local_tile(v, shape, place)
        for j in cute.range(b.extent // keys):
            s = cute.zeros((rows, keys))
            cute.gemm(left, right[j].T, s)
            p = s.to(cute.f16 if dtype == "f16" else cute.bf16)
            value = values[j].T if is_turned else values[j]
            if options.get("is_scaled"):
                acc.assign(acc * 0.5)
            cute.gemm(p, value, acc, sums=sums, negate=negate)
        cute.copy(acc.columns(0, takes).to(out.dtype), cute.local_tile(out, (rows, takes), (i, 0)))
        cute.copy(cute.row_max(acc.columns(width, 8)), cute.local_tile(total, (rows,), (i,)))

    matrix = cute.TensorSpec((None, None), dtype)
    specs = matrix, matrix, matrix, cute.TensorSpec((None, None), "f32")
    backend = options.get("backend", "emulator")
    total = cute.TensorSpec((None,), "f32")
    return cute.compile(program, *specs, total, arch=arch, schedule=schedule, backend=backend)


def drawn(seed):
    rng = random.Random(seed)
    groups = rng.choice((1, 2))
    schedule = (
        f"warps = ({4 * groups},1), roles = specialized, overlap = {rng.choice(('yes', 'no'))}"
    )
    if rng.random() < 0.3:
        schedule += ", split_loads = no"
    sizes = (
        64 * groups,
        rng.choice((16, 64, 96)),
        rng.choice((16, 48, 64)),
        rng.choice((16, 32, 64)),
    )
    return rng.choice(list(TYPES)), sizes, rng.randint(1, 4), schedule


@pytest.mark.some(3)
@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize("seed", range(8))
def test_columns_behind_the_products_are_sums(seed, backend):
    dtype, (rows, depth, keys, width), blocks, schedule = drawn(seed)
    rng = np.random.default_rng(seed)
    counts = (2 * rows, depth), (blocks * keys, depth), (blocks * keys, width)
    a, b, v = (rng.integers(-1, 2, count).astype(TYPES[dtype]) for count in counts)
    out, total = np.full((2 * rows, width), np.nan, np.float32), np.zeros(2 * rows, np.float32)
    kernel = compiled(dtype, rows, depth, keys, width, schedule, backend=backend)
    assert f"m64n{width + 8}k16" in kernel.ptx
    kernel.launch(a, b, v, out, total)
    scores = (a.astype(np.float64) @ b.astype(np.float64).T).astype(TYPES[dtype]).astype(np.float64)
    np.testing.assert_array_equal(out, scores @ v.astype(np.float64))
    np.testing.assert_array_equal(total, scores.sum(1))


@pytest.mark.some(4)
@pytest.mark.parametrize(
    "options",
    [
        {"arch": "sm_75", "dtype": "f16"},
        {"arch": "sm_80", "is_scaled": True},
        {"arch": "sm_100a", "is_scaled": True},
        {"arch": "sm_120a"},
        {"schedule": "roles = uniform", "is_scaled": True},
        {"width": 128},
        {"width": 48},
        {"is_turned": True},
    ],
    ids=str,
)
def test_rows_are_added_up_where_no_multiply_does(options):
    """On other targets, of other widths and majors: the accumulator and what is computed from it
    element by element become two.
    """
    options = {"dtype": "bf16", "width": 64, "schedule": ""} | options
    dtype, width, scaled = options["dtype"], options["width"], options.get("is_scaled", False)
    rng = np.random.default_rng(3)
    turns = 1 if not options.get("is_turned") else -1
    counts = (128, 64), (128, 64), (128, width)[::turns]
    a, b, v = (rng.integers(-1, 2, count).astype(TYPES[dtype]) for count in counts)
    out, total = np.full((128, width), np.nan, np.float32), np.zeros(128, np.float32)
    kernel = compiled(rows=64, depth=64, keys=64, **options)
    assert f"m64n{width + 8}k16" not in kernel.ptx
    kernel.launch(a, b, v, out, total)
    scores = (a.astype(np.float64) @ b.astype(np.float64).T).astype(TYPES[dtype]).astype(np.float64)
    weights = np.repeat([1 / 2, 1], 64) if scaled else np.ones(128)
    values = (v if turns == 1 else v.T).astype(np.float64)
    np.testing.assert_array_equal(out, (scores * weights) @ values)
    np.testing.assert_array_equal(total, (scores * weights).sum(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"arch": "sm_80", "columns": 68},
            r"sums: expected a multiply by warpgroups \(wgmma\) .* got target sm_80",
        ),
        ({"sums": False}, r"expected a \(M,K\), b \(K,N\) and acc \(M,N\), got"),
        ({"negate": "a"}, "negate: expected None with sums, got 'a'"),
        ({"columns": 80}, r"expected columns of a tile \(64, 72\), got 80 from 0 on"),
    ],
)
def test_other_sums_are_refused(options, message):
    sizes = {"rows": 64, "depth": 64, "keys": 64, "width": 64, "schedule": "warps = (4,1)"}
    with pytest.raises((cute.CompileError, ValueError), match=re.compile(message)):
        compiled("bf16", **(sizes | options)).ptx  # noqa: B018


def test_only_kernels_have_sums():
    x = np.zeros((8, 8), np.float16)
    multiply: Any = cute.gemm
    with pytest.raises(TypeError, match="sums: expected it inside a kernel only; here"):
        multiply(x, x, sums=True)


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize(
    ("first", "count", "warps"), [(0, 32, None), (40, 8, None), (24, 16, (2, 2)), (4, 12, (1, 4))]
)
def test_columns_that_some_threads_have_more_of(first, count, warps, backend, arch):
    """Grids of warps with several along the columns: a thread gets others than it has."""

    @cute.kernel
    def program(A, B, X, Y):
        i, _ = cute.tile_index(Y, (64, None))
        acc = cute.zeros((64, 64))
        cute.gemm(cute.local_tile(A, (64, 16), (i, 0)), cute.local_tile(B, (16, 64), (0, 0)), acc)
        x = cute.local_tile(X, (64, 64), (i, 0)).load()
        y = acc.columns(first, count) - x.columns(count, count)
        cute.copy(y, cute.local_tile(Y, (64, count), (i, 0)))

    rng = np.random.default_rng(first)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((90, 16), (16, 64)))
    x, y = rng.integers(-2, 3, (90, 64)).astype(np.float32), np.zeros((90, count), np.float32)
    schedule = None if warps is None else cute.Schedule(warps=warps, roles="uniform")
    program(a, b, x, y, arch=arch, backend=backend, schedule=schedule)
    product = a.astype(np.float32) @ b.astype(np.float32)
    assert np.array_equal(y, product[:, first : first + count] - x[:, count : 2 * count])
