"""Arrays from any library, the checks on them, and the bytes that a kernel gets."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cutedialect.backend.runtime.arguments import ArgumentChecker, packers, scalar
from cutedialect.backend.runtime.arrays import TensorArgument, tensor_argument
from cutedialect.backend.runtime.signature import ScalarParameter, Signature, TensorParameter

MATRIX = TensorParameter("A", "f32", 16, (None, None), (None, 1), (1, 1), (4, 1))


def aligned(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """Zeros at a multiple of 256 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 256, np.uint8)
    start = -raw.ctypes.data % 256
    return raw[start : start + size].view(dtype).reshape(shape)


def bind(parameter: TensorParameter, value: Any) -> TensorArgument:
    (bound,) = ArgumentChecker(Signature((parameter,))).bind([value])
    return bound


def test_numpy_views_keep_their_strides() -> None:
    array = aligned((6, 8))
    found = tensor_argument(array[1:3, ::2])
    assert found is not None
    assert (found.pointer, found.shape, found.strides) == (array.ctypes.data + 32, (2, 4), (8, 2))
    assert (found.dtype, found.device) == ("float32", None)
    bound = bind(MATRIX, array[2:4])
    assert (bound.pointer, bound.strides) == (array.ctypes.data + 64, (8, 1))


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        ([1, 2], TypeError, "A: expected an array .*, got list"),
        (aligned((4, 4), np.float64), TypeError, "A: expected dtype float32, got float64"),
        (aligned((4,)), ValueError, r"A: expected 2 dimensions, got 1 of shape \(4,\)"),
        (aligned((8, 4)).T, ValueError, r"A: expected stride 1 \(contiguous\) in dimension 1"),
        (
            aligned((4, 6)),
            ValueError,
            "A: expected a stride divisible by 4 elements in dimension 0",
        ),
        (aligned((4, 8))[:, 1:5], ValueError, "A: expected memory aligned to 16 bytes"),
        (np.broadcast_to(aligned((1, 8)), (4, 8)), ValueError, "A: expected an array whose elem"),
    ],
)
def test_wrong_tensors_are_named(value: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        bind(MATRIX, value)


def test_strides_below_zero_are_refused_where_tma_copies() -> None:
    value = aligned((4, 8))[::-1]
    assert bind(MATRIX, value).strides == (-8, 1)
    with pytest.raises(ValueError, match=r"A: expected strides of zero or more, .* by TMA"):
        bind(replace(MATRIX, mapped=True), value)


def test_strides_that_are_no_whole_elements() -> None:
    odd = np.lib.stride_tricks.as_strided(aligned((8, 8)), (2, 2), (6, 4))
    with pytest.raises(ValueError, match="A: expected strides that are multiples"):
        bind(MATRIX, odd)


def test_fixed_and_divisible_extents() -> None:
    parameter = TensorParameter("B", "f32", 4, (None, 8), (8, 1), (4, 1))
    assert bind(parameter, aligned((12, 8))).shape == (12, 8)
    with pytest.raises(ValueError, match="B: expected extent 8 in dimension 1, got shape"):
        bind(parameter, aligned((12, 4)))
    with pytest.raises(ValueError, match="B: expected an extent divisible by 4 in dimension 0"):
        bind(parameter, aligned((10, 8)))
    with pytest.raises(ValueError, match="B: expected stride 8 in dimension 0"):
        bind(parameter, aligned((12, 16))[:, :8])


def test_a_mode_of_one_element_has_no_stride() -> None:
    assert bind(MATRIX, aligned((1, 6))).strides == (0, 1)
    assert bind(MATRIX, aligned((4, 4))[:, :1]).strides == (4, 1)
    assert bind(MATRIX, aligned((7, 1))[:1]).strides == (0, 1)


def test_empty_arrays_pass() -> None:
    assert bind(MATRIX, aligned((0, 5))).shape == (0, 5)
    assert bind(MATRIX, aligned((5, 0))).strides == (0, 1)


def test_read_only_and_broadcast_inputs() -> None:
    inputs = TensorParameter("A", "f32", 16, (None, None), (None, 1), (1, 1), (4, 1), written=False)
    array = aligned((1, 8))
    array.flags.writeable = False
    wide = np.broadcast_to(array, (4, 8))
    assert bind(inputs, wide).strides == (0, 1)
    with pytest.raises(ValueError, match="A: expected a writable array"):
        bind(MATRIX, array)


def test_extents_stay_below_two_to_the_31() -> None:
    huge = np.lib.stride_tricks.as_strided(aligned((1,)), (2**31,), (0,))
    parameter = TensorParameter("x", "f32", 4, (None,), (None,), written=False)
    with pytest.raises(ValueError, match=re.escape("x: expected extents below 2**31")):
        bind(parameter, huge)


def test_the_count_shows_the_signature() -> None:
    checker = ArgumentChecker(Signature((MATRIX, ScalarParameter("alpha", "f32"))))
    with pytest.raises(TypeError, match=r"expected 2 arguments \(A: f32, .*alpha: f32\), got 1"):
        checker.bind([aligned((4, 4))])


def test_a_checked_tensor_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from cutedialect.backend.runtime import arguments

    checker = ArgumentChecker(Signature((MATRIX,)))
    array = aligned((8, 8))
    checker.bind([array])
    monkeypatch.setattr(arguments, "check_tensor", lambda *_: pytest.fail("checked again"))
    checker.bind([array])
    monkeypatch.undo()
    with pytest.raises(ValueError, match="aligned"):
        checker.bind([aligned((9, 8)).reshape(-1)[1:65].reshape(8, 8)])


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("i32", 7, 7),
        ("i32", np.int64(-7), -7),
        ("i32", 2**31 - 1, 2**31 - 1),
        ("ui8", 255, -1),
        ("si8", -128, -128),
        ("i64", -(2**63), -(2**63)),
        ("index", 5, 5),
        ("i1", True, 1),
        ("i1", np.bool_(False), 0),
        ("f32", 1, 1.0),
        ("f16", np.float32(0.5), 0.5),
        ("bf16", ml_dtypes.bfloat16(2), 2.0),
    ],
)
def test_scalars(type_: str, value: Any, expected: float) -> None:
    assert scalar(ScalarParameter("s", type_), value) == expected


