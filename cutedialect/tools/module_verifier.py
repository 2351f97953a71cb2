"""Verifies a whole module so that a failure names its operation. xDSL's own `verify` hides which
operation failed and appends the whole module to the message; here the ops are verified one by one,
innermost first, and then SSA dominance.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from cutedialect.passes.verify_dominance import check_dominance


class OperationError(VerifyException):
    """`op` does not verify; the message is the verifier's, without xDSL's dump of the module."""

    def __init__(self, op: Operation, message: str) -> None:
        super().__init__(message)
        self.op = op


def verify_module(module: ModuleOp) -> None:
    """Raise a VerifyException with an `op` attribute for the first operation that is not valid or
    uses a value that is not defined before it.
    """
    for op in _innermost_first(module):
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            raise OperationError(op, str(error)) from error
        except ValueError as error:
            # xDSL says so of an operand that a pass erased while it was still used.
            raise OperationError(op, str(error)) from error
    check_dominance(module)


def _innermost_first(op: Operation) -> Iterator[Operation]:
    for region in op.regions:
        for block in region.blocks:
            for nested in block.ops:
                yield from _innermost_first(nested)
    yield op
