"""What `cute.gemm`, `cute.TensorSpec` and `@cute.kernel` say to bad arguments: the name of the
argument, what was expected, what came; no output is touched.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

A, B = np.ones((64, 32), np.float16), np.ones((32, 48), np.float16)
READ_ONLY = np.zeros((64, 48), np.float16)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"a": A[0]}, ValueError, r"a: expected 2 or more dimensions, got shape \(32,\)"),
        ({"a": [[1.0]]}, TypeError, "a: expected an array, got list"),
        ({"a": A.astype(complex)}, TypeError, "expected a to be one of f16, .* got complex128"),
        ({"b": B[:31]}, ValueError, r"b: expected 32 rows \(a is \(64, 32\)\), got 31"),
        ({"b": B.astype(np.float32)}, TypeError, "b: expected f16 as in a, got f32"),
        ({"a": np.ones((3, 64, 32), np.float16), "b": np.ones((2, 32, 48), np.float16)},
         ValueError, "b: expected batch dimensions that broadcast"),
        ({"bias": np.ones(47)}, ValueError, r"bias: expected shape \(48,\), got \(47,\)"),
        ({"c": np.ones((3, 3)), "beta": 1.0}, ValueError, r"c: expected shape \(64, 48\)"),
        ({"beta": 1.0}, ValueError, "c: expected an array with beta = 1.0, got None"),
        ({"c": np.ones(48), "beta": 1.0}, ValueError, r"c: expected shape \(64, 48\), got \(48,"),
        ({"acc": READ_ONLY}, TypeError, r"acc: expected None outside of a kernel, .* c=\.\.\., "),
        ({"transpose_b": True}, TypeError, r"transpose_b: expected the transposed view \(\.T"),
        ({"activations": "relu"}, TypeError, "got an unexpected keyword argument 'activations'"),
        ({"activation": np.tanh}, TypeError, "write a function around it, of tiles and cute's own"),
        ({"a": A.astype(float), "b": B.astype(float), "out": None, "activation": "gelu"}, TypeError,
         r"activation: expected 'relu' .* sums of f64 .* got 'gelu'; take lambda x: cute\.gelu\(x"),
        ({"activation": "gleu"}, ValueError, "activation: expected 'relu', .* got 'gleu'"),
        ({"acc_dtype": "f64"}, TypeError, "acc_dtype: expected f32 or f16 for f16, got f64"),
        ({"out_dtype": "f32"}, TypeError, "out: expected f32, got f16"),
        ({"out": READ_ONLY}, ValueError, "out: expected a writable array, got a read-only one"),
        ({"out": np.zeros((64, 47), np.float16)}, ValueError, r"out: expected shape \(64, 48\)"),
        ({"arch": "sm_81"}, ValueError, "arch: expected one of .* did you mean sm_89"),
        ({"backend": "gpu"}, ValueError, "backend: expected 'auto', .*, 'cuda', 'cupy' or"),
        ({"stream": "x"}, ValueError, "stream: expected None with the emulator"),
        ({"schedule": "tile = (64,64)"}, ValueError, "schedule: expected a tile"),
        ({"schedule": "tiel = (64,64,32)"}, ValueError, "got 'tiel'; did you mean 'tile'"),
        ({"schedule": "tile = (64,60,32)"}, CompileError, r"expected a tile \(64, 60, 32\) that"),
        ({"schedule": "tile = (256,256,256), stages = 12"}, CompileError, "expected"),
        ({"schedule": "atom = mma_m16n8k16_f32_f61"}, CompileError, "did you mean mma_m16n8k1"),
        ({"schedule": "warps = (16,8)"}, CompileError, "expected"),
        ({"schedule": "cluster = (2,1)"}, CompileError, "at most 1 CTAs on sm_80, got"),
        ({"schedule": "cluster = (16,2)", "arch": "sm_90a"}, CompileError, "at most 16 CTAs"),
        ({"schedule": "epilogue = tma"}, CompileError, "with epilogue = tma, got uniform on sm_80"),
        ({"schedule": "epilogue = tma, roles = uniform", "arch": "sm_90a"}, CompileError,
         "with epilogue = tma, got uniform on sm_90a; take epilogue = smem"),
        ({"schedule": "roles = specialized"}, CompileError,
         "uniform on sm_80, got 'specialized': .*; take roles = uniform"),
    ],
)  # fmt: skip
def test_gemm(change, kind, message):
    out = np.full((64, 48), 7, np.float16)
    given = {"a": A, "b": B, "out": out, "arch": "sm_80", "backend": "emulator"} | change
    with pytest.raises(kind, match=message):
        cute.gemm(given.pop("a"), given.pop("b"), **given)
    assert (out == 7).all()


NO_NUMBERS = ("2", None, 1j, True, np.array([2.0, 3.0]), [2.0], "nan")


@pytest.mark.some(7)
@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_what_is_no_number(name, value):
    """Also in a call that looks like an earlier one."""
    calls: Any = ((cute.gemm, (A, B)), (cute.grouped_gemm, ([A], [B])))
    for call, operands in calls:
        addend = np.ones((64, 48), np.float16)
        given = {"c": addend if call is cute.gemm else [addend], "alpha": 2.0, "beta": 3.0}
        given |= {"arch": "sm_80", "backend": "emulator"}
        call(*operands, **given)
        with pytest.raises(TypeError, match=f"^{name}: expected a number, got "):
            call(*operands, **(given | {name: value}))


@pytest.mark.parametrize("value", [2, np.float32(2), np.float64(2), np.int8(2), np.array(2.0)])
def test_what_is_a_number(value):
    want = cute.gemm(A, B, alpha=2.0, arch="sm_80", backend="emulator")
    made = cute.gemm(A, B, alpha=value, arch="sm_80", backend="emulator")
    assert (made == want).all()


def test_a_function_that_is_not_one_of_tiles_gets_a_note():
    def wrong(tile):
        return abs(tile, 1)  # pyright: ignore[reportCallIssue]

    with pytest.raises(TypeError) as caught:
        cute.gemm(A, B, activation=wrong, arch="sm_80", backend="emulator")
    assert any("activation: expected a function of a tile" in each for each in notes(caught.value))


def notes(error):
    return getattr(error, "__notes__", ())


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (((3, -1), "f16"), ValueError, r"expected extents of zero or more, .* got \(3, -1\)"),
        (((3, 2.5), "f16"), ValueError, "expected extents of zero or more"),
        (((3, None), "f16", (-1, 1)), ValueError, "expected strides of zero or more"),
        (((3, None), "f16", (1,)), ValueError, "expected one stride for each of the 2 modes"),
        (((3, None), "f61"), TypeError, "got f61; did you mean f64"),
        (((3, None), "f16", None, 3), ValueError, "expected align to be 1, 2, 4, 8 or 16 bytes"),
    ],
)
def test_specs(arguments, kind, message):
    with pytest.raises(kind, match=message):
        cute.TensorSpec(*arguments)


def test_a_kernel_has_named_parameters():
    with pytest.raises(TypeError, match=r"expected named parameters of program, got \*tensors"):

        @cute.kernel
        def program(*tensors):
            pass


def test_a_call_with_too_few_arguments_or_an_unknown_option():
    @cute.kernel
    def program(X, Y, *, tile=(8, 8)):
        cute.copy(cute.local_tile(X, tile, (0, 0)), cute.local_tile(Y, tile, (0, 0)))

    with pytest.raises(TypeError, match=r"expected 2 arguments for program \(X, Y\), got 1"):
        program(A, backend="emulator")
    with pytest.raises(TypeError, match=r"keyword arguments of program \(tile\), got tiles"):
        program(A, A, tiles=(8, 8), backend="emulator")


def test_a_number_for_a_shape_and_a_tile_in_math():
    sixteen: Any = 16
    cases = (
        (lambda x: cute.zeros(sixteen), r"expected a shape such as \(16, 16\), got 16"),
        (lambda x: math.exp(x), "expected a Python number, got a tile; use cute.exp"),
    )
    for body, message in cases:

        @cute.kernel
        def program(X, Y, *, body):
            i, j = cute.tile_index(Y, (16, 16))
            body(cute.local_tile(X, (16, 16), (i, j)).load())

        x = np.zeros((16, 16), np.float32)
        with pytest.raises(cute.CompileError, match=message):
            program(x, x.copy(), body=body, backend="emulator")
