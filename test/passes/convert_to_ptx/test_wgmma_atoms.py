"""Every type combination of wgmma as an atom of `cute.gemm`: lowered, assembled and run on the
emulator, with A in shared memory and in registers, each major that is legal, operands negated and
the accumulator started anew.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException, VerifyException

from cutedialect.atoms.wgmma_atoms import find_wgmma, wgmma
from cutedialect.backend.emulator import launch
from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute import FragmentType, MemRefType, TiledCopyAttr
from cutedialect.dialects.cute_nvgpu import Sm90MmaType, UniversalCopyType
from cutedialect.layout import Layout
from cutedialect.passes.analysis.layout_inference import coalesced_for
from cutedialect.passes.analysis.smem_layouts import staging_layout
from cutedialect.passes.analysis.thread_layouts import mma_accumulator, mma_operand

IR = {
    "f16": "f16",
    "bf16": "bf16",
    "tf32": "f32",
    "f32": "f32",
    "e4m3": "f8E4M3FN",
    "e5m2": "f8E5M2",
    "s8": "i8",
    "u8": "ui8",
    "s32": "i32",
}
NUMPY = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
}
ROWS = list(dict.fromkeys(tuple(atom.types[:3]) for atom in wgmma()))
MAJORS = [("K", "K"), ("MN", "K"), ("K", "MN"), ("MN", "MN")]


def parser(text):
    context = Context()
    for name, loader in all_dialects().items():
        context.register_dialect(name, loader)
    return Parser(context, text)


def element(name):
    return parser(IR[name]).parse_type()


def tile(name, shape, major):
    """A tile of (rows, depth) in global memory."""
    strides = (shape[1], 1) if major == "K" else (1, shape[0])
    return MemRefType.get(element(name), "gmem", 16, Layout(shape, strides))


def staged(type_, major):
    layout, swizzle, alignment = staging_layout(type_.shape, 1 if major == "K" else 0, type_.bits)
    return MemRefType.get(type_.element, "smem", max(alignment, 128), layout, swizzle)


def kernel(types, n, depths, source, majors, negate=None, scale_d=1):
    """D (64,n) = A B^T (+ 100 without scale_d = 0), in one warpgroup."""
    atom = next(each for each in find_wgmma(*types, "sm_90a") if each.shape_mnk[1] == n)
    k = atom.shape_mnk[2] * depths
    a, b = tile(types[0], (64, k), majors[0]), tile(types[1], (n, k), majors[1])
    d = tile(types[2], (64, n), "K")
    sa, sb = staged(a, majors[0]), staged(b, majors[1])
    acc = FragmentType.get(d.element, (64, n), mma_accumulator(atom, (64, n), (1, 1)))
    used = sa
    load = f"""
  %sA = cute.alloc_smem : {sa}
  {copy("%A", "%sA", a, sa)}"""
    if source == "rmem":
        used = FragmentType.get(a.element, (64, k), mma_operand(atom, "a", (64, k), (1, 1)))
        load = f"%sA = cute.load %A : {a} -> {used}"
    mma = Sm90MmaType.get(atom.shape_mnk, a.element, b.element, d.element, source, negate, scale_d)
    plain = UniversalCopyType.get(d.element, 32)
    start = "100 : i32" if types[2] == "s32" else f"100.0 : {IR[types[2]]}"
    return (
        atom,
        k,
        f"""
