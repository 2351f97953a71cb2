"""Tensor memory: every shape of tcgen05.ld and st, copies from shared memory, shifts, allocation,
and the faults of section D of the catalogue, each beside its repaired twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, launch

COLUMNS = 128


def text(body: str, params: str = "", registers: str = "", threads: int = 128) -> str:
    """``body`` runs with ``%a`` (the allocation of warp 0), ``%w`` (this warp's lanes of it),
    ``%tid``, ``%warp`` and ``%first`` (true in thread 0), and an mbarrier ``bar``."""
    return f""".version 8.8
.target sm_103a
.address_size 64
.visible .entry k({params})
{{
.reg .pred %p<8>, %first, %lead; .reg .b64 %rd<16>;
.reg .b32 %r<64>, %v<128>, %a, %w, %tid, %warp;
{registers}
.shared .align 8 .b64 bar; .shared .align 4 .b32 slot; .shared .align 1024 .b8 data[16384];
mov.u32 %tid, %tid.x; shr.u32 %warp, %tid, 5;
setp.eq.u32 %first, %tid, 0; setp.eq.u32 %lead, %warp, 0;
@%lead tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {COLUMNS};
@%first mbarrier.init.shared.b64 [bar], 1;
@%first fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.shared.b32 %a, [slot];
and.b32 %r0, %warp, 3; shl.b32 %r0, %r0, 21; add.u32 %w, %a, %r0;
{body}
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
@%lead tcgen05.dealloc.cta_group::1.sync.aligned.b32 %a, {COLUMNS};
ret;
}}
"""


def vector(count: int, first: int = 0) -> str:
    return "{" + ", ".join(f"%v{first + i}" for i in range(count)) + "}"


REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
HALF = 40


def place(shape: str, thread: int, i: int) -> tuple[int, int]:
    """Lane and column of register i of a thread: CUTLASS's copy traits, written out."""
    t0, t1, t2 = thread & 1, thread >> 1 & 1, thread >> 2
    return {
        "32x32b": (thread, i),
        "16x64b": (t2 + 8 * t0, t1 + 2 * i),
        "16x128b": (t2 + 8 * (i & 1), (thread & 3) + 4 * (i >> 1)),
        "16x256b": (t2 + 8 * (i >> 1 & 1), 2 * (thread & 3) + (i & 1) + 8 * (i >> 2)),
        "16x32bx2": (thread & 15, i + HALF * (thread >> 4)),
    }[shape]


CASES = [(shape, n) for shape in REGISTERS for n in (1, 2, 8, 32) if n * REGISTERS[shape] <= 64
         and (shape != "16x32bx2" or n <= 32)]  # fmt: skip


@pytest.mark.some(19)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("shape", "times"), CASES)
def test_loads_and_stores(shape: str, times: int, packed: bool) -> None:
    """``st`` writes to the places of the manual, and ``ld`` gives the values back."""
    count = times * REGISTERS[shape]
    if packed and count > 20:
        return
    half = f", {HALF}" if shape == "16x32bx2" else ""
    pack, unpack = (".pack::16b", ".unpack::16b") if packed else ("", "")
    upper = shape != "32x32b"
    offset = 16 << 16 if upper else 0
    body = f"""
ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %tid, 1024; add.s64 %rd0, %rd0, %rd1;
mov.b32 %v127, 0;
tcgen05.wait::st.sync.aligned;
add.u32 %r1, %w, {offset};
""" + "\n".join(f"mad.lo.u32 %v{i}, %tid, 1000, {7 * i + 65536 * 3 * i};" for i in range(count))
    body += f"""
tcgen05.st.sync.aligned.{shape}.x{times}{unpack}.b32 [%r1]{half}, {vector(count)};
tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.{shape}.x{times}{pack}.b32 {vector(count, 64)}, [%r1]{half};
tcgen05.wait::ld.sync.aligned;
"""
    body += "\n".join(f"st.global.b32 [%rd0+{4 * i}], %v{64 + i};" for i in range(count))
    zero = "\n".join(
        f"tcgen05.st.sync.aligned.32x32b.x16.b32 [%w+{c}], {{{', '.join(['%v127'] * 16)}}};"
        for c in range(0, COLUMNS, 16)
    )
    body = "mov.b32 %v127, 0;\n" + zero + "\ntcgen05.wait::st.sync.aligned;\n" + body
    every = "\n".join(
        f"tcgen05.ld.sync.aligned.32x32b.x16.b32 {vector(16)}, [%w+{c}];\n"
        "tcgen05.wait::ld.sync.aligned;\n"
        + "\n".join(f"st.global.b32 [%rd0+{512 + 4 * (c + i)}], %v{i};" for i in range(16))
        for c in range(0, COLUMNS, 16)
    )
    out = np.zeros((128, 256), np.uint32)
    report = launch(text(body + "\n" + every, ".param .u64 out"), "k", 1, 128, [out])
    assert report.notes == []
    expected = np.zeros((128, COLUMNS), np.uint32)
    for tid in range(128):
        for i in range(count):
            lane, column = place(shape, tid % 32, i)
            value = tid * 1000 + 7 * i + 65536 * 3 * i
            lane += tid // 32 * 32 + (16 if upper else 0)
            if packed:
                start = HALF * (tid % 32 >> 4) if shape == "16x32bx2" else 0
                expected[lane, start + 2 * (column - start)] = value & 0xFFFF
                expected[lane, start + 2 * (column - start) + 1] = value >> 16
            else:
                expected[lane, column] = value
            assert out[tid, i] == value
    np.testing.assert_array_equal(out[:, 128:], expected)


