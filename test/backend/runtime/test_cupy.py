"""The CuPy launcher against a stand-in CuPy that records every call: what is loaded when, which
bytes a kernel gets, and what is refused. The stand-in's memory is real, so copies really happen.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cutedialect.backend import emulator
from cutedialect.backend.runtime import cupy as launcher
from cutedialect.backend.runtime import ptxas, tensor_maps
from cutedialect.backend.runtime.errors import PtxasNotFoundError
from cutedialect.backend.runtime.kept import Kept
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import CompiledProgram

needs_ptxas = pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")


class FakeCuda:
    """`cupy.cuda` with two devices; `calls` is the record."""

    def __init__(self, capability: str) -> None:
        self.capability = capability
        self.calls: list[tuple[Any, ...]] = []
        self.launches: list[dict[str, Any]] = []
        # (the stream that waits, the stream that it waits for)
        self.waits: list[tuple[int, int]] = []
        self.current = 0
        self.capturing = False
        self.alive: list[Any] = []
        self.smem = 0
        self.runtime = SimpleNamespace(
            getDevice=lambda: self.current,
            streamIsCapturing=lambda stream: self.capturing,
            getDeviceProperties=lambda device: {"name": b"Fake GPU"},
            deviceGetAttribute=lambda attribute, device: {16: 132}[attribute],
            memcpyAsync=self._copy,
            streamSynchronize=lambda stream: self.calls.append(("synchronize", stream)),
            pointerGetAttributes=lambda pointer: SimpleNamespace(device=0),
            eventCreateWithFlags=lambda flags: {"flags": flags},
            eventRecord=lambda event, stream: event.update(recorded=stream),
            streamWaitEvent=lambda stream, event: self.waits.append((stream, event["recorded"])),
            eventDestroy=lambda event: None,
        )
        self.driver = SimpleNamespace(
            funcSetAttribute=lambda *args: self.calls.append(("attribute", *args)),
            funcGetAttribute=lambda attribute, function: {0: 384}[attribute],
        )
        self.function = SimpleNamespace(Module=lambda: FakeModule(self))

    def is_available(self) -> bool:
        return True

    def get_current_stream(self) -> Any:
        return SimpleNamespace(ptr=77)

    def alloc(self, size: int) -> Any:
        memory = ctypes.create_string_buffer(size + 256)
        self.alive.append(memory)
        return SimpleNamespace(ptr=-(-ctypes.addressof(memory) // 256) * 256)

    def _copy(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        ctypes.memmove(target, source, size)
        self.calls.append(("to device" if kind == 1 else "to host", size, stream))

    def Device(self, device: int) -> Any:
        return FakeDevice(self, device)


class FakeDevice:
    def __init__(self, cuda: FakeCuda, device: int) -> None:
        self.cuda, self.id = cuda, device
        self.compute_capability = cuda.capability

    def __enter__(self) -> None:
        self.before, self.cuda.current = self.cuda.current, self.id

    def __exit__(self, *_: object) -> None:
        self.cuda.current = self.before


class FakeModule:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda

    def load(self, image: bytes) -> None:
        self.image = image
        self.cuda.calls.append(("load", self.cuda.current, image[:4]))

    def get_function(self, name: str) -> Any:
        return FakeFunction(self.cuda, name)


class FakeFunction:
    """Records a launch; `scale` computes, on the memory that the pointer names."""

    ptr = 4711

    def __init__(self, cuda: FakeCuda, name: str) -> None:
        self.cuda, self.name = cuda, name

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: Any, shared_mem: int, stream: Any
    ) -> None:
        self.cuda.launches.append(
            {
                "device": self.cuda.current,
                "kernel": self.name,
                "grid": grid,
                "block": block,
                "smem": shared_mem,
                "stream": self.cuda.get_current_stream().ptr if stream is None else stream.ptr,
                "bytes": [arg.tobytes() for arg in args],
            }
        )
        if self.name != "scale":
            return
        pointer, rows, columns, stride, factor = (arg.item() for arg in args)
        if pointer > 1 << 20:
            flat = (ctypes.c_float * (rows * stride)).from_address(pointer)
            matrix = np.frombuffer(flat, np.float32).reshape(rows, stride)[:, :columns]
            matrix *= np.float32(factor)


class DeviceArray:
    """A CuPy array of f32 at a made-up address."""

    __module__ = "cupy"
    data: Any = None

    def __init__(self, pointer: int, shape: tuple[int, ...], device: int = 0) -> None:
        self.data = SimpleNamespace(ptr=pointer, device_id=device)
        self.shape = shape
        self.strides = tuple(4 * int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        self.dtype = np.dtype("float32")


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    yield from install(monkeypatch, "90")


def install(monkeypatch: pytest.MonkeyPatch, capability: str) -> Iterator[FakeCuda]:
    fake = FakeCuda(capability)
    module = ModuleType("cupy")
    module.__dict__["cuda"] = fake
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupy.cuda", fake)  # type: ignore[arg-type]
    module.__spec__ = SimpleNamespace(name="cupy")  # type: ignore[assignment]
    launcher.gpu_available.cache_clear()
    monkeypatch.setattr(
        launcher,
        "assembled",
        lambda ptx, arch: SimpleNamespace(cubin=b"ELF:" + arch.encode()),
    )
    yield fake
    monkeypatch.undo()
    launcher.gpu_available.cache_clear()


def test_a_launch_passes_exact_bytes(cuda: FakeCuda, scale: CompiledProgram) -> None:
    Kernel(scale).launch(DeviceArray(0x1000, (5, 132)), 2.5)
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


def test_modules_load_once_per_device(cuda: FakeCuda, scale: CompiledProgram) -> None:
    kernel = Kernel(scale)
    for device in (0, 1, 1, 0):
        kernel.launch(DeviceArray(0x1000, (5, 132), device), 1)
    assert [call[:2] for call in cuda.calls if call[0] == "load"] == [("load", 0), ("load", 1)]
    assert [launch["device"] for launch in cuda.launches] == [0, 1, 1, 0]
    assert cuda.current == 0


def test_arrays_of_two_places_are_refused(
    cuda: FakeCuda, scale: CompiledProgram, parse_module: Any, memref: str
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
    first = DeviceArray(0x1000, (4, 4), 1)
    with pytest.raises(ValueError, match="y: expected an array on device 1 like 'x', got one on"):
        kernel.launch(first, DeviceArray(0x1000, (4, 4), 0))
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
def test_streams(cuda: FakeCuda, scale: CompiledProgram, stream: Any, handle: int) -> None:
    Kernel(scale).launch(DeviceArray(0x1000, (5, 132)), 1, stream=stream)
    assert cuda.launches[0]["stream"] == handle


@pytest.mark.parametrize("stream", ["default", 1.5, True, object()])
def test_what_is_no_stream(cuda: FakeCuda, scale: CompiledProgram, stream: Any) -> None:
    with pytest.raises(TypeError, match="stream: expected an int, a CuPy or torch stream"):
        Kernel(scale).launch(DeviceArray(0x1000, (5, 132)), 1, stream=stream)


def test_torch_tensors_use_torchs_stream(
    cuda: FakeCuda, scale: CompiledProgram, torch: Any
) -> None:
    kernel = Kernel(scale)
    tensor = torch.Tensor(0x1000, (5, 132), "float32", 0)
    kernel.launch(tensor, 1)
    kernel.launch(tensor, 1)
    assert [launch["stream"] for launch in cuda.launches] == [123, 123]


def test_torch_is_told_of_each_write_and_of_another_stream(
    cuda: FakeCuda, scale: CompiledProgram, torch: Any
) -> None:
    kernel = Kernel(scale)
    tensor = torch.Tensor(0x1000, (5, 132), "float32", 0)
    for stream in (None, 123, None, 9, 9):
        kernel.launch(tensor, 1, stream=stream)
    assert tensor.version == 5
    assert [stream.cuda_stream for stream in tensor.recorded] == [9, 9]


def test_a_tensor_of_another_device_is_launched_there(
    cuda: FakeCuda, scale: CompiledProgram, torch: Any
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


def test_an_interface_is_launched_on_its_stream(cuda: FakeCuda, scale: CompiledProgram) -> None:
    kernel = Kernel(scale)
    for stream in (None, 1, 2, 0x5000):
        kernel.launch(Interface(0x1000, (5, 132), stream), 1)
    assert [launch["stream"] for launch in cuda.launches] == [77, 1, 2, 0x5000]
    assert cuda.waits == []
    for stream in (0, -1, "x", True):
        with pytest.raises(ValueError, match="x: expected the stream of __cuda_array_interface__"):
            kernel.launch(Interface(0x1000, (5, 132), stream), 1)


def test_a_launch_on_another_stream_than_the_interfaces_is_ordered(
    cuda: FakeCuda, scale: CompiledProgram
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
    cuda: FakeCuda, scale: CompiledProgram, versioned: bool
) -> None:
    memory = np.zeros(5 * 132 + 4, np.float32)
    first = -memory.ctypes.data % 16 // 4
    array = Capsule(memory[first : first + 660].reshape(5, 132), versioned=versioned)
    kernel = Kernel(scale)
    for stream in (None, 9, 0):
        kernel.launch(array, 1, stream=stream)
    # -1 asks for no synchronization; the default stream is 1 there.
    assert [stream for stream in array.told if stream != -1] == [77, 9, 1]


def test_numpy_arrays_travel_both_ways(cuda: FakeCuda, scale: CompiledProgram) -> None:
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
    assert kinds == ["load", *["to device", "to host", "synchronize"] * 2]
    moved = int.from_bytes(cuda.launches[1]["bytes"][0], "little")
    assert moved % 256 == wide[1:, 4:].ctypes.data % 256


def test_an_empty_launch_touches_nothing(cuda: FakeCuda, scale: CompiledProgram) -> None:
    Kernel(scale).launch(DeviceArray(0, (0, 132)), 1)
    Kernel(scale).launch(np.zeros((0, 4), np.float32), 1)
    assert cuda.launches == []


def test_capture_needs_a_warm_kernel(cuda: FakeCuda, scale: CompiledProgram) -> None:
    cuda.capturing = True
    kernel = Kernel(scale)
    array = DeviceArray(0x1000, (5, 132))
    with pytest.raises(RuntimeError, match=r"expected a call of warmup\(\) before kernel 'scale'"):
        kernel.launch(array, 1)
    assert cuda.calls == []
    cuda.capturing = False
    assert kernel.warmup() is kernel
    cuda.capturing = True
    kernel.launch(array, 1)
    assert len(cuda.launches) == 1
    with pytest.raises(RuntimeError, match=r"expected device arrays .* got NumPy arrays"):
        kernel.launch(np.zeros((5, 132), np.float32), 1)


def test_warmup_of_another_device(cuda: FakeCuda, scale: CompiledProgram) -> None:
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
) -> None:
    for _ in install(monkeypatch, capability):
        asked: list[str] = []
        monkeypatch.setattr(
            launcher,
            "assembled",
            lambda ptx, arch, asked=asked: asked.append(arch) or SimpleNamespace(cubin=b"ELF"),
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
    monkeypatch: pytest.MonkeyPatch,
    scale: CompiledProgram,
    capability: str,
    target: str,
    needs: str,
) -> None:
    for cuda in install(monkeypatch, capability):
        program = CompiledProgram(scale.name, target, scale.ptx, scale.host, scale.signature)
        with pytest.raises(RuntimeError) as caught:
            Kernel(program).launch(DeviceArray(0x1000, (5, 132)), 1)
        text = str(caught.value)
        assert f"compute capability {needs} for kernel 'scale' compiled for {target}" in text
        assert "got device 0 (Fake GPU) of" in text
        assert cuda.launches == []


def test_without_ptxas_the_driver_assembles(
    cuda: FakeCuda, scale: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(ptx: str, arch: str) -> None:
        raise PtxasNotFoundError("none")

    monkeypatch.setattr(launcher, "assembled", missing)
    Kernel(scale).warmup()
    assert cuda.calls == [("load", 0, b".ver")]


def test_large_shared_memory_is_opted_in_once(cuda: FakeCuda, scale: CompiledProgram) -> None:
    host = scale.host.replace(", 64, 0, (", ", 64, 70000, (")
    assert host != scale.host
    kernel = Kernel(CompiledProgram(scale.name, scale.arch, scale.ptx, host, scale.signature))
    for pointer in (0x1000, 0x1000, 0x2000):
        kernel.launch(DeviceArray(pointer, (5, 132)), 1)
    assert [call for call in cuda.calls if call[0] == "attribute"] == [
        ("attribute", 4711, 8, 70000)
    ]
    assert [launch["smem"] for launch in cuda.launches] == [70000] * 3


def test_a_repeated_call_is_not_checked_again(
    cuda: FakeCuda, scale: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(scale)
    arguments = [
        (DeviceArray(0x1000, (5, 132)), 1.0),
        (DeviceArray(0x2000, (5, 132)), 1.0),
        (DeviceArray(0x1000, (4, 132)), 1.0),
        (DeviceArray(0x1000, (5, 132)), 0.0),
        (DeviceArray(0x1000, (5, 132)), -0.0),
        (DeviceArray(0x1000, (5, 132), 1), 1.0),
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
        cuda.current = current
        kernel.launch(*arguments[-1])
        assert cuda.launches[-1] == first[-1]
        assert cuda.current == current
    kernel.launch(*arguments[-1], stream=9)
    assert cuda.launches[-1] == first[-1] | {"stream": 9}


def test_a_bool_is_not_taken_for_a_known_number(cuda: FakeCuda, scale: CompiledProgram) -> None:
    kernel = Kernel(scale)
    array = DeviceArray(0x1000, (5, 132))
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
def mapped(parse_module: Any, memref: str, monkeypatch: pytest.MonkeyPatch) -> CompiledProgram:
    """A persistent kernel with a tensor map, in clusters of 16; a map's bytes are its address."""

    def encode(out: int, *fields: Any) -> int:
        ctypes.memmove(out, (ctypes.c_uint64 * 16)(*[fields[2]] * 16), 128)
        return 0

    monkeypatch.setattr(tensor_maps, "_encoder", lambda: encode)
    monkeypatch.setattr(tensor_maps, "_encoded", Kept(4096))
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


