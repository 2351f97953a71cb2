"""Timing on a device, and device memory for it, against a stand-in driver: its memory is real, its
clock advances by what is queued.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cutedialect.backend.runtime import buffers, outcomes, timing
from cutedialect.backend.runtime.arrays import tensor_argument
from cutedialect.backend.runtime.driver import OutOfMemoryError, driver
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.backend.runtime.timing import DeviceLostError, DeviceTimer, NoDeviceError

L2 = 50 << 20


STREAM = 99


class FakeDevice:
    """A device behind the stand-in `library`: `queue` has what was queued since the last wait,
    `clock` is in ms.
    """

    def __init__(self, library: Any) -> None:
        self.library = library
        self.clock = 0.0
        self.queue: list[Any] = []
        self.history: list[list[Any]] = []
        self.alive: list[Any] = []
        self.launch_ms = [0.5]
        self.fails: Exception | None = None
        self.effect: Callable[..., None] | None = None
        self.dead = self.hangs = False
        self.left = sys.maxsize
        # When each event was recorded, by its number, and how often it was looked at.
        self.events: dict[int, float] = {}
        self.looks: dict[int, int] = {}
        attributes = library.cuDeviceGetAttribute
        library.effects["scale"] = self.launch
        library.cuMemAlloc_v2 = self._allocate
        library.cuMemsetD8Async = self._fill
        library.cuStreamCreate = self._new_stream
        library.cuEventCreate = self._new_event
        library.cuEventRecord = self._record
        library.cuEventQuery = self._query
        library.cuEventElapsedTime = self._elapsed
        library.cuEventDestroy_v2 = self._forget
        library.cuCtxSynchronize = self._synchronize
        library.cuDeviceGetAttribute = lambda value, attribute, device: (
            setattr(value._obj, "value", L2) or 0
            if attribute.value == 38
            else attributes(value, attribute, device)
        )

    def launch(self, grid: tuple[int, ...], data: list[bytes]) -> None:
        if self.fails is not None:
            raise self.fails
        pointer, rows, columns, stride = (int.from_bytes(each, "little") for each in data[:4])
        self.queue.append(("launch", pointer))
        self.clock += self.launch_ms.pop(0) if self.launch_ms else 1.0
        if self.effect is not None:
            factor = np.frombuffer(data[4], np.float32)[0].item()
            self.effect(pointer, rows, columns, stride, factor)

    # Functions of cuda.h.

    def _allocate(self, pointer: Any, size: Any) -> int:
        """What is there for the flush is never touched."""
        if size.value > self.left:
            return 2
        memory = ctypes.create_string_buffer(min(size.value, 1 << 20) + 512)
        self.alive.append(memory)
        pointer._obj.value = -(-ctypes.addressof(memory) // 512) * 512
        return 0

    def _fill(self, pointer: Any, value: Any, size: Any, stream: Any) -> int:
        assert stream.value == STREAM
        self.queue.append(("flush", size.value))
        self.clock += 0.04
        return 0

    def _new_stream(self, stream: Any, flags: Any) -> int:
        assert flags.value == 1
        stream._obj.value = STREAM
        return 0

    def _new_event(self, event: Any, flags: Any) -> int:
        assert flags.value == 0
        event._obj.value = len(self.looks) + 1
        self.looks[event._obj.value] = 0
        return 0

    def _record(self, event: Any, stream: Any) -> int:
        assert stream.value == STREAM
        self.events[event.value] = self.clock
        self.queue.append("event")
        return 0

    def _query(self, event: Any) -> int:
        """Only after a few looks; then all before it has happened."""
        if self.dead:
            return 700
        self.looks[event.value] += 1
        if self.looks[event.value] < 3 or self.hangs:
            return 600
        if self.queue:
            self.history.append(self.queue)
            self.queue = []
        return 0

    def _elapsed(self, value: Any, start: Any, stop: Any) -> int:
        value._obj.value = self.events[stop.value] - self.events[start.value]
        return 0

    def _forget(self, event: Any) -> int:
        del self.events[event.value]
        return 700 if self.dead else 0

    def _synchronize(self) -> int:
        return 700 if self.dead else 0


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, machine: Any) -> Iterator[FakeDevice]:
    """A device, and no CuPy."""
    monkeypatch.setattr(timing, "_PATIENCE", 0.05)
    for library in machine("90"):
        for name in ("cupy", "cupy.cuda"):
            monkeypatch.setitem(sys.modules, name, None)
        fake = FakeDevice(library)
        yield fake
        # No event stays, whatever happened.
        assert fake.events == {}


def prepared(timer: DeviceTimer, scale: CompiledProgram) -> Any:
    x = timer.random((3, 8), (8, 1), "float32", 16)
    return timer.prepare(Kernel(scale), (x, 2.0))


def test_launches_that_follow_each_other_rotate_their_operands(
    cuda: FakeDevice, scale: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 40 kB ten copies are twice the cache; a batch has more of short launches."""
    monkeypatch.setattr(sys.modules[__name__], "L2", 200_000)
    timer = DeviceTimer()
    assert (timer.device, timer.arch) == ("Fake GPU", "sm_90a")
    assert timer.time([]) == []
    x = timer.random((100, 100), (100, 1), "float32", 16)
    cuda.launch_ms[:] = []
    calls = timer.prepare(Kernel(scale), (x, 2.0))
    addresses = [call.pointers[0] for call in calls]
    assert len(set(addresses)) == 11
    for took, launches in ((0.1, 3), (0.1, 4), (0.002, 4), (0.002, 40)):
        cuda.launch_ms[:] = [took] * launches
        assert timer.time([calls]) == pytest.approx([1e3 * took])
        queued = [each[1] for each in cuda.history[-1] if each[0] == "launch"]
        assert queued == (5 * addresses)[:launches]
    again = timer.prepare(Kernel(scale), (x, 2.0))
    assert [call.pointers[0] for call in again] == addresses


