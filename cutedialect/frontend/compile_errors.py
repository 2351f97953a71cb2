"""Errors of verifiers and passes as `CompileError`s at the user's line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from cutedialect.backend.runtime.errors import CompileError


@contextmanager
def located() -> Iterator[None]:
    """Turn a failed pass or verification into a CompileError with the location of its op."""
    try:
        yield
    except (DiagnosticException, VerifyException) as error:
        op = next((arg for arg in error.args if isinstance(arg, Operation)), None)
        op = op or getattr(error, "op", None) or getattr(error, "operation", None)
        text = next((arg for arg in error.args if isinstance(arg, str)), str(error))
        where = None
        if op is not None and isinstance(op.location, FileLineColLoc):
            at = op.location
            where = f"{at.filename.data}:{at.line.data}:{at.column.data}"
        raise CompileError(text, location=where, code="CD-PASS") from error
