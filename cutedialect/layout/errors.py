"""Errors of the layout algebra."""

from __future__ import annotations


class LayoutError(ValueError):
    """A precondition of the algebra that does not hold; the message shows the layouts."""

    code = "CD-LAYOUT"


class LayoutSyntaxError(LayoutError):
    """Text that is not a layout; `offset` is the character that is wrong."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset
