"""`cute.while_`, `cute.break_if`, `cute.return_if`, bounds of loops from memory, helper functions:
what they compute, and what Python's own statements are told.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

X = np.random.default_rng(37).integers(1, 90, (50, 40)).astype(np.float32)
EVERYWHERE = pytest.mark.parametrize(
    ("backend", "arch"), [("interpreter", "sm_80"), ("emulator", "sm_80"), ("emulator", "sm_90a")]
)


def _closer(x, y):
    """A helper function with tiles as arguments and results."""
    nearer = 0.5 * (y + x / y)
    return nearer, cute.abs(nearer * nearer - x)


@cute.kernel
def _roots(X, Y, N):
    i, j = cute.tile_index(Y, (16, 32))
    x = cute.local_tile(X, (16, 32), (i, j)).load() + 0.5
    y, error = cute.full((16, 32), 1.0), cute.full((16, 32), cute.inf)
    trips = cute.zeros((16, 32), cute.i32)
    for trip in cute.while_(lambda: cute.any(error > 1e-2), max_trips=N[0]):
        nearer, left = _closer(x, y)
        y.assign(nearer)
        error.assign(left)
        trips.assign(trip + 1)
    cute.copy(y + 1000.0 * trips.to(cute.f32), cute.local_tile(Y, (16, 32), (i, j)))


@EVERYWHERE
@pytest.mark.parametrize("most", [50, 2, 0])
def test_a_loop_goes_on_while_a_condition_of_tiles_holds(backend, arch, most):
    y = np.zeros_like(X)
    _roots(X, y, np.array([most], np.int32), backend=backend, arch=arch)
    padded = np.zeros((64, 64), np.float32)
    padded[:50, :40] = X
    padded += 0.5
    for i, j in np.ndindex(4, 2):
        part = slice(16 * i, 16 * i + 16), slice(32 * j, 32 * j + 32)
        x, root, trips = padded[part], np.ones((16, 32), np.float32), 0
        error = np.full_like(root, np.inf)
        while (error > 1e-2).any() and trips < most:
            root, trips = 0.5 * (root + x / root), trips + 1
            error = np.abs(root * root - x)
        shown = y[part]
        wanted = (root + 1000 * trips)[: shown.shape[0], : shown.shape[1]]
        assert np.allclose(shown, wanted, rtol=0, atol=1e-3)


@cute.kernel
def _nested(X, L, Y):
    i, j = cute.tile_index(Y, (16, 32))
    n = L[i, 0]
    cute.return_if(n < 0)
    acc = cute.zeros((16, 32))
    for k in cute.range(L[i, 1], L[i, 2], L[i, 3]):
        for m in cute.range(3):
            with cute.when(k == 2):
                acc += 100.0
                cute.break_if(m == n)
                acc += 10.0
            with cute.otherwise():
                acc += 0.5
            acc += 1.0
            cute.return_if(n == 7)
        cute.break_if(k >= n)
        acc += cute.local_tile(X, (16, 32), (i, j)).load()
    cute.return_if(n == 5)
    cute.copy(acc, cute.local_tile(Y, (16, 32), (i, j)))


def _nested_in_python(x, n, first, end, step):
    """The sums, None where the work item ends in front of its store."""
    acc = np.zeros_like(x)
    for k in range(first, end, step):
        for m in range(3):
            if k == 2:
                acc += 100
                if m == n:
                    break
                acc += 10
            else:
                acc += 0.5
            acc += 1
            if n == 7:
                return None
        if k >= n:
            break
        acc += x
    return None if n == 5 else acc


@EVERYWHERE
def test_exits_from_loops_conditions_and_work_items(backend, arch):
    bounds = [(0, 10, 1), (1, 9, 2), (5, 0, -1), (3, 3, 1)]
    for chosen in ([0, 3, -1, 7], [5, 2, 1, 1]):
        rows = np.array([(n, *b) for n, b in zip(chosen, bounds, strict=True)], np.int32)
        y = np.zeros_like(X)
        _nested(X, rows, y, backend=backend, arch=arch)
        for i, row in enumerate(rows.tolist()):
            x = X[16 * i : 16 * i + 16]
            wanted = None if row[0] < 0 else _nested_in_python(x, *row)
            shown = y[16 * i : 16 * i + 16]
            assert np.array_equal(shown, np.zeros_like(x) if wanted is None else wanted), row


@cute.kernel
def _products(A, B, N, Y):
    m, n = cute.tile_index(Y, (64, 64))
    acc, last = cute.zeros((64, 64)), N[m]
    cute.return_if(last == 5)
    for k in cute.range(A.shape[1] // 32):
        cute.break_if(k == last)
        a = cute.local_tile(A, (64, 32), (m, k))
        cute.gemm(a, cute.local_tile(B, (32, 64), (k, n)), acc)
    cute.copy(acc, cute.local_tile(Y, (64, 64), (m, n)))


@pytest.mark.parametrize(
    ("arch", "schedule"),
    [
        ("sm_80", None),
        # A role that loads ahead, and instances that skip each other's work items.
        ("sm_90a", "roles = alternate"),
        ("sm_100a", None),
    ],
)
def test_a_loop_of_multiplies_is_left_early(arch, schedule):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 2, shape).astype(np.float16) for shape in ((136, 64), (64, 64)))
    rows = np.array([1, 5, 100], np.int32)
    y = np.zeros((136, 64), np.float32)
    _products(a, b, rows, y, arch=arch, schedule=schedule, backend="emulator")
    for m, last in enumerate(rows):
        part, depth = slice(64 * m, 64 * m + 64), 32 * min(int(last), 2)
        depth = 0 if last == 5 else depth
        assert np.array_equal(y[part], a[part, :depth].astype("f4") @ b[:depth].astype("f4"))


@cute.kernel
def _copies_in_front(X, N, A, B, Y, Z):
    i, j = cute.tile_index(Y, (64, 64))
    for k in cute.range(4):
        at = (i, j)
        cute.copy(cute.local_tile(X, (64, 64), at), cute.local_tile(Z, (64, 64), at))
        cute.return_if(k == N[i])
    acc = cute.zeros((64, 64))
    for k in cute.range(A.shape[1] // 32):
        cute.gemm(cute.local_tile(A, (64, 32), (i, k)), cute.local_tile(B, (32, 64), (k, j)), acc)
    cute.copy(acc, cute.local_tile(Y, (64, 64), (i, j)))


@pytest.mark.parametrize("schedule", ["roles = specialized", "roles = alternate"])
def test_a_role_learns_that_another_one_ends_a_work_item(schedule):
    """One loads for the multiplies behind a loop in which the other one copies and leaves."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 3, shape).astype(np.float16) for shape in ((128, 64), (64, 64)))
    x, y, z = (
        np.ones((128, 64), np.float32),
        np.zeros((128, 64), np.float32),
        np.zeros((128, 64), "f4"),
    )
    rows = np.array([9, 2], np.int32)
    _copies_in_front(x, rows, a, b, y, z, arch="sm_90a", schedule=schedule, backend="emulator")
    want = a.astype(np.float32) @ b.astype(np.float32)
    want[64:] = 0
    assert np.array_equal(y, want)
    assert (z == 1).all()


