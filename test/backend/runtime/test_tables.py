"""Groups of tensors as tables in memory: their bytes, the one upload of a call, and the emulator's
form of them.
"""

from __future__ import annotations

import ctypes
import struct
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.backend.runtime.signature import Signature
from cutedialect.backend.runtime.tables import Table, joined, packed, tile_offsets, tile_shares

grouped = import_module("cutedialect.frontend.grouped_gemm")

GROUP = '!cute.group<!cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">>'
HOST = f"""
func.func @launch(%x: {GROUP}, %s: f32) attributes {{cute.written = array<i64: 0>}} {{
  %one = arith.constant 1 : i32
  %offsets = cute.tile_offsets %x, [64, 32] cluster(2, 1) : {GROUP}
  %n = cute.group_size %offsets : !cute.group<i32>
  %last = arith.subi %n, %one : i32
  %total = cute.member %offsets[%last] : !cute.group<i32>
  cute.launch @each grid(%total, %one, %one) args(%x, %offsets, %s) {{threads = 32 : i32}}
      : {GROUP}, !cute.group<i32>, f32
  func.return
}}
"""
PTX = """\
.version 7.0
.target sm_80
.address_size 64
.visible .entry each(
  .param .b64 each_param_0,
  .param .b32 each_param_1,
  .param .b64 each_param_2,
  .param .b32 each_param_3,
  .param .f32 each_param_4
)
{
  .reg .b64 %rd<8>;
  .reg .b32 %r<8>;
  .reg .f32 %f<8>;
  mov.u32 %r0, %tid.x;
  ld.param.b64 %rd0, [each_param_0];
  ld.param.f32 %f0, [each_param_4];
  mul.wide.u32 %rd1, %r0, 24;
  add.s64 %rd0, %rd0, %rd1;
  ld.global.nc.b64 %rd2, [%rd0];
  ld.global.nc.b32 %r1, [%rd0 + 16];
  cvt.rn.f32.s32 %f1, %r1;
  fma.rn.f32 %f1, %f1, %f0, 0f00000000;
  st.global.f32 [%rd2], %f1;
  ret;
}
"""


@pytest.fixture
def program(parse_module: Any) -> CompiledProgram:
    return CompiledProgram.of("each", "sm_80", PTX, parse_module(HOST))


def test_offsets_count_blocks_of_the_cluster() -> None:
    tensors = [(0, shape, ()) for shape in [(1, 64, 64), (2, 129, 1), (3, 0, 64), (1, 500, 65)]]
    assert tile_offsets(tensors, (1, 64, 32), (2, 1)) == (0, 2, 6, 6, 18)
    assert tile_offsets(tensors, (1, 64, -1), (1, 1)) == (0, 1, 7, 7, 15)
    assert tile_offsets([(0, (5,), ())], (4,), (1, 1)) == (0, 2)
    with pytest.raises(ValueError, match=r"fewer than 2\*\*31 tiles in a group, got 4611686018"):
        tile_offsets([(0, (1 << 31, 1 << 31), ())], (1, 1), (1, 1))


def test_entries_are_filled_up_to_8_bytes() -> None:
    table = Table("ptr", ((0x1000, (8,), (5,)), (0x2000, (16,), (7,))))
    assert packed(table) == struct.pack("<QqixxxxQqixxxx", 0x1000, 8, 5, 0x2000, 16, 7)
    assert packed(Table("i32", (0, 3, -1))) == struct.pack("<3i", 0, 3, -1)
    data, starts = joined([Table("i32", (1,)), table, Table("i32", (2,))])
    assert (len(data), starts) == (384, (0, 128, 256))


def test_the_signature_survives_the_cache(program: CompiledProgram) -> None:
    signature = program.signature
    assert Signature.from_json(signature.to_json()) == signature
    assert str(signature).startswith("(x: [f32, align<16>")


def uploads(cuda: Any) -> list[int]:
    return [call[1] for call in cuda.named("to device")]


