"""Launches through CuPy against a stand-in, which takes arguments as CuPy 14 does: what it loads,
which bytes a kernel gets, and what is said of what CuPy cannot do.
"""

from __future__ import annotations

import ctypes
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cutedialect import environment
from cutedialect.backend.runtime import devices
from cutedialect.backend.runtime import kernel as kernel_module
from cutedialect.backend.runtime.cuda import PreparedCall
from cutedialect.backend.runtime.errors import KernelAssertionError, PtxasNotFoundError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.backend.runtime.ptx_text import entries

FORMS = [("cupy", b".ver"), ("cupy-cubin", b"ELF:")]


class CUDADriverError(RuntimeError):
    """What CuPy raises where the driver refuses."""


class RawKernel:
    """Keeps a function for each device, like CuPy's, and hands launches to the library."""

    def __init__(self, cupy: FakeCupy, path: str, name: str) -> None:
        self.cupy, self.path, self.name = cupy, path, name
        self.functions: dict[int, int] = {}
        assert self.kernel.ptr

    @property
    def kernel(self) -> Any:
        device = self.cupy.library.current
        if device not in self.functions:
            self.cupy.load(self.path)
            function = ctypes.c_void_p()
            self.cupy.library.cuModuleGetFunction(ctypes.byref(function), None, self.name.encode())
            self.functions[device] = function.value or 0
        return SimpleNamespace(ptr=self.functions[device])

    def _set_smem(self, size: int) -> None:
        self.cupy.opted_in.append((self.name, size))

    max_dynamic_shared_size_bytes = property(fset=_set_smem)

    def __call__(
        self, grid: tuple, block: tuple, args: Sequence[Any], *, shared_mem: int = 0, stream: Any
    ) -> None:
        assert isinstance(grid, tuple)
        assert isinstance(block, tuple)
        library = self.cupy.library
        data = [self.cupy.by_value(value) for value in args]
        assert tuple(map(len, data)) == tuple(library.sizes[self.name])
        buffers = [ctypes.create_string_buffer(each, len(each)) for each in data]
        config = SimpleNamespace(
            grid=grid, block=block, smem=shared_mem, stream=stream.ptr, attributes=(), count=0
        )
        pointers = [ctypes.addressof(each) for each in buffers]
        status = library._launch(
            SimpleNamespace(_obj=config), SimpleNamespace(value=self.kernel.ptr), pointers, None
        )
        if status:
            raise CUDADriverError(f"CUDA_ERROR_{status}")


class RawModule:
    def __init__(self, cupy: FakeCupy, path: str) -> None:
        self.cupy, self.path = cupy, path

    def get_function(self, name: str) -> RawKernel:
        return RawKernel(self.cupy, self.path, name)

    def get_global(self, name: str) -> Any:
        return SimpleNamespace(ptr=self.cupy.library.variables[name])


