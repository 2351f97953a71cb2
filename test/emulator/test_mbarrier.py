"""mbarriers: phases, counts, bytes, states, parities, and the errors of their protocol."""

from __future__ import annotations

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError

SETUP = """
.shared .align 8 .b64 bar[4];
mov.u32 %r2, bar;
setp.eq.u32 %p1, %r0, 0;
"""
STORE = "mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9; st.global.b32 [%rd10], %r20;"


def one_thread(run_kernel, body: str, count: int) -> list[int]:
    """Thread 0 runs ``body``, which leaves results in ``%r20``, ``%r21``, ..."""
    out = np.full(count, 0xDEAD, np.uint32)
    stores = "".join(f"st.global.b32 [%rd0+{4 * i}], %r{20 + i};" for i in range(count))
    run_kernel(SETUP + f"@!%p1 bra END;\n{body}\n{stores}\nEND:", [out])
    return out.tolist()


def fails(run_kernel, code: str, body: str, **options) -> EmulatorError:
    with pytest.raises(EmulatorError) as caught:
        run_kernel(SETUP + body, [np.zeros(64, np.uint32)], **options)
    assert caught.value.code == code, str(caught.value)
    assert caught.value.ptx_line is not None
    return caught.value


def ask(register: int, predicate: str) -> str:
    return f"selp.u32 %r{register}, 1, 0, {predicate};"


def test_a_fresh_barrier_by_parity(run_kernel):
    """Parity 1 passes at once, parity 0 does not."""
    body = """mbarrier.init.shared.b64 [%r2], 1;
    mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r2], 1;
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r2], 0;"""
    assert one_thread(run_kernel, body + ask(20, "%p2") + ask(21, "%p3"), 2) == [1, 0]


def test_parity_alternates_with_the_phase(run_kernel):
    asks = "".join(
        f"mbarrier.arrive.shared.b64 _, [%r2];"
        f"mbarrier.test_wait.parity.acquire.cta.shared.b64 %p2, [%r2], 0;{ask(20 + 2 * i, '%p2')}"
        f"mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 1;{ask(21 + 2 * i, '%p3')}"
        for i in range(3)
    )
    body = "mbarrier.init.shared.b64 [%r2], 1;" + asks
    assert one_thread(run_kernel, body, 6) == [1, 0, 0, 1, 1, 0]


def test_states_and_pending_counts(run_kernel):
    """A state names the phase of its arrival, and how many arrivals were pending before it."""
    body = """mbarrier.init.shared.b64 [%r2], 5;
    mbarrier.arrive.shared.b64 %rd20, [%r2], 2;
    mbarrier.arrive.release.cta.shared.b64 %rd21, [%r2];
    mbarrier.test_wait.shared.b64 %p2, [%r2], %rd21;
    mbarrier.arrive.noComplete.shared.b64 %rd22, [%r2], 1;
    mbarrier.arrive.shared.b64 %rd23, [%r2];
    mbarrier.test_wait.shared.b64 %p3, [%r2], %rd21;
    mbarrier.arrive.shared.b64 %rd24, [%r2];
    mbarrier.test_wait.shared.b64 %p4, [%r2], %rd24;
    mbarrier.pending_count.b64 %r20, %rd20; mbarrier.pending_count.b64 %r21, %rd21;
    mbarrier.pending_count.b64 %r22, %rd22; mbarrier.pending_count.b64 %r23, %rd23;
    mbarrier.pending_count.b64 %r24, %rd24;"""
    body += ask(25, "%p2") + ask(26, "%p3") + ask(27, "%p4")
    assert one_thread(run_kernel, body, 8) == [5, 3, 2, 1, 5, 0, 1, 0]


def test_dropped_arrivals_are_not_expected_again(run_kernel):
    """After arrive_drop of 2 by a barrier of 3, one arrival completes each later phase."""
    body = """mbarrier.init.shared.b64 [%r2], 3;
    mbarrier.arrive_drop.shared.b64 %rd20, [%r2], 2;
    mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 0;
    mbarrier.arrive.shared.b64 %rd21, [%r2];
    mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0;
    mbarrier.arrive.shared.b64 %rd22, [%r2];
    mbarrier.test_wait.parity.shared.b64 %p4, [%r2], 1;
    mbarrier.pending_count.b64 %r23, %rd22;"""
    body += ask(20, "%p2") + ask(21, "%p3") + ask(22, "%p4")
    assert one_thread(run_kernel, body, 4) == [0, 1, 1, 1]


