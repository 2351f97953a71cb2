"""Operands of multiplies whose rows a tile numbers: they come to shared memory ahead of their trip,
by the threads that copy, which have the numbers of their rows.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

TARGETS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
BACKENDS = ("emulator", "interpreter")


@cute.kernel
def gathered(X, W, rows, Y, *, tile):
    """Rows of X times W."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    x = cute.local_tile(X, (bm, bk), (cute.local_tile(rows, (bm,), (m,)), None))
    w = cute.local_tile(W, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn))
    for k in cute.range(x.tiles):
        cute.gemm(x[k], w[k], acc)
    cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def computed(X, W, Y, *, tile, step):
    """Rows that the program numbers itself, other ones in each trip, times W, in pieces of W's rows
    that are numbered, too.
    """
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    at = cute.coord(cute.full((bm, 1), 0, cute.i32), 0, m * bm)
    depth = cute.coord(cute.full((bk, 1), 0, cute.i32), 0)
    acc = cute.zeros((bm, bn))
    for k in cute.range(-(-W.shape[0] // bk)):
        row = at * step - k
        row = cute.where(row % 3 == 1, -1, row)
        x = cute.local_tile(X, (bm, bk), (row, k))
        w = cute.local_tile(W, (bk, bn), (k * bk + depth, n))
        cute.gemm(x, w, acc)
    cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def changed(X, W, rows, Y, *, tile):
    """Bytes of gathered rows that become floats on their way."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    x = cute.local_tile(X, (bm, bk), (cute.local_tile(rows, (bm,), (m,)), None))
    w = cute.local_tile(W, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn))
    for k in cute.range(x.tiles):
        cute.gemm((x[k].load().to(cute.f32) - 3).to(W.dtype), w[k], acc)
    cute.copy(acc, cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def sorted_rows(X, W, rows, Y, *, tile):
    """Numbers that threads exchange to make: their rows are loaded by those who multiply."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    at = cute.sort(cute.local_tile(rows, (bm,), (m,)).load(), 0)
    x, w = cute.local_tile(X, (bm, bk), (at, None)), cute.local_tile(W, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn))
    for k in cute.range(x.tiles):
        cute.gemm(x[k], w[k], acc)
    cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def turned(W, X, rows, Y, *, tile):
    """Weights of bytes, which become floats, times the transpose of gathered rows."""
    bn, bm, bk = tile
    n, m = cute.tile_index(Y, (bn, bm))
    w = cute.local_tile(W, (bn, bk), (n, None))
    x = cute.local_tile(X, (bm, bk), (cute.local_tile(rows, (bm,), (m,)), None))
    acc = cute.zeros((bn, bm))
    for k in cute.range(x.tiles):
        cute.gemm(w[k].load().to(X.dtype), x[k].T, acc)
    cute.copy(acc, cute.local_tile(Y, (bn, bm), (n, m)))


@cute.kernel
def turned_first(X, W, rows, Y, *, tile):
    """The transpose of gathered rows times rows in order, as gradients of weights are."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    acc = cute.zeros((bm, bn))
    for k in cute.range(-(-rows.shape[0] // bk)):
        x = cute.local_tile(X, (bk, bm), (cute.local_tile(rows, (bk,), (k,)), m))
        cute.gemm(x.T, cute.local_tile(W, (bk, bn), (k, n)), acc)
    cute.copy(acc, cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def turned_in_registers(X, rows, Y, Z):
    i = cute.tile_index(rows, (16,))
    at = cute.local_tile(rows, (16,), (i,))
    x, z = (cute.local_tile(each, (16, 32), (at, 0)) for each in (X, Z))
    assert x.T.T is x
    cute.copy(x.T, cute.local_tile(Y, (32, 16), (0, i)))
    cute.copy(x.T.load() * 2, z.T)


def integers(shape, dtype: Any = np.float16, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def numbers(count, high, kind: Any = np.int32):
    return np.random.default_rng(7).integers(-2, high + 2, count).astype(kind)


def rows_of(x, at):
    there = (at >= 0) & (at < len(x))
    return np.where(there[:, None], x[at.clip(0, len(x) - 1)].astype(np.float32), 0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", ["aligned", "unaligned", "words", "wide numbers"])
def test_gathered_rows(target, case):
    dtype = np.float32 if case == "words" else np.float16
    x, w = integers((50, 104), dtype), integers((72, 104), dtype, 1).T
    if case == "unaligned":
        x = integers((50, 105), dtype)[:, :104]
    at = numbers(130, 50, np.int64 if case == "wide numbers" else np.int32)
    y = np.empty((130, 72), np.float32)
    gathered(x, w, at, y, tile=(64, 64, 32), arch=target, backend="emulator")
    np.testing.assert_array_equal(y, rows_of(x, at) @ w.astype(np.float32))


@pytest.mark.parametrize(("dtype", "aligned"), [(np.float16, 4), (np.float32, 16)])
def test_unaligned_rows_are_copied_by_the_threads_that_multiply(dtype, aligned):
    """A role that loads has few registers: of elements on their way it would spill them."""
    x, w = integers((50, 105), dtype)[:, :104], integers((72, 104), dtype, 1).T
    at, y = numbers(130, 50), np.empty((130, 72), np.float32)
    kernel = cute.compile(gathered, x, w, at, y, tile=(64, 64, 32), arch="sm_90a")
    assert kernel.program.instead == "roles = uniform"
    why = " ".join(remark.message for remark in kernel.remarks)
    assert f"expected rows that a program numbers to be aligned to {aligned} bytes" in why
    with pytest.raises(cute.CompileError, match=r"take roles = uniform, or align the rows"):
        cute.compile(
            gathered, x, w, at, y, tile=(64, 64, 32), arch="sm_90a", schedule="roles = specialized"
        )


@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_both_operands_that_a_program_numbers(target):
    x, w = integers((70, 96)), integers((96, 72), seed=1)
    y = np.empty((130, 72), np.float32)
    computed(x, w, y, tile=(64, 64, 32), step=2, arch=target, backend="emulator")
    want = 0
    for k in range(3):
        row = 2 * np.arange(130) - k
        row[row % 3 == 1] = -1
        part = slice(32 * k, 32 * k + 32)
        want = want + rows_of(x, row)[:, part] @ w[part].astype(np.float32)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("target", TARGETS[:3])
def test_rows_that_are_computed_with_on_their_way(target):
    x, w, at = (
        integers((50, 96), np.int8) + np.int8(2),
        integers((72, 96), seed=1).T,
        numbers(70, 50),
    )
    y = np.empty((70, 72), np.float32)
    changed(x, w, at, y, tile=(64, 64, 32), arch=target, backend="emulator")
    np.testing.assert_array_equal(y, (rows_of(x, at) - 3) @ w.astype(np.float32))
    kernel = cute.compile(changed, x, w, at, y, tile=(64, 64, 32), arch=target)
    assert ("tile::gather4" if target == "sm_100a" else "cp.async.c") in kernel.ptx


@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_bytes_that_are_converted_for_others(target):
    x = integers((50, 96)).astype(ml_dtypes.float8_e4m3fn)
    w, at = integers((72, 96), seed=1).T, numbers(70, 50)
    y = np.empty((70, 72), np.float32)
    gathered(x, w, at, y, tile=(64, 64, 32), arch=target, backend="emulator")
    np.testing.assert_array_equal(y, rows_of(x, at).astype(np.float32) @ w.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS[:3])
def test_numbers_of_other_threads(target):
    x, w, at = integers((50, 96)), integers((72, 96), seed=1).T, numbers(64, 50)
    y = np.empty((64, 72), np.float32)
    sorted_rows(x, w, at, y, tile=(64, 64, 32), arch=target, backend="emulator")
    np.testing.assert_array_equal(y, rows_of(x, np.sort(at)) @ w.astype(np.float32))


def test_a_role_loads_numbers_once_and_rows_ahead():
    specs = [cute.TensorSpec((None, 2048), "bf16"), cute.TensorSpec((2048, 512), "bf16", (1, 2048))]
    specs += [cute.TensorSpec((None,), "i32"), cute.TensorSpec((None, 512), "bf16")]
    kernel = cute.compile(gathered, *specs, arch="sm_90a", tile=(128, 128, 64))
    assert "roles = specialized" in kernel.schedule
    loop = kernel.ptx.split("mbarrier.arrive.expect_tx")[1].split("cp.async.mbarrier.arrive")[0]
    assert loop.count("cp.async.cg.shared.global") == 8
    assert "ld.global" not in loop
    assert not [each for each in loop.splitlines() if "mul.lo.s64" in each]


def test_the_interpreter_gathers_alike():
    x, w, at = integers((50, 104)), integers((72, 104), ml_dtypes.bfloat16, 1).T, numbers(130, 50)
    y = np.empty((130, 72), np.float32)
    gathered(x, w.astype(np.float16), at, y, tile=(64, 64, 32), backend="interpreter")
    np.testing.assert_array_equal(y, rows_of(x, at) @ w.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_transposes_of_gathered_rows_are_operands(target, backend):
    options = {"tile": (64, 64, 32), "arch": target, "backend": backend}
    x, at = integers((50, 104)), numbers(130, 50)
    w, more = integers((72, 104), np.int8, 1), integers((130, 72), seed=2)
    y, z = np.empty((72, 130), np.float32), np.empty((104, 72), np.float32)
    turned(w, x, at, y, **options)
    np.testing.assert_array_equal(y, w.astype(np.float32) @ rows_of(x, at).T)
    turned_first(x, more, at, z, **options)
    np.testing.assert_array_equal(z, rows_of(x, at).T @ more.astype(np.float32))


def test_gathered_rows_are_transposed_in_registers():
    x, at, y = integers((50, 32), np.float32), numbers(40, 50), np.empty((32, 40), np.float32)
    z = np.zeros_like(x)
    turned_in_registers(x, at, y, z, backend="emulator")
    np.testing.assert_array_equal(y, rows_of(x, at).T)
    seen = np.isin(np.arange(50), at)
    np.testing.assert_array_equal(z, np.where(seen[:, None], 2 * x, 0))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("program", "dtype"), [(gathered, np.float16), (changed, np.int8)])
def test_rows_of_tensors_whose_columns_are_contiguous(program, dtype, target, backend):
    """Rows that lie beside each other do not do so in the tile; a column alone is such a tensor."""
    for depth in (104, 1):
        x, w = integers((depth, 56), dtype).T, integers((depth, 72), seed=1)
        at, y = numbers(130, 56), np.empty((130, 72), np.float32)
        program(x, w, at, y, tile=(64, 64, 32), arch=target, backend=backend)
        less = 3 if program is changed else 0
        want = (rows_of(x, at) - less) @ w.astype(np.float32)
        np.testing.assert_array_equal(y, want)
