"""f32 that warpgroups multiply from registers is rounded by an op in front of a fence, which the
check asks for.
"""

from xdsl.context import Context

import cutedialect as cute
from cutedialect.dialects.cute import KernelOp
from cutedialect.dialects.cute_nvgpu import RoundToTf32Op, WgmmaFenceOp
from cutedialect.dialects.ptx import WgmmaFenceOp as Fence
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.cute_to_ptx import pipeline
from cutedialect.passes.lower.convert_to_ptx import ConvertToPtxPass
from cutedialect.passes.protocol.check_protocol import verdict_of


def test_a_fence_stands_behind_what_is_rounded():
    spec = cute.TensorSpec((None, None), cute.f32)
    module = cute.compile(cute.gemm, spec, spec, arch="sm_90a").traced()
    for step in pipeline("sm_90a")[:-2]:
        step.apply(Context(), module)
    stage = next(op for op in module.ops if isinstance(op, KernelOp))
    (rounded,) = ops_of(stage, RoundToTf32Op)
    fences = ops_of(stage, WgmmaFenceOp)
    assert rounded.next_op in fences
    assert verdict_of(stage).findings == ()
    broken = stage.clone()
    for fence in ops_of(broken, WgmmaFenceOp):
        fence.detach()
    assert {one.code for one in verdict_of(broken).findings} == {"CD-R7"}
    ConvertToPtxPass(arch="sm_90a").apply(Context(), module)
    assert sum(isinstance(op, Fence) for op in module.walk()) == len(fences)
