"""What the ops of tensor memory become, and that ptxas takes it for each target that has it."""

from __future__ import annotations

import textwrap

import pytest

KERNEL = """
!matrix = !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
ptx.kernel @k(%as: b64, %bs: b64, %t: b32, %s: b32, %x: b32, %h: b16) attributes {{
  target = "{target}", threads = 128 : i32
}} {{
  %zero = ptx.imm 0 : b32
  %p = ptx.setp "ne.s32" %x, %zero : (b32, b32) -> pred
  %r = ptx.regs : !ptx.regs<f32 x 32>
  %a = ptx.smem_desc %as : !matrix
  %b = ptx.smem_desc %bs : !matrix
  {ops}
}}
"""

CASES = [
    (
        "ptx.tcgen05.alloc [%s + 8], 128, 1\nptx.tcgen05.relinquish_alloc_permit 1",
        [
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0+8], 128;",
            "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
        ],
    ),
    ("ptx.tcgen05.dealloc %t, 64, 2", ["tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r0, 64;"]),
    (
        'ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %a, %b enable %p {idesc = 136314896, '
        "d = array<i64: 0, 0>, a = array<i64: 0, 2>, b = array<i64: 0, 4>, "
        "scale = array<i64: 0, -1>} : !matrix, !matrix",
        [
            "mov.b32 %r2, 0x8200010;",
            "add.s64 %rd4, %rd2, 2;",
            "add.s64 %rd5, %rd3, 4;",
            "setp.eq.u32 %p1, 0, 0;",
            "tcgen05.mma.cta_group::1.kind::f16 [%r0], %rd2, %rd3, %r2, %p0;",
            "tcgen05.mma.cta_group::1.kind::f16 [%r0], %rd4, %rd5, %r2, %p1;",
        ],
    ),
    (
        'ptx.tcgen05.mma "cta_group::2.kind::mxf8f6f4.block_scale.block32", %t, %t, %b factors '
        "%s, %x {idesc = 278921216, d = array<i64: 64>, a = array<i64: 128>, "
        "b = array<i64: 0>} : !ptx.reg<b32>, !matrix",
        [
            "mov.b32 %r3, 0x10a00000;",
            "setp.eq.u32 %p1, 0, 0;",
            "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.block32 [%r0+64], [%r0+128], "
            "%rd3, %r3, [%r1], [%r2], %p1;",
        ],
    ),
    (
        "ptx.tcgen05.commit [%s + 16], 2 multicast %h if %p",
        [
            "@%p0 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
            ".multicast::cluster.b64 [%r0+16], %rs0;"
        ],
    ),
    (
        'ptx.tcgen05.ld "sync.aligned.16x256b.x1.b32", %r, %t {registers = array<i64: 0, 4>, '
        "addends = array<i64: 0, 1048576>} : !ptx.regs<f32 x 32>\nptx.tcgen05.wait_ld",
        [
            "tcgen05.ld.sync.aligned.16x256b.x1.b32 {%f0, %f1, %f2, %f3}, [%r0];",
            "tcgen05.ld.sync.aligned.16x256b.x1.b32 {%f4, %f5, %f6, %f7}, [%r0+1048576];",
            "tcgen05.wait::ld.sync.aligned;",
        ],
    ),
    (
        'ptx.tcgen05.st "sync.aligned.32x32b.x2.unpack::16b.b32", %t, %r {registers = '
        "array<i64: 2>, addends = array<i64: 8>} : !ptx.regs<f32 x 32>\nptx.tcgen05.wait_st",
        [
            "tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [%r0+8], {%f2, %f3};",
            "tcgen05.wait::st.sync.aligned;",
        ],
    ),
    (
        'ptx.tcgen05.cp "cta_group::1.32x128b.warpx4", %t, %a : !matrix',
        ["tcgen05.cp.cta_group::1.32x128b.warpx4 [%r0], %rd2;"],
    ),
    (
        'ptx.tcgen05.fence "before_thread_sync"\nptx.tcgen05.fence "after_thread_sync"',
        ["tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"],
    ),
]


@pytest.mark.parametrize(("ops", "expected"), CASES, ids=[case[0].split()[0] for case in CASES])
def test_lines(ops, expected, parse, assembled):
    text = assembled(parse(KERNEL.format(target="sm_100a", ops=ops)), "sm_100a")
    lines = [line.split("//")[0].strip() for line in text.splitlines()]
    start = lines.index(expected[0])
    assert lines[start : start + len(expected)] == expected


@pytest.mark.parametrize("target", ["sm_100a", "sm_100f", "sm_103a"])
def test_every_target_takes_them(target, parse, assembled):
    for group in "12":
        ops = "\n".join(ops for ops, _ in CASES)
        ops = ops.replace("cta_group::1", "cta_group::2") if group == "2" else ops.replace(
            "cta_group::2", "cta_group::1")  # fmt: skip
        for op in ("128, ", "permit ", "64, ", "16], "):
            ops = ops.replace(f"{op}{3 - int(group)}", f"{op}{group}")
        assembled(parse(KERNEL.format(target=target, ops=textwrap.indent(ops, "  "))), target)


@pytest.mark.parametrize("group", [1, 2])
def test_lanes_that_a_multiply_leaves_as_they_are(group, parse, assembled):
    masks = ", ".join(["%s, %x"] * 2 * group)
    ops = (
        f'ptx.tcgen05.mma "cta_group::{group}.kind::f16", %t, %a, %b masks {masks} '
        "{idesc = 136314896, d = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>} "
        ": !matrix, !matrix"
    )
    text = assembled(parse(KERNEL.format(target="sm_100a", ops=ops)), "sm_100a")
    words = ", ".join(["%r1, %r2"] * 2 * group)
    assert f"[%r0], %rd2, %rd3, %r3, {{{words}}}, %p" in text


def test_a_load_that_reduces(parse, assembled):
    ops = """%m = ptx.regs : !ptx.regs<f32 x 2>
  ptx.tcgen05.ld "red.sync.aligned.32x32b.x2.max.f32", %r, %t reduced %m {
    registers = array<i64: 0, 2>, addends = array<i64: 0, 2>
  } : !ptx.regs<f32 x 32>, !ptx.regs<f32 x 2>
  ptx.tcgen05.wait_ld"""
    text = assembled(parse(KERNEL.format(target="sm_103a", ops=ops)), "sm_103a")
    head = "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32"
    assert f"{head} {{%f0, %f1}}, %f32, [%r0];" in text
    assert f"{head} {{%f2, %f3}}, %f33, [%r0+2];" in text
