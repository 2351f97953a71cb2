"""The host part: from `func.func @launch` in IR to Python source, and the launches it plans."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.host import find_host, host_source, load, signature_of
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.backend.runtime.signature import ScalarParameter, Signature, TensorParameter

Parse = Callable[[str], object]


def evaluate(parse: Parse, body: str, *values: int, type_: str = "i32") -> int:
    """The value `%r` that `body` computes from the scalars %a, %b, passed on as an argument."""
    source = host_source(
        find_host(
            parse(
                f"""
func.func @launch(%a: {type_}, %b: {type_}) {{
  %one = arith.constant 1 : i32
  {body}
  cute.launch @k grid(%one, %one, %one) args(%r) {{threads = 32 : i32}} : {type_}
  func.return
}}"""
            )
        )
    )
    (launch,) = load(source).run(values, 4)
    return launch.arguments[0]


def trunc_div(a: int, b: int) -> int:
    return int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def wrap(value: int, bits: int = 32) -> int:
    half = 1 << bits - 1
    return (value + half) % (2 * half) - half


EDGES = (0, 1, 5, 7, 64, -1, -7, -64, 2**31 - 1, -(2**31))
BINARY = {
    "addi": lambda a, b: wrap(a + b),
    "subi": lambda a, b: wrap(a - b),
    "muli": lambda a, b: wrap(a * b),
    "divsi": lambda a, b: wrap(trunc_div(a, b)),
    "remsi": lambda a, b: a - b * trunc_div(a, b),
    "ceildivsi": lambda a, b: wrap(-(-a // b)),
    "floordivsi": lambda a, b: wrap(a // b),
    "divui": lambda a, b: wrap(a % 2**32 // (b % 2**32)),
    "remui": lambda a, b: wrap(a % 2**32 % (b % 2**32)),
    "maxsi": max,
    "minsi": min,
    "maxui": lambda a, b: max(a, b, key=lambda v: v % 2**32),
    "minui": lambda a, b: min(a, b, key=lambda v: v % 2**32),
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("name", BINARY)
def test_integer_ops_are_twos_complement(parse_module: Parse, name: str) -> None:
    source = host_source(
        find_host(
            parse_module(
                f"""
func.func @launch(%a: i32, %b: i32) {{
  %one = arith.constant 1 : i32
  %r = arith.{name} %a, %b : i32
  cute.launch @k grid(%one, %one, %one) args(%r) {{threads = 32 : i32}} : i32
  func.return
}}"""
            )
        )
    )
    plan = load(source)
    for a in EDGES:
        for b in EDGES:
            if b == 0 and ("div" in name or "rem" in name):
                with pytest.raises(ValueError, match="division by zero"):
                    plan.run((a, b), 4)
                continue
            (launch,) = plan.run((a, b), 4)
            assert launch.arguments == (BINARY[name](a, b),), (a, b)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [("slt", 1), ("ult", 0), ("sge", 0), ("uge", 1), ("eq", 0), ("ne", 1), ("sgt", 0)],
)
def test_compare_and_select(parse_module: Parse, predicate: str, expected: int) -> None:
    body = f"""%c = arith.cmpi {predicate}, %a, %b : i32
  %zero = arith.constant 0 : i32
  %r = arith.select %c, %one, %zero : i32"""
    assert evaluate(parse_module, body, -1, 1) == expected


def test_casts_and_shifts(parse_module: Parse) -> None:
    body = """%w = arith.extsi %a : i32 to i64
  %p = arith.muli %w, %w : i64
  %s = arith.constant 33 : i64
  %h = arith.shrsi %p, %s : i64
  %r = arith.trunci %h : i64 to i32"""
    assert evaluate(parse_module, body, -(2**31), 0) == wrap(2**62 >> 33)
    body = """%w = arith.extui %a : i32 to i64
  %s = arith.constant 4 : i64
  %h = arith.shrui %w, %s : i64
  %r = arith.trunci %h : i64 to i32"""
    assert evaluate(parse_module, body, -1, 0) == 0x0FFFFFFF
    body = """%c = arith.cmpi slt, %a, %b : i32
  %r = arith.extsi %c : i1 to i32"""
    assert evaluate(parse_module, body, 1, 2) == -1
    assert evaluate(parse_module, body.replace("extsi", "extui"), 1, 2) == 1


def test_tensors_flatten_in_order(scale: CompiledProgram) -> None:
    (launch,) = scale.plan.run((("pointer", (5, 130), (132, 1)), 2.5), 4)
    assert launch.kernel == "scale"
    assert launch.grid == (3, 5, 1)
    assert (launch.block, launch.smem) == (64, 0)
    assert launch.arguments == ("pointer", 5, 130, 132, 2.5)
    assert scale.plan.types == {"scale": ("ptr", "i32", "i32", "i64", "f32")}


@pytest.mark.parametrize("shape", [(0, 64), (64, 0), (0, 0)])
def test_an_empty_grid_launches_nothing(scale: CompiledProgram, shape: tuple[int, int]) -> None:
    assert scale.plan.run((("pointer", shape, (64, 1)), 1.0), 4) == ()


def test_several_launches_keep_their_order(parse_module: Parse, memref: str) -> None:
    source = host_source(
        find_host(
            parse_module(
                f"""
