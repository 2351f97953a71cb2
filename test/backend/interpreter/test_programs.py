"""Tile programs drawn at random, and what the interpreter itself promises: errors, choices of the
order of CTAs, and the agreement with NumPy and the emulator.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.interpreter import Choices, InterpreterError, Program, draw, run


@cute.kernel
def steps(A, B, X, D, *, tile, plan):
    """A multiply, then what `plan` draws, on an accumulator of two loops."""
    bm, bn, bk = tile
    m, n = cute.tile_index(D, (bm, bn))
    a, b = cute.local_tile(A, (bm, bk), (m, None)), cute.local_tile(B, (bk, bn), (None, n))
    x = cute.local_tile(X, (bm, bn), (m, n)).load()
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
        if "scale" in plan:
            with cute.when(k % 2 == 0):
                acc.assign(acc * 2.0)
    if "rows" in plan:
        acc.assign(acc - cute.row_max(acc))
    if "mask" in plan:
        acc.assign(cute.where(cute.coord(acc, 1) + n * bn < m * bm + 40, acc, -1.0))
    if "sum" in plan:
        acc += cute.row_sum(acc)
    if "again" in plan:
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
    if "add" in plan:
        acc.assign(cute.maximum(acc + x.to(cute.f32), -50.0))
    cute.copy(acc.to(D.dtype), cute.local_tile(D, (bm, bn), (m, n)))


def reference(a, b, x, tile, plan):
    bm, bn, bk = tile
    m, k = a.shape
    n = b.shape[1]
    grid = -(-m // bm), -(-n // bn), -(-k // bk)
    wide = [np.zeros((grid[0] * bm, grid[2] * bk)), np.zeros((grid[2] * bk, grid[1] * bn))]
    wide.append(np.zeros((grid[0] * bm, grid[1] * bn)))
    for to, source in zip(wide, (a, b, x), strict=True):
        to[: source.shape[0], : source.shape[1]] = source
    result = np.zeros_like(wide[2])
    for i, j in np.ndindex(grid[:2]):
        rows, columns = slice(i * bm, i * bm + bm), slice(j * bn, j * bn + bn)
        acc = np.zeros((bm, bn))
        for step in range(grid[2]):
            part = slice(step * bk, step * bk + bk)
            acc += wide[0][rows, part] @ wide[1][part, columns]
            if "scale" in plan and step % 2 == 0:
                acc *= 2
        if "rows" in plan:
            acc -= acc.max(1, keepdims=True)
        if "mask" in plan:
            acc = np.where(np.arange(bn) + j * bn < i * bm + 40, acc, -1)
        if "sum" in plan:
            acc += acc.sum(1, keepdims=True)
        if "again" in plan:
            acc += wide[0][rows] @ wide[1][:, columns]
        if "add" in plan:
            acc = np.maximum(acc + wide[2][rows, columns], -50)
        result[rows, columns] = acc
    return result[:m, :n]


PLANS = ("scale", "rows", "mask", "sum", "again", "add")


def drawn(seed):
    rng = np.random.default_rng(seed)
    tile = tuple(int(rng.choice(each)) for each in ((64, 128), (32, 64), (32, 64)))
    m, n = (int(rng.integers(8, 200)) for _ in range(2))
    k = int(rng.integers(0, 4)) * 32 + int(rng.integers(0, 2)) * 8
    plan = tuple(word for word in PLANS if rng.random() < 0.5)
    shapes = ((m, k), (k, n), (m, n))
    arrays = [rng.integers(-2, 3, shape).astype(np.float16) for shape in shapes]
    return arrays, tile, plan


@pytest.mark.some(4)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed, arch, every_stage):
    arrays, tile, plan = drawn(seed)
    want = reference(*arrays, tile, plan)  # pyright: ignore[reportCallIssue]
    got = np.zeros(want.shape, np.float32)
    steps(*arrays, got, tile=tile, plan=plan, arch=arch, backend="interpreter")
    np.testing.assert_array_equal(got, want)
    assert "cute-schedule-loops" in every_stage


@pytest.mark.long
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("seed", range(4, 24))
def test_more_random_programs_in_the_emulator_too(seed, arch, every_stage):
    arrays, tile, plan = drawn(seed)
    want = reference(*arrays, tile, plan)  # pyright: ignore[reportCallIssue]
    got = np.zeros(want.shape, np.float32)
    steps(*arrays, got, tile=tile, plan=plan, arch=arch, backend="emulator")
    np.testing.assert_array_equal(got, want)
    assert every_stage


def stage_of(kernel, name):
    """The module after a pass."""
    from cutedialect.passes.cute_to_ptx import pipeline

    module = kernel.traced()
    for step in pipeline(kernel.arch):
        step.apply(None, module)  # pyright: ignore[reportArgumentType]
        if step.name == name:
            return module
    raise AssertionError(name)


@pytest.mark.parametrize("schedule", ["scheduler = dynamic", "split_k = 3", "scheduler = stream"])
def test_any_order_of_ctas_is_right(schedule):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (200, 200)).astype(np.float16) for _ in range(2))
    kernel = cute.compile(
        cute.gemm, a, b, out_dtype="f32", arch="sm_80", schedule=f"tile = (64,64,32), {schedule}"
    )
    program = Program(stage_of(kernel, "cute-tile"))
    for seed in range(5):
        for sm_count in (1, 3, 16):
            out = np.full((200, 200), np.nan, np.float32)
            program.run([a, b, out, 1.0], Choices(seed=seed, sm_count=sm_count))
            np.testing.assert_array_equal(out, a.astype(np.float64) @ b)


@cute.kernel
def branch_on_rows(X, D, *, tile=(64, 64)):
    i, j = cute.tile_index(D, tile)
    x = cute.local_tile(X, tile, (i, j)).load()
    y = cute.zeros(tile, cute.f32)
    y.assign(x)
    part = cute.row_sum(x, local=True)
    with cute.when(cute.any(part > 100.0, local=True)):
        whole = cute.row_sum(y)
        y.assign(cute.where(whole > 100.0, y * 0.0, y))
    cute.copy(y, cute.local_tile(D, tile, (i, j)))


def test_rows_take_branches_on_their_own():
    """A sum of parts may miss what the whole row's shows: both results are right."""
    x = np.ones((64, 64), np.float32)
    x[3], x[5, 0] = 2, 999
    kernel = cute.compile(branch_on_rows, x, x, arch="sm_80")
    program = Program(kernel.traced())
    whole, own = np.empty_like(x), np.empty_like(x)
    program.run([x, whole], Choices("whole"))
    program.run([x, own], Choices("own"))
    want = x.copy()
    want[5] = 0
    np.testing.assert_array_equal(own, want)
    want[3] = 0
    np.testing.assert_array_equal(whole, want)