def test_a_batch_is_queued_while_the_device_fills_memory(
    cuda: FakeDevice, scale: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "L2", 1 << 20)
    timer = DeviceTimer()
    call = prepared(timer, scale)
    cuda.launch_ms[:] = [1.0] * 3
    timer.time([call])
    assert cuda.history[-1][:9] == [("flush", 1 << 26)] * 8 + ["event"]
    assert cuda.history[-1][-1] == "event"


def test_views_of_an_array_stay_views_of_one_copy(cuda: FakeDevice, scale: CompiledProgram) -> None:
    timer = DeviceTimer()
    x = timer.random((8, 8), (8, 1), "float32", 16)
    wide = x.expand((4, 8, 8))
    one, (other,), number = (timer._copy(0, each) for each in (x, [wide], 3.0))
    assert number == 3.0
    assert one.argument.pointer == other.argument.pointer != x.argument.pointer
    assert other.argument.shape == (4, 8, 8)
    # A part of it has a copy of its own, which is as large as it needs.
    part = timer._copy(0, buffers.DeviceTensor(x.argument._replace(shape=(1, 1))))
    assert part.argument.pointer != one.argument.pointer


def test_copies_end_where_memory_does(cuda: FakeDevice, scale: CompiledProgram) -> None:
    timer = DeviceTimer(check=False)
    x = timer.random((1000, 100), (100, 1), "float32", 16)
    cuda.left, cuda.launch_ms[:] = 1000, []
    assert len(timer.prepare(Kernel(scale), (x, 2.0))) == 1


def test_a_kernel_that_does_not_end(cuda: FakeDevice, scale: CompiledProgram) -> None:
    timer = DeviceTimer()
    cuda.hangs = True
    with pytest.raises(DeviceLostError, match=r"expected launches to end within 0\.05 s"):
        prepared(timer, scale)


def test_a_launch_that_fails(cuda: FakeDevice, scale: CompiledProgram) -> None:
    timer = DeviceTimer()
    cuda.fails = RuntimeError("cudaErrorInvalidValue")
    with pytest.raises(RuntimeError, match="InvalidValue") as caught:
        prepared(timer, scale)
    assert not isinstance(caught.value, DeviceLostError)
    cuda.dead = True
    with pytest.raises(DeviceLostError, match="RuntimeError: cudaErrorInvalidValue"):
        prepared(timer, scale)
    cuda.fails = None
    cuda.dead = False
    call = prepared(timer, scale)
    cuda.fails, cuda.dead = RuntimeError("cudaErrorIllegalAddress"), True
    with pytest.raises(DeviceLostError, match="IllegalAddress"):
        timer.time([call])


