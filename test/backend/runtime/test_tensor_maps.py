"""Tensor maps: what the host part asks for, what the driver is told (a stand-in with the signature
of cuda.h that records every argument), and what is refused before the driver is called.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cutedialect.backend.runtime import driver as driver_module
from cutedialect.backend.runtime import tensor_maps
from cutedialect.backend.runtime.driver import use_library
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.host import find_host, host_source, load
from cutedialect.backend.runtime.kept import Kept
from cutedialect.backend.runtime.tensor_maps import TensorMapArgument, emulated, encoded

Parse = Callable[[str], object]

_U32, _ADDRESS = ctypes.c_uint32, ctypes.c_void_p
_ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    _ADDRESS, _U32, _U32, _ADDRESS,
    ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(_U32), ctypes.POINTER(_U32),
    _U32, _U32, _U32, _U32,
)  # fmt: skip


class FakeDriver:
    """`cuTensorMapEncodeTiled`: each map that it writes is 128 bytes of the number of the call."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.answers: list[int] = []
        self.cuTensorMapEncodeTiled = _ENCODE(self._encode)
        self.cuInit = lambda flags: 0

    def _encode(
        self,
        out: int,
        dtype: int,
        rank: int,
        address: int | None,
        dims: Any,
        strides: Any,
        box: Any,
        steps: Any,
        interleave: int,
        swizzle: int,
        promotion: int,
        fill: int,
    ) -> int:
        self.calls.append(
            {
                "aligned": out % 64 == 0,
                "dtype": dtype,
                "address": address,
                "dims": tuple(dims[:rank]),
                "strides": tuple(strides[: rank - 1]),
                "box": tuple(box[:rank]),
                "steps": tuple(steps[:rank]),
                "modes": (interleave, swizzle, promotion, fill),
            }
        )
        ctypes.memset(out, len(self.calls), 128)
        return self.answers.pop(0) if self.answers else 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    fake = FakeDriver()
    monkeypatch.setattr(tensor_maps, "_encoded", Kept(4096))
    use_library(fake)
    yield fake
    use_library(None)


ROWS = TensorMapArgument("A", "f16", (128, 64), (3, 4, 3), (512, 256), (264, 1), 0x7F0000001000)


def host_of(parse: Parse, memref: str, box: str, rest: str = "") -> str:
    """The host source of a launch with one tensor map and the multiprocessor count."""
    element = memref.partition("<")[2].partition(",")[0]
    made = f"!cute_nvgpu.tma_descriptor<{element}, {box}>"
    return host_source(
        find_host(
            parse(
                f"""
func.func @launch(%A: {memref}) {{
  %one = arith.constant 1 : i32
  %sms = cute.sm_count : i32
  %t = cute_nvgpu.make_tma_descriptor %A : {memref} -> {made}
  cute.launch @k grid(%sms, %one, %one) {rest} args(%t) {{threads = 32 : i32}} : {made}
  func.return
}}"""
            )
        )
    )


def test_the_driver_is_told_every_field(driver: FakeDriver) -> None:
    found = encoded(ROWS)
    assert driver.calls == [
        {
            "aligned": True,
            "dtype": 6,
            "address": 0x7F0000001000,
            "dims": (256, 512),
            "strides": (528,),
            "box": (64, 128),
            "steps": (1, 1),
            "modes": (0, 3, 2, 0),
        }
    ]
    assert found.shape == (1,)
    assert found.tobytes() == b"\x01" * 128


@pytest.mark.parametrize(
    ("element", "code"),
    [
        ("ui8", 0), ("i8", 0), ("f8E4M3FN", 0), ("f8E5M2", 0), ("ui16", 1), ("ui32", 2), ("i32", 3),
        ("ui64", 4), ("si64", 5), ("f16", 6), ("f32", 7), ("f64", 8), ("bf16", 9), ("tf32", 11),
    ],
)  # fmt: skip
def test_element_types(driver: FakeDriver, element: str, code: int) -> None:
    encoded(ROWS._replace(element=element, box=(8, 16), swizzle=None, strides=(272, 1)))
    assert driver.calls[0]["dtype"] == code
    assert driver.calls[0]["modes"][1] == 0


