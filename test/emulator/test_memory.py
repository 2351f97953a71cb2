"""Memory: state spaces, bounds, alignment, poison, asynchronous copies, arguments."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, launch

INDEX = "mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9; add.s64 %rd11, %rd1, %rd9;"


def fails(run_kernel, code: str, body: str, arrays, **options) -> EmulatorError:
    with pytest.raises(EmulatorError) as caught:
        run_kernel(body, arrays, **options)
    assert caught.value.code == code, str(caught.value)
    assert caught.value.ptx_line is not None
    return caught.value


def test_reads_and_writes_past_the_end(run_kernel):
    a = np.zeros(31, np.uint32)
    error = fails(
        run_kernel, "CD-I1", INDEX.replace("%rd1,", "%rd0,") + "ld.global.u32 %r2, [%rd10];", [a]
    )
    assert "0 bytes past the end" in str(error)
    body = "mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9; st.global.u32 [%rd10+-4], %r0;"
    error = fails(run_kernel, "CD-I1", body, [a])
    assert "before the start" in str(error)
    fails(run_kernel, "CD-I1", "mov.u64 %rd5, 16; ld.global.u32 %r2, [%rd5];", [a])


def test_misaligned_access(run_kernel):
    a = np.zeros(64, np.uint32)
    error = fails(run_kernel, "CD-I2", "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd0+8];", [a])
    assert "16 bytes" in str(error)
    shared = ".shared .align 16 .b8 sm[64]; mov.u32 %r2, sm; st.shared.b64 [%r2+4], %rd0;"
    fails(run_kernel, "CD-I2", shared, [a])


def test_shared_and_local_bounds(run_kernel):
    body = (
        ".shared .align 4 .b8 sm[128]; mov.u32 %r2, sm; shl.b32 %r3, %r0, 2; add.u32 %r2, %r2, %r3;"
    )
    run_kernel(body + "st.shared.b32 [%r2], %r0;", [])
    fails(run_kernel, "CD-I1", body + "st.shared.b32 [%r2+4], %r0;", [])
    local = ".local .align 4 .b8 buf[16]; mov.u64 %rd1, buf; st.local.b32 [%rd1+16], %r0;"
    fails(run_kernel, "CD-I1", local, [])


def test_two_ctas_have_their_own_shared_memory(run_kernel):
    out = np.zeros(96, np.uint32)
    run_kernel(
        """.shared .align 4 .b8 sm[128]; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 32, %r0;
        shl.b32 %r4, %r0, 2; mov.u32 %r5, sm; add.u32 %r6, %r5, %r4; st.shared.b32 [%r6], %r3;
        bar.sync 0; xor.b32 %r4, %r4, 124; add.u32 %r6, %r5, %r4; ld.shared.b32 %r7, [%r6];
        mul.wide.u32 %rd9, %r3, 4; add.s64 %rd10, %rd0, %rd9; st.global.b32 [%rd10], %r7;""",
        [out],
        grid=3,
    )
    assert out.tolist() == [32 * c + 31 - i for c in range(3) for i in range(32)]


def test_views_alias_their_base(run_kernel):
    """A strided view spans its base's memory; two views keep their distance."""
    base = np.zeros((8, 16), np.uint32)
    left, right = base[:, :8], base[:, 8:]
    run_kernel(
        """sub.s64 %rd5, %rd1, %rd0; cvt.u32.u64 %r2, %rd5;
        mad.lo.u32 %r3, %r0, 1, 0; mul.wide.u32 %rd6, %r0, 64; setp.lt.u32 %p1, %r0, 8;
        add.s64 %rd7, %rd0, %rd6; @%p1 st.global.b32 [%rd7], %r2;
        add.s64 %rd7, %rd1, %rd6; @%p1 st.global.b32 [%rd7+28], %r0;""",
        [left, right],
    )
    assert (base[:, 0] == 32).all()
    assert base[:, 15].tolist() == list(range(8))
    fails(run_kernel, "CD-I1", "ld.global.b32 %r2, [%rd0+480];", [left])


