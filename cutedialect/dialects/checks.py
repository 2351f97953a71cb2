"""The check that verifiers of ops, types and attributes are made of."""

from __future__ import annotations

from xdsl.utils.exceptions import VerifyException


def check(condition: bool, message: str) -> None:
    """Raise `VerifyException(message)` unless `condition`."""
    if not condition:
        raise VerifyException(message)
