"""Programs that stream and that no example has, as a user writes them at first: plain tiles, no
choice by the shape. `benchmarks.streaming --others` times them at shapes drawn by the seed, from
rows of three elements to rows of hundreds of thousands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutedialect as cute

from .streaming_functions import FUNCTIONS
from .streaming_lines import LINES
from .streaming_workloads import EPS, Shape, Workload

_BLOCK = 128
_POOLED = 4
_DEPTH = 96


@cute.kernel
def log_softmax(X, Y, *, tile):
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    x = cute.where(cute.coord(x, 1) < X.shape[1], x, -cute.inf)
    d = x - cute.row_max(x)
    y = d - cute.log(cute.row_sum(cute.exp(d)))
    cute.copy(y.to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def causal_softmax(X, Y, *, tile):
    """Of each matrix of a batch, columns up to the row's number."""
    b, i, _ = cute.tile_index(Y, (1, *tile))
    x = cute.local_tile(X, tile, (b, i, 0)).to(cute.f32)
    row, column = cute.coord(x, 0, i * tile[0]), cute.coord(x, 1)
    x = cute.where((column <= row) & (column < X.shape[2]), x, -cute.inf)
    e = cute.exp(x - cute.row_max(x))
    cute.copy((e / cute.row_sum(e)).to(Y.dtype), cute.local_tile(Y, tile, (b, i, 0)))


@cute.kernel
def group_norm(X, Y, eps, *, tile):
    """Of (batch, groups, elements of a group)."""
    b, g, _ = cute.tile_index(Y, (1, *tile))
    x = cute.local_tile(X, tile, (b, g, 0)).to(cute.f32)
    width = X.shape[2]
    d = cute.where(cute.coord(x, 1) < width, x - cute.row_sum(x) / width, 0.0)
    y = d * cute.rsqrt(cute.row_sum(d * d) / width + eps)
    cute.copy(y.to(Y.dtype), cute.local_tile(Y, tile, (b, g, 0)))