def test_negative_strides_and_small_types(run_kernel):
    base = np.arange(64).astype(ml_dtypes.bfloat16)
    view = base[::-1]
    out = np.zeros(32, np.uint16)
    run_kernel(
        """mul.wide.u32 %rd9, %r0, 2; sub.s64 %rd10, %rd0, %rd9; add.s64 %rd11, %rd1, %rd9;
        ld.global.b16 %h1, [%rd10]; st.global.b16 [%rd11], %h1;""",
        [view, out],
    )
    assert (out.view(ml_dtypes.bfloat16) == view[:32]).all()


def test_far_offsets_use_64_bits(run_kernel):
    """Elements above 2**31 of a view whose memory is not all there."""
    cell = np.arange(8, dtype=np.uint32)
    wide = np.lib.stride_tricks.as_strided(cell, (8,), (4,))
    out = np.zeros(32, np.uint32)
    run_kernel(
        """mov.u64 %rd5, 0x300000000; add.s64 %rd6, %rd0, %rd5; sub.s64 %rd6, %rd6, %rd5;
        ld.global.b32 %r2, [%rd6+28]; mul.wide.u32 %rd9, %r0, 4; add.s64 %rd11, %rd1, %rd9;
        st.global.b32 [%rd11], %r2;""",
        [wide, out],
    )
    assert (out == 7).all()


def test_read_only_arrays(run_kernel):
    a = np.zeros(32, np.uint32)
    a.flags.writeable = False
    error = fails(run_kernel, "CD-I1", "st.global.b32 [%rd0], %r0;", [a])
    assert "read-only" in str(error)


POISON = {
    "an address": "add.s64 %rd5, %rd0, %rd200; ld.global.b32 %r2, [%rd5];",
    "a branch": "setp.lt.u32 %p1, %r2, 4; @%p1 bra L; L: mov.u32 %r3, 0;",
    "a guard": "setp.lt.u32 %p1, %r2, 4; @%p1 mov.u32 %r3, 0;",
    "a store to global memory": "add.u32 %r3, %r2, %r0; st.global.b32 [%rd0], %r3;",
    "a barrier operand": "bar.sync %r2;",
}


@pytest.mark.parametrize("use", sorted(POISON))
def test_uses_of_unwritten_registers(run_kernel, use):
    error = fails(run_kernel, "CD-I4", POISON[use], [np.zeros(32, np.uint32)])
    assert use in str(error)
    assert "never written" in str(error)


def test_harmless_poison_is_silent(run_kernel):
    """Moved, selected away, shuffled, kept in a lane that does not use it."""
    out = np.zeros(32, np.uint32)
    run_kernel(
        INDEX.replace("%rd1,", "%rd0,")
        + """mov.u32 %r3, %r2; add.u32 %r3, %r3, 1;
        setp.eq.u32 %p1, %r0, %r0; selp.b32 %r4, %r0, %r3, %p1;
        shfl.sync.bfly.b32 %r5, %r3, 1, 31, -1;
        setp.lt.u32 %p2, %r0, 16; @%p2 mov.u32 %r6, 9;
        st.global.b32 [%rd10], %r4; @%p2 st.global.b32 [%rd10], %r6;
        .local .align 4 .b8 buf[8]; st.local.b32 [buf], %r2;""",
        [out],
    )
    assert out.tolist() == [9] * 16 + list(range(16, 32))


