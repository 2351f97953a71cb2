"""The edits with which `benchmarks.protocol_mutants` holds the check of synchronized programs to
account, on a ring that TMA fills and a warpgroup multiplies.
"""

from pathlib import Path

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.scf import ForOp, IfOp, WhileOp
from xdsl.parser import Parser

import cutedialect as cute
from benchmarks.program_outcome import Outcome
from benchmarks.protocol_mutants import edits_of
from benchmarks.protocol_verdict import checked, verdict
from cutedialect.dialects import all_dialects
from cutedialect.dialects.pipeline import AdvanceOp, ConsumerReleaseOp, RoleOp
from cutedialect.dialects.walks import walk
from cutedialect.passes.cute_to_ptx import pipeline
from cutedialect.passes.roles import alternate_instances

RING = Path(__file__).parents[1] / "passes" / "check_protocol" / "ring.mlir"
# What changes nothing: TMA commits by itself; a fence also works for whoever is behind the barrier;
# to wait earlier is to wait; an issuing warp's own wait is in front of its next store.
HARMLESS = {
    "without producer_commit",
    "producer_commit earlier",
    "fence_proxy_async later",
    "consumer_release later",
    "consumer_wait earlier",
}
# Behind the loop nobody fills the stage again.
HARMLESS_AT_THE_END = {
    "without consumer_release",
    "release of the stage at work",
    "wgmma_wait later",
}


def parsed():
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    return Parser(context, RING.read_text()).parse_module()


EDITS = list(edits_of(parsed()))


def test_edits_are_of_many_kinds():
    kinds = {edit.kind for edit in EDITS}
    assert len(kinds) > 25
    assert kinds > HARMLESS - {"consumer_wait earlier"}


@pytest.mark.parametrize("edit", EDITS, ids=[f"{edit.number} {edit.kind}" for edit in EDITS])
def test_the_check_finds_what_an_edit_breaks(edit):
    module = parsed()
    op = next(op for number, op in enumerate(walk(module)) if number == edit.number)
    is_at_the_end = isinstance(op.parent_op(), RoleOp)
    edit.apply(op)
    says, what = verdict(module)
    harmless = HARMLESS | HARMLESS_AT_THE_END if is_at_the_end else HARMLESS
    assert says == ("proved" if edit.kind in harmless else "found"), what


def synchronized(arch, schedule):
    """A product of half floats behind the last pass that orders."""
    a = np.zeros((256, 256), np.float16)
    kernel = cute.compile(cute.gemm, a, a, arch=arch, schedule=schedule, backend="emulator")
    return in_order(kernel, schedule)


def in_order(kernel, schedule):
    """A kernel behind the last pass that orders."""
    module = kernel.traced()
    for step in pipeline(kernel.arch, schedule):
        if step.name == "cute-check-protocol":
            break
        step.apply(Context(), module)
    return module


def verdicts(module, kind):
    """What the check says of each edit of a kind."""
    for number in [edit.number for edit in edits_of(module) if edit.kind == kind]:
        mutant = module.clone()
        edit = next(e for e in edits_of(mutant) if (e.number, e.kind) == (number, kind))
        edit.apply(next(op for at, op in enumerate(walk(mutant)) if at == number))
        yield verdict(mutant)


def test_a_cluster_has_two_work_items_where_it_takes_several_tiles_at_once():
    """A stage that is released while it is read is filled by the next item."""
    schedule = "roles = specialized, cluster = (2,2), stages = 3, scheduler = persistent"
    module = synchronized("sm_90a", schedule)
    assert verdict(module) == ("proved", "")
    assert [says for says, _ in verdicts(module, "wgmma_wait later")] == ["found", "found"]


def test_work_items_come_round_the_ring_of_canceled_launches():
    """It has three stages: that nobody releases one shows with the fourth launch."""
    module = synchronized("sm_100a", "roles = specialized, scheduler = cancel")
    assert verdict(module) == ("proved", "")
    for kind, count in (("without consumer_release", 5), ("fence_proxy_async earlier", 4)):
        said = list(verdicts(module, kind))
        assert [says for says, _ in said].count("found") >= count, said


def test_each_barrier_in_front_of_giving_tensor_memory_back_is_needed():
    """A pair of CTAs gives the columns of both back."""
    module = synchronized("sm_100a", "roles = specialized, cluster = (2,1)")
    assert verdict(module) == ("proved", "")
    said = list(verdicts(module, "without barrier"))
    assert [says for says, _ in said] == ["found"] * 3, said
    assert "both CTAs" in said[-1][1]
    # What is found with more work items than two, while these are looked for, is not lost.
    said = list(verdicts(module, "always the first stage"))
    assert {says for says, _ in said} == {"found"}, said