def scaling(by: float, only: int | None = None) -> Callable[..., None]:
    """What the kernel does, to all or to some of the first elements, with an error of `by`."""

    def effect(pointer: int, rows: int, columns: int, stride: int, factor: float) -> None:
        flat = (ctypes.c_float * (rows * stride)).from_address(pointer)
        values = np.frombuffer(flat, np.float32)[:only]
        values *= np.float32(factor * by)

    return effect


def test_a_schedule_that_computes_something_else(cuda: FakeDevice, scale: CompiledProgram) -> None:
    """In place: every run starts from what the first one found."""
    timer = DeviceTimer()
    x = timer.random((300, 8), (8, 1), "float32", 16)
    start = bytes_at(x).view(np.float32).copy()
    for by in (1.0, 1.0, 1.001):
        cuda.effect = scaling(by)
        timer.prepare(Kernel(scale), (x, 3.0))
        assert np.array_equal(bytes_at(x).view(np.float32), start * np.float32(3.0 * by))
    for effect in (scaling(1.1), scaling(np.nan), scaling(1.0, 2300), scaling(1.0, 0)):
        cuda.effect = effect
        with pytest.raises(ValueError, match=r"in 'x' as the first schedule gives, got "):
            timer.prepare(Kernel(scale), (x, 3.0))
        DeviceTimer(check=False).prepare(Kernel(scale), (x, 3.0))


@pytest.mark.parametrize("size", [1, 15, 1 << 16, 1 << 22, (1 << 22) + 2, (1 << 24) + 48, 1 << 29])
def test_parts_of_a_tensor(size: int) -> None:
    starts, length = outcomes._parts(size)
    assert starts[0] == 0
    assert starts[-1] + length == size
    assert starts == sorted(set(starts))
    assert len(starts) * length <= 1 << 22
    assert all(start % 16 == 0 for start in starts[:-1])
    assert size > 1 << 22 or starts == [0]


@pytest.mark.parametrize(
    ("dtype", "values", "first", "differs"),
    [
        ("float32", [1.0, np.nan, -np.inf], [1.0, np.nan, -np.inf], False),
        ("float32", [1.0, 100.5], [1.0, 100.0], False),
        ("float32", [1.0, 102.0], [1.0, 100.0], True),
        ("float16", [100.0, 101.5], [100.0, 100.0], False),
        ("float16", [np.nan, 1.0], [0.0, 1.0], True),
        ("float16", [0.0, 1.0], [np.nan, 1.0], True),
        ("float16", [np.inf, 1.0], [1.0, 1.0], True),
        ("float16", [0.0, 0.0], [0.0, 0.0], False),
        ("float8_e4m3fn", [16.0, 15.0], [16.0, 14.0], False),
        ("float8_e4m3fn", [16.0, 8.0], [16.0, 14.0], True),
        ("int32", [7, 8], [7, 9], False),
        ("int32", [7, 8], [7, 10], True),
    ],
)
def test_rounding_is_no_difference(
    dtype: str, values: list[float], first: list[float], differs: bool
) -> None:
    found = outcomes._difference(np.array(values, float), np.array(first, float), dtype)
    assert (found is not None) == differs


def test_machine_code_for_the_device(
    cuda: FakeDevice, scale: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, str]] = []

    def assembles(ptx: str, arch: str, spills: str) -> None:
        made.append((arch, spills))

    monkeypatch.setattr(timing, "assembled", assembles)
    timer = DeviceTimer()
    timer.assemble(Kernel(replace(scale, spills="warn")))
    # A cubin for sm_80 does not run there; one that spills does, where the program allows it.
    assert made == [("sm_90", "warn")]

    def refuses(ptx: str, arch: str, spills: str) -> None:
        raise CompileError("spills")

    monkeypatch.setattr(timing, "assembled", refuses)
    with pytest.raises(CompileError, match="spills"):
        timer.assemble(Kernel(scale))
    blackwell = CompiledProgram(
        "scale", "sm_100a", scale.ptx, scale.host, scale.signature, scale.schedule
    )
    with pytest.raises(RuntimeError, match=r"compute capability 10\.0 exactly"):
        timer.assemble(Kernel(blackwell))


