"""Tensor maps, clusters and the multiprocessor count end to end: hand-written kernels, launched in
the emulator and, where there is a Hopper GPU, on it, with the same comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from cutedialect.backend.runtime.driver import MULTIPROCESSOR_COUNT, driver, gpu_available
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import CompiledProgram

Parse = Callable[[str], Any]


def hopper() -> bool:
    """Whether there is a device that runs sm_90a."""
    return gpu_available() and driver().capability(0) == "90"


PLACES = ["emulator", pytest.param("cuda", marks=pytest.mark.skipif(not hopper(), reason="no GPU"))]

STAGE_PTX = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry stage(.param .align 64 .b8 map[128], .param .b64 out, .param .b32 count)
.reqntid 128,1,1
{{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %rd<8>;
  .shared .align 1024 .b8 tile[{size}];
  .shared .align 8 .b64 arrived;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ctaid.y;
  mov.u32 %r3, tile;
  mov.u32 %r4, arrived;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra STARTED;
  mbarrier.init.shared::cta.b64 [%r4], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {size};
  mov.b64 %rd0, map;
  cvta.param.u64 %rd0, %rd0;
  mul.lo.s32 %r5, %r1, {columns};
  mul.lo.s32 %r6, %r2, {rows};
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%r3], [%rd0, {{%r5, %r6}}], [%r4];
STARTED:
  bar.sync 0;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r4], 0;
  @!%p1 bra WAIT;
  mov.u32 %r7, %nctaid.x;
  mad.lo.s32 %r8, %r2, %r7, %r1;
  ld.param.b64 %rd1, [out];
  mad.wide.s32 %rd1, %r8, {size}, %rd1;
  shl.b32 %r9, %r0, 2;
  cvt.u64.u32 %rd2, %r9;
  add.s64 %rd1, %rd1, %rd2;
  add.s32 %r10, %r3, %r9;
COPY:
  ld.shared.b32 %r11, [%r10];
  st.global.b32 [%rd1], %r11;
  add.s32 %r10, %r10, 512;
  add.s64 %rd1, %rd1, 512;
  add.s32 %r9, %r9, 512;
  setp.lt.s32 %p2, %r9, {size};
  @%p2 bra COPY;
  ret;
}}
"""


def stage(
    parse: Parse, element: str, bits: int, box: tuple[int, int], bank: int, major: str
) -> Any:
    """The program that writes the shared memory of each box, as TMA left it, to `out`. `box` is
    (strided, contiguous) extents, `bank` the bits of the swizzle, `major` the contiguous mode.
    """
    size = box[0] * box[1] * bits // 8
    unit = 128 // bits
    if major == "row":
        layout, extents, (strided, contiguous) = f"(?,?):(?{{i64 div={unit}}},1)", box, (0, 1)
    else:
        layout, extents, (strided, contiguous) = f"(?,?):(1,?{{i64 div={unit}}})", box[::-1], (1, 0)
    tensor = f'!cute.memref<{element}, gmem, align<16>, "{layout}">'
    out = f'!cute.memref<ui8, gmem, align<16>, "(?,{size}):({size},1)">'
    swizzle = f", S<{bank},4,3>" if bank else ""
    made = f"!cute_nvgpu.tma_descriptor<{element}, ({extents[0]},{extents[1]}){swizzle}>"
    module = parse(
        f"""
func.func @launch(%A: {tensor}, %out: {out}) attributes {{cute.written = array<i64: 1>}} {{
  %one = arith.constant 1 : i32
  %bm = arith.constant {box[0]} : i32
  %bn = arith.constant {box[1]} : i32
  %m = cute.dim %A, {strided} : {tensor}
  %n = cute.dim %A, {contiguous} : {tensor}
  %y = arith.ceildivsi %m, %bm : i32
  %x = arith.ceildivsi %n, %bn : i32
  %t = cute_nvgpu.make_tma_descriptor %A : {tensor} -> {made}
  cute.launch @stage grid(%x, %y, %one) args(%t, %out) {{threads = 128 : i32}} : {made}, {out}
  func.return
}}"""
    )
    ptx = STAGE_PTX.format(size=size, rows=box[0], columns=box[1])
    return CompiledProgram.of("stage", "sm_90a", ptx, module)


