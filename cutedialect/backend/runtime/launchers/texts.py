"""Texts of C and C++ that launchers are made of, in files beside this one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files


def text_of(file: str) -> str:
    """The text of a file."""
    return (files("cutedialect.backend.runtime.launchers") / file).read_text(encoding="utf-8")


def filled(file: str, words: Mapping[str, str]) -> str:
    """The text of a file with a word in the place of each `@name@`."""
    return re.sub(r"@(\w+)@", lambda match: words[match[1]], text_of(file))
