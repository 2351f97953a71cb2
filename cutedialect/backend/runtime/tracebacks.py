"""What a traceback shows of an error that this package raises, or that a program raises while it is
traced: the caller, the entry point, and the program's own lines, without the frames between them.
CUTEDIALECT_DEBUG=1 shows all. An error of the arguments gets the code of its page, which a
traceback names below the message.
"""

from __future__ import annotations

import dis
import os
import sys
from types import TracebackType

from cutedialect import environment
from cutedialect.backend.runtime.errors import CompileError, KernelAssertionError
from cutedialect.backend.runtime.library_files import is_library_file

_PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")) + os.sep
_LIBRARY = os.path.join(_PACKAGE, "frontend", "library") + os.sep
_TOOLS = os.path.join(_PACKAGE, "tools") + os.sep
# Where names are looked up that are none of ours.
_NAMES = ("__init__.py", os.path.join("frontend", "hints.py"))
# With the caller's that is three frames of a user's code.
_SHOWN = 2


def concise(error: Exception) -> Exception:
    """The error to raise at an entry point: a mistake of the user with a short traceback, anything
    else, which is a fault of ours, as it is.
    """
    if not _is_for_user(error):
        return error
    _explain(error)
    if isinstance(error, CompileError):
        _blame_call(error)
    if environment.debug():
        return error
    frames: list[TracebackType] = []
    here = error.__traceback__
    while here is not None:
        if not _is_ours(here):
            frames.append(here)
        here = here.tb_next
    shown: TracebackType | None = None
    for each in reversed(frames[-_SHOWN:]):
        shown = TracebackType(shown, each.tb_frame, each.tb_lasti, each.tb_lineno)
    error.__cause__, error.__suppress_context__ = None, True
    return error.with_traceback(shown)


def is_raised(error: BaseException) -> bool:
    """Whether a `raise` of this package made an error, rather than an operation that failed in it,
    such as a shift by a negative number.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not last.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _blame_call(error: CompileError) -> None:
    """Let a refused program of the library, such as that of `cute.gemm`, be an error of the call
    that asked for it; the library's line becomes a note.
    """
    if error.location is None or not error.location.startswith(_LIBRARY):
        return
    frame = None if error.__traceback__ is None else error.__traceback__.tb_frame
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_TOOLS):
            frame = None  # the command line is no place
        elif name.startswith(_PACKAGE) or is_library_file(name):
            frame = frame.f_back
        else:
            break
    place = error.location.removeprefix(_PACKAGE)
    error.notes += (f"in the library's program, cutedialect/{place.replace(os.sep, '/')}",)
    error.location = None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def explained() -> _Explained:
    """A context in which errors become what `concise` makes of them."""
    return _Explained()


class _Explained:
    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        # What goes on is the error with the traceback that it has now.
        if isinstance(error, Exception):
            concise(error)


# Of errors of this package that are Python's own classes; subclasses have a code themselves.
_CODES = ((TypeError, "CD-K1"), (ValueError, "CD-K2"), (RuntimeError, "CD-DEVICE"))


def _explain(error: Exception) -> None:
    """Give an error of the arguments a code, and name its page where tracebacks show notes."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not last.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        return  # raised by a user's function
    code = getattr(error, "code", None)
    if code is None:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), None)
        if code is None:
            return
        error.code = code  # type: ignore[attr-defined]
    note = f"python -m cutedialect explain {code}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _is_for_user(error: Exception) -> bool:
    """Whether an error is one that we raise on purpose, or that a user's code raises."""
    from cutedialect.backend.emulator import EmulatorError

    if isinstance(error, CompileError | EmulatorError | KernelAssertionError):
        return True
    interpreter = sys.modules.get("cutedialect.backend.interpreter.cta")
    if interpreter is not None and isinstance(error, interpreter.InterpreterError):
        return True
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    # Wrong arguments are named by functions of this package; xDSL's own errors are none of these.
    is_named = isinstance(error, TypeError | ValueError | RuntimeError | OSError)
    name = last.tb_frame.f_code.co_filename
    if isinstance(error, AttributeError) and name.removeprefix(_PACKAGE) in _NAMES:
        return True  # a name that the package, or a tile, does not have
    return is_named if name.startswith(_PACKAGE) else not _is_library(name)


def _is_ours(frame: TracebackType) -> bool:
    name = frame.tb_frame.f_code.co_filename
    return name.startswith(_PACKAGE) or os.path.basename(name) == "contextlib.py"


def _is_library(name: str) -> bool:
    return f"{os.sep}xdsl{os.sep}" in name
