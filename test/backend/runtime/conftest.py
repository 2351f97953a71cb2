"""A small program that every test of the runtime launches: rows of a matrix times a scalar."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from cutedialect.backend.runtime import driver, kernel, tensor_maps
from cutedialect.backend.runtime.kept import Kept
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.backend.runtime.ptx_text import entries

MEMREF = '!cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">'

SCALE_HOST = f"""
func.func @launch(%x: {MEMREF}, %s: f32) {{
  %one = arith.constant 1 : i32
  %rows = cute.dim %x, 0 : {MEMREF}
  %columns = cute.dim %x, 1 : {MEMREF}
  %tile = arith.constant 64 : i32
  %tiles = arith.ceildivsi %columns, %tile : i32
  cute.launch @scale grid(%tiles, %rows, %one) args(%x, %s) {{threads = 64 : i32}} : {MEMREF}, f32
  func.return
}}
"""

SCALE_PTX = """\
.version 7.0
.target sm_80
.address_size 64
.file 1 "kernels.py"
.visible .entry scale(
  .param .b64 scale_param_0,
  .param .b32 scale_param_1,
  .param .b32 scale_param_2,
  .param .b64 scale_param_3,
  .param .f32 scale_param_4
)
.reqntid 64,1,1
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  .reg .f32 %f<4>;
  .loc 1 3 5
  ld.param.b64 %rd0, [scale_param_0]; // ir: cute.tile_index
  ld.param.b32 %r0, [scale_param_2];
  ld.param.b64 %rd1, [scale_param_3];
  ld.param.f32 %f0, [scale_param_4];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.y;
  mad.lo.s32 %r4, %r1, 64, %r2;
  setp.ge.s32 %p0, %r4, %r0;
  @%p0 bra DONE;
  cvt.u64.u32 %rd2, %r3;
  mul.lo.s64 %rd2, %rd2, %rd1;
  cvt.u64.u32 %rd3, %r4;
  add.s64 %rd2, %rd2, %rd3;
  shl.b64 %rd2, %rd2, 2;
  add.s64 %rd2, %rd2, %rd0;
  .loc 1 4 9
  ld.global.f32 %f1, [%rd2]; // ir: cute.copy
  mul.f32 %f1, %f1, %f0;
  st.global.f32 [%rd2], %f1;
DONE:
  ret;
}
"""


@pytest.fixture(scope="session")
def parse_module() -> Callable[[str], object]:
    """Text of IR to a module."""
    from xdsl.context import Context
    from xdsl.parser import Parser

    from cutedialect.dialects import all_dialects

    def parse(text: str) -> object:
        context = Context()
        for name, load in all_dialects().items():
            context.register_dialect(name, load)
        module = Parser(context, text, "host.mlir").parse_module()
        module.verify()
        return module

    return parse


@pytest.fixture(scope="session")
def memref() -> str:
    return MEMREF


@pytest.fixture(scope="session")
def scale_ptx() -> str:
    return SCALE_PTX


@pytest.fixture(scope="session")
def scale(parse_module: Callable[[str], object]) -> CompiledProgram:
    """`x[i, j] *= s`, one CTA per row and 64 columns."""
    return CompiledProgram.of(
        "scale",
        "sm_80",
        SCALE_PTX,
        parse_module(SCALE_HOST),
        schedule="tile = (1,64)",
        ops={"uniform": 17},
    )


@pytest.fixture(autouse=True)
def own_cache(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test starts with an empty disk cache and no forced choices."""
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", f"{tmp_path}/cache")
    for name in ("NO_CACHE", "BACKEND", "PTXAS", "DUMP_DIR"):
        monkeypatch.delenv(f"CUTEDIALECT_{name}", raising=False)


_NAMES = {
    1: b"CUDA_ERROR_INVALID_VALUE",
    3: b"CUDA_ERROR_NOT_INITIALIZED",
    201: b"CUDA_ERROR_INVALID_CONTEXT",
    400: b"CUDA_ERROR_INVALID_HANDLE",
}
# The address of a device's primary context; that of a context of somebody else.
CONTEXT = 0xC000
FOREIGN = 0xF000


