"""The functions of arrays: what each of them shares with those of other libraries."""

from __future__ import annotations

from typing import Any

from .attention import door as attention
from .attention_backward import door as attention_backward
from .doors import Door
from .gemm import door as gemm
from .grouped_gemm import door as grouped_gemm

DOORS: dict[str, Door[Any, Any]] = {
    each.call.name: each for each in (gemm, grouped_gemm, attention, attention_backward)
}
