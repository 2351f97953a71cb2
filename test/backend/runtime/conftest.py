"""A small program that every test of the runtime launches: rows of a matrix times a scalar."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cutedialect.backend.runtime import cupy as launcher
from cutedialect.backend.runtime.program import CompiledProgram

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


class FakeMemoryCuda:
    """`cupy.cuda` with real memory; `uploads`, `launches` and `calls` are the record."""

    def __init__(self) -> None:
        self.uploads: list[int] = []
        self.launches: list[list[bytes]] = []
        self.calls: list[tuple[Any, ...]] = []
        self.stream = 0
        self.capturing = False
        self.alive: list[Any] = []
        self.runtime = SimpleNamespace(
            getDevice=lambda: 0,
            streamIsCapturing=lambda stream: self.capturing,
            deviceGetAttribute=lambda attribute, device: 132,
            memcpyAsync=self._copy,
            streamSynchronize=lambda stream: None,
            mallocAsync=self._allocate_in_graph,
            memsetAsync=self._clear,
            freeAsync=lambda pointer, stream: self.calls.append(("free", stream)),
        )
        self.function = SimpleNamespace(Module=lambda: self)
        self.driver = SimpleNamespace(
            funcSetAttribute=lambda *args: None, funcGetAttribute=lambda *args: 384
        )
        self.memory = SimpleNamespace(Memory=self.alloc)

    def is_available(self) -> bool:
        return True

    def Device(self, device: int) -> Any:
        return FakeMemoryDevice()

    def load(self, image: bytes) -> None:
        pass

    def get_function(self, name: str) -> Any:
        return FakeMemoryFunction(self)

    def get_current_stream(self) -> Any:
        return SimpleNamespace(ptr=self.stream)

    def alloc(self, size: int) -> Any:
        memory = ctypes.create_string_buffer(b"\xff" * (size + 256))
        self.alive.append(memory)
        pointer = -(-ctypes.addressof(memory) // 256) * 256
        return FakeMemory(pointer, size)

    def _allocate_in_graph(self, size: int, stream: int) -> int:
        self.calls.append(("allocate", size, stream))
        return self.alloc(size).ptr

    def _clear(self, pointer: int, value: int, size: int, stream: int) -> None:
        ctypes.memset(pointer, value, size)
        self.calls.append(("clear", size, stream))

    def _copy(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        ctypes.memmove(target, source, size)
        self.uploads.append(size)


class FakeMemoryFunction:
    ptr = 4711

    def __init__(self, cuda: FakeMemoryCuda) -> None:
        self.cuda = cuda

    def __call__(self, grid: Any, block: Any, args: Any, smem: int, stream: Any) -> None:
        self.cuda.launches.append([arg.tobytes() for arg in args])


class FakeMemory:
    def __init__(self, ptr: int, size: int) -> None:
        self.ptr, self.size = ptr, size


class FakeMemoryDevice:
    compute_capability = "80"

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def memory_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMemoryCuda]:
    fake, module = FakeMemoryCuda(), ModuleType("cupy")
    module.__dict__["cuda"] = fake
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupy.cuda", fake)  # type: ignore[arg-type]
    module.__spec__ = SimpleNamespace(name="cupy")  # type: ignore[assignment]
    launcher.gpu_available.cache_clear()
    monkeypatch.setattr(launcher, "assembled", lambda ptx, arch: SimpleNamespace(cubin=b""))
    yield fake
    monkeypatch.undo()
    launcher.gpu_available.cache_clear()


class TorchTensor:
    """A stand-in for a torch tensor at an address, on a device or in host memory (None)."""

    __module__ = "torch"
    layout, requires_grad = "strided", False

    def __init__(
        self, pointer: int, shape: tuple[int, ...], dtype: str, device: int | None
    ) -> None:
        self.pointer, self.shape, self.dtype = pointer, shape, f"torch.{dtype}"
        self.is_cuda = device is not None
        self.device = SimpleNamespace(type="cuda" if self.is_cuda else "cpu", index=device)
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
        _C=SimpleNamespace(_disabled_torch_dispatch_impl=None),
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
