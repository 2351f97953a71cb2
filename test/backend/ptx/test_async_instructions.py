"""What the ops on barriers, asynchronous copies, wgmma and clusters become. Every kernel here
assembles without a warning.
"""

from __future__ import annotations

import inspect
import re
import textwrap

import pytest
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from cutedialect.dialects.ptx import Ptx

OPERATIONS = list(Ptx.operations)


@pytest.mark.some(53)
@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_the_example_of_an_op_assembles(op, parse, assembled):
    module = parse(textwrap.dedent(inspect.cleandoc(op.__doc__ or "").split("Example:")[1]))
    [kernel] = module.ops
    assembled(module, kernel.target.data)


@pytest.fixture
def lines(body):
    """The instructions of a kernel for Hopper with parameters %A, %a, %s, %x, %p, %h."""

    def run(ops: str) -> list[str]:
        params = "%A: tensor_map, %a: b64, %s: b32, %x: b32, %h: b16"
        made = body(f"%p = ptx.elect\n{ops}", params, "sm_90a")
        return [line for line in made if not line.startswith(("mov.b64", "cvta", "elect"))]

    return run


def test_parameters(parse, assembled):
    text = assembled(
        parse(
            "ptx.kernel @k(%n: b32, %A: tensor_map, %unused: tensor_map) attributes {"
            'target = "sm_90a", threads = 32 : i32} {\n'
            "ptx.tma.prefetch %A[%n] : !ptx.tensor_map\n}"
        ),
        "sm_90a",
    )
    assert "\t.param .b32 k_param_0,\n" in text
    assert (
        "\t.param .align 64 .b8 k_param_1[128],\n\t.param .align 64 .b8 k_param_2[128]\n)" in text
    )
    assert "\tmov.b64 %rd0, k_param_1;\n\tcvta.param.u64 %rd0, %rd0;\n" in text
    assert "mov.b64 %rd1, k_param_2" not in text, "a map without a use is not addressed"


