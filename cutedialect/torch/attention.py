"""What is torch's own of `cute.attention`: its gradients, by an operator of their own, which other
graphs than those of autograd see as a whole.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import torch

from cutedialect.frontend.attention_backward import attention_backward as direct_backward
from cutedialect.frontend.declarations import ATTENTION_BACKWARD

from .declared import Given, Operator, Own, given_of, transformable
from .operators import check_deterministic, define, element_type, is_transformed, with_backward

_NAME = "attention_backward"
_NAMES = tuple(name for name, _ in ATTENTION_BACKWARD.operator())
_DIFFERENTIABLE = (torch.float16, torch.bfloat16)
# Tensors of the forward pass that its gradients depend on.
_TENSORS = ("q", "k", "v", "out", "lse", "lengths", "scale_q", "scale_k", "scale_v")
# The rank of scales of the heads of batch entries.
_RANK_OF_HEADS = 2
_OPTIONS = ("causal", "scale", "window", "softcap", "arch", "backend")
_ONCE = (
    "do: expected no gradient through it, got one, and the gradients of cute.attention have none "
    "of their own; take .detach(), or torch.nn.functional.scaled_dot_product_attention where "
    "gradients are differentiated"
)


def _new(given: Given) -> list[Any]:
    """Tensors like q, k and v, without elements where no gradient is wanted."""
    return [
        x.new_empty(x.shape if name in given.wanted else 0)
        for name, x in zip("qkv", (given.q, given.k, given.v), strict=True)
    ]


def _run(*values: Any) -> tuple[Any, ...]:
    given = given_of(ATTENTION_BACKWARD, values, _NAMES)
    check_deterministic(given.schedule)
    made = _new(given)
    if given.cu_seqlens is not None:
        # Rows outside of all sequences are not written.
        for each in made:
            each.zero_()
    outs = {f"d{name}": x for name, x in zip("qkv", made, strict=True) if name in given.wanted}
    is_fixed = given.deterministic or torch.are_deterministic_algorithms_enabled()
    direct_backward(**(vars(given) | outs | {"deterministic": is_fixed}))
    return tuple(made)


def _fake(*values: Any) -> tuple[Any, ...]:
    return tuple(_new(given_of(ATTENTION_BACKWARD, values, _NAMES)))


def _refuse(ctx: Any, *gradients: Any) -> Any:
    raise RuntimeError(_ONCE)


def _forget(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Keep nothing: there is no backward."""


_schema = ", ".join(text for _, text in ATTENTION_BACKWARD.operator())
define(_NAME, f"({_schema}) -> (Tensor, Tensor, Tensor)", _run, _fake)
with_backward(_NAME, _refuse, _forget)
_TRANSFORMABLE = transformable(_NAME, _refuse, _forget)
_DEFAULTS: dict[str, Any] = dict.fromkeys(_NAMES) | {
    each.name: each.default for each in ATTENTION_BACKWARD.parameters if each.name in _NAMES
}


def _remember(
    operator: Operator, suffix: str, ctx: Any, inputs: tuple[Any, ...], output: Any
) -> None:
    """Keep what a backward needs. Refuses what has none, with a remedy."""
    given = operator.given(inputs)
    if not suffix:
        raise ValueError(
            "q, k, v: expected no gradient of cutedialect::attention, got one that is required; "
            "call cutedialect.torch.attention, which takes cutedialect::attention_lse"
        )
    if isinstance(given.v, int):
        raise TypeError(
            "v: expected a tensor where a gradient is required, got a number of columns"
        )
    for name, tensor in (("q", given.q), ("k", given.k), ("v", given.v)):
        if tensor.dtype not in _DIFFERENTIABLE:
            raise TypeError(
                f"{name}: expected f16 or bf16 where a gradient is required, got "
                f"{element_type(tensor.dtype, name).name}; take torch.no_grad(), or 16-bit operands"
            )
    if given.block_table is not None:
        raise ValueError(
            "block_table: expected None where a gradient is required, got a table; gather the "
            "pages, and give k and v as they are"
        )
    scales = [name for name in _TENSORS[-3:] if isinstance(getattr(given, name), torch.Tensor)]
    for name in scales:
        if getattr(given, name).requires_grad:
            raise ValueError(f"{name}: expected no gradient through it, got one; take .detach()")
        if getattr(given, name).ndim > _RANK_OF_HEADS:
            raise ValueError(
                f"{name}: expected one for each head where a gradient is required, got one for "
                "each key; multiply keys and values by them, and give these without scales"
            )
    # Zeros in the place of a gradient that nobody has would be no DTensor.
    ctx.set_materialize_grads(False)
    given.out, given.lse = output
    given.q_offsets, given.k_offsets = given.cu_seqlens or (None, None)
    tensors = {name: getattr(given, name) for name in (*_TENSORS, "q_offsets", "k_offsets")}
    kept = {name: x for name, x in tensors.items() if isinstance(x, torch.Tensor)}
    ctx.options = {name: getattr(given, name) for name in _OPTIONS}
    for name in _TENSORS[-3:]:
        if name not in scales and getattr(given, name) is not None:
            ctx.options[name.replace("scale", "factor")] = getattr(given, name)
    ctx.names = tuple(kept)
    ctx.save_for_backward(*kept.values())


def _backward(operator: Operator, suffix: str, ctx: Any, *slopes: Any) -> tuple[Any, ...]:
    do, dlse = slopes
    tensors = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
    wants = dict(zip(operator.names, ctx.needs_input_grad, strict=False))
    wanted = "".join(name for name in "qkv" if wants.get(name))
    if not wanted or (do is None and dlse is None):
        return operator.gradients()
    given = _DEFAULTS | {"do": do, **tensors, **ctx.options, "dlse": dlse, "wanted": wanted}
    run = _TRANSFORMABLE.apply if is_transformed() else getattr(torch.ops.cutedialect, _NAME)
    found = run(*(given[name] for name in _NAMES))
    return operator.gradients(
        **{name: x for name, x in zip("qkv", found, strict=True) if name in wanted}
    )


ATTENTION = Own(
    """`cute.attention` as torch sees it: softmax(scale Q K^T) V of q (B, H, Sq, D), k
    (B, Hk, Sk, D) and v (B, Hk, Sk, Dv), on torch's current stream; `lse` is (B, H, Sq) of f32.
    With gradients for q, k and v of f16 and bf16 (`cute.attention_backward`), through `lse`, too.

    Arguments and results are those of `cute.attention`. Gradients of rows outside of all packed
    sequences are 0; with `torch.use_deterministic_algorithms` equal calls give equal bits. Where a
    gradient is required, raises TypeError or ValueError naming what has none (8 bits, pages, scales
    that require one); a gradient of a gradient raises RuntimeError.
    """,
    ("q", "k", "v"),
    _remember,
    _backward,
    needs_more=lambda named: "lse",
)
