"""What a wrong use of wgmma is told, each fault beside the right program, which runs."""

from __future__ import annotations

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, launch

FENCE = "wgmma.fence.sync.aligned;"
COMMIT = "wgmma.commit_group.sync.aligned;"
WAIT = "wgmma.wait_group.sync.aligned 0;"
D = "{%f0, %f1, %f2, %f3}"
A = "{%r20, %r21, %r22, %r23}"
MMA = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {D}, %da, %db, 0, 1, 1, 0, 0;"
MORE = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {D}, %da, %db, 1, 1, 1, 0, 0;"
FROM_A = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {D}, {A}, %db, 0, 1, 1, 0;"
FILL_A = "\n".join(f"mov.b32 %r{i}, 0;" for i in range(20, 24))
STORE = "st.global.f32 [%rd1], %f1;"
PROXY = "fence.proxy.async.shared::cta;"
FILL = """mul.lo.u32 %r5, %r1, 32; add.u32 %r5, %r2, %r5;
st.shared.v4.b32 [%r5], {%r6, %r6, %r6, %r6}; st.shared.v4.b32 [%r5+16], {%r6, %r6, %r6, %r6};"""


def kernel(body: str, fill: str = FILL, proxy: str = PROXY) -> str:
    return f""".version 8.6
.target sm_90a
.address_size 64
.shared .align 1024 .b8 buffer[4096];
.visible .entry k(.param .u64 p0)
{{
.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .f32 %f<16>; .reg .b32 %h<4>;
.reg .b64 %da; .reg .b64 %db;
ld.param.u64 %rd0, [p0];
mov.u32 %r1, %tid.x; mov.u32 %r2, buffer; mov.b32 %r6, 0x3f803f80;
setp.lt.u32 %p1, %r1, 64; setp.lt.u32 %p2, %r1, 128; setp.eq.u32 %p3, %r1, 5;
mul.wide.u32 %rd1, %r1, 4; add.s64 %rd1, %rd0, %rd1;
{fill}
{proxy}
bar.sync 0;
shr.u32 %r3, %r2, 4; cvt.u64.u32 %rd2, %r3;
or.b64 %da, %rd2, 0x0000001000080000;
or.b64 %db, %rd2, 0x0000001000080000;
{body}
ret;
}}
"""


def run(body: str, threads: int = 128, **parts: str) -> np.ndarray:
    out = np.zeros(threads, np.float32)
    launch(kernel(body, **parts), "k", 1, threads, [out])
    return out


def fault(body: str, threads: int = 128, **parts: str) -> EmulatorError:
    with pytest.raises(EmulatorError) as caught:
        run(body, threads, **parts)
    return caught.value


def test_the_right_program_runs():
    assert (run("\n".join((FENCE, MMA, MORE, COMMIT, WAIT, STORE))) == 32).all()
    body = "\n".join((FILL_A, FENCE, FROM_A, COMMIT, WAIT, "mov.b32 %r20, 1;", STORE))
    assert (run(body) == 0).all()


def line_of(body: str, statement: str, **parts: str) -> int:
    text = kernel(body, **parts)
    return text[: text.index(statement)].count("\n") + 1


@pytest.mark.parametrize("statement", [STORE, "mov.f32 %f2, 0f00000000;", "add.f32 %f9, %f3, %f3;"])
def test_accumulators_in_flight_are_out_of_bounds(statement):
    body = "\n".join((FENCE, MMA, COMMIT, statement, WAIT))
    error = fault(body)
    assert error.code == "CD-C2"
    assert error.ptx_line == line_of(body, statement)
    assert f"PTX line {line_of(body, MMA)}" in error.message
    run("\n".join((FENCE, MMA, COMMIT, WAIT, statement)))


def test_a_wait_that_is_too_shallow_is_found():
    two = (FENCE, MMA, COMMIT, MORE, COMMIT)
    error = fault("\n".join((*two, "wgmma.wait_group.sync.aligned 1;", STORE)))
    assert error.code == "CD-C2"
    assert (run("\n".join((*two, WAIT, STORE))) == 32).all()