@pytest.mark.parametrize(
    ("op", "line"),
    [
        ("mbarrier.init [%s + 8], 3", "mbarrier.init.shared::cta.b64 [%r0+8], 3;"),
        ("mbarrier.inval [%s]", "mbarrier.inval.shared::cta.b64 [%r0];"),
        ("mbarrier.arrive [%s]", "mbarrier.arrive.shared::cta.b64 _, [%r0];"),
        ("mbarrier.arrive [%s], 2 if %p", "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r0], 2;"),
        ("mbarrier.arrive cluster [%s]", "mbarrier.arrive.shared::cluster.b64 _, [%r0];"),
        (
            "mbarrier.arrive cluster [%s + 16], 4",
            "mbarrier.arrive.shared::cluster.b64 _, [%r0+16], 4;",
        ),
        (
            "mbarrier.arrive.expect_tx [%s], 4096 if %p",
            "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], 4096;",
        ),
        (
            "cp.async.mbarrier.arrive noinc [%s]",
            "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r0];",
        ),
        ("cp.async.mbarrier.arrive [%s]", "cp.async.mbarrier.arrive.shared::cta.b64 [%r0];"),
        ("bar.arrive 1, 64", "bar.arrive 1, 64;"),
        ("bar.arrive %x, 64", "bar.arrive %r1, 64;"),
        ("bar.sync %x, 128", "bar.sync %r1, 128;"),
        ("barrier.cluster.arrive", "barrier.cluster.arrive;"),
        ('barrier.cluster.arrive "relaxed"', "barrier.cluster.arrive.relaxed;"),
        ('barrier.cluster.arrive "release.aligned"', "barrier.cluster.arrive.release.aligned;"),
        ('barrier.cluster.wait "acquire.aligned"', "barrier.cluster.wait.acquire.aligned;"),
        ("griddepcontrol.wait", "griddepcontrol.wait;"),
        ("griddepcontrol.launch_dependents", "griddepcontrol.launch_dependents;"),
        ('fence "proxy.async"', "fence.proxy.async;"),
        ('fence "proxy.async.global"', "fence.proxy.async.global;"),
        ('fence "proxy.async.shared::cta"', "fence.proxy.async.shared::cta;"),
        ('fence "proxy.async.shared::cluster"', "fence.proxy.async.shared::cluster;"),
        ('fence "proxy.alias"', "fence.proxy.alias;"),
        (
            'fence "proxy.tensormap::generic.release.gpu"',
            "fence.proxy.tensormap::generic.release.gpu;",
        ),
        ('fence "mbarrier_init.release.cluster"', "fence.mbarrier_init.release.cluster;"),
        ('fence "sc.cluster"', "fence.sc.cluster;"),
        ("cp.async.bulk.wait_group 1 read", "cp.async.bulk.wait_group.read 1;"),
        ("cp.async.bulk.wait_group 0", "cp.async.bulk.wait_group 0;"),
        ("prefetch.tensormap %a : !ptx.reg<b64>", "prefetch.tensormap [%rd0];"),
        (
            "tma.load [%s + 1024], %A[%x, %s], [%s + 8] : !ptx.tensor_map",
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[%r0+1024], [%rd0, {%r1, %r0}], [%r0+8];",
        ),
        (
            "tma.load [%s], %A[%x] , [%s] multicast %h policy %a if %p : !ptx.tensor_map",
            "@%p0 cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            ".multicast::cluster.L2::cache_hint [%r0], [%rd0, {%r1}], [%r0], %rs0, %rd1;",
        ),
        (
            "tma.load [%s], %a[%x, %x, %x, %x, %x] , [%s] policy %a : !ptx.reg<b64>",
            "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            ".L2::cache_hint [%r0], [%rd0, {%r1, %r1, %r1, %r1, %r1}], [%r0], %rd0;",
        ),
        (
            "tma.store %A[%x, %x, %x], [%s + 64] : !ptx.tensor_map",
            "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
            "[%rd0, {%r1, %r1, %r1}], [%r0+64];",
        ),
        (
            "tma.store %A[%x], [%s] policy %a if %p : !ptx.tensor_map",
            "@%p0 cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group.L2::cache_hint "
            "[%rd0, {%r1}], [%r0], %rd1;",
        ),
        (
            "tma.prefetch %A[%x, %x] if %p : !ptx.tensor_map",
            "@%p0 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd0, {%r1, %r1}];",
        ),
        (
            "bulk.load [%s + 16], [%a + 32] bytes 64, [%s] multicast %h policy %a if %p",
            "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            ".multicast::cluster.L2::cache_hint [%r0+16], [%rd0+32], 64, [%r0], %rs0, %rd0;",
        ),
        (
            "bulk.load [%s], [%a] size %x, [%s + 8]",
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%r0], [%rd0], %r1, [%r0+8];",
        ),
        (
            "bulk.store [%a + 16], [%s] size %x policy %a if %p",
            "@%p0 cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint "
            "[%rd0+16], [%r0], %r1, %rd0;",
        ),
        (
            'bulk.store [%a], [%s] bytes 32 reduce "add.noftz.bf16"',
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%rd0], [%r0], 32;",
        ),
    ],
)
def test_one_line(op, line, lines):
    [made] = lines(f"ptx.{op}")
    assert canonical(made) == canonical(line)


def canonical(line: str) -> str:
    """A line with its registers numbered in the order in which they appear."""
    numbers: dict[str, int] = {}
    return re.sub(
        r"%(p|rs|rd|r)\d+", lambda m: f"%{m[1]}:{numbers.setdefault(m[0], len(numbers))}", line
    )


@pytest.mark.parametrize("action", ["add", "min", "max", "inc", "dec", "and", "or", "xor"])
def test_tensor_reductions(action, lines):
    [line] = lines(f'ptx.tma.store %A[%x, %x], [%s] reduce "{action}" : !ptx.tensor_map')
    assert line.startswith(
        f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{action}.tile.bulk_group ["
    )


def test_a_wait_is_a_loop_with_a_label_of_its_own(lines):
    assert lines("ptx.mbarrier.wait [%s + 8], %x\nptx.mbarrier.wait [%s], %x") == [
        "$L_k_wait_1:",
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r0+8], %r1;",
        "@!%p1 bra $L_k_wait_1;",
        "$L_k_wait_2:",
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r0], %r1;",
        "@!%p2 bra $L_k_wait_2;",
    ]