class FakeLibrary:
    """A CUDA driver: functions of cuda.h over memory of this process. `calls` is the record of what
    was asked, `launches` of what was launched, with the bytes of each argument. `sizes` are the
    bytes of each kernel's arguments, by name, as its PTX declares them; `effects` run in the place
    of kernels, on (grid, arguments as bytes).
    """

    def __init__(self, capability: str = "90", devices: int = 2) -> None:
        self.capability, self.devices = capability, devices
        self.context = CONTEXT
        self.calls: list[tuple[Any, ...]] = []
        self.launches: list[dict[str, Any]] = []
        # Of each launch, the numbers and first values of its attributes.
        self.attributes: list[list[tuple[int, int]]] = []
        # (the stream that waits, the stream that it waits for)
        self.waits: list[tuple[int, int]] = []
        self.capturing = 0
        # The release of CUDA.
        self.release = (13, 0)
        self.sizes: dict[str, Sequence[int]] = {}
        self.effects: dict[str, Callable[..., None]] = {}
        # Variables in global memory, by name.
        self.variables: dict[str, int] = {}
        self.alive: list[Any] = []
        self.freed: list[int] = []
        self.clusters = 0
        self.launch_status = 0
        self.stream = 77
        self._functions: list[str] = []
        # The context of each function: a driver launches none of another one.
        self._contexts: list[int] = []
        self._events: dict[int, int] = {}
        self._pushed: list[int] = []
        # A driver of CUDA 12 or later; tests of an older one delete these.
        self.cuLaunchKernelEx = self._launch
        self.cuTensorMapEncodeTiled = self._encode
        self.cuTensorMapReplaceAddress = self._replace
        self.cuOccupancyMaxActiveClusters = self._clusters

    @property
    def current(self) -> int:
        """The device whose primary context is current."""
        return self.context - CONTEXT

    def named(self, kind: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] == kind]

    # Functions of cuda.h: arguments as ctypes makes them, a CUresult as the result.

    def cuInit(self, flags: Any) -> int:
        return 0

    def cuGetErrorName(self, status: Any, text: Any) -> int:
        text._obj.value = _NAMES.get(status.value, b"CUDA_ERROR_UNKNOWN")
        return 0

    def cuDriverGetVersion(self, number: Any) -> int:
        number._obj.value = 1000 * self.release[0] + 10 * self.release[1]
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = self.devices
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: Any, device: Any) -> int:
        major, minor = int(self.capability[:-1]), int(self.capability[-1])
        value._obj.value = {16: 132, 38: 50 << 20, 75: major, 76: minor}[attribute.value]
        return 0

    def cuDeviceGetName(self, text: Any, size: Any, device: Any) -> int:
        text.value = b"Fake GPU"
        return 0

    def cuDeviceTotalMem_v2(self, size: Any, device: Any) -> int:
        size._obj.value = 80 << 30
        return 0

    def cuPointerGetAttribute(self, value: Any, attribute: Any, pointer: Any) -> int:
        value._obj.value = 0
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        context._obj.value = CONTEXT + device.value
        return 0

    def cuCtxGetCurrent(self, context: Any) -> int:
        context._obj.value = self.context or None
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        self.context = context.value
        return 0

    def cuCtxGetDevice(self, device: Any) -> int:
        device._obj.value = 0 if self.context == FOREIGN else self.current
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        self._pushed.append(self.context)
        self.context = context.value
        return 0

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        self.context = self._pushed.pop()
        return 0

    def cuModuleLoadData(self, module: Any, image: Any) -> int:
        module._obj.value = 1
        self.calls.append(("load", self.current, image.value[:4]))
        return 0

    def cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        self._functions.append(name.decode())
        self._contexts.append(self.context)
        function._obj.value = len(self._functions)
        return 0

    def cuModuleGetGlobal_v2(self, pointer: Any, size: None, module: Any, name: bytes) -> int:
        pointer._obj.value = self.variables[name.decode()]
        return 0

    def cuCtxSynchronize(self) -> int:
        self.calls.append(("synchronize context", self.current))
        return 0

    def cuFuncSetAttribute(self, function: Any, attribute: Any, value: Any) -> int:
        name = self._functions[function.value - 1]
        self.calls.append(("attribute", name, attribute.value, value.value))
        return 0

    def cuFuncGetAttribute(self, value: Any, attribute: Any, function: Any) -> int:
        value._obj.value = {0: 384}[attribute.value]
        return 0

    def cuMemAlloc_v2(self, pointer: Any, size: Any) -> int:
        memory = ctypes.create_string_buffer(b"\xff" * (size.value + 256))
        self.alive.append(memory)
        pointer._obj.value = -(-ctypes.addressof(memory) // 256) * 256
        self.calls.append(("allocate", size.value))
        return 0

    def cuMemFree_v2(self, pointer: Any) -> int:
        self.freed.append(pointer.value)
        return 0

    def cuMemsetD8Async(self, pointer: Any, value: Any, size: Any, stream: Any) -> int:
        ctypes.memset(pointer.value, value.value, size.value)
        self.calls.append(("clear", size.value))
        return 0

    def cuMemcpyHtoDAsync_v2(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        ctypes.memmove(target.value, source.value, size.value)
        self.calls.append(("to device", size.value, stream.value or 0))
        return 0

    def cuMemcpyDtoHAsync_v2(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        ctypes.memmove(target.value, source.value, size.value)
        self.calls.append(("to host", size.value, stream.value or 0))
        return 0

    def cuMemcpyDtoDAsync_v2(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        ctypes.memmove(target.value, source.value, size.value)
        return 0

    def cuStreamCreate(self, stream: Any, flags: Any) -> int:
        stream._obj.value = 0x9999
        return 0

    def cuStreamDestroy_v2(self, stream: Any) -> int:
        return 0

    def cuStreamSynchronize(self, stream: Any) -> int:
        if stream.value != 0x9999:
            self.calls.append(("synchronize", stream.value or 0))
        return 0

    def cuStreamGetCaptureInfo_v2(self, stream: Any, status: Any, number: Any, *_: Any) -> int:
        status._obj.value = int(self.capturing != 0)
        number._obj.value = self.capturing
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> int:
        mode._obj.value = 2 - mode._obj.value
        return 0

    def cuEventCreate(self, event: Any, flags: Any) -> int:
        event._obj.value = len(self._events) + 1
        self._events[event._obj.value] = 0
        return 0

    def cuEventRecord(self, event: Any, stream: Any) -> int:
        self._events[event.value] = stream.value or 0
        return 0

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: Any) -> int:
        self.waits.append((stream.value or 0, self._events[event.value]))
        return 0

    def cuEventDestroy_v2(self, event: Any) -> int:
        return 0

    def _clusters(self, count: Any, function: Any, config: Any) -> int:
        name = self._functions[function.value - 1]
        given = config._obj
        extents = tuple(given.attributes[0].extents)
        self.calls.append(("clusters", name, extents, given.block[0], given.smem))
        count._obj.value = self.clusters
        return 0

    def _encode(self, out: Any, dtype: Any, rank: Any, address: Any, *_: Any) -> int:
        """A map's bytes are its address, sixteen times."""
        ctypes.memmove(out.value, (ctypes.c_uint64 * 16)(*[address.value or 0] * 16), 128)
        self.calls.append(("encode", address.value))
        return 0

    def _replace(self, map_: Any, address: Any) -> int:
        assert map_.value % 128 == 0
        ctypes.memmove(map_.value, (ctypes.c_uint64 * 16)(*[address.value or 0] * 16), 128)
        self.calls.append(("replace", address.value))
        return 0

    def _launch(self, config: Any, function: Any, parameters: Any, extra: None) -> int:
        if self.launch_status:
            return self.launch_status
        if self.context != self._contexts[function.value - 1]:
            return 400 if self.context else 201
        given = config._obj
        name = self._functions[function.value - 1]
        sizes = self.sizes[name]
        data = [ctypes.string_at(parameters[place], size) for place, size in enumerate(sizes)]
        self.launches.append(
            {
                "device": self.current,
                "kernel": name,
                "grid": tuple(given.grid),
                "block": tuple(given.block),
                "smem": given.smem,
                "stream": given.stream or 0,
                "bytes": data,
            }
        )
        attributes = [given.attributes[at] for at in range(given.count)]
        self.attributes.append([(each.id, each.extents[0]) for each in attributes])
        if name in self.effects:
            self.effects[name](tuple(given.grid), data)
        return 0


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    """A machine with two devices, and CuPy, whose current stream is 77."""
    fake = FakeLibrary()
    yield from install(monkeypatch, fake)


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeLibrary) -> Iterator[FakeLibrary]:
    def assembled(ptx: str, arch: str, **told: object) -> SimpleNamespace:
        del told
        fake.sizes |= {entry.name: entry.sizes for entry in entries(ptx)}
        return SimpleNamespace(cubin=b"ELF:" + arch.encode(), kernels={}, messages=())

    cupy_cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=fake.stream))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cupy_cuda)  # type: ignore[arg-type]
    monkeypatch.setattr(kernel, "assembled", assembled)
    monkeypatch.setattr(tensor_maps, "_encoded", Kept(4096))
    driver.use_library(fake)
    yield fake
    driver.use_library(None)


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
def device_array() -> type[DeviceArray]:
    return DeviceArray


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Iterator[FakeLibrary]]:
    """A machine whose devices have a compute capability, as a generator of one."""
    return lambda capability: install(monkeypatch, FakeLibrary(capability))


