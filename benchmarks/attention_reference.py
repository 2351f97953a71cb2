"""Attention in float64 on sampled rows, and in the precision of the inputs: every 61st row of each
sequence and the last, in all heads, so that each tile of 64 rows has a row in the sample.

Errors are two figures, the largest and the mean. What is right by them is FlashAttention's rule: at
most twice those of a computation that rounds the scores and the probabilities to the input's type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import frexp, inf, prod
from typing import TYPE_CHECKING, Any

from .accuracy import double

if TYPE_CHECKING:
    from .attention_case import Attention, Tensors

_STEP = 61
# Of the scores, or of the keys, of as many heads as are computed at once in float64.
_MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class _Piece:
    """Sampled rows of some heads of sequences of equal lengths, (sequences, heads, rows or keys,
    depth); `hidden` (rows, keys) is what a row does not see, `bias` what is added to the scores,
    None for nothing. A scale is (heads, 1, 1), or None.
    """

    q: Any
    k: Any
    v: Any
    out: Any
    scales: tuple[Any, Any, Any]
    hidden: Any
    bias: Any


def exact(torch: Any, case: Attention, operands: Tensors) -> list[Any]:
    """The sampled rows of each piece, in float64."""
    return [_exact(torch, piece) for piece in _pieces(torch, case, operands)]


def deviations(
    torch: Any, case: Attention, operands: Tensors, exact: Sequence[Any]
) -> tuple[float, float]:
    """(largest, mean) absolute error of the output in the sampled rows."""
    return _errors(torch, case, operands, exact, lambda piece: piece.out)


def units(torch: Any, case: Attention, operands: Tensors, exact: Sequence[Any]) -> float:
    """The largest error of the sampled rows in units in the last place of the exact value there."""
    found: list[tuple[float, float]] = []
    for piece, wanted in zip(_pieces(torch, case, operands), exact, strict=True):
        apart = (double(piece.out) - wanted).abs().reshape(-1)
        at = apart.argmax()
        error, value = float(apart[at].item()), float(wanted.reshape(-1)[at].item())
        found.append((error, error / unit(torch.finfo(piece.out.dtype), value)))
    return max(found)[1]


def unit(kind: Any, value: float) -> float:
    """What the last place of a value of a type stands for."""
    return kind.eps * max(2.0 ** (frexp(value)[1] - 1), kind.smallest_normal)


def rounded(
    torch: Any, case: Attention, operands: Tensors, exact: Sequence[Any]
) -> tuple[float, float]:
    """(largest, mean) absolute error of a plain computation in the inputs' precision."""
    return _errors(torch, case, operands, exact, lambda piece: _plain(torch, piece))


def _errors(
    torch: Any,
    case: Attention,
    operands: Tensors,
    exact: Sequence[Any],
    result: Callable[[_Piece], Any],
) -> tuple[float, float]:
    largest, total, count = [], [], 0
    for piece, wanted in zip(_pieces(torch, case, operands), exact, strict=True):
        apart = (double(result(piece)) - wanted).abs()
        largest.append(apart.max())
        total.append(apart.sum())
        count += prod(wanted.shape)
    return max(float(each.item()) for each in largest), sum(
        float(each.item()) for each in total
    ) / count


