"""What single ops become. Every kernel here assembles without a warning."""

from __future__ import annotations

import pytest

from cutedialect.dialects.ptx.scalar import FAMILIES, SCALAR_OPS


def test_a_literal_is_written_where_it_is_used(body):
    assert body(
        '%c = ptx.imm 5 : b32\n%r = ptx.add "s32" %a, %c : (b32, b32) -> b32', "%a: b32"
    ) == ["add.s32 %r1, %r0, 5;"]


@pytest.mark.parametrize(
    ("literal", "register_class", "shown"),
    [
        ("1.0", "f32", "0f3F800000"),
        ("-0.0", "f32", "0f80000000"),
        ("0.1", "f32", "0f3DCCCCCD"),
        ("0x7F800000", "f32", "0f7F800000"),
        ("0.1", "f64", "0d3FB999999999999A"),
    ],
)
def test_floats_are_exact_bits(body, literal, register_class, shown):
    ops = (
        f"%c = ptx.imm {literal} : {register_class}\n"
        f'%r = ptx.add "{register_class}" %a, %c : ({register_class}, {register_class}) -> '
        f"{register_class}"
    )
    [line] = body(ops, f"%a: {register_class}")
    assert line.endswith(f", {shown};")


def test_half_types_take_registers_only(body):
    ops = '%c = ptx.imm 1006648320 : b32\n%r = ptx.add "f16x2" %a, %c : (b32, b32) -> b32'
    assert body(ops, "%a: b32") == ["mov.b32 %r1, 1006648320;", "add.f16x2 %r2, %r0, %r1;"]