class TorchDevice(NamedTuple):
    """torch.device, which has a hash."""

    type: str
    index: int | None


class TorchTensor:
    """A stand-in for a torch tensor at an address, on a device or in host memory (None)."""

    __module__ = "torch"
    layout, requires_grad = "strided", False

    def __init__(
        self, pointer: int, shape: tuple[int, ...], dtype: str, device: int | None
    ) -> None:
        self.pointer, self.shape, self.dtype = pointer, shape, f"torch.{dtype}"
        self.is_cuda = device is not None
        self.device = TorchDevice("cuda" if self.is_cuda else "cpu", device)
        self.version = 0
        self.recorded: list[Any] = []

    def data_ptr(self) -> int:
        return self.pointer

    def stride(self) -> tuple[int, ...]:
        steps = [1]
        for extent in reversed(self.shape[1:]):
            steps.insert(0, steps[0] * extent)
        return tuple(steps)

    def get_device(self) -> int:
        return -1 if self.device.index is None else self.device.index

    def is_neg(self) -> bool:
        return False

    def record_stream(self, stream: Any) -> None:
        self.recorded.append(stream)


class TorchStream(SimpleNamespace):
    """torch's stream by its handle."""

    def __init__(self, cuda_stream: int, device: object = None) -> None:
        super().__init__(cuda_stream=cuda_stream)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in for torch, whose current stream is 123, and its class of tensors."""

    def increment_version(tensors: list[TorchTensor]) -> None:
        for tensor in tensors:
            tensor.version += 1

    module = SimpleNamespace(
        strided="strided",
        is_grad_enabled=lambda: True,
        _C=SimpleNamespace(
            _disabled_torch_dispatch_impl=None, _cuda_getCurrentRawStream=lambda device: 123
        ),
        autograd=SimpleNamespace(graph=SimpleNamespace(increment_version=increment_version)),
        cuda=SimpleNamespace(
            Stream=TorchStream,
            ExternalStream=TorchStream,
            current_stream=lambda device: TorchStream(123),
            default_stream=lambda device: TorchStream(0),
        ),
        Tensor=type("Tensor", (TorchTensor,), {"__module__": "torch"}),
    )
    monkeypatch.setitem(sys.modules, "torch", module)  # type: ignore[arg-type]
    return module