def test_an_uncommitted_group_is_not_waited_for():
    error = fault("\n".join((FENCE, MMA, WAIT, STORE)))
    assert error.code == "CD-C2"
    assert "wgmma.commit_group and wgmma.wait_group" in error.message


def test_fragments_of_a_in_flight_are_out_of_bounds():
    error = fault("\n".join((FILL_A, FENCE, FROM_A, COMMIT, "mov.b32 %r20, 1;", WAIT)))
    assert error.code == "CD-C2"
    assert "A fragment" in error.message
    assert "%r20" in error.message


def test_an_accumulator_in_flight_is_no_fragment_of_a():
    halves = "wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 "
    first = f"{halves}{A}, %da, %db, 0, 1, 1, 0, 0;"
    second = f"{halves}{{%h0, %h1, %h2, %h3}}, {A}, %db, 0, 1, 1, 0;"
    assert fault("\n".join((FENCE, first, second))).code == "CD-C1"
    error = fault("\n".join((FENCE, first, COMMIT, FENCE, second)))
    assert error.code == "CD-C2"
    assert "A fragment is the accumulator" in error.message
    run("\n".join((FENCE, first, COMMIT, WAIT, FENCE, second, COMMIT, WAIT)))


def test_the_first_wgmma_needs_a_fence():
    error = fault("\n".join((MMA, COMMIT, WAIT)))
    assert error.code == "CD-C1"
    assert "before the first wgmma" in error.message


def test_registers_touched_since_the_fence_need_another():
    body = "\n".join((FENCE, MMA, COMMIT, WAIT, STORE, MORE, COMMIT, WAIT))
    error = fault(body)
    assert error.code == "CD-C1"
    assert f"PTX line {line_of(body, STORE)}" in error.message
    run("\n".join((FENCE, MMA, COMMIT, WAIT, STORE, FENCE, MORE, COMMIT, WAIT)))
    zero = "\n".join(f"mov.f32 %f{i}, 0f00000000;" for i in range(4))
    assert fault("\n".join((FENCE, zero, MORE, COMMIT, WAIT))).code == "CD-C1"
    assert fault("\n".join((FENCE, FILL_A, FROM_A, COMMIT, WAIT))).code == "CD-C1"


def test_another_shape_of_the_same_registers_needs_a_fence():
    wide = "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
    wide += ", ".join(f"%f{i}" for i in range(8)) + "}, %da, %db, 0, 1, 1, 0, 0;"
    error = fault("\n".join((FENCE, MMA, wide, COMMIT, WAIT)))
    assert error.code == "CD-C1"
    assert "shares registers" in error.message
    assert (run("\n".join((FENCE, MMA, FENCE, wide, COMMIT, WAIT, STORE))) == 16).all()


def test_ordinary_stores_need_a_proxy_fence():
    body = "\n".join((FENCE, MMA, COMMIT, WAIT))
    error = fault(body, proxy="")
    assert error.code == "CD-A2"
    assert "fence.proxy.async" in error.message
    early = fault(body, fill=PROXY + FILL, proxy="")
    assert early.code == "CD-A2"


def test_shared_memory_that_is_read_must_not_be_written():
    write = "st.shared.b32 [%r5], %r6;"
    error = fault("\n".join((FENCE, MMA, COMMIT, write, WAIT)))
    assert error.code == "CD-C3"
    assert "may still read" in str(error)
    body = "\n".join((FENCE, MMA, COMMIT, MORE, COMMIT, "wgmma.wait_group.sync.aligned 1;", write))
    assert fault(body).code == "CD-C3"
    run("\n".join((FENCE, MMA, COMMIT, WAIT, write)))


def test_memory_never_written_is_poison():
    body = "\n".join((FENCE, MMA, COMMIT, WAIT))
    run(body, fill="")
    error = fault("\n".join((body, STORE)), fill="")
    assert error.code == "CD-I3"
    # Thread 5 writes 4 bytes of row 0 of A and column 0 of B only.
    half = "@%p3 st.shared.b32 [%r2], %r6;"
    assert fault("\n".join((body, STORE)), fill=half).code == "CD-I3"


def test_an_accumulator_never_written_is_poison():
    error = fault("\n".join((FENCE, MORE, COMMIT, WAIT, STORE)))
    assert error.code == "CD-I4"


