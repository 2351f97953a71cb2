"""Runs tile programs on whole tiles with NumPy: the traced program, and every stage before the pass
that synchronizes, since until then the ops of a module, run in order, give its result.
"""

from __future__ import annotations

from .arrays import copies
from .cta import Choices, FailedAssertion, InterpreterError
from .inputs import draw
from .program import Program, run
from .validation import EXTREMES, Validation, ValidationError, validate

__all__ = [
    "EXTREMES",
    "Choices",
    "FailedAssertion",
    "InterpreterError",
    "Program",
    "Validation",
    "ValidationError",
    "copies",
    "draw",
    "run",
    "validate",
]
