"""Chains of more than two multiplies, and what follows the last one, overlap with the next trip."""

import io
import re

import numpy as np
import pytest

import cutedialect as cute
from benchmarks.chains import three
from cutedialect.tools.cute_opt import CuteOpt


@cute.kernel
def decayed(Q, K, V, G, Y, *, tile=(64, 64)):
    """A running state that decays behind each block, by a factor of its own for every row."""
    bq, bk = tile
    i, _ = cute.tile_index(Y, (bq, None))
    q = cute.local_tile(Q, (bq, 64), (i, 0))
    k, v = (cute.local_tile(X, (bk, 64), (None, 0)) for X in (K, V))
    g = cute.load(cute.local_tile(G, (bq,), (i,)))[:, None]
    o = cute.zeros((bq, 64), cute.f32)
    for j in cute.range(k.tiles):
        s = cute.zeros((bq, bk), cute.f32)
        cute.gemm(q, k[j].T, s)
        largest = cute.row_max(s)
        cute.gemm(cute.exp(s * 0.1).to(V.dtype), v[j], o)
        o.assign(o * cute.where(largest > 0.0, g, 1.0))
    cute.copy(o, cute.local_tile(Y, (bq, 64), (i, 0)))


def operands(trips, count):
    rng = np.random.default_rng(trips)
    shapes = [(100, 64)] + [(64 * trips, 64)] * count
    return [(rng.standard_normal(shape) * 0.5).astype(np.float16) for shape in shapes]


def order(kernel):
    """What the computing role does, in order."""
    text = kernel.stages["cute-synchronize"].split('role "main"')[1]
    return re.findall(r"wgmma_wait \{pending = \d|cute\.gemm|math\.exp2|scf\.for", text)


@pytest.mark.some(4)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_three_multiplies(arch, trips):
    q, k, v, w = operands(trips, 3)
    o = np.full((100, 64), np.nan, np.float32)
    three(q, k, v, w, o, arch=arch, backend="emulator")
    expected = np.zeros((100, 64))
    for j in range(trips):
        part = slice(64 * j, 64 * j + 64)
        p = np.exp(q.astype(np.float64) @ k[part].T * 0.1)
        expected += np.maximum(p @ v[part], 0) * 0.01 @ w[part].astype(np.float64)
    assert np.abs(o - expected).max() <= 2e-3 * max(1, np.abs(expected).max())


@pytest.mark.some(4)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_a_decay_behind_the_last_multiply(arch, trips):
    q, k, v = operands(trips, 2)
    g = np.random.default_rng(9).uniform(0.5, 1, 100).astype(np.float32)
    o = np.full((100, 64), np.nan, np.float32)
    decayed(q, k, v, g, o, arch=arch, backend="emulator")
    expected = np.zeros((100, 64))
    for j in range(trips):
        part = slice(64 * j, 64 * j + 64)
        s = q.astype(np.float64) @ k[part].T
        expected += np.exp(s * 0.1) @ v[part]
        expected *= np.where(s.max(1) > 0, g, 1)[:, None]
    assert np.abs(o - expected).max() <= 2e-3 * max(1, np.abs(expected).max())


def test_the_last_multiply_works_beside_the_next_trip():
    specs = [cute.TensorSpec((None, 64), cute.f16)] * 4
    out, rows = cute.TensorSpec((None, 64), cute.f32), cute.TensorSpec((None,), cute.f32)
    for kernel, args in ((three, (*specs, out)), (decayed, (*specs[:3], rows, out))):
        found = cute.compile(kernel, *args, arch="sm_90a")
        assert not [each for each in found.remarks if "overlapped" in each.message]
        trip = order(found)[-12:]
        issued = trip.index("wgmma_wait {pending = 1")
        assert trip[issued - 2 : issued] == ["cute.gemm"] * 2
        assert found.resources.spills == 0


