"""Copies between global memory, registers and shared memory, run against numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError

RNG = np.random.default_rng(1)


def copy_kernel(element: str, tile: tuple[int, int], tv: str, source: str, target: str, align: int):
    rows, columns = tile

    def tensor(strides: str, shape: str = "(?,?)") -> str:
        return f'!cute.memref<{element}, gmem, align<{align}>, "{shape}:{strides}">'

    shape = f"({rows},{columns})"
    fragment = f'!cute.fragment<{element}, "{shape}", "{tv}">'
    return f"""
cute.kernel @k(%a: {tensor(source)}, %c: {tensor(target)}) attributes {{threads = 128 : i32}} {{
  %i = cute.block_idx x
  %j = cute.block_idx y
  %ta = cute.local_tile %a, [{rows}, {columns}], (%i, %j)
    : {tensor(source)} -> {tensor(source, shape)}
  %tc = cute.local_tile %c, [{rows}, {columns}], (%i, %j)
    : {tensor(target)} -> {tensor(target, shape)}
  %f = cute.load %ta : {tensor(source, shape)} -> {fragment}
  cute.copy %f, %tc : {fragment} -> {tensor(target, shape)}
}}"""


ROW8 = "((4,32),(8,1)):((256,1),(32,0))"  # 32 x 32, eight elements of a row each
COLUMN8 = "((4,32),8):((8,32),1)"  # 32 x 32, eight elements of a column each
ELEMENTS = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i8": np.int8,
    "f64": np.float64,
    "i32": np.int32,
}


def numbers(shape: tuple[int, ...], dtype) -> np.ndarray:
    return RNG.integers(-100, 100, shape).astype(dtype)


@pytest.mark.some(12)
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("extents", [(64, 32), (33, 48), (1, 1), (47, 31)])
def test_ragged_row_major(run_kernel, element, extents) -> None:
    dtype = ELEMENTS[element]
    m, n = extents
    ld = -(-n // 16) * 16
    a, c = numbers((m, ld), dtype), np.full((m, ld), 77, dtype)
    text = copy_kernel(element, (32, 32), ROW8, "(?{i64 div=16},1)", "(?{i64 div=16},1)", 16)
    run_kernel(text, (-(-m // 32), -(-n // 32)), [(a, (m, n), (ld,)), (c, (m, n), (ld,))])
    assert np.array_equal(c[:, :n], a[:, :n])
    assert np.all(c[:, n:] == np.array(77, dtype))


@pytest.mark.parametrize("element", ["f32", "f16", "i8"])
@pytest.mark.parametrize("extents", [(32, 32), (45, 37)])
def test_transposing_views_and_odd_strides(run_kernel, element, extents) -> None:
    """Column-major in, row-major with an odd stride and element alignment out."""
    dtype = ELEMENTS[element]
    m, n = extents
    a, c = numbers((n, m), dtype), np.zeros((m, n + 3), dtype)
    size = np.dtype(dtype).itemsize
    text = copy_kernel(element, (32, 32), ROW8, "(1,?{i64})", "(?{i64},1)", size)
    run_kernel(text, (-(-m // 32), -(-n // 32)), [(a, (m, n), (m,)), (c, (m, n), (n + 3,))])
    assert np.array_equal(c[:, :n], a.T)
    assert not c[:, n:].any()


def test_vectors_when_aligned(compile_ptx) -> None:
    wide = compile_ptx(
        copy_kernel("f16", (32, 32), ROW8, "(?{i64 div=8},1)", "(?{i64 div=8},1)", 16)
    )
    assert "ld.global.v4.b32" in wide
    assert "st.global.v4.b32" in wide
    narrow = compile_ptx(copy_kernel("f16", (32, 32), ROW8, "(?{i64 div=2},1)", "(?{i64},1)", 4))
    assert ".v2" not in narrow
    assert ".v4" not in narrow
    assert "ld.global.b32" in narrow
    assert "st.global.b16" in narrow


def test_strides_beyond_32_bits(run_kernel) -> None:
    """A row 2^32 bytes after the first: 32-bit arithmetic would read the first row again."""
    tv = "((128),(2,2)):((4),(1,2))"
    text = copy_kernel("f32", (2, 256), tv, "(?{i64},1)", "(?{i64},1)", 4)
    a, c = numbers((2, 256), np.float32), np.zeros((2, 256), np.float32)
    run_kernel(text, (1, 1), [(a, (2, 256), (256,)), (c, (2, 256), (256,))])
    assert np.array_equal(a, c)
    with pytest.raises(EmulatorError, match=r"bounds|outside|beyond"):
        run_kernel(text, (1, 1), [(a, (2, 256), (1 << 30,)), (c, (2, 256), (256,))])


@pytest.mark.parametrize(
    ("element", "bits"), [("f16", 128), ("f32", 128), ("i8", 128), ("f32", 32)]
)
@pytest.mark.parametrize("extents", [(32, 32), (40, 50), (5, 7)])
def test_cp_async_zero_fills_exactly(run_kernel, element, bits, extents) -> None:
    """Global to swizzled shared memory by cp.async; then all of the tile is stored."""
    dtype = ELEMENTS[element]
    size = np.dtype(dtype).itemsize
    vector = bits // (8 * size)
    per_row = 64 // vector
    tv = f"(({per_row},{128 // per_row}),({vector},{32 * per_row // 128})):"
    tv += f"(({32 * vector},1),(32,{128 // per_row}))"
    gmem = f'!cute.memref<{element}, gmem, align<16>, "(?,?):(?{{i64 div=16}},1)">'
    tile = f'!cute.memref<{element}, gmem, align<16>, "(32,64):(?{{i64 div=16}},1)">'
    smem = f'!cute.memref<{element}, smem, align<1024>, S<2,4,3>, "(32,64):(64,1)">'
    out = f'!cute.memref<{element}, gmem, align<16>, "(32,64):(64,1)">'
    back = '#cute.tiled_copy<"((16,8),4):((32,1),8)", tiler = "(8,64)", order = "(1,0)">'
    cache = "global" if bits == 128 else "always"
    text = f"""