def test_equal_calls_upload_once(cuda: Any, device_array: Any, program: CompiledProgram) -> None:
    kernel = Kernel(program)
    arrays = [device_array(0x10000, (100, 40)), device_array(0x20000, (8, 4))]
    for _ in range(3):
        kernel.launch(arrays, 2.0)
    kernel.launch(tuple(arrays), 3.0)
    assert uploads(cuda) == [256]
    table, count, offsets, length, factor = cuda.launches[-1]["bytes"]
    entries = ctypes.string_at(int.from_bytes(table, "little"), 48)
    assert entries == struct.pack("<QqiiQqii", 0x10000, 40, 100, 40, 0x20000, 4, 8, 4)
    numbers = ctypes.string_at(int.from_bytes(offsets, "little"), 12)
    assert np.frombuffer(numbers, np.int32).tolist() == [0, 2, 3]
    assert [int.from_bytes(each, "little") for each in (count, length)] == [2, 3]
    assert [each["bytes"][-1] for each in cuda.launches] == [struct.pack("<f", 2.0)] * 3 + [factor]
    kernel.launch(arrays[::-1], 2.0)
    assert uploads(cuda) == [256, 256]


def test_tables_are_not_uploaded_under_capture(
    cuda: Any, device_array: Any, program: CompiledProgram
) -> None:
    kernel = Kernel(program).warmup()
    arrays = [device_array(0x10000, (100, 40))]
    cuda.capturing = 3
    with pytest.raises(RuntimeError, match="expected a call of kernel 'each' with the same arrays"):
        kernel.launch(arrays, 2.0)
    cuda.capturing = 0
    kernel.launch(arrays, 2.0)
    cuda.capturing = 3
    kernel.launch(arrays, 2.0)
    assert len(cuda.launches) == 2
    assert cuda.launches[0] == cuda.launches[1]


def test_the_emulator_gets_the_addresses_of_arrays(program: CompiledProgram) -> None:
    kernel = Kernel(program, backend="emulator")
    arrays = [np.zeros((rows, 8), np.float32) for rows in range(1, 33)]
    kernel.launch(arrays, 2.0)
    assert [array[0, 0] for array in arrays] == [2.0 * rows for rows in range(1, 33)]
    assert all((array.reshape(-1)[1:] == 0).all() for array in arrays)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (np.zeros((4, 4), np.float32), TypeError, "x: expected a list of arrays, got ndarray"),
        ([np.zeros((4, 4), np.float32), 3], TypeError, r"x\[1\]: expected an array"),
        ([np.zeros(4, np.float32)], ValueError, r"x\[0\]: expected 2 dimensions"),
        ([np.zeros((4, 4), np.float16)], TypeError, r"x\[0\]: expected dtype float32"),
    ],
)
def test_wrong_groups(
    program: CompiledProgram, value: object, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        Kernel(program, backend="emulator").launch(value, 2.0)


def test_equal_calls_of_grouped_gemm_are_repeated(
    cuda: Any, device_array: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(**options: Any) -> list[Any]:
        return cute.grouped_gemm(as_, bs, out=out, arch="sm_80", **options)

    as_, bs, out = (
        [device_array(start + 0x1000 * i, (16, 16)) for i in range(3)]
        for start in (0x10000, 0x20000, 0x30000)
    )
    call()
    monkeypatch.setattr(grouped, "_checked_lists", None)
    again = call()
    assert again == out
    assert cuda.launches[0] == cuda.launches[1]
    assert len(uploads(cuda)) == 1
    with pytest.raises(TypeError):
        call(alpha=2.0)
    out[1] = device_array(0x90000, (16, 16))
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize("takers", [1, 4, 132])
def test_shares_take_every_tile_once_and_end_together(takers):
    extents = (8192, 4096, 0, 4096, 2048, 64)
    counts = (96, 133, 5, 0, 800, 40)
    offsets = tuple(np.cumsum([0, *counts]).tolist())
    tensors = [(0, (1, extent), (extent, 1)) for extent in extents]
    shares = tile_shares(offsets, tensors, 1, takers)
    begins, tiles = shares[: takers + 1], shares[takers + 1 :]
    assert sorted(tiles) == list(range(offsets[-1]))
    assert begins[0] == takers + 1
    assert begins[-1] == len(shares)
    cost = np.repeat(extents, counts) + 128
    busy = [sum(int(cost[tile]) for tile in shares[begin:end]) for begin, end in pairwise(begins)]
    assert max(busy) - min(busy) <= 2048 + 128, "no more than a tile of those dealt out last"


def test_nothing_to_share():
    assert tile_shares((0, 0), [(0, (0, 8), (8, 1))], 1, 3) == (4, 4, 4, 4)
