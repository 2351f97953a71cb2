"""The PTX text: what is malformed or unknown is one located error, never a traceback, never a
guess.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, UnsupportedInstruction, launch

GOOD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
  .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<6>; .reg .f32 %f<6>; .reg .b16 %h<4>;
  .shared .align 16 .b8 sm[512];
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.b32 %r2, [%rd3];
  setp.lt.u32 %p1, %r1, 16;
  mov.u32 %r3, 0;
$LOOP:
  add.u32 %r3, %r3, 1;
  setp.lt.and.u32 %p2, %r3, 5, %p1;
  @%p2 bra $LOOP;
  cvt.rn.f32.u32 %f1, %r3;
  fma.rn.f32 %f2, %f1, 0f40000000, %f1;
  shfl.sync.bfly.b32 %r4|%p3, %r3, 1, 31, -1;
  st.shared.v2.b32 [sm+8], {%r3, %r4};
  bar.sync 0;
  { .reg .b32 %t; mov.b32 %t, %f2; xor.b32 %r5, %t, %r4; }
  @!%p1 st.global.b32 [%rd3], %r5;
  ret;
}
"""


def run(text: str) -> None:
    launch(text, "k", 1, 32, [np.zeros(32, np.uint32)], max_steps=20_000)


def test_the_good_text_runs():
    run(GOOD)


MALFORMED = [
    ("mov.u32 %r1, %tid.x;", "mov.u32 %r1 %tid.x;", 9),
    ("mov.u32 %r1, %tid.x;", "mov.u32 %r1, %tid.x", 10),
    ("mov.u32 %r1, %tid.x;", "mov.u32 %r99, %tid.x;", 9),
    ("mov.u32 %r1, %tid.x;", "mov.u32 %r1, %nothing;", 9),
    ("mov.u32 %r1, %tid.x;", "mov.u32 %rd1, %tid.x;", 9),
    ("bra $LOOP;", "bra $LOST;", 18),
    ("[%rd3];", "[%rd3;", 12),
    ("[p];", "[q];", 8),
    ("@%p2 bra", "@%r2 bra", 18),
    ("add.u32 %r3, %r3, 1;", "add.u32 %r3, %r3;", 16),
    ("add.u32 %r3, %r3, 1;", "add.u32 %r3, %r3, 1.5;", 16),
    ("{%r3, %r4}", "{%r3, %r4, %r5}", 22),
    (".b8 sm[512]", ".b9 sm[512]", 7),
    (".align 16", ".align 12", 7),
    ("setp.lt.u32 %p1, %r1, 16;", "setp.lt.u32 %r5, %r1, 16;", 13),
    ("mov.u32 %r3, 0;", "mov.u32 %r3, 09;", 14),
    ("mov.u32 %r3, 0;", "mov.u32 `r3, 0;", 14),
    ("$LOOP:", "$LOOP: $LOOP:", 15),
]


@pytest.mark.parametrize(("old", "new", "line"), MALFORMED)
def test_malformed_text_is_located(old, new, line):
    assert old in GOOD
    with pytest.raises(EmulatorError) as caught:
        run(GOOD.replace(old, new, 1))
    assert caught.value.code in ("CD-PTX", "CD-UNSUPPORTED")
    assert caught.value.ptx_line == line, str(caught.value)


BROKEN = [
    "", "hello", ".version 8.0", ".version 8.0\n.target sm_80\n.entry k(", GOOD[:-3], "{" * 5000,
    GOOD.replace(".address_size 64", ".address_size 32"),
]  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_broken_modules(text):
    with pytest.raises(EmulatorError):
        run(text)


