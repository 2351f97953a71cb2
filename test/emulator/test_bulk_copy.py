"""Contiguous bulk copies, reductions, groups and asynchronous stores; what may not be touched while
they are in flight.
"""

from __future__ import annotations

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError

SETUP = """
.shared .align 128 .b8 sm[1024]; .shared .align 8 .b64 bar[2];
mov.u32 %r3, sm; mov.u32 %r4, bar; setp.eq.u32 %p31, %r0, 0;
@%p31 mbarrier.init.shared.b64 [%r4], 1; @%p31 mbarrier.init.shared.b64 [%r4+8], 1;
fence.mbarrier_init.release.cluster;
"""
BOTH = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.global.shared::cta.bulk_group"
WAIT = "W%d: mbarrier.try_wait.parity.shared.b64 %%p3, [%%r4+%d], 0; @!%%p3 bra W%d;"


def wait(index: int = 0) -> str:
    return WAIT % (index, 8 * index, index)


def fails(run_kernel, code: str, body: str, arrays, **options) -> EmulatorError:
    with pytest.raises(EmulatorError) as caught:
        run_kernel(SETUP + body, arrays, **options)
    assert caught.value.code == code, str(caught.value)
    assert caught.value.ptx_line is not None
    return caught.value


ROUND_TRIP = f"""bar.sync 0; @!%p31 bra LOADED;
mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 512;
{LOAD}.L2::cache_hint [%r3+128], [%rd1+64], 512, [%r4], %rd40;
LOADED: {wait()}
shl.b32 %r5, %r0, 4; add.u32 %r6, %r3, %r5; ld.shared.b32 %r7, [%r6+128];
add.u32 %r7, %r7, 1; st.shared.b32 [%r6+128], %r7;
fence.proxy.async.shared::cta; bar.sync 0; @!%p31 bra END;
{STORE} [%rd0+16], [%r3+128], 512; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
END:"""


@pytest.mark.parametrize("seed", range(4))
def test_there_and_back(run_kernel, seed):
    data, out = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    body = "createpolicy.fractional.L2::evict_last.b64 %rd40, 1.0;" + ROUND_TRIP
    run_kernel(SETUP + body, [out, data], seed=seed)
    expected = np.zeros(256, np.uint32)
    expected[4:132] = np.arange(16, 144)
    expected[4:132:4] += 1
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("name", "kind", "function"),
    [("add.noftz.f16", np.float16, np.add), ("add.f32", np.float32, np.add),
     ("min.s32", np.int32, np.minimum), ("max.u64", np.uint64, np.maximum),
     ("xor.b64", np.uint64, np.bitwise_xor)],
)  # fmt: skip
def test_reductions_to_global_memory(run_kernel, rng, name, kind, function):
    old = rng.integers(0, 50, 128).astype(kind)
    new = rng.integers(0, 50, 128).astype(kind)
    out, data = old.copy(), new.copy()
    body = f"""@!%p31 bra END; mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 256;
    {LOAD} [%r3], [%rd1], 256, [%r4]; {wait()}
    cp.reduce.async.bulk.global.shared::cta.bulk_group.{name} [%rd0], [%r3], 256;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:"""
    run_kernel(SETUP + body, [out, data])
    count = 256 // np.dtype(kind).itemsize
    expected = old.copy()
    expected[:count] = function(old[:count], new[:count])
    assert out.tobytes() == expected.tobytes()
    assert out.tobytes() != old.tobytes()


PUSH = """
mov.u32 %r5, %cluster_ctarank; xor.b32 %r6, %r5, 1;
shl.b32 %r7, %r0, 2; add.u32 %r8, %r3, %r7; mad.lo.u32 %r9, %r5, 100, %r0;
st.shared.b32 [%r8], %r9; st.shared.b32 [%r8+256], 7;
fence.proxy.async; BOTH
mapa.shared::cluster.u32 %r10, %r3, %r6; mapa.shared::cluster.u32 %r11, %r4, %r6;
@!%p31 bra WAIT;
mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 128;
COPY
WAIT: W0: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 0; @!%p3 bra W0;
ld.shared.b32 %r20, [%r8+256];
mad.lo.u32 %r12, %r5, 32, %r0; mul.wide.u32 %rd5, %r12, 4; add.s64 %rd5, %rd5, %rd0;
st.global.b32 [%rd5], %r20; BOTH
""".replace("BOTH", BOTH)
BETWEEN = "shared::cluster.shared::cta.mbarrier::complete_tx::bytes"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("verb", "base"), [("cp.async.bulk.", 0), ("cp.reduce.async.bulk.", 7)])
def test_to_another_cta(run_kernel, verb, base, seed):
    out = np.zeros((2, 32), np.uint32)
    kind = ".add.u32" if base else ""
    copy = f"{verb}{BETWEEN}{kind} [%r10+256], [%r3], 128, [%r11];"
    run_kernel(SETUP + PUSH.replace("COPY", copy), [out], grid=2, cluster=2, seed=seed)
    assert out.tolist() == [[100 * (1 - c) + i + base for i in range(32)] for c in range(2)]


