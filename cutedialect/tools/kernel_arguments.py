"""How commands name a kernel and its arguments: `FILE.py:NAME` or `cute.gemm`, `?x?:f16` for a
tensor, `0.5:f32` for a number, `name=value` for a keyword argument.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from cutedialect import environment
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.library_files import is_library_file
from cutedialect.frontend.declarations import CALLS

ARGUMENTS = """arguments, in the order of the kernel's parameters:
  ?x?:f16          a tensor with run-time extents, last dimension contiguous
  1024x?:bf16      a given extent only steers the choice of the schedule
  ?x?:f16:1,?      strides in elements, ? for run-time ones
  ?x?:f16@4        address and strides of multiples of 4 bytes, where it is not 16
  1024:f32:1       one dimension of a given extent (without the stride it is a scalar)
  0.5:f32 7:i32    a scalar
  [?x?:f16]        a list of tensors that are all like this, of cute.grouped_gemm
  none             an optional argument that is not given
"""
_TENSOR = re.compile(
    r"(?P<shape>(?:\?|\d+)(?:x(?:\?|\d+))*):(?P<dtype>[a-z]\w*)(?:@(?P<align>\d+))?"
    r"(?::(?P<strides>.*))?"
)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SCALARS = {
    "f32": "float32", "f64": "float64", "i16": "int16", "u16": "uint16", "i32": "int32",
    "u32": "uint32", "i64": "int64", "u64": "uint64",
}  # fmt: skip
_FUNCTIONS = tuple(f"cute.{call.name}" for call in CALLS)
_EXPECTED = f"expected FILE.py:NAME, {', '.join(_FUNCTIONS[:-1])} or {_FUNCTIONS[-1]}"


def kernel_named(text: str) -> Any:
    """The function that `text` names; raises ValueError that says what is missing."""
    if text.startswith("cute."):
        if text not in _FUNCTIONS:
            near = difflib.get_close_matches(text, _FUNCTIONS, 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise ValueError(f"{_EXPECTED}, got '{text}'{hint}")
        return getattr(import_module("cutedialect"), text.removeprefix("cute."))
    file, colon, name = text.rpartition(":")
    if not colon:
        raise ValueError(f"{_EXPECTED}, got '{text}'")
    path = Path(file)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"expected a Python file, got '{file}'")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if environment.debug():
            raise
        said = str(error).splitlines() or ["no message"]
        place = _users_line(error.__traceback__)
        where = file if place is None else place[0]
        raise ValueError(
            f"expected a file that Python runs, got {type(error).__name__} from {where}: {said[0]}"
        ) from None
    found = vars(module).get(name)
    if found is None:
        near = difflib.get_close_matches(name, vars(module), 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ValueError(f"expected a kernel '{name}' in {file}, got none of that name{hint}")
    return found


@contextmanager
def placed_errors() -> Iterator[None]:
    """Name the line of the user's code at which a kernel's trace failed. What the compiler refuses
    has its place.
    """
    try:
        yield
    except Exception as error:
        place = None if isinstance(error, CompileError) else _users_line(error.__traceback__)
        if environment.debug() or place is None:
            raise
        where, is_theirs = place
        kind = f"{type(error).__name__}: " if is_theirs else ""
        raise ValueError(f"{where}: {kind}{error}") from None


def _users_line(trace: TracebackType | None) -> tuple[str, bool] | None:
    """The innermost line of a user's code, and whether the error was raised there."""
    found = None
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        is_users = not name.startswith((_PACKAGE, "<")) and not is_library_file(name)
        if is_users:
            found = f"{name}:{trace.tb_lineno}", trace.tb_next is None
        trace = trace.tb_next
    return found


def argument(text: str) -> Any:
    """The spec, number or None that `text` stands for."""
    import numpy as np

    if text == "none":
        return None
    if text.startswith("[") and text.endswith("]"):
        match = _TENSOR.fullmatch(text[1:-1])
        if match is None:
            raise ValueError(f"expected a list of tensors such as [?x?:f16], got '{text}'")
        return [_tensor(match)]
    match = _TENSOR.fullmatch(text)
    if (
        match is not None
        and match["dtype"] in _SCALARS
        and text.partition(":")[0].isdigit()
        and match["strides"] is None
        and match["align"] is None
    ):
        return np.dtype(_SCALARS[match["dtype"]]).type(int(match["shape"]))
    if match is not None:
        return _tensor(match)
    value, colon, kind = text.rpartition(":")
    if colon and kind in _SCALARS:
        try:
            return np.dtype(_SCALARS[kind]).type(ast.literal_eval(value))
        except (ValueError, SyntaxError):
            pass
    raise ValueError(f"expected an argument such as ?x?:f16, 0.5:f32 or none, got '{text}'")


def settings(texts: Sequence[str]) -> dict[str, Any]:
    """Keyword arguments of `name=value` texts: tensors as above, Python literals, else words."""
    return dict(_setting(text) for text in texts)


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"expected NAME=VALUE, such as out_dtype=f32, got '{text}'")
    match = _TENSOR.fullmatch(value)
    if match is not None:
        return name, _tensor(match)
    if value.startswith("[") and _TENSOR.fullmatch(value[1:-1]):
        return name, argument(value)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _tensor(match: re.Match[str]) -> Any:
    from cutedialect.frontend.kernel import TensorSpec

    shape = tuple(None if extent == "?" else int(extent) for extent in match["shape"].split("x"))
    align = int(match["align"] or 16)
    if match["strides"] is None:
        return TensorSpec(shape, match["dtype"], align=align)
    parts = match["strides"].split(",")
    if not all(part == "?" or part.isdigit() for part in parts):
        raise ValueError(f"expected strides such as ?,1 in elements, got '{match['strides']}'")
    strides = tuple(None if part == "?" else int(part) for part in parts)
    return TensorSpec(shape, match["dtype"], strides, align)