def test_all_threads_give_the_same_operands():
    odd = "@%p3 add.s64 %db, %db, 8;"
    error = fault("\n".join((odd, FENCE, MMA, COMMIT, WAIT)))
    assert error.code == "CD-C5"
    assert "descriptors of B" in error.message
    assert "(5, 0, 0)" in str(error)
    scaled = MMA.replace("%db, 0,", "%db, %p3,")
    assert "scale-d" in fault("\n".join((FENCE, scaled, COMMIT, WAIT))).message
    assert (run("\n".join((FENCE, MMA.replace("%db, 0,", "%db, %p2,"), COMMIT, WAIT))) == 0).all()


def test_four_warps_meet_at_the_same_instruction():
    body = f"""@%p1 bra LOW;
{FENCE}
bra MEET;
LOW:
{FENCE}
MEET:
{MMA}"""
    error = fault(body)
    assert error.code == "CD-C5"
    assert "warpgroup" in str(error)
    meeting = f"""{FENCE}
@%p1 bra MEET;
mov.u32 %r9, 1;
MEET:
{MMA}
{COMMIT}
{WAIT}
{STORE}"""
    assert (run(meeting) == 16).all()


def test_a_warp_that_has_exited_is_missed():
    error = fault("\n".join(("@%p1 exit;", FENCE, MMA)))
    assert error.code == "CD-C5"
    assert "exited" in error.message


def test_five_warps_are_one_warpgroup_and_a_warp():
    body = "\n".join((FENCE, MMA, COMMIT, WAIT, STORE))
    fill = FILL.replace("st.", "@%p2 st.")
    assert fault(body, 160, fill=fill).code == "CD-C6"
    out = run(f"@!%p2 bra DONE;\n{body}\nDONE:", 160, fill=fill)
    assert (out[:128] == 16).all()
    assert (out[128:] == 0).all()


def test_a_matrix_lies_inside_shared_memory():
    past = "add.s64 %db, %db, 256;"
    error = fault("\n".join((past, FENCE, MMA)))
    assert error.code == "CD-C7"
    assert "covers shared addresses" in error.message
    before = "sub.s64 %da, %da, 64;"
    assert fault("\n".join((before, FENCE, MMA))).code == "CD-C7"


def test_reserved_bits_of_a_descriptor_are_zero():
    bad = "or.b64 %da, %da, 0x8000;"
    assert fault("\n".join((bad, FENCE, MMA))).code == "CD-F2"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (MMA.replace("m64n8k16", "m64n12k16"), "m64n12k16"),
        (MMA.replace("m64n8k16", "m64n8k32"), "expected k16"),
        (MMA.replace("bf16.bf16", "bf16.f16"), "operand types"),
        (MMA.replace("f32.bf16", "f16.bf16"), "operand types"),
        (MMA.replace(".f32", ".satfinite.f32"), "unknown combination"),
        (MMA.replace(", 0, 0;", ", 0;"), "expected 8 operands, got 7"),
        (MMA.replace("0, 1, 1", "0, 2, 1"), "expected -1 or 1 as imm-scale-a"),
        (MMA.replace("1, 0, 0;", "1, 0, 2;"), "expected 0 or 1 as imm-trans-b"),
        (MMA.replace("%f3}", "%f2}"), "distinct"),
        (MMA.replace(", %f3}", "}"), "expected 4 registers as D, got 3"),
        (MMA.replace("%da", "%r20"), "64-bit descriptor"),
        (MMA.replace("mma_async.sync", "mma_async.sp.sync"), "sparse"),
        ("wgmma.wait_group.sync.aligned %r1;", "constant count"),
        ("wgmma.fence.aligned;", "expected .sync.aligned"),
    ],
)
def test_unknown_forms_are_refused(statement, message):
    error = fault(statement)
    assert error.code in ("CD-PTX", "CD-UNSUPPORTED")
    assert message in error.message


def test_what_nobody_waits_for_is_noted():
    out = np.zeros(128, np.float32)
    report = launch(kernel("\n".join((FENCE, MMA, COMMIT))), "k", 1, 128, [out])
    assert report.notes == ["1 wgmma instructions were never waited for"]
