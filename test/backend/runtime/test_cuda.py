"""The launcher against a stand-in driver that records every call: what is loaded when, which bytes
a kernel gets, and what is refused. The stand-in's memory is real, so copies really happen.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cutedialect.backend import emulator
from cutedialect.backend.runtime import cuda as launcher
from cutedialect.backend.runtime import kernel as kernel_module
from cutedialect.backend.runtime import ptxas, tensor_maps
from cutedialect.backend.runtime.errors import KernelAssertionError, PtxasNotFoundError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import CompiledProgram

needs_ptxas = pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")


@pytest.fixture(autouse=True)
def computes(cuda: Any) -> None:
    """`scale` computes, on the memory that the pointer names."""

    def scale(grid: tuple[int, ...], data: list[bytes]) -> None:
        pointer, rows, columns, stride = (int.from_bytes(each, "little") for each in data[:4])
        if pointer > 1 << 20:
            flat = (ctypes.c_float * (rows * stride)).from_address(pointer)
            matrix = np.frombuffer(flat, np.float32).reshape(rows, stride)[:, :columns]
            matrix *= np.frombuffer(data[4], np.float32)[0]

    cuda.effects["scale"] = scale


def test_a_launch_passes_exact_bytes(device_array: Any, cuda: Any, scale: CompiledProgram) -> None:
    Kernel(scale).launch(device_array(0x1000, (5, 132)), 2.5)
    assert cuda.launches == [
        {
            "device": 0,
            "kernel": "scale",
            "grid": (3, 5, 1),
            "block": (64, 1, 1),
            "smem": 0,
            "stream": 77,
            "bytes": [
                (0x1000).to_bytes(8, "little"),
                (5).to_bytes(4, "little"),
                (132).to_bytes(4, "little"),
                (132).to_bytes(8, "little"),
                np.float32(2.5).tobytes(),
            ],
        }
    ]


def test_modules_load_once_per_device(device_array: Any, cuda: Any, scale: CompiledProgram) -> None:
    kernel = Kernel(scale)
    for device in (0, 1, 1, 0):
        kernel.launch(device_array(0x1000, (5, 132), device), 1)
    assert [call[:2] for call in cuda.calls if call[0] == "load"] == [("load", 0), ("load", 1)]
    assert [launch["device"] for launch in cuda.launches] == [0, 1, 1, 0]
    assert cuda.current == 0


def test_arrays_of_two_places_are_refused(
    device_array: Any, cuda: Any, scale: CompiledProgram, parse_module: Any, memref: str
) -> None:
    module = parse_module(
        f"""
