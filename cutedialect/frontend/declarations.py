"""The functions of arrays, each declared beside what has to hold for its arguments."""

from __future__ import annotations

from .attention_operands import ATTENTION, ATTENTION_BACKWARD
from .conv2d_operands import CONV2D, CONV2D_DGRAD, CONV2D_WGRAD
from .gemm_declaration import GEMM, GROUPED_GEMM, LISTED_NAMES, SINGLE_NAMES
from .quantize_operands import QUANTIZE
from .routed_operands import ROUTED_GEMM

__all__ = ["CALLS", "LISTED_NAMES", "SINGLE_NAMES"]

CALLS = (
    GEMM,
    GROUPED_GEMM,
    ROUTED_GEMM,
    ATTENTION,
    ATTENTION_BACKWARD,
    QUANTIZE,
    CONV2D,
    CONV2D_DGRAD,
    CONV2D_WGRAD,
)
