"""What candidates leave in the tensors that they write: every one starts from the same bytes, and
has to give what the first gave, up to rounding. Large tensors are compared in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cutedialect.backend.runtime.arrays import TensorArgument, numpy_dtype, tensor_argument
from cutedialect.backend.runtime.buffers import span_of
from cutedialect.backend.runtime.device_memory import Allocation
from cutedialect.backend.runtime.driver import Driver
from cutedialect.backend.runtime.signature import Signature, TensorParameter

_PARTS, _PART_BYTES = 64, 1 << 16
# By bytes of an element, in units of the largest magnitude: sums in another order, rounded.
_TOLERANCES = {1: 0.15, 2: 0.02, 4: 0.01, 8: 1e-6}


class Outcomes:
    """Bytes before the first run, and parts of what it left, by address, on a device whose context
    is the current one in every call.
    """

    def __init__(self, driver: Driver, device: int) -> None:
        self._driver, self._device = driver, device
        self._before: dict[int, Allocation] = {}
        self._first: dict[int, np.ndarray] = {}

    def restore(self, signature: Signature, arguments: Sequence[Any], stream: int) -> None:
        """Queue what puts written tensors back to where the first run found them."""
        copy = self._driver.copy_on_device
        for _, tensor, low, size in _written(signature, arguments):
            kept = self._before.get(tensor.pointer)
            if kept is None:
                kept = Allocation(self._driver, self._device, size)
                self._before[tensor.pointer] = kept
                copy(kept.pointer, low, size, stream)
            else:
                copy(low, kept.pointer, size, stream)

    def check(
        self,
        signature: Signature,
        arguments: Sequence[Any],
        stream: int,
        wait: Callable[[], None],
    ) -> None:
        """Compare what a run left with what the first run left; raises ValueError that names the
        tensor. `wait` waits for what is queued.
        """
        for name, tensor, low, size in _written(signature, arguments):
            starts, length = _parts(size)
            left = np.empty((len(starts), length), np.uint8)
            for row, start in zip(left, starts, strict=True):
                at = low + start
                self._driver.copy_to_host(row.ctypes.data, at, length, stream)
            wait()
            values = left.view(numpy_dtype(tensor.dtype)).astype(np.float64)
            first = self._first.setdefault(tensor.pointer, values)
            wrong = _difference(values, first, tensor.dtype)
            if wrong is not None:
                raise ValueError(
                    f"expected {wrong[1]:g} in '{name}' as the first schedule gives, "
                    f"got {wrong[0]:g}"
                )


def _written(
    signature: Signature, arguments: Sequence[Any]
) -> list[tuple[str, TensorArgument, int, int]]:
    """Name, tensor, lowest address and bytes of every argument that a kernel stores to."""
    found: list[tuple[str, TensorArgument, int, int]] = []
    for parameter, value in zip(signature.parameters, arguments, strict=True):
        if isinstance(parameter, TensorParameter) and parameter.written:
            tensor = tensor_argument(value)
            assert tensor is not None
            start, size = span_of(tensor)
            if size:
                found.append((parameter.name, tensor, start, size))
    return found


def _parts(size: int) -> tuple[list[int], int]:
    """Where parts start and how long each is: all of a small tensor, its last bytes always."""
    if size <= _PARTS * _PART_BYTES:
        return [0], size
    last = size - _PART_BYTES
    step = last // (_PARTS - 1) // 16 * 16
    return [*(number * step for number in range(_PARTS - 1)), last], _PART_BYTES


def _difference(values: np.ndarray, first: np.ndarray, dtype: str) -> tuple[float, float] | None:
    """The two values that differ most where that is more than rounding explains, else None."""
    element = numpy_dtype(dtype)
    finite = np.abs(first[np.isfinite(first)])
    largest = float(finite.max()) if finite.size else 0.0
    tolerance = 1.0 if element.kind in "iu" else _TOLERANCES[element.itemsize] * largest
    same = (values == first) | (np.isnan(values) & np.isnan(first))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(values - first))
    apart[np.isnan(apart)] = np.inf
    worst = int(np.argmax(apart))
    if apart.flat[worst] <= tolerance:
        return None
    return float(values.flat[worst]), float(first.flat[worst])