def test_a_defined_operand_decides_and_or(run_kernel):
    """False and poison is false; true or poison is true; the other way it stays poison."""
    out = np.zeros(32, np.uint32)
    body = """setp.lt.u32 %p1, %r0, 8; setp.lt.{c}.u32 %p2, %r200, 5, {s}%p1;
        setp.lt.u32 %p3, %r200, 5; {c}.pred %p4, %p3, %p1; {c}.pred %p1, %p1, %p3;
        setp.{f}.u32 %p5, %r0, 8; @!%p5 bra END; {use} END: mov.u32 %r3, 0;"""
    use = "@%p2 add.u32 %r3, %r0, 1; @%p4 add.u32 %r3, %r0, 1; @%p1 add.u32 %r3, %r0, 1;"
    run_kernel(body.format(c="and", s="", f="ge", use=use), [out])
    run_kernel(body.format(c="or", s="", f="lt", use=use), [out])
    for guard in ("@%p2", "@%p4", "@%p1"):
        one = guard + " add.u32 %r3, %r0, 1;"
        fails(run_kernel, "CD-I4", body.format(c="and", s="", f="lt", use=one), [out])
        fails(run_kernel, "CD-I4", body.format(c="or", s="", f="ge", use=one), [out])


def test_poison_comes_back_from_shared_and_local_memory(run_kernel):
    out = np.zeros(32, np.uint32)
    load = ".shared .align 8 .b8 sm[64]; ld.shared.b32 %r2, [sm]; st.global.b32 [%rd0], %r2;"
    error = fails(run_kernel, "CD-I3", load, [out])
    assert "PTX line" in error.message
    kept = ".shared .align 8 .b8 sm[64]; st.shared.b32 [sm], %r200; ld.shared.b32 %r2, [sm];"
    fails(run_kernel, "CD-I3", kept + "st.global.b32 [%rd0], %r2;", [out])
    local = ".local .align 4 .b8 buf[16]; ld.local.b32 %r2, [buf+8]; st.global.b32 [%rd0], %r2;"
    fails(run_kernel, "CD-I3", local, [out])
    half = """.shared .align 8 .b8 sm[64]; mov.b16 %h1, 5; st.shared.b16 [sm], %h1;
        st.shared.b16 [sm+2], %h1; ld.shared.b32 %r2, [sm]; st.global.b32 [%rd0], %r2;"""
    run_kernel(half, [out])
    assert out[0] == 0x50005


def test_matrix_poison_stays_in_its_row(run_kernel):
    """Row 3 of A is never loaded: only row 3 of D may not be stored."""
    out = np.zeros((16, 8), np.float32)
    body = """mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;
        shr.u32 %r2, %r1, 2; and.b32 %r3, %r1, 3; setp.eq.u32 %p1, %r2, 3;
        @%p1 mov.b32 %r10, %r200;
        mov.f32 %f0, 0f00000000;
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4},
            {%r10, %r11, %r12, %r13}, {%r11, %r12}, {%f0, %f0, %f0, %f0};
        mul.wide.u32 %rd9, %r1, 8; add.s64 %rd10, %rd0, %rd9;
        st.global.v2.f32 [%rd10+256], {%f3, %f4};
        """
    run_kernel(body + "@!%p1 st.global.v2.f32 [%rd10], {%f1, %f2};", [out])
    fails(run_kernel, "CD-I4", body + "st.global.v2.f32 [%rd10], {%f1, %f2};", [out])


COPY = """.shared .align 16 .b8 sm[2048]; mov.u32 %r2, sm; shl.b32 %r3, %r0, 4;
add.u32 %r3, %r3, %r2;
    mul.wide.u32 %rd9, %r0, 16; add.s64 %rd10, %rd0, %rd9; add.s64 %rd11, %rd1, %rd9;
    """
BACK = """ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r3];
    st.global.v4.b32 [%rd11], {%r10, %r11, %r12, %r13};"""


