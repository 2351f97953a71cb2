"""What is torch's own of `cute.gemm` and `cute.grouped_gemm`. Their backward is two products,
dA = dC B^T and dB = A^T dC, by the same operators. `gemm_aux` also returns what stands before the
activation, which others than relu need for theirs; `gemm_out` writes tensors of the caller.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from cutedialect.frontend.gemm import with_numbers

from .declared import Operator, Own
from .operators import element_type
from .weights import weights_of

# Activations whose derivative is known from the result; others need what stands before them.
_FROM_RESULT = (None, "relu")
_DIFFERENTIABLE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Weights, through which gradients go to a: integers, or what holds packed ones.
_WEIGHTS = (torch.int8, torch.uint8)
_HOLDERS = (*_WEIGHTS, torch.int32, torch.uint32)


def _lists(operator: Operator, *values: Any) -> list[Any]:
    """Tensors as those of several problems."""
    return [x if x is None or operator.call.is_of_lists else (x,) for x in values]


def _check_differentiable(name: str, tensor: Any, weights: Sequence[Any] = ()) -> None:
    """Refuse operands of types that have no gradient, nor are `weights` of one that has."""
    if tensor.dtype not in _DIFFERENTIABLE and tensor.dtype not in weights:
        raise TypeError(
            f"{name}: expected f16, bf16, f32 or f64 where a gradient is required, got "
            f"{element_type(tensor.dtype, name).name}; take torch.no_grad(), or 16-bit operands"
        )


def _remember(
    operator: Operator, suffix: str, ctx: Any, inputs: tuple[Any, ...], output: Any
) -> None:
    """Keep what a backward needs: operands, the activation with what its derivative is taken of.
    Refuses what has none, with a remedy.
    """
    given = with_numbers(operator.given(inputs))
    tensors_of = (getattr(given, name) for name in operator.own.casts)
    as_, bs, c, bias = _lists(operator, *tensors_of)
    weights = _WEIGHTS if given.packed_b is None else _HOLDERS
    for a, b in zip(as_, bs, strict=True):
        _check_differentiable("a", a)
        _check_differentiable("b", b, weights)
    ctx.weights = weights_of(operator, given, bs)
    if given.is_scaled and ctx.weights is None:
        raise ValueError(
            "scale_a, scale_b: expected None where a gradient is required, got a scale; multiply "
            "a or b by it in torch, or use alpha for one number"
        )
    ctx.activation = given.activation
    if not suffix and ctx.activation not in _FROM_RESULT:
        one = "cutedialect::gemm", "call cutedialect.torch.gemm, which takes cutedialect::gemm_aux"
        several = "grouped_gemm", "apply it to the results in torch"
        what, instead = several if operator.call.is_of_lists else one
        raise ValueError(
            f"activation: expected None or 'relu' for a gradient of {what}, got "
            f"{ctx.activation!r}; {instead}"
        )
    # Zeros in the place of a gradient that nobody has would be no DTensor.
    ctx.set_materialize_grads(False)
    names = ("alpha", "arch", "backend", "precision")
    ctx.options = {name: x for name in names if (x := getattr(given, name, None)) is not None}
    ctx.beta, ctx.count = given.beta, len(as_)
    ctx.c = None if c is None else [(each.shape, each.dtype) for each in c]
    ctx.bias = None if bias is None else [each.dtype for each in bias]
    befores = [output[1]] if suffix else _lists(operator, output)[0] if ctx.activation else []
    factors = () if ctx.weights is None else ctx.weights.factors
    ctx.factors = len(factors)
    ctx.save_for_backward(*as_, *bs, *factors, *befores)


def _backward(operator: Operator, suffix: str, ctx: Any, *outputs: Any) -> tuple[Any, ...]:
    saved, count = ctx.saved_tensors, ctx.count
    as_, bs = saved[:count], saved[count : 2 * count]
    factors, befores = saved[2 * count :][: ctx.factors], saved[2 * count + ctx.factors :]
    gradients = _through(operator, ctx, outputs[0], as_, bs, befores)
    if suffix and outputs[1] is not None:
        gradients = [outputs[1] if gradients[0] is None else gradients[0] + outputs[1]]
    # torch leaves out trailing arguments that have their defaults.
    wants = [any(x) if isinstance(x, list | tuple) else x for x in ctx.needs_input_grad]
    wants += [False] * (4 - len(wants))
    if ctx.weights is not None:
        of_a = ctx.weights.through(operator, gradients[0], as_[0], bs[0], factors, ctx.options)
        found = [[of_a], None, None, None]
    else:
        found = [*_of_operands(operator, ctx, gradients, as_, bs, wants), None, None]
    if wants[2] and ctx.c is not None and ctx.beta != 0:
        pairs = zip(gradients, ctx.c, strict=True)
        found[2] = [_summed(each * ctx.beta, shape).to(dtype) for each, (shape, dtype) in pairs]
    if wants[3] and ctx.bias is not None:
        pairs = zip(gradients, ctx.bias, strict=True)
        found[3] = [each.sum(tuple(range(each.dim() - 1))).to(dtype) for each, dtype in pairs]
    if not operator.call.is_of_lists:
        found = [each and each[0] for each in found]
    made = operator.gradients(**dict(zip(operator.own.casts, found, strict=True)))
    return made[: len(ctx.needs_input_grad)] if operator.call.is_of_lists else made


def _of_operands(
    operator: Operator,
    ctx: Any,
    gradients: Sequence[Any],
    as_: Sequence[Any],
    bs: Sequence[Any],
    wants: Sequence[bool],
) -> list[Any]:
    """dA = G B^T and dB = A^T G of each problem, None for one that is not wanted."""
    slopes = [g.to(a.dtype).contiguous() for g, a in zip(gradients, as_, strict=True)]
    of_a = of_b = [None] * ctx.count
    if wants[0]:
        of_a = _products(operator, slopes, [b.mT for b in bs], as_, ctx.options)
    if wants[1]:
        triples = list(zip(as_, slopes, bs, strict=True))
        rows = [a.flatten(0, -2) if b.dim() == 2 else a for a, _, b in triples]
        flat = [g.flatten(0, -2) if b.dim() == 2 else g for _, g, b in triples]
        of_b = _products(operator, [a.mT for a in rows], flat, bs, ctx.options)
    return [of_a, of_b]


def _through(
    operator: Operator,
    ctx: Any,
    output: Any,
    as_: Sequence[Any],
    bs: Sequence[Any],
    befores: Sequence[Any],
) -> list[Any]:
    """The gradients in front of the activation; zeros for a result of several that has none."""
    gradients = list(_lists(operator, output)[0])
    if operator.call.is_of_lists:
        shapes = [(a.shape[0], b.shape[1]) for a, b in zip(as_, bs, strict=True)]
        triples = zip(gradients, as_, shapes, strict=True)
        gradients = [a.new_zeros(shape) if g is None else g for g, a, shape in triples]
    if not befores or ctx.activation is None:
        return gradients
    derived, pairs = _DERIVATIVES[ctx.activation], zip(gradients, befores, strict=True)
    return [each if each is None else derived(each, before) for each, before in pairs]


def _products(
    operator: Operator,
    ones: Sequence[Any],
    others: Sequence[Any],
    likes: Sequence[Any],
    options: dict[str, Any],
) -> list[Any]:
    """Products in the shapes of `likes`; sums over dimensions that these broadcast are of f32."""
    if operator.call.is_of_lists:
        return operator.operator()(list(ones), list(others), out_dtype=likes[0].dtype, **options)
    (one,), (other,), (like,) = ones, others, likes
    batch = torch.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    is_summed = tuple(batch) != tuple(like.shape[:-2])
    dtype = torch.float32 if is_summed and like.dtype != torch.float64 else like.dtype
    product = operator.entry(one, other, out_dtype=dtype, **options)
    return [_summed(product, like.shape).to(like.dtype)]


def _summed(value: Any, shape: Any) -> Any:
    return value if value.shape == shape else value.sum_to_size(shape)


_DERIVATIVES: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda gradient, before: torch.ops.aten.threshold_backward(gradient, before, 0),
    "gelu": lambda gradient, before: torch.ops.aten.gelu_backward(gradient, before),
    "silu": lambda gradient, before: _silu_backward(gradient, before),
    "tanh": lambda gradient, before: torch.ops.aten.tanh_backward(gradient, torch.tanh(before)),
    "sigmoid": lambda gradient, before: torch.ops.aten.sigmoid_backward(
        gradient, torch.sigmoid(before)
    ),
}


def _silu_backward(gradient: Any, before: Any) -> Any:
    """torch's own has no derivative, so that it is spelled out where one may be taken of it."""
    if not torch.is_grad_enabled():
        return torch.ops.aten.silu_backward(gradient, before)
    sigmoid = torch.sigmoid(before)
    return gradient * sigmoid * (1 + before * (1 - sigmoid))