@cute.kernel
def gated(Q, K, G, W, Y, *, tile=(64, 64)):
    """What follows the last multiply asks for the trip, gates come from memory, W stays on chip."""
    bq, bk = tile
    i, _ = cute.tile_index(Y, (bq, None))
    q = cute.local_tile(Q, (bq, 64), (i, 0))
    k = cute.local_tile(K, (bk, 64), (None, 0))
    w = cute.load(cute.local_tile(W, (bk, 64), (0, 0)))
    o = cute.zeros((bq, 64), cute.f32)
    for j in cute.range(k.tiles):
        s = cute.zeros((bq, bk), cute.f32)
        cute.gemm(q, k[j].T, s)
        gate = cute.load(cute.local_tile(G, (1, bk), (0, j)))
        cute.gemm((s * gate).to(Q.dtype), w, o)
        o.assign(o * (1.0 + j.to(cute.f32)))
    cute.copy(o, cute.local_tile(Y, (bq, 64), (i, 0)))


def gated_specs():
    rows = cute.TensorSpec((None, 64), cute.f16)
    out, gates = cute.TensorSpec((None, 64), cute.f32), cute.TensorSpec((1, None), cute.f32)
    return rows, rows, gates, cute.TensorSpec((64, 64), cute.f16), out


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_a_chain_with_loads_a_constant_operand_and_the_number_of_the_trip(trips):
    rng = np.random.default_rng(trips)
    q, k, w = (rng.integers(-2, 3, (n, 64)).astype(np.float16) for n in (100, 64 * trips, 64))
    g = rng.integers(0, 2, (1, 64 * trips)).astype(np.float32)
    o = np.full((100, 64), np.nan, np.float32)
    gated(q, k, g, w, o, arch="sm_90a", backend="emulator")
    expected = np.zeros((100, 64))
    for j in range(trips):
        part = slice(64 * j, 64 * j + 64)
        p = (q.astype(np.float64) @ k[part].T * g[:, part]).astype(np.float16)
        expected = (expected + p.astype(np.float64) @ w) * (1 + j)
    np.testing.assert_allclose(o, expected, rtol=1e-6)


def test_such_a_chain_overlaps():
    found = cute.compile(gated, *gated_specs(), arch="sm_90a")
    assert not [each.message for each in found.remarks if "overlapped" in each.message]
    trip = order(found)
    issued = trip.index("wgmma_wait {pending = 1")
    assert trip[issued - 2 : issued] == ["cute.gemm"] * 2


def scheduled(kernel, args, change=lambda text: text):
    """What the rest of the passes make of the scheduled loops, changed as a user would."""
    text = cute.compile(kernel, *args, arch="sm_90a").stages["cute-schedule-loops"]
    out, err = io.StringIO(), io.StringIO()
    rest = "cute-synchronize,cute-split-loops,convert-to-ptx{arch=sm_90a}"
    code = CuteOpt(["-p", rest], io.StringIO(change(text)), out, err).run()
    return code, out.getvalue(), err.getvalue()


def test_stage_and_order_are_attributes_that_a_user_may_write():
    same = scheduled(gated, gated_specs())
    assert same[0] == 0
    # In the order of the program, nothing works beside anything.
    plain = scheduled(gated, gated_specs(), lambda text: re.sub(r"stage = 1 ", "stage = 0 ", text))
    assert plain[0] == 1
    assert "expected a stage and an order behind those of" in plain[2]
    ordered = scheduled(
        gated,
        gated_specs(),
        lambda text: re.sub(r"(stage|position) = \d", r"\1 = 0", text),
    )
    assert ordered[0] == 0
    assert ordered[1].count("wgmma.wait") < same[1].count("wgmma.wait")


def test_an_order_that_breaks_a_dependence_is_refused():
    code, _, err = scheduled(
        gated, gated_specs(), lambda text: text.replace("position = 5 : i32", "position = 9 : i32")
    )
    assert code == 1
    assert "on which cute.map depends" in err or "behind those of" in err
    code, _, err = scheduled(
        gated, gated_specs(), lambda text: text.replace("stage = 1 : i32", "stage = 3 : i32")
    )
    assert code == 1
    assert "expected stage = 0, 1 or 2, got 3" in err
    code, _, err = scheduled(
        gated, gated_specs(), lambda text: text.replace("stage = 1 : i32", "stage = 2 : i32")
    )
    assert code == 1
    assert "expected an op of stage = 2 that takes no register tile of its trip" in err
