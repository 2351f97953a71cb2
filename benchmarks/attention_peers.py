"""FlashAttention and cuDNN by the operators of torch that take what scaled_dot_product_attention
does not: windows, and packed sequences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .attention_case import Attention, Tensors
    from .case import Call

FLASH_DIRECT, CUDNN_PACKED = "flash, direct", "cuDNN, packed"


def flash(torch: Any, case: Attention) -> Call:
    """flash with a window, or on packed sequences."""
    kernel = torch.ops.aten._flash_attention_forward
    options = {} if case.window is None else {"window_size_left": case.window}
    options |= {"window_size_right": 0} if options else {}

    def call(operands: Tensors) -> Any:
        if case.packed:
            offsets, longest = operands.options["cu_seqlens"], max(case.packed)
            q, k, v = (each[0].transpose(0, 1) for each in operands.plain)
            found = kernel(q, k, v, *offsets, longest, longest, 0.0, case.causal, False, **options)
            return found[0].transpose(0, 1)[None]
        q, k, v = (each.transpose(1, 2) for each in operands.plain)
        lengths = case.rows, case.keys
        masks = case.causal and not options
        found = kernel(q, k, v, None, None, *lengths, 0.0, masks, False, **options)
        return found[0].transpose(1, 2)

    return call


def cudnn_packed(torch: Any, case: Attention) -> Call:
    """cuDNN on packed sequences."""
    kernel = torch.ops.aten._cudnn_attention_forward

    def call(operands: Tensors) -> Any:
        offsets, longest = operands.options["cu_seqlens"], max(case.packed)
        q, k, v = (each[0].transpose(0, 1) for each in operands.plain)
        found = kernel(q, k, v, None, *offsets, longest, longest, False, 0.0, case.causal, False)
        return found[0].transpose(0, 1)[None]

    return call
