"""`cute.gemm`, `cute.grouped_gemm` and `cute.attention` as operators of torch: with gradients (of
the products), shapes for fake tensors, autocast, and whole in `torch.compile(fullgraph=True)`. `op`
makes one of any `@cute.kernel`. A call that torch need not know of goes straight to the kernel.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as _missing:
    if _missing.name != "torch":
        raise
    raise ImportError(
        "expected torch for cutedialect.torch, got none; install it with: "
        "pip install 'cutedialect[torch]'"
    ) from None

from .attention import attention
from .gemm import gemm
from .grouped_gemm import grouped_gemm
from .kernel_op import op

__all__ = ["attention", "gemm", "grouped_gemm", "op"]
