"""torch where it sees a GPU, which most tables of times need."""

from __future__ import annotations

import sys
from typing import Any


def torch_on_gpu() -> Any:
    """torch, or None, as standard error then says, where it is not installed or sees no GPU."""
    try:
        import torch
    except ModuleNotFoundError:
        print("expected PyTorch on a machine with a GPU, got none", file=sys.stderr)
        return None
    if not torch.cuda.is_available():
        print("expected a GPU, got none", file=sys.stderr)
        return None
    return torch
