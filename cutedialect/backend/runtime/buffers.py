"""Arrays in device memory that no library made: `DeviceTensor` has the views that calls take. Of
arguments that are timed it is a copy, or random numbers in the place of a spec: strides and
alignment, which a kernel is compiled for, carry over; the user's arrays stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from cutedialect.backend.runtime.arrays import TensorArgument, compact, numpy_dtype
from cutedialect.backend.runtime.device_memory import Allocation
from cutedialect.backend.runtime.driver import Driver

_ALIGNMENT = 256
# Random numbers are drawn on the host; what is larger repeats them.
_PATTERN_BYTES = 1 << 22
_SMALL_INTEGERS = 8


@dataclass(frozen=True)
class DeviceTensor:
    """A tensor in memory of its own, with the views that array libraries have."""

    argument: TensorArgument

    @property
    def shape(self) -> tuple[int, ...]:
        return self.argument.shape

    def swapaxes(self, one: int, other: int) -> DeviceTensor:
        """The view with two dimensions exchanged."""
        shape, strides = list(self.argument.shape), list(self.argument.strides)
        for leaves in (shape, strides):
            leaves[one], leaves[other] = leaves[other], leaves[one]
        return self._view(shape, strides)

    def expand(self, shape: Sequence[int]) -> DeviceTensor:
        """The view of a larger shape, stride 0 where it broadcasts."""
        missing = len(shape) - len(self.shape)
        given = (1,) * missing + self.shape, (0,) * missing + self.argument.strides
        strides = [
            stride if extent == wanted else 0
            for extent, stride, wanted in zip(*given, shape, strict=True)
        ]
        return self._view(shape, strides)

    def reshape(self, *shape: Any) -> DeviceTensor:
        """The row-major view of another shape, -1 what is left of it; ValueError where rows do not
        follow each other.
        """
        given = shape[0] if isinstance(shape[0], tuple) else shape
        known = prod(extent for extent in given if extent != -1)
        given = tuple(prod(self.shape) // known if each == -1 and known else each for each in given)
        if prod(given) != prod(self.shape):
            raise ValueError(f"expected a shape of {prod(self.shape)} elements, got {given}")
        steps = zip(self.shape, self.argument.strides, compact(self.shape), strict=True)
        if any(extent > 1 and mine != dense for extent, mine, dense in steps):
            raise ValueError(
                f"expected a row-major array to see as {given}, got strides "
                f"{self.argument.strides} of shape {self.shape}"
            )
        return self._view(given, compact(given))

    def __getitem__(self, part: slice) -> DeviceTensor:
        """The first elements of a vector."""
        (extent,) = self.shape
        start, stop, step = part.indices(extent)
        if start or step != 1:
            raise ValueError(f"expected the first elements, got {part}")
        return self._view((stop,), self.argument.strides)

    def _view(self, shape: Sequence[int], strides: Sequence[int]) -> DeviceTensor:
        return DeviceTensor(self.argument._replace(shape=tuple(shape), strides=tuple(strides)))


def copied(tensor: TensorArgument, driver: Driver, device: int) -> DeviceTensor:
    """A copy of an array at the same place within 256 bytes, on a device whose context is the
    current one.
    """
    start, size = span_of(tensor)
    memory = Allocation(driver, device, size + _ALIGNMENT)
    low = _aligned(memory) + start % _ALIGNMENT
    copy = driver.copy_to_device if tensor.device is None else driver.copy_on_device
    if size:
        copy(low, start, size, 0)
        driver.synchronize(0)
    first = low + tensor.pointer - start
    return _tensor(first, tensor.shape, tensor.strides, tensor.dtype, device, memory)


def random(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    align: int,
    driver: Driver,
    device: int,
) -> DeviceTensor:
    """Normally distributed floats, or small integers of both signs where the type has them, on a
    device whose context is the current one.

    `dtype` is NumPy's name, `align` the largest power of two that is to divide the address.
    """
    size = span_bytes(shape, strides, dtype)
    memory = Allocation(driver, device, size + _ALIGNMENT)
    first = _aligned(memory) + (align if align < 16 else 0)
    drawn = _pattern(dtype, size)
    done = min(size, drawn.nbytes)
    if done:
        driver.copy_to_device(first, drawn.ctypes.data, done, 0)
    while done < size:
        more = min(done, size - done)
        driver.copy_on_device(first + done, first, more, 0)
        done += more
    driver.synchronize(0)
    return _tensor(first, shape, strides, dtype, device, memory)


def _aligned(memory: Allocation) -> int:
    """The address of an allocation, which the driver aligns to 256 bytes or more."""
    assert memory.pointer % _ALIGNMENT == 0
    return memory.pointer


def _tensor(*fields: Any) -> DeviceTensor:
    return DeviceTensor(TensorArgument(*fields))


def span_bytes(shape: Sequence[int], strides: Sequence[int], dtype: str) -> int:
    """Bytes from the lowest element to the end of the highest; 0 without elements."""
    if 0 in shape:
        return 0
    steps = sum((extent - 1) * abs(stride) for extent, stride in zip(shape, strides, strict=True))
    return (steps + 1) * numpy_dtype(dtype).itemsize


def bytes_below(shape: Sequence[int], strides: Sequence[int], dtype: str) -> int:
    """Bytes of the span below the first element, to which negative strides lead."""
    if min(strides, default=0) >= 0 or 0 in shape:
        return 0
    steps = zip(shape, strides, strict=True)
    return numpy_dtype(dtype).itemsize * sum((e - 1) * -stride for e, stride in steps if stride < 0)


def span_of(tensor: TensorArgument) -> tuple[int, int]:
    """The lowest address of an array, and the bytes from there on that it spans."""
    look = tensor.shape, tensor.strides, tensor.dtype
    return tensor.pointer - bytes_below(*look), span_bytes(*look)


def _pattern(dtype: str, size: int) -> np.ndarray:
    element = numpy_dtype(dtype)
    count = max(1, min(size, _PATTERN_BYTES) // element.itemsize)
    generator = np.random.default_rng(0)
    if np.issubdtype(element, np.integer) or element.kind in "iub":
        low = 0 if element.kind in "ub" else 1 - _SMALL_INTEGERS
        high = 2 if element.kind == "b" else _SMALL_INTEGERS
        return generator.integers(low, high, count).astype(element)
    return generator.standard_normal(count, np.float32).astype(element)
