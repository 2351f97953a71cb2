"""The state of one trace: where ops go, which scopes are open, and where the user's line is; and
errors at that line, those of the trace and what passes and verifiers say later.

A kernel's Python body runs once; every operation on a tile or scalar appends IR here with the
location of the user's line.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FileLineColLoc,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    Signedness,
    StringAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from cutedialect.backend.runtime.errors import INTERNAL, REFUSED, CompileError
from cutedialect.backend.runtime.tracebacks import is_raised

if TYPE_CHECKING:
    from .host import Launches

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from cutedialect.dialects.walks import walk

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Tile programs that ship with the package are located like a user's.
_LIBRARY = os.path.join(_PACKAGE, "frontend", "library")


# The function that runs a program's body.
TRACING = "trace_body"


class TraceError(CompileError):
    """A kernel that the language cannot express, at the user's line. Its code is of the family
    CD-P, of which CD-P1 says no more than that something has the wrong kind.
    """

    def __init__(self, message: str, *, code: str = "CD-P1", location: str | None = None) -> None:
        super().__init__(message, code=code, location=location)


@dataclass
class Scope:
    """A region being traced: a loop body, a branch, or the kernel."""

    block: Block
    what: str
    open: bool = True


@dataclass
class Trace:
    """The trace in progress."""

    name: str
    scopes: list[Scope] = field(default_factory=list)
    loops: list[object] = field(default_factory=list)
    failure: TraceError | None = None
    # What is wrong if a loop or a condition that was made is never entered, and where, by its id.
    unused: dict[int, tuple[str, str]] = field(default_factory=dict)
    # Of a host program only.
    launches: Launches | None = None

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    def insert(self, op: Operation, hint: str | None = None) -> Operation:
        """Append an op at the user's line."""
        op.location = location()
        self.scope.block.add_op(op)
        if hint is not None and op.results:
            op.results[0].name_hint = hint
        return op

    def constant(self, value: float | int | bool, type_: Attribute) -> SSAValue:
        """A scalar constant."""
        if isinstance(type_, IntegerType) and type_.signedness.data is Signedness.UNSIGNED:
            # arith has constants of signless integers only.
            bits = type_.width.data
            if bits < 32:
                return self.insert(arith.TruncIOp(self.constant(value, i32), type_)).results[0]
            half = 1 << bits - 1
            signed = (int(value) + half) % (2 * half) - half
            made = self.constant(signed, IntegerType(bits))
            return self.insert(arith.BitcastOp(made, type_)).results[0]
        properties = {"value": constant_attr(value, type_)}
        made = arith.ConstantOp.create(result_types=[type_], properties=properties)
        return self.insert(made).results[0]

    @contextmanager
    def region(self, block: Block, what: str) -> Iterator[Scope]:
        """Trace into `block`; values made inside are dead afterwards."""
        scope = Scope(block, what)
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            scope.open = False
            self.scopes.remove(scope)

    def check_alive(self, scope: Scope, what: str) -> None:
        """Refuse a value whose region has ended."""
        if not scope.open:
            raise error(
                f"expected a value that lives here, got {what} made inside {scope.what}; keep "
                "state in a tile made before it (cute.zeros) and use .assign or +=",
                code="CD-P5",
            )


def constant_attr(value: float | int | bool, type_: Attribute) -> Attribute:
    """The attribute of a constant of an IR type."""
    if isinstance(type_, IntegerType):
        return IntegerAttr(int(value), type_)
    assert isinstance(type_, AnyFloat)
    return FloatAttr(float(value), type_)


class _Traces(threading.local):
    """The traces in progress in this thread, innermost last."""

    def __init__(self) -> None:
        self.stack: list[Trace] = []


_traces = _Traces()


def current() -> Trace:
    """The trace in progress; outside of a kernel, an error."""
    if not _traces.stack:
        raise TraceError(
            "expected a call inside a @cute.kernel function, got one outside", code="CD-P11"
        )
    return _traces.stack[-1]


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Make `trace` the current one."""
    _traces.stack.append(trace)
    try:
        yield trace
    finally:
        _traces.stack.remove(trace)


def user_frame() -> FrameType:
    """The innermost frame that is not the front end's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_internal(frame.f_code):
        frame = frame.f_back
    return frame


def traced_frames() -> list[FrameType]:
    """The frames of the user's code in the trace in progress, innermost first."""
    found: list[FrameType] = []
    frame: FrameType | None = user_frame()
    while frame is not None:
        if not _is_internal(frame.f_code):
            found.append(frame)
        elif frame.f_code.co_name == TRACING:
            break
        frame = frame.f_back
    return found