@pytest.mark.parametrize(
    ("type_", "value", "error", "said"),
    [
        ("i32", 1.5, TypeError, r"s: expected an int \(i32\), got float"),
        ("i32", True, TypeError, "s: expected an int .*, got bool"),
        ("i32", 2**31, ValueError, "s: expected an i32 in .*, got 2147483648"),
        ("si8", 128, ValueError, "s: expected an si8 in -128..127, got 128"),
        ("ui8", -1, ValueError, "s: expected an ui8 in 0..255, got -1"),
        ("i1", 1, TypeError, "s: expected a bool, got int"),
        ("f32", "1", TypeError, r"s: expected a number \(f32\), got str"),
        ("f32", True, TypeError, "s: expected a number .*, got bool"),
        ("f32", np.zeros(3), TypeError, "s: expected a number .*, got ndarray"),
    ],
)
def test_wrong_scalars_are_named(type_: str, value: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        scalar(ScalarParameter("s", type_), value)


@pytest.mark.parametrize(
    ("type_", "size", "value", "raw"),
    [
        ("ptr", 8, 0x123456789A, "9a78563412000000"),
        ("i32", 4, -2, "feffffff"),
        ("i64", 8, -2, "feffffffffffffff"),
        ("f32", 4, 1.5, "0000c03f"),
        ("f64", 8, 1.5, "000000000000f83f"),
        ("f16", 2, 1.5, "003e"),
        ("bf16", 2, 1.5, "c03f"),
        ("bf16", 4, 1.5, "c03f0000"),
        ("i8", 1, -1, "ff"),
        ("i8", 2, -1, "ffff"),
        ("i1", 4, 1, "01000000"),
        ("i32", 8, -2, "feffffffffffffff"),
    ],
)
def test_packed_bytes(type_: str, size: int, value: Any, raw: str) -> None:
    (pack,) = packers([type_], [size])
    packed = pack(value)
    assert isinstance(packed, np.generic)
    assert packed.tobytes().hex() == raw


class Exported:
    """An array of another library, by DLPack alone."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] | None = None) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device or self.array.__dlpack_device__()


def test_dlpack_in_host_memory_shares_memory() -> None:
    array = np.arange(24, dtype=np.int16).reshape(4, 6)
    found = tensor_argument(Exported(array[:, ::2]))
    assert found is not None
    assert (found.pointer, found.shape, found.strides) == (array.ctypes.data, (4, 3), (6, 2))
    assert found.dtype == "int16"
    assert found.array is not None
    found.array[1, 1] = 99
    assert array[1, 2] == 99


def test_dlpack_on_a_device_is_read_without_its_library() -> None:
    found = tensor_argument(Exported(aligned((4, 4)), (2, 1)))
    assert found is not None
    assert (found.device, found.array, found.dtype) == (1, None, "float32")
    with pytest.raises(ValueError, match="DLPack device type 10"):
        tensor_argument(Exported(aligned((4, 4)), (10, 0)))


def test_torch_tensors_on_both_sides(torch: Any) -> None:
    array = aligned((4, 8), ml_dtypes.bfloat16)
    tensor = torch.Tensor(array.ctypes.data, (4, 8), "bfloat16", None)
    on_host = tensor_argument(tensor)
    assert on_host is not None
    assert on_host.array is not None
    on_host.array[2, 3] = 5
    assert array[2, 3] == 5
    on_device = tensor_argument(torch.Tensor(0x1000, (4, 8), "bfloat16", 3))
    assert on_device is not None
    assert (on_device.device, on_device.dtype, on_device.strides) == (3, "bfloat16", (8, 1))
    tensor.device = tensor.device._replace(type="mps")
    with pytest.raises(ValueError, match="expected a tensor on a CUDA device or in host memory"):
        tensor_argument(tensor)


def test_read_only_dlpack_stays_read_only() -> None:
    class Frozen:
        def __dlpack__(self, **options: Any) -> Any:
            return array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return array.__dlpack_device__()

    array = aligned((4, 4))
    array.flags.writeable = False
    found = tensor_argument(Frozen())
    assert found is not None
    assert not found.writeable
    assert found.array is not None
    assert not found.array.flags.writeable


def test_what_a_library_does_not_hand_out_is_refused_in_its_words() -> None:
    class Sealed:
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("requires gradient")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    with pytest.raises(ValueError, match="its library hands out, got: requires gradient"):
        tensor_argument(Sealed())


def test_what_is_no_array() -> None:
    assert tensor_argument(3) is None
    assert tensor_argument("text") is None
    assert tensor_argument([1.0]) is None
