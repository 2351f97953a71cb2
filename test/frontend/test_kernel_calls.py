"""How kernels are declared and called: keywords, defaults, results, and short tracebacks."""

from __future__ import annotations

import functools
import re
import traceback

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

X = np.arange(256, dtype=np.float32).reshape(16, 16)


def whole(tensor):
    return cute.local_tile(tensor, (16, 16), (0, 0))


@cute.kernel
def affine(X, Y, a=2, b=0.5, bias=None, *, twice=False):
    tile = cute.load(whole(X)) * a + b
    if bias is not None:
        tile = tile + cute.load(whole(bias))
    cute.copy(tile * 2 if twice else tile, whole(Y))


@pytest.mark.parametrize(
    ("args", "given", "want"),
    [
        ((), {}, 2 * X + 0.5),
        ((3,), {}, 3 * X + 0.5),
        ((), {"b": 1.5}, 2 * X + 1.5),
        ((3,), {"b": 1.5}, 3 * X + 1.5),
        ((3, 0.0, X), {}, 4 * X),
        ((), {"bias": X, "a": 1, "b": 1.0}, 2 * X + 1),
        ((), {"twice": True}, 4 * X + 1),
    ],
)
def test_keywords_and_defaults(args, given, want):
    y = np.zeros_like(X)
    affine(X, y, *args, backend="emulator", **given)
    assert np.array_equal(y, want)
    y[:] = 0
    if not args:
        affine(Y=y, X=X, backend="emulator", **given)
        assert np.array_equal(y, want)


def test_a_kernel_is_compiled_with_keywords_and_defaults():
    kernel = cute.compile(affine, X, Y=X, b=1.0, backend="emulator")
    assert [parameter.name for parameter in kernel.signature.parameters] == ["X", "Y", "a", "b"]


def test_defaults_of_a_launched_kernel():
    @cute.host
    def program(X, Y):
        cute.launch(affine, X, Y=Y, twice=True)

    y = np.zeros_like(X)
    program(X, y, backend="emulator")
    assert np.array_equal(y, 4 * X + 1)


@pytest.mark.parametrize(
    ("args", "given", "message"),
    [
        ((X,), {}, r"expected 5 arguments for affine \(X, Y, a, b, bias\), got 1; Y is missing"),
        ((), {"Y": X}, "got 1; X is missing"),
        ((X, X, 1, 2.0, None, 3), {}, "expected 5 arguments for affine .*, got 6"),
        ((X, X), {"X": X}, "got 3; X is given twice"),
        ((X, X), {"bais": X}, r"expected keyword arguments of affine \(twice\), got bais"),
    ],
)
def test_wrong_calls(args, given, message):
    with pytest.raises(TypeError, match=message):
        affine(*args, backend="emulator", **given)


def test_a_kernel_from_a_lambda_and_one_with_a_foreign_name():
    def größe(X, Y):  # noqa: PLC2401
        cute.copy(cute.load(whole(X)) + 1, whole(Y))

    for function in (größe, lambda X, Y: cute.copy(cute.load(whole(X)) + 1, whole(Y))):
        y = np.zeros_like(X)
        kernel = cute.kernel(function)
        kernel(X, y, backend="emulator")
        assert np.array_equal(y, X + 1)
        assert cute.compile(kernel, X, y, backend="emulator").ptx.isascii()


def test_what_is_no_kernel():
    def steps(X):
        yield X

    async def later(X):
        del X

    def keyword(X, *, stream=None):
        del X, stream

    for function, message in (
        (affine, "got affine, decorated already"),
        (functools.partial(whole), "expected a Python function, got partial"),
        (steps, "expected steps to be a plain function, got a generator"),
        (later, "expected later to be a plain function, got a coroutine"),
        (keyword, "than the options of a call .*, got stream"),
        (3, "expected a Python function, got int"),
    ):
        with pytest.raises(TypeError, match=message):
            cute.kernel(function)


def test_a_kernel_that_stores_nothing():
    @cute.kernel
    def program(X):
        cute.load(whole(X)) + 1
        with cute.when(X.shape[0] > 3):
            cute.zeros((4, 4)).assign(1)

    with pytest.raises(CompileError, match=r"expected program to store a tile .* effect"):
        program(X, backend="emulator")


def test_a_kernel_that_returns():
    @cute.kernel
    def program(X, Y):
        cute.copy(cute.load(whole(X)), whole(Y))
        return cute.load(whole(X))

    @cute.host
    def host(X, Y):
        cute.launch(affine, X, Y)
        return 3

    for each in (program, host):
        with pytest.raises(CompileError, match=r"to return nothing, got (Tile|int)") as caught:
            each(X, np.zeros_like(X), backend="emulator")
        assert caught.value.location is not None
        assert caught.value.location.startswith(__file__)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: cute.gemm(x, x), "a"),
        (lambda x: cute.attention(x, x, x), "q"),
        (lambda x: affine(x, x), "X"),
    ],
)
def test_array_calls_inside_of_a_kernel(call, name):
    @cute.kernel
    def program(X, Y):
        call(cute.load(whole(X)))
        cute.copy(cute.load(whole(X)), whole(Y))

    message = rf"expected {name} to be an array, got a Tile .* cute\.gemm\(a, b, acc\)"
    with pytest.raises(CompileError, match=message):
        program(X, X, backend="emulator")


