"""Bulk copies of contiguous tiles through a ring, and the L2 hints of bulk and TMA copies: lowered,
assembled, and run on the emulator with copies that complete late.
"""

from __future__ import annotations

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException, VerifyException

from cutedialect.backend.emulator import launch
from cutedialect.dialects import all_dialects

NUMPY = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f64": np.float64,
    "i32": np.int32,
    "ui32": np.uint32,
    "i64": np.int64,
}
HINTS = ("evict_first", "evict_last", "normal")
COUNT, TILE = 8, 256


def ring_kernel(element, load, store, whole="(2048):(1)", box=None, stages=3) -> str:
    """Y = X (or Y op= X), a tile of 256 at a time, through registers and shared memory."""
    tensor = f'!cute.memref<{element}, gmem, align<16>, "{whole}">'
    tile = f'!cute.memref<{element}, gmem, align<16>, "({TILE}):(1)">'
    smem = f'!cute.memref<{element}, smem, align<128>, "({TILE}):(1)">'
    ring = f'!cute.memref<{element}, smem, align<128>, "({TILE},{stages}):(1,{TILE})">'
    fragment = f'!cute.fragment<{element}, "({TILE})", "(128,2):(1,128)">'
    size = TILE * np.dtype(NUMPY[element]).itemsize
    map_ = f"!cute_nvgpu.tma_descriptor<{element}, ({box})>"
    maps = f", %tX: {map_}, %tY: {map_}" if box else ""
    by_x, by_y = (f" tma {name} : {map_}" if box else "" for name in ("%tX", "%tY"))
    state = f"!pipeline.state<{stages}>"
    loop = f"""
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %count = arith.constant {COUNT} : i32
    scf.for %k = %zero to %count step %one : i32 {{"""
    return f"""
cute.kernel @k(%X: {tensor}, %Y: {tensor}{maps}) attributes {{threads = 256 : i32}} {{
  %sX = cute.alloc_smem : {ring}
  %sY = cute.alloc_smem : {smem}
  %xs = pipeline.create {{kind = "tma", producers = 1 : i32, consumers = 4 : i32,
    bytes = {size} : i32}} : !pipeline.ring<{stages}>
  pipeline.role "load" attributes {{first = 0 : i32, warps = 1 : i32, elect}} {{
    %st = pipeline.state "producer" %xs : !pipeline.ring<{stages}> -> {state}{loop}
      %x = cute.local_tile %X, [{TILE}], (%k) : {tensor} -> {tile}
      pipeline.producer_acquire %xs at %st : !pipeline.ring<{stages}>, {state}
      %bar = pipeline.barrier %xs at %st : !pipeline.ring<{stages}>, {state}
      %i = pipeline.index %st : {state}
      %dx = cute.stage %sX[%i] : {ring} -> {smem}
      cute.copy %x, %dx{by_x} signal %bar : !pipeline.barrier
        {{atom = !cute_nvgpu.atom.{load}}} : {tile} -> {smem}
      pipeline.producer_commit %xs at %st : !pipeline.ring<{stages}>, {state}
      pipeline.advance %st : {state}
    }}
  }}
  pipeline.role "main" attributes {{first = 4 : i32, warps = 4 : i32}} {{
    %st = pipeline.state "consumer" %xs : !pipeline.ring<{stages}> -> {state}{loop}
      pipeline.consumer_wait %xs at %st : !pipeline.ring<{stages}>, {state}
      %i = pipeline.index %st : {state}
      %x = cute.stage %sX[%i] : {ring} -> {smem}
      %v = cute.load %x : {smem} -> {fragment}
      cute_nvgpu.fence_proxy_async
      pipeline.consumer_release %xs at %st : !pipeline.ring<{stages}>, {state}
      pipeline.advance %st : {state}
      cute_nvgpu.tma_store_wait {{pending = 0 : i32, read}}
      cute.barrier
      cute.copy %v, %sY {{atom = !cute_nvgpu.atom.universal_copy<{element}, 8 b>}}
        : {fragment} -> {smem}
      cute_nvgpu.fence_proxy_async
      cute.barrier
      %y = cute.local_tile %Y, [{TILE}], (%k) : {tensor} -> {tile}
      cute.copy %sY, %y{by_y} {{atom = !cute_nvgpu.atom.{store}}} : {smem} -> {tile}
      cute_nvgpu.tma_store_commit
    }}
    cute_nvgpu.tma_store_wait {{pending = 0 : i32, read}}
  }}
}}"""


def given(element, seed):
    low = 0 if element == "ui32" else -60
    return np.random.default_rng(seed).integers(low, 60, COUNT * TILE).astype(NUMPY[element])


def run(ptx, x, y, extra=()):
    for seed in range(3):
        result = y.copy()
        launch(ptx, "k", 1, 256, [x, result, *extra], 100_000, seed=seed)
        yield result


@pytest.mark.parametrize(("stages", "arch"), [(1, "sm_100a"), (2, "sm_90a"), (3, "sm_90a")])
def test_places_in_rings_of_one_and_two_stages_take_few_instructions(
    compile_ptx, stages, arch
) -> None:
    """Of one stage only the phase changes, of two it is the stage's number that changes it."""
    ptx = compile_ptx(ring_kernel("f16", "bulk_load<f16>", "bulk_store<f16>", stages=stages), arch)
    moves = [line for line in ptx.splitlines() if "ir: pipeline.advance" in line]
    names = [line.split()[0].split(".")[0] for line in moves]
    assert names.count("selp") == (4 if stages == 3 else 0)
    assert names.count("xor") == {1: 2, 2: 4, 3: 2}[stages]
    x = given("f16", stages)
    for result in run(ptx, x, np.zeros_like(x)):
        assert np.array_equal(result, x)


