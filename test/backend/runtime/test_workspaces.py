"""Memory that the CTAs of a launch share: one piece for each stream, zeros where they are promised,
and memory of its own for a CUDA graph.
"""

from __future__ import annotations

import ctypes
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


@pytest.fixture
def program(parse_module: Any) -> CompiledProgram:
    return CompiledProgram.of("shared", "sm_80", PTX.replace("WRITE", ""), parse_module(HOST))


def pointers(launch: dict[str, Any]) -> tuple[int, int]:
    data = launch["bytes"]
    return int.from_bytes(data[2], "little"), int.from_bytes(data[4], "little")


def test_the_emulator_gives_zeros_or_what_must_not_be_read(program: CompiledProgram) -> None:
    array = np.zeros(3, np.float32)
    Kernel(program, backend="emulator").launch(array)
    assert np.isnan(array).all()


def test_a_kernel_that_leaves_no_zeros_is_found(parse_module: Any) -> None:
    ptx = PTX.replace("WRITE", "st.global.b32 [%rd2], 7;")
    program = CompiledProgram.of("shared", "sm_80", ptx, parse_module(HOST))
    with pytest.raises(RuntimeError, match="'shared' to leave zeros in its workspace, got 3 other"):
        Kernel(program, backend="emulator").launch(np.zeros(3, np.float32))


def test_each_stream_has_its_own(cuda: Any, device_array: Any, program: CompiledProgram) -> None:
    kernel, array = Kernel(program), device_array(0x1000, (5,))
    for stream in (0, 0, 9, 9, 0):
        cuda.stream = stream
        kernel.launch(array)
    first, again, other, repeated, back = map(pointers, cuda.launches)
    assert first == again == back != other == repeated
    assert len({*first, *other}) == 4
    assert ctypes.string_at(first[1], 20) == bytes(20)


def test_programs_share_it(cuda: Any, device_array: Any, program: CompiledProgram) -> None:
    for kernel in (Kernel(program), Kernel(program)):
        kernel.launch(device_array(0x1000, (5,)))
    first, second = map(pointers, cuda.launches)
    assert first == second


def test_it_grows_and_what_graphs_and_launches_use_stays(
    cuda: Any, device_array: Any, program: CompiledProgram
) -> None:
    kernel = Kernel(program)
    large = (40 << 20) // 128
    for size in (5, 3, large, 5):
        kernel.launch(device_array(0x1000, (size,)))
    small, smaller, grown, back = map(pointers, cuda.launches)
    assert small == smaller != grown == back
    assert cuda.freed == []


def test_nothing_is_allocated_under_capture(
    cuda: Any, device_array: Any, program: CompiledProgram
) -> None:
    array = device_array(0x1000, (5,))
    kernel = Kernel(program)
    kernel.launch(array)
    eager = pointers(cuda.launches[-1])
    before = len(cuda.named("allocate"))
    cuda.capturing, cuda.stream = 7, 4
    for _ in range(2):
        kernel.launch(array)
    captured, again = map(pointers, cuda.launches[-2:])
    assert captured == again
    assert not {*captured} & {*eager}
    assert ctypes.string_at(captured[1], 20) == bytes(20)
    assert len(cuda.named("allocate")) == before
    # The next capture has memory of its own, which a launch in between has set aside.
    cuda.capturing, cuda.stream = 0, 77
    kernel.launch(array)
    assert pointers(cuda.launches[-1]) == eager
    before = len(cuda.named("allocate"))
    cuda.capturing, cuda.stream = 8, 4
    kernel.launch(array)
    assert not {*pointers(cuda.launches[-1])} & {*captured, *eager}
    assert len(cuda.named("allocate")) == before


def test_warmup_sets_it_aside(cuda: Any, device_array: Any, program: CompiledProgram) -> None:
    kernel = Kernel(program).warmup()
    before = len(cuda.named("allocate"))
    cuda.capturing = 3
    kernel.launch(device_array(0x1000, (5,)))
    assert len(cuda.named("allocate")) == before > 0


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