def test_warps_that_do_not_divide_name_some_that_do():
    """Eight warps are too many for two atoms by two, in whatever grid."""

    @cute.kernel
    def program(A, B, C):
        acc = cute.zeros((32, 16))
        a, b = cute.local_tile(A, (32, 32), (0, 0)), cute.local_tile(B, (32, 16), (0, 0))
        cute.gemm(a, b, acc)
        cute.copy(acc, cute.local_tile(C, (32, 16), (0, 0)))

    a, b, c = (np.ones(shape, np.float16) for shape in ((32, 32), (32, 16), (32, 16)))
    c = c.astype(np.float32)
    with pytest.raises(CompileError, match=r"no atom that fits; take warps = \(2,2\)"):
        program(a, b, c, schedule="warps = (8,1)", backend="emulator")
    program(a, b, c, schedule="warps = (2,2)", backend="emulator")
    assert (c == 32).all()


@pytest.mark.parametrize("tile", [(24, 48, 48), (64, 1, 64), (128, 8, 1)])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_a_tile_that_no_atom_divides_names_one_that_is(tile, arch):
    @cute.kernel
    def program(A, B, C, *, tile=tile):
        m, n, k = tile
        a, b = cute.local_tile(A, (m, k), (0, 0)), cute.local_tile(B, (k, n), (0, 0))
        acc = cute.zeros((m, n))
        cute.gemm(a.load(), b, acc)
        cute.copy(acc, cute.local_tile(C, (m, n), (0, 0)))

    element, whole = cute.TensorSpec((128, 128), cute.f16), cute.TensorSpec((128, 128), cute.f32)
    named = r"no atom that fits; take a tile such as \((\d+), (\d+), (\d+)\)"
    with pytest.raises(CompileError, match=named) as caught:
        cute.compile(program, element, element, whole, arch=arch)
    nearest = tuple(map(int, re.search(named, str(caught.value)).groups()))
    assert all(near >= size for near, size in zip(nearest, tile, strict=True))
    cute.compile(program, element, element, whole, arch=arch, tile=nearest)


def frames_of(error):
    """The frames of a traceback from this test on."""
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)][1:]


def test_tracebacks_are_short():
    def helper(tile):
        raise KeyError(tile.shape)

    def deep(tile):
        helper(tile)

    @cute.kernel
    def raises(X, Y):
        deep(cute.load(whole(X)))

    @cute.kernel
    def refused(X, Y):
        cute.copy(cute.load(whole(X)), Y)

    for kernel, kind, last in ((raises, KeyError, "helper"), (refused, CompileError, "refused")):
        with pytest.raises(kind) as caught:
            kernel(X, X, backend="emulator")
        names = frames_of(caught.value)
        assert names[0] == "__call__"
        assert names[-1] == last
        assert len(names) <= 3
        with pytest.raises(kind) as caught:
            cute.compile(kernel, X, X, backend="emulator")
        assert len(frames_of(caught.value)) <= 3


def test_the_emulator_names_the_python_line():
    @cute.kernel
    def program(X, Y):
        at = X[0, 0].to(cute.i32)
        cute.copy(cute.load(cute.local_tile(X, (16, 16), (at, 0))), whole(Y))

    from cutedialect.backend import emulator

    y = np.zeros_like(X)
    kernel = cute.compile(program, X, y, backend="emulator")
    # A pointer past the end: the fault is at the first line that reads.
    short = X[:1, :4].copy()
    with pytest.raises(emulator.EmulatorError) as caught:
        emulator.launch(kernel.ptx, "program", 1, *_flat(kernel, short, y))
    assert caught.value.python is not None
    assert caught.value.python.startswith(__file__)


def _flat(kernel, x, y):
    """Threads and arguments of the launch, X as large as it was although its memory is not."""
    plan = kernel.program.plan.run([(0, (16, 16), (16, 1)), (1, (16, 16), (16, 1))], 1)
    (launch,) = plan
    types = kernel.program.plan.types["program"]
    pointers = iter((x, y))
    return launch.block, [
        next(pointers) if type_ == "ptr" else np.int64(value) if type_ == "i64" else np.int32(value)
        for type_, value in zip(types, launch.arguments, strict=True)
    ]


def test_tracebacks_of_the_library_are_short():
    """Whatever is wrong with a call: the caller, the entry, and the user's own function."""
    a = np.ones((16, 16), np.float16)
    q = np.ones((1, 1, 16, 16), np.float16)
    run = {"backend": "emulator", "arch": "sm_80"}
    compiled = cute.compile(whole_copy, X, X, arch="sm_80")

    def bad(tile):
        return tile.no_such_name()

    calls = {
        "sched": (cute.ScheduleError, lambda: cute.gemm(a, a, schedule="tlie = (16,16,16)", **run)),
        "tile": (CompileError, lambda: cute.gemm(a, a, schedule="tile = (16,15,16)", **run)),
        "function": (AttributeError, lambda: cute.gemm(a, a, activation=bad, **run)),
        "ufunc": (TypeError, lambda: cute.gemm(a, a, activation=np.tanh, **run)),
        "alpha": (TypeError, lambda: cute.gemm(a, a, alpha="2", **run)),
        "keys": (ValueError, lambda: cute.attention(q, q, q[:, :, :8], **run)),
        "causal": (TypeError, lambda: cute.attention(q, q, q, causal="yes", **run)),
        "launch": (TypeError, lambda: compiled.launch(X, a)),
        "configs": (cute.ScheduleError, lambda: cute.autotune(cute.gemm, a, a, configs=["x = 3"])),
    }
    for name, (kind, call) in calls.items():
        with pytest.raises(kind) as caught:
            call()
        names = frames_of(caught.value)
        assert len(names) <= 4, (name, names)
        text = "".join(traceback.format_exception(caught.value))
        assert "During handling" not in text, name
        assert "direct cause" not in text, name
    with pytest.raises(TypeError, match=r"expected a Python function.*write a function around it"):
        calls["ufunc"][1]()


@cute.kernel
def whole_copy(X, Y):
    cute.copy(cute.load(whole(X)), whole(Y))
