"""Errors of verifiers and passes as `CompileError`s at the user's line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from cutedialect.backend.runtime.errors import CompileError
from cutedialect.dialects.walks import walk


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
        where = None
        if op is not None and isinstance(op.location, FileLineColLoc):
            at = op.location
            where = f"{at.filename.data}:{at.line.data}:{at.column.data}"
        raise CompileError(text, location=where, code="CD-PASS") from error


def _first_invalid(module: ModuleOp) -> Operation | None:
    """The op that does not verify: xDSL's verification of a whole module does not tell it."""
    for op in walk(module):
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException:
            return op
    return None
