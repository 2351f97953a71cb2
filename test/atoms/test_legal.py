"""`legal` on statements whose verdict and reason are known; ptxas is asked in another file."""

from __future__ import annotations

import re

import pytest

from cutedialect import atoms
from cutedialect.atoms import legality
from cutedialect.atoms.statement import (
    Address,
    Immediate,
    Pair,
    Register,
    Sink,
    StatementError,
    Symbol,
    Vector,
    parse_statement,
)

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
C4 = "{%f0,%f1,%f2,%f3}"
A4 = "{%r0,%r1,%r2,%r3}"
D32 = "{" + ", ".join(f"%f{i}" for i in range(32)) + "}"
WGMMA = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"


@pytest.mark.parametrize(
    ("statement", "first"),
    [
        (f"{MMA} {C4}, {A4}, {{%r4,%r5}}, {C4};", "sm_80"),
        ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r0,%r1,%r2,%r3}, [%r4+16];", "sm_75"),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {%r0};", "sm_90"),
        ("movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;", "sm_75"),
        ("cp.async.ca.shared.global [%r0], [%rd0], 8, %r1;", "sm_80"),
        ("cp.async.wait_group 2;", "sm_80"),
        ("@%p1 bar.sync 1, 128;", "sm_70"),
        ("mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], %r1;", "sm_90"),
        ("mbarrier.arrive.shared.b64 _, [smem+8];", "sm_80"),
        ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], 16384;", "sm_90"),
        (f"{WGMMA} {D32}, %rd0, %rd1, %p0, 1, 1, 0, 0;", "sm_90a"),
        (f"{LOAD} [%r0], [%rd0, {{%r1, %r2}}], [%r3];", "sm_90"),
        ("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r0,%r1,%r2,%r3}, [%r4];", "sm_100f"),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r0], %rd0, %rd1, %r1, %p0;", "sm_100f"),
        ("elect.sync _|%p0, 0xffffffff;", "sm_90"),
        ("griddepcontrol.wait;", "sm_90"),
        ("fence.proxy.async.shared::cta;", "sm_90"),
        ("redux.sync.add.s32 %r0, %r1, 0xffffffff;", "sm_80"),
        ("shfl.sync.bfly.b32 %r0|%p0, %r1, 16, 31, -1;", "sm_70"),
        ("ld.global.nc.L1::no_allocate.v4.f32 {%f0,%f1,%f2,%f3}, [%rd0];", "sm_70"),
        ("ld.global.v8.b32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%rd0];", "sm_100"),
        ("cvt.rn.bf16x2.f32 %r0, %f0, %f1;", "sm_80"),
        ("cvt.rn.satfinite.e4m3x2.f32 %rs0, %f0, %f1;", "sm_89"),
        ("fma.rn.f32x2 %rd0, %rd1, %rd2, %rd3;", "sm_100"),
        ("mul.wide.u32 %rd0, %r0, 4;", "sm_70"),
        ("mov.u32 %r0, %tid.x;", "sm_70"),
        ("mov.b32 %r0, {%rs0, %rs1};", "sm_70"),
        ("setp.ge.and.s32 %p0|%p1, %r0, 5, !%p2;", "sm_70"),
        ("call.uni (%r0), vprintf, (%rd0, %rd1);", "sm_70"),
        ("bra.uni LOOP;", "sm_70"),
    ],
)
def test_legal_from_its_first_target_on(statement: str, first: str) -> None:
    names = atoms.targets()
    verdicts = {name: atoms.legal(statement, name) for name in names}
    legal = [name for name in names if verdicts[name]]
    assert legal[0] == first
    assert not any(verdicts[name].reason for name in legal)
    for name in names:
        if not verdicts[name]:
            assert f"got {name}" in verdicts[name].reason
    if first in ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100"):
        assert legal == list(names[names.index(first) :])


def test_exact_chips() -> None:
    setmaxnreg = "setmaxnreg.inc.sync.aligned.u32 232;"
    found = {name for name in atoms.targets() if atoms.legal(setmaxnreg, name)}
    assert "sm_90a" in found
    assert not found & {"sm_90", "sm_100", "sm_110", "sm_120"}
    wgmma = f"{WGMMA} {D32}, %rd0, %rd1, 1, -1, 1, 0, 1;"
    assert [name for name in atoms.targets() if atoms.legal(wgmma, name)] == ["sm_90a"]


