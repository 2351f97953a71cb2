"""Clusters: registers, addresses of other CTAs, the cluster barrier, multicast, and what goes wrong
when CTAs start late or exit early.
"""

from __future__ import annotations

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError

BOTH = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
SLOT = "mad.lo.u32 %r9, %r8, 32, %r0; mul.wide.u32 %rd9, %r9, 4; add.s64 %rd10, %rd0, %rd9;"
LINEAR = """mov.u32 %r8, %ctaid.x; mov.u32 %r7, %ctaid.y; mov.u32 %r6, %nctaid.x;
mad.lo.u32 %r8, %r7, %r6, %r8;"""


def fails(run_kernel, code: str, body: str, arrays, **options) -> EmulatorError:
    with pytest.raises(EmulatorError) as caught:
        run_kernel(body, arrays, **options)
    assert caught.value.code == code, str(caught.value)
    assert caught.value.ptx_line is not None
    return caught.value


@pytest.mark.parametrize("how", ["argument", "directive"])
def test_special_registers(run_maps, how):
    """Clusters of 2 x 2 x 1 in a grid of 4 x 6."""
    out = np.zeros((24, 16), np.uint32)
    names = ["%cluster_ctaid.x", "%cluster_ctaid.y", "%cluster_nctaid.x", "%cluster_nctaid.y",
             "%cluster_ctarank", "%cluster_nctarank", "%clusterid.x", "%clusterid.y",
             "%nclusterid.x", "%nclusterid.y"]  # fmt: skip
    body = LINEAR + "mul.wide.u32 %rd9, %r8, 64; add.s64 %rd10, %rd0, %rd9;"
    body += "".join(f"mov.u32 %r20, {n}; st.global.b32 [%rd10+{4 * i}], %r20;"
                    for i, n in enumerate(names))  # fmt: skip
    body += "mov.pred %p1, %is_explicit_cluster; selp.u32 %r20, 1, 0, %p1;"
    body += "st.global.b32 [%rd10+40], %r20;"
    if how == "argument":
        run_maps(body, [], [out], grid=(4, 6), block=1, cluster=(2, 2))
    else:
        run_maps(body, [], [out], grid=(4, 6), block=1, notes=".reqnctapercluster 2, 2, 1")
    for y in range(6):
        for x in range(4):
            assert out[4 * y + x, :11].tolist() == [
                x % 2, y % 2, 2, 2, x % 2 + 2 * (y % 2), 4, x // 2, y // 2, 2, 3, 1,
            ]  # fmt: skip


def test_the_grid_is_a_multiple_of_the_cluster(run_maps):
    with pytest.raises(EmulatorError) as caught:
        run_maps("", [], [], grid=3, cluster=2)
    assert caught.value.code == "CD-ARG"


EXCHANGE = (
    """
.shared .align 4 .b32 sm[32];
mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %cluster_nctarank; mov.u32 %r4, sm;
shl.b32 %r5, %r0, 2; add.u32 %r4, %r4, %r5;
mad.lo.u32 %r10, %r2, 1000, %r0; st.shared.b32 [%r4], %r10;
"""
    + BOTH
    + """
add.u32 %r11, %r2, 1; rem.u32 %r11, %r11, %r3;
READ
"""
    + BOTH
    + LINEAR
    + SLOT
    + "st.global.b32 [%rd10], %r20;"
)


@pytest.mark.parametrize(
    "read",
    [
        "mapa.shared::cluster.u32 %r12, %r4, %r11; ld.shared::cluster.b32 %r20, [%r12];",
        "cvt.u64.u32 %rd4, %r4; cvta.shared.u64 %rd4, %rd4; mapa.u64 %rd5, %rd4, %r11;"
        "ld.b32 %r20, [%rd5];",
        "mapa.shared::cluster.u32 %r12, sm, %r11; add.u32 %r12, %r12, %r5;"
        "atom.shared::cluster.add.u32 %r20, [%r12], 5;",
    ],
)
@pytest.mark.parametrize("grid", [(8, 1), (4, 4)])
def test_reading_the_neighbours_memory(run_kernel, read, grid):
    """CTAs of a cluster lie along x in one grid, in a square in the other."""
    out = np.zeros((grid[0] * grid[1], 32), np.uint32)
    cluster = (4, 1) if grid == (8, 1) else (2, 2)
    run_kernel(EXCHANGE.replace("READ", read), [out], grid=grid, cluster=cluster)
    for y in range(grid[1]):
        for x in range(grid[0]):
            rank = x % cluster[0] + cluster[0] * (y % cluster[1])
            expected = (rank + 1) % 4 * 1000 + np.arange(32)
            assert (out[y * grid[0] + x] == expected).all(), (x, y)


