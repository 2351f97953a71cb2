"""Roles of which one goes on with what another computes (`roles = pipelined`), in a program of two
multiplies of operands from memory, whose operands both of them read.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

DEPTH, TILE, STAGES = 64, 64, 2


@cute.kernel
def chain(X, Y, A, B, out_p, out_u):
    """out_p = P B and out_u = U A, added up over tiles of rows of A and B, where P = 2 X A^T and
    U = P + Y B^T.
    """
    m, _ = cute.tile_index(out_p, (TILE, DEPTH))
    x = cute.local_tile(X, (TILE, DEPTH), (m, 0))
    y = cute.local_tile(Y, (TILE, DEPTH), (m, 0))
    p_sum, u_sum = cute.zeros((TILE, DEPTH)), cute.zeros((TILE, DEPTH))
    a, b = (cute.local_tile(each, (TILE, DEPTH), (None, 0)) for each in (A, B))
    for i in cute.range(a.tiles):
        p, u = cute.zeros((TILE, TILE)), cute.zeros((TILE, TILE))
        cute.gemm(x, a[i].T, p)
        cute.gemm(y, b[i].T, u)
        p.assign(p * 2.0)
        u.assign(u + p)
        cute.gemm(p.to(cute.f16), b[i], p_sum)
        cute.gemm(u.to(cute.f16), a[i], u_sum)
    cute.copy(p_sum, cute.local_tile(out_p, (TILE, DEPTH), (m, 0)))
    cute.copy(u_sum, cute.local_tile(out_u, (TILE, DEPTH), (m, 0)))


def check(rows, keys, schedule=f"warps = (4,1), stages = {STAGES}, roles = pipelined"):
    rng = np.random.default_rng(rows + keys)
    shapes = (rows, DEPTH), (rows, DEPTH), (keys, DEPTH), (keys, DEPTH)
    x, y, a, b = (rng.integers(-1, 2, shape).astype(np.float16) for shape in shapes)
    out_p, out_u = (np.full((rows, DEPTH), np.nan, np.float32) for _ in range(2))
    chain(x, y, a, b, out_p, out_u, arch="sm_90a", backend="emulator", schedule=schedule)
    x, y, a, b = (each.astype(np.float64) for each in (x, y, a, b))
    p = 2 * x @ a.T
    assert np.array_equal(out_p, p @ b)
    assert np.array_equal(out_u, (p + y @ b.T) @ a)


def compiled(schedule):
    operand = cute.TensorSpec((None, DEPTH), "f16")
    out = cute.TensorSpec((None, DEPTH), "f32")
    return cute.compile(chain, *[operand] * 4, out, out, arch="sm_90a", schedule=schedule)


@pytest.mark.some(2)
@pytest.mark.parametrize("keys", [0, 64, 128, 192, 320, 100])
def test_trip_counts(keys):
    """0, 1, S, S+1, 2S+1 trips, and keys that fill no tile."""
    check(100, keys)


@pytest.mark.some(1)
@pytest.mark.parametrize("seed", range(3))
def test_copies_that_are_late(seed, monkeypatch):
    monkeypatch.setattr(emulator, "launch", partial(emulator.launch, seed=seed))
    check(64, 320)


def test_each_role_has_what_follows_from_a_multiply():
    """Both read what is loaded in the loop: a stage is free when both warpgroups have read it."""
    kernel = compiled("warps = (4,1), stages = 2, roles = pipelined")
    assert not [remark for remark in kernel.remarks if "protocol" in remark.text]
    roles = kernel.stages["cute-expand-roles"]
    parts = roles.split("pipeline.role ")[1:]
    computing = {part.split()[0]: part for part in parts if "cute.gemm" in part}
    assert {name: part.count("cute.gemm ") for name, part in computing.items()} == {
        '"main"': 2,
        '"main_1"': 2,
    }
    assert roles.count("consumers = 8") >= 2


def test_a_lone_multiply_has_one_role():
    a, b = np.eye(64, dtype=np.float16), np.arange(64 * 64).reshape(64, 64).astype(np.float16) % 7
    got = cute.gemm(a, b, arch="sm_90a", backend="emulator", schedule="roles = pipelined")
    assert np.array_equal(got, b)


def test_multiplies_of_one_role_keep_to_their_trip():
    """What one role computes the other one's multiplies work beside."""
    kernel = compiled("warps = (4,1), stages = 2, roles = pipelined, overlap = yes")
    parts = kernel.stages["cute-expand-roles"].split("pipeline.role ")[1:]
    (main,) = (part for part in parts if part.startswith('"main" '))
    before, loop = main.split("scf.for", 1)
    assert "cute.gemm" not in before
    assert loop.count("cute.gemm ") == 2