@pytest.mark.parametrize("seed", range(4))
def test_asynchronous_stores(run_kernel, seed):
    """Every lane sends four bytes; the barrier counts 128."""
    out = np.zeros((2, 32), np.uint32)
    body = PUSH.replace("@!%p31 bra WAIT;\nmbarrier", "@%p31 mbarrier").replace(
        "COPY",
        "add.u32 %r10, %r10, %r7;"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r10+256], %r9, [%r11];",
    )
    run_kernel(SETUP + body, [out], grid=2, cluster=2, seed=seed)
    assert out.tolist() == [[100 * (1 - c) + i for i in range(32)] for c in range(2)]
    body = body.replace("st.async", "red.async.relaxed.cluster").replace(
        "bytes.b32 [%r10", "bytes.add.u32 [%r10"
    )
    body = body.replace(
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes",
        "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster",
    )
    run_kernel(SETUP + body, [out], grid=2, cluster=2, seed=seed)
    assert out.tolist() == [[100 * (1 - c) + i + 7 for i in range(32)] for c in range(2)]


def test_bytes_are_poison_until_they_count(run_kernel):
    """Reading, writing or loading into a destination in flight is an error that names the copy."""
    start = f"""@!%p31 bra END; mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 64;
    {LOAD} [%r3], [%rd0], 64, [%r4];"""
    data = np.zeros(64, np.uint32)
    error = fails(run_kernel, "CD-I9", start + "ld.shared.b32 %r5, [%r3+60]; END:", [data])
    assert "64 bytes have not yet counted at the mbarrier bar+0" in str(error)
    fails(run_kernel, "CD-I9", start + "st.shared.b32 [%r3+60], 1; END:", [data])
    fails(run_kernel, "CD-B6", start + f"{LOAD} [%r3+48], [%rd0], 32, [%r4]; END:", [data])
    run_kernel(SETUP + start + "ld.shared.b32 %r5, [%r3+64];" + wait() + "END:", [data])
    fails(run_kernel, "CD-B11", start + "END:", [data])


def test_undercounted_bytes_release_early(run_kernel):
    """B2: expecting less than comes completes the phase before the rest is there."""
    body = f"""@!%p31 bra END; mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 64;
    {LOAD} [%r3], [%rd0], 64, [%r4]; {LOAD} [%r3+64], [%rd0], 64, [%r4+8]; {wait()}
    ld.shared.b32 %r5, [%r3+64]; {wait(1)} END:"""
    fails(run_kernel, "CD-I9", body, [np.zeros(64, np.uint32)])


SOURCE = f"""
shl.b32 %r5, %r0, 2; add.u32 %r6, %r3, %r5; st.shared.b32 [%r6], %r0;
fence.proxy.async.shared::cta; bar.sync 0; @!%p31 bra NEXT;
{STORE} [%rd0], [%r3], 128; cp.async.bulk.commit_group; WAIT
NEXT: bar.sync 0; st.shared.b32 [%r6], 77; LAST
"""


def test_a_source_may_not_be_overwritten_before_it_was_read(run_kernel):
    out = np.zeros(32, np.uint32)
    last = "@%p31 cp.async.bulk.wait_group.read 0;"
    good = SOURCE.replace("LAST", "")
    for waiting in ("wait_group.read 0", "wait_group 0"):
        run_kernel(SETUP + good.replace("WAIT", f"cp.async.bulk.{waiting};"), [out])
        assert out.tolist() == list(range(32))
    for waiting in ("", "cp.async.bulk.wait_group.read 1;"):
        body = SOURCE.replace("WAIT", waiting).replace("LAST", last)
        error = fails(run_kernel, "CD-E7", body, [out])
        assert "wait_group.read" in str(error)


def test_exit_while_a_store_reads_shared_memory(run_kernel):
    body = SOURCE.replace("WAIT", "").replace("st.shared.b32 [%r6], 77;", "").replace("LAST", "")
    error = fails(run_kernel, "CD-B11", body, [np.zeros(32, np.uint32)])
    assert "wait_group.read" in str(error)