def test_writing_the_neighbours_memory_and_its_rank(run_kernel):
    out = np.zeros((4, 32), np.uint32)
    body = (
        """
    .shared .align 4 .b32 sm[32];
    mov.u32 %r2, %cluster_ctarank; mov.u32 %r4, sm; shl.b32 %r5, %r0, 2; add.u32 %r4, %r4, %r5;
    xor.b32 %r11, %r2, 1; mapa.shared::cluster.u32 %r12, %r4, %r11;
    getctarank.shared::cluster.u32 %r13, %r12; getctarank.shared::cluster.u32 %r14, %r4;
    mad.lo.u32 %r15, %r13, 10, %r14; mad.lo.u32 %r15, %r0, 100, %r15;
    """
        + BOTH
        + "st.shared::cluster.b32 [%r12], %r15;"
        + BOTH
        + LINEAR
        + SLOT
    )
    run_kernel(body + "ld.shared.b32 %r20, [%r4]; st.global.b32 [%rd10], %r20;", [out], grid=4,
               cluster=2)  # fmt: skip
    for cta in range(4):
        own, other = cta % 2, 1 - cta % 2
        assert out[cta].tolist() == [100 * i + 10 * own + other for i in range(32)]


ARRIVE = """
.shared .align 8 .b64 bar;
mov.u32 %r2, %cluster_ctarank; mov.u32 %r4, bar; setp.eq.u32 %p1, %r0, 0;
@%p1 mbarrier.init.shared.b64 [%r4], 2;
FENCE
@!%p1 bra END;
mov.u32 %r5, 0; mapa.shared::cluster.u32 %r6, %r4, %r5;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
setp.eq.u32 %p2, %r2, 0;
@!%p2 bra END;
W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r4], 0;
@!%p3 bra W;
st.global.b32 [%rd0], 9;
END:
"""


@pytest.mark.parametrize(
    "fence",
    [
        BOTH,
        "fence.mbarrier_init.release.cluster; barrier.cluster.arrive.relaxed.aligned;"
        "barrier.cluster.wait.acquire.aligned;",
    ],
)
def test_arriving_at_another_cta(run_kernel, fence):
    out = np.zeros(4, np.uint32)
    run_kernel(ARRIVE.replace("FENCE", fence), [out], grid=2, cluster=2)
    assert out[0] == 9


def test_a_relaxed_cluster_barrier_does_not_publish_initializations(run_kernel):
    fence = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
    out = np.zeros(4, np.uint32)
    fails(run_kernel, "CD-A8", ARRIVE.replace("FENCE", fence), [out], grid=2, cluster=2)


@pytest.mark.parametrize("seed", range(6))
def test_exit_before_a_remote_arrival(run_kernel, seed):
    """CTA 0 must not exit while CTA 1 may still arrive at its barrier, in any order of events."""
    body = ARRIVE.replace("FENCE", BOTH).replace("W: mbarrier", "bra END; W: mbarrier")
    out = np.zeros(4, np.uint32)
    error = fails(run_kernel, "CD-H1", body, [out], grid=2, cluster=2, seed=seed)
    assert "CTA (0, 0, 0)" in str(error)
    run_kernel(body + BOTH, [out], grid=2, cluster=2, seed=seed)


@pytest.mark.parametrize("seed", range(4))
def test_access_before_the_other_cta_started(run_kernel, seed):
    body = EXCHANGE.replace(BOTH, "", 1).replace(
        "READ", "mapa.shared::cluster.u32 %r12, %r4, %r11; ld.shared::cluster.b32 %r20, [%r12];"
    )
    fails(run_kernel, "CD-H2", body, [np.zeros((8, 32), np.uint32)], grid=8, cluster=4, seed=seed)


def test_addresses_beyond_the_cluster(run_kernel):
    body = EXCHANGE.replace(
        "READ", "mapa.shared::cluster.u32 %r12, %r4, 4; ld.shared::cluster.b32 %r20, [%r12];"
    )
    out = np.zeros((8, 32), np.uint32)
    fails(run_kernel, "CD-H3", body, [out], grid=8, cluster=4)
    local = EXCHANGE.replace(
        "READ", "mapa.shared::cluster.u32 %r12, %r4, 1; ld.shared.b32 %r20, [%r12];"
    )
    fails(run_kernel, "CD-I1", local, [out], grid=8, cluster=4)
    waits = ARRIVE.replace("FENCE", BOTH).replace("shared::cta.b64 %p3, [%r4]",
                                                  "shared::cta.b64 %p3, [%r6]")  # fmt: skip
    fails(run_kernel, "CD-I1", waits, [out], grid=2, cluster=2)


def test_isspacep_of_clusters(run_kernel):
    out = np.zeros(4, np.uint32)
    body = """.shared .align 4 .b32 sm[32];
    mov.u64 %rd4, sm; cvta.shared.u64 %rd4, %rd4; mov.u32 %r2, %cluster_ctarank;
    xor.b32 %r3, %r2, 1; mapa.u64 %rd5, %rd4, %r3;
    isspacep.shared::cta %p1, %rd4; isspacep.shared::cluster %p2, %rd5;
    isspacep.shared::cta %p3, %rd5; isspacep.global %p4, %rd0;
    selp.u32 %r4, 1, 0, %p1; selp.u32 %r5, 1, 0, %p2; selp.u32 %r6, 1, 0, %p3;
    selp.u32 %r7, 1, 0, %p4; st.global.v4.b32 [%rd0], {%r4, %r5, %r6, %r7};"""
    run_kernel(body, [out], grid=2, cluster=2)
    assert out.tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (".shared .align 8 .b64 bar; mov.u32 %r2, bar; mbarrier.init.shared.b64 [%r2], 1;"
         "mov.u32 %r3, %cluster_ctarank; setp.eq.u32 %p1, %r3, 0; @%p1 bra LAST;"
         "barrier.cluster.arrive; barrier.cluster.wait; bra END;"
         "LAST: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra LAST; END:",
         "1 of 2 threads have arrived"),
        ("barrier.cluster.arrive; barrier.cluster.arrive;", "arrives twice"),
        ("barrier.cluster.wait;", "without an arrival"),
    ],
)  # fmt: skip
def test_unbalanced_cluster_barriers(run_kernel, body, words):
    error = fails(run_kernel, "CD-H4", body, [], grid=2, block=1, cluster=2)
    assert words in str(error)