@pytest.mark.parametrize(
    ("statement", "target", "reason"),
    [
        ("wgma.fence.sync.aligned;", "sm_90a", "unknown instruction 'wgma.*did you mean wgmma"),
        ("foo.s32 %r0, %r1;", "sm_80", "unknown instruction 'foo.s32'"),
        (f"{MMA} {C4}, {{%r0,%r1}}, {{%r4,%r5}}, {C4};", "sm_80", "operand 2: .* vector of 4"),
        (f"{MMA} {C4}, {A4}, {{%r4,%r5}};", "sm_80", "expected 4 operands, got 3"),
        (f"{MMA} {C4}, {A4}, %r4, {C4};", "sm_80", "operand 3: .* got register %r4"),
        (
            f"{MMA.replace('.f16.f16', '.f16.bf16')} {C4}, {A4}, {{%r4,%r5}}, {C4};",
            "sm_80",
            "nearest",
        ),
        (f"{MMA.replace('f32.f16', 'f32.f15')} {C4};", "sm_80", "unknown modifier .f15"),
        ("cp.async.cg.shared.global [%r0], [%rd0], 8;", "sm_80", "one of 16, got 8"),
        ("cp.async.ca.shared.global [%r0], [%rd0], 16, 32;", "sm_80", "one of 0..16, got 32"),
        ("bar.sync 16;", "sm_80", "one of 0..15, got 16"),
        ("bar.sync 1, 100;", "sm_80", "one of 0..1024:32, got 100"),
        ("setmaxnreg.dec.sync.aligned.u32 41;", "sm_90a", "one of 24..256:8, got 41"),
        ("setmaxnreg.dec.sync.aligned.u32 %r0;", "sm_90a", "an integer literal, got register"),
        ("setmaxnreg.dec.sync.aligned.u32 40;", "sm_90", "needs sm_90a"),
        ("add.f32 %f0, %f1, 1;", "sm_80", "floating-point literal, got literal 1"),
        ("add.s32 %r0, %r1, 1.5;", "sm_80", "got literal 1.5"),
        ("ldmatrix.sync.aligned.m8n8.x8.shared.b16 {%r0}, [%r1];", "sm_90", "unknown modifier .x8"),
        ("ld.shared.v4.b64 {%rd0,%rd1,%rd2,%rd3}, [%r0];", "sm_100", "no form ld.shared.v4.b64"),
        ("ld.shared.b32 %r0, [16];", "sm_80", "in a register or a name, got literal 16"),
        (f"{LOAD} [%r0], [%rd0, {{%r1}}], [%r3];", "sm_90", "vector of 2 registers"),
        (f"{WGMMA} {D32}, %rd0, %rd1, %p0, 1, 1;", "sm_90a", "expected 8 operands, got 6"),
        (f"{WGMMA} {D32}, %rd0, %rd1, %p0, 2, 1, 0, 0;", "sm_90a", "one of -1,1, got 2"),
        ("mbarrier.arrive.shared::cluster.b64 %rd0, [%r0];", "sm_90", "expected _, got register"),
        ("tcgen05.alloc.cta_group::1.sync.aligned.b32 [%r0], 96;", "sm_100a", "got 96"),
        ("add.s32 %r0, %r1, %r2; ret;", "sm_80", "the end of the instruction"),
        ("add.s32 %r0, , %r2;", "sm_80", "expected an operand"),
        ("", "sm_80", "expected an instruction"),
        ("ld.global.b32 %r0, [%rd0;", "sm_80", r"expected '\]'"),
        ("ld.global.b32 %r0 ~ 3", "sm_80", "expected a PTX operand"),
    ],
)
def test_illegal_with_the_reason(statement: str, target: str, reason: str) -> None:
    verdict = atoms.legal(statement, target)
    assert not verdict
    assert re.search(reason, verdict.reason), verdict.reason


@pytest.mark.parametrize("family", legality.families())
def test_every_indexed_opcode_has_forms(family: str) -> None:
    forms = legality.forms_of(family)
    assert forms
    for form in forms[:: 1 + len(forms) // 40]:
        assert form.regex.pattern
        for word in form.requires.split():
            assert atoms.targets_with(word), f"{form.pattern} needs a target that does not exist"
    assert "no_such_modifier" in atoms.legal(f"{family}.no_such_modifier;", "sm_80").reason


def test_statement_is_taken_apart() -> None:
    parsed = parse_statement(
        "@!%p0 foo.a::b.x2 %r0|_, [%rd0+-8], [tm, {%r1, 0x10}], {_, %f1}, -1.5, smem+4, !%p2; // no"
    )
    assert parsed.opcode == "foo.a::b.x2"
    assert parsed.family == "foo"
    assert parsed.guard == Register("%p0", negated=True)
    assert parsed.operands == (
        Pair(Register("%r0"), Sink()),
        Address(Register("%rd0")),
        Address(Symbol("tm"), (Vector((Register("%r1"), Immediate(16, "0x10"))),)),
        Vector((Sink(), Register("%f1"))),
        Immediate(-1.5, "-1.5"),
        Symbol("smem", 4),
        Register("%p2", negated=True),
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0f3f800000", 1.0),
        ("0d4000000000000000", 2.0),
        ("-7", -7),
        ("0b101", 5),
        ("017", 15),
        ("9U", 9),
    ],
)
def test_literals(text: str, value: float) -> None:
    operand = parse_statement(f"mov.b32 %r0, {text};").operands[1]
    assert operand == Immediate(value, text)
    assert type(operand.value) is type(value)


@pytest.mark.parametrize("text", ["@5 ret;", "mov.u32 %r0, !5;", "ld.b32 %r0, [%rd0+%r1];", "1 2"])
def test_text_that_is_no_statement(text: str) -> None:
    with pytest.raises(StatementError):
        parse_statement(text)
