"""What a tracer would get silently wrong is an error at the user's line; what is allowed works."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

X = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)


def run(program, x=X):
    """The program on (input, output); gives the output."""
    y = np.zeros_like(x)
    program(x, y, backend="emulator")
    return y


def refused(program, message, marker):
    """The program is refused with `message` at the line that holds `marker`."""
    with pytest.raises(CompileError, match=message) as caught:
        run(program)
    lines, first = inspect.getsourcelines(program.function)
    at = first + next(i for i, line in enumerate(lines) if marker in line)
    assert caught.value.location is not None
    assert caught.value.location.startswith(f"{__file__}:{at}"), caught.value.location


def tile(tensor, tiles=(64, 64)):
    return cute.local_tile(tensor, tiles, (0, 0))


def test_a_name_from_outside_is_not_rebound():
    @cute.kernel
    def program(X, Y):
        m = cute.zeros((64, 64))
        for _k in cute.range(3):  # here
            m = cute.maximum(m, 1.0)
        cute.copy(m, tile(Y))

    refused(program, "'m' to keep its value", "# here")


def test_a_name_that_nothing_reads_again_may_be_used_again():
    """Also as the loop's own, such as `_` for what is not looked at."""

    @cute.kernel
    def program(X, Y):
        i, _ = cute.tile_index(Y, (64, 64))
        y = cute.zeros((64, 64))
        s = cute.load(tile(X)) * 2.0
        y += s
        for _ in cute.range(3):
            s = cute.load(tile(X))
            y += s
        with cute.when(i == 0):
            s = cute.load(tile(X)) * 4.0
            y += s
        cute.copy(y, tile(Y))

    assert np.array_equal(run(program), 9 * X)


def test_a_name_that_the_next_trip_reads_is_not_rebound():
    @cute.kernel
    def program(X, Y):
        y, s = cute.zeros((64, 64)), cute.load(tile(X))
        for _ in cute.range(3):  # here
            y += s
            s = cute.load(tile(X)) * 2.0
        cute.copy(y, tile(Y))

    refused(program, "'s' to keep its value", "# here")


def test_a_body_value_is_dead_after_the_loop():
    @cute.kernel
    def program(X, Y):
        for _k in cute.range(3):
            last = cute.load(tile(X))
        cute.copy(last, tile(Y))  # here

    refused(program, "made inside the loop", "# here")


def test_no_break():
    @cute.kernel
    def program(X, Y):
        acc = cute.zeros((64, 64))
        for _k in cute.range(3):
            acc += 1.0
            break
        cute.copy(acc, tile(Y))

    with pytest.raises(CompileError, match="a break, return or exception"):
        run(program)


def test_no_return():
    @cute.kernel
    def program(X, Y):
        for _k in cute.range(3):
            cute.copy(cute.load(tile(X)), tile(Y))
            return

    with pytest.raises(CompileError, match="a break, return or exception"):
        run(program)


def test_no_python_condition_on_a_run_time_value():
    @cute.kernel
    def program(X, Y):
        if X.shape[0] < 3:  # here
            cute.copy(cute.load(tile(X)), tile(Y))

    refused(program, "cute.when", "# here")


def test_no_python_range_over_a_run_time_extent():
    @cute.kernel
    def program(X, Y):
        for _ in range(X.shape[0]):  # here
            pass

    refused(program, "cute.range", "# here")


def test_no_truth_of_a_tile():
    @cute.kernel
    def program(X, Y):
        if cute.load(tile(X)) < 3.0:  # here
            pass

    refused(program, "cute.where", "# here")


def test_otherwise_needs_a_when():
    @cute.kernel
    def program(X, Y):
        with cute.otherwise():  # here
            pass

    refused(program, "right after a cute.when", "# here")


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_state_lives_in_tiles(trips):
    @cute.kernel
    def program(X, Y, *, n=trips):
        acc = cute.zeros((64, 64))
        x = cute.load(tile(X))
        for k in cute.range(n):
            step = x * 2.0
            step = step + 1.0
            for _inner in cute.range(k):
                acc += 1.0
            acc += step
        cute.copy(acc, tile(Y))

    assert np.array_equal(run(program), trips * (2 * X + 1) + sum(range(trips)))


def test_python_range_unrolls():
    @cute.kernel
    def program(X, Y):
        acc = cute.zeros((64, 64))
        for k in range(3):
            acc += float(k)
        cute.copy(acc, tile(Y))

    assert np.array_equal(run(program), np.full_like(X, 3))