def test_exited_threads_do_not_hold_the_cluster_barrier(run_kernel):
    out = np.zeros((2, 32), np.uint32)
    body = (
        """setp.ge.u32 %p1, %r0, 32; @%p1 bra GONE;"""
        + LINEAR
        + SLOT
        + """
    barrier.cluster.arrive; barrier.cluster.wait; st.global.b32 [%rd10], 3; GONE:"""
    )
    run_kernel(body, [out], grid=2, block=96, cluster=2)
    assert (out == 3).all()


def described(array: np.ndarray, box) -> dict:
    return {"array": array, "dtype": "f16", "dims": array.shape[::-1],
            "strides": array.strides[:1], "box": box, "element_strides": (1, 1),
            "swizzle": "none", "interleave": "none", "oob_fill": "zero"}  # fmt: skip


MULTICAST = """
.shared .align 128 .b8 sm[512]; .shared .align 8 .b64 bar;
mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, sm; mov.u32 %r4, bar;
@%p31 mbarrier.init.shared.b64 [%r4], 1;
fence.mbarrier_init.release.cluster; BOTH
@!%p31 bra WAIT;
mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 512;
shl.b32 %r5, %r2, 8; add.u32 %r6, %r3, %r5; shl.b32 %r7, %r2, 3; mov.u32 %r8, 0;
mov.u16 %h1, MASK;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
 [%r6], [%rd100, {%r8, %r7}], [%r4], %h1;
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 0;
@!%p3 bra WAIT;
shl.b32 %r10, %r0, 4; add.u32 %r11, %r3, %r10; ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r11];
mad.lo.u32 %r12, %r2, 512, %r10; cvt.u64.u32 %rd5, %r12; add.s64 %rd5, %rd5, %rd0;
st.global.v4.b32 [%rd5], {%r20, %r21, %r22, %r23};
""".replace("BOTH", BOTH)


@pytest.mark.parametrize("seed", range(6))
def test_multicast(run_maps, rng, seed):
    """Each of two CTAs loads one half of a tile for both."""
    array = rng.integers(0, 100, (16, 16)).astype(np.float16)
    out = np.zeros((2, 16, 16), np.float16)
    run_maps(MULTICAST.replace("MASK", "3") + BOTH, [described(array, (16, 8))], [out], grid=2,
             cluster=2, seed=seed)  # fmt: skip
    assert (out == array).all()


def test_multicast_faults(run_maps, rng):
    array = rng.integers(0, 100, (16, 16)).astype(np.float16)
    maps = [described(array, (16, 8))]

    def code_of(body: str) -> str:
        with pytest.raises(EmulatorError) as caught:
            run_maps(body, maps, [np.zeros((2, 16, 16), np.float16)], grid=2, cluster=2)
        return caught.value.code

    assert code_of(MULTICAST.replace("MASK", "7")) == "CD-B13"
    assert code_of(MULTICAST.replace("MASK", "0")) == "CD-B13"
    # Every CTA loads for itself only: half of the bytes never come.
    assert code_of(MULTICAST.replace("MASK", "1")) == "CD-B1"
    # The peer has no barrier there.
    lone = MULTICAST.replace("@%p31 mbarrier.init", "setp.eq.u32 %p4, %r2, 0;"
                             "and.pred %p5, %p4, %p31; @%p5 mbarrier.init")  # fmt: skip
    assert code_of(lone.replace("MASK", "3")) == "CD-B8"


def test_exit_with_a_copy_in_flight(run_maps, rng):
    """B11: CTA 1 does not wait for what CTA 0 sends it."""
    array = rng.integers(0, 100, (16, 16)).astype(np.float16)
    body = MULTICAST.replace("MASK", "3").replace(
        "WAIT: mbarrier", "WAIT: setp.eq.u32 %p6, %r2, 1; @%p6 bra END; AGAIN: mbarrier"
    ).replace("@!%p3 bra WAIT;", "@!%p3 bra AGAIN;")  # fmt: skip
    with pytest.raises(EmulatorError) as caught:
        run_maps(body + "END:", [described(array, (16, 8))], [np.zeros((2, 16, 16), np.float16)],
                 grid=2, cluster=2)  # fmt: skip
    assert caught.value.code == "CD-B11"
    assert "CTA (1, 0, 0)" in str(caught.value)