def test_read_groups_have_not_been_written(run_kernel):
    """E8: after wait_group.read another thread still sees the old global data."""
    body = SOURCE.replace("st.shared.b32 [%r6], 77;", "").replace(
        "LAST", "ld.global.b32 %r7, [%rd0+12]; st.global.b32 [%rd1], %r7;"
    )
    for waiting, seen in (("wait_group.read 0", 0), ("wait_group 0", 3)):
        out, copy = np.zeros(32, np.uint32), np.zeros(4, np.uint32)
        text = SETUP + body.replace("WAIT", f"cp.async.bulk.{waiting};")
        run_kernel(text, [out, copy], gpu=False)
        assert out.tolist() == list(range(32))
        assert copy[0] == seen


def test_groups_complete_oldest_first(run_kernel):
    out, seen = np.zeros(96, np.uint32), np.zeros(4, np.uint32)
    stores = "".join(
        f"{STORE} [%rd0+{128 * i}], [%r3], 128; cp.async.bulk.commit_group;" for i in range(3)
    )
    body = f"""shl.b32 %r5, %r0, 2; add.u32 %r6, %r3, %r5; st.shared.b32 [%r6], 5;
    fence.proxy.async.shared::cta; bar.sync 0; @!%p31 bra END; {stores}
    cp.async.bulk.wait_group 1;
    ld.global.b32 %r7, [%rd0]; ld.global.b32 %r8, [%rd0+128]; ld.global.b32 %r9, [%rd0+256];
    st.global.v4.b32 [%rd1], {{%r7, %r8, %r9, %r9}}; cp.async.bulk.wait_group.read 0; END:"""
    run_kernel(SETUP + body, [out, seen], gpu=False)
    assert seen.tolist() == [5, 5, 0, 0]
    assert (out == 5).all()


@pytest.mark.parametrize(
    ("code", "statement"),
    [
        ("CD-E6", f"{LOAD} [%r3], [%rd0], 24, [%r4];"),
        ("CD-E6", f"{LOAD} [%r3], [%rd0+8], 32, [%r4];"),
        ("CD-I2", f"{LOAD} [%r3+8], [%rd0], 32, [%r4];"),
        ("CD-I2", f"{LOAD} [%r3], [%rd0], 32, [%r4+4];"),
        ("CD-I1", f"{LOAD} [%r3], [%rd0], 272, [%r4];"),
        ("CD-I1", f"{LOAD} [%r3+1024], [%rd0], 32, [%r4];"),
        ("CD-B8", f"{LOAD} [%r3], [%rd0], 32, [%r3];"),
        ("CD-B8", f"{LOAD} [%r4], [%rd0], 16, [%r4+8];"),
        ("CD-I3", f"{STORE} [%rd0], [%r3], 32;"),
    ],
)
def test_misuse(run_kernel, code, statement):
    fails(run_kernel, code, f"@%p31 {statement}", [np.zeros(64, np.uint32)])


REUSE = f"""
setp.lt.u32 %p1, %r0, 32; bar.sync 0; @!%p1 bra CONSUME;
@!%p31 bra END;
mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 128; {LOAD} [%r3], [%rd1], 128, [%r4];
FREE: mbarrier.try_wait.parity.shared.b64 %p3, [%r4+8], 0; @!%p3 bra FREE;
mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 128; {LOAD} [%r3], [%rd1+128], 128, [%r4];
SECOND: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 1; @!%p3 bra SECOND;
bra END;
CONSUME: {wait()}
shl.b32 %r5, %r0, 2; add.u32 %r6, %r3, %r5;
FIRST bar.warp.sync 0xffffffff; setp.eq.u32 %p2, %r0, 32; LAST
mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9; st.global.b32 [%rd10+-128], %r7;
END:"""
RELEASE = "fence.proxy.async.shared::cta; @%p2 mbarrier.arrive.shared.b64 _, [%r4+8];"


@pytest.mark.parametrize("seed", [0, *range(5, 8)])
def test_a_stage_released_before_its_last_read(run_kernel, seed):
    """B7: the producer's next copy may land before the consumer's next instruction."""
    read = "ld.shared.b32 %r7, [%r6+-128];"
    data, out = np.arange(64, dtype=np.uint32), np.zeros(32, np.uint32)
    good = REUSE.replace("FIRST", read).replace("LAST", RELEASE)
    run_kernel(SETUP + good, [out, data], block=64, seed=seed)
    assert out.tolist() == list(range(32))
    if seed == 0:
        bad = REUSE.replace("FIRST", "").replace("LAST", RELEASE + read)
        fails(run_kernel, "CD-I9", bad, [out, data], block=64)