@cute.kernel
def l2_normalized(X, Y, *, tile):
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    y = x * cute.rsqrt(cute.row_sum(x * x) + EPS)
    cute.copy(y.to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def long_softmax(X, Y, *, tile=8192):
    """Rows of any width, read twice: the running maximum and sum, then the results."""
    i, _ = cute.tile_index(Y, (1, None))
    x, y = (cute.local_tile(v, (1, tile), (i, None)) for v in (X, Y))
    top, total = cute.full((1, 1), -cute.inf), cute.zeros((1, 1))
    for j in cute.range(x.tiles):
        v = x[j].to(cute.f32)
        v = cute.where(cute.coord(v, 1, x) < X.shape[1], v, -cute.inf)
        new = cute.maximum(top, cute.row_max(v))
        part = cute.row_sum(cute.exp(v - new))
        total.assign(total * cute.exp(top - new) + part)
        top.assign(new)
    for j in cute.range(x.tiles):
        v = x[j].to(cute.f32)
        cute.copy((cute.exp(v - top) / total).to(Y.dtype), y[j])


@cute.kernel
def geglu(X, Y, Z, *, tile=(4, 1024)):
    at = cute.tile_index(Z, tile)
    x, y = (cute.local_tile(v, tile, at).to(cute.f32) for v in (X, Y))
    cute.copy((cute.gelu(x) * y).to(Z.dtype), cute.local_tile(Z, tile, at))


@cute.kernel
def glu_of_halves(X, Y, *, tile=(4, 1024)):
    """The gate is the right half of each row."""
    at = cute.tile_index(Y, tile)
    width = Y.shape[1]
    x = cute.local_tile(X.slice(1, 0, width), tile, at).to(cute.f32)
    gate = cute.local_tile(X.slice(1, width, 2 * width), tile, at).to(cute.f32)
    cute.copy((x * cute.sigmoid(gate)).to(Y.dtype), cute.local_tile(Y, tile, at))


@cute.kernel
def biased_gelu(X, bias, R, Y, *, tile=(4, 1024)):
    i, j = cute.tile_index(Y, tile)
    x, r = (cute.local_tile(v, tile, (i, j)).to(cute.f32) for v in (X, R))
    y = cute.gelu(x + cute.row_vector(bias, j, tile[1]).to(cute.f32)) + r
    cute.copy(y.to(Y.dtype), cute.local_tile(Y, tile, (i, j)))


@cute.kernel
def pooled(X, Y, *, tile=1024):
    """The mean of every four rows."""
    i, j = cute.tile_index(Y, (1, tile))
    x = cute.local_tile(X, (_POOLED, tile), (i, j)).to(cute.f32)
    mean = cute.column_sum(x) / float(_POOLED)
    cute.copy(mean.to(Y.dtype), cute.local_tile(Y, (1, tile), (i, j)))


@cute.kernel
def shifted(X, Y, *, tile=(4, 1024)):
    """Columns from the fourth on."""
    at = cute.tile_index(Y, tile)
    x = cute.load(cute.local_tile(X.slice(1, 3, 3 + Y.shape[1]), tile, at))
    cute.copy(x, cute.local_tile(Y, tile, at))


@cute.kernel
def quantized_blocks(X, Y, scales, *, tile=(32, _BLOCK)):
    """X is (blocks, 128): a scale for each block."""
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    scale = cute.maximum(cute.row_max(cute.abs(x)), 1e-12) / 448.0
    cute.copy(scale, cute.local_tile(scales, (tile[0],), (i,)))
    cute.copy((x * (1.0 / scale)).to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def largest(X, values, places, *, tile):
    i, _ = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    x = cute.where(cute.coord(x, 1) < X.shape[1], x, -cute.inf)
    cute.copy(cute.row_max(x), cute.local_tile(values, (tile[0],), (i,)))
    cute.copy(cute.argmax(x), cute.local_tile(places, (tile[0],), (i,)))


@cute.kernel
def column_variances(X, Y, *, tile=(64, 64)):
    """In one pass over all rows, a work item for some columns."""
    _, j = cute.tile_index(Y, (1, tile[1]))
    x = cute.local_tile(X, tile, (None, j))
    one, two = cute.zeros((1, tile[1])), cute.zeros((1, tile[1]))
    for i in cute.range(x.tiles):
        v = x[i].to(cute.f32)
        one.assign(one + cute.column_sum(v))
        two.assign(two + cute.column_sum(v * v))
    mean = one / X.shape[0]
    cute.copy(two / X.shape[0] - mean * mean, cute.local_tile(Y, (1, tile[1]), (0, j)))


@cute.kernel
def rope_of_heads(X, C, S, Y, *, tile=(32, _DEPTH // 2)):
    """(heads, tokens, 96), heads beside each other in memory; angles are (tokens, 48)."""
    h, i, _ = cute.tile_index(Y, (1, tile[0], None))
    one, other = (cute.local_tile(X, tile, (h, i, k)).to(cute.f32) for k in (0, 1))
    c, s = (cute.local_tile(v, tile, (i, 0)).to(cute.f32) for v in (C, S))
    cute.copy((one * c - other * s).to(Y.dtype), cute.local_tile(Y, tile, (h, i, 0)))
    cute.copy((other * c + one * s).to(Y.dtype), cute.local_tile(Y, tile, (h, i, 1)))


@cute.kernel
def sums_of_middle(X, Y, *, tile=(32, 128)):
    """(batch, rows, columns): the sum over the rows."""
    b, j = cute.tile_index(Y, (1, tile[1]))
    x = cute.local_tile(X, tile, (b, None, j))
    total = cute.zeros((1, tile[1]))
    for i in cute.range(x.tiles):
        total.assign(total + cute.column_sum(x[i].to(cute.f32)))
    cute.copy(total.to(Y.dtype), cute.local_tile(Y, (1, tile[1]), (b, j)))


@cute.kernel
def transposed_sum(X, Y, Z, *, tile=(64, 64)):
    """Z = X transposed + Y."""
    i, j = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, (i, j)))
    y = cute.local_tile(Y, tile[::-1], (j, i)).to(cute.f32)
    z = cute.local_tile(Z, tile[::-1], (j, i))
    cute.copy((x.T.to(cute.f32) + y).to(Z.dtype), z)


@cute.kernel
def outer(a, b, Y, *, tile=(4, 1024)):
    i, j = cute.tile_index(Y, tile)
    u = cute.column_vector(a, i, tile[0]).to(cute.f32)
    v = cute.row_vector(b, j, tile[1]).to(cute.f32)
    cute.copy((u * v).to(Y.dtype), cute.local_tile(Y, tile, (i, j)))


@cute.kernel
def added(X, Y, Z, *, tile=(1, 64)):
    """With a tile that is as small as a user may think of."""
    at = cute.tile_index(Z, tile)
    x, y = (cute.load(cute.local_tile(v, tile, at)) for v in (X, Y))
    cute.copy(x + y, cute.local_tile(Z, tile, at))


@dataclass(frozen=True)
class Other:
    """A workload and the least and the largest width of rows that are drawn for it."""

    workload: Workload
    least: float
    largest: float


def _whole(program: Any, **more: Any) -> dict[str, Any]:
    """Options of a program on whole rows: several where they are short."""

    def options(shape: Shape) -> dict[str, Any]:
        return {"tile": (max(1, 4096 // shape[1]), shape[1])}

    return {"ours": lambda: program, "options": options, **more}


def _plain(program: Any, **more: Any) -> dict[str, Any]:
    return {"ours": lambda: program, "options": lambda shape: {}, **more}


def _same(count: int, kind: str = "bfloat16") -> Callable[[Shape], list[Any]]:
    return lambda shape: [(shape, kind)] * count


def _batched(shape: Shape, batch: int = 8) -> tuple[int, int, int]:
    return batch, max(1, shape[0] // batch), shape[1]


def _heads(shape: Shape) -> tuple[int, int, int]:
    heads = 1 + shape[1] % 13
    return max(1, shape[0] * shape[1] // (heads * _DEPTH)), heads, _DEPTH


def _square(shape: Shape) -> tuple[int, int, int]:
    return max(1, shape[0] // shape[1]), shape[1], shape[1]


def _middle(shape: Shape) -> tuple[int, int, int]:
    rows = 100 + shape[0] % 400
    return max(1, shape[0] // rows), rows, shape[1]


def _blocks(shape: Shape) -> Shape:
    return shape[0] * shape[1] // _BLOCK, _BLOCK


def _causal(torch: Any, x: Any) -> tuple[Any, ...]:
    hidden = torch.ones(x.shape[1:], dtype=torch.bool, device=x.device).triu(1)
    return (torch.softmax(x.masked_fill(hidden, -torch.inf), -1),)


def _normed(torch: Any, x: Any) -> tuple[Any, ...]:
    return (torch.nn.functional.layer_norm(x, x.shape[2:], eps=EPS),)


def _gelu(torch: Any, x: Any) -> Any:
    return torch.nn.functional.gelu(x)


def _halves(torch: Any, x: Any) -> tuple[Any, ...]:
    return (torch.nn.functional.glu(x, -1),)


def _turned(torch: Any, x: Any, c: Any, s: Any) -> tuple[Any, ...]:
    one, other = x[..., : _DEPTH // 2], x[..., _DEPTH // 2 :]
    c, s = c.unsqueeze(1), s.unsqueeze(1)
    return (torch.cat([one * c - other * s, other * c + one * s], -1),)


def _quantized(torch: Any, x: Any) -> tuple[Any, ...]:
    scale = x.abs().amax(1).clamp(min=1e-12) / 448.0
    return x / scale.unsqueeze(1), scale


def _scaled(torch: Any, x: Any) -> tuple[Any, ...]:
    return (x * torch.rsqrt((x * x).sum(1, keepdim=True) + EPS),)


OTHERS: dict[str, Other] = {
    "log-softmax": Other(
        Workload(
            _same(1),
            _same(1),
            lambda torch, x: (torch.log_softmax(x, 1),),
            **_whole(log_softmax),
        ),
        64,
        32000,
    ),
    "tiny rows": Other(
        Workload(
            _same(1),
            _same(1),
            lambda torch, x: (torch.log_softmax(x, 1),),
            **_whole(log_softmax),
        ),
        3,
        64,
    ),
    "causal softmax": Other(
        Workload(
            lambda shape: [(_square(shape), "float16")],
            lambda shape: [(_square(shape), "float16")],
            _causal,
            **_whole(causal_softmax),
        ),
        128,
        4096,
    ),
    "group norm": Other(
        Workload(
            lambda shape: [(_batched(shape), "bfloat16")],
            lambda shape: [(_batched(shape), "bfloat16")],
            _normed,
            **_whole(group_norm, extra=lambda shape: (EPS,)),
        ),
        64,
        32000,
    ),
    "normalized rows": Other(
        Workload(_same(1, "float32"), _same(1, "float32"), _scaled, **_whole(l2_normalized)),
        16,
        16000,
    ),
    "huge rows": Other(
        Workload(
            _same(1),
            _same(1),
            lambda torch, x: (torch.softmax(x, 1),),
            **_plain(long_softmax),
        ),
        40000,
        400000,
    ),
    "GeGLU": Other(
        Workload(
            _same(2),
            _same(1),
            lambda torch, x, y: (_gelu(torch, x) * y,),
            **_plain(geglu),
        ),
        100,
        40000,
    ),
    "GLU of halves": Other(
        Workload(
            lambda shape: [((shape[0], 2 * shape[1]), "bfloat16")],
            _same(1),
            _halves,
            **_plain(glu_of_halves),
        ),
        100,
        40000,
    ),
    "bias, GELU": Other(
        Workload(
            lambda shape: [(shape, "bfloat16"), ((shape[1],), "bfloat16"), (shape, "bfloat16")],
            _same(1),
            lambda torch, x, b, r: (_gelu(torch, x + b) + r,),
            **_plain(biased_gelu),
        ),
        100,
        40000,
    ),
    "pooled rows": Other(
        Workload(
            lambda shape: [((shape[0] // _POOLED * _POOLED, shape[1]), "bfloat16")],
            lambda shape: [((shape[0] // _POOLED, shape[1]), "bfloat16")],
            lambda torch, x: (x.reshape(-1, _POOLED, x.shape[1]).mean(1),),
            **_plain(pooled),
        ),
        100,
        40000,
    ),
    "shifted slice": Other(
        Workload(
            lambda shape: [((shape[0], shape[1] + 3), "bfloat16")],
            _same(1),
            lambda torch, x: (x[:, 3:].clone(memory_format=torch.contiguous_format),),
            **_plain(shifted),
        ),
        100,
        40000,
    ),
    "e4m3 blocks": Other(
        Workload(
            lambda shape: [(_blocks(shape), "bfloat16")],
            lambda shape: [(_blocks(shape), "float8_e4m3fn"), ((_blocks(shape)[0],), "float32")],
            _quantized,
            **_plain(quantized_blocks),
        ),
        256,
        16384,
    ),
    "argmax": Other(
        Workload(
            _same(1),
            lambda shape: [((shape[0],), "float32"), ((shape[0],), "int32")],
            lambda torch, x: tuple(torch.max(x, 1)),
            **_whole(largest),
        ),
        64,
        32000,
    ),
    "column variances": Other(
        Workload(
            _same(1),
            lambda shape: [((1, shape[1]), "float32")],
            lambda torch, x: (x.var(0, correction=0, keepdim=True),),
            **_plain(column_variances),
        ),
        17000,
        200000,
    ),
    "RoPE 96": Other(
        Workload(
            lambda shape: [
                (_heads(shape), "bfloat16"),
                *[((_heads(shape)[0], _DEPTH // 2), "bfloat16")] * 2,
            ],
            lambda shape: [(_heads(shape), "bfloat16")],
            _turned,
            **_plain(
                rope_of_heads,
                arrange=lambda inputs, outputs: (
                    inputs[0].transpose(0, 1),
                    *inputs[1:],
                    outputs[0].transpose(0, 1),
                ),
            ),
        ),
        256,
        4096,
    ),
    "sums of the middle": Other(
        Workload(
            lambda shape: [(_middle(shape), "bfloat16")],
            lambda shape: [((_middle(shape)[0], shape[1]), "float32")],
            lambda torch, x: (x.sum(1),),
            **_plain(sums_of_middle),
        ),
        128,
        8192,
    ),
    "transposed sum": Other(
        Workload(
            lambda shape: [(shape, "bfloat16"), (shape[::-1], "bfloat16")],
            lambda shape: [(shape[::-1], "bfloat16")],
            lambda torch, x, y: (x.t() + y,),
            **_plain(transposed_sum),
        ),
        256,
        16384,
    ),
    "outer product": Other(
        Workload(
            lambda shape: [((shape[0],), "bfloat16"), ((shape[1],), "bfloat16")],
            _same(1),
            lambda torch, a, b: (a.unsqueeze(1) * b,),
            **_plain(outer),
        ),
        100,
        40000,
    ),
    "tiny tiles": Other(
        Workload(
            _same(2),
            _same(1),
            lambda torch, x, y: (x + y,),
            **_plain(added),
        ),
        1000,
        40000,
    ),
}
OTHERS |= {name: Other(*entry) for name, entry in (LINES | FUNCTIONS).items()}