def test_integer_bits_do_not_stand_for_a_float(body):
    ops = '%c = ptx.imm 1065353216 : b32\n%r = ptx.add "f32" %a, %c : (f32, b32) -> f32'
    assert body(ops, "%a: f32") == ["mov.b32 %r0, 1065353216;", "add.f32 %f1, %f0, %r0;"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_assembles(family, parse, assembled):
    doc = SCALAR_OPS[family].__doc__ or ""
    text = assembled(parse(doc.split("Example:")[1]))
    assert f"\t{family}.{FAMILIES[family][2]} " in text


def test_a_predicate_literal_is_made_by_a_comparison(body):
    lines = body("%p = ptx.imm 1 : pred\nptx.if %p {\nptx.bar.sync 0\n}")
    assert lines[0] == "setp.ne.b32 %p0, 1, 0;"


def test_two_results_of_a_comparison(body):
    ops = '%s, %t = ptx.setp "lt.s32" %a, %b : (b32, b32) -> pred, pred'
    assert body(ops, "%a: b32, %b: b32") == ["setp.lt.s32 %p0|%p1, %r0, %r1;"]


def test_pack_and_unpack(body):
    ops = "%w = ptx.pack %a, %a : (b32, b32) -> b64\n%lo, %hi = ptx.unpack %a : b32 -> (b16, b16)"
    assert body(ops, "%a: b32") == ["mov.b64 %rd0, {%r0, %r0};", "mov.b32 {%rs0, %rs1}, %r0;"]


def test_elements_of_an_array(body):
    ops = "%x = ptx.regs : !ptx.regs<f32 x 4>\nptx.set %x[2], %v\n%y = ptx.get %x[2]"
    assert body(ops, "%v: f32") == ["mov.f32 %f3, %f0;", "mov.f32 %f5, %f3;"]


def test_vector_loads_of_several_bases(body):
    ops = """
    %x = ptx.regs : !ptx.regs<b32 x 4>
    ptx.ld "global.v2.b32", %x [%a, %b] {
      base = array<i64: 0, 1>, offset = array<i64: 0, 16>, regs = array<i64: 2, 3, 0, 1>
    } : !ptx.regs<b32 x 4>, !ptx.reg<b64>, !ptx.reg<b64>
    """
    assert body(ops, "%a: b64, %b: b64") == [
        "ld.global.v2.b32 {%r2, %r3}, [%rd0];",
        "ld.global.v2.b32 {%r0, %r1}, [%rd1+16];",
    ]


def test_a_load_that_is_switched_off_gives_zero(body):
    ops = """
    %p = ptx.setp "lt.s32" %n, %n : (b32, b32) -> pred
    %x = ptx.regs : !ptx.regs<f32 x 2>
    ptx.ld "global.f32", %x [%a] if %p : !ptx.reg<pred> {
      base = array<i64: 0, 0>, offset = array<i64: 0, 4>, regs = array<i64: 0, 1>,
      pred = array<i64: -1, 0>, zero
    } : !ptx.regs<f32 x 2>, !ptx.reg<b64>
    """
    assert body(ops, "%a: b64, %n: b32")[1:] == [
        "ld.global.f32 %f0, [%rd0];",
        "mov.f32 %f1, 0f00000000;",
        "@%p0 ld.global.f32 %f1, [%rd0+4];",
    ]


def test_scalar_memory(body):
    ops = """
    %p = ptx.setp "lt.s32" %n, %n : (b32, b32) -> pred
    %x = ptx.ld.scalar "global.b32", %a if %p {offset = 8 : i64} : !ptx.reg<b64> -> !ptx.reg<b32>
    %old = ptx.atom "global.add.u32" %a, 16, %x : b32
    %now = ptx.atom "global.cas.b32" %a, -4, %x, %old : b32
    ptx.st.scalar "global.b32", %now, %a if %p : !ptx.reg<pred> {offset = 0 : i64}
      : !ptx.reg<b32>, !ptx.reg<b64>
    """
    assert body(ops, "%a: b64, %n: b32")[1:] == [
        "mov.b32 %r1, 0;",
        "@%p0 ld.global.b32 %r1, [%rd0+8];",
        "atom.global.add.u32 %r2, [%rd0+16], %r1;",
        "atom.global.cas.b32 %r3, [%rd0+-4], %r1, %r2;",
        "@%p0 st.global.b32 [%rd0], %r3;",
    ]


def test_matrix_loads_and_stores_take_lists(body):
    ops = """
    %s = ptx.smem_base : b32
    %x = ptx.regs : !ptx.regs<b32 x 2>
    ptx.ldmatrix "sync.aligned.m8n8.x1.trans.shared.b16", %x [%s] {
      base = array<i64: 0>, offset = array<i64: 64>, regs = array<i64: 1>
    } : !ptx.regs<b32 x 2>, !ptx.reg<b32>
    ptx.stmatrix "sync.aligned.m8n8.x2.shared.b16", %x [%s] {
      base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0, 1>
    } : !ptx.regs<b32 x 2>, !ptx.reg<b32>
    """
    assert body(ops, arch="sm_90", smem=1024) == [
        "mov.u32 %r0, k_smem;",
        "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r2}, [%r0+64];",
        "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r0], {%r1, %r2};",
    ]


def test_warp_exchange(body):
    ops = """
    %one = ptx.imm 1 : b32
    %clamp = ptx.imm 31 : b32
    %all = ptx.imm 4294967295 : b32
    %y = ptx.shfl "sync.bfly.b32", %x, %one, %clamp, %all : !ptx.reg<f32> -> !ptx.reg<f32>
    %p = ptx.setp "gt.f32" %y, %x : (f32, f32) -> pred
    %any = ptx.vote "sync.any.pred", %p, %all : !ptx.reg<pred>
    %lanes = ptx.vote "sync.ballot.b32", %any, %all : !ptx.reg<b32>
    ptx.bar.warp.sync %all
    """
    assert body(ops, "%x: f32") == [
        "mov.b32 %r0, %f0;",
        "shfl.sync.bfly.b32 %r1, %r0, 1, 31, 0xffffffff;",
        "mov.b32 %f1, %r1;",
        "setp.gt.f32 %p0, %f1, %f0;",
        "vote.sync.any.pred %p1, %p0, 0xffffffff;",
        "vote.sync.ballot.b32 %r2, %p1, 0xffffffff;",
        "bar.warp.sync 0xffffffff;",
    ]


def test_synchronization(body):
    ops = 'ptx.bar.sync 0\nptx.bar.sync 1, 64\nptx.fence "acq_rel.gpu"\nptx.trap'
    assert body(ops) == ["bar.sync 0;", "bar.sync 1, 64;", "fence.acq_rel.gpu;", "trap;"]
