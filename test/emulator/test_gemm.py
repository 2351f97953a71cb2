"""A whole kernel: 256 x 256 x 256 in f16 with 128 x 128 x 32 tiles, two stages of cp.async,
swizzled shared memory, ldmatrix and mma.sync; exact on small integers, without a bank conflict.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, launch

SIZE = 256
ROW = 2 * SIZE


def loads(stage: str) -> list[str]:
    lines: list[str] = []
    for i in range(4):
        for pointer, base in (("%rd4", 0), ("%rd5", 8192)):
            lines.append(f"add.s64 %rd10, {pointer}, {32 * i * ROW};")
            target = base + 2048 * i
            lines.append(f"cp.async.cg.shared.global [{stage}+{target}], [%rd10], 16;")
    advance = "add.s64 %rd4, %rd4, 64; add.s64 %rd5, %rd5, 64;"
    return [*lines, "cp.async.commit_group;", advance]


def fragment(row: str, step: int, chunk: str, kk: int, offset: int, first: int) -> str:
    """ldmatrix of four matrices; 16-byte chunk c of row r lies at c ^ (r / 2 % 4)."""
    names = ", ".join(f"%r{first + i}" for i in range(4))
    return f"""add.u32 %r40, {row}, {step}; add.u32 %r41, {chunk}, {2 * kk};
        shr.u32 %r42, %r40, 1; and.b32 %r42, %r42, 3; xor.b32 %r41, %r41, %r42;
        shl.b32 %r40, %r40, 6; shl.b32 %r41, %r41, 4; add.u32 %r40, %r40, %r41;
        add.u32 %r40, %r40, %r34;
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{names}}}, [%r40+{offset}];"""


def gemm_text(wait: int = 1) -> str:
    """A (M, K) and B (N, K) row-major, C (M, N) f32; 4 warps of 64 x 64."""
    body = [
        """.version 8.0
        .target sm_80
        .address_size 64
        .visible .entry gemm(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 pk)
        {
        .reg .pred %p<3>; .reg .b32 %r<300>; .reg .b64 %rd<30>; .reg .f32 %f<130>;
        .shared .align 128 .b8 sm[32768];
        ld.param.u64 %rd1, [pa]; ld.param.u64 %rd2, [pb]; ld.param.u64 %rd3, [pc];
        ld.param.u32 %r1, [pk];
        mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, sm;
        shr.u32 %r6, %r2, 5; and.b32 %r7, %r2, 31; and.b32 %r8, %r6, 1; shr.u32 %r9, %r6, 1;
        shr.u32 %r10, %r2, 2; and.b32 %r11, %r2, 3;
        shr.u32 %r12, %r10, 1; and.b32 %r12, %r12, 3; xor.b32 %r12, %r11, %r12;
        shl.b32 %r13, %r10, 6; shl.b32 %r14, %r12, 4; add.u32 %r13, %r13, %r14;
        add.u32 %r13, %r13, %r5; shl.b32 %r16, %r11, 3;
        shl.b32 %r15, %r3, 7; add.u32 %r15, %r15, %r10; mad.lo.u32 %r15, %r15, %r1, %r16;
        mul.wide.u32 %rd4, %r15, 2; add.s64 %rd4, %rd4, %rd1;
        shl.b32 %r17, %r4, 7; add.u32 %r17, %r17, %r10; mad.lo.u32 %r17, %r17, %r1, %r16;
        mul.wide.u32 %rd5, %r17, 2; add.s64 %rd5, %rd5, %rd2;
        and.b32 %r21, %r7, 15; shr.u32 %r22, %r7, 4; shl.b32 %r23, %r8, 6;
        add.u32 %r23, %r23, %r21; shl.b32 %r26, %r9, 6; and.b32 %r27, %r7, 7;
        shl.b32 %r28, %r22, 3; add.u32 %r26, %r26, %r27; add.u32 %r26, %r26, %r28;
        shr.u32 %r29, %r7, 3; and.b32 %r29, %r29, 1; mov.u32 %r20, 0;""",
        *(f"mov.f32 %f{i}, 0f00000000;" for i in range(128)),
        *loads("%r13"),
        """LOOP: add.u32 %r30, %r20, 1; shl.b32 %r31, %r30, 5;
        setp.ge.u32 %p1, %r31, %r1; @%p1 bra LAST;
        and.b32 %r32, %r30, 1; shl.b32 %r32, %r32, 14; add.u32 %r33, %r13, %r32;""",
        *loads("%r33"),
        f"cp.async.wait_group {wait}; bra GO; LAST: cp.async.wait_group 0; GO: bar.sync 0;",
        "and.b32 %r34, %r20, 1; shl.b32 %r34, %r34, 14; add.u32 %r34, %r34, %r5;",
    ]
    for kk in range(2):
        body += [fragment("%r23", 16 * i, "%r22", kk, 0, 100 + 4 * i) for i in range(4)]
        body += [fragment("%r26", 16 * i, "%r29", kk, 8192, 200 + 4 * i) for i in range(4)]
        for mi in range(4):
            for nj in range(8):
                c = ", ".join(f"%f{(8 * mi + nj) * 4 + i}" for i in range(4))
                a = ", ".join(f"%r{100 + 4 * mi + i}" for i in range(4))
                b = ", ".join(f"%r{200 + 4 * (nj // 2) + 2 * (nj % 2) + i}" for i in range(2))
                body.append(
                    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                    f"{{{c}}}, {{{a}}}, {{{b}}}, {{{c}}};"
                )
    body.append(
        f"""bar.sync 0; add.u32 %r20, %r20, 1; shl.b32 %r31, %r20, 5;
        setp.lt.u32 %p2, %r31, %r1; @%p2 bra LOOP;
        shr.u32 %r50, %r7, 2; and.b32 %r51, %r7, 3; shl.b32 %r52, %r3, 7; shl.b32 %r53, %r8, 6;
        add.u32 %r52, %r52, %r53; add.u32 %r52, %r52, %r50; shl.b32 %r54, %r4, 7;
        shl.b32 %r55, %r9, 6; add.u32 %r54, %r54, %r55; shl.b32 %r51, %r51, 1;
        add.u32 %r54, %r54, %r51; mad.lo.u32 %r56, %r52, {SIZE}, %r54;
        mul.wide.u32 %rd20, %r56, 4; add.s64 %rd20, %rd20, %rd3;"""
    )
    for mi in range(4):
        for nj in range(8):
            first = (8 * mi + nj) * 4
            for half in range(2):
                at = ((16 * mi + 8 * half) * SIZE + 8 * nj) * 4
                pair = f"%f{first + 2 * half}, %f{first + 2 * half + 1}"
                body.append(f"st.global.v2.f32 [%rd20+{at}], {{{pair}}};")
    return "\n".join([*body, "ret; }"])


@pytest.mark.parametrize("seed", [0, 1])
def test_gemm_is_exact_fast_and_free_of_conflicts(rng, seed):
    a = rng.integers(-3, 4, (SIZE, SIZE)).astype(np.float16)
    b = rng.integers(-3, 4, (SIZE, SIZE)).astype(np.float16)
    c = np.zeros((SIZE, SIZE), np.float32)
    began = time.perf_counter()
    report = launch(gemm_text(), "gemm", (2, 2), 128, [a, b, c, SIZE], seed=seed)
    took = time.perf_counter() - began
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()
    assert report.bank_conflicts == 0
    assert {access.opcode.split(".")[0] for access in report.shared.values()} == {"cp", "ldmatrix"}
    assert report.instructions["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"] == 16 * 8 * 64
    assert took <= 5


def test_one_group_too_few_is_caught(rng):
    """``wait_group 2`` leaves the stage in flight that the loop goes on to read."""
    arrays = [np.zeros((SIZE, SIZE), t) for t in (np.float16, np.float16, np.float32)]
    with pytest.raises(EmulatorError) as caught:
        launch(gemm_text(wait=2), "gemm", (2, 2), 128, [*arrays, SIZE])
    assert caught.value.code == "CD-I9"
    assert "ldmatrix" in str(caught.value)
