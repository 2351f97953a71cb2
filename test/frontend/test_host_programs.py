"""Host programs: kernels in a row that hand on what they computed in workspaces."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def halves(X, Y):
    part, i = cute.tile_index(Y, (1, 64))
    rows = X.extent // 2
    cute.copy(
        cute.local_tile(X.slice(0, part * rows, (part + 1) * rows), (64, 32), (i, 0)).load() * 2.0,
        cute.local_tile(Y, (64, 32), (part, i, 0)),
    )


@cute.kernel
def total(Y, Z):
    i = cute.tile_index(Z, (64,))
    acc = cute.zeros((64, 32))
    for part in cute.range(Y.dim(0)):
        acc += cute.local_tile(Y, (64, 32), (part, i, 0)).load()
    cute.copy(acc, cute.local_tile(Z, (64, 32), (i, 0)))


@cute.host
def folded(X, Z, parts):
    between = cute.workspace((parts, Z.extent, 32), cute.f32)
    cute.launch(halves, X, between)
    cute.launch(total, between, Z)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_what_one_kernel_leaves_the_next_one_reads(arch):
    x = np.random.default_rng(0).standard_normal((200, 32)).astype(np.float32)
    z = np.full((100, 32), np.nan, np.float32)
    folded(x, z, 2, arch=arch, backend="emulator")
    np.testing.assert_allclose(z, 2 * x[:100] + 2 * x[100:], rtol=1e-6)
    kernel = cute.compile(folded, x, z, 2, arch=arch)
    assert kernel.resources.spills == 0
    written = [p.name for p in kernel.signature.parameters if getattr(p, "written", False)]
    assert written == ["Z"]
    assert "cute.launch @halves grid()" in kernel.stages["trace"]


@cute.host
def twice(X, Y, Z):
    cute.launch(halves, X, Y)
    cute.launch(halves, X, Z, schedule="raster = 1")


def test_a_kernel_that_is_launched_twice_has_two_names():
    x = np.ones((128, 32), np.float32)
    y, z = np.zeros((2, 64, 32), np.float32), np.zeros((2, 64, 32), np.float32)
    twice(x, y, z, backend="emulator")
    assert (y == 2).all()
    assert (z == 2).all()
    assert ".entry halves_2(" in cute.compile(twice, x, y, z).ptx


def launches_nothing(X):
    del X


def launches_a_function(X):
    cute.launch(launches_nothing, X)


def launches_with_too_few(X):
    cute.launch(halves, X)


def launches_on_a_number(X):
    cute.launch(halves, X, 3)


def launches_on_a_slice(X):
    cute.launch(total, X.slice(0, 1, 2), X)


def wants_no_memory(X):
    cute.workspace((), cute.f32)
    cute.launch(total, X, X)


HOSTS = {
    launches_nothing: "expected launches_nothing to launch a kernel (cute.launch), got none",
    launches_a_function: "expected a @cute.kernel function to launch, got function",
    launches_with_too_few: "expected 2 arguments for halves (X, Y), got 1",
    launches_on_a_number: "expected tensors and scalars to launch on, got int",
    launches_on_a_slice: "expected whole tensors to launch on, got a slice of X; slice it in the",
    wants_no_memory: "expected a workspace of one mode or more, got none",
}


@pytest.mark.parametrize("function", HOSTS)
def test_wrong_host_programs(function):
    with pytest.raises(cute.CompileError) as caught:
        cute.host(function)(np.ones((4, 4), np.float32), backend="emulator")
    assert HOSTS[function] in str(caught.value)
    assert "test_host_programs.py" in str(caught.value.location)


def asks_for_memory(X):
    cute.workspace((4,), X.dtype)


def launches_another(X):
    cute.launch(total, X, X)


@pytest.mark.parametrize("function", [asks_for_memory, launches_another])
def test_kernels_neither_launch_nor_ask_for_memory(function):
    with pytest.raises(cute.CompileError, match=r"inside a @cute\.host function"):
        cute.kernel(function)(np.ones((4, 4), np.float32), backend="emulator")
