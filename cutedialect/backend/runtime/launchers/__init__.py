"""Launchers of compiled kernels in other languages, written from descriptions (`description.py`): a
C99 header on the CUDA driver API alone, and a C++17 one on top of it.
"""

from __future__ import annotations

from .c_dispatch import Alternative, c_dispatcher
from .c_header import Image, c_header
from .cpp_header import cpp_dispatcher, cpp_header

__all__ = ["Alternative", "Image", "c_dispatcher", "c_header", "cpp_dispatcher", "cpp_header"]
