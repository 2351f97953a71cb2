"""The check that verifiers of ops, types and attributes are made of."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException


def check(condition: bool, message: str) -> None:
    """Raise `VerifyException(message)` unless `condition`."""
    if not condition:
        raise VerifyException(message)


def check_result(result: SSAValue, expected: Attribute) -> None:
    """Raise `VerifyException` unless a result has the type that its op infers."""
    check(result.type == expected, f"expected the result type {expected}, got {result.type}")


def check_signs(negated: str, a: Attribute, b: Attribute, has_sums: bool) -> None:
    """Raise `VerifyException` where operands cannot count with the other sign."""
    check(
        not has_sums,
        f"expected sums of operands that count as they are, got negate = {negated}",
    )
    check(
        not (isinstance(a, IntegerType) and isinstance(b, IntegerType)),
        f"expected negate with operands of floats, got {a} and {b}; subtract the sums of a second "
        "accumulator",
    )
