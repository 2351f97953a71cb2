"""Tensors through layouts that a kernel computes: reshaped, transposed and overlapping ones, tiled,
multiplied, and brought by TMA where the layout follows from arguments; what a thread has of a
tensor; tiled copies and multiplies that are made of layouts.
"""

import io

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError
from cutedialect.backend.emulator import launch
from cutedialect.backend.runtime.driver import find_driver
from cutedialect.tools.cute_opt import CuteOpt

ARCHS = ["sm_80", "sm_90a", "sm_100a"]


@cute.kernel
def doubled_as_lines(A, C):
    """Each 64 elements of a contiguous matrix are a line, whatever its rows are."""
    layout = cute.make_layout((A.shape[0] * A.shape[1] // 64, 64), (64, 1))
    a, c = cute.make_tensor(A, layout), cute.make_tensor(C, layout)
    line, _ = cute.tile_index(c, (16, 64))
    tile = cute.local_tile(a, (16, 64), (line, 0)).load()
    cute.copy(tile * 2, cute.local_tile(c, (16, 64), (line, 0)))


@cute.kernel
def product_of_transposed(A, B, C):
    """C = A^T B^T, where A is (K,M) and B (N,K): both are views with the modes of a product."""
    a = cute.make_tensor(A, cute.make_layout((A.shape[1], A.shape[0]), (1, A.layout.stride[0])))
    b = cute.make_tensor(B, cute.make_layout((B.shape[1], B.shape[0]), (1, B.layout.stride[0])))
    m, n = cute.tile_index(C, (64, 64))
    acc = cute.zeros((64, 64), cute.f32)
    rows, columns = (
        cute.local_tile(a, (64, 32), (m, None)),
        cute.local_tile(b, (32, 64), (None, n)),
    )
    for k in cute.range(rows.tiles):
        cute.gemm(rows[k], columns[k], acc)
    cute.copy(acc.to(C.dtype), cute.local_tile(C, (64, 64), (m, n)))


@cute.kernel
def windows(X, Y, *, width):
    """Sums of `width` neighbors: a view whose rows overlap, from the second element on."""
    count = Y.shape[0]
    rows = cute.make_tensor(X, cute.make_layout((count, width), (1, 1)), offset=1)
    (i,) = (cute.tile_index(Y, (64,)),)
    tile = cute.local_tile(rows, (64, width), (i, 0)).load()
    cute.copy(cute.row_sum(tile), cute.local_tile(Y, (64,), (i,)))


@cute.kernel
def every_other_row(A, C):
    """The composition of a tensor, one mode of all elements, with a layout that skips rows."""
    flat = cute.make_tensor(A, cute.make_layout((A.shape[0] * A.shape[1],), (1,)))
    picked = cute.composition(flat, cute.make_layout((16, 32), (64, 1)))
    cute.copy(
        cute.local_tile(picked, (16, 32), (0, 0)).load(), cute.local_tile(C, (16, 32), (0, 0))
    )


def ints(*shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def run(kernel, *arrays, arch="sm_80", backend="emulator", **options):
    compiled = cute.compile(kernel, *arrays, arch=arch, backend=backend, **options)
    compiled.launch(*arrays)
    return compiled


def test_a_matrix_as_lines(every_stage):
    a = ints(50, 96)
    c = np.zeros_like(a)
    run(doubled_as_lines, a, c)
    assert np.array_equal(c, a * 2)


@pytest.mark.parametrize("arch", ARCHS)
def test_views_are_multiplied(arch):
    """M, N and K are no multiples of the tile; TMA brings both views, by maps of their layouts."""
    a, b = ints(104, 136, dtype=np.float16), ints(72, 104, dtype=np.float16, seed=2)
    c = np.zeros((136, 72), np.float16)
    compiled = run(product_of_transposed, a, b, c, arch=arch)
    assert np.array_equal(c, a.T.astype(np.float32) @ b.T.astype(np.float32))
    loads = compiled.ptx.count("cp.async.bulk.tensor.2d.shared")
    assert (loads >= 2) == (arch != "sm_80")
    assert not any("TMA not taken" in remark.message for remark in compiled.remarks)


def test_each_stage_of_a_product_of_views_agrees(every_stage):
    a, b = ints(40, 72, dtype=np.float16), ints(64, 40, dtype=np.float16, seed=2)
    c = np.zeros((72, 64), np.float16)
    run(product_of_transposed, a, b, c, arch="sm_90a")
    assert np.array_equal(c, a.T.astype(np.float32) @ b.T.astype(np.float32))
    assert {"cute-fold-structs", "cute-partition"} <= set(every_stage)


def test_rows_overlap_and_begin_at_an_offset():
    x = ints(1000)
    y = np.zeros((1000 - 8,), np.float32)
    run(windows, x, y, width=8)
    assert np.array_equal(y, np.lib.stride_tricks.sliding_window_view(x[1:], 8).sum(1))


def test_a_composition_skips_rows():
    a = ints(32, 32)
    c = np.zeros((16, 32), np.float32)
    run(every_other_row, a, c)
    assert np.array_equal(c, a[::2])


# Thread by thread: what each has of the source goes to where it has the target.
PARTITIONS = """
!M = !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
!C = !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">
!P = !cute.memref<f32, gmem, align<16>, "(4,?,?):(1,?{i64 div=16},32)">
!V = !cute.memref<f32, gmem, align<16>, "(4):(1)">
cute.kernel @k(%A: !M, %B: !M) {
  %threads = cute.static : !cute.layout<"(4,8):(8,1)">
  %values = cute.static : !cute.layout<"(1,4):(4,1)">
  %copy = cute.make_tiled_copy %threads, %values :
    !cute.layout<"(4,8):(8,1)">, !cute.layout<"(1,4):(4,1)"> -> !C
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %count = arith.constant 32 : i32
  scf.for %t = %zero to %count step %one : i32 {
    %from = cute.partition %A, %t by %copy {side = "S"} : !M, !C -> !P
    %to = cute.partition %B, %t by %copy {side = "D"} : !M, !C -> !P
    %rows = cute.dim %from, 1 : !P
    %columns = cute.dim %from, 2 : !P
    scf.for %i = %zero to %rows step %one : i32 {
      scf.for %j = %zero to %columns step %one : i32 {
        %a = cute.local_tile %from, [_, *, *], (%zero, %i, %j) : !P -> !V
        %b = cute.local_tile %to, [_, *, *], (%zero, %i, %j) : !P -> !V
        %x = cute.load %a : !V -> !cute.fragment<f32, "(4)">
        cute.copy %x, %b : !cute.fragment<f32, "(4)"> -> !V
      }
    }
  }
}
"""


def lowered(text, arch="sm_80"):
    out, err = io.StringIO(), io.StringIO()
    options = ["-p", f"cute-to-ptx{{arch={arch}}}", "-t", "ptx"]
    assert CuteOpt(options, io.StringIO(text), out, err).run() == 0, err.getvalue()
    return out.getvalue()


def test_partitions_of_all_threads_are_the_tensor():
    a = ints(12, 96)
    b = np.full_like(a, np.nan)
    arguments = []
    for array in (a, b):
        arguments += [array, *map(np.int32, array.shape), np.int64(array.shape[1])]
    ptx = lowered(PARTITIONS)
    launch(ptx, "k", (1,), int(ptx.split(".reqntid ")[1].split()[0].rstrip(",")), arguments)
    assert np.array_equal(a, b)


# A product whose operands are staged by a tiled copy, multiplied by a tiled multiply: of values of
# the layout algebra, and by the attributes that say the same.
TILED = """
!A = !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">
!D = !cute.memref<f32, gmem, align<16>, "(64,64):(64,1)">
cute.kernel @k(%A: !A, %B: !A, %D: !D) {{
  %zero = arith.constant 0 : i32
  %nothing = arith.constant 0.0 : f32
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
  cute.fill %acc, %nothing : !cute.fragment<f32, "(64,64)">
  {0}
  %d = cute.local_tile %D, [64, 64], (%zero, %zero) : !D -> !D
  cute.copy %acc, %d : !cute.fragment<f32, "(64,64)"> -> !D
}}
"""
AS_VALUES = """
  %threads = cute.static : !cute.layout<"(32,4):(4,1)">
  %values = cute.static : !cute.layout<"(2,8):(8,1)">
  %copy = cute.make_tiled_copy %threads, %values : !cute.layout<"(32,4):(4,1)">,
    !cute.layout<"(2,8):(8,1)"> ->
    !cute.tiled_copy<"((4,32),(8,2)):((512,2),(64,1))", tiler = "(64,32)">
  %warps = cute.static : !cute.layout<"(2,2,1):(1,2,0)">
  %mma = cute.make_tiled_mma %warps {atom = "mma_m16n8k16_f32_f16"} :
    !cute.layout<"(2,2,1):(1,2,0)"> -> !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0))">
  %x = cute.local_tile %A, [64, 32], (%zero, %zero) : !A -> !A
  %a = cute.tiled_tile %x by %copy :
    !A, !cute.tiled_copy<"((4,32),(8,2)):((512,2),(64,1))", tiler = "(64,32)"> -> !A
  %b = cute.local_tile %B, [64, 32], (%zero, %zero) : !A -> !A
  cute.tiled_gemm %a, %b, %acc by %mma : !A, !A, !cute.fragment<f32, "(64,64)">,
    !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0))">
"""
AS_ATTRIBUTES = """
  %a = cute.local_tile %A, [64, 32], (%zero, %zero)
    {tiled = #cute.tiled_copy<"((4,32),(8,2)):((512,2),(64,1))", tiler = "(64,32)">} : !A -> !A
  %b = cute.local_tile %B, [64, 32], (%zero, %zero) : !A -> !A
  cute.gemm %a, %b, %acc {atom = "(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0))"} :
    !A, !A, !cute.fragment<f32, "(64,64)">
"""


def test_tiled_copies_and_multiplies_of_values_are_those_of_attributes():
    texts = [lowered(TILED.format(part)) for part in (AS_VALUES, AS_ATTRIBUTES)]
    codes = [
        [line.split("//")[0].strip() for line in text.splitlines() if ".loc" not in line]
        for text in texts
    ]
    assert codes[0] == codes[1]
    a, b = ints(64, 32, dtype=np.float16), ints(64, 32, dtype=np.float16, seed=2)
    d = np.full((64, 64), np.nan, np.float32)
    smem = 1 << 15
    launch(texts[0], "k", (1,), 128, [a, b, d], dynamic_smem=smem)
    assert np.array_equal(d, a.astype(np.float32) @ b.T.astype(np.float32))


# What is stored to a buffer in shared memory is loaded through another layout of it.
BUFFER = """
!G = !cute.memref<f32, gmem, align<16>, "(16,32):(32,1)">
!S = !cute.memref<f32, smem, align<128>, "(16,32):(32,1)">
!V = !cute.memref<f32, smem, align<64>, "(7,64):(64,1)">
!H = !cute.memref<f32, gmem, align<16>, "(7,64):(64,1)">
cute.kernel @k(%A: !G, %B: !H) {
  %zero = arith.constant 0 : i32
  %s = cute.alloc_smem : !S
  %a = cute.local_tile %A, [16, 32], (%zero, %zero) : !G -> !G
  %x = cute.load %a : !G -> !cute.fragment<f32, "(16,32)">
  cute.copy %x, %s : !cute.fragment<f32, "(16,32)"> -> !S
  %layout = cute.static : !cute.layout<"(7,64):(64,1)">
  %at = cute.static : !cute.int_tuple<"16">
  %v = cute.make_view %s, %layout at %at : !S, !cute.layout<"(7,64):(64,1)">, !cute.int_tuple<"16"> -> !V
  %y = cute.load %v : !V -> !cute.fragment<f32, "(7,64)">
  %b = cute.local_tile %B, [7, 64], (%zero, %zero) : !H -> !H
  cute.copy %y, %b : !cute.fragment<f32, "(7,64)"> -> !H
}
"""  # noqa: E501


def test_a_buffer_in_shared_memory_is_viewed():
    a, b = ints(16, 32), np.full((7, 64), np.nan, np.float32)
    ptx = lowered(BUFFER)
    threads = int(ptx.split(".reqntid ")[1].split(",")[0])
    launch(ptx, "k", (1,), threads, [a, b], dynamic_smem=4096)
    assert np.array_equal(b, a.reshape(-1)[16 : 16 + 448].reshape(7, 64))


def refused(body):
    """The message of a kernel's refusal, whose line is that of the mistake."""
    kernel = cute.kernel(body)
    a = np.zeros((64, 64), np.float32)
    with pytest.raises(CompileError) as caught:
        cute.compile(kernel, a, a, arch="sm_80", backend="emulator")
    assert "test_views_through_layouts.py" in caught.value.location
    return str(caught.value)


def test_wrong_views_are_refused_at_their_line():
    def no_layout(A, C):
        cute.make_tensor(A, (64, 65))

    def part(A, C):
        cute.make_tensor(A.slice(0, 1, 9), cute.make_layout((8, 8), (64, 1)))

    def threads(A, C):
        cute.TiledCopy.of(cute.make_layout((A.shape[0], 4), (4, 1)), cute.Layout((1, 4)))

    def nested(A, C):
        cute.composition(A, cute.make_layout((A.shape[1], A.shape[0]), (A.shape[0], 1)))

    def floats(A, C):
        cute.make_layout((A.shape[0], 2.5), (1, 1))

    assert "expected a layout of cute.make_layout or cute.Layout, got tuple" in refused(no_layout)
    assert "view the tensor, and take the part of the view" in refused(part)
    assert "take numbers for threads and values" in refused(threads)
    assert "expected run-time extents of whole modes" in refused(nested)
    assert "expected ints and scalars in a shape, got float" in refused(floats)


@pytest.mark.gpu
@pytest.mark.skipif(find_driver() is None, reason="needs a GPU")
def test_a_gpu_gives_what_the_emulator_gives():
    a = ints(500, 960)
    c = np.zeros_like(a)
    run(doubled_as_lines, a, c, arch=None, backend="cuda")
    assert np.array_equal(c, a * 2)
    a, b = ints(520, 1048, dtype=np.float16), ints(776, 520, dtype=np.float16, seed=2)
    c = np.zeros((1048, 776), np.float16)
    run(product_of_transposed, a, b, c, arch=None, backend="cuda")
    assert np.array_equal(c, (a.T.astype(np.float32) @ b.T.astype(np.float32)).astype(np.float16))
    x = ints(100_000)
    y = np.zeros((100_000 - 8,), np.float32)
    run(windows, x, y, arch=None, backend="cuda", width=8)
    assert np.array_equal(y, np.lib.stride_tricks.sliding_window_view(x[1:], 8).sum(1))
