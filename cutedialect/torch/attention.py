"""What is torch's own of `cute.attention`. It has no backward yet, and says so where a gradient is
required.
"""

from __future__ import annotations

from .declared import Own

ATTENTION = Own(
    """`cute.attention` as torch sees it: softmax(scale Q K^T) V of q (B, H, Sq, D), k
    (B, Hk, Sk, D) and v (B, Hk, Sk, Dv), on torch's current stream; `lse` is (B, H, Sq) of f32.

    Arguments and results are those of `cute.attention`. Raises RuntimeError where a gradient is
    required, TypeError or ValueError naming any other argument.
    """,
    ("q", "k", "v"),
    no_backward="q, k, v: expected tensors without gradient, got one that requires it, and "
    "cute.attention has no backward yet; take torch.no_grad() or .detach(), or "
    "torch.nn.functional.scaled_dot_product_attention where it has to be differentiated",
)