def _refused(body, message, marker):
    """A program of this body is refused with `message` at the line that holds `marker`."""
    with pytest.raises(CompileError, match=message) as caught:
        cute.compile(cute.kernel(body), X, X, arch="sm_80")
    lines, first = inspect.getsourcelines(body)
    at = first + next(i for i, line in enumerate(lines) if marker in line)
    assert caught.value.location is not None
    assert caught.value.location.startswith(f"{__file__}:{at}")


def test_a_while_statement_is_told_of_while():
    def program(X, Y):
        i, j = cute.tile_index(Y, (16, 32))
        x = cute.local_tile(X, (16, 32), (i, j)).load()
        while cute.any(x > 0):  # here
            x -= 1.0
        cute.copy(x, cute.local_tile(Y, (16, 32), (i, j)))

    _refused(program, r"`for trip in cute.while_\(lambda: cond\):` for while", "# here")


def test_a_break_is_told_of_break_if():
    def program(X, Y):
        i, j = cute.tile_index(Y, (16, 32))
        x = cute.full((16, 32), 0.0)
        for k in cute.range(X.shape[0]):
            if k == i:  # here
                break
            x += 1.0
        cute.copy(x, cute.local_tile(Y, (16, 32), (i, j)))

    _refused(program, r"use cute.break_if\(cond\)", "# here")