def _exact(torch: Any, piece: _Piece) -> Any:
    of_q, of_k, of_v = (None if each is None else double(each) for each in piece.scales)
    q, k, v = (
        _scaled(double(each), scale)
        for each, scale in ((piece.q, of_q), (piece.k, of_k), (piece.v, of_v))
    )
    scores = _times(torch, q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    return _times(torch, torch.softmax(_masked(scores, piece), -1), v)


def _plain(torch: Any, piece: _Piece) -> Any:
    """Scores and probabilities of the inputs' type. Of 8 bits only probabilities are, before they
    are divided by their sum: those of long rows are below the least number otherwise.
    """
    factor = piece.q.shape[-1] ** -0.5
    if piece.k.element_size() > 1:
        scores = _times(torch, piece.q, piece.k.transpose(-1, -2)) * factor
        weights = torch.softmax(_masked(scores, piece).float(), -1).to(piece.v.dtype)
        return _times(torch, weights, piece.v)
    of_q, of_k, of_v = piece.scales
    q, k = _scaled(piece.q.float(), of_q), _scaled(piece.k.float(), of_k)
    scores = _masked(_times(torch, q, k.transpose(-1, -2)) * factor, piece)
    weights = (scores - scores.amax(-1, True)).exp()
    products = _times(torch, weights.to(piece.v.dtype).float(), _scaled(piece.v.float(), of_v))
    return (products / weights.sum(-1, True)).to(piece.out.dtype)


def _pieces(torch: Any, case: Attention, operands: Tensors) -> Iterator[_Piece]:
    """All of the sample, as few sequences and heads at a time as fit."""
    scales = [operands.options.get(name) for name in ("scale_q", "scale_k", "scale_v")]
    chosen, row, key, hidden = _sampled(torch, case)
    sampled, keys = row.shape[0], key.shape[1]
    most = 8 * keys * max(case.depth, case.group * sampled)
    fit = max(1, _MOST_BYTES // most)
    heads, many = min(case.heads[1], fit), max(1, fit // case.heads[1])
    for q, k, v, out in _sequences(case, operands):
        for first in range(0, case.heads[1], heads):
            narrow = slice(first, min(first + heads, case.heads[1]))
            wide = slice(narrow.start * case.group, narrow.stop * case.group)
            of_q, of_k, of_v = (
                None if scale is None else scale[heads].reshape(-1, 1, 1)
                for scale, heads in zip(scales, (wide, narrow, narrow), strict=True)
            )
            bias = case.bias(torch, wide, row, key)
            for begin in range(0, q.shape[0], many):
                some = slice(begin, begin + many)
                yield _Piece(
                    _rows(q[some, wide], chosen), k[some, narrow], v[some, narrow],
                    _rows(out[some, wide], chosen), (of_q, of_k, of_v), hidden, bias,
                )  # fmt: skip


def _sequences(case: Attention, operands: Tensors) -> Iterator[tuple[Any, Any, Any, Any]]:
    """(q, k, v, out) of all sequences together, or of one after the other where they lie in pages;
    arrays are (sequences, heads, rows or keys, depth). Packed sequences are one.
    """
    q, k, v, out = operands.q, operands.k, operands.v, operands.out
    if not case.page:
        yield q, k, v, out
        return
    for number, pages in enumerate(operands.options["block_table"].long()):
        alone = slice(number, number + 1)
        of_keys = (
            each[pages].transpose(0, 1).reshape(1, case.heads[1], case.keys, each.shape[-1])
            for each in (k, v)
        )
        yield q[alone], *of_keys, out[alone]


def _rows(matrices: Any, chosen: Any) -> Any:
    """Some rows, of a type that can be gathered."""
    wide = matrices.float() if matrices.element_size() == 1 else matrices
    return wide[..., chosen, :]


def _sampled(torch: Any, case: Attention) -> tuple[Any, Any, Any, Any]:
    """The numbers of the sampled rows, the key (rows, 1) that each is aligned with, all keys (1,
    keys), and which of them a row does not see, or None. Of packed sequences a row does not see
    the keys of others.
    """
    many = case.sequences if case.packed else case.sequences[:1]
    chosen: list[int] = []
    numbers: list[tuple[int, int, int]] = []
    start = 0
    for rows, keys in many:
        here = [*range(0, rows, _STEP), rows - 1]
        chosen += [start + each for each in here]
        numbers += [(start + each + keys - rows, start, start + keys) for each in here]
        start += rows
    aligned, first, end = (
        torch.tensor(list(each), dtype=torch.int64, device="cuda").reshape(-1, 1)
        for each in zip(*numbers, strict=True)
    )
    key = torch.arange(0, sum(keys for _, keys in many), device="cuda").reshape(1, -1)
    hidden = case.hides(torch, aligned, key)
    if case.packed:
        apart = (key < first) | (key > end - 1)
        hidden = apart if hidden is None else hidden | apart
    return torch.tensor(chosen, dtype=torch.int64, device="cuda"), aligned, key, hidden


def _times(torch: Any, many: Any, few: Any) -> Any:
    """Matrices of many heads, some after each other, by one of few heads each."""
    together = many.reshape(*few.shape[:-2], -1, many.shape[-1])
    return torch.matmul(together, few).reshape(*many.shape[:-1], few.shape[-1])


def _scaled(matrices: Any, scale: Any) -> Any:
    return matrices if scale is None else matrices * scale


def _masked(scores: Any, piece: _Piece) -> Any:
    biased = scores if piece.bias is None else scores + piece.bias.to(scores.dtype)
    return biased if piece.hidden is None else biased.masked_fill(piece.hidden, -inf)