func.func @launch(%x: {memref}, %y: {memref}) {{
  %one = arith.constant 1 : i32
  cute.launch @copy grid(%one, %one, %one) args() {{threads = 32 : i32}}
  func.return
}}"""
    )
    ptx = ".version 7.0\n.target sm_80\n.visible .entry copy() { ret; }\n"
    kernel = Kernel(CompiledProgram.of("copy", "sm_80", ptx, module))
    first = device_array(0x1000, (4, 4), 1)
    with pytest.raises(ValueError, match="y: expected an array on device 1 like 'x', got one on"):
        kernel.launch(first, device_array(0x1000, (4, 4), 0))
    with pytest.raises(ValueError, match=r"y: expected an array on device 1 .* in host memory"):
        kernel.launch(first, np.zeros((4, 4), np.float32))
    assert cuda.launches == []


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (5, 5),
        (0, 0),
        (SimpleNamespace(ptr=6), 6),
        (SimpleNamespace(cuda_stream=7), 7),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 8)), 8),
        (SimpleNamespace(__cuda_stream__=(0, 9)), 9),
    ],
)
def test_streams(
    device_array: Any, cuda: Any, scale: CompiledProgram, stream: Any, handle: int
) -> None:
    Kernel(scale).launch(device_array(0x1000, (5, 132)), 1, stream=stream)
    assert cuda.launches[0]["stream"] == handle


@pytest.mark.parametrize("stream", ["default", 1.5, True, object()])
def test_what_is_no_stream(
    device_array: Any, cuda: Any, scale: CompiledProgram, stream: Any
) -> None:
    with pytest.raises(TypeError, match="stream: expected an int, a CuPy or torch stream"):
        Kernel(scale).launch(device_array(0x1000, (5, 132)), 1, stream=stream)


def test_torch_tensors_use_torchs_stream(cuda: Any, scale: CompiledProgram, torch: Any) -> None:
    kernel = Kernel(scale)
    tensor = torch.Tensor(0x1000, (5, 132), "float32", 0)
    kernel.launch(tensor, 1)
    kernel.launch(tensor, 1)
    assert [launch["stream"] for launch in cuda.launches] == [123, 123]


def test_torch_is_told_of_each_write_and_of_another_stream(
    cuda: Any, scale: CompiledProgram, torch: Any
) -> None:
    kernel = Kernel(scale)
    tensor = torch.Tensor(0x1000, (5, 132), "float32", 0)
    for stream in (None, 123, None, 9, 9):
        kernel.launch(tensor, 1, stream=stream)
    assert tensor.version == 5
    assert [stream.cuda_stream for stream in tensor.recorded] == [9, 9]


def test_a_tensor_of_another_device_is_launched_there(
    cuda: Any, scale: CompiledProgram, torch: Any
) -> None:
    kernel = Kernel(scale)
    tensor = torch.Tensor(0x1000, (5, 132), "float32", 1)
    for _ in range(2):
        kernel.launch(tensor, 1)
    assert [launch["device"] for launch in cuda.launches] == [1, 1]
    assert cuda.current == 0


class Interface:
    """An array of another library on a device, by `__cuda_array_interface__` alone."""

    def __init__(self, pointer: int, shape: tuple[int, ...], stream: Any) -> None:
        self.__cuda_array_interface__ = {
            "data": (pointer, False), "shape": shape, "typestr": "<f4", "version": 3,
            "stream": stream,
        }  # fmt: skip


def test_an_interface_is_launched_on_its_stream(cuda: Any, scale: CompiledProgram) -> None:
    kernel = Kernel(scale)
    for stream in (None, 1, 2, 0x5000):
        kernel.launch(Interface(0x1000, (5, 132), stream), 1)
    assert [launch["stream"] for launch in cuda.launches] == [77, 1, 2, 0x5000]
    assert cuda.waits == []
    for stream in (0, -1, "x", True):
        with pytest.raises(ValueError, match="x: expected the stream of __cuda_array_interface__"):
            kernel.launch(Interface(0x1000, (5, 132), stream), 1)


def test_a_launch_on_another_stream_than_the_interfaces_is_ordered(
    cuda: Any, scale: CompiledProgram
) -> None:
    Kernel(scale).launch(Interface(0x1000, (5, 132), 0x5000), 1, stream=9)
    assert [launch["stream"] for launch in cuda.launches] == [9]
    assert cuda.waits == [(9, 0x5000), (0x5000, 9)]


class Capsule:
    """An array of another library on a device, by DLPack, that records what it is told."""

    def __init__(self, array: np.ndarray, *, versioned: bool = True) -> None:
        self.array, self.versioned = array, versioned
        self.told: list[Any] = []

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        if options and not self.versioned:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        self.told.append(stream)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_is_told_the_stream_of_the_launch(
    cuda: Any, scale: CompiledProgram, versioned: bool
) -> None:
    memory = np.zeros(5 * 132 + 4, np.float32)
    first = -memory.ctypes.data % 16 // 4
    array = Capsule(memory[first : first + 660].reshape(5, 132), versioned=versioned)
    kernel = Kernel(scale)
    for stream in (None, 9, 0):
        kernel.launch(array, 1, stream=stream)
    # -1 asks for no synchronization; the default stream is 1 there.
    assert [stream for stream in array.told if stream != -1] == [77, 9, 1]


def test_numpy_arrays_travel_both_ways(cuda: Any, scale: CompiledProgram) -> None:
    array = np.arange(660, dtype=np.float32).reshape(5, 132)
    wide = np.ones((7, 140), np.float32)
    kernel = Kernel(scale)
    kernel.launch(array, 2)
    kernel.launch(wide[1:6, 4:104], 3)
    assert (array == 2 * np.arange(660).reshape(5, 132)).all()
    expected = np.ones((7, 140), np.float32)
    expected[1:6, 4:104] = 3
    # The fake kernel views whole rows from the first element on; inside the view it is exact.
    assert (wide == expected).all()
    kinds = [call[0] for call in cuda.calls]
    assert kinds == ["load", *["allocate", "to device", "to host", "synchronize"] * 2]
    assert len(cuda.freed) == 2
    moved = int.from_bytes(cuda.launches[1]["bytes"][0], "little")
    assert moved % 256 == wide[1:, 4:].ctypes.data % 256


def test_an_empty_launch_touches_nothing(
    device_array: Any, cuda: Any, scale: CompiledProgram
) -> None:
    Kernel(scale).launch(device_array(0, (0, 132)), 1)
    Kernel(scale).launch(np.zeros((0, 4), np.float32), 1)
    assert cuda.launches == []


def test_capture_needs_a_warm_kernel(device_array: Any, cuda: Any, scale: CompiledProgram) -> None:
    cuda.capturing = 5
    kernel = Kernel(scale)
    array = device_array(0x1000, (5, 132))
    with pytest.raises(RuntimeError, match=r"expected a call of warmup\(\) before kernel 'scale'"):
        kernel.launch(array, 1)
    assert cuda.calls == []
    cuda.capturing = 0
    assert kernel.warmup() is kernel
    cuda.capturing = 5
    kernel.launch(array, 1)
    assert len(cuda.launches) == 1
    with pytest.raises(RuntimeError, match=r"expected device arrays .* got NumPy arrays"):
        kernel.launch(np.zeros((5, 132), np.float32), 1)


def test_warmup_of_another_device(cuda: Any, scale: CompiledProgram) -> None:
    Kernel(scale).warmup(1)
    assert cuda.calls == [("load", 1, b"ELF:")]
    assert cuda.current == 0


@pytest.mark.parametrize(
    ("capability", "target", "assembled_for"),
    [
        ("80", "sm_80", "sm_80"),
        ("86", "sm_80", "sm_80"),
        ("90", "sm_80", "sm_90"),
        ("90", "sm_90a", "sm_90a"),
        ("103", "sm_100f", "sm_100f"),
        ("120", "sm_80", "sm_120"),
    ],
)
def test_the_device_gets_what_it_can_run(
    monkeypatch: pytest.MonkeyPatch,
    scale: CompiledProgram,
    capability: str,
    target: str,
    assembled_for: str,
    machine: Any,
) -> None:
    for _ in machine(capability):
        asked: list[str] = []
        monkeypatch.setattr(
            kernel_module,
            "assembled",
            lambda ptx, arch, asked=asked, **_: asked.append(arch) or SimpleNamespace(cubin=b"ELF"),
        )
        program = CompiledProgram(scale.name, target, scale.ptx, scale.host, scale.signature)
        Kernel(program).warmup()
        assert asked == [assembled_for]


@pytest.mark.parametrize(
    ("capability", "target", "needs"),
    [
        ("80", "sm_90a", "9.0 exactly"),
        ("100", "sm_90a", "9.0 exactly"),
        ("75", "sm_80", "8.0 or later"),
        ("120", "sm_100f", "10.0 or later of that family"),
    ],
)
def test_a_target_that_does_not_fit_is_explained(
    device_array: Any,
    monkeypatch: pytest.MonkeyPatch,
    scale: CompiledProgram,
    capability: str,
    target: str,
    needs: str,
    machine: Any,
) -> None:
    for cuda in machine(capability):
        program = CompiledProgram(scale.name, target, scale.ptx, scale.host, scale.signature)
        with pytest.raises(RuntimeError) as caught:
            Kernel(program).launch(device_array(0x1000, (5, 132)), 1)
        text = str(caught.value)
        assert f"compute capability {needs} for kernel 'scale' compiled for {target}" in text
        assert "got device 0 (Fake GPU) of" in text
        assert cuda.launches == []


def test_without_ptxas_the_driver_assembles(
    cuda: Any, scale: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(ptx: str, arch: str, **told: object) -> None:
        raise PtxasNotFoundError("none")

    monkeypatch.setattr(kernel_module, "assembled", missing)
    Kernel(scale).warmup()
    assert cuda.calls == [("load", 0, b".ver")]


def test_large_shared_memory_is_opted_in_once(
    device_array: Any, cuda: Any, scale: CompiledProgram
) -> None:
    host = scale.host.replace(", 64, 0, (", ", 64, 70000, (")
    assert host != scale.host
    kernel = Kernel(CompiledProgram(scale.name, scale.arch, scale.ptx, host, scale.signature))
    for pointer in (0x1000, 0x1000, 0x2000):
        kernel.launch(device_array(pointer, (5, 132)), 1)
    assert [call for call in cuda.calls if call[0] == "attribute"] == [
        ("attribute", "scale", 8, 70000)
    ]
    assert [launch["smem"] for launch in cuda.launches] == [70000] * 3


def test_a_repeated_call_is_not_checked_again(
    device_array: Any, cuda: Any, scale: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(scale)
    arguments = [
        (device_array(0x1000, (5, 132)), 1.0),
        (device_array(0x2000, (5, 132)), 1.0),
        (device_array(0x1000, (4, 132)), 1.0),
        (device_array(0x1000, (5, 132)), 0.0),
        (device_array(0x1000, (5, 132)), -0.0),
        (device_array(0x1000, (5, 132), 1), 1.0),
    ]
    for call in arguments:
        kernel.launch(*call)
    first = list(cuda.launches)
    assert len({(tuple(launch["bytes"]), launch["device"]) for launch in first}) == 6
    monkeypatch.setattr(kernel._checker, "bind", lambda _: pytest.fail("checked again"))
    for call in arguments[:-1]:
        kernel.launch(*call)
    assert cuda.launches[6:] == first[:-1]
    for current in (0, 1):
        cuda.context = 0xC000 + current
        kernel.launch(*arguments[-1])
        assert cuda.launches[-1] == first[-1]
        assert cuda.current == current
    kernel.launch(*arguments[-1], stream=9)
    assert cuda.launches[-1] == first[-1] | {"stream": 9}


def test_a_bool_is_not_taken_for_a_known_number(
    device_array: Any, cuda: Any, scale: CompiledProgram
) -> None:
    kernel = Kernel(scale)
    array = device_array(0x1000, (5, 132))
    kernel.launch(array, 1)
    with pytest.raises(TypeError, match="got bool"):
        kernel.launch(array, True)


MAPPED_PTX = """\
.version 8.0
.target sm_90a
.visible .entry mapped(.param .align 64 .b8 t[128], .param .b32 n)
.reqntid 384 .reqnctapercluster 4,4,1
{ ret; }
"""


@pytest.fixture
def mapped(parse_module: Any, memref: str) -> CompiledProgram:
    """A persistent kernel with a tensor map, in clusters of 16; a map's bytes are its address."""
    made = "!cute_nvgpu.tma_descriptor<f32, (64,32), S<3,4,3>>"
    module = parse_module(
        f"""
func.func @launch(%x: {memref}) {{
  %sms = cute.sm_count : i32
  %n = cute.dim %x, 0 : {memref}
  %t = cute_nvgpu.make_tma_descriptor %x : {memref} -> {made}
  cute.launch @mapped grid(%sms, %sms, %n) cluster(4, 4, 1) args(%t, %n)
      {{threads = 384 : i32}} : {made}, i32
  func.return
}}"""
    )
    return CompiledProgram.of("mapped", "sm_90a", MAPPED_PTX, module)


