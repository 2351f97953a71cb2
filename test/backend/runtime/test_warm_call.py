"""Calls of the library on device arrays: the first one checks, plans and packs, those that look
like it move addresses. The driver is a stand-in, so what counts is which addresses a kernel gets.
"""

from __future__ import annotations

import gc
import random
import sys
import threading
import weakref
from collections.abc import Callable
from importlib import import_module
from itertools import cycle
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.frontend import launch as launch_module

attention_module = import_module("cutedialect.frontend.attention")
gemm_module = import_module("cutedialect.frontend.gemm")

ARCH = "sm_80"


class Vector:
    """CuPy's view methods on made-up memory."""

    __module__ = "cupy"
    data: Any = None

    def __init__(self, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...] = ()) -> None:
        steps = tuple(4 * int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        self.data = SimpleNamespace(ptr=pointer, device_id=0)
        self.shape, self.strides = shape, strides or steps
        self.dtype = np.dtype("float32")

    def swapaxes(self, one: int, other: int) -> Vector:
        shape, strides = list(self.shape), list(self.strides)
        for leaves in (shape, strides):
            leaves[one], leaves[other] = leaves[other], leaves[one]
        return Vector(self.data.ptr, tuple(shape), tuple(strides))


def matrix(pointer: int, rows: int = 16, columns: int = 16) -> Vector:
    return Vector(pointer, (rows, columns))


def addresses(cuda: Any) -> list[int]:
    """The pointers among the arguments of the last launch, in order."""
    data = [each for each in cuda.launches[-1]["bytes"] if len(each) == 8]
    return [value for each in data if (value := int.from_bytes(each, "little")) >= 0x10000]


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each full launch of a kernel."""
    full: list[int] = []
    launch = Kernel.launch

    def counted(self: Kernel, *args: Any, **options: Any) -> None:
        full.append(len(args))
        launch(self, *args, **options)

    monkeypatch.setattr(Kernel, "launch", counted)
    # Kernels of another test are loaded on its machine.
    monkeypatch.setattr(launch_module, "_kernels", {})
    cute.attention.forget()  # type: ignore[attr-defined]
    cute.gemm.forget()  # type: ignore[attr-defined]
    return full


def test_other_arrays_that_look_the_same_move_addresses_only(cuda: Any, checked: list[int]) -> None:
    rng = random.Random(0)
    for _ in range(6):
        a, b, out = (0x10000 * each for each in rng.sample(range(1, 99), 3))
        assert cute.gemm(matrix(a), matrix(b), out=(o := matrix(out)), arch=ARCH) is o
        assert addresses(cuda) == [a, b, out]
        assert cuda.launches[-1]["stream"] == 77
    assert len(checked) == 1


def test_every_array_of_a_call_finds_its_place(cuda: Any, checked: list[int]) -> None:
    rng = random.Random(1)
    for _ in range(4):
        a, b, c, bias, out, aux = (0x10000 * each for each in rng.sample(range(1, 99), 6))
        cute.gemm(
            matrix(a), matrix(b), c=matrix(c), alpha=2.0, beta=0.5,
            bias=Vector(bias, (16,)), out=matrix(out), aux=matrix(aux), arch=ARCH,
        )  # fmt: skip
        assert addresses(cuda) == [a, b, c, bias, out, aux]
    assert len(checked) == 1


def test_numbers_are_those_of_the_call(cuda: Any, checked: list[int]) -> None:
    for alpha in (1.5, 2.5, -0.0, 0.0, 1.5):
        cute.gemm(matrix(0x10000), matrix(0x20000), alpha=alpha, out=matrix(0x30000), arch=ARCH)
        assert np.float32(alpha).tobytes() in cuda.launches[-1]["bytes"]
    assert len(checked) == 1


def test_a_stream_is_taken_each_time(cuda: Any, checked: list[int]) -> None:
    for stream in (None, 5, SimpleNamespace(ptr=6), None):
        cute.gemm(matrix(0x10000), matrix(0x20000), out=matrix(0x30000), arch=ARCH, stream=stream)
    assert [launch["stream"] for launch in cuda.launches] == [77, 5, 6, 77]
    assert len(checked) == 1


def test_an_output_on_another_array_is_still_refused(cuda: Any, checked: list[int]) -> None:
    def call(out: int) -> None:
        cute.gemm(matrix(0x10000), matrix(0x20000), out=matrix(out), arch=ARCH)

    call(0x30000)
    size = 16 * 16 * 4
    for out in (0x10000, 0x20000 + size - 16, 0x20000 - size + 16):
        with pytest.raises(ValueError, match="out: expected memory of its own"):
            call(out)
    for out in (0x20000 + size, 0x20000 - size):
        call(out)
        assert addresses(cuda)[-1] == out
    assert len(cuda.launches) == 3


def test_the_output_may_be_c_itself_and_no_other_part_of_it(cuda: Any, checked: list[int]) -> None:
    def call(c: int, out: int) -> None:
        cute.gemm(
            matrix(0x10000), matrix(0x20000), c=matrix(c), beta=1.0, out=matrix(out), arch=ARCH
        )

    for c, out in ((0x30000, 0x40000), (0x50000, 0x50000), (0x60000, 0x60000)):
        call(c, out)
        assert addresses(cuda)[2:] == [c, out]
    assert len(checked) == 1
    with pytest.raises(ValueError, match="out: expected"):
        call(0x30000, 0x30000 + 64)


def test_arrays_that_look_different_are_checked_anew(cuda: Any, checked: list[int]) -> None:
    for rows in (16, 32, 16):
        cute.gemm(matrix(0x10000, rows), matrix(0x20000), out=matrix(0x30000, rows), arch=ARCH)
    assert len(checked) == 2
    cute.gemm(matrix(0x10004), matrix(0x20000), out=matrix(0x30000), arch=ARCH)
    assert len(checked) == 3


def test_torch_makes_the_output_and_hears_of_the_write(
    cuda: Any, checked: list[int], torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def empty(shape: tuple[int, ...], *, dtype: str, device: Any) -> Any:
        made.append(torch.Tensor(0x100000 * (1 + len(made)), shape, "float32", 0))
        return made[-1]

    torch.float32, torch.empty = "torch.float32", empty
    for number in range(3):
        a, b = (torch.Tensor(0x10000 * (each + number), (16, 16), "float32", 0) for each in (1, 5))
        result = cute.gemm(a, b, arch=ARCH)
        assert result is made[number]
        assert result.version == 1
        assert (a.version, b.version) == (0, 0)
        assert addresses(cuda) == [a.pointer, b.pointer, result.pointer]
        assert cuda.launches[-1]["stream"] == 123
    assert len(checked) == 1


def test_attention_moves_addresses_too(cuda: Any, checked: list[int], torch: Any) -> None:
    made: list[Any] = []

    def empty(shape: tuple[int, ...], *, dtype: str, device: Any) -> Any:
        made.append(torch.Tensor(0x900000 + 0x10000 * len(made), shape, dtype, 0))
        return made[-1]

    torch.float16, torch.float32, torch.empty = "float16", "float32", empty
    shape = (1, 2, 64, 64)
    for number in range(3):
        q, k, v = (
            torch.Tensor(0x10000 * each + 0x100000 * number, shape, "float16", 0)
            for each in (1, 2, 3)
        )
        out = cute.attention(q, k, v, arch=ARCH)
        assert addresses(cuda)[:4] == [q.pointer, k.pointer, v.pointer, out.pointer]
    assert len(checked) == 1
    # One array in several places may be several arrays in the next call.
    for places in ((1, 1, 1), (2, 2, 2), (1, 2, 3), (1, 2, 2), (3, 3, 1)):
        q, k, v = (
            torch.Tensor(0x500000 + 0x10000 * each, (1, 2, 128, 64), "float16", 0)
            for each in places
        )
        out = cute.attention(q, k, v, arch=ARCH)
        assert addresses(cuda)[:4] == [q.pointer, k.pointer, v.pointer, out.pointer]
    assert len(checked) == 2


def test_places_cover_all_arrays_of_a_call() -> None:
    assert len(gemm_module.ARRAYS) == gemm_module._AUX + 1
    assert gemm_module.ARRAYS[gemm_module._OUT] == "out"


def steps(call: Callable[[], object]) -> int:
    """The calls of functions of this package in one warm call: host time without a clock."""
    package = str(Path(cute.__file__).parent)
    found = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal found
        found += event == "call" and frame.f_code.co_filename.startswith(package)

    for _ in range(3):
        call()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def test_a_warm_call_takes_few_steps(cuda: Any, checked: list[int]) -> None:
    a, b, out = (matrix(0x10000 * each) for each in (1, 2, 3))
    kernel = cute.compile(cute.gemm, a, b, arch=ARCH)
    prepared = kernel.prepare(a, b, out, 1.0)
    assert prepared is not None
    outs = cycle([out, matrix(0x40000)])
    # Repeat, the current stream, the template, the packet.
    assert steps(prepared.repeat) <= 4
    # Beside these the entry, and the look at each of three arrays.
    assert steps(lambda: kernel.launch(a, b, next(outs), 1.0)) <= 7
    assert steps(lambda: cute.gemm(a, b, out=next(outs), arch=ARCH)) <= 7


def test_calls_on_other_shapes_in_turn_take_few_steps(cuda: Any, checked: list[int]) -> None:
    outs = {rows: matrix(0x30000, rows) for rows in range(8, 48, 4)}
    inputs = {rows: matrix(0x10000, rows) for rows in outs}
    b, rows = matrix(0x20000), cycle(outs)

    def call() -> None:
        now = next(rows)
        cute.gemm(inputs[now], b, out=outs[now], arch=ARCH)

    for _ in range(2 * len(outs)):
        call()
    assert steps(call) <= 7
    assert len(checked) == len(outs)


def test_many_layouts_of_one_shape_are_not_made_anew_each_time(
    cuda: Any, checked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    real = gemm_module.ReadyCall.repeat_of

    def counted(self: Any, *args: Any) -> Any:
        made.append(1)
        return real(self, *args)

    monkeypatch.setattr(gemm_module.ReadyCall, "repeat_of", counted)
    layouts = [Vector(0x10000, (16, 16), (64 + 16 * each, 4)) for each in range(12)]
    b, out = matrix(0x20000), matrix(0x30000)
    for each in layouts * 20:
        cute.gemm(each, b, out=out, arch=ARCH)
        assert addresses(cuda) == [0x10000, 0x20000, 0x30000]
    assert len(checked) == len(layouts)
    assert len(made) <= 2 * len(layouts)


def test_no_call_keeps_its_arrays(cuda: Any, checked: list[int]) -> None:
    kernel = cute.compile(cute.gemm, matrix(0x10000), matrix(0x20000), arch=ARCH)

    def calls() -> list[weakref.ref[Vector]]:
        a, b, out = (matrix(0x10000 * each) for each in (1, 2, 3))
        for _ in range(3):
            cute.gemm(a, b, out=out, arch=ARCH)
            kernel.launch(a, b, out, 1.0)
        return [weakref.ref(each) for each in (a, b, out)]

    left = calls()
    gc.collect()
    assert [each() for each in left] == [None] * 3


def with_contexts_of_threads(cuda: Any) -> int:
    """Make the driver know the context of each thread; returns the one that they begin with."""
    first, local = cuda.context, threading.local()

    class Threaded(type(cuda)):
        @property
        def context(self) -> int:
            return getattr(local, "context", first)

        @context.setter
        def context(self, value: int) -> None:
            local.context = value

        @property
        def _pushed(self) -> list[int]:
            return local.__dict__.setdefault("pushed", [])

    cuda.__class__ = Threaded
    return first


@pytest.mark.parametrize("seed", range(2))
def test_threads_and_devices_keep_apart(seed: int, cuda: Any, checked: list[int]) -> None:
    """Each launch has the arrays, the stream and the device of one call, whoever else calls."""
    context = with_contexts_of_threads(cuda)
    calls: set[tuple[Any, ...]] = set()
    failures: list[BaseException] = []
    interval = sys.getswitchinterval()

    def work(number: int) -> None:
        rng = random.Random(100 * seed + number)
        try:
            for call in range(40):
                device, rows = rng.randrange(2), rng.choice((8, 16, 24))
                first = 0x1000000 * (1 + number) + 0x10000 * (3 * call)
                a, b, out = (
                    matrix(first + 0x10000 * each, rows if each != 1 else 16) for each in range(3)
                )
                for each in (a, b, out):
                    each.data.device_id = device
                stream = rng.choice((3, 5)) + 16 * number
                # No other thread has this stream, address or place in the record.
                calls.add((a.data.ptr, b.data.ptr, out.data.ptr, stream, device))
                cute.gemm(a, b, out=out, arch=ARCH, stream=stream)
                assert cuda.context == context
        except BaseException as error:
            failures.append(error)

    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    seen = set()
    for launch in cuda.launches:
        data = [int.from_bytes(each, "little") for each in launch["bytes"] if len(each) == 8]
        pointers = [each for each in data if each >= 0x10000]
        seen.add((*pointers, launch["stream"], launch["device"]))
    assert seen == calls
