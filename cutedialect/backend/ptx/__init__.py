"""The ptx dialect as PTX text: `print_ptx`."""

from __future__ import annotations

from .printer import print_ptx, ptx_text

__all__ = ["print_ptx", "ptx_text"]