@pytest.mark.parametrize("rows", [32, 64])
def test_when_and_otherwise(rows):
    @cute.kernel
    def program(X, Y):
        acc = cute.zeros((64, 64))
        with cute.when(X.shape[0] < 40):
            acc += 1.0
        with cute.otherwise():
            acc += 2.0
        cute.copy(acc, tile(Y))

    x = X[:rows]
    assert np.array_equal(run(program, x), np.full_like(x, 1 if rows < 40 else 2))


def test_a_loop_name_may_be_used_again():
    @cute.kernel
    def program(X, Y):
        acc = cute.zeros((64, 64))
        for k in cute.range(2):  # noqa: B007
            value = cute.load(tile(X))
            acc += value
        for k in cute.range(3):  # noqa: B007
            value = cute.load(tile(X)) * 2.0
            acc += value
        cute.copy(acc, tile(Y))

    assert np.array_equal(run(program), 8 * X)


def test_a_loop_name_that_inner_functions_read_may_be_used_again():
    @cute.kernel
    def program(X, Y):
        for source, target in ((X, Y), (Y, X)):
            for j in cute.range(2):
                x, y = (cute.local_tile(each, (16, 16), (0, j)) for each in (source, target))
                cute.copy(x.load() + 1.0, y)

    x = np.arange(512, dtype=np.float32).reshape(16, 32)
    before, y = x.copy(), np.zeros_like(x)
    program(x, y, arch="sm_80", backend="emulator")
    assert np.array_equal(y, before + 1)
    assert np.array_equal(x, before + 2)


def test_every_op_keeps_a_location_of_the_user():
    from xdsl.context import Context
    from xdsl.dialects.builtin import FileLineColLoc

    from cutedialect.passes.cute_to_ptx import pipeline

    @cute.kernel
    def program(X, Y):
        acc = cute.zeros((64, 64))
        for _k in cute.range(X.shape[0]):
            acc += cute.row_sum(cute.exp2(cute.load(tile(X))))
        cute.copy(acc.T, tile(Y))

    spec = cute.TensorSpec((None, None), "f32")
    module = program.trace([spec, spec])
    for step in (None, *pipeline("sm_80")):
        if step is not None:
            step.apply(Context(), module)
        for op in module.walk():
            if op is module or op.name in ("cute.kernel", "ptx.kernel", "func.func"):
                continue
            host = op.parent_op()
            if host is not None and host.name == "func.func":
                continue
            where = op.location
            assert isinstance(where, FileLineColLoc), (step, op.name)
            assert where.filename.data == __file__, (step, op.name)


def test_what_a_pass_says_of_a_whole_program_names_where_it_begins():
    @cute.kernel
    def program(X, Y):
        cute.copy(tile(X).load() * 2.0, tile(Y))

    with pytest.raises(CompileError, match="got the role plan uniform") as caught:
        program(
            X, np.zeros_like(X), arch="sm_100a", backend="emulator", schedule="scheduler = cancel"
        )
    first = inspect.getsourcelines(program.function)[1]
    assert caught.value.location == f"{__file__}:{first}:1"


@cute.kernel
def inside_of_a_loop(A, D, s):
    for _ in cute.range(s):
        i, j = cute.tile_index(D, (64, 64))
        acc = cute.zeros((64, 64), cute.f32)
        cute.gemm(cute.local_tile(A, (64, 64), (i, 0)), cute.local_tile(A, (64, 64), (j, 0)).T, acc)
        cute.copy(acc, cute.local_tile(D, (64, 64), (i, j)))


@cute.kernel
def inside_of_a_condition(A, D, s):
    with cute.when(s > 0):
        i, j = cute.tile_index(D, (64, 64))
        acc = cute.zeros((64, 64), cute.f32)
        cute.gemm(cute.local_tile(A, (64, 64), (i, 0)), cute.local_tile(A, (64, 64), (j, 0)).T, acc)
        cute.copy(acc, cute.local_tile(D, (64, 64), (i, j)))


@pytest.mark.parametrize("program", [inside_of_a_loop, inside_of_a_condition])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_work_items_are_told_outside_of_loops_and_conditions(arch, program):
    """A work item is the whole program of a CTA: the next one has no place inside of a trip."""
    a, d = np.ones((128, 64), np.float16), np.zeros((128, 128), np.float32)
    around = program.function.__name__.split("_of_")[1].replace("_", " ")
    with pytest.raises(CompileError, match=f"outside of loops and conditions, got it in {around}"):
        cute.compile(program, a, d, 1, arch=arch)
