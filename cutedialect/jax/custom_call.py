"""One custom call for everything: its attribute `call` says in JSON what to run, so that an
executable that JAX keeps on disk means the same in another process. What cannot be said in text,
functions and kernels, is a name in this process, and such an executable is refused in another one.
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import numpy as np

from cutedialect.backend.runtime.arrays import TensorArgument, compact, host_view
from cutedialect.backend.runtime.buffers import DeviceTensor
from cutedialect.backend.runtime.driver import driver
from cutedialect.frontend.calls import DOORS
from cutedialect.frontend.dtypes import DType, as_dtype
from cutedialect.frontend.kernel import TensorSpec
from cutedialect.schedule import Schedule

from .call_frame import Buffer, CallFrame, handler
from .process_end import expect_calls

_TARGET = "cutedialect_call"
# Elements of which XLA holds two in a byte; those of the language have a byte each.
_HALVES = ("i4", "u4", "e2m1")
_PROCESS = f"{os.getpid()}-{os.urandom(8).hex()}"
_named: dict[str, Any] = {}
_naming = threading.Lock()

Runner = Callable[[Sequence[Any], Sequence[Any], Any], None]
"""Takes arguments, results and the stream, None in host memory."""


def custom_call(
    description: Mapping[str, Any],
    results: Sequence[jax.ShapeDtypeStruct],
    arguments: Sequence[Any],
) -> list[Any]:
    """The results of a call that `description` describes; vmap calls it once for each element."""
    expect_calls()
    call = jax.ffi.ffi_call(_TARGET, list(results), vmap_method="sequential")
    return list(call(*arguments, call=json.dumps(description, sort_keys=True)))


def named(value: Any) -> str:
    """A name, good in this process, for something that has no text."""
    with _naming:
        for name, known in _named.items():
            if known is value:
                return name
        name = f"{_PROCESS}-{len(_named)}"
        _named[name] = value
        return name


def value_of(name: str) -> Any:
    """What `named` named."""
    if name not in _named:
        raise RuntimeError(
            "expected a call that this process has traced, got an executable with a function or "
            "kernel of another one; clear JAX's compilation cache"
        )
    return _named[name]


def number(value: Any, name: str) -> float:
    """A host number; one that JAX traces is refused by its name."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(
            f"{name}: expected a number that is known when JAX traces, got a traced one; multiply "
            "an array by it"
        )
    return float(value)


def dtype_name(dtype: object, name: str) -> str | None:
    """An element type in any spelling as its name in the language."""
    return None if dtype is None else as_dtype(dtype, name).name


def schedule_text(schedule: Schedule | str | None) -> str | None:
    return schedule.text() if isinstance(schedule, Schedule) else schedule


def spec(array: Any, name: str) -> TensorSpec:
    """A JAX array as what a kernel is compiled for; extents of `jax.export` that are symbols are
    run-time values.
    """
    shape = tuple(extent if isinstance(extent, int) else None for extent in array.shape)
    return TensorSpec(shape, element_type(array, name))


def element_type(array: Any, name: str) -> DType:
    """The element type of a JAX array; TypeError for those of which XLA holds two in a byte."""
    found = as_dtype(np.dtype(array.dtype), name)
    if found.name in _HALVES:
        raise TypeError(
            f"{name}: expected elements of whole bytes, got {found.name}, of which XLA holds two "
            "in one; take .astype(jnp.int8)"
        )
    return found


def struct(shape: Sequence[int], dtype: DType) -> jax.ShapeDtypeStruct:
    """The shape and type of a result."""
    return jax.ShapeDtypeStruct(tuple(shape), dtype.numpy)


def arranged(description: Mapping[str, Any], arguments: Sequence[Any]) -> dict[str, Any]:
    """The arguments of a call by name, those of lists in lists."""
    at, lengths = iter(arguments), description.get("lists", {})
    return {
        name: [next(at) for _ in range(lengths[name])] if name in lengths else next(at)
        for name in description["arguments"]
    }


@lru_cache(maxsize=4096)
def _runner(text: str) -> Runner:
    """What a description stands for."""
    description = json.loads(text)
    if "kernel" in description:
        return value_of(description["kernel"])
    function = DOORS[description["function"]].function_of_arrays
    options = dict(description["options"])
    if isinstance(options.get("activation"), dict):
        options["activation"] = value_of(options["activation"]["function"])
    if options.get("window") is not None:
        options["window"] = tuple(options["window"])

    def run(arguments: Sequence[Any], results: Sequence[Any], stream: Any) -> None:
        given = arranged(description, arguments)
        if "k_offsets" in given:
            given["cu_seqlens"] = given.pop("q_offsets"), given.pop("k_offsets")
        if "lists" in description:
            given["out"] = list(results)
        else:
            given |= zip(description["results"], results, strict=True)
        lse = given.pop("lse") if "lse" in description["results"] else None
        if lse is None:
            function(**given, **options, stream=stream)
        else:
            made = function(**given, **options, return_lse=True, stream=stream)
            _copy(made[1], lse, stream)

    return run


def _copy(source: Any, target: Any, stream: Any) -> None:
    """Copy a new array of the call into a result of XLA."""
    if isinstance(target, np.ndarray):
        target[...] = source
        return
    driver().call(
        "cuMemcpyDtoDAsync_v2",
        ctypes.c_uint64(target.argument.pointer),
        ctypes.c_uint64(source.data.ptr),
        ctypes.c_size_t(source.nbytes),
        ctypes.c_void_p(stream),
    )


def _on_host(frame: CallFrame) -> None:
    arguments = [_host_array(buffer, writeable=False) for buffer in frame.arguments]
    results = [_host_array(buffer, writeable=True) for buffer in frame.results]
    _runner(frame.text("call"))(arguments, results, None)


def _host_array(buffer: Buffer, *, writeable: bool) -> np.ndarray:
    pointer, shape, dtype = buffer
    if 0 in shape:
        return np.empty(shape, as_dtype(dtype).numpy)
    view = host_view(pointer, shape, compact(shape), dtype, None, writeable=writeable)
    assert view.array is not None
    return view.array


def _on_device(frame: CallFrame) -> None:
    stream = frame.stream
    arguments = [_device_array(buffer) for buffer in frame.arguments]
    results = [_device_array(buffer) for buffer in frame.results]
    _runner(frame.text("call"))(arguments, results, stream)


def _device_array(buffer: Buffer) -> DeviceTensor:
    pointer, shape, dtype = buffer
    found = driver()
    device = found.device_of(pointer) if pointer else found.current_device()
    return DeviceTensor(TensorArgument(pointer, shape, compact(shape), dtype, device, None))


# XLA calls these as long as the process lives.
_HANDLERS = {"cpu": handler(_on_host), "CUDA": handler(_on_device)}
for _platform, _handler in _HANDLERS.items():
    jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(_handler), platform=_platform)
