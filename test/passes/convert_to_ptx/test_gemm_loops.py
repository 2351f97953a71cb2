"""Whole multistage GEMM loops at the thread level: atoms, trip counts, ragged edges, op counts."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

RNG = np.random.default_rng(3)
TILE = 64  # rows and columns of a CTA tile: 2 x 2 warps
THREADS = 128


@dataclass(frozen=True)
class Case:
    """A kernel of K-major operands: element types, atom, and thread-value layouts."""

    element: str
    accumulator: str
    out: str
    atom: str
    depth: int  # k of one atom
    block: int  # k of one stage
    a: str
    b: str
    c: str
    swizzle: str
    vector: int  # elements in 16 bytes
    dtype: type
    out_dtype: type
    stages: int = 3
    matrices: bool = True


C16 = "((4,8,2,2),((2,2),2,4)):((128,1,32,2048),((64,8),16,512))"
HALF = {
    "atom": "16x8x16",
    "depth": 16,
    "block": 32,
    "a": "((4,8,2,2),((2,2,2),2,1)):((128,1,32,0),((64,8,512),16,0))",
    "b": "((4,8,2,2),((2,2),4,1)):((128,1,0,32),((64,512),8,0))",
    "c": C16,
    "swizzle": "S<2,4,3>",
    "vector": 8,
}
CASES = {
    "f16": Case("f16", "f32", "f16", dtype=np.float16, out_dtype=np.float16, **HALF),
    "f16 into f16": Case("f16", "f16", "f16", dtype=np.float16, out_dtype=np.float16, **HALF),
    "bf16": Case(
        "bf16", "f32", "bf16", dtype=ml_dtypes.bfloat16, out_dtype=ml_dtypes.bfloat16, **HALF
    ),
    "s8": Case(
        "i8", "i32", "i32", "16x8x32", 32, 64,
        "((4,8,2,2),((4,2,2),2,1)):((256,1,32,0),((64,8,1024),16,0))",
        "((4,8,2,2),((4,2),4,1)):((256,1,0,32),((64,1024),8,0))",
        C16, "S<2,4,3>", 16, np.int8, np.int32,
    ),
    "tf32": Case(
        "f32", "f32", "f32", "16x8x8", 8, 32,
        "((4,8,2,2),((2,2),2,1)):((64,1,32,0),((8,256),16,0))",
        "((4,8,2,2),((2),4,1)):((64,1,0,32),((256),8,0))",
        C16, "S<3,4,3>", 4, np.float32, np.float32,
    ),
    "f64": Case(
        "f64", "f64", "f64", "8x8x4", 4, 16,
        "((4,8,2,2),(1,4,1)):((64,1,32,0),(0,8,0))",
        "((4,8,2,2),(1,4,1)):((64,1,0,32),(0,8,0))",
        "((4,8,2,2),(2,4,4)):((128,1,32,2048),(64,8,512))",
        "S<2,4,3>", 2, np.float64, np.float64, matrices=False,
    ),
}  # fmt: skip


def kernel(case: Case) -> str:
    """The text of kernel `k`(A, B, C)."""
    e, stages, block, depth = case.element, case.stages, case.block, case.depth
    whole = f'!cute.memref<{e}, gmem, align<16>, "(?,?):(?{{i64 div={case.vector}}},1)">'
    part = whole.replace("(?,?)", f"({TILE},{block})")
    out = f'!cute.memref<{case.out}, gmem, align<16>, "(?,?):(?{{i64 div=8}},1)">'
    out_tile = out.replace("(?,?)", f"({TILE},{TILE})")

    def smem(shape: str, strides: str) -> str:
        return f'!cute.memref<{e}, smem, align<1024>, {case.swizzle}, "({shape}):({strides})">'

    ring = smem(f"{TILE},{block},{stages}", f"{block},1,{TILE * block}")
    stage = smem(f"{TILE},{block}", f"{block},1")
    step = smem(f"{TILE},{depth}", f"{block},1")
    lanes = block // case.vector
    rows = THREADS // lanes
    tv = f"(({lanes},{rows}),{case.vector}):(({case.vector * rows},1),{rows})"
    tiled = f'#cute.tiled_copy<"{tv}", tiler = "({rows},{block})">'
    fa = f'!cute.fragment<{e}, "({TILE},{depth})", "{case.a}">'
    fb = f'!cute.fragment<{e}, "({TILE},{depth})", "{case.b}">'
    fc = f'!cute.fragment<{case.accumulator}, "({TILE},{TILE})", "{case.c}">'
    fo = f'!cute.fragment<{case.out}, "({TILE},{TILE})", "{case.c}">'
    load = f"!cute_nvgpu.atom.universal_copy<{e}, 64 b>"
    if case.matrices:
        load = f"!cute_nvgpu.atom.ldsm<val_type = {e}, num_matrices = 4, n>"
    mma = f"!cute_nvgpu.sm80.mma<{case.atom}, elem_type = ({e}, {e}, {case.accumulator})>"
    copy = f"!cute_nvgpu.atom.simt_async_copy<{e}, cache = global, 128 b>"

    def fill(k: str, slot: str, condition: str) -> str:
        lines = []
        for name, coord in (("A", "%m"), ("B", "%n")):
            g, s = f"%g{name}{slot[1:]}", f"%t{name}{slot[1:]}"
            lines += [
                f"{g} = cute.local_tile %{name}, [{TILE}, {block}], ({coord}, {k}) "
                f": {whole} -> {part}",
                f"{s} = cute.stage %s{name}[{slot}] : {ring} -> {stage}",
                f"cute.copy {g}, {s} if {condition} "
                f"{{atom = {copy}, tiled = {tiled}}} : {part} -> {stage}",
            ]
        return "\n".join([*lines, "cute_nvgpu.cp_async_commit"])

    steps = []
    for i in range(block // depth):
        for name, fragment in (("A", fa), ("B", fb)):
            steps += [
                f"%v{name}{i} = cute.subview %v{name}, (0, {depth * i}) : {stage} -> {step}",
                f"%f{name}{i} = cute.alloc_fragment : {fragment}",
                f"cute.copy %v{name}{i}, %f{name}{i} {{atom = {load}}} : {step} -> {fragment}",
            ]
        steps.append(f"cute.gemm %fA{i}, %fB{i}, %acc {{atom = {mma}}} : {fa}, {fb}, {fc}")
    result, finish = "%acc", ""
    if case.out != case.accumulator:
        result = "%o"
        finish = f"""%o = cute.map (%x = %acc : {fc}) -> {fo} {{
    %y = arith.truncf %x : {case.accumulator} to {case.out}
    cute.yield %y : {case.out}
  }}"""
    zero = "0" if case.accumulator == "i32" else "0.0"
    body = "\n    ".join(steps)
    return f"""
