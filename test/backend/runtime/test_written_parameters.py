"""Which parameters a kernel stores through, from its PTX text alone."""

from __future__ import annotations

import pytest

from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.backend.runtime.written_parameters import written_parameters

HEAD = """.version 8.0
.target sm_90a
.visible .entry other(.param .b64 a) { ret; }
.visible .entry k(.param .b64 a, .param .b64 b, .param .b32 n, .param .align 64 .b8 m[128])
.reqntid 32,1,1
{
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .pred %p<2>;
  .shared .align 16 .b8 s[64];
  ld.param.b64 %rd0, [a]; // st.global.b32 [%rd1], %r0;
  ld.param.b64 %rd1, [b];
  ld.param.b32 %r0, [n];
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ret;", set()),
        ("ld.global.b32 %r1, [%rd0]; st.global.b32 [%rd1+4], %r1;", {1}),
        ("mad.wide.s32 %rd2, %r0, 4, %rd1; st.global.v2.b32 [%rd2], {%r1, %r2};", {1, 2}),
        ("cvta.to.global.u64 %rd2, %rd0; red.global.add.f32 [%rd2], %f0;", {0}),
        ("@%p0 atom.global.add.u32 %r2, [%rd0+8], %r0;", {0}),
        ("st.b32 [%rd1], %r0;", {1}),
        ("st.shared.b32 [s], %r0; st.shared::cta.b32 [%r3], %r0;", set()),
        ("cp.async.cg.shared.global [%r3], [%rd0], 16; cp.async.commit_group;", set()),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 64;", {1}),
        (
            "mov.b64 %rd3, m; cvta.param.u64 %rd4, %rd3;"
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {%r1, %r2}], [%r3];"
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;",
            {3},
        ),
        (
            "mov.b64 %rd3, m; cp.async.bulk.tensor.2d.shared::cluster.global"
            ".mbarrier::complete_tx::bytes [%r3], [%rd3, {%r1, %r2}], [%r4];",
            set(),
        ),
        # the back edge carries the pointer into the store
        ("LOOP:\n st.global.b32 [%rd5], %r0; mov.b64 %rd5, %rd0; @%p0 bra LOOP; ret;", {0}),
        ("selp.b64 %rd2, %rd0, %rd1, %p0; st.global.b32 [%rd2], %r0;", {0, 1}),
        ("mov.b64 {%r1, %r2}, %rd1; mov.b64 %rd2, {%r1, %r2}; st.global.b32 [%rd2], %r0;", {1}),
        ("ld.global.b64 %rd2, [%rd0]; st.global.b32 [%rd2], %r0;", None),
        ("{ .param .b64 x; call.uni (y), printf, (x); }", None),
    ],
)
def test_what_is_stored_through(body: str, expected: set[int] | None) -> None:
    found = written_parameters(f"{HEAD}{body}\n}}\n", "k")
    assert found == expected


def test_only_written_tensors_are_marked(scale: CompiledProgram) -> None:
    (x, _) = scale.signature.parameters
    assert getattr(x, "written", None) is True
    read_only = scale.ptx.replace("st.global.f32 [%rd2], %f1", "mov.f32 %f2, %f1")
    other = CompiledProgram(scale.name, scale.arch, read_only, scale.host, scale.signature)
    assert other.written() == frozenset()
    (x, _) = other.signature.with_written(other.written()).parameters
    assert getattr(x, "written", None) is False