@pytest.mark.parametrize("hint", [None, *HINTS])
def test_copies(compile_ptx, hint) -> None:
    cache = "" if hint is None else f", cache = {hint}"
    text = ring_kernel("f16", f"bulk_load<f16{cache}>", f"bulk_store<f16{cache}>")
    ptx = compile_ptx(text, "sm_90a")
    assert "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" in ptx
    assert "cp.async.bulk.global.shared::cta.bulk_group" in ptx
    assert ptx.count(".L2::cache_hint") == (0 if hint is None else 2)
    if hint is not None:
        kind = hint if hint.startswith("evict") else f"evict_{hint}"
        assert f"createpolicy.fractional.L2::{kind}.b64" in ptx
    x = given("f16", 1)
    for result in run(ptx, x, np.zeros_like(x)):
        assert np.array_equal(result, x)


def test_run_time_extents_of_whole_tiles(compile_ptx) -> None:
    text = ring_kernel("f32", "bulk_load<f32>", "bulk_store<f32>", f"(?{{div={TILE}}}):(1)")
    ptx = compile_ptx(text, "sm_90a")
    x, y = given("f32", 1), np.zeros(COUNT * TILE, np.float32)
    launch(ptx, "k", 1, 256, [x, np.int32(x.size), y, np.int32(y.size)], 100_000)
    assert np.array_equal(x, y)


@pytest.mark.parametrize("hint", HINTS)
def test_hints_of_tensor_copies(compile_ptx, hint) -> None:
    text = ring_kernel(
        "f32", f"tma_load<f32, cache = {hint}>", f"tma_store<f32, cache = {hint}>", box=TILE
    )
    ptx = compile_ptx(text, "sm_90a")
    lines = [line for line in ptx.splitlines() if "cp.async.bulk.tensor.1d" in line]
    assert len(lines) == 2
    assert all(".L2::cache_hint" in line for line in lines)
    x, y = given("f32", 1), np.zeros(COUNT * TILE, np.float32)
    maps = [
        SimpleNamespace(
            array=array,
            dtype="f32",
            dims=array.shape,
            strides=(),
            box=(TILE,),
            element_strides=(1,),
            swizzle="none",
            interleave="none",
            oob_fill="zero",
        )
        for array in (x, y)
    ]
    launch(ptx, "k", 1, 256, [x, y, *maps], 100_000)
    assert np.array_equal(x, y)


@pytest.mark.some(5)
@pytest.mark.parametrize(
    ("element", "operation", "name"),
    [
        ("f32", "add", "add.f32"),
        ("f16", "add", "add.noftz.f16"),
        ("bf16", "add", "add.noftz.bf16"),
        ("f64", "add", "add.f64"),
        ("i32", "add", "add.s32"),
        ("i64", "add", "add.u64"),
        ("i64", "min", "min.s64"),
        ("ui32", "max", "max.u32"),
        ("bf16", "max", "max.bf16"),
        ("i32", "xor", "xor.b32"),
    ],
)
def test_reductions(compile_ptx, element, operation, name) -> None:
    store = f"bulk_store<{element}, reduce = {operation}>"
    ptx = compile_ptx(ring_kernel(element, f"bulk_load<{element}>", store), "sm_90a")
    assert f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{name} " in ptx
    x, y = given(element, 1), given(element, 2)
    combine = {"add": np.add, "min": np.minimum, "max": np.maximum, "xor": np.bitwise_xor}
    wanted = combine[operation](y, x)
    for result in run(ptx, x, y):
        assert np.array_equal(result, wanted)


def test_tiles_that_may_hang_over_an_edge(lower) -> None:
    text = ring_kernel("f32", "bulk_load<f32>", "bulk_store<f32>", "(?):(1)")
    with pytest.raises(PassFailedException, match=r"expected a tile that lies in its tensor"):
        lower(text, "sm_90a")


def parse(text):
    context = Context()
    for name, loader in all_dialects().items():
        context.register_dialect(name, loader)
    module = Parser(context, text).parse_module()
    module.verify()


@pytest.mark.parametrize(
    ("gmem", "smem", "message"),
    [
        ('align<8>, "(64):(1)"', 'align<16>, "(64):(1)"', "expected tiles aligned to 16 bytes"),
        ('align<16>, "(64):(2)"', 'align<16>, "(64):(1)"', "expected a contiguous tile with"),
        ('align<16>, "(8,8):(?,1)"', 'align<16>, "(8,8):(8,1)"', "expected a contiguous tile with"),
        ('align<16>, "(8,8):(8,1)"', 'align<16>, "(8,8):(1,8)"', "expected tiles that hold the"),
        ('align<16>, "(6):(1)"', 'align<16>, "(6):(1)"', "a multiple of 16 bytes up to 1048560"),
        (
            'align<16>, "(8,32):(32,1)"',
            'align<1024>, S<3,4,3>, "(8,32):(32,1)"',
            "expected a tile without a swizzle with cute_nvgpu.atom.bulk_load",
        ),
    ],
)
def test_tiles_that_no_bulk_copy_moves(gmem, smem, message) -> None:
    source, target = f"!cute.memref<f32, gmem, {gmem}>", f"!cute.memref<f32, smem, {smem}>"
    text = f"""
    cute.kernel @k(%a: {source}) {{
      %s = cute.alloc_smem : {target}
      cute.copy %a, %s {{atom = !cute_nvgpu.atom.bulk_load<f32>}} : {source} -> {target}
    }}"""
    with pytest.raises(VerifyException, match=message):
        parse(text)
