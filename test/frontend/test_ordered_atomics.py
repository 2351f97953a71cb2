"""Atomics in an order with what else a work item does in memory: who finds what a release left, and
acquires, sees what was stored in front of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

ARCHES = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"]


@cute.kernel
def total(X: cute.Tensor, parts: cute.Tensor, count: cute.Tensor, out: cute.Tensor) -> None:
    """The work item that comes last adds up what all have stored."""
    tile = (8, 32)
    i, _ = cute.tile_index(X, tile)
    row = cute.sum(cute.local_tile(X, tile, (i, 0)).load(), mode=0, keepdims=True)
    cute.copy(row, cute.local_tile(parts, (1, 32), (i, 0)))
    one = cute.full((1, 1), 1, cute.i32)
    before = cute.atomic_add(one, cute.local_tile(count, (1, 1), (0, 0)), order="acq_rel")
    with cute.when(cute.any(before == X.shape[0] // 8 - 1)):
        found = cute.local_tile(parts, (4, 32), (0, 0)).load()
        cute.copy(cute.sum(found, mode=0, keepdims=True), cute.local_tile(out, (1, 32), (0, 0)))


def given() -> tuple[np.ndarray, ...]:
    x = np.random.default_rng(0).integers(-9, 9, (32, 32)).astype(np.float32)
    return x, np.zeros((4, 32), np.float32), np.zeros((1, 1), np.int32), np.zeros((1, 32), "f4")


@pytest.mark.parametrize("arch", ARCHES)
def test_the_last_one_sees_what_all_have_stored(arch: Any) -> None:
    for backend in ("emulator", "interpreter") if arch == "sm_90a" else ("emulator",):
        x, parts, count, out = given()
        total(x, parts, count, out, arch=arch, backend=backend)
        assert np.array_equal(out, x.sum(0, keepdims=True))


@pytest.mark.parametrize("arch", ARCHES)
def test_threads_meet_in_front_of_a_release_and_behind_an_acquire(arch: Any) -> None:
    ptx = cute.compile(total, *given(), arch=arch).ptx
    at = ptx.index("atom.acq_rel.gpu.global.add.u32")
    stored, loaded = ptx.index("st.global"), ptx.rindex("ld.global")
    assert stored < at < loaded
    assert "bar.sync" in ptx[stored:at]
    assert "bar.sync" in ptx[at:loaded]


SPELLED = {
    ("add", "release"): "red.release.gpu.global.add.s32",
    ("or", "release"): "red.release.gpu.global.or.b32",
    ("max", "acquire"): "atom.acquire.gpu.global.max.s32",
    ("xor", "acq_rel"): "atom.acq_rel.gpu.global.xor.b32",
    ("exchange", "release"): "atom.release.gpu.global.exch.b32",
}
COMBINED = {
    "add": np.add,
    "or": np.bitwise_or,
    "max": np.maximum,
    "xor": np.bitwise_xor,
    "exchange": lambda old, new: new,
}


@pytest.mark.parametrize(("kind", "order"), SPELLED)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_each_order(kind: str, order: str, arch: Any) -> None:
    @cute.kernel
    def program(X: cute.Tensor, Y: cute.Tensor) -> None:
        at = cute.tile_index(X, (8, 32))
        x, y = (cute.local_tile(v, (8, 32), at) for v in (X, Y))
        getattr(cute, f"atomic_{kind}")(x.load(), y, order=order)

    rng = np.random.default_rng(1)
    x, old = (rng.integers(0, 99, (13, 50)).astype(np.int32) for _ in range(2))
    y = old.copy()
    program(x, y, arch=arch, backend="emulator")
    assert np.array_equal(y, COMBINED[kind](old, x))
    assert SPELLED[kind, order] in cute.compile(program, x, y, arch=arch).ptx


def test_scopes_and_compare() -> None:
    @cute.kernel
    def program(X: cute.Tensor) -> None:
        view = cute.local_tile(X, (32,), (0,))
        new = cute.full((32,), 5, cute.i32)
        cute.atomic_compare_and_swap(view.load(), new, view, scope="sys", order="acq_rel")
        cute.atomic_add(new, view, scope="cta", order="release")

    x = np.arange(32, dtype=np.int32)
    program(x, arch="sm_90a", backend="emulator")
    assert (x == 10).all()
    ptx = cute.compile(program, x, arch="sm_90a").ptx
    assert "atom.acq_rel.sys.global.cas.b32" in ptx
    assert "red.release.cta.global.add.s32" in ptx


def test_relaxed_ones_wait_for_nobody() -> None:
    @cute.kernel
    def program(X: cute.Tensor, Y: cute.Tensor, Z: cute.Tensor, *, order: str) -> None:
        at = cute.tile_index(X, (8, 32))
        x, y, z = (cute.local_tile(v, (8, 32), at) for v in (X, Y, Z))
        cute.copy(x.load(), y)
        cute.atomic_add(x.load(), z, order=order)

    x = np.ones((64, 64), np.float32)
    plain, ordered = (
        cute.compile(program, x, x, x, order=order, arch="sm_90a").ptx
        for order in ("relaxed", "release")
    )
    assert "bar.sync" not in plain
    assert "bar.sync" in ordered


def test_what_is_refused() -> None:
    @cute.kernel
    def halves(X: cute.Tensor) -> None:
        view = cute.local_tile(X, (32,), (0,))
        cute.atomic_add(view.load(), view, order="acquire")

    @cute.kernel
    def elements(X: cute.Tensor, at: cute.Tensor) -> None:
        view = cute.local_tile(X, (32,), (0,))
        cute.atomic_add(cute.full((32,), 1, cute.i32), view, order="acquire")
        cute.copy(cute.full((32,), at[0], cute.i32), view)

    @cute.kernel
    def product(A: cute.Tensor, B: cute.Tensor, C: cute.Tensor, count: cute.Tensor) -> None:
        m, n = cute.tile_index(C, (64, 64))
        a, b = cute.local_tile(A, (64, 32), (m, None)), cute.local_tile(B, (32, 64), (None, n))
        acc = cute.zeros((64, 64))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc.to(C.dtype), cute.local_tile(C, (64, 64), (m, n)))
        one = cute.full((1, 1), 1, cute.i32)
        cute.atomic_add(one, cute.local_tile(count, (1, 1), (0, 0)), order="release")

    x = np.zeros(32, np.int32)
    with pytest.raises(
        CompileError, match="elements of 32 or 64 bits where an atomic has the order"
    ):
        halves(x.astype(np.float16), arch="sm_90a", backend="emulator")
    with pytest.raises(CompileError, match="no single elements to be read beside an atomic"):
        elements(x, x.copy(), arch="sm_80", backend="emulator")
    a = np.ones((64, 64), np.float16)
    c, count = np.zeros((64, 64), np.float32), np.zeros((1, 1), np.int32)
    for given, message in (
        (
            "roles = specialized",
            "expected relaxed atomics where warps have roles, .* take roles = uni",
        ),
        ("split_k = 2", "expected relaxed atomics where CTAs share a reduction"),
    ):
        with pytest.raises(CompileError, match=message):
            product(a, a, c, count, arch="sm_90a", backend="emulator", schedule=given)
    for arch in ARCHES:
        count[...] = 0
        product(a, a, c, count, arch=arch, backend="emulator")
        assert (c == 64).all()
        assert count[0, 0] == 1