def test_a_return_is_told_of_return_if():
    def program(X, Y):
        i, j = cute.tile_index(Y, (16, 32))
        x = cute.local_tile(X, (16, 32), (i, j)).load()
        if (  # the condition goes on
            x > 0  # here
        ):
            return
        cute.copy(x, cute.local_tile(Y, (16, 32), (i, j)))

    _refused(program, r"use cute.return_if\(cute.any\(condition\)\)", "# here")


def test_an_if_statement_is_told_of_when():
    def program(X, Y):
        i, j = cute.tile_index(Y, (16, 32))
        x = cute.local_tile(X, (16, 32), (i, j)).load()
        if i > 0:  # here
            x = x + 1.0
        cute.copy(x, cute.local_tile(Y, (16, 32), (i, j)))

    _refused(program, r"use `with cute.when\(cond\):` for if, cute.where", "# here")


def test_a_range_statement_is_told_of_range():
    def program(X, Y):
        i, j = cute.tile_index(Y, (16, 32))
        x = cute.local_tile(X, (16, 32), (i, j)).load()
        for _ in range(i):  # here
            x = x + 1.0
        cute.copy(x, cute.local_tile(Y, (16, 32), (i, j)))

    _refused(program, r"use cute.range", "# here")


def test_a_break_without_a_condition_is_told_of_break_if():
    def program(X, Y):
        i, j = cute.tile_index(Y, (16, 32))
        x = cute.local_tile(X, (16, 32), (i, j)).load()
        for _ in cute.range(i):
            break
        cute.copy(x, cute.local_tile(Y, (16, 32), (i, j)))

    with pytest.raises(CompileError, match=r"cute.break_if\(cond\) or cute.return_if\(cond\)"):
        cute.compile(cute.kernel(program), X, X, arch="sm_80")


@pytest.mark.parametrize(
    ("leave", "message"),
    [
        (lambda x: cute.break_if(cute.any(x > 0)), "expected cute.break_if in a cute.range"),
        (lambda x: cute.return_if(x > 0), r"one condition of the CTA, got a tile; take cute.any"),
        (lambda x: cute.return_if(True), "expected the condition of cute.return_if to be a run-"),
        (
            lambda x: cute.while_(cute.any(x > 0)),  # pyright: ignore[reportArgumentType]
            r"write cute.while_\(lambda: ...\)",
        ),
        (lambda x: cute.while_(lambda: True), "expected `for trip in cute.while_"),
        (lambda x: [1 for _ in cute.while_(lambda: x)], "got the range in a call or a"),
    ],
)
def test_wrong_exits_are_refused_at_their_line(leave, message):
    def program(X, Y):
        i, j = cute.tile_index(Y, (16, 32))
        x = cute.local_tile(X, (16, 32), (i, j)).load()
        leave(x)
        cute.copy(x, cute.local_tile(Y, (16, 32), (i, j)))

    with pytest.raises(CompileError, match=message):
        cute.compile(cute.kernel(program), X, X, arch="sm_80")


@cute.kernel
def _left_in_turn(L, Y):
    i = cute.tile_index(Y, (8,))
    count = cute.zeros((8,), cute.i32)
    for _ in cute.range(L[i, 0]):
        cute.break_if(L[i, 1] == 1)
        count += 1
        cute.break_if(L[i, 1] == 2)
        count += 10
        cute.return_if(L[i, 1] == 3)
        count += 100
        cute.break_if(L[i, 1] == 4)
        count += 1000
    cute.copy(count, cute.local_tile(Y, (8,), (i,)))


@EVERYWHERE
def test_exits_one_behind_the_other_leave_what_each_of_them_names(backend, arch):
    places = np.array([[2, where] for where in range(6)], np.int32)
    y = np.full(48, -1, np.int32)
    _left_in_turn(places, y, backend=backend, arch=arch)
    assert y.reshape(6, 8)[:, 0].tolist() == [2222, 0, 1, -1, 111, 2222]


def test_work_items_are_told_in_front_of_an_exit():
    def program(X, Y, n):
        cute.return_if(n > 3)
        i, j = cute.tile_index(Y, (16, 32))  # here
        x = cute.local_tile(X, (16, 32), (i, j)).load()
        cute.copy(x, cute.local_tile(Y, (16, 32), (i, j)))

    with pytest.raises(CompileError, match=r"expected cute\.tile_index") as caught:
        cute.compile(cute.kernel(program), X, X, 3, arch="sm_80")
    assert str(caught.value.location).startswith(__file__)
