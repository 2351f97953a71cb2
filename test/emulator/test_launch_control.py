"""clusterlaunchcontrol: CTAs that have started take over the work of clusters that have not."""

from __future__ import annotations

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, launch


def text(size: int, query: str = "") -> str:
    """Each cluster marks the CTAs whose work it does, its own first, then those that it cancels;
    thread 0 of the first CTA asks, and all CTAs of the cluster get the answer."""
    everywhere = ".multicast::cluster::all" if size > 1 else ""
    return f""".version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) .reqnctapercluster {size}, 1, 1
{{
.reg .pred %p<6>; .reg .b32 %r<32>; .reg .b64 %rd<8>; .reg .b128 %q0;
.shared .align 16 .b8 response[16]; .shared .align 8 .b64 bar;
ld.param.u64 %rd0, [out];
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %cluster_ctarank;
mov.u32 %r7, %nctaid.x;
mov.u32 %r9, %clusterid.x;
mbarrier.init.shared.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mov.u32 %r5, 0;
setp.ne.u32 %p1, %r2, 0;
WORK:
mad.lo.u32 %r8, %r1, %r7, %r0; mul.wide.u32 %rd1, %r8, 4; add.s64 %rd1, %rd0, %rd1;
atom.global.add.u32 %r10, [%rd1], 1;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
@!%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{everywhere}.b128 [response], [bar];
WAIT:
mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r5;
@!%p2 bra WAIT;
xor.b32 %r5, %r5, 1;
ld.shared.b128 %q0, [response];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
{query}
@%p3 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%r11, %r12, %r13, _}}, %q0;
@%p3 clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r14, %q0;
fence.proxy.async.shared::cta;
@%p3 add.u32 %r0, %r11, %r2;
@%p3 mov.u32 %r1, %r14;
@%p3 bra WORK;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ret;
}}
"""  # noqa: E501


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_cta_is_done_once(size: int, seed: int) -> None:
    out = np.zeros(24, np.uint32)
    report = launch(text(size), "k", (6, 4), 1, [out], cluster=size, seed=seed)
    assert (out == 1).all()
    # Some of the grid never started.
    starts = next(n for op, n in report.instructions.items() if op == "mbarrier.init.shared.b64")
    assert starts < 24


def test_a_denied_request_names_no_cta() -> None:
    query = (
        "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r20, %q0;\n"
        "st.global.b32 [%rd0], %r20;"
    )
    with pytest.raises(EmulatorError, match="was not granted") as error:
        launch(text(1, query), "k", (6, 4), 1, [np.zeros(24, np.uint32)])
    assert error.value.code == "CD-I4"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("fence.proxy.async.shared::cta;", "", "CD-A3"),
        ("@%p3 bra WORK;", "@!%p3 mov.u32 %r0, %r2;\nbra WORK;", "CD-H5"),
        ("@!%p2 bra WAIT;", "", "CD-"),
    ],
)
def test_what_orders_requests_is_needed(old: str, new: str, code: str) -> None:
    changed = text(2).replace(old, new)
    assert changed != text(2)
    with pytest.raises(EmulatorError) as error:
        launch(changed, "k", (6, 4), 1, [np.zeros(24, np.uint32)], cluster=2)
    assert error.value.code.startswith(code)


def test_who_reads_what_was_copied_has_waited_for_it() -> None:
    """The copy has long landed when the second warp reads, but nothing tells it so."""
    program = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .pred %p<6>; .reg .b32 %r<32>; .reg .b64 %rd<8>;
.shared .align 16 .b8 data[16]; .shared .align 8 .b64 bar;
ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x;
setp.ne.u32 %p0, %r0, 0;
@!%p0 mbarrier.init.shared.b64 [bar], 1;
@!%p0 fence.proxy.async;
bar.sync 0;
@!%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
@!%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd0], 16, [bar];
setp.ge.u32 %p2, %r0, 32;
@%p2 bra SECOND;
FIRST: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra FIRST;
{tell}
bra END;
SECOND:
{hear}
mov.u32 %r2, 0;
LATER: add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, 400; @%p3 bra LATER;
ld.shared.u32 %r1, [data];
END:
ret;
}}
"""
    out = np.zeros(4, np.uint32)
    wait = "WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra WAIT;"
    meet = "bar.sync 1, 64;"
    for tell, hear in ((meet, meet), ("", wait)):
        launch(program.format(tell=tell, hear=hear), "k", 1, 64, [out], seed=1)
    with pytest.raises(EmulatorError, match="which a bulk copy wrote at PTX line 15") as error:
        launch(program.format(tell="", hear=""), "k", 1, 64, [out], seed=1)
    assert error.value.code == "CD-I5"