def test_one_to_five_dimensions(driver: FakeDriver) -> None:
    strides = (1 << 20, 1 << 16, 1 << 12, 1 << 8, 1)
    for rank in range(1, 6):
        encoded(
            ROWS._replace(
                shape=(3, 5, 7, 9, 96)[-rank:],
                strides=strides[-rank:],
                box=(1, 2, 4, 8, 16)[-rank:],
            )
        )
        call = driver.calls[-1]
        assert call["dims"] == (96, 9, 7, 5, 3)[:rank]
        assert call["strides"] == tuple(2 << 8 + 4 * i for i in range(rank - 1))
        assert call["box"] == (16, 8, 4, 2, 1)[:rank]


def test_equal_maps_are_encoded_once(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    first = encoded(ROWS)
    assert encoded(ROWS._replace()) is first
    others = [
        ROWS._replace(pointer=0x7F0000002000),
        ROWS._replace(shape=(511, 256)),
        ROWS._replace(strides=(256, 1)),
        ROWS._replace(box=(64, 64)),
        ROWS._replace(swizzle=None),
        ROWS._replace(element="bf16"),
    ]
    assert len({encoded(other).tobytes() for other in others}) == len(others)
    assert len(driver.calls) == 1 + len(others)
    monkeypatch.setattr(tensor_maps, "_encoded", Kept(4))
    for pointer in range(0x1000, 0x3000, 0x100):
        encoded(ROWS._replace(pointer=pointer))
        assert len(tensor_maps._encoded) <= 4


def test_a_tensor_without_elements_has_a_map(driver: FakeDriver) -> None:
    encoded(ROWS._replace(shape=(512, 0), strides=(0, 1), pointer=0))
    call = driver.calls[0]
    assert (call["dims"], call["strides"]) == ((1, 512), (0,))
    assert call["address"] is not None
    assert call["address"] % 128 == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pointer": 0x1008}, "A: expected a global address that is a multiple of 16 bytes, got"),
        ({"strides": (260, 1)}, "A: expected a stride of dimension 1 that is a multiple of 16"),
        ({"strides": (1 << 40, 1)}, "A: expected a stride of dimension 1 below 2"),
        ({"box": (128, 128)}, "A: expected box extent 0 of at most 128 bytes"),
        ({"box": (257, 64)}, "A: expected box extent 1 of 1 to 256 elements, got 257"),
        ({"box": (8, 4)}, "A: expected box extent 0 times the element size to be a multiple of 16"),
        ({"element": "f128"}, "A: expected an element type of a tensor map, got f128"),
    ],
)
def test_rules_are_checked_before_the_driver(
    driver: FakeDriver, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(said)):
        encoded(ROWS._replace(**change))
    assert driver.calls == []


def test_a_driver_that_refuses(driver: FakeDriver) -> None:
    driver.answers = [1]
    with pytest.raises(RuntimeError, match=r"encode TensorMap.*got CUDA_ERROR_INVALID_VALUE \(1\)"):
        encoded(ROWS)
    assert encoded(ROWS).tobytes() == b"\x02" * 128


def test_no_driver_and_an_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(tensor_maps, "_encoded", Kept(4096))
    monkeypatch.setattr(driver_module.ctypes, "CDLL", missing)
    use_library(None)
    with pytest.raises(RuntimeError, match=r"expected a CUDA device and its driver .* got none"):
        encoded(ROWS)
    use_library(SimpleNamespace(cuInit=lambda flags: 0))
    with pytest.raises(RuntimeError, match=r"expected a CUDA driver of version 12\.0 or later"):
        encoded(ROWS)
    use_library(None)


