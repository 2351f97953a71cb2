"""Colors of a terminal, in the roles that clang and MLIR give them."""

from __future__ import annotations

_STYLES = {
    "text": "1",
    "error": "1;31",
    "warning": "1;35",
    "remark": "1;34",
    "note": "1;36",
    "caret": "1;32",
    "code": "36",
}


def styled(text: str, style: str) -> str:
    """The text with the escape sequences of a style around it (ECMA-48, "Select graphic
    rendition").
    """
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"
