"""What `benchmarks.streaming` times: for each workload its operands, the formula that torch
computes in any precision, and the program of the examples with its tile.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_EXAMPLES = Path(__file__).parents[1] / "examples"
EPS = 1e-5
E4M3_MAX = 448.0
Shape = tuple[int, int]


@dataclass(frozen=True)
class Workload:
    """`inputs` and `outputs` list (shape, type) of arrays for a shape; `formula(torch, *inputs)`
    gives the outputs, in the inputs' precision; `ours` gives the program, `options` are
    its tile and the like, and `extra` its arguments behind the arrays, or the outputs first.
    """

    inputs: Callable[[Shape], list[tuple[tuple[int, ...], str]]]
    outputs: Callable[[Shape], list[tuple[tuple[int, ...], str]]]
    formula: Callable[..., tuple[Any, ...]]
    ours: Callable[[], Any]
    options: Callable[[Shape], dict[str, Any]]
    extra: Callable[[Shape], tuple[Any, ...]] = lambda shape: ()
    arrange: Callable[[Any, Any], tuple[Any, ...]] = lambda inputs, outputs: (*inputs, *outputs)
    # Widths of rows that are not the shape's: of logits, of experts, of gathered rows.
    width: int | None = None

    def shaped(self, shape: Shape) -> Shape:
        """The shape of as many elements with rows of the workload's own width."""
        if self.width is None:
            return shape
        return max(1, shape[0] * shape[1] // self.width), self.width


def _program(file: str, name: str) -> Callable[[], Any]:
    """A program of an example."""
    return lambda: getattr(_example(file), name)


@cache
def _example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", _EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _matrix(count: int, kind: str = "bfloat16") -> Callable[[Shape], list[Any]]:
    return lambda shape: [(shape, kind)] * count


def _rows(shape: Shape) -> dict[str, Any]:
    return {"tile": _example("rows").tile_for(shape[1])}


def _lines(shape: Shape) -> dict[str, Any]:
    """A warp stores short rows of bytes whole; more of them where their ends share sectors."""
    width = shape[1]
    if width > 512:
        return _rows(shape)
    return {"tile": (8, width) if width % 8 else (4, max(64, 1 << (width - 1).bit_length()))}


def _block(shape: Shape) -> dict[str, Any]:
    """A tile of 4,096 elements that rows of the width fill best. Rows that are not whole vectors
    share sectors at the ends of tiles, which are the longer for it, up to whole rows.
    """
    if shape[1] % 8:
        if shape[1] % 2 == 0:
            return {"tile": (16, 256) if shape[1] <= 256 else (1, 4096)}
        if shape[1] < 256:
            return {"tile": (1 << (4096 // shape[1]).bit_length() - 1, shape[1])}
        return {"tile": (1, shape[1]) if shape[1] < 1024 else (2, 1024)}
    columns = min((1024, 512, 256, 128), key=lambda each: -(-shape[1] // each) * each)
    return {"tile": (4096 // columns, columns)}


def _flat(shape: Shape) -> dict[str, Any]:
    return {"tile": (1, 4096)}


def _flattened(inputs: Any, outputs: Any) -> tuple[Any, ...]:
    return tuple(map(_example("elementwise").flat, (*inputs, *outputs)))


def _cross_entropy(torch: Any, x: Any, labels: Any) -> tuple[Any, ...]:
    right = x.gather(1, labels.long().unsqueeze(1)).squeeze(1)
    return (torch.logsumexp(x, 1) - right,)


def _layer_norm(torch: Any, x: Any, scale: Any, bias: Any) -> tuple[Any, ...]:
    return (torch.nn.functional.layer_norm(x, x.shape[1:], scale, bias, EPS),)


def _quantized(torch: Any, x: Any) -> tuple[Any, ...]:
    scale = x.abs().amax(1).clamp(min=1e-12) / E4M3_MAX
    return x / scale.unsqueeze(1), scale


def _rms_norm(torch: Any, x: Any, r: Any, scale: Any) -> tuple[Any, ...]:
    s = x + r
    return s * torch.rsqrt((s * s).mean(1, keepdim=True) + EPS) * scale, s


def _rope(torch: Any, x: Any, c: Any, s: Any) -> tuple[Any, ...]:
    one, other = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return (torch.cat([one * c - other * s, other * c + one * s], -1),)


def _rope_arrays(inputs: Any, outputs: Any) -> tuple[Any, ...]:
    halves = _example("elementwise").halves
    x, c, s = inputs
    return halves(x), c, s, halves(outputs[0])


def _heads(shape: Shape) -> tuple[int, int, int]:
    """(heads, tokens, depth 128) of as many elements."""
    heads = 16
    return heads, max(1, shape[0] * shape[1] // (heads * 128)), 128


def _parts(shape: Shape) -> tuple[int]:
    sums = _example("sums")
    return (sums.parts_for(shape, sums.tile_for(shape)),)


WORKLOADS: dict[str, Workload] = {
    "add": Workload(
        _matrix(2),
        _matrix(1),
        lambda torch, x, y: (x + y,),
        _program("elementwise", "add"),
        _flat,
        arrange=_flattened,
    ),
    "SwiGLU": Workload(
        _matrix(2),
        _matrix(1),
        lambda torch, x, y: (torch.nn.functional.silu(x) * y,),
        _program("elementwise", "swiglu"),
        _flat,
        arrange=_flattened,
    ),
    "cast": Workload(
        _matrix(1, "float32"),
        _matrix(1),
        lambda torch, x: (x.clone(),),
        _program("elementwise", "cast"),
        _flat,
        arrange=_flattened,
    ),
    "layer norm": Workload(
        lambda shape: [(shape, "bfloat16"), *[((shape[1],), "bfloat16")] * 2],
        _matrix(1),
        _layer_norm,
        _program("rows", "layer_norm"),
        _rows,
        lambda shape: (EPS,),
    ),
    "RMSNorm": Workload(
        lambda shape: [*[(shape, "bfloat16")] * 2, ((shape[1],), "bfloat16")],
        _matrix(2),
        _rms_norm,
        _program("rows", "rms_norm"),
        _rows,
        lambda shape: (EPS,),
    ),
    "softmax": Workload(
        _matrix(1),
        _matrix(1),
        lambda torch, x: (torch.softmax(x, 1),),
        _program("rows", "softmax"),
        _rows,
    ),
    "transpose": Workload(
        _matrix(1),
        lambda shape: [(shape[::-1], "bfloat16")],
        lambda torch, x: (x.t().contiguous(),),
        _program("transpose", "transpose"),
        lambda shape: {"tile": _example("transpose").tile_for(*shape)},
    ),
    "strided copy": Workload(
        lambda shape: [((shape[0], shape[1] // 2), "bfloat16 strided")],
        lambda shape: [((shape[0], shape[1] // 2), "bfloat16")],
        lambda torch, x: (x.clone(memory_format=torch.contiguous_format),),
        _program("elementwise", "cast"),
        lambda shape: _block((shape[0], shape[1] // 2)),
    ),
    "RoPE": Workload(
        lambda shape: [
            (_heads(shape), "bfloat16"),
            *[((_heads(shape)[1], 64), "float32")] * 2,
        ],
        lambda shape: [(_heads(shape), "bfloat16")],
        _rope,
        _program("elementwise", "rope"),
        lambda shape: {"tile": (16, 64), "heads": 8},
        arrange=_rope_arrays,
    ),
    "sums of rows": Workload(
        _matrix(1),
        lambda shape: [((shape[0],), "float32")],
        lambda torch, x: (x.sum(1, dtype=_wide(torch, x)),),
        _program("sums", "row_sums"),
        _rows,
    ),
    "sums of columns": Workload(
        _matrix(1),
        lambda shape: [((1, shape[1]), "float32")],
        lambda torch, x: (x.sum(0, keepdim=True, dtype=_wide(torch, x)),),
        _program("sums", "column_sums"),
        lambda shape: {
            "tile": _example("sums").tile_for(shape),
            "split": _parts(shape)[0] > 1,
        },
        _parts,
    ),
    "sum of all": Workload(
        _matrix(1),
        lambda shape: [((1,), "float32")],
        lambda torch, x: (x.sum(dtype=_wide(torch, x)).reshape(1),),
        _program("sums", "whole_sum"),
        lambda shape: {},
        lambda shape: (-(-shape[0] * shape[1] // 8192),),
        lambda inputs, outputs: (inputs[0].reshape(-1), *outputs),
    ),
    "cross-entropy": Workload(
        lambda shape: [(shape, "bfloat16"), ((shape[0],), "labels")],
        lambda shape: [((shape[0],), "float32")],
        _cross_entropy,
        _program("rows", "cross_entropy"),
        lambda shape: {},
        width=131072,
    ),
    "e4m3": Workload(
        _matrix(1),
        lambda shape: [(shape, "float8_e4m3fn"), ((shape[0],), "float32")],
        _quantized,
        _program("rows", "quantize"),
        _lines,
    ),
    "top-k": Workload(
        _matrix(1),
        lambda shape: [((shape[0], 8), "float32"), ((shape[0], 8), "int32")],
        lambda torch, x: tuple(torch.topk(x, 8, 1)),
        _program("rows", "top_k"),
        lambda shape: {"tile": (4, 256)},
        width=256,
    ),
    "gather": Workload(
        lambda shape: [(shape, "bfloat16"), ((shape[0],), "places")],
        _matrix(1),
        lambda torch, x, rows: (x[rows.long()],),
        _program("elementwise", "gather"),
        lambda shape: {"tile": 4096},
        width=4096,
    ),
}


def _wide(torch: Any, x: Any) -> Any:
    """The type that sums are in: f32 of 16-bit floats."""
    return torch.float32 if x.dtype == torch.bfloat16 else x.dtype