def boxes(array: np.ndarray, box: tuple[int, int], bank: int) -> np.ndarray:
    """What TMA leaves in shared memory for each box of a matrix: zeros past its end, and every 16
    bytes at the address whose bits 4 and up are XORed with those of 128 bytes.
    """
    rows, columns = (-(-extent // b) for extent, b in zip(array.shape, box, strict=True))
    whole = np.zeros((rows * box[0], columns * box[1]), array.dtype)
    whole[: array.shape[0], : array.shape[1]] = array
    cut = whole.reshape(rows, box[0], columns, box[1]).transpose(0, 2, 1, 3)
    raw = np.ascontiguousarray(cut).view(np.uint8).reshape(rows * columns, -1)
    address = np.arange(raw.shape[1])
    moved = address ^ ((address >> 7 & (1 << bank) - 1) << 4)
    result = np.empty_like(raw)
    result[:, moved] = raw
    return result


def launched(place: str, program: CompiledProgram, *arrays: np.ndarray) -> None:
    """Launch on copies of the arrays in the memory of `place`, and bring the results back."""
    if place == "emulator":
        Kernel(program, backend="emulator").launch(*arrays)
        return
    cupy: Any = import_module("cupy")
    raw = [cupy.asarray(np.frombuffer(array.tobytes("A"), np.uint8)) for array in arrays]
    views = [
        cupy.ndarray(array.shape, array.dtype, memptr=copy.data, strides=array.strides)
        for array, copy in zip(arrays, raw, strict=True)
    ]
    Kernel(program, backend="cuda").launch(*views)
    for array, copy in zip(arrays, raw, strict=True):
        order = "C" if array.flags.c_contiguous else "F"
        array[...] = copy.get().view(array.dtype).reshape(array.shape, order=order)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("element", "dtype", "box", "bank", "major", "shape"),
    [
        ("f16", np.float16, (64, 64), 3, "row", (100, 200)),
        ("f16", np.float16, (32, 64), 3, "column", (70, 136)),
        ("f32", np.float32, (16, 16), 2, "row", (16, 16)),
        ("f32", np.float32, (24, 8), 1, "row", (25, 20)),
        ("ui8", np.uint8, (16, 256), 0, "row", (33, 304)),
        ("si32", np.int32, (8, 32), 3, "column", (1, 36)),
    ],
)
def test_boxes_arrive_swizzled(
    parse_module: Parse,
    place: str,
    element: str,
    dtype: Any,
    box: tuple[int, int],
    bank: int,
    major: str,
    shape: tuple[int, int],
) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    program = stage(parse_module, element, bits, box, bank, major)
    values = np.arange(1, shape[0] * shape[1] + 1).reshape(shape) % 251
    array = np.ascontiguousarray(values.astype(dtype))
    expected = boxes(array, box, bank)
    out = np.zeros(expected.shape, np.uint8)
    launched(place, program, array.T if major == "column" else array, out)
    assert (out == expected).all()


CLUSTER_PTX = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry ranks(.param .b64 out)
.reqntid 32,1,1
.reqnctapercluster 2,1,1
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  mov.u32 %r0, %tid.x;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra DONE;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %cluster_ctarank;
  mov.u32 %r3, %nctaid.x;
  ld.param.b64 %rd0, [out];
  mad.wide.s32 %rd0, %r1, 8, %rd0;
  st.global.v2.b32 [%rd0], {%r2, %r3};
DONE:
  ret;
}
"""


@pytest.mark.parametrize("place", PLACES)
def test_a_persistent_grid_of_clusters(parse_module: Parse, place: str) -> None:
    out = '!cute.memref<si32, gmem, align<16>, "(1024,2):(2,1)">'
    module = parse_module(
        f"""
func.func @launch(%out: {out}) {{
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %sms = cute.sm_count : i32
  %pairs = arith.divsi %sms, %two : i32
  %ctas = arith.muli %pairs, %two : i32
  cute.launch @ranks grid(%ctas, %one, %one) cluster(2, 1, 1) args(%out)
      {{threads = 32 : i32}} : {out}
  func.return
}}"""
    )
    program = CompiledProgram.of("ranks", "sm_90a", CLUSTER_PTX, module)
    found = np.full((1024, 2), -1, np.int32)
    launched(place, program, found)
    count = int(found[0, 1])
    if place == "emulator":
        assert count == 4
    else:
        assert count == driver().device_attribute(MULTIPROCESSOR_COUNT, 0) // 2 * 2
    assert (found[:count, 0] == np.arange(count) % 2).all()
    assert (found[count:] == -1).all()


UNREAD_PTX = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry unread(.param .align 64 .b8 map[128], .param .b64 out)
.reqntid 32,1,1
{
  .reg .b64 %rd<2>;
  mov.b64 %rd0, map;
  cvta.param.u64 %rd0, %rd0;
  prefetch.tensormap [%rd0];
  ld.param.b64 %rd1, [out];
  st.global.b32 [%rd1], 7;
  ret;
}
"""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shape", [(8, 0), (0, 64), (1, 16)])
def test_a_tensor_that_is_never_read_has_a_map(
    parse_module: Parse, place: str, shape: tuple[int, int]
) -> None:
    """K = 0 still passes the maps of A and B; a single row has no stride of its own."""
    tensor = '!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">'
    out = '!cute.memref<si32, gmem, align<16>, "(4):(1)">'
    made = "!cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>"
    module = parse_module(
        f"""
func.func @launch(%A: {tensor}, %out: {out}) {{
  %one = arith.constant 1 : i32
  %t = cute_nvgpu.make_tma_descriptor %A : {tensor} -> {made}
  cute.launch @unread grid(%one, %one, %one) args(%t, %out) {{threads = 32 : i32}} : {made}, {out}
  func.return
}}"""
    )
    found = np.zeros(4, np.int32)
    program = CompiledProgram.of("unread", "sm_90a", UNREAD_PTX, module)
    launched(place, program, np.zeros(shape, np.float16), found)
    assert found.tolist() == [7, 0, 0, 0]