def test_bytes_hold_the_phase_open(run_kernel):
    """complete_tx may come before expect_tx; both must be balanced when the arrivals are there."""
    body = """mbarrier.init.shared.b64 [%r2], 1;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 48;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 64;
    mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 0;
    mbarrier.complete_tx.shared.b64 [%r2], 16;
    mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0;"""
    assert one_thread(run_kernel, body + ask(20, "%p2") + ask(21, "%p3"), 2) == [0, 1]


def test_expect_tx_may_complete_the_phase(run_kernel):
    """An expect_tx that brings the byte count to zero with no pending arrival completes it."""
    body = """mbarrier.init.shared.b64 [%r2], 1;
    mbarrier.complete_tx.shared.b64 [%r2], 32;
    mbarrier.arrive.shared.b64 _, [%r2];
    mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 0;
    mbarrier.expect_tx.relaxed.cta.shared.b64 [%r2], 32;
    mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0;"""
    assert one_thread(run_kernel, body + ask(20, "%p2") + ask(21, "%p3"), 2) == [0, 1]


def test_generic_addresses_and_reuse_after_inval(run_kernel):
    body = """mov.u64 %rd5, bar; cvta.shared.u64 %rd5, %rd5;
    mbarrier.init.b64 [%rd5+8], 1; mbarrier.arrive.b64 %rd6, [%rd5+8];
    mbarrier.inval.b64 [%rd5+8]; mbarrier.init.shared::cta.b64 [%r2+8], 2;
    mbarrier.test_wait.parity.b64 %p2, [%rd5+8], 0;"""
    assert one_thread(run_kernel, body + ask(20, "%p2"), 1) == [0]


RING = """
.shared .align 8 .b64 full[2];
.shared .align 8 .b64 empty[2];
.shared .align 4 .b32 ring[64];
mov.u32 %r2, full; mov.u32 %r3, empty; mov.u32 %r4, ring;
@!%p1 bra READY;
mbarrier.init.shared.b64 [%r2], 32; mbarrier.init.shared.b64 [%r2+8], 32;
mbarrier.init.shared.b64 [%r3], 32; mbarrier.init.shared.b64 [%r3+8], 32;
READY:
bar.sync 0;
mov.u32 %r10, 0;
and.b32 %r11, %r0, 31; shl.b32 %r12, %r11, 2;
LOOP:
and.b32 %r13, %r10, 1; shr.u32 %r14, %r10, 1; and.b32 %r14, %r14, 1;
shl.b32 %r15, %r13, 3; add.u32 %r16, %r2, %r15; add.u32 %r17, %r3, %r15;
shl.b32 %r18, %r13, 7; add.u32 %r18, %r18, %r4;
setp.lt.u32 %p3, %r0, 32;
@!%p3 bra CONSUME;
xor.b32 %r19, %r14, 1;
FREE: mbarrier.try_wait.parity.shared.b64 %p4, [%r17], %r19, 1000;
@!%p4 bra FREE;
add.u32 %r18, %r18, %r12; mad.lo.u32 %r21, %r10, 100, %r11; st.shared.b32 [%r18], %r21;
mbarrier.arrive.shared.b64 %rd20, [%r16];
bra NEXT;
CONSUME:
THERE: mbarrier.try_wait.parity.shared.b64 %p4, [%r16], %r14;
@!%p4 bra THERE;
xor.b32 %r22, %r12, 124; add.u32 %r18, %r18, %r22; ld.shared.b32 %r21, [%r18];
mbarrier.arrive.shared.b64 %rd20, [%r17];
mad.lo.u32 %r23, %r10, 32, %r11; mul.wide.u32 %rd9, %r23, 4; add.s64 %rd10, %rd0, %rd9;
st.global.b32 [%rd10], %r21;
NEXT:
add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 7; @%p5 bra LOOP;
"""


@pytest.mark.parametrize("seed", range(8))
def test_a_ring_of_two_stages(run_kernel, seed):
    out = np.zeros((3, 7, 32), np.uint32)
    body = SETUP + RING.replace(
        "LOOP:", "mov.u32 %r24, %ctaid.x; mul.wide.u32 %rd8, %r24, 896;"
        "add.s64 %rd0, %rd0, %rd8; LOOP:", 1,
    )  # fmt: skip
    run_kernel(body, [out], grid=3, block=64, seed=seed)
    expected = np.arange(7)[:, None] * 100 + np.arange(31, -1, -1)
    assert (out == expected).all()


