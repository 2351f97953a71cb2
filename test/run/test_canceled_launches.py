"""The scheduler `cancel`: CTAs of sm_100 and later that have begun cancel launches of those that
have not, and do their work. Every work item is done once, whatever begins when; each op that orders
a request and its response is needed.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator
from cutedialect.backend.emulator import EmulatorError
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.passes.synchronize.synchronize import SynchronizePass

BF16 = ml_dtypes.bfloat16


def integers(*shape):
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(np.float16)


def product(schedule, m=600, n=400, k=128, **options):
    a, b = integers(m, k), integers(k, n)
    schedule = f"tile = (128,64,64), scheduler = cancel{schedule}"
    out = cute.gemm(
        a, b, arch="sm_100a", schedule=schedule, out_dtype="f32", backend="emulator", **options
    )
    return out, a.astype(np.float64) @ b


@pytest.fixture
def begun(monkeypatch):
    """How many CTAs begin in each launch, and how many items there are."""
    original, found = emulator.launch, []

    def launch(ptx, name, grid, *rest, **options):
        report = original(ptx, name, grid, *rest, **options)
        counts = report.instructions.items()
        found.append((sum(n for op, n in counts if op.startswith("tcgen05.alloc")), grid[0]))
        return report

    monkeypatch.setattr(emulator, "launch", launch)
    return found


# Further fields of the schedule.
PLANS = {
    "alone": "",
    "a pair": ", cluster = (2,1)",
    "pairs that multicast": ", cluster = (4,2)",
    "a cluster without pairs": ", cluster = (1,2)",
    "parts of the depth": ", split_k = 2",
}


@pytest.mark.some(1)
@pytest.mark.parametrize("plan", PLANS)
def test_products(plan, begun):
    got, wanted = product(PLANS[plan])
    np.testing.assert_array_equal(got, wanted)
    assert all(0 < some < total for some, total in begun), begun


def test_fewer_items_than_processors():
    """None is left for whoever begins to take over."""
    got, wanted = product("", m=128, n=64)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.long
@pytest.mark.parametrize(
    "plan", ["", "roles = corrected, warps = (4,1), ", "order = sections, raster = 4, "]
)
def test_attention_with_the_longest_tiles_first(plan):
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((1, 2, n, 32)).astype(BF16) for n in (300, 200, 200))
    options = {"arch": "sm_100a", "backend": "emulator", "causal": True}
    out = cute.attention(q, k, v, schedule=f"{plan}scheduler = cancel", **options)
    plain = cute.attention(q, k, v, schedule=f"{plan}scheduler = single", **options)
    np.testing.assert_array_equal(out.astype(np.float32), plain.astype(np.float32))


KINDS = (
    "pipeline.producer_acquire",
    "pipeline.request",
    "pipeline.consumer_wait",
    "pipeline.consumer_release",
    "cute_nvgpu.fence_proxy_async",
)


def of_requests(op):
    """Whether an op orders the slots into which responses come."""
    if op.name not in KINDS:
        return False
    if op.name == "pipeline.request":
        return True
    if op.name == "cute_nvgpu.fence_proxy_async":
        return op.prev_op.name == "pipeline.response"
    return op.ring.owner.bytes is not None and op.ring.owner.bytes.value.data == 16


CLUSTERS = (", cluster = (2,1)", ", cluster = (1,2)")


def traced(more):
    """A product by a kernel that no call has compiled before, and what it should be."""

    @cute.kernel
    def kernel(A, B, Y):
        m, n = cute.tile_index(Y, (128, 64))
        a, b = cute.local_tile(A, (128, 64), (m, None)), cute.local_tile(B, (64, 64), (None, n))
        acc = cute.zeros((128, 64), cute.f32)
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc, cute.local_tile(Y, (128, 64), (m, n)))

    a, b = integers(1280, 128), integers(128, 128)
    y = np.zeros((1280, 128), np.float32)
    where = {"arch": "sm_100a", "backend": "emulator", "protocol": "warn"}
    kernel(a, b, y, schedule=f"scheduler = cancel{more}", **where)
    return y, a.astype(np.float64) @ b


def without(number, more, monkeypatch):
    """The names of the ops, and the error of a product without one of them."""
    original, seen = SynchronizePass.apply, []

    def apply(self, ctx, module):
        original(self, ctx, module)
        found = [op for op in module.walk() if of_requests(op)]
        seen.extend(op.name for op in found)
        if number is not None:
            found[number].detach()
            found[number].erase()

    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    with monkeypatch.context() as patch:
        patch.setattr(SynchronizePass, "apply", apply)
        try:
            got, wanted = traced(more)
        except EmulatorError as error:
            return seen, error
    assert np.array_equal(got, wanted) or number is not None
    return seen, None if np.array_equal(got, wanted) else "a wrong result"


@pytest.mark.parametrize(
    ("more", "share"),
    [("", 3), *(pytest.param(each, 1, marks=pytest.mark.long) for each in ("", *CLUSTERS))],
)
@pytest.mark.unproved
def test_each_op_around_a_request_is_needed(more, share, monkeypatch):
    """Of the ops, each third one, or all; in clusters, too, where the first CTA asks for all."""
    seen, error = without(None, more, monkeypatch)
    assert error is None
    assert seen.count("pipeline.request") == 1
    assert seen.count("pipeline.consumer_wait") == seen.count("cute_nvgpu.fence_proxy_async") == 3
    missed = [
        (number, name)
        for number, name in enumerate(seen)
        if number % share == 0 and without(number, more, monkeypatch)[1] is None
    ]
    assert not missed


@pytest.mark.parametrize(
    ("arch", "schedule", "message"),
    [
        ("sm_90a", "", "expected the scheduler cancel from sm_100 on"),
        ("sm_120a", ", roles = uniform", "expected roles of which one loads with the scheduler"),
    ],
)
def test_where_it_is_refused(arch, schedule, message):
    a = integers(128, 64)
    schedule = f"tile = (64,64,32), scheduler = cancel{schedule}"
    with pytest.raises(CompileError, match=message):
        cute.compile(cute.gemm, a, a.T, arch=arch, schedule=schedule)