cute.kernel @k(%A: {whole}, %B: {whole}, %C: {out}) attributes {{threads = {THREADS} : i32}} {{
  %m = cute.block_idx x
  %n = cute.block_idx y
  %K = cute.dim %A, 1 : {whole}
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %cS = arith.constant {stages} : i32
  %cP = arith.constant {stages - 1} : i32
  %block = arith.constant {block} : i32
  %round = arith.constant {block - 1} : i32
  %up = arith.addi %K, %round : i32
  %nk = arith.divsi %up, %block : i32
  %zero = arith.constant {zero} : {case.accumulator}
  %acc = cute.alloc_fragment : {fc}
  cute.fill %acc, %zero : {fc}
  %sA = cute.alloc_smem : {ring}
  %sB = cute.alloc_smem : {ring}
  scf.for %s = %c0 to %cP step %c1 : i32 {{
    %in = arith.cmpi slt, %s, %nk : i32
    {fill("%s", "%s", "%in")}
  }}
  scf.for %k = %c0 to %nk step %c1 : i32 {{
    cute_nvgpu.cp_async_wait {{pending = {stages - 2} : i32}}
    cute.barrier
    %next = arith.addi %k, %cP : i32
    %slot = arith.remui %next, %cS : i32
    %more = arith.cmpi slt, %next, %nk : i32
    {fill("%next", "%slot", "%more")}
    %cur = arith.remui %k, %cS : i32
    %vA = cute.stage %sA[%cur] : {ring} -> {stage}
    %vB = cute.stage %sB[%cur] : {ring} -> {stage}
    {body}
  }}
  %gC = cute.local_tile %C, [{TILE}, {TILE}], (%m, %n) : {out} -> {out_tile}
  {finish}
  cute.copy {result}, %gC : {fo} -> {out_tile}
}}"""


def up(extent: int, multiple: int) -> int:
    return -(-extent // multiple) * multiple


def check(run_kernel, case: Case, m: int, n: int, k: int) -> None:
    """Small integers, so that the result is exact; neighbors of C stay as they were."""
    width = max(up(k, case.vector), case.vector)
    a = RNG.integers(-1, 2, (m, width)).astype(case.dtype)
    b = RNG.integers(-1, 2, (n, width)).astype(case.dtype)
    c = np.full((m, up(n, 8)), 7, case.out_dtype)
    operands = [(a, (m, k), (width,)), (b, (n, k), (width,)), (c, (m, n), (c.shape[1],))]
    size = 2 * TILE * case.block * case.stages * np.dtype(case.dtype).itemsize
    run_kernel(kernel(case), (-(-m // TILE), -(-n // TILE)), operands, THREADS, size)
    expected = a[:, :k].astype(np.float64) @ b[:, :k].astype(np.float64).T
    assert np.array_equal(c[:, :n].astype(np.float64), expected)
    assert np.all(c[:, n:] == c.dtype.type(7))


@pytest.mark.some(3)
@pytest.mark.parametrize("name", CASES)
def test_atoms(run_kernel, name) -> None:
    extents = (40, 20, 21) if name == "f64" else (70, 50, 77)
    check(run_kernel, CASES[name], *extents)


@pytest.mark.parametrize("extents", [(64, 128, 96), (1, 1, 1)])
def test_extents(run_kernel, extents) -> None:
    check(run_kernel, CASES["f16"], *extents)


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4, 7])
def test_trip_counts(run_kernel, trips) -> None:
    check(run_kernel, CASES["f16"], 64, 64, 32 * trips)


@pytest.mark.parametrize("name", CASES)
def test_few_ops(lower, name) -> None:
    assert sum(1 for _ in lower(kernel(CASES[name])).walk()) <= 320


def test_loop_holds_only_what_changes(lower) -> None:
    """In the main loop: per 64-bit address one add, no thread index, no division."""
    from cutedialect.dialects import ptx

    loops = [op for op in lower(kernel(CASES["f16"])).walk() if isinstance(op, ptx.ForOp)]
    names = [op.name for op in loops[1].body.block.walk()]
    assert len(loops) == 2
    assert names.count("ptx.mma") == 2
    assert "ptx.special" not in names
    assert "ptx.mul" in names
    wide = [
        op
        for op in loops[1].body.block.ops
        if isinstance(op, ptx.ScalarOp) and op.mnemonic == "add.s64"
    ]
    assert len(wide) == 4  # two vectors of A, two of B


def matrix_kernel(element: str, tv: str, shape: tuple[int, int], atom: str, strides: str) -> str:
    """c = a through smem and one matrix load, stored by the fragment's layout."""
    rows, columns = shape
    by_eights = f"((8,4),({rows // 8},{columns // 4})):((1,{rows}),(8,{4 * rows}))"
    tiled = f'#cute.tiled_copy<"{by_eights}", tiler = "({rows},{columns})">'
    gmem = f'!cute.memref<{element}, gmem, align<16>, "({rows},{columns}):{strides}">'
    smem = f'!cute.memref<{element}, smem, align<1024>, S<2,4,3>, "({rows},{columns}):{strides}">'
    fragment = f'!cute.fragment<{element}, "({rows},{columns})", "{tv}">'
    return f"""
cute.kernel @k(%a: {gmem}, %c: {gmem}) attributes {{threads = 32 : i32}} {{
  %s = cute.alloc_smem : {smem}
  cute.copy %a, %s {{tiled = {tiled}}} : {gmem} -> {smem}
  cute.barrier
  %f = cute.alloc_fragment : {fragment}
  cute.copy %s, %f {{atom = {atom}}} : {smem} -> {fragment}
  cute.copy %f, %c : {fragment} -> {gmem}
}}"""