GEMM = Own(
    """`cute.gemm` as torch sees it: activation(alpha A B + beta C + bias) of a (..., M, K) and
    b (..., K, N), with gradients for a, b, c and bias of f16, bf16, f32 (as tf32, or in the
    `precision` "3xtf32" of the product) and f64.

    Arguments and result are those of `cute.gemm`, on torch's current stream. A backward computes
    its products in the operands' element type, sums over broadcast dimensions in f32. Through
    weights of 8 and 4 bits, their scales and zeros, gradients go to a, a product for each group of
    rows that share a scale. Where a
    gradient is required or torch compiles, `activation` is a name or None. Raises
    TypeError or ValueError naming the argument, also for scales, `out` and `aux` where a gradient
    is required.
    """,
    ("a", "b", "c", "bias"),
    _remember,
    _backward,
    needs_more=lambda named: "" if named["activation"] in _FROM_RESULT else "aux",
    instead="; make your kernel an operator by cutedialect.torch.op",
)
GROUPED_GEMM = Own(
    """`cute.grouped_gemm` as torch sees it, with gradients for the tensors of `as_`, `bs`, `c`
    and `bias`, of f16, bf16, f32 (as tf32) and f64, for activations None and "relu".

    Raises TypeError or ValueError naming the argument, also for scales, `out` and `aux` where a
    gradient is required, and for `out` and `aux` where torch compiles.
    """,
    ("as_", "bs", "c", "bias"),
    _remember,
    _backward,
)