class FakeCupy:
    """The module `cupy` over the driver's stand-in."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.loaded: list[tuple[int, str, bytes]] = []
        self.opted_in: list[tuple[str, int]] = []
        self.refuses = ""
        self.cuda = SimpleNamespace(
            get_current_stream=lambda: SimpleNamespace(ptr=library.stream),
            runtime=SimpleNamespace(getDevice=lambda: library.current if library.context else 0),
        )

    def RawModule(self, *, path: str) -> RawModule:
        assert isinstance(path, str)
        return RawModule(self, path)

    def load(self, path: str) -> None:
        """Once for each path and device."""
        if self.refuses:
            raise CUDADriverError(self.refuses)
        if not any((device, known) == (self.library.current, path)
                   for device, known, _ in self.loaded):  # fmt: skip
            self.loaded.append((self.library.current, path, Path(path).read_bytes()))

    @staticmethod
    def by_value(value: Any) -> bytes:
        """`_pointer` of cupy/cuda/function.pyx, without arrays on devices."""
        if isinstance(value, np.ndarray):
            assert value.size == 1, "only numpy.ndarrays of size one can be passed by value"
            return value.tobytes()
        assert isinstance(value, np.generic)
        return value.tobytes()


@pytest.fixture
def cupy(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    fake = FakeCupy(cuda)

    def assembled(ptx: str, arch: str, **told: object) -> SimpleNamespace:
        del told
        return SimpleNamespace(cubin=b"ELF:" + arch.encode() + ptx.encode())

    monkeypatch.setattr(kernel_module, "assembled", assembled)
    monkeypatch.setitem(sys.modules, "cupy", fake)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "cupy.cuda", fake.cuda)  # type: ignore[arg-type]
    return fake


def sized(cuda: Any, program: CompiledProgram) -> CompiledProgram:
    """A program whose kernels the stand-in knows."""
    cuda.sizes |= {entry.name: entry.sizes for entry in entries(program.ptx)}
    return program


@pytest.mark.parametrize(("backend", "starts"), FORMS)
def test_the_same_bytes_as_the_driver_passes(
    device_array: Any,
    cuda: Any,
    cupy: FakeCupy,
    scale: CompiledProgram,
    backend: Any,
    starts: bytes,
) -> None:
    kernel = Kernel(sized(cuda, scale))
    calls = ((0x1000, 2.5, None), (0x1000, 3.5, 5), (0x2000, 2.5, None), (0x1000, -0.0, 5),
             (0x1000, 0.0, 5), (0x1000, 7, None))  # fmt: skip
    for pointer, factor, stream in calls:
        kernel.launch(device_array(pointer, (5, 132)), factor, stream=stream)
    wanted, cuda.launches = cuda.launches, []
    assert cupy.loaded == []
    for pointer, factor, stream in calls:
        kernel.launch(device_array(pointer, (5, 132)), factor, stream=stream, backend=backend)
    assert cuda.launches == wanted
    assert [image[:4] for _, _, image in cupy.loaded] == [starts]
    assert len(cuda.named("load")) == 1


def test_the_text_is_what_is_loaded_and_needs_no_assembler(
    device_array: Any, cuda: Any, cupy: FakeCupy, scale: CompiledProgram,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def missing(ptx: str, arch: str, **told: object) -> None:
        raise PtxasNotFoundError("none")

    monkeypatch.setattr(kernel_module, "assembled", missing)
    kernel = Kernel(sized(cuda, scale), backend="cupy")
    for device in (0, 1, 1, 0):
        kernel.launch(device_array(0x1000, (5, 132), device), 1.0)
    assert [(device, image.decode()) for device, _, image in cupy.loaded] == [
        (0, scale.ptx),
        (1, scale.ptx),
    ]
    assert [launch["device"] for launch in cuda.launches] == [0, 1, 1, 0]
    assert cuda.current == 0
    with pytest.raises(PtxasNotFoundError):
        Kernel(scale, backend="cupy-cubin").launch(device_array(0x1000, (5, 132)), 1.0)


def test_another_text_is_another_file(
    device_array: Any, cuda: Any, cupy: FakeCupy, scale: CompiledProgram
) -> None:
    """CuPy remembers modules by their paths."""
    other = replace(scale, ptx=scale.ptx.replace("mul.f32", "add.f32"))
    for program in (scale, other, scale):
        kernel = Kernel(sized(cuda, program), backend="cupy")
        kernel.launch(device_array(0x1000, (5, 132)), 1.0)
    assert [image for _, _, image in cupy.loaded] == [scale.ptx.encode(), other.ptx.encode()]
    # A device that comes later reads the same file.
    assert all(Path(path).exists() for _, path, _ in cupy.loaded)


def test_a_file_that_someone_deleted_is_written_anew(
    cuda: Any, cupy: FakeCupy, scale: CompiledProgram
) -> None:
    Kernel(scale).raw_module()
    ((_, path, _),) = cupy.loaded
    shutil.rmtree(Path(path).parent)
    Kernel(scale).raw_module()
    assert Path(path).read_text() == scale.ptx


def test_the_choice_of_the_environment(
    device_array: Any, cuda: Any, cupy: FakeCupy, scale: CompiledProgram,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "cupy-cubin")
    assert environment.backend() == "cupy-cubin"
    Kernel(sized(cuda, scale)).launch(device_array(0x1000, (5, 132)), 1.0)
    assert [image[:10] for _, _, image in cupy.loaded] == [b"ELF:sm_90."]


def test_a_launch_of_more_shared_memory(
    device_array: Any, cuda: Any, cupy: FakeCupy, scale: CompiledProgram
) -> None:
    host = scale.host.replace(", 64, 0, (", ", 64, 70000, (").replace(
        "SMEM = {'scale': 0}", "SMEM = {'scale': 70000}"
    )
    large = replace(scale, host=host)
    kernel = Kernel(sized(cuda, large), backend="cupy")
    for pointer in (0x1000, 0x1000, 0x2000):
        kernel.launch(device_array(pointer, (5, 132)), 1.0)
    assert cupy.opted_in == [("scale", 70000)]
    assert [launch["smem"] for launch in cuda.launches] == [70000] * 3
    # By hand nothing is left to opt in to.
    kernel.raw_module()
    assert cupy.opted_in == [("scale", 70000)] * 2


def test_arrays_of_numpy_go_there_and_back(
    cuda: Any, cupy: FakeCupy, scale: CompiledProgram
) -> None:
    def doubles(grid: Any, data: list[bytes]) -> None:
        pointer, rows, _, stride = (int.from_bytes(each, "little") for each in data[:4])
        flat = (ctypes.c_float * (rows * stride)).from_address(pointer)
        np.ctypeslib.as_array(flat)[:] *= np.frombuffer(data[4], np.float32)[0]

    cuda.effects["scale"] = doubles
    x = np.ones((5, 132), np.float32)
    Kernel(sized(cuda, scale), backend="cupy").launch(x, 2.0)
    assert (x == 2).all()


MAPPED = """
func.func @launch(%x: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %n: i32) {
  %one = arith.constant 1 : i32
  %t = cute_nvgpu.make_tma_descriptor %x : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute_nvgpu.tma_descriptor<f16, (64,32), S<2,4,3>>
  %w = cute.workspace(%n) : !cute.memref<f32, gmem, align<16>, "?:1">
  cute.launch @first grid(%one, %one, %one) args(%t, %w) {threads = 32 : i32} : !cute_nvgpu.tma_descriptor<f16, (64,32), S<2,4,3>>, !cute.memref<f32, gmem, align<16>, "?:1">
  cute.launch @second grid(%one, %one, %one) args(%w) {threads = 64 : i32} : !cute.memref<f32, gmem, align<16>, "?:1">
  func.return
}
"""  # noqa: E501
MAPPED_PTX = """\
.version 8.0
.target sm_90a
.visible .entry first(.param .align 64 .b8 m[128], .param .b64 w, .param .b32 n) { ret; }
.visible .entry second(.param .b64 w, .param .b32 n)
{
  griddepcontrol.wait;
  ret;
}
"""


@pytest.fixture
def mapped(cuda: Any, parse_module: Callable[[str], Any]) -> CompiledProgram:
    """Two kernels in a row that share a workspace; the first takes a tensor map, the second starts
    early.
    """
    return sized(cuda, CompiledProgram.of("both", "sm_90a", MAPPED_PTX, parse_module(MAPPED)))


class Halves:
    """A CuPy array of f16."""

    __module__ = "cupy"
    data: Any = None

    def __init__(self, pointer: int) -> None:
        self.data = SimpleNamespace(ptr=pointer, device_id=0)
        self.shape, self.strides, self.dtype = (64, 64), (128, 2), np.dtype("float16")


@pytest.mark.parametrize("again", [False, True])
def test_tensor_maps_workspaces_and_kernels_in_a_row(
    cuda: Any, cupy: FakeCupy, mapped: CompiledProgram, again: bool
) -> None:
    kernel = Kernel(mapped)
    calls = [(pointer, stream) for pointer in (0x1000, 0x2000, 0x1000) for stream in (5, 6)]
    for pointer, stream in calls:
        kernel.launch(Halves(pointer), 100, stream=stream)
    wanted, cuda.launches = cuda.launches, []
    assert len({launch["bytes"][1] for launch in wanted[::2]}) == 2
    if again:
        prepared = kernel.on("cupy").prepare(Halves(0x1000), 100, stream=9)
        assert isinstance(prepared, PreparedCall)
        cuda.launches = []
        for pointer, stream in calls:
            prepared.like((pointer,), ()).repeat(stream)
    else:
        for pointer, stream in calls:
            kernel.launch(Halves(pointer), 100, stream=stream, backend="cupy")
    assert cuda.launches == wanted
    maps = [np.frombuffer(launch["bytes"][0], np.uint64) for launch in cuda.launches[::2]]
    assert [set(map_.tolist()) for map_ in maps] == [{pointer} for pointer, _ in calls]


def test_attributes_of_launches_are_named_as_what_cupy_leaves_out(
    cuda: Any, cupy: FakeCupy, mapped: CompiledProgram
) -> None:
    kernel = Kernel(mapped)
    assert kernel.remarks == ()
    (said,) = kernel.on("cupy").remarks
    assert str(said).startswith("remark: [cupy] kernel 'second' starts when the launch in front")
    kernel.launch(Halves(0x1000), 100)
    kernel.launch(Halves(0x1000), 100, backend="cupy")
    assert cuda.attributes == [[], [(6, 1)], [], []]


def test_clusters_that_not_every_device_has(
    cuda: Any, cupy: FakeCupy, mapped: CompiledProgram
) -> None:
    host = mapped.host.replace("'first': (1, 1, 1)", "'first': (16, 1, 1)")
    assert host != mapped.host
    Kernel(replace(mapped, host=host)).raw_module()
    assert cuda.named("attribute") == [("attribute", "first", 14, 1)]


def test_the_kernels_as_a_module(cuda: Any, cupy: FakeCupy, scale: CompiledProgram) -> None:
    kernel = Kernel(scale)
    assert isinstance(kernel.raw_module(), RawModule)
    assert [image for _, _, image in cupy.loaded] == [scale.ptx.encode()]
    # A cubin is for the device: one for sm_80 does not run on another major version.
    kernel.raw_module(form="cubin")
    assert cupy.loaded[1][2].startswith(b"ELF:sm_90")
    with pytest.raises(ValueError, match="form: expected 'ptx' or 'cubin', got 'fatbin'"):
        kernel.raw_module(form="fatbin")  # type: ignore[arg-type]


def test_without_cupy(
    device_array: Any, cuda: Any, scale: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"raw_module: expected CuPy, .*cutedialect\[cuda12\]"):
        Kernel(scale).raw_module()
    with pytest.raises(ImportError, match="a launch through CuPy: expected CuPy, got none"):
        Kernel(scale).launch(device_array(0x1000, (5, 132)), 1.0, backend="cupy")


def test_a_driver_that_is_too_old_for_the_text(
    device_array: Any, cuda: Any, cupy: FakeCupy, mapped: CompiledProgram,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    cuda.release = (11, 8)
    text = (
        "expected a driver of CUDA 12.0 or later, which reads version 8.0 of PTX, for kernel "
        "'both', got one of CUDA 11.8; "
    )
    with pytest.raises(RuntimeError, match=text + ".*the form 'cubin' needs no PTX"):
        Kernel(mapped).raw_module()
    with pytest.raises(RuntimeError, match=text):
        Kernel(mapped).launch(Halves(0x1000), 100, backend="cupy")
    Kernel(mapped).raw_module("cubin")
    Kernel(mapped).launch(Halves(0x1000), 100)

    def missing(ptx: str, arch: str, **told: object) -> None:
        raise PtxasNotFoundError("none")

    monkeypatch.setattr(kernel_module, "assembled", missing)
    with pytest.raises(RuntimeError, match=text + r".*pip install 'cutedialect\[ptxas\]'"):
        Kernel(mapped).launch(Halves(0x1000), 100)
    cuda.release = (12, 0)
    Kernel(mapped).raw_module()


def test_a_device_that_does_not_fit(cuda: Any, cupy: FakeCupy, mapped: CompiledProgram) -> None:
    cuda.capability = "80"
    with pytest.raises(RuntimeError, match=r"compute capability 9\.0 exactly for kernel 'both'"):
        Kernel(mapped).raw_module()


def test_text_that_the_driver_refuses(cuda: Any, cupy: FakeCupy, scale: CompiledProgram) -> None:
    cupy.refuses = "CUDA_ERROR_INVALID_PTX: a PTX JIT compilation failed"
    text = r"expected CuPy to load the ptx of kernel 'scale' for sm_90, got CUDA_ERROR_INVALID_PTX"
    with pytest.raises(RuntimeError, match=text + ".*; kernel.cubin tells what ptxas says"):
        Kernel(scale).raw_module()


def test_out_of_the_context_of_somebody_else(
    device_array: Any, cuda: Any, cupy: FakeCupy, scale: CompiledProgram
) -> None:
    kernel = Kernel(sized(cuda, scale), backend="cupy")
    kernel.launch(device_array(0x1000, (5, 132)), 1.0)
    cuda.context = 0xF000
    kernel.launch(device_array(0x1000, (5, 132)), 1.0)
    kernel.launch(device_array(0x2000, (5, 132)), 1.0)
    assert len(cuda.launches) == 3
    assert cuda.context == 0xF000


def test_without_a_device(scale: CompiledProgram) -> None:
    x = np.ones((5, 132), np.float32)
    with pytest.raises(RuntimeError, match="expected a CUDA device with backend='cupy', got none"):
        Kernel(scale).launch(x, 2.0, backend="cupy")
    # The kernel itself is as it was.
    with pytest.raises(ValueError, match="backend: expected 'auto'"):
        Kernel(scale).launch(x, 2.0, backend="cub")  # type: ignore[arg-type]
    Kernel(scale).launch(x, 2.0, backend="emulator")
    assert (x == 2).all()


def test_a_failed_assertion(cuda: Any, cupy: FakeCupy, scale: CompiledProgram) -> None:
    said = '// assert cutedialect_status 1 at 1:3:5: "expected a small i"\n'
    word = np.zeros(1, np.uint64)
    cuda.variables["cutedialect_status"] = word.ctypes.data

    def fails(grid: Any, data: list[bytes]) -> None:
        word[0] = 1

    cuda.effects["scale"] = fails
    asserting = sized(cuda, replace(scale, ptx=scale.ptx + said))
    assert asserting.assertions is not None
    with pytest.raises(KernelAssertionError, match="expected a small i"):
        Kernel(asserting, backend="cupy").launch(np.ones((4, 4), np.float32), 1.0)


def test_new_arrays_on_a_stream(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the protocol of streams: CuPy 14 warns of what took a handle before."""
    current: list[tuple[int, int]] = []

    class Stream:
        def __init__(self, handle: tuple[int, int]) -> None:
            self.handle = handle

        @staticmethod
        def from_external(other: Any) -> Stream:
            return Stream(other.__cuda_stream__())

        def __enter__(self) -> None:
            current.append(self.handle)

        def __exit__(self, *error: object) -> None:
            pass

    fake = SimpleNamespace(
        cuda=SimpleNamespace(Device=lambda device: nullcontext(), Stream=Stream),
        empty=lambda shape, dtype: np.zeros(shape, dtype),
    )
    monkeypatch.setitem(sys.modules, "cupy", fake)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "cupy.cuda", fake.cuda)  # type: ignore[arg-type]
    assert devices.empty((2, 3), np.dtype("float32"), 0, stream=7).shape == (2, 3)
    assert devices.empty((2,), np.dtype("float32"), 0).shape == (2,)
    assert current == [(0, 7)]
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match="a new array on a device: expected CuPy, got none"):
        devices.empty((2,), np.dtype("float32"), 0)
