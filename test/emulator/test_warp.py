"""Warp-wide exchange, atomics, and threads that part and meet again."""

from __future__ import annotations

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError


def shuffle_source(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The pseudo code of the PTX manual."""
    segment, clamp = c >> 8 & 31, c & 31
    top = (lane & segment) | (clamp & ~segment)
    if mode == "up":
        source, valid = lane - b, lane - b >= top
    elif mode == "down":
        source, valid = lane + b, lane + b <= top
    elif mode == "bfly":
        source, valid = lane ^ b, lane ^ b <= top
    else:
        source = (lane & segment) | (b & ~segment)
        valid = source <= top
    return (source, True) if valid else (lane, False)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 16, 8])
def test_shuffles(run_kernel, mode, width):
    for distance in (0, 1, 3, 7, 17, 31):
        c = (32 - width) << 8 | (0 if mode == "up" else 31)
        out = np.zeros((2, 64), np.uint32)
        run_kernel(
            f"""mad.lo.u32 %r2, %r0, 7, 1;
            shfl.sync.{mode}.b32 %r3|%p1, %r2, {distance}, {c}, -1;
            selp.b32 %r4, 1, 0, %p1;
            mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9;
            st.global.b32 [%rd10], %r3; st.global.b32 [%rd10+256], %r4;""",
            [out],
            block=64,
        )
        for thread in range(64):
            source, valid = shuffle_source(mode, thread % 32, distance, c)
            assert out[1, thread] == valid
            assert out[0, thread] == 7 * (thread // 32 * 32 + source) + 1


STORE = "mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9; st.global.b32 [%rd10], %r9;"


def test_vote_and_match(run_kernel, rng):
    values = rng.integers(0, 4, 64).astype(np.uint32)
    out = np.zeros((6, 64), np.uint32)
    run_kernel(
        """mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9; add.s64 %rd11, %rd1, %rd9;
        ld.global.b32 %r2, [%rd10];
        setp.lt.u32 %p1, %r2, 2;
        vote.sync.ballot.b32 %r3, %p1, -1;  st.global.b32 [%rd11], %r3;
        vote.sync.all.pred %p2, %p1, -1; selp.b32 %r3, 1, 0, %p2; st.global.b32 [%rd11+256], %r3;
        vote.sync.any.pred %p2, !%p1, -1; selp.b32 %r3, 1, 0, %p2; st.global.b32 [%rd11+512], %r3;
        match.any.sync.b32 %r3, %r2, -1; st.global.b32 [%rd11+768], %r3;
        match.all.sync.b32 %r3|%p2, %r0, -1; st.global.b32 [%rd11+1024], %r3;
        redux.sync.add.u32 %r3, %r2, -1; st.global.b32 [%rd11+1280], %r3;""",
        [values, out],
        block=64,
    )
    for warp in range(2):
        part = values[32 * warp : 32 * warp + 32]
        rows = out[:, 32 * warp : 32 * warp + 32]
        assert (rows[0] == sum(1 << i for i in range(32) if part[i] < 2)).all()
        assert not rows[1].any()
        assert (rows[2] == 1).all()
        for lane in range(32):
            assert rows[3, lane] == sum(1 << i for i in range(32) if part[i] == part[lane])
        assert not rows[4].any()
        assert (rows[5] == part.sum()).all()


def test_shuffle_under_divergence_waits_for_its_mask(run_kernel):
    """Odd and even lanes come to one shuffle by ways of different length; a half-warp mask runs
    without the other half."""
    out = np.zeros(32, np.uint32)
    run_kernel(
        """and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 1;
        mov.u32 %r3, %r0;
        @%p1 bra ODD;
        add.u32 %r3, %r3, 100; add.u32 %r3, %r3, 100; bra MEET;
        ODD: add.u32 %r3, %r3, 50;
        MEET: shfl.sync.bfly.b32 %r9, %r3, 1, 31, -1;
        setp.lt.u32 %p2, %r0, 16; @!%p2 bra END;
        redux.sync.add.u32 %r4, %r9, 0xffff; add.u32 %r9, %r9, %r4;
        END: """
        + STORE,
        [out],
    )
    value = [i + 50 if i % 2 else i + 200 for i in range(32)]
    swapped = [value[i ^ 1] for i in range(32)]
    expected = [v + (sum(swapped[:16]) if i < 16 else 0) for i, v in enumerate(swapped)]
    assert out.tolist() == expected


def test_shuffle_from_an_absent_lane_is_poison(run_kernel):
    body = """setp.lt.u32 %p1, %r0, 16; @!%p1 bra END;
        shfl.sync.idx.b32 %r9, %r0, 20, 31, 0xffff;
        {use}
        END: """
    run_kernel(body.format(use=""), [np.zeros(32, np.uint32)])
    with pytest.raises(EmulatorError) as caught:
        run_kernel(body.format(use=STORE), [np.zeros(32, np.uint32)])
    assert caught.value.code == "CD-I8"


def test_member_mask_without_own_lane(run_kernel):
    with pytest.raises(EmulatorError) as caught:
        run_kernel("shfl.sync.idx.b32 %r9, %r0, 0, 31, 0xffff;", [])
    assert caught.value.code == "CD-I8"


def test_loops_with_early_exits(run_kernel, rng):
    """Collatz lengths with a cap, breaks and continues: compared with plain Python."""
    start = rng.integers(1, 200, 256).astype(np.uint32)
    out = np.zeros(256, np.uint32)
    run_kernel(
        """mov.u32 %r8, %ctaid.x; mov.u32 %r7, %ntid.x; mad.lo.u32 %r0, %r8, %r7, %r0;
        mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9; add.s64 %rd11, %rd1, %rd9;
        ld.global.u32 %r2, [%rd10]; mov.u32 %r3, 0;
        LOOP: setp.eq.u32 %p1, %r2, 1; @%p1 bra DONE;
        setp.gt.u32 %p2, %r3, 60; @%p2 bra CAP;
        add.u32 %r3, %r3, 1;
        and.b32 %r4, %r2, 1; setp.eq.u32 %p3, %r4, 0;
        @%p3 bra EVEN;
        mad.lo.u32 %r2, %r2, 3, 1; bra LOOP;
        EVEN: shr.u32 %r2, %r2, 1; bra LOOP;
        CAP: add.u32 %r3, %r3, 1000;
        DONE: st.global.u32 [%rd11], %r3;""",
        [start, out],
        grid=4,
        block=64,
    )

    def length(n: int) -> int:
        steps = 0
        while n != 1:
            if steps > 60:
                return steps + 1000
            steps += 1
            n = 3 * n + 1 if n % 2 else n // 2
        return steps

    assert out.tolist() == [length(int(n)) for n in start]


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_spin_wait_between_warps(run_kernel, seed):
    """Warps pass a token through shared memory in falling order, each spinning on a flag."""
    out = np.zeros(128, np.uint32)
    run_kernel(
        """.shared .align 4 .b32 flag; mov.u32 %r2, flag;
        shr.u32 %r3, %r0, 5;
        setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.b32 [%r2], 3; bar.sync 0;
        SPIN: ld.volatile.shared.b32 %r4, [%r2]; setp.ne.u32 %p2, %r4, %r3; @%p2 bra SPIN;
        bar.warp.sync -1;
        setp.eq.u32 %p3, %r1, 0; sub.u32 %r5, %r3, 1;
        mov.u32 %r9, %r4; @%p3 st.volatile.shared.b32 [%r2], %r5;"""
        + STORE,
        [out],
        block=128,
        seed=seed,
    )
    assert (out == np.arange(128) // 32).all()


def test_lock_between_lanes_of_a_warp(run_kernel):
    """Every lane takes one spin lock in turn; fairness must let the holder go on."""
    counter = np.zeros(2, np.uint32)
    run_kernel(
        """add.s64 %rd5, %rd0, 4;
        TRY: atom.global.cas.b32 %r2, [%rd5], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra TRY;
        ld.volatile.global.u32 %r3, [%rd0]; add.u32 %r3, %r3, 1; st.volatile.global.u32 [%rd0], %r3;
        membar.gl; atom.global.exch.b32 %r4, [%rd5], 0;""",
        [counter],
        grid=2,
        block=64,
    )
    assert counter.tolist() == [128, 0]


def test_warp_barrier_from_two_places(run_kernel):
    out = np.zeros(32, np.uint32)
    run_kernel(
        """.shared .align 4 .b8 sm[128]; mov.u32 %r2, sm; shl.b32 %r3, %r1, 2;
        add.u32 %r3, %r2, %r3;
        setp.lt.u32 %p1, %r1, 16; @%p1 bra LOW;
        st.shared.b32 [%r3], %r1; bar.warp.sync -1; ld.shared.b32 %r9, [%r3+-64]; bra OUT;
        LOW: mul.lo.u32 %r4, %r1, 10; st.shared.b32 [%r3], %r4; bar.warp.sync -1;
        ld.shared.b32 %r9, [%r3+64];
        OUT: """
        + STORE,
        [out],
    )
    assert out.tolist() == [i + 16 for i in range(16)] + [10 * i for i in range(16)]


OPERATIONS = {
    "add": lambda o, v: (o + v) & 0xFFFFFFFF, "min": min, "max": max, "and": lambda o, v: o & v,
    "or": lambda o, v: o | v, "xor": lambda o, v: o ^ v, "exch": lambda o, v: v,
    "inc": lambda o, v: 0 if o >= v else o + 1, "dec": lambda o, v: v if o == 0 or o > v else o - 1,
}  # fmt: skip


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("op", sorted(OPERATIONS))
def test_atomics_return_every_old_value_once(run_kernel, rng, op, space):
    type = "b32" if op in ("and", "or", "xor", "exch") else "u32"
    values = rng.integers(0, 20, 64).astype(np.uint32)
    slot = rng.integers(0, 3, 64).astype(np.uint32)
    cells = np.array([5, 17, 0], np.uint32)
    start = cells.copy()
    old = np.zeros(64, np.uint32)
    enter = (
        "mov.u64 %rd20, %rd2;"
        if space == "global"
        else """
        .shared .align 8 .b8 sm[12]; mov.u64 %rd20, sm; setp.lt.u32 %p1, %r0, 3;
        mul.wide.u32 %rd21, %r0, 4; add.s64 %rd22, %rd21, %rd20; add.s64 %rd23, %rd21, %rd2;
        @%p1 ld.global.b32 %r20, [%rd23]; @%p1 st.shared.b32 [%rd22], %r20; bar.sync 0;"""
    )
    leave = (
        ""
        if space == "global"
        else """bar.sync 0;
        @%p1 ld.shared.b32 %r20, [%rd22]; @%p1 st.global.b32 [%rd23], %r20;"""
    )
    run_kernel(
        enter
        + f"""mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9; add.s64 %rd11, %rd1, %rd9;
        add.s64 %rd12, %rd3, %rd9; ld.global.b32 %r2, [%rd10]; ld.global.b32 %r3, [%rd11];
        mul.wide.u32 %rd13, %r3, 4; add.s64 %rd13, %rd13, %rd20;
        atom.{space}.{op}.{type} %r4, [%rd13], %r2; st.global.b32 [%rd12], %r4;"""
        + leave,
        [values, slot, cells, old],
        block=64,
        gpu=space == "global",  # the order in shared memory is the hardware's own
    )
    expected = start.tolist()
    for i in range(64):
        assert old[i] == expected[slot[i]]
        expected[slot[i]] = OPERATIONS[op](expected[slot[i]], int(values[i]))
    assert cells.tolist() == expected


def test_float_atomics_and_reductions(run_kernel):
    total = np.zeros(1, np.float32)
    double = np.zeros(1, np.float64)
    halves = np.zeros(2, np.float16)
    run_kernel(
        """cvt.rn.f32.u32 %f1, %r0; red.global.add.f32 [%rd0], %f1;
        cvt.rn.f64.u32 %fd1, %r0; atom.global.add.f64 %fd2, [%rd1], %fd1;
        mov.b32 %r5, 0x40003c00; red.global.add.noftz.f16x2 [%rd2], %r5;""",
        [total, double, halves],
        block=64,
    )
    assert total[0] == double[0] == 63 * 32
    assert halves.tolist() == [64, 128]


def test_compare_and_swap_chain(run_kernel):
    """Lane i succeeds only if lane i - 1 did: the order is by lane."""
    cell = np.zeros(1, np.uint32)
    out = np.zeros(32, np.uint32)
    run_kernel(
        "add.u32 %r3, %r0, 1; atom.global.cas.b32 %r9, [%rd1], %r0, %r3;" + STORE, [out, cell]
    )
    assert cell[0] == 32
    assert (out == np.arange(32)).all()