def _remember_routed(
    operator: Operator, suffix: str, ctx: Any, inputs: tuple[Any, ...], output: Any
) -> None:
    """Keep what the gradient of a needs; refuses what has none, with a remedy."""
    del suffix, output
    given = operator.given(inputs)
    for name, wanted in _ONLY_OF_ROWS.items():
        value = getattr(given, name)
        is_refused = wanted == "None" or getattr(value, "requires_grad", False)
        if value is not None and is_refused:
            raise ValueError(
                f"{name}: expected {wanted} where a gradient of a is required; take "
                "a call of cutedialect.torch.gemm for each group, or torch.no_grad()"
            )
    if given.activation is not None:
        raise ValueError(
            f"activation: expected None where a gradient is required, got {given.activation!r}; "
            "apply it in torch"
        )
    if given.scatter is not None and given.scatter.dim() > 1:
        raise ValueError(
            "scatter: expected (rows,) where a gradient is required, got two dimensions; take the "
            "row of each product, and count="
        )
    ctx.set_materialize_grads(False)
    ctx.count, ctx.dtype = given.a.shape[0], given.a.dtype
    ctx.options = {name: getattr(given, name) for name in ("arch", "backend")}
    kept = (given.b, given.offsets, given.lengths, given.rows, given.scatter, given.weights)
    ctx.save_for_backward(*kept)


_ONLY_OF_ROWS = {
    "b": "matrices without gradient",
    "bias": "a bias without gradient",
    "weights": "weights without gradient",
    **dict.fromkeys(
        ("gated", "scale_a", "scale_b", "zero_b", "scale_gated", "zero_gated", "packed_b"), "None"
    ),
}


def _backward_routed(operator: Operator, suffix: str, ctx: Any, output: Any) -> tuple[Any, ...]:
    """The gradient of a is a product of the same groups, in which rows and scatter are exchanged:
    of each row of the groups the slopes of the row that it was added to, times weight and matrix.
    """
    del suffix
    if output is None:
        return operator.gradients()
    b, offsets, lengths, rows, scatter, weights = ctx.saved_tensors
    slopes = output.to(ctx.dtype).contiguous()
    # Rows that are in no group have no part in the result, and no gradient.
    target = torch.arange(ctx.count, dtype=offsets.dtype, device=b.device) if rows is None else rows
    made = operator.entry(
        slopes, b.mT, offsets, lengths=lengths, rows=scatter, scatter=target, weights=weights,
        count=ctx.count, **ctx.options,
    )  # fmt: skip
    return operator.gradients(a=made.to(ctx.dtype))


ROUTED_GEMM = Own(
    """`cute.routed_gemm` as torch sees it, with the gradient of `a` of f16, bf16 and f32 (as tf32)
    where nothing else has one: a product of the same groups, in which `rows` and `scatter` are
    exchanged, added up by atomics.

    Arguments and result are those of `cute.routed_gemm`, on torch's current stream. Raises
    TypeError or ValueError naming the argument, also for an activation, `gated`, `scale_b`, a
    scatter (S, k) and `out` where a gradient is required.
    """,
    ("a", "b", "gated", "bias"),
    _remember_routed,
    _backward_routed,
)
