"""The call of a handler by XLA, read with ctypes as c_api.h of XLA's foreign function interface
lays it out (version 0; fields are only ever added behind the others): buffers, attributes, the
stream, errors, and the question for the handler's version.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .process_end import at_work

_METADATA = 1
_EXECUTE = 3
_STRING = 4
_INTERNAL = 13
# XLA's primitive types, by NumPy's (or ml_dtypes') names.
_TYPES = {
    1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16",
    8: "uint32", 9: "uint64", 10: "float16", 11: "float32", 12: "float64", 16: "bfloat16",
    19: "float8_e5m2", 20: "float8_e4m3fn",
}  # fmt: skip


class _Version(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    )


class _Api(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("version", _Version),
        ("internal", ctypes.c_void_p),
        ("error_create", ctypes.c_void_p),
        ("error_get_message", ctypes.c_void_p),
        ("error_destroy", ctypes.c_void_p),
        ("handler_register", ctypes.c_void_p),
        ("stream_get", ctypes.c_void_p),
    )


class _Values(ctypes.Structure):
    """XLA_FFI_Args and XLA_FFI_Rets."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("types", ctypes.POINTER(ctypes.c_int)),
        ("values", ctypes.POINTER(ctypes.c_void_p)),
    )


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("types", ctypes.POINTER(ctypes.c_int)),
        ("names", ctypes.POINTER(ctypes.c_void_p)),
        ("values", ctypes.POINTER(ctypes.c_void_p)),
    )


class _Frame(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("api", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("args", _Values),
        ("rets", _Values),
        ("attributes", _Attributes),
    )


class _Extension(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("metadata", ctypes.c_void_p),
    )


class _Metadata(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("version", _Version),
        ("traits", ctypes.c_uint32),
    )


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    )


class _Span(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _ErrorArguments(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int),
    )


class _StreamArguments(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    )


_Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

Buffer = tuple[int, tuple[int, ...], str]
"""The address, shape and element type of a row-major array."""


class CallFrame:
    """What a handler is called with."""

    def __init__(self, frame: _Frame) -> None:
        self._frame = frame
        self._api = _Api.from_address(frame.api)

    @property
    def arguments(self) -> list[Buffer]:
        return [_buffer(self._frame.args.values[i]) for i in range(self._frame.args.count)]

    @property
    def results(self) -> list[Buffer]:
        return [_buffer(self._frame.rets.values[i]) for i in range(self._frame.rets.count)]

    def text(self, name: str) -> str:
        """The attribute of a name, a string."""
        attributes = self._frame.attributes
        for i in range(attributes.count):
            if attributes.types[i] == _STRING and _text(attributes.names[i]) == name:
                return _text(attributes.values[i])
        raise ValueError(f"expected the attribute '{name}', got none")

    @property
    def stream(self) -> int:
        """The handle of the stream on which XLA orders the call."""
        given = _StreamArguments(ctypes.sizeof(_StreamArguments), None, self._frame.context, None)
        error = _Function(self._api.stream_get)(ctypes.addressof(given))
        if error:
            raise RuntimeError("expected a stream of XLA, got an error")
        return given.stream or 0


def handler(run: Callable[[CallFrame], None]) -> Any:
    """A function for XLA, to be kept alive, that executes `run`; what that raises becomes an error
    of XLA with its message.
    """

    def handle(address: int) -> int | None:
        frame = _Frame.from_address(address)
        if frame.extension:
            extension = _Extension.from_address(frame.extension)
            if extension.type == _METADATA:
                _answer(_Metadata.from_address(extension.metadata), frame)
                return None
        if frame.stage != _EXECUTE:
            return None
        try:
            with at_work():
                run(CallFrame(frame))
        except BaseException as error:  # nothing may go through XLA's own frames
            text = f"{type(error).__name__}: {error}"
            given = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, text.encode(), _INTERNAL)
            create = _Function(_Api.from_address(frame.api).error_create)
            return create(ctypes.addressof(given))
        return None

    return _Function(handle)


def _answer(metadata: _Metadata, frame: _Frame) -> None:
    """The version of the interface: that of the caller, of which fields of version 0 are used. The
    call is no part of XLA's command buffers: a first launch loads a module.
    """
    if frame.api:
        version = _Api.from_address(frame.api).version
        metadata.version.major, metadata.version.minor = version.major, version.minor
    else:
        metadata.version.major, metadata.version.minor = _header_version()
    metadata.traits = 0


def _header_version() -> tuple[int, int]:
    """The version in the header that JAX brings along."""
    import re
    from pathlib import Path

    import jax  # pyright: ignore[reportMissingImports]

    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    text = header.read_text(encoding="utf-8")
    found = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", text))
    return int(found["MAJOR"]), int(found["MINOR"])


def _buffer(address: int) -> Buffer:
    buffer = _Buffer.from_address(address)
    shape = tuple(buffer.dims[i] for i in range(buffer.rank))
    dtype = _TYPES.get(buffer.dtype)
    if dtype is None:
        raise TypeError(f"expected an element type of NumPy, got number {buffer.dtype} of XLA")
    return buffer.data or 0, shape, dtype


def _text(address: int) -> str:
    span = _Span.from_address(address)
    return ctypes.string_at(span.data, span.length).decode()