cute.kernel @k(%a: {gmem}, %c: {out}) attributes {{threads = 128 : i32}} {{
  %z = arith.constant 0 : i32
  %yes = arith.constant true
  %s = cute.alloc_smem : {smem}
  %t = cute.local_tile %a, [32, 64], (%z, %z) : {gmem} -> {tile}
  cute.copy %t, %s if %yes {{
    atom = !cute_nvgpu.atom.simt_async_copy<{element}, cache = {cache}, {bits} b>,
    tiled = #cute.tiled_copy<"{tv}", tiler = "(32,64)">}} : {tile} -> {smem}
  cute_nvgpu.cp_async_commit
  cute_nvgpu.cp_async_wait {{pending = 0 : i32}}
  cute.barrier
  cute.copy %s, %c {{tiled = {back}}} : {smem} -> {out}
}}"""
    m, n = extents
    a, c = numbers((m, 64), dtype), np.full((32, 64), 77, dtype)
    run_kernel(text, 1, [(a, (m, n), (64,)), c], smem=32 * 64 * size)
    expected = np.zeros((32, 64), dtype)
    expected[: min(m, 32), :n] = a[:32, :n]
    assert np.array_equal(c, expected)


@pytest.mark.parametrize("element", ["f16", "f32", "i8", "f64"])
@pytest.mark.parametrize("swizzle", ["", "S<3,4,3>, ", "S<2,3,3>, ", "S<1,4,-3>, "])
def test_transpose_through_shared_memory(run_kernel, element, swizzle) -> None:
    dtype = ELEMENTS[element]
    size = np.dtype(dtype).itemsize
    gmem = f'!cute.memref<{element}, gmem, align<16>, "(32,32):(32,1)">'
    smem = f'!cute.memref<{element}, smem, align<1024>, {swizzle}"(32,32):(32,1)">'
    turned = f'!cute.memref<{element}, smem, align<1024>, {swizzle}"(32,32):(1,32)">'
    text = f"""
cute.kernel @k(%a: {gmem}, %c: {gmem}) attributes {{threads = 128 : i32}} {{
  %s = cute.alloc_smem : {smem}
  cute.copy %a, %s {{tiled = #cute.tiled_copy<"{ROW8}", tiler = "(32,32)">}} : {gmem} -> {smem}
  cute.barrier
  %t = cute.transpose %s : {smem} -> {turned}
  cute.copy %t, %c {{tiled = #cute.tiled_copy<"{ROW8}", tiler = "(32,32)">}} : {turned} -> {gmem}
}}"""
    a, c = numbers((32, 32), dtype), np.zeros((32, 32), dtype)
    run_kernel(text, 1, [a, c], smem=1024 * size)
    assert np.array_equal(c, a.T)


def test_replicas_and_idle_threads_store_once(run_kernel) -> None:
    """16 rows held by pairs of threads, in a block twice as large: red.add shows repetitions."""
    vector = '!cute.memref<f32, gmem, align<4>, "(16):(1)">'
    fragment = '!cute.fragment<f32, "(16)", "((2,16),1):((0,1),0)">'
    text = f"""
cute.kernel @k(%a: {vector}, %c: {vector}) attributes {{threads = 128 : i32}} {{
  %f = cute.load %a : {vector} -> {fragment}
  cute.atomic "add", %f, %c : {fragment}, {vector}
}}"""
    a, c = numbers((16,), np.float32), np.ones(16, np.float32)
    run_kernel(text, 1, [a, c])
    assert np.array_equal(c, a + 1)


@pytest.mark.parametrize("element", ["f32", "i32", "f16", "f64"])
def test_atomic_add_at_ragged_edges(run_kernel, element) -> None:
    dtype = ELEMENTS[element]
    tensor = f'!cute.memref<{element}, gmem, align<16>, "(?,?):(?{{i64 div=2}},1)">'
    tile = f'!cute.memref<{element}, gmem, align<16>, "(32,32):(?{{i64 div=2}},1)">'
    fragment = f'!cute.fragment<{element}, "(32,32)", "{ROW8}">'
    text = f"""
cute.kernel @k(%a: {tensor}, %c: {tensor}) attributes {{threads = 128 : i32}} {{
  %i = cute.block_idx x
  %z = arith.constant 0 : i32
  %ta = cute.local_tile %a, [32, 32], (%i, %z) : {tensor} -> {tile}
  %tc = cute.local_tile %c, [32, 32], (%z, %z) : {tensor} -> {tile}
  %f = cute.load %ta : {tile} -> {fragment}
  cute.atomic "add", %f, %tc : {fragment}, {tile}
}}"""
    a, c = RNG.integers(-9, 9, (90, 30)).astype(dtype), np.zeros((32, 30), dtype)
    run_kernel(text, 3, [(a, (90, 27), (30,)), (c, (32, 27), (30,))])
    expected = np.zeros((32, 30), dtype)
    for block in range(3):
        part = a[32 * block : 32 * block + 32, :27]
        expected[: len(part), :27] += part
    assert np.array_equal(c, expected)