def test_a_ring_without_its_empty_barrier_loses_data(run_kernel):
    """The twin of the ring: a producer that does not wait overwrites what is yet to be read."""
    broken = RING.replace("@!%p4 bra FREE;", "", 1).replace("[%r17], %r19, 1000", "[%r17], 1", 1)
    out = np.zeros((7, 32), np.uint32)
    expected = np.arange(7)[:, None] * 100 + np.arange(31, -1, -1)
    try:
        run_kernel(SETUP + broken, [out], block=64, gpu=False)
    except EmulatorError:
        return
    assert (out != expected).any()


def test_cp_async_arrives_when_it_has_landed(run_kernel):
    """With .noinc the arrival is one of those expected, without it the count stays as it was."""
    for form, count in (("", 1), (".noinc", 33)):
        data, out = np.arange(32, dtype=np.uint32) * 3, np.zeros(32, np.uint32)
        body = (
            SETUP
            + f"""
        .shared .align 16 .b32 sm[32];
        @%p1 mbarrier.init.shared.b64 [%r2], {count};
        bar.sync 0;
        shl.b32 %r3, %r0, 2; mov.u32 %r4, sm; add.u32 %r5, %r4, %r3; cvt.u64.u32 %rd5, %r3;
        add.s64 %rd6, %rd1, %rd5;
        cp.async.ca.shared.global [%r5], [%rd6], 4;
        cp.async.mbarrier.arrive{form}.shared.b64 [%r2];
        @%p1 mbarrier.arrive.shared.b64 _, [%r2];
        W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
        @!%p2 bra W;
        xor.b32 %r3, %r3, 124; add.u32 %r5, %r4, %r3; ld.shared.b32 %r20, [%r5];{STORE}"""
        )
        run_kernel(body, [out, data])
        assert out.tolist() == data[::-1].tolist()


def test_cp_async_is_in_flight_until_its_arrival_counts(run_kernel):
    body = (
        SETUP
        + """
    .shared .align 16 .b32 sm[32];
    mov.u32 %r4, sm; @!%p1 bra END;
    mbarrier.init.shared.b64 [%r2], 1;
    cp.async.ca.shared.global [%r4], [%rd0], 4;
    cp.async.mbarrier.arrive.noinc.shared.b64 [%r2];
    mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 0;
    ld.shared.b32 %r20, [%r4];
    END:"""
    )
    with pytest.raises(EmulatorError) as caught:
        run_kernel(body, [np.zeros(4, np.uint32)])
    assert caught.value.code == "CD-I9"


def test_one_try_wait_is_not_enough(run_kernel):
    """try_wait may fail at any time: without a loop the thread goes on too early."""
    body = (
        SETUP
        + """
    .shared .align 4 .b32 sm;
    mov.u32 %r4, sm;
    @%p1 mbarrier.init.shared.b64 [%r2], 1;
    bar.sync 0;
    setp.ge.u32 %p3, %r0, 32; @%p3 bra WRITE;
    READ: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
    LOOP
    ld.shared.b32 %r20, [%r4]; st.global.b32 [%rd0], %r20;
    bra END;
    WRITE: setp.eq.u32 %p4, %r0, 32; @!%p4 bra END;
    st.shared.b32 [%r4], 7; mbarrier.arrive.shared.b64 _, [%r2];
    END:"""
    )
    out = np.zeros(4, np.uint32)
    run_kernel(body.replace("LOOP", "@!%p2 bra READ;"), [out], block=64)
    assert out[0] == 7
    with pytest.raises(EmulatorError) as caught:
        run_kernel(body.replace("LOOP", ""), [out], block=64)
    assert caught.value.code == "CD-I3"


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("CD-B8", "mbarrier.arrive.shared.b64 _, [%r2];"),
        ("CD-B8", "@%p1 mbarrier.init.shared.b64 [%r2], 1;@%p1 mbarrier.init.shared.b64 [%r2], 1;"),
        ("CD-B8", "mbarrier.init.shared.b64 [%r2], 1;"),
        ("CD-B8", "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; st.shared.b32 [%r2+4], 1;"),
        ("CD-B8", "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; ld.shared.b32 %r3, [%r2];"),
        ("CD-B8", "@%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 mbarrier.inval.shared.b64 [%r2];"
                  "bar.sync 0; mbarrier.arrive.shared.b64 _, [%r2];"),
        ("CD-I2", "@%p1 mbarrier.init.shared.b64 [%r2+4], 1;"),
        ("CD-I1", "@%p1 mbarrier.init.shared.b64 [%r2+32], 1;"),
        ("CD-B5", "@%p1 mbarrier.init.shared.b64 [%r2], 0;"),
        ("CD-B5", "@%p1 mbarrier.init.shared.b64 [%r2], 1048576;"),
        ("CD-B5", "@%p1 mbarrier.init.shared.b64 [%r2], 2;"
                  "@%p1 mbarrier.arrive.shared.b64 _, [%r2], 3;"),
        ("CD-B5", "@%p1 mbarrier.init.shared.b64 [%r2], 1;"
                  "@%p1 mbarrier.arrive.noComplete.shared.b64 _, [%r2], 1;"),
        ("CD-B5", "@%p1 mbarrier.init.shared.b64 [%r2], 1;"
                  "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;"
                  "@%p1 mbarrier.arrive.shared.b64 _, [%r2];"),
        ("CD-B1", "@%p1 mbarrier.init.shared.b64 [%r2], 1;"
                  "@%p1 mbarrier.expect_tx.shared.b64 [%r2], 1048575;"
                  "@%p1 mbarrier.expect_tx.shared.b64 [%r2], 1;"),
        ("CD-B3", "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;"
                  "mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 2;"),
    ],
)  # fmt: skip
def test_misuse(run_kernel, code, body):
    fails(run_kernel, code, body)


