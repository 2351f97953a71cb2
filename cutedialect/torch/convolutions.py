"""What is torch's own of `cute.conv2d`: its backward is `conv2d_dgrad` and `conv2d_wgrad`, which
are operators, too, and have no gradients of their own.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import torch

from .declared import Operator, Own

_NAMES = ("stride", "padding", "dilation", "arch", "backend")


def _remember(
    operator: Operator, suffix: str, ctx: Any, inputs: tuple[Any, ...], output: Any
) -> None:
    """Keep what a backward needs; refuses what has none, with a remedy."""
    del suffix
    given = operator.given(inputs)
    if given.activation not in (None, "relu"):
        raise ValueError(
            "activation: expected None or 'relu' where a gradient is required, got "
            f"{given.activation!r}; apply it in torch"
        )
    ctx.set_materialize_grads(False)
    ctx.options = {name: getattr(given, name) for name in _NAMES}
    channels = given.x.shape[3]
    ctx.options["groups"] = channels if given.w.shape[3] == 1 else 1
    ctx.bias = None if given.bias is None else given.bias.dtype
    kept = [output] if given.activation else []
    ctx.save_for_backward(given.x, given.w, *kept)


def _backward(operator: Operator, suffix: str, ctx: Any, output: Any) -> tuple[Any, ...]:
    del suffix
    if output is None:
        return operator.gradients()
    x, w, *results = ctx.saved_tensors
    for result in results:
        output = torch.ops.aten.threshold_backward(output, result, 0)
    slopes = output.to(x.dtype).contiguous()
    wants = dict(zip(operator.names, ctx.needs_input_grad, strict=False))
    found: dict[str, Any] = {}
    if wants["x"]:
        found["x"] = _operator("dgrad")(slopes, w, x.shape[1:3], **ctx.options)
    if wants["w"]:
        found["w"] = _operator("wgrad")(x, slopes, w.shape[1:3], **ctx.options)
    if ctx.bias is not None and wants.get("bias"):
        found["bias"] = output.sum((0, 1, 2)).to(ctx.bias)
    return operator.gradients(**found)


def _operator(name: str) -> Any:
    return getattr(torch.ops.cutedialect, f"conv2d_{name}")


CONV2D = Own(
    """`cute.conv2d` as torch sees it, with gradients of x, w and bias of f16, bf16 and f32 (as
    tf32), without an activation and with "relu".

    Arguments and result are those of `cute.conv2d`, on torch's current stream: images are (N, H, W,
    C), which a tensor in channels_last is as x.permute(0, 2, 3, 1). Raises TypeError or ValueError
    naming the argument, also for other activations and `out` where a gradient is required.
    """,
    ("x", "w", "bias"),
    _remember,
    _backward,
)
