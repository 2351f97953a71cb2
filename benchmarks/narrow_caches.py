"""Attention over caches of 8 bits, by kinds of scales, beside the same call over a cache of 16 bits
and beside torch's attention over that, on this machine's GPU.

    python -m benchmarks.narrow_caches [--only REGEX] [--rounds N] [--json FILE]

Launches are CUDA graphs over operands that rotate past three times L2, all contenders interleaved;
a ratio is the GPU time of the other over ours, the median of the rounds. The error is the largest
one of a few rows against f64. "of memory" is the time in which the cache alone would move at 4.8
TB/s, over ours.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import cutedialect as cute

from .timing import Plan, interleave, make_batches
from .torch_gpu import torch_on_gpu

# (batch, heads, heads of keys, rows, keys, head dimension), whether causal.
WORK = {
    "decoding, 32 of 8k": ((32, 32, 8, 1, 8192, 128), False),
    "decoding, 4 of 32k": ((4, 32, 8, 1, 32768, 128), False),
    "decoding, 64 of 2k": ((64, 32, 8, 1, 2048, 128), False),
    "4 rows each, 16 of 8k": ((16, 32, 8, 4, 8192, 128), True),
    "prefill, 4 of 4k": ((4, 32, 8, 4096, 4096, 128), True),
}
# Element types, and the modes of k and v that scales have: heads of batch entries, or keys, too.
KINDS = {
    "e4m3, heads": ("float8_e4m3fn", 2),
    "e4m3, keys": ("float8_e4m3fn", 3),
    "int8, heads": ("int8", 2),
    "int8, keys": ("int8", 3),
}
# Bytes past which operands rotate: three times the L2 of an H200. Bytes a second of its memory.
_ROTATED, _RATE = 3 * (50 << 20), 4.8e12
_LAUNCHES, _MOST_SETS = 40, 6


@dataclass(frozen=True)
class Row:
    """One kind of cache: microseconds of a launch, medians of the rounds."""

    work: str
    kind: str
    microseconds: float
    ratio_to_16_bits: float
    ratio_to_torch: float
    of_memory: float
    error: float
    schedule: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 unless there is no GPU, or a result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.narrow_caches")
    parser.add_argument("--only", default="", help="work whose name matches")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    given = parser.parse_args(arguments)
    torch = torch_on_gpu()
    if torch is None:
        return 1
    print(torch.cuda.get_device_name())
    print(f"{'work':22} {'cache':12} {'us':>8} {'16 bits':>8} {'torch':>6} {'of memory':>9}")
    rows: list[Row] = []
    for name in (name for name in WORK if re.search(given.only, name)):
        for row in _rows(torch, name, given.rounds):
            rows.append(row)
            print(
                f"{name:22} {row.kind:12} {row.microseconds:8.1f} {row.ratio_to_16_bits:8.2f} "
                f"{row.ratio_to_torch:6.2f} {row.of_memory:9.2f}  error {row.error:.1e}",
                flush=True,
            )
        if given.json is not None:
            given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 0 if all(row.error < 1e-2 for row in rows) else 1


def _rows(torch: Any, name: str, rounds: int) -> list[Row]:
    shape, causal = WORK[name]
    batch, _, shared, _, keys, depth = shape
    size = 2 * batch * shared * keys * depth
    sets: list[Any] = [
        _operands(torch, shape) for _ in range(min(_MOST_SETS, -(-_ROTATED // size) + 1))
    ]

    def over(kind: str) -> Callable[[Any], object]:
        def call(operands: Any) -> object:
            k, v, of_k, of_v = operands[kind]
            return cute.attention(
                operands["q"], k, v, causal=causal, scale_k=of_k, scale_v=of_v, out=operands["out"]
            )

        return call

    def plain(operands: Any) -> object:
        k, v = operands["16 bits"]
        return cute.attention(operands["q"], k, v, causal=causal, out=operands["out"])

    def peer(operands: Any) -> object:
        k, v = operands["16 bits"]
        return torch.nn.functional.scaled_dot_product_attention(
            operands["q"], k, v, is_causal=causal and shape[3] == keys, enable_gqa=True
        )

    calls = [peer, plain, *map(over, KINDS)]
    errors = [
        _error(torch, call, sets[0], kind, causal)
        for kind, call in zip(KINDS, calls[2:], strict=True)
    ]
    for call in calls:
        for operands in sets:
            call(operands)
    torch.cuda.synchronize()
    batches = make_batches(torch, calls, sets, max(len(sets), _LAUNCHES))
    theirs, wide, *mine = interleave(torch, batches, Plan(rounds=rounds)).ms

    def ratio(other: Sequence[float], own: Sequence[float]) -> float:
        return median(x / y for x, y in zip(other, own, strict=True))

    return [
        Row(
            name, kind, 1e3 * median(own), ratio(wide, own), ratio(theirs, own),
            1e3 * size / _RATE / median(own), error, _schedule(sets[0], kind, causal),
        )
        for kind, own, error in zip(KINDS, mine, errors, strict=True)
    ]  # fmt: skip


def _operands(torch: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """q and the result, and by kind the cache with its scales."""
    batch, heads, shared, rows, keys, depth = shape
    q = torch.randn(batch, heads, rows, depth, device="cuda").to(torch.bfloat16)
    cache = [torch.randn(batch, shared, keys, depth, device="cuda") for _ in range(2)]
    made: dict[str, Any] = {"q": q, "out": torch.empty_like(q)}
    made["16 bits"] = [x.to(torch.bfloat16) for x in cache]
    for kind, (dtype, modes) in KINDS.items():
        largest = 448.0 if dtype.startswith("float8") else 127.0
        scales = [x.abs().amax(tuple(range(modes, 4))) / largest for x in cache]
        narrow = [
            x / scale.reshape(*scale.shape, *[1] * (4 - modes))
            for x, scale in zip(cache, scales, strict=True)
        ]
        if dtype == "int8":
            narrow = [x.round() for x in narrow]
        made[kind] = [*(x.to(getattr(torch, dtype)) for x in narrow), *scales]
    return made


def _error(
    torch: Any, call: Callable[[Any], object], operands: Any, kind: str, causal: bool
) -> float:
    """The largest error of the last rows of the first head, over the largest of their results."""
    call(operands)
    k, v, of_k, of_v = (x[0, 0].double() for x in operands[kind])
    keys, values = k * of_k.reshape(-1, 1), v * of_v.reshape(-1, 1)
    q = operands["q"][0, 0, -1:].double()
    exact = (q @ keys.T / q.shape[-1] ** 0.5).softmax(-1) @ values
    error = (operands["out"][0, 0, -1:].double() - exact).abs().max()
    return float(error / exact.abs().max())


def _schedule(operands: Any, kind: str, causal: bool) -> str:
    k, v, of_k, of_v = operands[kind]
    kernel = cute.compile(
        cute.attention, operands["q"], k, v, causal=causal, scale_k=of_k, scale_v=of_v
    )
    return kernel.schedule


if __name__ == "__main__":
    sys.exit(main())