def test_copy_lands_at_the_wait_and_not_before(run_kernel):
    source = np.arange(128, dtype=np.uint32)
    out = np.zeros(128, np.uint32)
    issue = COPY + "cp.async.ca.shared.global [%r3], [%rd10], 16; cp.async.commit_group;"
    run_kernel(issue + "cp.async.wait_group 0;" + BACK, [source, out])
    assert (out == source).all()
    error = fails(run_kernel, "CD-I9", issue + BACK, [source, out])
    assert "has not waited" in str(error)
    fails(run_kernel, "CD-I9", issue + "cp.async.wait_group 1;" + BACK, [source, out])
    fails(run_kernel, "CD-I9", issue + "st.shared.b32 [%r3], %r0;", [source, out])
    uncommitted = issue.replace("cp.async.commit_group;", "")
    fails(run_kernel, "CD-I9", uncommitted + "cp.async.wait_group 0;" + BACK, [source, out])
    run_kernel(uncommitted + "cp.async.wait_all;" + BACK, [source, out])


def test_source_is_read_when_the_copy_lands(run_kernel):
    source = np.zeros(128, np.uint32)
    out = np.zeros(128, np.uint32)
    run_kernel(
        COPY
        + """cp.async.cg.shared.global [%r3], [%rd10], 16; cp.async.commit_group;
        mov.u32 %r4, 77; st.global.b32 [%rd10], %r4; add.s64 %rd10, %rd10, 4;
        cp.async.wait_group 0;"""
        + BACK,
        [source, out],
        gpu=False,  # a race, which the emulator decides
    )
    assert (out[::4] == 77).all()


def test_groups_complete_in_order(run_kernel):
    source = np.arange(256, dtype=np.uint32)
    out = np.zeros(128, np.uint32)
    body = (
        COPY.replace("sm[2048]", "sm[4096]")
        + """cp.async.ca.shared.global [%r3], [%rd10], 16; cp.async.commit_group;
        cp.async.ca.shared.global [%r3+512], [%rd10+512], 16; cp.async.commit_group;
        cp.async.wait_group 1;"""
    )
    run_kernel(body + BACK, [source, out])
    assert (out == source[:128]).all()
    fails(run_kernel, "CD-I9", body + BACK.replace("[%r3]", "[%r3+512]"), [source, out])


@pytest.mark.parametrize("size", [4, 8, 16])
def test_zero_fill(run_kernel, size):
    source = np.full(128, 0xABCDEF01, np.uint32)
    out = np.zeros(128, np.uint32)
    kept = "mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;"
    clear = kept + "st.shared.v4.b32 [%r3], {%r10, %r11, %r12, %r13};"
    run_kernel(
        COPY + clear
        + f"""rem.u32 %r5, %r0, {size + 1};
        cp.async.ca.shared.global [%r3], [%rd10], {size}, %r5; cp.async.wait_all;"""
        + BACK,
        [source, out],
    )  # fmt: skip
    rows = out.view(np.uint8).reshape(32, 16)
    raw = source.view(np.uint8).reshape(32, 16)
    for lane in range(32):
        used = lane % (size + 1)
        assert (rows[lane, :used] == raw[lane, :used]).all()
        assert not rows[lane, used:].any()


def test_ignored_source_is_not_touched(run_kernel):
    """Size 0 and ignore-src leave the source alone, even out of bounds."""
    source, out = np.ones(16, np.uint32), np.zeros(128, np.uint32)
    body = COPY + "setp.ge.u32 %p1, %r0, 4;"
    run_kernel(
        body + "cp.async.cg.shared.global [%r3], [%rd10], 16, %p1; cp.async.wait_all;" + BACK,
        [source, out],
    )
    assert out.tolist() == [1] * 16 + [0] * 112
    size = "selp.b32 %r5, 0, 16, %p1; cp.async.cg.shared.global [%r3], [%rd10], 16, %r5;"
    run_kernel(body + size + "cp.async.wait_all;" + BACK, [source, out])
    plain = "cp.async.cg.shared.global [%r3], [%rd10], 16;"
    fails(run_kernel, "CD-I1", body + plain, [source, out])
    fails(run_kernel, "CD-I2", COPY + plain.replace("[%rd10]", "[%rd10+4]"), [source, out])


