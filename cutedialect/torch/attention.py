"""`cutedialect::attention`, with the logarithms of its sums (`attention_lse`) or into a tensor of
the caller (`attention_out`). It has no backward yet, and says so where a gradient is required.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from cutedialect.frontend.attention import attention as direct_attention
from cutedialect.frontend.declarations import ATTENTION

from .declared import Given, Operator, Values
from .operators import check_forward_mode, needs_gradient, with_backward

_NO_BACKWARD = (
    "q, k, v: expected tensors without gradient, got one that requires it, and cute.attention has "
    "no backward yet; take torch.no_grad() or .detach(), or "
    "torch.nn.functional.scaled_dot_product_attention where it has to be differentiated"
)
_CASTS = ("q", "k", "v")
OPERATOR = Operator(ATTENTION, direct_attention)


def _operated(named: dict[str, Any], tensors: tuple[Any, ...], values_of: Values) -> Any:
    if needs_gradient(tensors):
        raise RuntimeError(_NO_BACKWARD)
    check_forward_mode(tensors)
    values, operators = values_of(), torch.ops.cutedialect
    out, returns_lse = named["out"], named["return_lse"]
    if out is not None:
        lse = operators.attention_out(out, returns_lse, *values)
        return (out, lse) if returns_lse else out
    return (operators.attention_lse if returns_lse else operators.attention)(*values)


def _run_out(given: Given) -> Any:
    result = OPERATOR.run(given)
    return result[1] if given.return_lse else given.q.new_empty(0, dtype=torch.float32)


def _fake(given: Given) -> Any:
    q, v, dtype = given.q, given.v, given.out_dtype
    for name, tensor in (("q", q), ("k", given.k), ("v", v)):
        if tensor.dim() != 4:
            raise ValueError(
                f"{name}: expected 4 dimensions (batch, heads, sequence, head dimension), got "
                f"shape {tuple(tensor.shape)}"
            )
    if dtype is None:
        dtype = q.dtype if q.dtype.itemsize > 1 else torch.bfloat16
    return q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=dtype)


def _fake_sums(given: Given) -> Any:
    return given.q.new_empty(given.q.shape[:-1], dtype=torch.float32)


def _fake_out(given: Given) -> Any:
    _fake(given)
    return _fake_sums(given) if given.return_lse else given.q.new_empty(0, dtype=torch.float32)


def _no_backward(*ignored: Any) -> None:
    raise RuntimeError(_NO_BACKWARD)


def _no_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _no_backward()


OPERATOR.define(_fake, "Tensor", casts=_CASTS)
OPERATOR.define(
    lambda given: (_fake(given), _fake_sums(given)),
    "(Tensor, Tensor)",
    suffix="_lse",
    run=lambda given: OPERATOR.run(given, return_lse=True),
    casts=_CASTS,
)
OPERATOR.define(
    _fake_out,
    "Tensor",
    suffix="_out",
    leading={"out": "Tensor(a!) out", "return_lse": "bool return_lse"},
    run=_run_out,
    casts=_CASTS,
)
for _name in ("attention", "attention_lse"):
    with_backward(_name, _no_backward, _no_context)

if TYPE_CHECKING:
    from .typed_calls import attention
else:
    attention = OPERATOR.function(
        globals(),
        """`cute.attention` as torch sees it: softmax(scale Q K^T) V of q (B, H, Sq, D), k
    (B, Hk, Sk, D) and v (B, Hk, Sk, Dv), on torch's current stream; `lse` is (B, H, Sq) of f32.

    Arguments and results are those of `cute.attention`. Raises RuntimeError where a gradient is
    required, TypeError or ValueError naming any other argument.
    """,
        _operated,
    )
