"""What threads exchange by shared memory stands in front of the ops that do it, step by step, and
each barrier of it is one without which the check finds a race.
"""

import pytest
from xdsl.context import Context
from xdsl.utils.exceptions import PassFailedException

import cutedialect as cute
from cutedialect.dialects.cute import BarrierOp, KernelOp, PutOp, ReduceOp, ScanOp, SortOp, TakeOp
from cutedialect.dialects.pipeline import StepsOp
from cutedialect.dialects.ptx import BarSyncOp
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.cute_to_ptx import pipeline
from cutedialect.passes.lower.convert_to_ptx import ConvertToPtxPass
from cutedialect.passes.protocol.check_protocol import verdict_of

STORE = ["cute.barrier", "pipeline.scratch_store"]
LOAD = ["cute.barrier", "pipeline.scratch_load"]
# Barriers of a sort of five rounds, of a sum, a scan, and places, of which one is stored to twice.
COUNT = 10 + 2 + 2 + 2 + 3


@cute.kernel
def program(X, Y):
    i, j = cute.tile_index(Y, (128, 8))
    x = cute.local_tile(X, (128, 8), (i, j)).load()
    ordered = cute.sort(x, mode=0)
    sums = cute.cumsum(ordered - cute.sum(x, 0), mode=0)
    some = cute.put_along(cute.take_along(sums, ordered, 0), ordered, sums, 0)
    cute.copy(some, cute.local_tile(Y, (128, 8), (i, j)))


def staged():
    """A program behind the last pass that orders."""
    spec = cute.TensorSpec((None, 8), cute.i32)
    module = cute.compile(program, spec, spec, arch="sm_80", schedule="warps = (2,1)").traced()
    for step in pipeline("sm_80")[:-2]:
        step.apply(Context(), module)
    return module, next(op for op in module.ops if isinstance(op, KernelOp))


@pytest.fixture(scope="module")
def stage():
    return staged()


def test_steps_stand_in_front_of_what_threads_exchange(stage):
    """Of a column warps hold parts: a sum, a scan and places exchange once, a sort in each round
    in which elements of two warps are compared.
    """
    said = {}
    for op in ops_of(stage[1], ReduceOp, ScanOp, SortOp, TakeOp, PutOp):
        assert isinstance(op.prev_op, StepsOp), op.name
        said[op.name] = [step.name for step in op.prev_op.body.block.ops]
    assert said["cute.reduce"] == said["cute.scan"] == said["cute.take"] == [*STORE, *LOAD]
    assert said["cute.put"] == [*STORE, *STORE, *LOAD]
    assert said["cute.sort"] == [*STORE, *LOAD] * 5
    assert verdict_of(stage[1]).findings == ()


def test_each_barrier_of_an_exchange_is_needed(stage):
    """But for the first one of all: nothing is in the buffer then."""
    assert len(ops_of(stage[1], BarrierOp)) == COUNT
    for number in range(COUNT):
        kernel = stage[1].clone()
        ops_of(kernel, BarrierOp)[number].detach()
        codes = {finding.code for finding in verdict_of(kernel).findings}
        assert codes == ({"CD-R1"} if number else set()), number


def test_lowering_adds_no_barrier(stage):
    """As many as stand there, and none where the steps are lost."""
    module = stage[0].clone()
    ConvertToPtxPass(arch="sm_80").apply(Context(), module)
    assert sum(isinstance(op, BarSyncOp) for op in module.walk()) == COUNT
    module = stage[0].clone()
    kernel = next(op for op in module.ops if isinstance(op, KernelOp))
    for steps in ops_of(kernel, StepsOp):
        steps.detach()
    with pytest.raises(PassFailedException, match=r"expected pipeline\.steps in front"):
        ConvertToPtxPass(arch="sm_80").apply(Context(), module)


def test_steps_that_an_op_does_not_take_are_an_error(stage):
    module = stage[0].clone()
    kernel = next(op for op in module.ops if isinstance(op, KernelOp))
    first = ops_of(kernel, StepsOp)[0]
    for step in list(first.body.block.ops):
        first.body.block.add_op(step.clone())
    with pytest.raises(PassFailedException, match=r"expected fewer pipeline\.steps"):
        ConvertToPtxPass(arch="sm_80").apply(Context(), module)