def test_copies_nobody_waited_for_are_noted(run_kernel):
    source, out = np.ones(128, np.uint32), np.zeros(128, np.uint32)
    report = run_kernel(COPY + "cp.async.ca.shared.global [%r3], [%rd10], 16;", [source, out])
    assert any("never waited" in note for note in report.notes)


def test_bank_conflicts_are_counted_by_line(run_kernel):
    def conflicts(stride: int, op: str = "st.shared.b32 [%r4], %r0") -> tuple[int, int]:
        report = run_kernel(
            f""".shared .align 16 .b8 sm[16384]; mov.u32 %r2, sm; mul.lo.u32 %r3, %r0, {stride};
            add.u32 %r4, %r2, %r3; {op};""",
            [],
        )
        return report.wavefronts, report.bank_conflicts

    assert conflicts(4) == (1, 0)
    assert conflicts(8) == (2, 1)
    assert conflicts(128) == (32, 31)
    assert conflicts(0) == (1, 0)
    assert conflicts(132) == (1, 0)
    wide = "st.shared.v4.b32 [%r4], {%r0, %r0, %r0, %r0}"
    assert conflicts(16, wide) == (4, 0)
    assert conflicts(32, wide) == (8, 4)
    assert conflicts(128, wide) == (32, 28)
    assert conflicts(8, "st.shared.b64 [%r4], %rd300".replace("%rd300", "%rd9")) == (2, 0)


def test_counters(run_kernel):
    a, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    report = run_kernel(
        INDEX + "ld.global.b32 %r2, [%rd10]; st.global.b32 [%rd11], %r2;", [a, out], block=64
    )
    assert (report.global_read, report.global_written) == (256, 256)
    assert report.instructions["ld.global.b32"] == 2
    assert report.bank_conflicts == 0
    assert "warp instructions" in str(report)


