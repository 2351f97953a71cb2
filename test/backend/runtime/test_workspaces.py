"""Memory that the CTAs of a launch share: one piece for each stream, zeros where they are promised,
and memory of its own for a CUDA graph.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.host import find_host, host_source
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import CompiledProgram

MEMREF = '!cute.memref<f32, gmem, align<16>, "(?):(1)">'
PARTS = '!cute.memref<f32, gmem, align<16>, "(?,8,4):(32,4,1)">'
COUNTS = '!cute.memref<i32, gmem, align<16>, "(?):(1)">'
HOST = f"""
func.func @launch(%x: {MEMREF}) {{
  %one = arith.constant 1 : i32
  %n = cute.dim %x, 0 : {MEMREF}
  %parts = cute.workspace(%n) : {PARTS}
  %counts = cute.workspace(%n) zeroed : {COUNTS}
  cute.launch @shared grid(%n, %one, %one) args(%x, %parts, %counts) {{threads = 32 : i32}}
      : {MEMREF}, {PARTS}, {COUNTS}
  func.return
}}
"""
# x[i] = the last element of the CTA's parts; WRITE may store to its counter.
PTX = """\
.version 7.0
.target sm_80
.address_size 64
.visible .entry shared(
  .param .b64 shared_param_0,
  .param .b32 shared_param_1,
  .param .b64 shared_param_2,
  .param .b32 shared_param_3,
  .param .b64 shared_param_4,
  .param .b32 shared_param_5
)
{
  .reg .b64 %rd<8>;
  .reg .b32 %r<8>;
  .reg .f32 %f<8>;
  mov.u32 %r0, %ctaid.x;
  ld.param.b64 %rd0, [shared_param_0];
  ld.param.b64 %rd1, [shared_param_2];
  ld.param.b64 %rd2, [shared_param_4];
  mul.wide.u32 %rd3, %r0, 4;
  mul.wide.u32 %rd4, %r0, 128;
  add.s64 %rd0, %rd0, %rd3;
  add.s64 %rd2, %rd2, %rd3;
  add.s64 %rd1, %rd1, %rd4;
  ld.global.f32 %f0, [%rd1 + 124];
  st.global.f32 [%rd0], %f0;
  ld.global.b32 %r1, [%rd2];
  WRITE
  ret;
}
"""


class DeviceArray:
    __module__ = "cupy"
    data: Any = None

    def __init__(self, pointer: int, size: int) -> None:
        self.data = SimpleNamespace(ptr=pointer, device_id=0)
        self.shape, self.strides = (size,), (4,)
        self.dtype = np.dtype("float32")


@pytest.fixture
def program(parse_module: Any) -> CompiledProgram:
    return CompiledProgram.of("shared", "sm_80", PTX.replace("WRITE", ""), parse_module(HOST))


def pointers(launch: list[bytes]) -> tuple[int, int]:
    return int.from_bytes(launch[2], "little"), int.from_bytes(launch[4], "little")


def test_the_emulator_gives_zeros_or_what_must_not_be_read(program: CompiledProgram) -> None:
    array = np.zeros(3, np.float32)
    Kernel(program, backend="emulator").launch(array)
    assert np.isnan(array).all()


def test_a_kernel_that_leaves_no_zeros_is_found(parse_module: Any) -> None:
    ptx = PTX.replace("WRITE", "st.global.b32 [%rd2], 7;")
    program = CompiledProgram.of("shared", "sm_80", ptx, parse_module(HOST))
    with pytest.raises(RuntimeError, match="'shared' to leave zeros in its workspace, got 3 other"):
        Kernel(program, backend="emulator").launch(np.zeros(3, np.float32))


def test_each_stream_has_its_own(memory_cuda: Any, program: CompiledProgram) -> None:
    kernel, array = Kernel(program), DeviceArray(0x1000, 5)
    for stream in (0, 0, 9, 9, 0):
        memory_cuda.stream = stream
        kernel.launch(array)
    first, again, other, repeated, back = map(pointers, memory_cuda.launches)
    assert first == again == back != other == repeated
    assert len({*first, *other}) == 4
    assert ctypes.string_at(first[1], 20) == bytes(20)
    assert memory_cuda.calls == [("clear", 256, 0), ("clear", 256, 9)]


def test_it_grows_and_stays(memory_cuda: Any, program: CompiledProgram) -> None:
    kernel = Kernel(program)
    for size in (5, 3, 500, 5):
        kernel.launch(DeviceArray(0x1000, size))
    small, smaller, large, _ = map(pointers, memory_cuda.launches)
    assert small == smaller != large
    kernel.launch(DeviceArray(0x2000, 5))
    assert pointers(memory_cuda.launches[-1]) == large


def test_a_graph_brings_its_own(memory_cuda: Any, program: CompiledProgram) -> None:
    kernel = Kernel(program).warmup()
    array = DeviceArray(0x1000, 5)
    memory_cuda.capturing, memory_cuda.stream = True, 4
    kernel.launch(array)
    assert memory_cuda.calls == [
        ("allocate", 768, 4),
        ("allocate", 256, 4),
        ("clear", 256, 4),
        ("free", 4),
        ("free", 4),
    ]
    captured = pointers(memory_cuda.launches[-1])
    memory_cuda.capturing = False
    kernel.launch(array)
    eager = pointers(memory_cuda.launches[-1])
    assert not {*captured} & {*eager}
    memory_cuda.capturing = True
    kernel.launch(array)
    assert not {*pointers(memory_cuda.launches[-1])} & {*captured, *eager}


def test_a_tensor_map_of_one_is_refused(parse_module: Any) -> None:
    module = parse_module(
        f"""
func.func @launch(%n: i32) {{
  %w = cute.workspace(%n) : {PARTS}
  %t = cute_nvgpu.make_tma_descriptor %w : {PARTS} -> !cute_nvgpu.tma_descriptor<f32, (1,8,4)>
  func.return
}}"""
    )
    with pytest.raises(CompileError, match="expected a tensor map of an argument"):
        host_source(find_host(module))