def test_constants_as_operands(lines):
    ops = """
    %zero = ptx.imm 0 : b32
    %one = ptx.imm 1 : b32
    %bytes = ptx.imm 32 : b32
    %mask = ptx.imm 3 : b16
    %there = ptx.mapa %s, %one
    ptx.mbarrier.wait [%s], %one
    ptx.tma.load [%s], %A[%zero, %one], [%s] multicast %mask : !ptx.tensor_map
    ptx.bulk.store [%a], [%s] size %bytes
    ptx.bar.sync %one, 32
    """
    made = lines(ops)
    assert made[0] == "mapa.shared::cluster.u32 %r1, %r0, 1;"
    assert made[2].endswith("[%r0], 1;")
    assert made[4] == "mov.b16 %rs0, 3;"
    assert made[5].endswith("[%r0], [%rd0, {0, 1}], [%r0], %rs0;")
    assert made[6].endswith("[%rd1], [%r0], 32;")
    assert made[7] == "bar.sync 1, 32;"


def test_a_load_that_signals_the_other_cta_of_a_pair(body):
    ops = """
    %zero = ptx.imm 0 : b32
    %mask = ptx.imm 3 : b16
    ptx.tma.load [%s], %A[%zero], [%s] multicast %mask {pair} : !ptx.tensor_map
    """
    made = body(ops, "%s: b32, %A: tensor_map", "sm_100f")
    assert ".multicast::cluster.cta_group::2 [%r0]" in made[-1]


def test_asynchronous_stores_of_four_registers_each(body):
    ops = """
    %x = ptx.regs : !ptx.regs<f32 x 8>
    %there = ptx.mapa %s, %r
    ptx.st.async %x [%there + 32], [%there + 8], stride 512 : !ptx.regs<f32 x 8>
    """
    store = "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
    assert body(ops, "%s: b32, %r: b32", "sm_90a")[1:] == [
        f"{store} [%r2+32], {{%f0, %f1, %f2, %f3}}, [%r2+8];",
        f"{store} [%r2+544], {{%f4, %f5, %f6, %f7}}, [%r2+8];",
    ]


def test_elect_and_mapa(body):
    assert body("%p = ptx.elect\n%there = ptx.mapa %s, %x", "%s: b32, %x: b32", "sm_90a") == [
        "elect.sync _|%p0, 0xffffffff;",
        "mapa.shared::cluster.u32 %r2, %r0, %r1;",
    ]


@pytest.mark.parametrize(
    "register",
    [
        *(f"{name}.{axis}" for name in ("clusterid", "nclusterid") for axis in "xyz"),
        *(f"cluster_{name}.{axis}" for name in ("ctaid", "nctaid") for axis in "xyz"),
        "cluster_ctarank",
        "cluster_nctarank",
    ],
)
def test_special_registers_of_clusters(register, body):
    assert body(f'%r = ptx.special "{register}" : b32', arch="sm_90a") == [
        f"mov.u32 %r0, %{register};"
    ]


def test_a_loop_with_a_step_at_run_time(body):
    ops = "ptx.for %i = %x to %n step %by {\nptx.bar.sync 0\n}"
    made = body(ops, "%x: b32, %n: b32, %by: b32")
    assert "add.s32 %r3, %r3, %r2;" in made


def wgmma(body, modifiers, lhs, acc, width, **tables):
    """The lines of one wgmma op between a fence and a wait."""
    in_registers = lhs == "registers"
    # Signs come first, then majors of the operands behind descriptors.
    majors = ["MN" if text == "1" else "K" for text in tables.get("immediates", "").split(", ")[2:]]
    of_a, of_b = [
        f"!ptx.smem_desc<wgmma, {major}, 128B, leading = 16, stride = 1024>"
        for major in (["K", "K"] + majors)[-2:]
    ]
    define_a = "" if in_registers else f"%da = ptx.smem_desc %a : {of_a}"
    shown = ", ".join(f"{name} = array<i64: {values}>" for name, values in tables.items())
    ops = f"""
    %c = ptx.regs : !ptx.regs<{acc} x {width}>
    %f = ptx.regs : !ptx.regs<b32 x 8>
    %zero = ptx.imm 0 : b32
    %fzero = ptx.imm 0{".0" if acc == "f32" else ""} : {acc}
    ptx.fill %c, %fzero : !ptx.regs<{acc} x {width}>, !ptx.reg<{acc}>
    ptx.fill %f, %zero : !ptx.regs<b32 x 8>, !ptx.reg<b32>
    %p = ptx.setp "ne.s32" %n, %zero : (b32, b32) -> pred
    {define_a}
    %db = ptx.smem_desc %b : {of_b}
    ptx.wgmma.fence
    ptx.wgmma.mma_async "{modifiers}", %c, {"%f" if in_registers else "%da"}, %db scale %p {{
      {shown}
    }} : !ptx.regs<{acc} x {width}>, {"!ptx.regs<b32 x 8>" if in_registers else of_a}, {of_b}
    ptx.wgmma.commit_group
    ptx.wgmma.wait_group 0
    """
    made = body(ops, "%a: b64, %b: b64, %n: b32", "sm_90a")
    first, last = (
        next(i for i, line in enumerate(made) if line.startswith(f"wgmma.{name}"))
        for name in ("fence", "commit_group")
    )
    return made[first + 1 : last]


