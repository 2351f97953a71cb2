"""A hash of everything that decides what a Python function traces to: its code, defaults, closure
cells, and every function, class, module attribute and constant that it reaches by name. Line
numbers count, because they are printed as `.loc`. This package's own code is left to
`cache.package_stamp`, installed packages to their version.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import struct
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from cutedialect.backend.runtime.library_files import is_library_file, is_package_file

_PACKAGE = __name__.partition(".")[0]
_MAX_ARRAY_BYTES = 1 << 20
# Classes whose state is not among their attributes, by modules that whoever has one has imported.
_UNSTABLE = {"random": ("Random",), "numpy.random": ("Generator", "RandomState")}


class FingerprintError(ValueError):
    """A value that a kernel reaches and that has no stable hash; the kernel is not cached."""


def fingerprint(*values: object) -> str:
    """The hash of `values`, equal in every process where they mean the same.

    Raises FingerprintError for a value without stable content (an open file, a device array). An
    object may define `__fingerprint__()` and return the value that stands for it.
    """
    walker = _Walker()
    for value in values:
        walker.visit(value)
    return walker.digest.hexdigest()


class _Walker:
    """Feeds one digest. An object met again is its ordinal, which also ends cycles."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.seen: dict[int, int] = {}
        # Objects are kept alive so that no id is used twice.
        self.alive: list[object] = []

    def put(self, tag: str, content: str | bytes = b"") -> None:
        raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        self.digest.update(f"{tag}:{len(raw)}:".encode() + raw)

    def visit(self, value: object) -> None:
        match value:
            case None | bool() | int() | str() | bytes() | complex() if not isinstance(
                value, enum.Enum
            ):
                self.put(type(value).__name__, value if isinstance(value, bytes) else repr(value))
            case float():
                self.put("float", struct.pack("<d", value))
            case type() | types.BuiltinFunctionType() | types.ModuleType():
                self._once(value)
            case _ if value is Ellipsis or value is NotImplemented:
                self.put("singleton", repr(value))
            case tuple() | list() if type(value) in (tuple, list):
                self._all(type(value).__name__, value)
            case set() | frozenset():
                self._unordered("set", value)
            case slice():
                self._all("slice", (value.start, value.stop, value.step))
            case np.dtype():
                self.put("dtype", f"{value.str} {value.name}")
            case np.generic():
                self.put("scalar", value.dtype.name)
                self.put("bytes", value.tobytes())
            case _:
                self._once(value)

    def _once(self, value: object) -> None:
        if id(value) in self.seen:
            self.put("again", str(self.seen[id(value)]))
            return
        self.seen[id(value)] = len(self.seen)
        self.alive.append(value)
        match value:
            case types.FunctionType():
                self._function(value)
            case types.MethodType():
                self._all("method", (value.__func__, value.__self__))
            case types.BuiltinFunctionType():
                self.put("builtin", f"{value.__module__}.{value.__qualname__}")
            case types.CodeType():
                self._code(value)
            case types.ModuleType():
                self.put("module", value.__name__)
            case functools.partial():
                self._all("partial", (value.func, value.args, value.keywords))
            case type():
                self._class(value)
            case enum.Enum():
                self.put("enum", f"{_name(type(value))}.{value.name}")
                self.visit(value.value)
            case dict() | types.MappingProxyType():
                self._mapping("dict", value)
            case np.ndarray():
                self._array(value)
            case staticmethod() | classmethod():
                self._all(type(value).__name__, (value.__func__,))
            case property():
                self._all("property", (value.fget, value.fset, value.fdel))
            case _:
                self._object(value)

    def _all(self, tag: str, values: Iterable[object]) -> None:
        values = tuple(values)
        self.put(tag, str(len(values)))
        for value in values:
            self.visit(value)

    def _unordered(self, tag: str, values: Iterable[object]) -> None:
        self._all(tag, sorted(fingerprint(value) for value in values))

    def _mapping(self, tag: str, mapping: Mapping[Any, object]) -> None:
        self.put(tag, str(len(mapping)))
        for key, value in mapping.items():
            self.visit(key)
            self.visit(value)

    def _function(self, function: types.FunctionType) -> None:
        self.put("function", f"{function.__module__}.{function.__qualname__}")
        # A version covers a function's code, never the values that it closes over.
        installed = self._installed(function.__module__)
        if not installed:
            self._code(function.__code__)
        self.visit(function.__defaults__)
        self._mapping("kwdefaults", function.__kwdefaults__ or {})
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:
                self.put("empty cell")
            else:
                self.visit(content)
        if installed:
            return
        names = sorted(names_of(function.__code__))
        for name in names:
            if name in function.__globals__:
                self.put("global", name)
                self._reached(function.__globals__[name], names)

    def _reached(self, value: object, names: list[str]) -> None:
        """A global; of a user's module also the attributes that the function may take from it."""
        self.visit(value)
        if isinstance(value, types.ModuleType) and not self._installed(value.__name__):
            for name in names:
                if name in vars(value):
                    self.put("attribute", name)
                    self._reached_once(vars(value)[name], names)

    def _reached_once(self, value: object, names: list[str]) -> None:
        if isinstance(value, types.ModuleType) and id(value) in self.seen:
            self.visit(value)
        else:
            self._reached(value, names)

    def _code(self, code: types.CodeType) -> None:
        self.put("code", code.co_code)
        self.put("lines", code.co_linetable)
        self.put("place", f"{code.co_filename}:{code.co_firstlineno}")
        self.put("exceptions", code.co_exceptiontable)
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self._all("counts", counts)
        self._all("names", (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        self._all("consts", code.co_consts)

    def _class(self, cls: type) -> None:
        self.put("class", _name(cls))
        if self._installed(cls.__module__):
            return
        self._all("bases", cls.__bases__)
        skipped = ("__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__")
        for name, value in vars(cls).items():
            if name in skipped or isinstance(value, types.MemberDescriptorType):
                continue
            if name.startswith("_abc_") or isinstance(value, types.GetSetDescriptorType):
                continue
            self.put("member", name)
            self.visit(value)

    def _array(self, array: np.ndarray) -> None:
        if array.nbytes > _MAX_ARRAY_BYTES or array.dtype.hasobject:
            raise FingerprintError(
                f"expected an array of at most {_MAX_ARRAY_BYTES} bytes as a constant of a kernel, "
                f"got {array.nbytes} bytes of {array.dtype}"
            )
        self.put("array", f"{array.dtype.name} {array.shape}")
        self.put("bytes", array.tobytes())

    def _object(self, value: object) -> None:
        cls = type(value)
        if _is_unstable(value) or hasattr(value, "__dlpack__"):
            raise FingerprintError(
                f"expected a constant with stable content in a kernel, got {cls.__qualname__}"
            )
        self.put("object", _name(cls))
        if (own := getattr(cls, "__fingerprint__", None)) is not None:
            self.visit(own(value))
            return
        wrapped = vars(value).get("__wrapped__") if hasattr(value, "__dict__") else None
        if wrapped is not None:
            self.visit(wrapped)
            return
        self.visit(cls)
        if is_dataclass(value):
            self._mapping("fields", {f.name: getattr(value, f.name, None) for f in fields(value)})
            return
        if isinstance(value, tuple | list | dict):
            self._all("items", value.items() if isinstance(value, dict) else value)
        slots = _slots(cls)
        if not slots and not hasattr(value, "__dict__") and not isinstance(value, tuple | list):
            raise FingerprintError(
                f"expected a constant with stable content in a kernel, got {cls.__qualname__}"
            )
        self._mapping("slots", {s: getattr(value, s) for s in slots if hasattr(value, s)})
        self._mapping("state", vars(value) if hasattr(value, "__dict__") else {})

    def _installed(self, module: str | None) -> bool:
        """Whether code of `module` is covered by a version or a stamp, which is then hashed."""
        if not is_installed(module):
            return False
        name = module or ""
        file = _file_of(name)
        if is_package_file(file):
            top = name.partition(".")[0]
            version = getattr(sys.modules.get(top), "__version__", file)
            self.put("installed", f"{top} {version}")
        return True


def is_installed(module: str | None) -> bool:
    """Whether a module is Python's, this package's or of an installed package: not a user's own."""
    name = module or ""
    if name == "__main__":
        return False
    if name.partition(".")[0] == _PACKAGE or name in sys.builtin_module_names:
        return True
    file = _file_of(name)
    return bool(file) and is_library_file(file)


def _file_of(module: str) -> str:
    return getattr(sys.modules.get(module), "__file__", None) or ""


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _slots(cls: type) -> list[str]:
    found: list[str] = []
    for base in cls.__mro__:
        slots = vars(base).get("__slots__", ())
        found += [slots] if isinstance(slots, str) else slots
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def names_of(code: types.CodeType) -> set[str]:
    """Names that `code` and the functions defined in it look up, attributes included."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= names_of(constant)
    return found


def _is_unstable(value: object) -> bool:
    """Whether a value has a state that is not among its attributes."""
    return any(
        isinstance(value, getattr(sys.modules[module], name))
        for module, names in _UNSTABLE.items()
        if module in sys.modules
        for name in names
    )