def test_a_tensor_map_goes_by_value(cuda: FakeCuda, mapped: CompiledProgram) -> None:
    kernel = Kernel(CompiledProgram.from_json(mapped.to_json())).warmup()
    # Clusters of more than 8 CTAs need the function's consent, once.
    assert cuda.calls == [("load", 0, b"ELF:"), ("attribute", 4711, 14, 1)]
    array = DeviceArray(0x1000, (5, 132))
    cuda.capturing = True
    for _ in range(2):
        kernel.launch(array)
    assert len(cuda.calls) == 2
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
    cuda: FakeCuda, mapped: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(launcher, "active_clusters", lambda *args: asked.append(args) or 7)
    Kernel(mapped).launch(DeviceArray(0x1000, (5, 132)))
    assert asked == [(4711, (4, 4, 1), 384, 0)]
    assert cuda.launches[0]["grid"] == (7 * 16, 7 * 16, 5)


def test_a_repeated_call_encodes_nothing(
    cuda: FakeCuda, mapped: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(mapped)
    arrays = [DeviceArray(pointer, (5, 132)) for pointer in (0x1000, 0x2000)]
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


def test_a_map_of_a_numpy_array_is_of_its_copy(cuda: FakeCuda, mapped: CompiledProgram) -> None:
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
    monkeypatch.setattr(emulator, "launch", lambda *args: calls.append(args))
    array = np.zeros((3, 132), np.float32)
    Kernel(mapped, backend="emulator").launch(array)
    ((_, entry, grid, block, (given, rows), smem, cluster),) = calls
    assert (entry, grid, block, smem, cluster) == ("mapped", (4, 4, 3), 384, 0, (4, 4, 1))
    assert given["array"] is array
    assert (given["dims"], given["box"], given["swizzle"]) == ((132, 3), (32, 64), "128B")
    assert rows == 3


def test_the_emulator_refuses_device_arrays(cuda: FakeCuda, scale: CompiledProgram) -> None:
    with pytest.raises(ValueError, match="backend: expected arrays in host memory"):
        Kernel(scale, backend="emulator").launch(DeviceArray(0x1000, (5, 132)), 1)