func.func @launch(%x: {memref}) {{
  %one = arith.constant 1 : i32
  %n = cute.dim %x, 0 : {memref}
  %ld = cute.stride %x, 0 : {memref}
  cute.launch @first grid(%n, %one, %one) args(%x, %ld)
      {{threads = 64 : i32, smem = 70000 : i32}} : {memref}, i64
  cute.launch @second grid(%one, %n, %one) args(%n) {{threads = 32 : i32}} : i32
  func.return
}}"""
            )
        )
    )
    plan = load(source)
    first, second = plan.run(((7, (3, 4), (8, 1)),), 4)
    assert (first.kernel, first.grid, first.smem) == ("first", (3, 1, 1), 70000)
    assert first.arguments == (7, 3, 4, 8, 8)
    assert (second.kernel, second.grid, second.arguments) == ("second", (1, 3, 1), (3,))
    assert plan.smem == {"first": 70000, "second": 0}


def test_static_and_nested_modes(parse_module: Parse) -> None:
    memref = '!cute.memref<bf16, gmem, align<8>, "((4,?),8,?):((1,32),4,?{i64 div=8})">'
    host = find_host(
        parse_module(
            f"""
func.func @launch(%x: {memref}) {{
  %m = cute.dim %x, 0 : {memref}
  %n = cute.dim %x, 1 : {memref}
  %k = cute.dim %x, 2 : {memref}
  cute.launch @k grid(%m, %n, %k) args(%x) {{threads = 32 : i32}} : {memref}
  func.return
}}"""
        )
    )
    assert signature_of(host) == Signature(
        (
            TensorParameter(
                "x",
                "bf16",
                8,
                (4, None, 8, None),
                (1, 32, 4, None),
                (1, 1, 1, 1),
                (1, 1, 1, 8),
                (2, 1, 1),
            ),
        )
    )
    (launch,) = load(host_source(host)).run(((0, (4, 3, 8, 5), (1, 32, 4, 96)),), 4)
    assert launch.grid == (12, 8, 5)
    assert launch.arguments == (0, 3, 5, 96)


def test_signature_and_program_survive_json(scale: CompiledProgram) -> None:
    assert scale.signature.parameters[1] == ScalarParameter("s", "f32")
    assert str(scale.signature) == '(x: f32, align<16>, "(?,?):(?{div=4},1)", s: f32)'
    assert CompiledProgram.from_json(scale.to_json()) == scale


def test_what_a_host_part_cannot_say(parse_module: Parse) -> None:
    module = parse_module(
        """
func.func @launch(%a: f32) {
  %b = arith.addf %a, %a : f32
  func.return
}"""
    )
    with pytest.raises(CompileError, match=r"got arith\.addf") as caught:
        host_source(find_host(module))
    assert caught.value.code == "CD-HOST"
    with pytest.raises(CompileError, match="@launch"):
        find_host(parse_module("func.func @other() { func.return }"))


def test_a_launch_without_threads_is_refused(parse_module: Parse) -> None:
    module = parse_module(
        """
func.func @launch() {
  %one = arith.constant 1 : i32
  cute.launch @k grid(%one, %one, %one) args()
  func.return
}"""
    )
    with pytest.raises(CompileError, match="'threads'"):
        host_source(find_host(module))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (".entry scale(", ".entry other(", "got other"),
        ("  .param .b32 scale_param_2,\n", "", r"sizes \(8, 4, 8, 4\)"),
        (".param .b64 scale_param_3", ".param .b32 scale_param_3", r"sizes \(8, 4, 4, 4, 4\)"),
    ],
)
def test_kernels_and_host_part_must_agree(
    scale: CompiledProgram, old: str, new: str, said: str
) -> None:
    ptx = scale.ptx.replace(old, new)
    assert ptx != scale.ptx
    other = CompiledProgram(scale.name, scale.arch, ptx, scale.host, scale.signature)
    with pytest.raises(CompileError, match=said):
        other.check()


def test_kernels_and_host_part_agree_about_clusters(scale: CompiledProgram) -> None:
    ptx = scale.ptx.replace(".reqntid 64,1,1", ".reqntid 64,1,1\n.reqnctapercluster 2")
    assert ptx != scale.ptx
    other = CompiledProgram(scale.name, scale.arch, ptx, scale.host, scale.signature)
    with pytest.raises(CompileError, match=r"cluster \(1, 1, 1\) .* got \(2, 1, 1\) in the PTX"):
        other.check()


def test_a_tensor_map_is_a_parameter_of_128_bytes(parse_module: Parse, memref: str) -> None:
    made = "!cute_nvgpu.tma_descriptor<f32, (64,32)>"
    module = parse_module(
        f"""
func.func @launch(%x: {memref}) {{
  %one = arith.constant 1 : i32
  %t = cute_nvgpu.make_tma_descriptor %x : {memref} -> {made}
  cute.launch @k grid(%one, %one, %one) args(%t) {{threads = 32 : i32}} : {made}
  func.return
}}"""
    )
    for parameter in (".b64 t", ".align 64 .b8 t[192]"):
        ptx = f".version 8.0\n.target sm_90a\n.entry k(.param {parameter}) {{ ret; }}\n"
        with pytest.raises(CompileError, match=r"for \(tensor_map\), got sizes"):
            CompiledProgram.of("k", "sm_90a", ptx, module)


def test_without_a_list_every_tensor_may_be_written(parse_module: Parse, memref: str) -> None:
    text = """
func.func @launch(%x: {0}, %y: {0}) {1} {{
  func.return
}}"""
    host = find_host(parse_module(text.format(memref, "attributes {cute.written = array<i64: 1>}")))
    assert [getattr(p, "written", None) for p in signature_of(host).parameters] == [False, True]
    host = find_host(parse_module(text.format(memref, "")))
    assert [getattr(p, "written", None) for p in signature_of(host).parameters] == [True, True]


def test_names_come_from_the_arguments(parse_module: Parse) -> None:
    block = SimpleNamespace(args=[SimpleNamespace(name_hint=None, type="i32")])
    host = SimpleNamespace(regions=[SimpleNamespace(blocks=[block])])
    assert signature_of(host).parameters == (ScalarParameter("argument 0", "i32"),)