def _is_internal(code: CodeType) -> bool:
    return _is_internal_file(code.co_filename)


def is_of_library(name: str) -> bool:
    """Whether a file is of this package."""
    return name.startswith(_PACKAGE)


@lru_cache(maxsize=1024)
def _is_internal_file(name: str) -> bool:
    if name.startswith(_LIBRARY):
        return False
    return name.startswith(_PACKAGE) or os.path.basename(name) == "contextlib.py"


@lru_cache(maxsize=64)
def _columns(code: CodeType) -> tuple[int, ...]:
    """The column, from 1 on, of each instruction of a function; 1 where Python knows none."""
    return tuple((position[2] or 0) + 1 for position in code.co_positions())


def start_of(code: CodeType) -> LocationAttr:
    """Where a function begins, as an IR location."""
    return _location(code.co_filename, code.co_firstlineno, 1)


def location() -> LocationAttr:
    """The user's file, line and column as an IR location."""
    frame = user_frame()
    column = _columns(frame.f_code)[frame.f_lasti // 2]
    return _location(frame.f_code.co_filename, frame.f_lineno, column)


@lru_cache(maxsize=1024)
def _location(name: str, line: int, column: int) -> LocationAttr:
    return FileLineColLoc(_file(name), IntAttr(line), IntAttr(column))


@lru_cache(maxsize=64)
def _file(name: str) -> StringAttr:
    return StringAttr(name)


def error(message: str, code: str = "CD-P1") -> TraceError:
    """A TraceError at the user's line; what `python -m cutedialect explain` says of its code is in
    cutedialect/explanations.
    """
    return TraceError(message, code=code, location=user_line())


def located_at(failure: BaseException, message: str, code: str) -> TraceError:
    """A TraceError at the user's line that an exception came from."""
    where, step = None, failure.__traceback__
    while step is not None:
        if not _is_internal(step.tb_frame.f_code):
            where = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"
        step = step.tb_next
    return TraceError(message, code=code, location=where)


def user_line() -> str:
    """The user's file and line, as errors name them."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@contextmanager
def located(module: ModuleOp) -> Iterator[None]:
    """Turn a failed pass or verification of `module` into a CompileError at its op's location."""
    try:
        yield
    except (DiagnosticException, VerifyException) as error:
        op = next((arg for arg in error.args if isinstance(arg, Operation)), None)
        op = op or getattr(error, "op", None) or getattr(error, "operation", None)
        if op is None and isinstance(error, VerifyException):
            op = _first_invalid(module)
        text = next((arg for arg in error.args if isinstance(arg, str)), str(error))
        where = None if op is None else _place(op)
        code = getattr(error, "code", REFUSED)
        refusal = CompileError(text.removeprefix(f"{code}: "), location=where, code=code)
        refusal.schedule = None if op is None else _schedule_around(op)
        raise refusal from error


@contextmanager
def faults_of(name: str, module: ModuleOp) -> Iterator[None]:
    """Turn what fails inside of a pass, rather than refusing something, into a CompileError at the
    program's line that says whose fault it is.
    """
    try:
        yield
    except (DiagnosticException, VerifyException, CompileError, MemoryError):
        raise
    except Exception as error:
        ours = type(error).__module__.split(".")[0] == "cutedialect"
        if ours or (isinstance(error, ValueError | TypeError) and is_raised(error)):
            raise
        op = next((op for op in module.ops if isinstance(op.location, FileLineColLoc)), None)
        text = f"{type(error).__name__}: {error}".rstrip(": ").split("\n", 1)[0]
        raise CompileError(
            f"internal error in {name}: {text}",
            location=None if op is None else _place(op),
            code=INTERNAL,
            notes=("this is a fault of cutedialect, whose traceback CUTEDIALECT_DEBUG=1 shows",),
        ) from error


def _place(op: Operation) -> str | None:
    """The place of an op in the user's Python, if it has one."""
    at = op.location
    if not isinstance(at, FileLineColLoc):
        return None
    return f"{at.filename.data}:{at.line.data}:{at.column.data}"


def _schedule_around(op: Operation) -> str | None:
    """The schedule of the kernel that an op is in, or is, as it is written."""
    around: Operation | None = op
    while around is not None and around.name != "cute.kernel":
        around = around.parent_op()
    schedule = None if around is None else getattr(around, "schedule", None)
    return None if schedule is None else schedule.data.text()


def _first_invalid(module: ModuleOp) -> Operation | None:
    """The op that does not verify: xDSL's verification of a whole module does not tell it."""
    for op in walk(module):
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException:
            return op
    return None