def map_bytes(address: int) -> bytes:
    return address.to_bytes(8, "little") * 16


def test_a_tensor_map_goes_by_value(device_array: Any, cuda: Any, mapped: CompiledProgram) -> None:
    kernel = Kernel(CompiledProgram.from_json(mapped.to_json())).warmup()
    # Clusters of more than 8 CTAs need the function's consent, once.
    assert [call[:2] for call in cuda.calls] == [
        ("load", 0), ("attribute", "mapped"), ("clusters", "mapped"),
    ]  # fmt: skip
    assert cuda.named("attribute") == [("attribute", "mapped", 14, 1)]
    array = device_array(0x1000, (5, 132))
    cuda.capturing = 5
    for _ in range(2):
        kernel.launch(array)
    assert [call[0] for call in cuda.calls[3:]] == ["encode"]
    assert (
        cuda.launches
        == [
            {
                "device": 0,
                "kernel": "mapped",
                "grid": (132, 132, 5),
                "block": (384, 1, 1),
                "smem": 0,
                "stream": 77,
                "bytes": [map_bytes(0x1000), (5).to_bytes(4, "little")],
            }
        ]
        * 2
    )


def test_a_persistent_grid_has_the_clusters_that_run_at_one_time(
    device_array: Any, cuda: Any, mapped: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda.clusters = 7
    Kernel(mapped).launch(device_array(0x1000, (5, 132)))
    assert cuda.named("clusters") == [("clusters", "mapped", (4, 4, 1), 384, 0)]
    assert cuda.launches[0]["grid"] == (7 * 16, 7 * 16, 5)


def test_a_repeated_call_encodes_nothing(
    device_array: Any, cuda: Any, mapped: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(mapped)
    arrays = [device_array(pointer, (5, 132)) for pointer in (0x1000, 0x2000)]
    for array in arrays:
        kernel.launch(array)
    monkeypatch.setattr(tensor_maps, "encode", lambda *_: pytest.fail("encoded again"))
    monkeypatch.setattr(kernel._checker, "bind", lambda _: pytest.fail("checked again"))
    for array in arrays:
        kernel.launch(array)
    assert cuda.launches[2:] == cuda.launches[:2]
    # A second kernel has arguments of its own to pack; the map is known.
    other = Kernel(mapped)
    other.launch(arrays[0])
    assert cuda.launches[4] == cuda.launches[0]


def test_a_map_of_a_numpy_array_is_of_its_copy(cuda: Any, mapped: CompiledProgram) -> None:
    array = np.zeros((5, 132), np.float32)
    Kernel(mapped).launch(array)
    (launch,) = cuda.launches
    address = int.from_bytes(launch["bytes"][0][:8], "little")
    low = ctypes.addressof(cuda.alive[0])
    assert low <= address < low + ctypes.sizeof(cuda.alive[0])


def test_the_emulator_gets_maps_and_clusters(
    mapped: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    def launch(*args: Any) -> emulator.Report:
        calls.append(args)
        return emulator.Report(args[1], args[2], args[3])

    monkeypatch.setattr(emulator, "launch", launch)
    array = np.zeros((3, 132), np.float32)
    Kernel(mapped, backend="emulator").launch(array)
    ((_, entry, grid, block, (given, rows), smem, cluster),) = calls
    assert (entry, grid, block, smem, cluster) == ("mapped", (4, 4, 3), 384, 0, (4, 4, 1))
    assert given["array"] is array
    assert (given["dims"], given["box"], given["swizzle"]) == ((132, 3), (32, 64), "128B")
    assert rows == 3


def test_the_emulator_refuses_device_arrays(
    device_array: Any, cuda: Any, scale: CompiledProgram
) -> None:
    with pytest.raises(ValueError, match="backend: expected arrays in host memory"):
        Kernel(scale, backend="emulator").launch(device_array(0x1000, (5, 132)), 1)


def test_other_pointers_write_the_buffer_in_place(
    device_array: Any, cuda: Any, mapped: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tensor map is re-addressed, nothing is planned, checked or encoded again.
    kernel = Kernel(mapped)
    kernel.launch(device_array(0x1000, (5, 132)))
    monkeypatch.setattr(tensor_maps, "encode", lambda *_: pytest.fail("encoded again"))
    monkeypatch.setattr(kernel._checker, "bind", lambda _: pytest.fail("checked again"))
    for pointer in (0x2000, 0x2000, 0x1000):
        kernel.launch(device_array(pointer, (5, 132)))
        assert cuda.launches[-1]["bytes"] == [map_bytes(pointer), (5).to_bytes(4, "little")]
    # What was at a place before is there again.
    assert cuda.named("replace") == [("replace", 0x2000)]
    assert len(cuda.named("encode")) == 1
    for pointer in range(0x3000, 0x3000 + 0x100 * 200, 0x100):
        kernel.launch(device_array(pointer, (5, 132)))
        assert cuda.launches[-1]["bytes"][0] == map_bytes(pointer)
    kernel.launch(device_array(0x2000, (5, 132)))
    assert cuda.launches[-1]["bytes"][0] == map_bytes(0x2000)
    assert len(cuda.named("encode")) == 1


def test_threads_that_launch_at_once_do_not_share_a_buffer(
    device_array: Any, cuda: Any, scale: CompiledProgram
) -> None:
    kernel = Kernel(scale)
    kernel.launch(device_array(0x1000, (5, 132)), 1.0)
    seen: list[int] = []
    nested = iter([0x3000, 0x4000])

    def launch_meanwhile(grid: Any, data: list[bytes]) -> None:
        # Another thread gets in between where ctypes lets go of the interpreter.
        pointer = next(nested, None)
        if pointer is not None:
            thread = threading.Thread(
                target=kernel.launch, args=(device_array(pointer, (5, 132)), 2.0)
            )
            thread.start()
            thread.join()
        seen.append(int.from_bytes(cuda.launches[0]["bytes"][0], "little"))

    cuda.effects["scale"] = launch_meanwhile
    cuda.launches.clear()
    kernel.launch(device_array(0x2000, (5, 132)), 1.0)
    pointers = [int.from_bytes(launch["bytes"][0], "little") for launch in cuda.launches]
    assert pointers == [0x2000, 0x3000, 0x4000]
    kernel.launch(device_array(0x2000, (5, 132)), 1.0)
    assert cuda.launches[-1]["bytes"] == cuda.launches[0]["bytes"]


@pytest.mark.parametrize("context", [0, 0xF000, 0xC001])
def test_the_context_of_the_arrays_is_current_for_the_launch(
    device_array: Any, cuda: Any, scale: CompiledProgram, context: int
) -> None:
    # A thread without a context gets the primary one; another context comes back afterwards.
    kernel = Kernel(scale)
    for _ in range(2):
        cuda.context = context
        kernel.launch(device_array(0x1000, (5, 132)), 1.0)
        assert cuda.launches[-1]["device"] == 0
        assert cuda.context == (context or 0xC000)


def test_a_launch_that_the_driver_refuses_is_an_error_and_the_next_one_works(
    device_array: Any, cuda: Any, mapped: CompiledProgram
) -> None:
    kernel = Kernel(mapped)
    kernel.launch(device_array(0x1000, (5, 132)))
    cuda.launch_status = 1
    with pytest.raises(RuntimeError, match=r"cuLaunchKernelEx to succeed, got CUDA_ERROR_INVALID"):
        kernel.launch(device_array(0x2000, (5, 132)))
    cuda.launch_status = 0
    kernel.launch(device_array(0x2000, (5, 132)))
    assert cuda.launches[-1]["bytes"][0] == map_bytes(0x2000)


def test_a_kernel_that_waits_by_itself_may_start_early(
    device_array: Any, cuda: Any, scale: CompiledProgram
) -> None:
    waits = scale.ptx.replace("ret;", "griddepcontrol.wait;\n ret;", 1)
    assert waits != scale.ptx
    for ptx in (scale.ptx, waits):
        Kernel(replace(scale, ptx=ptx)).launch(device_array(0x1000, (5, 132)), 1.0)
    # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    assert cuda.attributes == [[], [(6, 1)]]


def test_a_prepared_call_is_repeated_with_its_own_arrays(
    device_array: Any, cuda: Any, scale: CompiledProgram
) -> None:
    kernel = Kernel(scale)
    prepared = kernel.prepare(device_array(0x1000, (5, 132)), 2.5)
    assert prepared is not None
    kernel.launch(device_array(0x2000, (5, 132)), 3.5)
    prepared.repeat()
    prepared.repeat(stream=5)
    first, _, again, other = cuda.launches
    assert again == first
    assert other == first | {"stream": 5}


def test_an_integer_in_the_place_of_a_float_is_not_forgotten(
    device_array: Any, cuda: Any, scale: CompiledProgram
) -> None:
    kernel = Kernel(scale)
    for number in (2, 3, 2.5, 2, np.float32(4)):
        kernel.launch(device_array(0x1000, (5, 132)), number)
        assert cuda.launches[-1]["bytes"][-1] == np.float32(number).tobytes()


def test_a_pointer_with_less_alignment_than_the_kernel_assumes_is_refused(
    device_array: Any, cuda: Any, parse_module: Any
) -> None:
    memref = '!cute.memref<f32, gmem, align<256>, "(?,?):(?{i64 div=4},1)">'
    module = parse_module(
        f"""
func.func @launch(%x: {memref}) {{
  %one = arith.constant 1 : i32
  cute.launch @k grid(%one, %one, %one) args(%x) {{threads = 32 : i32}} : {memref}
  func.return
}}"""
    )
    ptx = (
        ".version 7.0\n.target sm_80\n.visible .entry k(.param .b64 a, .param .b32 b, .param .b32 c"
        ", .param .b64 d) { ret; }\n"
    )
    kernel = Kernel(CompiledProgram.of("k", "sm_80", ptx, module))
    for pointer in (0x1000, 0x1100):
        kernel.launch(device_array(pointer, (4, 4)))
    with pytest.raises(ValueError, match="x: expected memory aligned to 256 bytes"):
        kernel.launch(device_array(0x1010, (4, 4)))


ASSERTS = """\
.version 7.0
.target sm_80
.address_size 64
.visible .global .align 8 .b64 cutedialect_status = 0;
.visible .entry check(.param .b64 check_param_0, .param .b32 check_param_1,
  .param .b32 check_param_2, .param .b64 check_param_3, .param .f32 check_param_4)
{
  ret;
}
\t.file 1 "kernels.py"
// assert cutedialect_status 1 at 1:3:5: "expected a \\"small\\" i"
// assert cutedialect_status 2 at 0:0:0: "expected no more"
"""


def test_a_failed_assertion_is_raised_by_who_waits(
    cuda: Any, device_array: Any, parse_module: Any, memref: str
) -> None:
    host = f"""
    func.func @launch(%x: {memref}, %s: f32) {{
      %one = arith.constant 1 : i32
      cute.launch @check grid(%one, %one, %one) args(%x, %s) {{threads = 32 : i32}}
        : {memref}, f32
      func.return
    }}
    """
    program = CompiledProgram.of("check", "sm_80", ASSERTS, parse_module(host))
    word = np.zeros(1, np.uint64)
    cuda.variables["cutedialect_status"] = word.ctypes.data
    failing = [0]

    def check(grid: Any, data: list[bytes]) -> None:
        word[0] = word[0] or failing[0]

    cuda.effects["check"] = check
    kernel = Kernel(program)
    host_array = np.zeros((8, 8), np.float32)
    kernel.launch(host_array, 1.0)
    failing[0] = 1 | 7 << 16
    with pytest.raises(KernelAssertionError) as caught:
        kernel.launch(host_array, 1.0)
    assert (caught.value.location, caught.value.cta) == ("kernels.py:3:5", 7)
    assert caught.value.message == 'expected a "small" i'
    # It is told once, and the context is as good as before.
    assert word[0] == 0
    failing[0] = 0
    kernel.launch(host_array, 1.0)
    launcher.synchronize()
    failing[0] = 2
    kernel.launch(device_array(0x1000, (8, 8)), 1.0)
    failing[0] = 1
    kernel.launch(device_array(0x1000, (8, 8)), 1.0)
    with pytest.raises(KernelAssertionError, match="expected no more") as caught:
        launcher.synchronize()
    assert caught.value.location is None
    assert cuda.named("synchronize context")
    launcher.synchronize()
    kernel.launch(device_array(0x1000, (8, 8)), 1.0)
    with pytest.raises(KernelAssertionError, match="small"):
        launcher.synchronize(stream=5)
