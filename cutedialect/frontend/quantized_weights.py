"""Weights of GPTQ, AWQ and compressed-tensors as the operand b of `cute.gemm`, with its scales and
zeros: elements are taken out of the words of a checkpoint and packed anew, once. What the formats
say is written at each function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .gemm_scales import GROUPS
from .pack import FRAGMENTS, HALF_FRAGMENTS, as_bytes, as_floats, elements_of, pack
from .packed import Packed

_AWQ = "(2,4):(4,1)"
_BITS = (4, 8)


@dataclass(frozen=True)
class Weights:
    """A layer's weights as `cute.gemm` takes them: `cute.gemm(w.rows_of(x), w.b, **w.options)`.

    b: (K, N), packed where it has 4 bits. scale_b, zero_b: f32 and uint8, (K / g, N), or (1, N). A
    zero of all may be a number. order: None, or the row of the checkpoint's weights that each row
    of b is, by which columns of x have to be taken.
    """

    b: Any
    scale_b: Any
    zero_b: Any
    order: Any = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of scales and zeros."""
        return {"scale_b": self.scale_b, "zero_b": self.zero_b}

    def rows_of(self, x: Any) -> Any:
        """The columns of x (..., K) in the order of b's rows."""
        return x if self.order is None else x[..., self.order]


def from_gptq(
    qweight: Any,
    qzeros: Any,
    scales: Any,
    g_idx: Any = None,
    *,
    bits: int = 4,
    zero_offset: int = 1,
) -> Weights:
    """Weights of GPTQ: W[k, n] = scales[g[k], n] (q[k, n] - z[g[k], n] - zero_offset).

    qweight: int32 (K bits / 32, N), elements of neighboring rows in a word, the first one lowest.
    qzeros: int32 (K / g, N bits / 32), of neighboring columns likewise. scales: f16 (K / g, N).
    g_idx: (K,) the group of each row, where that is not k // g (act-order); rows are then sorted by
    their groups. zero_offset: 1 in the first format, whose zeros are stored less 1, 0 in `gptq_v2`.

    Raises ValueError for other bits, shapes and sizes of groups.
    """
    _check_bits(bits)
    q = elements_of(qweight.swapaxes(-1, -2), bits).swapaxes(-1, -2)
    zeros = elements_of(qzeros, bits)
    order = None if g_idx is None else _order(g_idx)
    if order is not None:
        q = q[order]
    k, n = q.shape
    _check_shapes("GPTQ", (k, n), scales, zeros)
    if bits == 8 and zero_offset:
        # 255 + 1 is no byte.
        return Weights(
            _packed(q, bits, scales), as_floats(scales), as_floats(zeros) + zero_offset, order
        )
    return Weights(_packed(q, bits, scales), as_floats(scales), zeros + zero_offset, order)


def from_awq(qweight: Any, qzeros: Any, scales: Any) -> Weights:
    """Weights of AWQ, 4 bits: W[k, n] = scales[k // g, n] (q[k, n] - z[k // g, n]).

    qweight: int32 (K, N / 8), qzeros: int32 (K / g, N / 8): the columns 0, 2, 4, 6, 1, 3, 5, 7 of
    eight in a word, the first one lowest. scales: f16 (K / g, N).

    Raises ValueError for other shapes and sizes of groups.
    """
    q, zeros = (elements_of(words, 4, _AWQ) for words in (qweight, qzeros))
    _check_shapes("AWQ", tuple(q.shape), scales, zeros)
    return Weights(_packed(q, 4, scales), as_floats(scales), zeros)


def from_compressed_tensors(
    weight_packed: Any,
    weight_scale: Any,
    weight_zero_point: Any = None,
    *,
    k: int | None = None,
    g_idx: Any = None,
    bits: int = 4,
) -> Weights:
    """Weights of compressed-tensors, `pack-quantized`: W[n, k] = scale[n, g] (q[n, k] - z[n, g]).

    weight_packed: int32 (N, ceil(K bits / 32)), signed elements plus 2^(bits - 1), neighbors along
    K in a word, the first one lowest. weight_scale: (N, K / g) or (N, 1). weight_zero_point: int32
    (N bits / 32, K / g), packed along N likewise; None is symmetric. k: K (`weight_shape`), where
    words have more. g_idx: (K,) as in GPTQ (`weight_g_idx`).

    Raises ValueError for other bits, shapes and sizes of groups.
    """
    _check_bits(bits)
    q = elements_of(weight_packed, bits)[..., :k].swapaxes(-1, -2)
    order = None if g_idx is None else _order(g_idx)
    if order is not None:
        q = q[order]
    scales, zeros = as_floats(weight_scale).swapaxes(-1, -2), 1 << bits - 1
    if weight_zero_point is not None:
        zeros = elements_of(weight_zero_point.swapaxes(-1, -2), bits)
    _check_shapes("compressed-tensors", tuple(q.shape), scales, zeros)
    return Weights(_packed(q, bits, scales), scales, zeros, order)


def _packed(q: Any, bits: int, scales: Any) -> Packed | Any:
    """Elements (K, N) as an operand: bytes that lie along K, in blocks that divide a group."""
    if bits == 4:
        is_short = scales.shape[0] > -(-q.shape[0] // GROUPS[1])
        return pack(q, order=HALF_FRAGMENTS if is_short else FRAGMENTS)
    rows = as_bytes(q).swapaxes(-1, -2)
    rows = rows.copy() if hasattr(rows, "astype") else rows.contiguous()
    return rows.swapaxes(-1, -2)


def _order(g_idx: Any) -> Any:
    """The rows of a checkpoint, sorted by their groups."""
    if hasattr(g_idx, "astype"):
        return g_idx.argsort(kind="stable")
    return g_idx.argsort(stable=True)


def _check_bits(bits: int) -> None:
    if bits not in _BITS:
        nearest = min(_BITS, key=lambda each: abs(each - bits))
        raise ValueError(f"bits: expected 4 or 8, got {bits}; the nearest is {nearest}")


def _check_shapes(of: str, shape: tuple[int, ...], scales: Any, zeros: Any) -> None:
    """Refuse scales and zeros that are none of groups that a product takes."""
    k, n = shape
    sizes = [size for size in GROUPS if -(-k // size) == scales.shape[0]]
    if scales.shape[1] != n or not (sizes or scales.shape[0] == 1):
        rows = ", ".join(f"({-(-k // size)}, {n})" for size in GROUPS)
        raise ValueError(
            f"scales: expected {rows} for groups of {', '.join(map(str, GROUPS))} rows of {of}'s "
            f"weights {shape}, or (1, {n}), got shape {tuple(scales.shape)}"
        )
    if not isinstance(zeros, int) and tuple(zeros.shape) != tuple(scales.shape):
        raise ValueError(
            f"zeros: expected shape {tuple(scales.shape)} as of the scales, got "
            f"{tuple(zeros.shape)}"
        )
