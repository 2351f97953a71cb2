"""Ordinary stores to shared memory are visible to asynchronous copies only through a proxy fence
that knows of them: every fault has a twin that must stay silent.
"""

from __future__ import annotations

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError

WARPS = 4
KERNEL = """
.shared .align 128 .b8 sm[512]; .shared .align 8 .b64 bar;
mov.u32 %r3, sm; mov.u32 %r4, bar; shl.b32 %r5, %r0, 2; add.u32 %r6, %r3, %r5;
shr.u32 %r7, %r0, 5; setp.eq.u32 %p1, %r7, 0; setp.eq.u32 %p2, %r7, 2;
@%p31 mbarrier.init.shared.b64 [%r4], 128;
bar.sync 0;
BODY
@!%p31 bra END;
cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r3], 512;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END:
"""
WRITE = "st.shared.b32 [%r6], %r0;"
FENCE = "fence.proxy.async.shared::cta;"
SYNC = "bar.sync 0;"
ARRIVE = "mbarrier.arrive.shared.b64 %rd20, [%r4];"
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 0; @!%p3 bra W;"
NAMED = "@!%p1 bar.arrive 1, 128; @%p1 bar.sync 1, 128;"
FLAGS = ("@%p2 bra DONE; atom.shared::cta.add.u32 %r9, [%r3+504], 0; DONE: "
         "bar.sync 0;")  # fmt: skip

RIGHT = [
    WRITE + FENCE + SYNC,
    WRITE + "fence.proxy.async;" + SYNC,
    WRITE + SYNC + FENCE,
    WRITE + SYNC + SYNC + "@%p31 " + FENCE,
    WRITE + FENCE + NAMED,
    WRITE + FENCE + ARRIVE + WAIT,
    WRITE + ARRIVE + WAIT + FENCE,
    WRITE + FENCE + WRITE + FENCE + SYNC,
    # Warp 2 fences for all after a barrier, and a second barrier passes that on.
    WRITE + SYNC + "@%p2 " + FENCE + SYNC,
    WRITE + FENCE + SYNC + "ld.shared.b32 %r9, [%r6];",
    "st.shared.b16 [%r6], %rs1; st.shared.b16 [%r6+2], %rs1;" + FENCE + SYNC,
    "@%p31 st.shared.v4.b32 [%r3], {%r0, %r0, %r0, %r0};" + WRITE + FENCE + SYNC,
    WRITE + "atom.shared.add.u32 %r9, [%r6], 1;" + FENCE + SYNC,
]
WRONG = [
    WRITE + SYNC,
    FENCE + WRITE + SYNC,
    WRITE + FENCE + WRITE + SYNC,
    WRITE + "fence.proxy.async.global;" + SYNC,
    WRITE + "fence.acq_rel.cta;" + SYNC,
    WRITE + "fence.proxy.alias;" + SYNC,
    # Warp 0 fences before it can know of the other warps' stores.
    WRITE + "@%p1 " + FENCE + SYNC,
    WRITE + SYNC + "@%p2 " + FENCE,
    WRITE + FENCE + SYNC + "@%p2 st.shared.b16 [%r6], %rs1;" + SYNC,
    WRITE + FENCE + SYNC + "@%p2 atom.shared.add.u32 %r9, [%r6], 1;" + SYNC,
    # No barrier at all, and one that the writers' arrival does not reach.
    WRITE + FENCE,
    WRITE + FENCE + "@%p1 bar.sync 1, 32;",
    WRITE + ARRIVE + WAIT,
]


def run(run_maps, body: str, seed: int = 0) -> np.ndarray:
    out = np.zeros(128, np.uint32)
    text = KERNEL.replace("BODY", "mov.u16 %rs1, 1;" + body)
    run_maps(text, [], [out], block=32 * WARPS, seed=seed)
    return out


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("body", RIGHT)
def test_fenced_stores(run_maps, body, seed):
    out = run(run_maps, body, seed)
    if "rs1" not in body and "atom" not in body:
        assert out.tolist() == list(range(128))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("body", WRONG)
