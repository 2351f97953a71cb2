"""The check that verifiers of ops, types and attributes are made of."""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException


def check(condition: bool, message: str) -> None:
    """Raise `VerifyException(message)` unless `condition`."""
    if not condition:
        raise VerifyException(message)


def check_result(result: SSAValue, expected: Attribute) -> None:
    """Raise `VerifyException` unless a result has the type that its op infers."""
    check(result.type == expected, f"expected the result type {expected}, got {result.type}")
