"""Barriers, calls, printf, hang reports and the instruction budget."""

from __future__ import annotations

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, launch

STORE = "mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9; st.global.b32 [%rd10], %r9;"


def fails(run_kernel, code: str, body: str, arrays=(), **options) -> EmulatorError:
    with pytest.raises(EmulatorError) as caught:
        run_kernel(body, list(arrays), **options)
    assert caught.value.code == code, str(caught.value)
    return caught.value


def test_barrier_between_diverged_warps(run_kernel):
    """Warps reach one barrier by different instructions after loops of different length."""
    out = np.zeros(128, np.uint32)
    run_kernel(
        """.shared .align 4 .b8 sm[512]; mov.u32 %r2, sm; shl.b32 %r3, %r0, 2;
        add.u32 %r3, %r2, %r3;
        shr.u32 %r4, %r0, 5; mov.u32 %r5, 0; mul.lo.u32 %r6, %r4, 30;
        L: setp.ge.u32 %p1, %r5, %r6; @%p1 bra M; add.u32 %r5, %r5, 1; bra L;
        M: st.shared.b32 [%r3], %r5; setp.lt.u32 %p2, %r0, 64; @%p2 bra LOW;
        bar.sync 0; bra READ;
        LOW: bar.sync 0;
        READ: xor.b32 %r7, %r0, 96; shl.b32 %r7, %r7, 2; add.u32 %r7, %r7, %r2;
        ld.shared.b32 %r9, [%r7];"""
        + STORE,
        [out],
        block=128,
    )
    assert out.tolist() == [30 * ((i ^ 96) // 32) for i in range(128)]


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_producer_and_consumer_warps(run_kernel, seed):
    """Named barriers with counts: warp 0 arrives, warp 1 waits, several rounds."""
    out = np.zeros(64, np.uint32)
    run_kernel(
        """.shared .align 4 .b8 sm[128]; mov.u32 %r2, sm; shl.b32 %r3, %r1, 2;
        add.u32 %r3, %r2, %r3;
        mov.u32 %r5, 0; mov.u32 %r9, 0; setp.ge.u32 %p1, %r0, 32; @%p1 bra CONSUME;
        PRODUCE: bar.sync 2, 64; add.u32 %r6, %r5, %r1; st.shared.b32 [%r3], %r6; bar.arrive 1, 64;
        add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 5; @%p2 bra PRODUCE; bra END;
        CONSUME: bar.arrive 2, 64; bar.sync 1, 64; ld.shared.b32 %r6, [%r3]; add.u32 %r9, %r9, %r6;
        add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 5; @%p2 bra CONSUME;
        END: """
        + STORE,
        [out],
        block=64,
        seed=seed,
    )
    assert out.tolist() == [0] * 32 + [10 + 5 * i for i in range(32)]


def test_barrier_reductions(run_kernel):
    out = np.zeros(96, np.uint32)
    run_kernel(
        """setp.lt.u32 %p1, %r0, 40;
        bar.red.popc.u32 %r2, 0, %p1; bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p1;
        bar.red.and.pred %p4, 3, 96, !%p2;
        selp.b32 %r3, 1000, 0, %p2; selp.b32 %r4, 100, 0, %p3; selp.b32 %r5, 10000, 0, %p4;
        add.u32 %r9, %r2, %r3; add.u32 %r9, %r9, %r4; add.u32 %r9, %r9, %r5;"""
        + STORE,
        [out],
        block=96,
    )
    assert (out == 40 + 100 + 10000).all()


def test_barrier_with_exited_lanes_of_a_warp(run_kernel):
    """Lanes of one warp may leave; the rest of that warp still stands for it."""
    out = np.zeros(64, np.uint32)
    run_kernel(
        "and.b32 %r2, %r0, 3; setp.eq.u32 %p1, %r2, 3; @%p1 exit; bar.sync 0; mov.u32 %r9, 5;"
        + STORE,
        [out],
        block=64,
    )
    assert out.tolist() == [0 if i % 4 == 3 else 5 for i in range(64)]


def test_hang_on_exited_warps_is_reported(run_kernel):
    error = fails(
        run_kernel, "CD-G5",
        "setp.ge.u32 %p1, %r0, 32; @%p1 bra END; bar.sync 0; END: mov.u32 %r2, 0;", block=96,
    )  # fmt: skip
    text = str(error)
    assert "barrier 0 has 32 of 96 threads" in text
    assert "warps 0 wait at PTX line" in text
    assert "warps 1-2 have exited" in text


def test_hang_on_missing_arrivals_is_reported(run_kernel):
    error = fails(
        run_kernel, "CD-G3",
        "setp.ge.u32 %p1, %r0, 32; @%p1 bra B; bar.sync 1, 64; B: bar.sync 2, 64;", block=64,
    )  # fmt: skip
    assert "barrier 1 has 32 of 64" in str(error)
    assert "barrier 2 has 32 of 64" in str(error)


def test_more_arrivals_than_expected(run_kernel):
    fails(run_kernel, "CD-G3", "bar.sync 1, 32; bar.sync 1, 64; bar.arrive 1, 96; bar.sync 1, 64;",
          block=64)  # fmt: skip
    body = "setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 1, 96; @!%p1 bar.sync 1, 64;"
    assert "96 and 64" in str(fails(run_kernel, "CD-G3", body, block=64))


def test_aligned_instruction_in_a_broken_warp(run_kernel):
    body = """setp.eq.u32 %p1, %r1, 5; @%p1 exit; mov.b32 %r2, 0;
        movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2;"""
    assert "all 32 threads" in str(fails(run_kernel, "CD-G4", body))


def test_collectives_that_never_meet(run_kernel):
    """An aligned instruction, a vote and a warp barrier that some lanes of the warp never reach."""
    part = "setp.lt.u32 %p1, %r1, 16; @!%p1 bra ELSE; mov.b32 %r2, 0; {low} bra END;"
    part += "ELSE: mov.b32 %r2, 1; {high} END: mov.u32 %r4, 0;"
    matrix = "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2;"
    vote = "vote.sync.all.pred %p2, %p1, -1;"
    error = fails(run_kernel, "CD-G4", part.format(low=matrix, high=matrix))
    assert str(error).count("wait at PTX line") == 2
    fails(run_kernel, "CD-I8", part.format(low=vote, high=vote))
    fails(run_kernel, "CD-I8", part.format(low="bar.warp.sync -1;", high="bar.sync 0;"))


def test_spin_on_a_flag_nobody_sets(run_kernel):
    flag = np.zeros(1, np.uint32)
    error = fails(
        run_kernel, "CD-HANG",
        "L: ld.volatile.global.u32 %r2, [%rd0]; setp.eq.u32 %p1, %r2, 0; @%p1 bra L;", [flag],
    )  # fmt: skip
    assert "poll" in str(error)
    assert "PTX line" in str(error)


def test_instruction_budget(run_kernel):
    error = fails(run_kernel, "CD-LIMIT", "L: add.u32 %r2, %r0, 1; bra L;", max_steps=1000)
    assert "1000 steps" in str(error)


def test_trap_names_the_thread(run_kernel):
    error = fails(
        run_kernel, "CD-TRAP",
        "mov.u32 %r2, %tid.y; mad.lo.u32 %r2, %r2, 8, %r0; setp.eq.u32 %p1, %r2, 37; @%p1 trap;",
        block=(8, 8), grid=(1, 2),
    )  # fmt: skip
    assert "thread (5, 4, 0)" in str(error)


def test_coordinates(run_kernel):
    out = np.zeros((2, 3, 24), np.uint32)
    run_kernel(
        """mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y;
        mad.lo.u32 %r6, %r2, 4, %r0; mad.lo.u32 %r6, %r3, 12, %r6;
        mov.u32 %r7, %nctaid.x; mad.lo.u32 %r8, %r5, %r7, %r4; mad.lo.u32 %r0, %r8, 24, %r6;
        mad.lo.u32 %r9, %r5, 10, %r4; mad.lo.u32 %r9, %r9, 100, %r6;"""
        + STORE,
        [out],
        grid=(3, 2),
        block=(4, 3, 2),
    )
    expected = [[[(10 * y + x) * 100 + i for i in range(24)] for x in range(3)] for y in range(2)]
    assert out.tolist() == expected


def test_masks_and_clock(run_kernel):
    out = np.zeros(32, np.uint32)
    run_kernel(
        """mov.u32 %r2, %lanemask_lt; mov.u32 %r3, %lanemask_ge; xor.b32 %r9, %r2, %r3;
        mov.u32 %r4, %lanemask_eq; mov.u32 %r5, %lanemask_gt; or.b32 %r4, %r4, %r5;
        sub.u32 %r4, %r3, %r4; add.u32 %r9, %r9, %r4;
        mov.u64 %rd3, %clock64; W: mov.u64 %rd4, %clock64; sub.s64 %rd5, %rd4, %rd3;
        setp.lt.s64 %p1, %rd5, 5000; @%p1 bra W; nanosleep.u32 100;"""
        + STORE,
        [out],
    )
    assert (out == 0xFFFFFFFF).all()


CALLS = """.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 out) square (.param .b32 in)
{ .reg .b32 %r<4>; ld.param.b32 %r1, [in]; mul.lo.s32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret; }
.func (.reg .b32 out) thrice (.reg .b32 in)
{ mul.lo.s32 out, in, 3; ret; }
.func (.param .b32 out) fib (.param .b32 n)
{
  .reg .b32 %r<8>; .reg .pred %p<2>; .local .align 4 .b8 keep[4]; .reg .b64 %rd<4>;
  ld.param.b32 %r1, [n]; mov.u64 %rd1, keep; st.local.b32 [%rd1], %r1;
  setp.lt.u32 %p1, %r1, 2; @%p1 bra BASE;
  { .param .b32 a; .param .b32 r; sub.u32 %r2, %r1, 1; st.param.b32 [a], %r2;
    call.uni (r), fib, (a); ld.param.b32 %r3, [r]; }
  { .param .b32 a; .param .b32 r; ld.local.b32 %r2, [%rd1]; sub.u32 %r2, %r2, 2;
    st.param.b32 [a], %r2; call.uni (r), fib, (a); ld.param.b32 %r4, [r]; }
  add.u32 %r1, %r3, %r4;
BASE: st.param.b32 [out], %r1; ret;
}
.visible .entry k(.param .u64 p)
{
  .reg .b32 %r<9>; .reg .b64 %rd<6>; .reg .pred %p<3>;
  ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; rem.u32 %r2, %r1, 9;
  { .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; call.uni (r), fib, (a);
  ld.param.b32 %r3, [r]; }
  setp.lt.u32 %p1, %r1, 20; mov.u64 %rd4, square; mov.u64 %rd5, fib; selp.b64 %rd4, %rd4, %rd5, %p1;
  proto: .callprototype (.param .b32 _) _ (.param .b32 _);
  { .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; call (r), %rd4, (a), proto;
    ld.param.b32 %r4, [r]; }
  call (%r5), thrice, (%r4);
  mad.lo.u32 %r6, %r3, 10000, %r5;
  mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.b32 [%rd3], %r6;
  ret;
}
"""


def test_calls_recursion_and_function_pointers():
    out = np.zeros(64, np.uint32)
    launch(CALLS, "k", 1, 64, [out])

    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    expected = []
    for i in range(64):
        n = i % 9
        expected.append(fib(n) * 10000 + 3 * (n * n if i < 20 else fib(n)))
    assert out.tolist() == expected


def test_branch_table(run_kernel):
    out = np.zeros(32, np.uint32)
    run_kernel(
        """ts: .branchtargets A, B, C; and.b32 %r2, %r0, 3; min.u32 %r2, %r2, 2;
        brx.idx %r2, ts;
        A: mov.u32 %r9, 10; bra END; B: mov.u32 %r9, 20; bra END; C: mov.u32 %r9, 30;
        END: """
        + STORE,
        [out],
    )
    assert out.tolist() == [[10, 20, 30, 30][i % 4] for i in range(32)]


PRINTF = """.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b);
.global .align 1 .b8 format[40] = {105, 61, 37, 100, 32, 120, 61, 37, 46, 50, 102, 32, 37, 115, 32,
  37, 108, 108, 117, 37, 37, 10, 0};
.global .align 1 .b8 word[4] = {97, 98, 99, 0};
.visible .entry k()
{
  .local .align 8 .b8 __local_depot0[32]; .reg .b64 %SP; .reg .b64 %SPL; .reg .b64 %rd<9>;
  .reg .b32 %r<5>; .reg .f64 %fd<3>;
  mov.u64 %SPL, __local_depot0; cvta.local.u64 %SP, %SPL; add.u64 %rd1, %SP, 0;
  add.u64 %rd2, %SPL, 0;
  mov.u32 %r1, %tid.x; st.local.u32 [%rd2], %r1; cvt.rn.f64.u32 %fd1, %r1;
  mul.f64 %fd1, %fd1, 0d3FF8000000000000;
  st.local.f64 [%rd2+8], %fd1; mov.u64 %rd3, word; cvta.global.u64 %rd3, %rd3;
  st.local.u64 [%rd2+16], %rd3;
  mov.u64 %rd4, 12345678901; st.local.u64 [%rd2+24], %rd4;
  mov.u64 %rd5, format; cvta.global.u64 %rd6, %rd5;
  { .param .b64 param0; st.param.b64 [param0+0], %rd6; .param .b64 param1;
  st.param.b64 [param1+0], %rd1;
    .param .b32 retval0; call.uni (retval0), vprintf, (param0, param1);
    ld.param.b32 %r2, [retval0+0]; }
  ret;
}
"""


def test_printf():
    report = launch(PRINTF, "k", 1, 3, [])
    expected = [f"i={i} x={1.5 * i:.2f} abc 12345678901%" for i in range(3)]
    assert report.output.splitlines() == expected


LOCATED = """.version 8.0
.target sm_80
.address_size 64
.file 1 "model.py"
.visible .entry k(.param .u64 p)
{
  .reg .b64 %rd<3>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [p];
  .loc 1 42 7
  ld.global.b32 %r1, [%rd1+64]; // ir: %x = cute.copy %g, %r
  .loc 1 43 0, function_name $L__info_string0, inlined_at 1 10 3
  bar.sync 0;
  ret;
}
"""


def test_errors_carry_all_three_locations():
    with pytest.raises(EmulatorError) as caught:
        launch(LOCATED, "k", 1, 1, [np.zeros(4, np.uint32)])
    error = caught.value
    assert (error.code, error.ptx_line) == ("CD-I1", 10)
    assert error.ir == "%x = cute.copy %g, %r"
    assert error.python == "model.py:42"
    assert "model.py:42" in str(error)


def test_many_ctas_in_batches():
    """More CTAs than are resident at once."""
    text = (
        CALLS.split(".func", maxsplit=1)[0]
        + """.visible .entry k(.param .u64 p) { .reg .b32 %r<9>;
      .reg .b64 %rd<6>; ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 4;
      add.s64 %rd3, %rd1, %rd2; atom.global.add.u32 %r2, [%rd3], %r1; ret; }"""
    )
    out = np.zeros(5000, np.uint32)
    launch(text, "k", 5000, 1, [out])
    assert (out == np.arange(5000)).all()


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        (0, 32, "grid: expected"),
        (1, 2000, "at most 1024"),
        ((1, 2, 3, 4), 32, "1 to 3 positive ints"),
        ("x", 32, "grid: expected"),
    ],
)
def test_wrong_launch_shapes(grid, block, message):
    with pytest.raises(EmulatorError) as caught:
        launch(LOCATED, "k", grid, block, [np.zeros(32, np.uint32)])
    assert caught.value.code == "CD-ARG"
    assert message in str(caught.value)


def test_required_block_and_unknown_kernel():
    text = LOCATED.replace("(.param .u64 p)", "(.param .u64 p) .reqntid 64, 1, 1")
    with pytest.raises(EmulatorError, match="requires"):
        launch(text, "k", 1, 32, [np.zeros(32, np.uint32)])
    with pytest.raises(EmulatorError, match="kernels: k"):
        launch(text, "main", 1, 64, [np.zeros(32, np.uint32)])
