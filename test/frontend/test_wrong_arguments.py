"""Arguments that fit one by one, and not with each other: operands of a multiply whose depths
differ, and one array given as two outputs.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

ARCHES = ["sm_80", "sm_90a"]


@cute.kernel
def product(A, B, C):
    a, b = cute.local_tile(A, (64, 32), (0, None)), cute.local_tile(B, (32, 64), (None, 0))
    acc = cute.zeros((64, 64))
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))


@cute.kernel
def transposed(A, B, C):
    """B is (N, K), and its tiles are loaded and converted before they are multiplied."""
    acc = cute.zeros((64, 64))
    for k in cute.range(cute.local_tile(A, (64, 32), (0, None)).tiles):
        a = cute.local_tile(A, (64, 32), (0, k * 1))
        b = cute.local_tile(B, (64, 32), (0, k * 1))
        cute.gemm(cute.load(a).to(cute.f16), b.T, acc)
    cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))


@cute.kernel
def batch(A, B, C):
    acc = cute.zeros((64, 64))
    a, b = cute.local_tile(A, (64, 64), (1, 0, 0)), cute.local_tile(B, (64, 64), (1, 0, 0))
    cute.gemm(a, b, acc)
    cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))


CASES = {
    "a loop": (product, (64, 96), (96, 64), (95, 64), "dimension 0"),
    "transposed": (transposed, (64, 96), (64, 96), (64, 104), "dimension 1"),
    "one tile": (batch, (2, 64, 40), (2, 40, 64), (2, 48, 64), "dimension 1"),
}


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", CASES)
def test_depths_that_differ(name, arch):
    kernel, a_shape, b_shape, wrong, where = CASES[name]
    rng = np.random.default_rng(0)
    a, b, other = (
        rng.integers(-2, 3, shape).astype(np.float16) for shape in (a_shape, b_shape, wrong)
    )
    c = np.full((64, 64), 7, np.float32)
    message = rf"B: expected extent {a.shape[-1]} in {where}, .* with dimension \d of A, got shape"
    with pytest.raises(ValueError, match=message):
        kernel(a, other, c, backend="emulator", arch=arch)
    assert (c == 7).all()
    kernel(a, b, c, backend="emulator", arch=arch)
    with pytest.raises(ValueError, match=message):
        kernel(a, other, c, backend="emulator", arch=arch)


def test_a_kernel_from_the_disk_cache_checks_too(monkeypatch, tmp_path):
    from cutedialect.backend.runtime.program import CompiledProgram

    a, c = np.zeros((64, 96), np.float16), np.zeros((64, 64), np.float32)
    program = cute.compile(product, a, a.T.copy(), c, backend="emulator").program
    assert program.equal_extents == ((0, 1, 1, 0, None),)
    assert CompiledProgram.from_json(program.to_json()).equal_extents == program.equal_extents


def test_a_host_program():
    @cute.host
    def program(B, A, C):
        cute.launch(product, A, B, C)

    a, c = np.ones((64, 96), np.float16), np.zeros((64, 64), np.float32)
    with pytest.raises(ValueError, match=r"B: expected extent 96 in dimension 0"):
        program(np.ones((95, 64), np.float16), a, c, backend="emulator")
    program(np.ones((96, 64), np.float16), a, c, backend="emulator")
    assert (c == 96).all()


def test_places_of_their_own_and_slices_are_free():
    """Blocks of a longer array at other places, and a part of it."""

    @cute.kernel
    def program(A, B, C):
        a, b = cute.local_tile(A, (64, 32), (0, None)), cute.local_tile(B, (32, 64), (None, 0))
        head = B.slice(0, 0, A.shape[1])
        sliced = cute.local_tile(head, (32, 64), (None, 0))
        acc = cute.zeros((64, 64))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k + 1], acc)
            cute.gemm(a[k], sliced[k], acc)
        cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))

    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (64, 96)).astype(np.float16)
    b = rng.integers(-2, 3, (128, 64)).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    program(a, b, c, backend="emulator")
    assert np.array_equal(c, a.astype(np.float32) @ (b[32:] + b[:96]).astype(np.float32))


@cute.kernel
def two(X, Y, Z):
    at = (0, 0)
    x = cute.load(cute.local_tile(X, (16, 16), at))
    cute.copy(x + 1, cute.local_tile(Y, (16, 16), at))
    cute.copy(x * 2, cute.local_tile(Z, (16, 16), at))


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_one_array_as_two_outputs(backend):
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    y = np.zeros((16, 32), np.float32)
    for first, second in (
        (y[:, :16], y[:, :16]),
        (y[:, :16], y[:, 8:24]),
        (y[:8, :16], y[4:, :16]),
    ):
        with pytest.raises(ValueError, match=r"[YZ]: expected memory of its own, .* overlaps [YZ]"):
            two(x, first, second, backend=backend)
    assert not y.any()
    two(x, y[:, :16], y[:, 16:], backend=backend)
    assert np.array_equal(y, np.concatenate([x + 1, x * 2], axis=1))
    kernel = cute.compile(two, x, x, x, backend=backend)
    with pytest.raises(ValueError, match="overlaps"):
        kernel.launch(x, y[:, :16], y[:, :16])


def test_an_output_may_be_an_input():
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    want, z = x + 1, np.zeros_like(x)
    two(x, x, z, backend="emulator")
    assert np.array_equal(x, want)
