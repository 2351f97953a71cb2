"""JAX's arrays as arguments and as results. They are immutable: a kernel reads them where they lie,
and what a call returns is made by CuPy or NumPy and handed over, without a copy where DLPack knows
the element type. JAX itself is never imported here: who passes an array has done so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.buffers import DeviceTensor
from cutedialect.backend.runtime.exchange import dlpack_argument
from cutedialect.backend.runtime.streams import cupy_stream
from cutedialect.backend.runtime.torch_tensors import is_torch

# CuPy exports by DLPack what NumPy has by itself; others go as integers of the same width.
_EXPORTED = "biuf"


def is_jax(value: Any) -> bool:
    """Whether a value is an array of JAX, or stands for one inside of a transformation."""
    jax: Any = sys.modules.get("jax")
    return jax is not None and isinstance(value, getattr(jax, "Array", ()))


def uses_jax(values: Iterable[Any]) -> bool:
    """Whether one of some arguments, or an entry of a list of them, is an array of JAX."""
    return "jax" in sys.modules and any(map(is_jax, _flat(values)))


def jax_argument(array: Any) -> TensorArgument:
    """A JAX array where it lies; read-only. TypeError inside of a transformation, ValueError for an
    array on several devices.
    """
    jax: Any = sys.modules["jax"]
    if isinstance(array, jax.core.Tracer):
        raise TypeError(
            "expected an array, got one that JAX traces (jit, grad, vmap); call the function of "
            "cutedialect.jax instead"
        )
    devices = array.devices()
    if len(devices) != 1:
        raise ValueError(
            f"expected an array on one device, got one on {len(devices)}; call the function of "
            "cutedialect.jax inside of jax.shard_map"
        )
    try:
        return dlpack_argument(array, None, writeable=False)
    except (TypeError, ValueError):
        raise
    except Exception:  # XLA's own, for elements of less than a byte; none for random keys
        raise TypeError(
            f"expected elements that DLPack hands out, got an array of {array.dtype}"
        ) from None


def call_on_views(
    call: Callable[..., Any], arguments: Mapping[str, Any], stream: Any = None
) -> Any:
    """A call with the JAX arrays in its arguments, those of lists included, seen as arrays that
    have views, and its new results as JAX arrays. ValueError for an output that is one of JAX.
    """
    given = dict(arguments)
    for name in ("out", "aux"):
        value = given.get(name)
        if is_jax(value) or (isinstance(value, list | tuple) and any(map(is_jax, value))):
            raise ValueError(
                f"{name}: expected no JAX array, which is immutable, got one; without out= the "
                "result is a new JAX array"
            )
    like = _first(given.values())
    for name, value in given.items():
        given[name] = _viewed(value, name)
    result = call(**given, stream=stream)
    kept = [value for value in _flat([given.get("out"), given.get("aux")]) if value is not None]
    return _handed_over(result, like, kept, stream)


def _first(values: Iterable[Any]) -> Any:
    return next(value for value in _flat(values) if is_jax(value))


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def _viewed(value: Any, name: str) -> Any:
    """A JAX array as an array of NumPy in host memory, else as a `DeviceTensor`."""
    if isinstance(value, list | tuple):
        kind = type(value)
        return kind(_viewed(each, f"{name}[{number}]") for number, each in enumerate(value))
    if not is_jax(value):
        return value
    try:
        argument = jax_argument(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
    return DeviceTensor(argument) if argument.array is None else argument.array


def _handed_over(made: Any, like: Any, kept: list[Any], stream: Any) -> Any:
    """New arrays of NumPy or CuPy as those of JAX, on the device of `like`; those that torch has
    made, for the one whose tensor comes first, stay.
    """
    if isinstance(made, list | tuple):
        return type(made)(_handed_over(each, like, kept, stream) for each in made)
    if made is None or is_torch(made) or any(made is each for each in kept):
        return made
    jax: Any = sys.modules["jax"]
    if isinstance(made, np.ndarray):
        return jax.device_put(made, next(iter(like.devices())))
    with _current(stream):
        dtype = made.dtype
        if dtype.kind in _EXPORTED and dtype.isbuiltin == 1:
            return jax.dlpack.from_dlpack(made)
        bits = jax.dlpack.from_dlpack(made.view(f"u{dtype.itemsize}"))
        return jax.lax.bitcast_convert_type(bits, dtype)


def _current(stream: Any) -> AbstractContextManager[Any]:
    """A stream as CuPy's current one, on which it hands arrays over."""
    if stream is None:
        return nullcontext()
    return cupy_stream(stream)