PARAMS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 a, .param .f32 b, .param .u8 c, .param .f64 d,
  .param .align 8 .b8 s[16], .param .b16 h)
{
  .reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .f64 %fd<2>; .reg .b16 %h<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [a]; st.global.b32 [%rd1], %r1;
  ld.param.b32 %r2, [b]; st.global.b32 [%rd1+4], %r2;
  ld.param.u8 %h1, [c]; st.global.b16 [%rd1+8], %h1;
  ld.param.b16 %h2, [h]; st.global.b16 [%rd1+10], %h2;
  ld.param.f64 %fd1, [d]; st.global.f64 [%rd1+16], %fd1;
  mov.b64 %rd2, s; cvta.param.u64 %rd2, %rd2; ld.b64 %rd3, [%rd2+8];
  ld.param.v2.b32 {%r3, %r4}, [s]; st.global.v2.b32 [%rd1+24], {%r4, %r3};
  st.global.b64 [%rd1+32], %rd3;
  ret;
}
"""


def test_scalar_and_struct_arguments():
    out = np.zeros(40, np.uint8)
    struct = np.zeros(1, [("x", "<u4"), ("y", "<u4"), ("z", "<u8")])
    struct[0] = (3, 4, 1 << 40)
    launch(
        PARAMS, "k", 1, 1, [out, -2, 1.5, np.uint8(200), np.float64(2.5), struct[0], np.float16(1)]
    )
    assert out[:4].view(np.int32)[0] == -2
    assert out[4:8].view(np.float32)[0] == 1.5
    assert out[8:12].view(np.uint16).tolist() == [200, 0x3C00]
    assert out[16:24].view(np.float64)[0] == 2.5
    assert out[24:32].view(np.uint32).tolist() == [4, 3]
    assert out[32:40].view(np.uint64)[0] == 1 << 40
    launch(PARAMS, "k", 1, 1, [out, True, np.int64(3), np.bool_(True), 1, struct[0], 0])
    assert out[:4].view(np.int32)[0] == 1
    assert out[4:8].view(np.float32)[0] == 3
    assert out[8] == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "takes 7 arguments, got 0"),
        ([np.zeros(4), 1 << 40, 1.0, 1, 1.0, np.void(bytes(16)), 1], "does not fit .u32"),
        ([np.zeros(4), 1.5, 1.0, 1, 1.0, np.void(bytes(16)), 1], "expected an integer"),
        ([np.zeros(4), 1, "x", 1, 1.0, np.void(bytes(16)), 1], "expected a number"),
        ([np.zeros(4), 1, 1.0, 1, 1.0, np.void(bytes(8)), 1], "expected 16 bytes"),
        ([np.zeros(4), 1, 1.0, 1, 1.0, 7, 1], "struct of 16 bytes"),
        ([np.zeros(4), np.zeros(2), 1.0, 1, 1.0, np.void(bytes(16)), 1], "got an array"),
    ],
)
def test_wrong_arguments(args, message):
    with pytest.raises(EmulatorError) as caught:
        launch(PARAMS, "k", 1, 1, args)
    assert caught.value.code == "CD-ARG"
    assert message in caught.value.message


VARIABLES = """.version 8.0
.target sm_80
.address_size 64
.visible .const .align 4 .u32 table[4] = {1, 2, 0x30, 4};
.visible .global .align 4 .f32 scale = 0f3FC00000;
.global .align 8 .u64 link[2] = {generic(scale), 7};
.extern .shared .align 16 .b8 dyn[];
.visible .entry k(.param .u64 out)
{
  .reg .b64 %rd<9>; .reg .b32 %r<9>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  mov.u64 %rd4, table; add.s64 %rd4, %rd4, %rd2; ld.const.u32 %r2, [%rd4];
  ld.global.u64 %rd5, [link]; ld.b32 %r3, [%rd5];
  mov.u32 %r4, dyn; shl.b32 %r5, %r1, 2; add.u32 %r4, %r4, %r5; st.shared.b32 [%r4], %r3;
  cvt.u64.u32 %rd6, %r4; cvta.shared.u64 %rd6, %rd6; ld.b32 %r6, [%rd6];
  st.global.b32 [%rd3], %r2; st.global.b32 [%rd3+16], %r6;
  mov.u32 %r7, %dynamic_smem_size; st.global.b32 [%rd1+32], %r7;
  ret;
}
"""


def test_module_variables_and_dynamic_shared_memory():
    out = np.zeros(9, np.uint32)
    launch(VARIABLES, "k", 1, 4, [out], dynamic_smem=16)
    assert out[:4].tolist() == [1, 2, 0x30, 4]
    assert (out[4:8].view(np.float32) == 1.5).all()
    assert out[8] == 16
    with pytest.raises(EmulatorError) as caught:
        launch(VARIABLES, "k", 1, 4, [out], dynamic_smem=8)
    assert caught.value.code == "CD-I1"
    with pytest.raises(EmulatorError, match="exceed"):
        launch(VARIABLES, "k", 1, 4, [out], dynamic_smem=300_000)


def test_sectors_of_global_memory_are_counted_by_line():
    """Warps of 32 lanes: 4 bytes each side by side are four sectors, 64 bytes apart 32; where all
    read one place, it is one.
    """
    body = """
    .reg .b32 %r<4>; .reg .b64 %rd<6>;
    ld.param.u64 %rd0, [a];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd2, %rd0, %rd1;
    ld.global.u32 %r1, [%rd2];
    mul.wide.u32 %rd3, %r0, 64;
    add.u64 %rd4, %rd0, %rd3;
    st.global.u32 [%rd4+8192], %r1;
    ld.global.u32 %r2, [%rd0];
    ret;
    """
    head = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a)"
    report = launch(f"{head} {{{body}}}", "k", 1, 64, [np.zeros(4096, np.uint32)])
    found = [
        (access.opcode, access.accesses, access.bytes, access.sectors)
        for access in report.global_.values()
    ]
    assert found == [
        ("ld.global.u32", 2, 256, 8),
        ("st.global.u32", 2, 256, 64),
        ("ld.global.u32", 2, 256, 2),
    ]