UNSUPPORTED = [
    "tcgen05.mma.sp.cta_group::1.kind::f16 [%r1], %rd1, %rd1, [%r1], %r1, %p1;",
    "frobnicate.u32 %r1, %r2;",
    "add.u32.sideways %r3, %r3, 1;",
    "add.sat.u32 %r3, %r3, 1;",
    "mul.u32 %r3, %r3, 1;",
    "cvt.f16.f32 %h1, %f1;",
    "ld.shared::grid.b32 %r3, [sm];",
    "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%f1,%f1,%f1,%f1}, {%r1,%r1,%r1,%r1},"
    " {%r1,%r1}, {%f1,%f1,%f1,%f1};",
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f1,%f1,%f1}, {%r1,%r1},"
    " {%r1,%r1}, {%f1,%f1,%f1,%f1}, %r1, 0;",
    "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%r1}, [sm];",
    "atom.global.add.s16 %h1, [%rd3], %h1;",
    "fence.proxy.sideways;",
    "setp.lo.s64.banana %p1, %rd1, %rd2;",
    "vote.ballot.b32 %r1, %p1;",
]


@pytest.mark.parametrize("statement", UNSUPPORTED)
def test_what_is_unknown_is_named(statement):
    text = GOOD.replace("mov.u32 %r3, 0;", f"mov.u32 %r3, 0; {statement}", 1)
    text = text.replace("sm_80", "sm_100a").replace(".version 8.0", ".version 9.0")
    with pytest.raises(UnsupportedInstruction) as caught:
        run(text)
    assert caught.value.code == "CD-UNSUPPORTED"
    assert caught.value.ptx_line == 14
    assert statement.split()[0].split(".")[0] in str(caught.value)


def test_constant_expressions_comments_and_scopes():
    text = GOOD.replace("sm[512]", "sm[4*(100+28)]").replace("[sm+8]", "[sm+2*4]")
    text = text.replace("mov.u32 %r3, 0;", "/* a\nb */ mov.u32 %r3, -(1-1); // done")
    inner = "{ .reg .pred q; L: setp.ne.u32 q, %r3, %r3; @q bra L; }"
    run(text.replace("cvt.rn", inner * 2 + "cvt.rn", 1))


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        (".global .b8 x[9223372036854775807];", r"at most 4294967296 bytes of \.global for 'x'"),
        (".global .b32 x[65536][65536][65536];", r"at most 4294967296 bytes of \.global for 'x'"),
        (".const .b8 x[1048576];", r"at most 655360 bytes of \.const for 'x', got 1048576"),
        (".global .b8 x[-3];", "expected an extent of 0 or more of 'x', got -3"),
        (".global .align 4294967296 .b8 x[4];", "a power of two up to 65536, got 4294967296"),
    ],
)
def test_variables_that_no_memory_holds(declaration: str, message: str) -> None:
    with pytest.raises(EmulatorError, match=message) as caught:
        run(GOOD.replace(".visible", f"{declaration}\n.visible", 1))
    assert caught.value.ptx_line == 4


def test_local_memory_that_a_thread_does_not_have() -> None:
    with pytest.raises(EmulatorError, match=r"at most 524288 bytes of \.local for 'x'"):
        run(GOOD.replace("  ld.param", "  .local .b8 x[4294967296];\n  ld.param", 1))


def test_mutated_text_never_ends_in_a_traceback():
    """Tokens dropped, doubled, swapped and replaced: the kernel runs or one ``EmulatorError``
    comes.
    """
    generator = random.Random(11)
    pieces = GOOD.replace(",", " , ").replace(";", " ; ").replace("[", " [ ").split(" ")
    pool = [
        *pieces,
        "%rd1",
        "%p1",
        "0",
        "-1",
        "0f7F800000",
        "{",
        "}",
        ".b64",
        "_",
        "|",
        "!",
        "4294967296",
    ]
    outcomes = {"ran": 0, "error": 0}
    for _ in range(400):
        mutant = list(pieces)
        for _ in range(generator.randint(1, 3)):
            at = generator.randrange(len(mutant))
            kind = generator.randrange(4)
            if kind == 0:
                del mutant[at]
            elif kind == 1:
                mutant.insert(at, mutant[at])
            elif kind == 2:
                mutant[at] = generator.choice(pool)
            else:
                other = generator.randrange(len(mutant))
                mutant[at], mutant[other] = mutant[other], mutant[at]
        try:
            run(" ".join(mutant))
            outcomes["ran"] += 1
        except EmulatorError:
            outcomes["error"] += 1
    assert outcomes["error"] > 200
    assert outcomes["ran"] > 5