def test_initialization_must_be_ordered_before_its_use_by_another_warp(run_kernel):
    """A8: without a barrier warp 1 cannot know of it."""
    body = "@%p1 mbarrier.init.shared.b64 [%r2], 64; SYNC mbarrier.arrive.shared.b64 _, [%r2];"
    out = np.zeros(64, np.uint32)
    run_kernel(SETUP + body.replace("SYNC", "bar.sync 0;"), [out], block=64)
    fails(run_kernel, "CD-A8", body.replace("SYNC", ""), block=64)


HANGS = [
    # (code, init count, what threads 0..31 do, parity, words of the report)
    ("CD-B5", 33, "mbarrier.arrive.shared.b64 _, [%r2];", 0, "32 of 33 arrivals"),
    ("CD-B1", 32, "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;"
                  "@%p1 mbarrier.complete_tx.shared.b64 [%r2], 496;", 0, "496 of 512 bytes"),
    ("CD-HANG", 32, "mbarrier.arrive.shared.b64 _, [%r2];", 1, "phase 1 (parity 1): 0 of 32"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "count", "arrive", "parity", "words"), HANGS)
def test_hangs_are_reported(run_kernel, code, count, arrive, parity, words):
    """Who waits for which barrier and phase, with counts and bytes, at which lines."""
    body = f"""
    @%p1 mbarrier.init.shared.b64 [%r2+8], 1;
    add.u32 %r2, %r2, 16;
    @%p1 mbarrier.init.shared.b64 [%r2], {count};
    bar.sync 0;
    setp.lt.u32 %p2, %r0, 32; @!%p2 bra WAIT;
    {arrive}
    bra END;
    WAIT:
    .loc 1 77 3
    mbarrier.try_wait.parity.shared.b64 %p3, [%r2], {parity}; // ir: pipeline.wait %full
    @!%p3 bra WAIT;
    END:"""
    body = '.file 1 "kernel.py"\n' + body
    if parity:  # the first phase completes, the wait is for the second
        body = body.replace("WAIT:", "LATER: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;"
                            "@!%p3 bra LATER;\nWAIT:")  # fmt: skip
    error = fails(run_kernel, code, body, block=96)
    text = str(error)
    assert "hang" in text
    assert words in text
    assert "mbarrier bar+16 of CTA (0, 0, 0)" in text
    assert "warps 1-2 wait for phase" in text
    assert error.python == "kernel.py:77"
    assert error.ir == "pipeline.wait %full"
    assert "try_wait" in (error.instruction or "")


def test_polling_with_test_wait_lets_others_run(run_kernel):
    body = (
        SETUP
        + f"""
    @%p1 mbarrier.init.shared.b64 [%r2], 1;
    bar.sync 0;
    setp.eq.u32 %p2, %r0, 63; @%p2 bra LAST;
    POLL: mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0;
    @!%p3 bra POLL;
    mov.u32 %r20, 5; {STORE} bra END;
    LAST: mbarrier.arrive.shared.b64 _, [%r2];
    END:"""
    )
    out = np.zeros(64, np.uint32)
    run_kernel(body, [out], block=64)
    assert out.tolist() == [5] * 63 + [0]


def test_polling_for_ever_is_a_reported_hang(run_kernel):
    body = """@%p1 mbarrier.init.shared.b64 [%r2], 3; bar.sync 0;
    @%p1 mbarrier.arrive.shared.b64 _, [%r2];
    POLL: mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0; nanosleep.u32 50;
    @!%p3 bra POLL;"""
    text = str(fails(run_kernel, "CD-B5", body))
    assert "warps 0 poll for phase 0" in text
    assert "1 of 3 arrivals" in text