@pytest.mark.parametrize("operation", ["min", "max"])
def test_reducing_load(operation: str) -> None:
    body = """
ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %tid, 4; add.s64 %rd0, %rd0, %rd1;
""" + "\n".join(f"mad.lo.s32 %v{i}, %tid, {3 - i}, {i};" for i in range(8)) + f"""
tcgen05.st.sync.aligned.32x32b.x8.b32 [%w], {vector(8)};
tcgen05.wait::st.sync.aligned;
tcgen05.ld.red.sync.aligned.32x32b.x8.{operation}.s32 {vector(8, 16)}, %r9, [%w];
tcgen05.wait::ld.sync.aligned;
st.global.b32 [%rd0], %r9;
"""  # fmt: skip
    out = np.zeros(128, np.int32)
    launch(text(body, ".param .u64 out"), "k", 1, 128, [out])
    values = np.arange(128)[:, None] * (3 - np.arange(8)) + np.arange(8)
    np.testing.assert_array_equal(out, values.min(1) if operation == "min" else values.max(1))


# Copies from shared memory.

COPIES = {
    "128x256b": (128, 8, lambda r: [r]),
    "4x256b": (4, 8, lambda r: [32 * r]),
    "128x128b": (128, 4, lambda r: [r]),
    "64x128b.warpx2::02_13": (64, 4, lambda r: [r, r + 64]),
    "64x128b.warpx2::01_23": (
        64, 4, lambda r: [r % 32 + 64 * (r // 32), r % 32 + 64 * (r // 32) + 32]
    ),
    "32x128b.warpx4": (32, 4, lambda r: [r, r + 32, r + 64, r + 96]),
}  # fmt: skip

ISSUE = """
@!%first bra ISSUED;
{0}
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
ISSUED:
WAIT:
mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
@!%p1 bra WAIT;
tcgen05.fence::after_thread_sync;
"""

FILL = """
ld.param.u64 %rd2, [image]; mul.wide.u32 %rd3, %tid, 128; add.s64 %rd2, %rd2, %rd3;
mov.u32 %r3, data; mad.lo.u32 %r4, %tid, 128, %r3;
""" + "\n".join(
    f"ld.global.b32 %r5, [%rd2+{4 * i}]; st.shared.b32 [%r4+{4 * i}], %r5;" for i in range(32)
) + """
fence.proxy.async.shared::cta;
shr.u32 %r6, %r3, 4; cvt.u64.u32 %rd4, %r6;
ld.param.u64 %rd5, [descriptor]; add.s64 %rd5, %rd5, %rd4;
bar.sync 0;
"""  # fmt: skip

DRAIN = f"""
ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %tid, 64; add.s64 %rd0, %rd0, %rd1;
tcgen05.ld.sync.aligned.32x32b.x16.b32 {vector(16)}, [%w];
tcgen05.wait::ld.sync.aligned;
""" + "\n".join(f"st.global.b32 [%rd0+{4 * i}], %v{i};" for i in range(16))

CLEAR = (
    "mov.b32 %v127, 0;\n"
    + f"tcgen05.st.sync.aligned.32x32b.x16.b32 [%w], {{{', '.join(['%v127'] * 16)}}};\n"
    + "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n"
    + "tcgen05.fence::after_thread_sync;\n"
)
PARAMS = ".param .u64 image, .param .u64 out, .param .u64 descriptor"


def copied(operation: str, image: np.ndarray, descriptor: int) -> np.ndarray:
    out = np.zeros((128, 16), np.uint32)
    body = FILL + CLEAR + ISSUE.format(operation) + DRAIN
    report = launch(text(body, PARAMS), "k", 1, 128, [image, out, np.uint64(descriptor)])
    assert report.notes == []
    return out


@pytest.mark.parametrize("shape", COPIES)
def test_copies(shape: str) -> None:
    """The source is K-major in core matrices of 8 rows by 16 bytes: rows 16 bytes apart, groups of
    8 rows SBO, the two halves of a 256-bit row LBO."""
    rows, words, lanes = COPIES[shape]
    image = np.random.default_rng(2).integers(0, 1 << 32, 4096).astype(np.uint32)
    out = copied(f"tcgen05.cp.cta_group::1.{shape} [%a+4], %rd5;", image,
                 8192 >> 4 << 16 | 128 >> 4 << 32 | 1 << 46)  # fmt: skip
    expected = np.zeros((128, 16), np.uint32)
    for row in range(rows):
        for word in range(words):
            at = row % 8 * 16 + row // 8 * 128 + word // 4 * 8192 + word % 4 * 4
            for lane in lanes(row):
                expected[lane, 4 + word] = image[at // 4]
    np.testing.assert_array_equal(out, expected)


def test_copies_may_unpack() -> None:
    image = np.random.default_rng(2).integers(0, 1 << 32, 4096).astype(np.uint32)
    out = copied("tcgen05.cp.cta_group::1.32x128b.warpx4.b8x16.b4x16_p64 [%a], %rd5;", image,
                 128 >> 4 << 32 | 1 << 46)  # fmt: skip
    raw = image.view(np.uint8)
    for row in range(32):
        source = raw[row % 8 * 16 + row // 8 * 128 :][:8]
        codes = np.stack((source & 15, source >> 4), axis=1).reshape(-1)
        np.testing.assert_array_equal(out[row, :4].view(np.uint8), codes << 2)


def test_shift() -> None:
    """Each of the 32 rows but the last moves one lane up, eight columns wide."""
    image = np.random.default_rng(2).integers(0, 1 << 32, 4096).astype(np.uint32)
    copy = "tcgen05.cp.cta_group::1.128x256b [%a], %rd5;\n"
    at = 8192 >> 4 << 16 | 128 >> 4 << 32 | 1 << 46
    before = copied(copy, image, at)
    shift = "add.u32 %r8, %a, 0x200000;\ntcgen05.shift.cta_group::1.down [%r8];"
    after = copied(copy + shift, image, at)
    expected = before.copy()
    expected[33:64, :8] = before[32:63, :8]
    np.testing.assert_array_equal(after, expected)


# Faults, each with its twin.


def fails(body: str, code: str, line_of: str, match: str = "expected", **more: Any) -> None:
    """``body`` is refused with ``code`` at the line that contains ``line_of``."""
    source = text(body, **more)
    with pytest.raises(EmulatorError, match=match) as error:
        launch(source, "k", 1, 128, [])
    assert error.value.code == code, error.value
    assert error.value.ptx_line is not None
    assert line_of in source.splitlines()[error.value.ptx_line - 1], error.value


def passes(body: str, notes: int = 0, **more: Any) -> list[str]:
    report = launch(text(body, **more), "k", 1, 128, [])
    assert len(report.notes) == notes, report.notes
    return report.notes


STORE = "mov.b32 %v0, 5;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%w], {%v0};\n"
DONE = "tcgen05.wait::st.sync.aligned;\n"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v1}, [%w];\n"
LOADED = "tcgen05.wait::ld.sync.aligned;\n"


def test_d1_columns_are_given_back() -> None:
    source = text("")
    launch(source, "k", 1, 128, [])
    broken = "\n".join(line for line in source.splitlines() if "dealloc" not in line)
    with pytest.raises(EmulatorError, match="exits with 128 columns") as error:
        launch(broken, "k", 1, 128, [])
    assert error.value.code == "CD-D1"
    assert "tcgen05.alloc" in str(error.value.instruction)


ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {0};\n"
FREE = "@%lead tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, {0};\n"
NEXT = "@%lead " + ALLOC + "bar.sync 0;\nld.shared.b32 %r10, [slot];\n"


def test_d2_allocations() -> None:
    passes(NEXT.format(64) + FREE.format(64))
    passes("@%lead tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n")
    fails("mov.u32 %r1, 48;\n@%lead " + ALLOC.format("%r1"), "CD-D2", "%r1;", "power of two")
    fails("@%lead " + ALLOC.format(256), "CD-D2", "256", "not to grow")
    fails("@%lead tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n@%lead "
          + ALLOC.format(32), "CD-D2", "32;", "relinquish")  # fmt: skip


def test_d2_an_allocation_waits_for_room() -> None:
    three = "".join(f"@%lead {ALLOC.format(128)}bar.sync 0;\nld.shared.b32 %r{10 + i}, [slot];\n"
                    "bar.sync 0;\n" for i in range(3))  # fmt: skip
    free = "".join(
        f"@%lead tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r{10 + i}, 128;\n" for i in range(3)
    )
    passes(three + free)
    # Warp 1 waits until warp 0 has given columns back.
    later = """
setp.ne.u32 %p2, %warp, 1;
@%p2 bra OTHERS;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;
ld.shared.b32 %r20, [slot];
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 128;
bra JOINED;
OTHERS:
"""
    passes(three + later + free + "JOINED:\n")
    fails(three + "@%lead " + ALLOC.format(128), "CD-D2", "tcgen05.alloc", "hang")


def test_d3_deallocations() -> None:
    fails("@%lead tcgen05.dealloc.cta_group::1.sync.aligned.b32 %a, 64;", "CD-D3", "%a, 64",
          "128 at column 0")  # fmt: skip
    fails("add.u32 %r1, %a, 32;\n@%lead tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 128;",
          "CD-D3", "%r1, 128")  # fmt: skip


def test_d3_columns_in_use_are_not_given_back() -> None:
    passes(STORE + DONE)
    source = text(STORE)
    with pytest.raises(EmulatorError, match="given back") as error:
        launch(source, "k", 1, 128, [])
    assert error.value.code == "CD-D3"
    assert "dealloc" in str(error.value.instruction)


def test_d6_stores_are_waited_for() -> None:
    passes(STORE + DONE + LOAD + LOADED)
    fails(STORE + LOAD + LOADED + DONE, "CD-D6", "tcgen05.ld", "wait::st")


def test_d6_loads_are_waited_for() -> None:
    use = "add.u32 %r1, %v1, 1;\n"
    passes(STORE + DONE + LOAD + LOADED + use)
    (note,) = passes(STORE + DONE + LOAD + use + LOADED, 1)
    assert note.startswith("CD-D6")
    assert "add.u32 uses %v1" in note
    fails(STORE + DONE + LOAD + STORE, "CD-D6", "tcgen05.st", "wait::ld")


def test_d8_lane_windows() -> None:
    passes(STORE + DONE)
    fails("mov.b32 %v0, 5;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%a], {%v0};\n", "CD-D8",
          "tcgen05.st", "lane 32, got lane 0")  # fmt: skip
    upper = "tcgen05.st.sync.aligned.16x64b.x1.b32 [%r1], {%v0};\n"
    fails("mov.b32 %v0, 5;\nadd.u32 %r1, %w, 0x80000;\n" + upper, "CD-D8", "tcgen05.st")


def test_d11_columns_of_one_allocation() -> None:
    fails("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%v0, %v1}, [%w+127];", "CD-D11", "x2.b32",
          "columns 127 to 128")  # fmt: skip
    fails("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%w+200];", "CD-D11", "x1.b32",
          "not allocated")  # fmt: skip


def test_memory_never_written_is_poison() -> None:
    body = LOAD + LOADED + "ld.param.u64 %rd0, [out];\nst.global.b32 [%rd0], %v1;\n"
    with pytest.raises(EmulatorError, match="tensor memory that was never written"):
        launch(text(body, ".param .u64 out"), "k", 1, 128, [np.zeros(1, np.uint32)])


# K-major operands of 8 rows groups 128 bytes apart, chunks along K 2048: all in ``data``.
OPERANDS = """
mov.u32 %r3, data; shr.u32 %r6, %r3, 4; cvt.u64.u32 %rd4, %r6;
or.b64 %rd4, %rd4, 0x0000400800800000;
mov.b32 %r7, 0x08080010; setp.ne.u32 %p3, %tid, 5000;
""" + "mad.lo.u32 %r4, %tid, 128, %r3; mov.b32 %r5, 0;\n" + "\n".join(
    f"st.shared.b32 [%r4+{4 * i}], %r5;" for i in range(32)
) + "\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"  # fmt: skip
MULTIPLY = "@%first tcgen05.mma.cta_group::1.kind::f16 [%a], %rd4, %rd4, %r7, %p4;\n"
CLEARED = "setp.ne.u32 %p4, %tid, %tid;\n"
COMMIT = "@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
AWAIT = "W: mbarrier.try_wait.parity{0}.shared.b64 %p1, [bar], 0;\n@!%p1 bra W;\n"
AFTER = "tcgen05.fence::after_thread_sync;\n"
BEFORE = "tcgen05.fence::before_thread_sync;\n"


def test_d5_products_are_waited_for() -> None:
    start = OPERANDS + CLEARED + MULTIPLY + COMMIT
    end = AFTER + LOAD + LOADED
    passes(start + AWAIT.format("") + end)
    fails(start + end, "CD-D5", "tcgen05.ld", "tcgen05.commit to an mbarrier")
    # Another thread's wait is not enough without a signal from it.
    half = "@!%first bra NOT;\n" + AWAIT.format("") + "NOT:\n"
    fails(start + half + end, "CD-D5", "tcgen05.ld")
    passes(start + half + BEFORE + "bar.sync 0;\n" + end)


def test_d5_a_commit_covers_the_thread_that_commits() -> None:
    other = "setp.eq.u32 %p5, %tid, 1;\n" + COMMIT.replace("%first", "%p5")
    fails(OPERANDS + CLEARED + MULTIPLY + other + AWAIT.format("") + AFTER + LOAD, "CD-D5",
          "tcgen05.ld")  # fmt: skip


def test_d7_fences_around_relaxed_signals() -> None:
    start = OPERANDS + CLEARED + MULTIPLY + COMMIT
    relaxed = AWAIT.format(".relaxed.cta")
    passes(start + relaxed + AFTER + LOAD + LOADED)
    fails(start + relaxed + LOAD + LOADED, "CD-D7", "tcgen05.ld", "after_thread_sync")
    # With an acquire the manual's memory model orders them too: a note.
    (note,) = passes(start + AWAIT.format("") + LOAD + LOADED, 1)
    assert note.startswith("CD-D7")
    assert "tcgen05.ld" in note


def test_d7_the_tensor_core_follows_stores() -> None:
    def body(before: str, middle: str, after: str) -> str:
        first = OPERANDS + CLEARED + STORE + DONE + before + middle + after
        return first + MULTIPLY + COMMIT + AWAIT.format("") + AFTER + LOAD + LOADED

    passes(body(BEFORE, "bar.sync 0;\n", AFTER))
    for before, after in (("", AFTER), (BEFORE, "")):
        notes = passes(body(before, "bar.sync 0;\n", after), 1)
        assert "tcgen05.mma" in notes[0]
    fails(body(BEFORE, "", AFTER), "CD-D7", "tcgen05.mma", "nothing orders the two")


def test_d6_the_tensor_core_does_not_overwrite_what_is_being_loaded() -> None:
    first = OPERANDS + CLEARED + MULTIPLY + COMMIT + AWAIT.format("") + AFTER + LOAD
    again = BEFORE + "bar.sync 0;\n" + AFTER + MULTIPLY + COMMIT
    again += "V: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 1;\n@!%p1 bra V;\n" + AFTER
    passes(first + LOADED + again)
    fails(first + again, "CD-D6", "tcgen05.mma", "wait::ld")


def test_b7_operands_are_not_overwritten_before_the_commit() -> None:
    start = OPERANDS + CLEARED + MULTIPLY + COMMIT
    write = "st.shared.b32 [%r4], %r5;\n"
    passes(start + AWAIT.format("") + write)
    fails(start + write, "CD-B7", "st.shared", "may still read")


def test_a2_operands_are_fenced() -> None:
    fails(OPERANDS.replace("fence.proxy.async.shared::cta;", "") + CLEARED + MULTIPLY, "CD-A2",
          "tcgen05.mma", "fence.proxy.async")  # fmt: skip


def test_b11_instructions_end_before_the_exit() -> None:
    fails(OPERANDS + CLEARED + MULTIPLY, "CD-D3", "dealloc", "given back")


def test_d9_one_cta_group_in_a_kernel() -> None:
    fails("@%lead tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;", "CD-D9", "alloc",
          "same .cta_group")  # fmt: skip


def test_accumulators_never_written_stay_poison() -> None:
    start = OPERANDS + "setp.eq.u32 %p4, %tid, %tid;\n" + MULTIPLY + COMMIT + AWAIT.format("")
    body = AFTER + LOAD + LOADED + "ld.param.u64 %rd0, [out];\nst.global.b32 [%rd0], %v1;\n"
    with pytest.raises(EmulatorError, match="tensor memory that was never written"):
        launch(text(start + body, ".param .u64 out"), "k", 1, 128, [np.zeros(1, np.uint32)])