@cute.kernel
def scaled(X, D, factor, *, tile=(32, 64)):
    i, j = cute.tile_index(D, tile)
    cute.copy(cute.local_tile(X, tile, (i, j)).load() * factor, cute.local_tile(D, tile, (i, j)))


def test_wrong_arguments_are_named():
    x = np.ones((40, 64), np.float32)
    module = cute.compile(scaled, x, x, 2.0).traced()
    for args, message in (
        ([x, x], r"expected 3 arguments \(X, D, factor\), got 2"),
        ([x.astype(np.float16), x, 1.0], "X: expected an array of float32, got float16"),
        ([x, 3, 1.0], "D: expected an array of float32, got int"),
        ([x[0], x, 1.0], "X: expected an array of 2 modes"),
    ):
        with pytest.raises(ValueError, match=message):
            run(module, args)
    with pytest.raises(ValueError, match="local: expected 'whole' or 'own', got 'half'"):
        Choices("half")  # pyright: ignore[reportArgumentType]


def test_synchronized_stages_are_refused_at_their_op():
    x = np.ones((64, 64), np.float16)
    kernel = cute.compile(cute.gemm, x, x, arch="sm_90a")
    with pytest.raises(InterpreterError, match="a stage before synchronization, got pipeline") as e:
        Program(stage_of(kernel, "cute-synchronize"))
    assert e.value.op.name.startswith("pipeline.")


def test_what_nobody_wrote_shows():
    @cute.kernel
    def forgets(D, *, tile=(32, 32)):
        i, j = cute.tile_index(D, tile)
        x = cute.local_tile(D, tile, (i, j)).load()
        y = cute.zeros(tile, cute.f32)
        with cute.when(i > 0):
            y.assign(x)
        cute.copy(y, cute.local_tile(D, tile, (i, j)))

    d = np.ones((64, 32), np.float32)
    module = cute.compile(forgets, d).traced()
    for op in list(module.walk()):
        if op.name == "cute.fill":
            op.detach()
    run(module, [d])
    assert np.isnan(d[:32]).all()
    assert (d[32:] == 1).all()


def test_arguments_are_drawn_for_the_types():
    x = np.ones((64, 64), np.float16)
    kernel = cute.compile(cute.gemm, x, x.T, out_dtype="f32")
    arguments = Program(kernel.traced()).arguments
    first, again, floats = draw(arguments, 1), draw(arguments, 1), draw(arguments, 1, "floats")
    assert [each.shape for each in first[:3]] == [(64, 64)] * 3
    assert first[1].strides == (2, 128)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert np.array_equal(first[0], np.round(first[0].astype(np.float32)))
    assert not np.array_equal(floats[0], np.round(floats[0].astype(np.float32)))
    shaped = draw(arguments, 1, shapes={arguments[0].name_hint: (8, 16)})
    assert shaped[0].shape == (8, 16)
