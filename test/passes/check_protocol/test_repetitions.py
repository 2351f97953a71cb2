"""Rounds that repeat in straight lines are left out, and whatever is wrong in one of them is found
all the same.
"""

import pytest
from xdsl.context import Context
from xdsl.parser import Parser

from cutedialect.dialects import all_dialects, cute_nvgpu
from cutedialect.dialects.cute import BarrierOp, CopyOp, KernelOp
from cutedialect.passes.protocol.cases import check
from cutedialect.passes.protocol.nodes import Line
from cutedialect.passes.protocol.skeleton import skeleton_of

FRAGMENT = '!cute.fragment<f32, "(64,32)", "((4,8,4),(2,2,4)):((128,1,16),(64,8,512))">'
TILE = '!cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32):(32,1)">'
OUT = '!cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">'
PART = '!cute.memref<f32, gmem, align<16>, "(64,32):(?{i64 div=4},1)">'


def epilogue(pieces, stages, pending):
    """A kernel that stores pieces of a tile by way of stages, one after the other."""
    stage = f'!cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32,{stages}):(32,1,2048)">'
    lines = [
        f"%s = cute.alloc_smem : {stage}",
        f"%tile = cute.alloc_fragment : {FRAGMENT}",
        "%x = arith.constant 1.0 : f32",
        "%zero = arith.constant 0 : i32",
        f"%Y_1 = cute.local_tile %Y, [64, 32], (%zero, %zero) : {OUT} -> {PART}",
    ]
    for piece in range(pieces):
        lines += [
            f"%i{piece} = arith.constant {piece % stages} : i32",
            f"%s{piece} = cute.stage %s[%i{piece}] : {stage} -> {TILE}",
            f"cute.fill %tile, %x : {FRAGMENT}",
            f"cute.copy %tile, %s{piece} {{atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>}} : "
            f"{FRAGMENT} -> {TILE}",
            "cute_nvgpu.fence_proxy_async",
            f"cute_nvgpu.tma_store_wait {{pending = {pending} : i32, read}}",
            "cute.barrier",
            f"cute.copy %s{piece}, %Y_1 tma %tY : !cute_nvgpu.tma_descriptor<f32, (64,32), "
            f"S<3,4,3>> {{atom = !cute_nvgpu.atom.tma_store<f32>}} : {TILE} -> {PART}",
            "cute_nvgpu.tma_store_commit",
        ]
    lines.append("cute_nvgpu.tma_store_wait {pending = 0 : i32, read}")
    body = "\n".join(lines)
    text = f"""
builtin.module attributes {{cute.arch = "sm_90a"}} {{
  cute.kernel @program(%Y: {OUT}, %tY: !cute_nvgpu.tma_descriptor<f32, (64,32), S<3,4,3>>)
      attributes {{threads = 128 : i32}} {{
{body}
  }}
}}"""
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    return next(op for op in Parser(context, text).parse_module().ops if isinstance(op, KernelOp))


def codes(kernel, is_short):
    return {finding.code for finding in check(skeleton_of(kernel, is_short=is_short)).findings}


# Two stages make rounds of two pieces. A wait that leaves groups at work needs a round more for
# each round of groups; where a stage is written too early, that is found.
@pytest.mark.parametrize(
    ("pieces", "stages", "pending", "rounds", "found"),
    [
        (12, 2, 0, 2, set()),
        (13, 2, 0, 2, set()),
        (2, 2, 0, 1, set()),
        (20, 4, 2, 2, set()),
        (20, 4, 3, 2, {"CD-R1"}),
        (12, 2, 1, 2, {"CD-R1"}),
        (9, 1, 3, 4, {"CD-R1"}),
    ],
)
def test_some_rounds_stay(pieces, stages, pending, rounds, found):
    kernel = epilogue(pieces, stages, pending)
    whole, short = (
        [event for line in _lines(kernel, is_short) for event in line.events]
        for is_short in (False, True)
    )
    waits = [event for event in whole if isinstance(event.op, cute_nvgpu.TmaStoreWaitOp)]
    assert len(waits) == pieces + 1
    left = [event for event in short if isinstance(event.op, cute_nvgpu.TmaStoreWaitOp)]
    assert len(left) == rounds * stages + pieces % stages + 1
    assert codes(kernel, True) == codes(kernel, False) == found


def _lines(kernel, is_short):
    return [node for node in skeleton_of(kernel, is_short=is_short).nodes if isinstance(node, Line)]


def test_a_fault_of_any_round_is_found():
    """Each step of each round is left out: what is found is what is found of all rounds."""
    assert codes(epilogue(12, 2, 0), True) == set()
    steps = (BarrierOp, CopyOp, cute_nvgpu.ProxyFenceOp, cute_nvgpu.TmaStoreWaitOp)
    ops = list(epilogue(12, 2, 0).body.block.ops)
    places = [at for at, op in enumerate(ops) if isinstance(op, steps)]
    faults = 0
    for at in places:
        kernel = epilogue(12, 2, 0)
        list(kernel.body.block.ops)[at].detach()
        found = codes(kernel, True)
        assert found == codes(kernel, False), at
        faults += bool(found)
    # Without its store a piece is still right, and the first waits find nothing at work.
    assert (len(places), faults) == (12 * 5 + 1, 37)