@pytest.mark.parametrize(
    ("memref", "box", "shape", "strides", "expected"),
    [
        # the contiguous mode goes last, whichever it is
        ('f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"', "(128,64), S<3,4,3>",
         (512, 256), (264, 1), ((128, 64), (3, 4, 3), (512, 256), (264, 1))),
        ('f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"', "(64,128)",
         (512, 256), (1, 520), ((128, 64), None, (256, 512), (520, 1))),
        # the others keep their order, and what the type fixes need not arrive
        ('f32, gmem, align<16>, "(?,8,?):(?{i64 div=4},1,?{i64 div=4})"', "(1,8,16), S<1,4,3>",
         (3, 8, 5), (800, 1, 16), ((1, 16, 8), (1, 4, 3), (3, 5, 8), (800, 16, 1))),
        # a row that arrives contiguous in both modes is laid out as the kernel expects
        ('f16, gmem, align<16>, "(?,?):(1,?)"', "(8,1)",
         (1, 8), (1, 1), ((1, 8), None, (8, 1), (1, 1))),
    ],
)  # fmt: skip
def test_the_host_part_describes_the_map(
    parse_module: Parse,
    memref: str,
    box: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    expected: tuple[Any, ...],
) -> None:
    plan = load(host_of(parse_module, f"!cute.memref<{memref}>", box))
    assert plan.types == {"k": ("tensor_map",)}
    (launch,) = plan.run((("pointer", shape, strides),), 132)
    (found,) = launch.arguments
    element = memref.partition(",")[0]
    assert found == ("A", element, *expected, "pointer", None, None)
    assert launch.grid == (132, 1, 1)


def test_maps_of_nested_modes_are_refused(parse_module: Parse) -> None:
    memref = '!cute.memref<f16, gmem, align<16>, "((4,?),8):((8,64),1)">'
    with pytest.raises(CompileError, match="one leaf in each mode") as caught:
        host_of(parse_module, memref, "(16,8)")
    assert caught.value.code == "CD-HOST"


def test_clusters_divide_the_grid(parse_module: Parse) -> None:
    memref = '!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">'
    plan = load(host_of(parse_module, memref, "(8,8)", "cluster(2, 1, 1)"))
    assert plan.clusters == {"k": (2, 1, 1)}
    arguments = ((0x1000, (8, 8), (8, 1)),)
    (launch,) = plan.run(arguments, 4)
    assert (launch.grid, launch.cluster) == ((4, 1, 1), (2, 1, 1))
    with pytest.raises(ValueError, match=r"whole clusters \(2, 1, 1\) for kernel 'k', got \(5, 1"):
        plan.run(arguments, 5)


def test_one_cluster_for_each_kernel(parse_module: Parse) -> None:
    module = parse_module(
        """
func.func @launch() {
  %n = arith.constant 4 : i32
  cute.launch @k grid(%n, %n, %n) cluster(2, 1, 1) args() {threads = 32 : i32}
  cute.launch @k grid(%n, %n, %n) cluster(1, 2, 1) args() {threads = 32 : i32}
  func.return
}"""
    )
    with pytest.raises(CompileError, match=r"have one cluster, got \(2, 1, 1\) and \(1, 2, 1\)"):
        host_source(find_host(module))


def test_what_the_emulator_gets() -> None:
    array = np.zeros((512, 264), np.float16)[:, :256]
    found = emulated(ROWS._replace(pointer=array))
    assert found.pop("array") is array
    assert found == {
        "dtype": "f16",
        "dims": (256, 512),
        "strides": (528,),
        "box": (64, 128),
        "element_strides": (1, 1),
        "swizzle": "128B",
        "interleave": "none",
        "oob_fill": "zero",
    }
    empty = np.zeros((512, 0), ml_dtypes.bfloat16)
    found = emulated(ROWS._replace(element="bf16", shape=(512, 0), strides=(0, 1), pointer=empty))
    assert (found["dims"], found["array"].shape) == ((1, 1), (1, 1))
