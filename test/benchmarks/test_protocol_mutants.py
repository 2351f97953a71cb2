"""The edits with which `benchmarks.protocol_mutants` holds the check of synchronized programs to
account, on a ring that TMA fills and a warpgroup multiplies.
"""

from pathlib import Path

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser

import cutedialect as cute
from benchmarks.program_outcome import Outcome
from benchmarks.protocol_mutants import edits_of
from benchmarks.protocol_verdict import checked, verdict
from cutedialect.dialects import all_dialects
from cutedialect.dialects.pipeline import RoleOp
from cutedialect.dialects.walks import walk
from cutedialect.passes.cute_to_ptx import pipeline

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


def test_a_cluster_has_two_work_items_where_it_takes_several_tiles_at_once():
    """A stage that is released while it is read is filled by the next item."""
    a = np.zeros((256, 256), np.float16)
    schedule = "roles = specialized, cluster = (2,2), stages = 3, scheduler = persistent"
    kernel = cute.compile(cute.gemm, a, a, arch="sm_90a", schedule=schedule, backend="emulator")
    module = kernel.traced()
    for step in pipeline("sm_90a", schedule):
        if step.name == "cute-check-protocol":
            break
        step.apply(Context(), module)
    assert verdict(module) == ("proved", "")
    edits = [edit for edit in edits_of(module) if edit.kind == "wgmma_wait later"]
    assert len(edits) == 2
    for edit in edits:
        mutant = module.clone()
        edit.apply(next(op for number, op in enumerate(walk(mutant)) if number == edit.number))
        assert verdict(mutant)[0] == "found"


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
