"""Calls of two forms, on arrays and inside a kernel on tiles: none of the arguments of one form is
taken in silence by the other.
"""

# Wrong calls are made on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import inspect

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.frontend.declarations import GEMM

OF_TILES = {"a", "b", "acc", "atom", "tiled", "negate", "sums", "unknown"}
VALUES = {
    "alpha": 2.0, "beta": 3.0, "precision": "ieee", "activation": "relu", "scale_a": 0.5,
    "scale_b": 0.5, "acc_dtype": "f32", "fast_accum": False, "out_dtype": "f16", "arch": "sm_80",
    "schedule": "stages = 77", "backend": "emulator", "stream": 0,
}  # fmt: skip
SHAPE = (16, 16)
IN_A_KERNEL = {row.name: (row.default, row.inside or "") for row in GEMM.of_arrays}


def tiles(*tensors):
    return [cute.local_tile(each, SHAPE, (0, 0)) for each in tensors]


def refused(multiply):
    """The message of a kernel that multiplies so, and the line that it names."""

    @cute.kernel
    def program(A, B, C):
        acc = cute.zeros(SHAPE)
        multiply(*tiles(A, B), acc, *tiles(C))
        cute.copy(acc, tiles(C)[0])

    spec = cute.TensorSpec(SHAPE, cute.f32)
    with pytest.raises(cute.CompileError) as caught:
        program.trace((spec, spec, spec))
    return caught.value


def test_every_argument_of_arrays_has_its_words():
    parameters = inspect.signature(cute.gemm).parameters
    assert set(IN_A_KERNEL) == set(parameters) - OF_TILES
    for name, (default, _) in IN_A_KERNEL.items():
        assert parameters[name].default == default


@pytest.mark.parametrize("name", IN_A_KERNEL)
def test_arguments_of_arrays_are_refused_for_tiles(name):
    frame = inspect.currentframe()
    assert frame is not None
    line = frame.f_lineno + 3

    def multiply(a, b, acc, view):
        cute.gemm(a, b, acc, **{name: VALUES.get(name, view)})

    error = refused(multiply)
    assert str(error).startswith(f"{__file__}:{line}: error[CD-P11]: {name}: expected ")
    assert IN_A_KERNEL[name][1] in str(error)


def test_what_an_argument_says_anyway_is_taken():
    @cute.kernel
    def program(A, B, C):
        acc = cute.zeros(SHAPE)
        cute.gemm(*tiles(A, B), acc, alpha=1.0, beta=0.0, precision="tf32", fast_accum=True)
        cute.copy(acc, tiles(C)[0])

    a = np.arange(256, dtype=np.float32).reshape(SHAPE) % 7
    c = np.zeros(SHAPE, np.float32)
    program(a, a, c, backend="interpreter")
    assert np.array_equal(c, a @ a)


def test_tf32_is_of_f32_alone():
    def multiply(a, b, acc, view):
        cute.gemm(a.to(cute.f16), b.to(cute.f16), acc, precision="tf32")

    assert "precision: expected None or 'tf32'" in str(refused(multiply))


def test_names_of_other_libraries_have_a_line():
    error = refused(lambda a, b, acc, view: cute.gemm(a, b, acc, transpose_a=True))
    assert error.code == "CD-P15"
    assert __file__ in str(error)
    assert "transpose_a: expected the transposed view" in str(error)


def test_the_result_of_a_multiply_is_acc():
    def multiply(a, b, acc, view):
        acc = cute.gemm(a, b, acc)

    assert "expected cute.gemm(a, b, acc) as a statement, got its result stored" in str(
        refused(multiply)
    )


def test_other_needs_a_mask():
    def multiply(a, b, acc, view):
        cute.load(a, other=-1.0)

    assert "expected a mask beside other" in str(refused(multiply))


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b, acc, view: cute.gemm(a, b),
        lambda a, b, acc, view: cute.grouped_gemm([a], [b]),
        lambda a, b, acc, view: cute.attention(a, b, view),
    ],
)
def test_calls_on_arrays_are_refused_for_tiles(call):
    error = refused(call)
    assert error.code == "CD-P11"
    assert "to be an array, got a View of the kernel that is traced" in str(error)