cute.kernel @k(%A: {a}, %B: {b}, %D: {d}) attributes {{threads = 128 : i32}} {{
  %sB = cute.alloc_smem : {sb}
  {load}
  {copy("%B", "%sB", b, sb)}
  %acc = cute.alloc_fragment : {acc}
  %start = arith.constant {start}
  cute.fill %acc, %start : {acc}
  cute_nvgpu.fence_proxy_async
  cute.barrier
  cute_nvgpu.wgmma_fence
  cute.gemm %sA, %sB, %acc {{atom = {mma}}} : {used}, {sb}, {acc}
  cute_nvgpu.wgmma_commit
  cute_nvgpu.wgmma_wait {{pending = 0 : i32}}
  cute.copy %acc, %D {{atom = {plain}}} : {acc} -> {d}
}}""",
    )


def copy(source, target, from_, to):
    tiled = TiledCopyAttr(coalesced_for(from_, 128))
    atom = UniversalCopyType.get(from_.element, 8)
    return f"cute.copy {source}, {target} {{atom = {atom}, tiled = {tiled}}} : {from_} -> {to}"


def values(name, shape, major, seed):
    low = 0 if name == "u8" else -2
    made = np.random.default_rng(seed).integers(low, 3, shape).astype(NUMPY[name])
    return made if major == "K" else np.asfortranarray(made)


def check(compile_ptx, types, n=16, depths=2, source="smem", majors=("K", "K"), **options):
    atom, k, text = kernel(types, n, depths, source, majors, **options)
    a, b = values(types[0], (64, k), majors[0], 1), values(types[1], (n, k), majors[1], 2)
    d = np.zeros((64, n), NUMPY[types[2]])
    ptx = compile_ptx(text, "sm_90a")
    assert f"{atom.ptx} " in ptx
    launch(ptx, "k", 1, 128, [a, b, d], 100_000)
    sign = -1 if len(options.get("negate") or "") == 1 else 1
    start = 100 * options.get("scale_d", 1)
    wanted = sign * (a.astype(np.float64) @ b.astype(np.float64).T) + start
    assert np.array_equal(d.astype(np.float64), wanted)


@pytest.mark.some(16)
@pytest.mark.parametrize("source", ["smem", "rmem"])
@pytest.mark.parametrize("types", ROWS, ids="_".join)
def test_every_type_from_each_source(compile_ptx, types, source) -> None:
    check(compile_ptx, types, source=source)


@pytest.mark.some(8)
@pytest.mark.parametrize(("number", "types"), list(enumerate(ROWS)), ids=str)
def test_negated_and_started_anew(compile_ptx, number, types) -> None:
    if types[2] == "s32":
        check(compile_ptx, types, scale_d=0)
        return
    source = ("smem", "rmem")[number % 2]
    negate = ("a", "b", "ab")[number % 3]
    check(compile_ptx, types, source=source, negate=negate)
    check(compile_ptx, types, source=source, negate=negate, scale_d=0)


@pytest.mark.some(5)
@pytest.mark.parametrize("majors", MAJORS[1:], ids="-".join)
@pytest.mark.parametrize(
    "types", [("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32")], ids="_".join
)
def test_each_major(compile_ptx, types, majors) -> None:
    check(compile_ptx, types, n=64, depths=4, majors=majors)
    if majors[0] == "K":
        check(compile_ptx, types, n=64, source="rmem", majors=majors, negate="b")


@pytest.mark.parametrize(
    "types",
    [row for row in ROWS if row[0] in ("tf32", "e4m3", "s8") and row[0] == row[1]],
    ids="_".join,
)
def test_major_that_the_type_lacks(lower, types) -> None:
    _, _, text = kernel(types, 64, 4, "smem", ("K", "MN"))
    with pytest.raises(PassFailedException, match=r"expected a K-major wgmma operand .only 16-bit"):
        lower(text, "sm_90a")


def test_every_entry_is_a_type() -> None:
    """Each shape and type of the registry as an atom, printed and parsed back."""
    for atom in wgmma():
        for source in ("smem", "rmem"):
            negations = (None, "a", "b", "ab") if atom.scales else (None,)
            for negate in negations:
                elements = [element(name) for name in atom.types[:3]]
                type_ = Sm90MmaType.get(atom.shape_mnk, *elements, source, negate, 0, atom.kind)
                assert type_.entry("sm_90a") is atom
        assert parser(str(type_)).parse_type() == type_


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("64x12x16, elem_type = (f16, f16, f32), a = smem", r"expected an mma of f16 x f16 into"),
        ("64x40x32, elem_type = (i8, ui8, i32), a = smem", r"expected an mma of s8 x u8 into s32"),
        ("64x16x16, elem_type = (bf16, bf16, bf16), a = smem", r"into bf16 \(there is none\)"),
        ("64x16x16, elem_type = (f16, bf16, f32), a = smem", r"f16 x bf16 into f32 \(there"),
        ("64x16x16, elem_type = (f16, f16, f32), a = gmem", r"expected operand a in smem or rmem"),
        (
            "64x16x32, elem_type = (i8, i8, i32), a = smem, negate = a",
            r"expected no negation with integer types, got wgmma_m64n16k32_s32_s8_s8",
        ),
        (
            "64x16x16, elem_type = (f16, f16, f32), a = smem, negate = c",
            r"expected negate = a or b or ab, got c",
        ),
        (
            "64x16x16, elem_type = (f16, f16, f32), a = smem, scale_d = 2",
            r"expected scale_d = 0 or 1, got 2",
        ),
    ],
)
def test_what_no_wgmma_can_do(text, message) -> None:
    with pytest.raises(VerifyException, match=message):
        parser(f"!cute_nvgpu.sm90.mma<{text}>").parse_type()