def test_what_conditions_do_in_one_trip_meets_the_multiplies_of_the_next():
    """A role that scales results does so in few trips: each wait of multiplies for it is needed."""
    module = attended("roles = split")
    assert verdict(module) == ("proved", "")
    said = list(verdicts(module, "without consumer_wait"))
    assert {says for says, _ in said} == {"found"}, said


def test_multiplies_into_unlike_accumulators_are_not_in_the_order_of_their_issue():
    """Scores come where weights were that a multiply reads: its commit is waited for. In each trip
    that is so for the weights of both tiles of rows, and for their values.
    """
    module = attended("roles = split")
    releases = [op for op in walk(module) if isinstance(op, ConsumerReleaseOp) and op.commits]
    said = verdicts(module, "release without a commit")
    inside = [
        says
        for (says, _), op in zip(said, releases, strict=True)
        if isinstance(loop := op.parent_op(), ForOp) and isinstance(loop.parent_op(), IfOp)
    ]
    assert inside.count("found") == 3, inside


def attended(schedule):
    """Attention behind the last pass that orders."""
    q = np.zeros((1, 2, 320, 64), np.float16)
    kernel = cute.compile(
        cute.attention, q, q, q, arch="sm_100a", schedule=schedule, backend="emulator"
    )
    return in_order(kernel, schedule)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_all_ctas_of_a_cluster_have_begun_before_one_loads_for_them(arch):
    module = synchronized(arch, "roles = specialized, cluster = (2,1)")
    ((says, what),) = verdicts(module, "start of one CTA")
    assert says == "found"
    assert "may not have begun" in what


@pytest.mark.unproved
def test_each_instance_has_two_work_items(monkeypatch):
    """One has to count the trips that the other one's items have, which depend on data."""

    @cute.kernel
    def program(A, B, N, Y):
        m, n = cute.tile_index(Y, (64, 64))
        acc, last = cute.zeros((64, 64)), N[m]
        for k in cute.range(A.shape[1] // 32):
            cute.break_if(k == last)
            a = cute.local_tile(A, (64, 32), (m, k))
            cute.gemm(a, cute.local_tile(B, (32, 64), (k, n)), acc)
        cute.copy(acc, cute.local_tile(Y, (64, 64), (m, n)))

    counts = alternate_instances._counts
    monkeypatch.setattr(
        alternate_instances, "_counts", lambda op: type(op) is not WhileOp and counts(op)
    )
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    half, single = (cute.TensorSpec((None, None), kind) for kind in ("f16", "f32"))
    specs = half, half, cute.TensorSpec((None,), "i32"), single
    with pytest.raises(cute.CompileError, match="CD-R8"):
        cute.compile(
            program, *specs, arch="sm_90a", backend="emulator", schedule="roles = alternate"
        )


def test_each_instance_has_two_work_items_of_many_trips():
    """An instance goes on by the trips of the other one's item, of which as many are left out."""

    @cute.kernel
    def program(A, B, Y):
        m, n = cute.tile_index(Y, (64, 64))
        acc = cute.zeros((64, 64))
        for k in cute.range(501):
            a = cute.local_tile(A, (64, 32), (m, k))
            cute.gemm(a, cute.local_tile(B, (32, 64), (k, n)), acc)
        cute.copy(acc, cute.local_tile(Y, (64, 64), (m, n)))

    specs = [cute.TensorSpec((None, None), kind) for kind in (cute.f16, cute.f16, cute.f32)]
    schedule = "roles = alternate, stages = 2"
    module = in_order(cute.compile(program, *specs, arch="sm_90a", schedule=schedule), schedule)
    assert verdict(module) == ("proved", "")
    skips = [op for op in walk(module) if isinstance(op, AdvanceOp) and op.count is not None]
    assert skips
    for op in skips:
        op.detach()
    assert verdict(module)[0] == "found"


def test_a_call_that_is_kept_ready_is_compiled_for_each_mutant(monkeypatch):
    """And what a mutant compiled is not what the next call runs."""
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    a = np.ones((16, 16), np.float16)

    def run() -> Outcome:
        try:
            right = (cute.gemm(a, a, arch="sm_80", backend="emulator") == 16).all()
        except cute.EmulatorError:
            right = False
        return Outcome("right" if right else "wrong")

    def unsynchronized(module):
        for op in [op for op in walk(module) if op.name == "cute_nvgpu.cp_async_wait"]:
            op.detach()

    assert run().kind == "right"
    assert checked(run).check == "proved"
    mutant = checked(run, unsynchronized)
    assert (mutant.check, mutant.kind) == ("found", "wrong")
    assert checked(run).check == "proved"
    assert run().kind == "right"
