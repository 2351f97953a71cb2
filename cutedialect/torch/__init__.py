"""`cute.gemm`, `cute.grouped_gemm`, `cute.attention` and `cute.quantize` as operators of torch:
with gradients (but of `quantize`), shapes for fake tensors, autocast, and whole in
`torch.compile(fullgraph=True)`. `op` makes one of any `@cute.kernel`. A call that torch need not
know of goes straight to the kernel.
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

from typing import TYPE_CHECKING

from cutedialect.frontend.calls import DOORS

from .attention import ATTENTION
from .convolutions import CONV2D
from .declared import Operator, Own
from .kernel_op import op
from .products import GEMM, GROUPED_GEMM, ROUTED_GEMM
from .quantize import QUANTIZE

if TYPE_CHECKING:
    from .typed_calls import (
        attention,
        conv2d,
        conv2d_dgrad,
        conv2d_wgrad,
        gemm,
        grouped_gemm,
        quantize,
        routed_gemm,
    )
else:
    _OWN = {
        "gemm": GEMM,
        "grouped_gemm": GROUPED_GEMM,
        "routed_gemm": ROUTED_GEMM,
        "attention": ATTENTION,
        "conv2d": CONV2D,
        "quantize": QUANTIZE,
    }
    for _name, _door in DOORS.items():
        if "torch" not in _door.call.libraries:
            continue
        globals()[_name] = Operator(_door, _OWN.get(_name, Own())).function(globals())

__all__ = [
    "attention",
    "conv2d",
    "conv2d_dgrad",
    "conv2d_wgrad",
    "gemm",
    "grouped_gemm",
    "op",
    "quantize",
    "routed_gemm",
]
