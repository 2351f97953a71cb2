"""Arrays that a library hands out by a protocol of exchange, and that are nothing else: calls take
them where they need other views of them, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import exchange
from cutedialect.frontend.gemm_operands import expanded, transposed


class Handed:
    """An array by DLPack alone, on a device where one is named."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] | None = None) -> None:
        self._array, self._device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device or self._array.__dlpack_device__()


class Exported:
    """An array by `__cuda_array_interface__` alone."""

    def __init__(self, array: np.ndarray, stream: int) -> None:
        interface = dict(array.__array_interface__)
        self.__cuda_array_interface__ = interface | {"stream": stream, "version": 3}


def whole(*shape: int, dtype: Any = np.float16) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-1, 2, shape).astype(dtype)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_product_that_is_computed_turned(arch: Any) -> None:
    """Of 96 x 80 the default for sm_90a computes the transposed product."""
    a, b, bias, scale = whole(96, 64), whole(64, 80), whole(80), np.full(1, 0.5, np.float32)
    out = np.zeros((96, 80), np.float16)
    made = cute.gemm(Handed(a), Handed(b), out=Handed(out), arch=arch, backend="emulator")
    assert isinstance(made, Handed)
    np.testing.assert_array_equal(out, a @ b)
    cute.gemm(
        Handed(a), Handed(b), out=out, bias=Handed(bias), scale_a=Handed(scale), arch=arch,
        backend="emulator",
    )  # fmt: skip
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b * 0.5 + bias).astype(np.float16))


def test_batches_that_broadcast() -> None:
    a, b, out = whole(3, 32, 64), whole(64, 48), np.zeros((3, 32, 48), np.float16)
    cute.gemm(Handed(a), Handed(b), out=Handed(out), arch="sm_80", backend="emulator")
    np.testing.assert_array_equal(out, a @ b)


def test_heads_that_share_keys() -> None:
    q, k, v = (whole(1, heads, 64, 64) for heads in (4, 2, 2))
    out, wanted = np.zeros_like(q), np.zeros_like(q)
    for _ in range(2):  # the second call is one that is made again
        cute.attention(
            Handed(q), Handed(k), Handed(v), out=Handed(out), arch="sm_80", backend="emulator"
        )
    cute.attention(q, k, v, out=wanted, arch="sm_80", backend="emulator")
    np.testing.assert_array_equal(out, wanted)


def test_views_of_arrays_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """They keep the stream that the interface names, on which the launch waits."""
    monkeypatch.setattr(exchange, "_device_of", lambda pointer: 3)
    array = whole(2, 6, 4)
    turned = transposed(Exported(array, stream=77)).argument
    assert (turned.shape, turned.strides) == ((2, 4, 6), (24, 1, 4))
    assert (turned.device, turned.stream, turned.pointer) == (3, 77, array.ctypes.data)
    wide = expanded(Exported(array[0], stream=77), (5, 6, 4)).argument
    assert (wide.shape, wide.strides, wide.stream) == ((5, 6, 4), (0, 4, 1), 77)
    handed = Handed(array, (2, 1))
    turned = transposed(handed).argument
    assert (turned.strides, turned.device) == ((24, 1, 4), 1)
    assert turned.exporter is handed