def test_missing_fences(run_maps, body, seed):
    with pytest.raises(EmulatorError) as caught:
        run(run_maps, body, seed)
    error = caught.value
    # Without any barrier the copy may also run before the stores: then it reads poison.
    assert error.code == "CD-A1" or (error.code == "CD-I3" and seed), str(error)
    assert "cp.async.bulk" in (error.instruction or "")


def test_the_report_names_the_writer(run_maps):
    with pytest.raises(EmulatorError) as caught:
        run(run_maps, WRITE + FENCE + SYNC + "@%p2 st.shared.b32 [%r6], 1;" + SYNC)
    assert "warp 2 of CTA (0, 0, 0)" in str(caught.value)
    assert "fence.proxy.async" in str(caught.value)
    with pytest.raises(EmulatorError) as caught:
        run(run_maps, WRITE + FENCE + "@%p1 bar.sync 1, 32;")
    assert "nothing orders that write" in str(caught.value)


def test_stmatrix_and_cp_async_are_ordinary_writes(run_maps):
    matrix = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r8], {%r0};"
    place = "and.b32 %r8, %r0, 7; shl.b32 %r8, %r8, 4; shl.b32 %r9, %r7, 7;"
    place += "add.u32 %r8, %r8, %r9; add.u32 %r8, %r8, %r3;"
    copy = "cvt.u64.u32 %rd5, %r5; add.s64 %rd5, %rd5, %rd0; cp.async.ca.shared.global [%r6],"
    copy += "[%rd5], 4; cp.async.wait_all;"
    for body in (place + matrix, copy):
        run(run_maps, body + FENCE + SYNC)
        with pytest.raises(EmulatorError) as caught:
            run(run_maps, body + SYNC)
        assert caught.value.code == "CD-A1"


def test_what_a_load_brought_needs_no_fence(run_maps):
    """A copy back of what another copy brought, over bytes that were stored before."""
    body = (
        WRITE
        + FENCE
        + SYNC
        + """
    @!%p31 bra LOADED;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd0], 512, [%r4];
    LOADED: @!%p31 mbarrier.arrive.shared.b64 _, [%r4];"""
        + WAIT
    )
    assert not run(run_maps, body).any()


@pytest.mark.parametrize(
    ("behind", "is_right"),
    [
        (FENCE + ARRIVE + WAIT, True),
        (FENCE + SYNC, True),
        (SYNC + FENCE + SYNC, True),
        (SYNC + "@%p1 " + FENCE, True),
        # The reads are no earlier writes: what is behind the fence is not fenced.
        (FENCE + "ld.shared.b32 %r9, [%r6];" + SYNC, False),
        (ARRIVE + WAIT, False),
        (SYNC, False),
        (SYNC + "@%p2 " + FENCE, False),
        ("@%p2 bra OTHER;" + FENCE + "OTHER:" + SYNC, False),
    ],
)
def test_what_threads_have_read_is_fenced_from_a_copy(run_maps, behind, is_right):
    """A bulk copy over bytes that threads have loaded since they stored them."""
    body = WRITE + FENCE + SYNC + "ld.shared.b32 %r8, [%r6];" + behind
    body += """
    @!%p31 bra LOADED;
    mbarrier.init.shared.b64 [%r4+8], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r4+8], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd0], 512, [%r4+8];
    V: mbarrier.try_wait.parity.shared.b64 %p4, [%r4+8], 0; @!%p4 bra V;
    LOADED:"""
    text = KERNEL.replace(".b64 bar", ".b64 bar[2]").replace("BODY", body)
    arrays = [], [np.zeros(128, np.uint32)]
    if is_right:
        run_maps(text, *arrays, block=32 * WARPS)
        return
    with pytest.raises(EmulatorError) as caught:
        run_maps(text, *arrays, block=32 * WARPS)
    assert caught.value.code == "CD-A4"


def test_kernels_without_asynchronous_copies_keep_no_clocks(run_kernel):
    out = np.zeros(32, np.uint32)
    body = """.shared .align 4 .b32 sm[32]; mov.u32 %r2, sm; shl.b32 %r3, %r0, 2;
    add.u32 %r2, %r2, %r3; st.shared.b32 [%r2], %r0; bar.sync 0; ld.shared.b32 %r4, [%r2];
    mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9; st.global.b32 [%rd10], %r4;"""
    run_kernel(body, [out])
    assert out.tolist() == list(range(32))
