"""Launchers of compiled kernels in other languages, written from descriptions (`description.py`): a
C99 header on the CUDA driver API alone, and on top of it one in C++17, a module of TVM FFI and
operators of torch.
"""

from __future__ import annotations

from .c_dispatch import Alternative, c_dispatcher
from .c_header import Image, c_header
from .cpp_header import cpp_dispatcher, cpp_header
from .torch_module import ElementType, TorchOperator, TorchVariant, torch_module
from .tvm_ffi_module import tvm_ffi_module

__all__ = [
    "Alternative",
    "ElementType",
    "Image",
    "TorchOperator",
    "TorchVariant",
    "c_dispatcher",
    "c_header",
    "cpp_dispatcher",
    "cpp_header",
    "torch_module",
    "tvm_ffi_module",
]
