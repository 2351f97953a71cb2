"""`cutedialect::attention`, with the logarithms of its sums (`attention_lse`) or into a tensor of
the caller (`attention_out`). It has no backward yet, and says so where a gradient is required.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import torch

from cutedialect.choices import Arch, Backend
from cutedialect.frontend.attention import attention as direct_attention
from cutedialect.schedule import Schedule

from .operators import (
    check_deterministic,
    check_forward_mode,
    define,
    is_direct,
    needs_gradient,
    schedule_text,
    torch_dtype,
    with_backward,
)

_OPERANDS = (
    "Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None, int[]? window=None, "
    "float? softcap=None, Tensor? lengths=None, Tensor? q_offsets=None, Tensor? k_offsets=None, "
    "Tensor? block_table=None, Tensor? scale_q=None, Tensor? scale_k=None, Tensor? scale_v=None, "
    "float? factor_q=None, float? factor_k=None, float? factor_v=None, "
    "ScalarType? out_dtype=None, str? arch=None, str? schedule=None, str backend='auto'"
)
_CASTS = ("q", "k", "v")
_NO_BACKWARD = (
    "q, k, v: expected tensors without gradient, got one that requires it, and cute.attention has "
    "no backward yet; take torch.no_grad() or .detach(), or "
    "torch.nn.functional.scaled_dot_product_attention where it has to be differentiated"
)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int, int] | None = None,
    softcap: float | None = None,
    lengths: torch.Tensor | None = None,
    cu_seqlens: tuple[torch.Tensor, torch.Tensor] | None = None,
    block_table: torch.Tensor | None = None,
    scale_q: torch.Tensor | float | None = None,
    scale_k: torch.Tensor | float | None = None,
    scale_v: torch.Tensor | float | None = None,
    return_lse: bool = False,
    out: torch.Tensor | None = None,
    out_dtype: object = None,
    arch: Arch | None = None,
    schedule: Schedule | str | None = None,
    backend: Backend = "auto",
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """`cute.attention` as torch sees it: softmax(scale Q K^T) V of q (B, H, Sq, D), k
    (B, Hk, Sk, D) and v (B, Hk, Sk, Dv), on torch's current stream; `lse` is (B, H, Sq) of f32.

    Arguments and results are those of `cute.attention`. Raises RuntimeError where a gradient is
    required, TypeError or ValueError naming any other argument.
    """
    scales = [_split(each) for each in (scale_q, scale_k, scale_v)]
    tensors, factors = [each[0] for each in scales], [each[1] for each in scales]
    offsets = (None, None) if cu_seqlens is None else cu_seqlens
    given = (q, k, v, out, lengths, *offsets, block_table, *tensors)
    text = schedule_text(schedule)
    if is_direct(given):
        check_deterministic(text)
        return direct_attention(
            q, k, v, causal=causal, scale=scale, window=window, softcap=softcap, lengths=lengths,
            cu_seqlens=cu_seqlens, block_table=block_table, scale_q=scale_q, scale_k=scale_k,
            scale_v=scale_v, return_lse=return_lse, out=out, out_dtype=out_dtype, arch=arch,
            schedule=schedule, backend=backend,
        )  # fmt: skip
    if needs_gradient(given):
        raise RuntimeError(_NO_BACKWARD)
    check_forward_mode(given)
    options = (
        causal, scale, window, softcap, lengths, *offsets, block_table, *tensors, *factors,
        torch_dtype(out_dtype, "out_dtype"), arch, text, backend,
    )  # fmt: skip
    operators = torch.ops.cutedialect
    if out is not None:
        lse = operators.attention_out(out, return_lse, q, k, v, *options)
        return (out, lse) if return_lse else out
    if return_lse:
        return operators.attention_lse(q, k, v, *options)
    return operators.attention(q, k, v, *options)


def _split(scale: torch.Tensor | float | None) -> tuple[torch.Tensor | None, float | None]:
    """A scale as (tensor, number), one of which is None."""
    if scale is None or isinstance(scale, torch.Tensor):
        return scale, None
    return None, float(scale)


def _call(
    q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None, window: Any = None,
    softcap: float | None = None, lengths: Any = None, q_offsets: Any = None,
    k_offsets: Any = None, block_table: Any = None, scale_q: Any = None, scale_k: Any = None,
    scale_v: Any = None, factor_q: float | None = None, factor_k: float | None = None,
    factor_v: float | None = None, out_dtype: Any = None, arch: Arch | None = None,
    schedule: str | None = None, backend: Backend = "auto", *, out: Any = None,
    return_lse: bool = False,
) -> Any:  # fmt: skip
    check_deterministic(schedule)
    packed = q_offsets is not None or k_offsets is not None
    return direct_attention(
        q, k, v, causal=causal, scale=scale, window=None if window is None else tuple(window),
        softcap=softcap, lengths=lengths, cu_seqlens=(q_offsets, k_offsets) if packed else None,
        block_table=block_table,
        scale_q=factor_q if scale_q is None else scale_q,
        scale_k=factor_k if scale_k is None else scale_k,
        scale_v=factor_v if scale_v is None else scale_v,
        return_lse=return_lse, out=out, out_dtype=out_dtype, arch=arch, schedule=schedule,
        backend=backend,
    )  # fmt: skip


def _run_lse(*operands: Any) -> tuple[Any, Any]:
    return _call(*operands, return_lse=True)


def _run_out(out: Any, return_lse: bool, q: Any, *operands: Any) -> Any:
    result = _call(q, *operands, out=out, return_lse=return_lse)
    return result[1] if return_lse else q.new_empty(0, dtype=torch.float32)


_OUT_DTYPE = 17


def _fake(q: Any, k: Any, v: Any, *options: Any) -> Any:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != 4:
            raise ValueError(
                f"{name}: expected 4 dimensions (batch, heads, sequence, head dimension), got "
                f"shape {tuple(tensor.shape)}"
            )
    dtype = options[_OUT_DTYPE - 3] if len(options) > _OUT_DTYPE - 3 else None
    if dtype is None:
        dtype = q.dtype if q.dtype.itemsize > 1 else torch.bfloat16
    return q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=dtype)


def _fake_lse(q: Any, k: Any, v: Any, *options: Any) -> tuple[Any, Any]:
    return _fake(q, k, v, *options), q.new_empty(q.shape[:-1], dtype=torch.float32)


def _fake_out(out: Any, return_lse: bool, q: Any, *operands: Any) -> Any:
    _fake(q, *operands)
    return q.new_empty(q.shape[:-1] if return_lse else 0, dtype=torch.float32)


def _refuse(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    raise RuntimeError(_NO_BACKWARD)


def _backward(ctx: Any, *gradients: Any) -> None:
    raise RuntimeError(_NO_BACKWARD)


define("attention", f"({_OPERANDS}) -> Tensor", _call, _fake, _CASTS)
define("attention_lse", f"({_OPERANDS}) -> (Tensor, Tensor)", _run_lse, _fake_lse, _CASTS)
define(
    "attention_out",
    f"(Tensor(a!) out, bool return_lse, {_OPERANDS}) -> Tensor",
    _run_out,
    _fake_out,
    _CASTS,
)
for _name in ("attention", "attention_lse"):
    with_backward(_name, _backward, _refuse)