def test_a_device_without_as_much_memory(cuda: FakeDevice) -> None:
    timer = DeviceTimer()
    cuda.left = 1 << 20
    with pytest.raises(OutOfMemoryError, match="expected cuMemAlloc to succeed") as caught:
        timer.random((1 << 20, 1 << 10), (1 << 10, 1), "float32", 16)
    assert isinstance(caught.value, MemoryError)


def test_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "find_driver", lambda: None)
    with pytest.raises(NoDeviceError, match="expected a CUDA device to time schedules on, got"):
        DeviceTimer()


def bytes_at(tensor: buffers.DeviceTensor) -> np.ndarray:
    argument = tensor.argument
    size = buffers.span_bytes(argument.shape, argument.strides, argument.dtype)
    raw = (ctypes.c_ubyte * size).from_address(argument.pointer)
    return np.frombuffer(raw, np.uint8)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "float16"])
def test_random_floats(cuda: FakeDevice, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_PATTERN_BYTES", 4096)
    tensor = buffers.random((100, 250), (256, 1), dtype, 16, driver(), 0)
    element = buffers.numpy_dtype(dtype)
    values = bytes_at(tensor).view(element).astype(np.float64)
    assert values.size == 99 * 256 + 250
    period = 4096 // element.itemsize
    assert np.array_equal(values[period : 2 * period], values[:period])
    assert abs(values.mean()) < 0.15
    assert 0.9 < values.std() < 1.1
    assert (tensor.argument.device, tensor.argument.dtype) == (0, dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "bool"])
def test_random_integers(cuda: FakeDevice, dtype: str) -> None:
    tensor = buffers.random((1000,), (1,), dtype, 16, driver(), 0)
    values = bytes_at(tensor).view(dtype).astype(np.int64)
    assert values.max() == (1 if dtype == "bool" else 7)
    assert values.min() == (-7 if dtype in ("int8", "int32") else 0)


@pytest.mark.parametrize("align", [1, 2, 4, 8, 16])
def test_random_numbers_have_the_alignment_asked_for(cuda: FakeDevice, align: int) -> None:
    pointer = buffers.random((8,), (1,), "int8", align, driver(), 0).argument.pointer
    assert pointer % align == 0
    assert align == 16 or pointer % (2 * align) != 0


def test_nothing_is_drawn_for_no_elements(cuda: FakeDevice) -> None:
    assert buffers.random((0, 8), (8, 1), "float16", 16, driver(), 0).shape == (0, 8)


def test_a_copy_keeps_strides_place_and_values(cuda: FakeDevice) -> None:
    whole = np.arange(4096, dtype=np.float32).astype(ml_dtypes.bfloat16)
    array = whole[3:].reshape(1, -1)[:, :4000].reshape(40, 100)[::2, 1:60]
    given = tensor_argument(array)
    assert given is not None
    tensor = buffers.copied(given, driver(), 0)
    argument = tensor.argument
    assert argument.pointer % 256 == given.pointer % 256
    assert argument.pointer != given.pointer
    assert (argument.shape, argument.strides) == ((20, 59), (200, 1))
    copy = np.lib.stride_tricks.as_strided(
        bytes_at(tensor).view(ml_dtypes.bfloat16), (20, 59), (400, 2)
    )
    assert np.array_equal(copy, array)
    assert tensor_argument(tensor) is argument


def test_views_are_those_of_numpy(cuda: FakeDevice) -> None:
    array = np.zeros((3, 1, 5), np.int8)
    tensor = buffers.random((3, 1, 5), (5, 5, 1), "int8", 16, driver(), 0)
    swapped = tensor.swapaxes(-1, -2).argument
    assert (swapped.shape, swapped.strides) == ((3, 5, 1), array.swapaxes(-1, -2).strides)
    wide = tensor.expand((2, 3, 4, 5)).argument
    like = np.broadcast_to(array, (2, 3, 4, 5))
    assert (wide.shape, wide.strides) == (like.shape, like.strides)
    one = buffers.random((1, 1), (1, 1), "float32", 16, driver(), 0).reshape(1).argument
    assert (one.shape, one.strides) == ((1,), (1,))
    rows = tensor.reshape(-1, 5).argument
    assert (rows.shape, rows.strides) == ((3, 5), array.reshape(-1, 5).strides)
    with pytest.raises(ValueError, match="expected a shape of 15 elements"):
        tensor.reshape(-1, 4)
    assert wide.pointer == swapped.pointer == rows.pointer == tensor.argument.pointer
