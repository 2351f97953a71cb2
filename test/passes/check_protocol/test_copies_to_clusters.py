"""A copy to CTAs of a cluster writes memory of others, of which rings of one CTA tell nothing."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser

import cutedialect as cute
from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute import CopyOp, KernelOp
from cutedialect.dialects.cute_nvgpu import WgmmaCommitOp, WgmmaWaitOp
from cutedialect.dialects.pipeline import ConsumerReleaseOp
from cutedialect.dialects.walks import walk
from cutedialect.passes.protocol.check_protocol import verdict_of

SCHEDULE = "tile = (128,96), roles = corrected, cluster = CLUSTER"


def attention(cluster):
    """Blocks of keys of causal attention come to both CTAs of a cluster, rows of Q to each."""
    q, k, v = (np.zeros((1, 2, 320, width), np.float16) for width in (192, 192, 128))
    schedule = SCHEDULE.replace("CLUSTER", cluster)
    kernel = cute.compile(cute.attention, q, k, v, arch="sm_90a", causal=True, schedule=schedule)
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    module = Parser(context, kernel.stages["cute-expand-roles"]).parse_module()
    return next(op for op in module.ops if isinstance(op, KernelOp))


@pytest.mark.parametrize(("cluster", "finds"), [("(1,1)", set()), ("(2,1)", {"CD-R1"})])
def test_a_release_comes_behind_the_multiply_where_another_cta_fills_the_stage(cluster, finds):
    """The role that loads waits for that of its own CTA to be through with Q before an item's first
    blocks of keys, and for that of the other CTA by the release of their last stage alone.
    """
    kernel = attention(cluster)
    assert verdict_of(kernel).findings == ()
    releases = [
        op
        for op in walk(kernel)
        if isinstance(op, ConsumerReleaseOp)
        and isinstance(op.prev_op, WgmmaWaitOp)
        and isinstance(op.prev_op.prev_op, WgmmaCommitOp)
    ]
    release = releases[-1]
    assert release.prev_op is not None
    commit = release.prev_op.prev_op
    assert commit is not None
    assert commit.parent is not None
    release.detach()
    commit.parent.insert_op_before(release, commit)
    findings = verdict_of(kernel).findings
    assert {finding.code for finding in findings} == finds
    assert all(isinstance(finding.op, CopyOp) for finding in findings)
