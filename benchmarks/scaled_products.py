"""Products of fp8 with scales of rows and of blocks beside `torch._scaled_mm`, and quantizers
beside a copy of as many bytes, on this machine's GPU.

    python -m benchmarks.scaled_products [--only REGEX] [--rounds N] [--json FILE]
    python -m benchmarks.scaled_products --drawn SEED [--layers N] [--only REGEX] [--rounds N]

Products of blocks are timed with the schedule that `cute.gemm` chooses and with those of
`SCHEDULES`; a row of the table has each of them. Launches are CUDA graphs over operands that rotate
past three times L2, ours and torch's interleaved; a ratio is torch's GPU time over ours, the median
of the rounds. The error is the largest one of sampled rows, relative to the largest result.

With `--drawn` products have the extents of drawn layers of language models and 8 to 8192 rows, and
the schedule that `cute.gemm` chooses alone; the geometric means of their ratios end the table.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import exp, log
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import cutedialect as cute
from cutedialect.choices import BlockFormat

from .gemm_case import Gemm
from .shape_draws import LAYERS
from .timing import Plan, interleave, make_batches
from .torch_gpu import torch_on_gpu

SHAPES = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 2112, 7168),
    (128, 7168, 16384),
    (64, 24576, 1536),
    (2048, 7168, 2048),
)
_AHEAD = "overlap = yes, unroll = 2"
SCHEDULES = (
    "",
    _AHEAD,
    f"tile = (128,128,128), {_AHEAD}",
    f"tile = (128,128,128), cluster = (2,1), {_AHEAD}",
    "tile = (128,128,128), cluster = (2,1)",
    f"tile = (128,64,128), {_AHEAD}",
    f"tile = (64,128,128), {_AHEAD}",
    f"tile = (64,64,128), {_AHEAD}",
)
QUANTIZED: tuple[BlockFormat, ...] = ("mxfp8", "mxfp4", "nvfp4", "fp8_block", "fp8_square")
# Bytes past which operands rotate: three times the L2 of an H200.
_ROTATED = 3 * (50 << 20)
_LAUNCHES = 40
_MOST_SETS = 8
# Rows of drawn products, of which cuBLAS takes multiples of 8, and the depth of a block.
_ROWS, _ROW_STEP, _BLOCK = (8, 8192), 8, 128


@dataclass(frozen=True)
class Row:
    """One problem with one schedule: microseconds of a launch, medians of the rounds."""

    case: str
    schedule: str
    microseconds: float
    peer_microseconds: float
    ratio: float
    error: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 unless there is no GPU, or a result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaled_products")
    parser.add_argument("--only", default="", help="cases whose names match")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--drawn", type=int, metavar="SEED", help="time drawn layers")
    parser.add_argument("--layers", type=int, default=10, help="drawn layers")
    given = parser.parse_args(arguments)
    torch = torch_on_gpu()
    if torch is None:
        return 1
    is_drawn = given.drawn is not None
    shapes = drawn(given.drawn, given.layers) if is_drawn else SHAPES
    schedules = ("",) if is_drawn else SCHEDULES
    cases: list[tuple[str, Callable[[], list[Row]]]] = []
    for shape in shapes:
        size = "x".join(map(str, shape))
        for sums, made in (("blocks", partial(_blocks, schedules)), ("rows", _rows)):
            name = f"{sums} {size}"
            cases.append((name, lambda n=name, s=shape, f=made: f(torch, n, s, given.rounds)))
    for kind in QUANTIZED:
        name = f"quantize {kind} 8192x8192 bf16"
        cases.append((name, lambda n=name, k=kind: _quantizer(torch, n, k, given.rounds)))
    print(torch.cuda.get_device_name())
    print(f"{'case':32} {'us':>9} {'peer':>9} {'ratio':>6} {'error':>8}  schedule")
    found: list[Row] = []
    for name, run in cases:
        for row in run() if re.search(given.only, name) else ():
            found.append(row)
            print(
                f"{row.case:32} {row.microseconds:9.1f} {row.peer_microseconds:9.1f} "
                f"{row.ratio:6.3f} {row.error:8.1e}  {row.schedule or 'default'}",
                flush=True,
            )
            if given.json is not None:
                given.json.write_text(json.dumps([asdict(row) for row in found], indent=1))
    for sums in ("blocks", "rows") if is_drawn else ():
        ratios = [row.ratio for row in found if row.case.startswith(sums)]
        if ratios:
            mean, least = geometric_mean(ratios), min(ratios)
            print(f"{sums}: {len(ratios)} layers, mean {mean:.3f}, least {least:.3f}")
    return 0 if all(row.error < 2e-2 for row in found) else 1


def drawn(seed: int, count: int) -> tuple[tuple[int, int, int], ...]:
    """(M, N, K) of as many layers of which blocks divide the depth; the same ones for a seed."""
    rng = random.Random(seed)
    fitting = [(n, k) for n, k in LAYERS if k % _BLOCK == 0]
    least, most = map(log, _ROWS)
    return tuple(
        (max(1, round(exp(rng.uniform(least, most)) / _ROW_STEP)) * _ROW_STEP, n, k)
        for n, k in rng.sample(fitting, min(count, len(fitting)))
    )


def _blocks(
    schedules: Sequence[str], torch: Any, name: str, shape: tuple[int, int, int], rounds: int
) -> list[Row]:
    """A product with scales of blocks, with every schedule that the assembler takes whole."""
    case = Gemm("extra", "e4m3", sizes=shape, sums="blocks")
    sets = _sets(lambda seed: case.make_operands(torch, seed), case.bytes)
    ours: dict[str, Callable[[Any], object]] = {}
    for words in schedules:
        call = case.ours(words or None)
        try:
            call(sets[0])
        except (cute.CompileError, ValueError) as why:
            print(f"{name:32} refused: {str(why).splitlines()[0][:90]}  {words}", flush=True)
            continue
        ours[words] = call
    exact = case.exact(torch, sets[0])
    errors = {}
    for words, call in ours.items():
        call(sets[0])
        errors[words] = max(case.errors(torch, sets[0], exact)) / float(exact[0].abs().max())
    (theirs,) = case.theirs(torch).values()
    peer = theirs()
    return _timed(torch, name, [*ours.items()], peer, sets, rounds, errors)


def _rows(torch: Any, name: str, shape: tuple[int, int, int], rounds: int) -> list[Row]:
    """A product with a scale for each row of a and column of b, tensor cores summing all of K."""
    m, n, _ = shape
    case = Gemm("extra", "e4m3", sizes=shape)

    def made(seed: int) -> tuple[Any, ...]:
        operands = case.make_operands(torch, seed)
        factors = (torch.rand(each, device="cuda") + 0.5 for each in ((m, 1), (1, n)))
        return operands.a, operands.b, operands.out, *factors

    def ours(operands: Any) -> object:
        a, b, out, scale_a, scale_b = operands
        return cute.gemm(a, b, scale_a=scale_a, scale_b=scale_b, out=out)

    def peer(operands: Any) -> object:
        a, b, out, *scales = operands
        return torch._scaled_mm(
            a, b, *scales, out_dtype=out.dtype, use_fast_accum=True, out=out
        )  # fmt: skip

    sets = _sets(made, case.bytes)
    ours(sets[0])
    a, b, out, scale_a, scale_b = sets[0]
    rows = slice(0, 64)
    exact = (a[rows].double() * scale_a[rows]) @ (b.double() * scale_b)
    error = float((out[rows].double() - exact).abs().max() / exact.abs().max())
    return _timed(torch, name, [("", ours)], peer, sets, rounds, {"": error})


def _quantizer(torch: Any, name: str, kind: BlockFormat, rounds: int) -> list[Row]:
    """A quantizer beside a copy that moves as many bytes."""
    x = torch.randn(8192, 8192, device="cuda").to(torch.bfloat16)
    first = cute.quantize(x, kind)
    moved = sum(each.numel() * each.element_size() for each in (x, *first))

    def made(seed: int) -> tuple[Any, ...]:
        half = torch.zeros(moved // 2, dtype=torch.uint8, device="cuda")
        return x.clone(), *(torch.empty_like(each) for each in first), half, half.clone()

    def ours(operands: Any) -> object:
        given, out, scales, *_ = operands
        return cute.quantize(given, kind, out=out, scales=scales)

    def peer(operands: Any) -> object:
        return operands[4].copy_(operands[3])

    sets = _sets(made, moved)
    ours(sets[0])
    small = x[:128].float().cpu().numpy()
    wanted = cute.quantize(small, kind, backend="emulator", arch="sm_90a")
    error = 0.0
    for mine, other in zip(sets[0][1:3], wanted, strict=True):
        part = mine[: other.shape[0]].cpu().view(torch.uint8).numpy()
        error += float((part != other.view("uint8")).mean())
    return _timed(torch, name, [("", ours)], peer, sets, rounds, {"": error})


def _sets(made: Callable[[int], Any], moved: int) -> list[Any]:
    """Operands past three times L2."""
    return [made(seed) for seed in range(min(_MOST_SETS, max(2, -(-_ROTATED // moved) + 1)))]


def _timed(
    torch: Any, name: str, ours: list[tuple[str, Callable[[Any], object]]],
    peer: Callable[[Any], object], sets: list[Any], rounds: int, errors: dict[str, float],
) -> list[Row]:  # fmt: skip
    calls = [peer, *(call for _, call in ours)]
    for call in calls:
        for operands in sets:
            call(operands)
    torch.cuda.synchronize()
    batches = make_batches(torch, calls, sets, max(len(sets), _LAUNCHES))
    theirs, *mine = interleave(torch, batches, Plan(rounds=rounds)).ms
    return [
        Row(
            name, words, 1e3 * median(own), 1e3 * median(theirs),
            median(their / each for their, each in zip(theirs, own, strict=True)), errors[words],
        )
        for (words, _), own in zip(ours, mine, strict=True)
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