def test_descriptors_and_their_addends(body):
    made = wgmma(
        body,
        "sync.aligned.m64n8k16.f32.f16.f16",
        "descriptor",
        "f32",
        8,
        counts="4, 0",
        c="0, 4, 0",
        a="0, 512, 2",
        b="0, 0, 2",
        scale="0, 0, -1",
        immediates="1, -1, 0, 1",
    )
    low, high = "{%f0, %f1, %f2, %f3}", "{%f4, %f5, %f6, %f7}"
    name = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    assert made == [
        "add.s64 %rd4, %rd2, 512;",
        "add.s64 %rd5, %rd2, 2;",
        "add.s64 %rd6, %rd3, 2;",
        f"{name} {low}, %rd2, %rd3, %p0, 1, -1, 0, 1;",
        f"{name} {high}, %rd4, %rd3, %p0, 1, -1, 0, 1;",
        f"{name} {low}, %rd5, %rd6, 1, 1, -1, 0, 1;",
    ]


def test_the_first_operand_in_registers(body):
    made = wgmma(
        body,
        "sync.aligned.m64n8k16.f32.bf16.bf16",
        "registers",
        "f32",
        4,
        counts="4, 4",
        c="0, 0",
        a="0, 4",
        b="0, 128",
        immediates="1, 1, 1",
    )
    name = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}"
    assert made == [
        "add.s64 %rd2, %rd1, 128;",
        f"{name}, {{%r1, %r2, %r3, %r4}}, %rd1, 1, 1, 1, 1;",
        f"{name}, {{%r5, %r6, %r7, %r8}}, %rd2, 1, 1, 1, 1;",
    ]


@pytest.mark.parametrize("lhs", ["descriptor", "registers"])
@pytest.mark.parametrize(
    ("modifiers", "acc", "width", "immediates"),
    [
        ("m64n8k16.f16.f16.f16", "b32", 2, 4),
        ("m64n256k16.f16.f16.f16", "b32", 64, 4),
        ("m64n256k16.f32.f16.f16", "f32", 128, 4),
        ("m64n24k16.f32.bf16.bf16", "f32", 12, 4),
        ("m64n64k8.f32.tf32.tf32", "f32", 32, 2),
        ("m64n64k32.f32.e4m3.e5m2", "f32", 32, 2),
        ("m64n64k32.f16.e5m2.e4m3", "b32", 16, 2),
        ("m64n96k32.s32.s8.u8", "b32", 48, 0),
        ("m64n96k32.satfinite.s32.u8.u8", "b32", 48, 0),
        ("m64n96k256.s32.b1.b1.and.popc", "b32", 48, 0),
    ],
)
def test_every_kind_of_product_assembles(modifiers, acc, width, immediates, lhs, body):
    if lhs == "registers" and immediates == 4:
        immediates = 3
    given = ", ".join(["1", "1", "0", "0"][:immediates])
    tables = {"immediates": given} if given else {}
    counts = f"{width}, {4 if lhs == 'registers' else 0}"
    made = wgmma(
        body,
        f"sync.aligned.{modifiers}",
        lhs,
        acc,
        width,
        counts=counts,
        c="0",
        a="0",
        b="0",
        scale="0",
        **tables,
    )
    assert made[-1].startswith(f"wgmma.mma_async.sync.aligned.{modifiers} {{")
    assert made[-1].endswith(f", {given};" if given else ", %p0;")


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_an_op_without_results_is_never_dead(op, parse):
    """What only waits, signals or writes registers has no use that would keep it."""
    module = parse(textwrap.dedent(inspect.cleandoc(op.__doc__ or "").split("Example:")[1]))
    found = [one for one in module.walk() if type(one) is op]
    assert found
    for one in found:
        if not one.results:
            assert not is_trivially_dead(one)