FRAGMENTS = {
    "A m16k16": ("((4,8),(2,2,2)):((32,1),(16,8,128))", (16, 16)),
    "A m32k32": ("((4,8),((2,2,2),2,2)):((64,1),((32,8,256),16,512))", (32, 32)),
    "B n8k16": ("((4,8),(2,2)):((16,1),(8,64))", (8, 16)),
    "B n24k16": ("((4,8),((2,2),3)):((48,1),((24,192),8))", (24, 16)),
    "B n8k8": ("((4,8),2):((16,1),8)", (8, 8)),
}


@pytest.mark.parametrize("name", FRAGMENTS)
@pytest.mark.parametrize("form", ["n", "t"])
def test_ldmatrix(run_kernel, compile_ptx, name, form) -> None:
    """K-major smem takes the plain form, MN-major smem the transposed one."""
    tv, (rows, columns) = FRAGMENTS[name]
    strides = f"({columns},1)" if form == "n" else f"(1,{rows})"
    atom = f"!cute_nvgpu.atom.ldsm<val_type = f16, num_matrices = 4, {form}>"
    text = matrix_kernel("f16", tv, (rows, columns), atom, strides)
    a = np.arange(rows * columns).astype(np.float16)
    c = np.zeros_like(a)
    run_kernel(text, 1, [a, c], 32, rows * columns * 2)
    assert np.array_equal(a, c)
    assert (".trans" in compile_ptx(text)) == (form == "t")


@pytest.mark.parametrize(
    ("element", "dtype", "tv", "shape"),
    [
        ("i8", np.int8, "((4,8),(4,2,2)):((64,1),(16,8,256))", (16, 32)),
        ("f32", np.float32, "((4,8),(2,2)):((16,1),(8,64))", (16, 8)),
        ("f64", np.float64, "((4,8),1):((8,1),0)", (8, 4)),
        ("f16", np.float16, "((4,8),(2,2,2)):((32,1),(16,8,128))", (16, 16)),
    ],
)
def test_other_majors_by_plain_loads(run_kernel, element, dtype, tv, shape) -> None:
    """MN-major operands without a transposing instruction: element loads and packing."""
    atom = f"!cute_nvgpu.atom.universal_copy<{element}, {8 * np.dtype(dtype).itemsize} b>"
    rows, columns = shape
    text = matrix_kernel(element, tv, shape, atom, f"(1,{rows})")
    a = np.arange(rows * columns).astype(dtype)
    c = np.zeros_like(a)
    run_kernel(text, 1, [a, c], 32, a.nbytes)
    assert np.array_equal(a, c)
