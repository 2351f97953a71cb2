"""Gathered operands beside torch, on this machine's GPU: `cute.routed_gemm` of rows that a router
has numbered beside torch's grouped product of rows that lie in order, and `cute.conv2d` and its
gradients beside cuDNN in benchmark mode.

    python -m benchmarks.gathered [--work REGEX] [--count N] [--seed N] [--rounds N] [--tiles]
                                  [--budget SECONDS] [--json FILE]

Layers are drawn by a seed from those of language models and of image networks. Launches are CUDA
graphs, ours and torch's interleaved, over operands that rotate; a ratio is torch's GPU time over
ours, the median of the rounds. With `--tiles` each call is timed with some tiles, and the row has
the fastest one beside the default. The error is the largest one against f32 products, over the
largest result.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import cutedialect as cute

from .timing import Plan, interleave, make_batches
from .torch_gpu import torch_on_gpu

_SETS, _LAUNCHES, _TOLERANCE = 3, 24, 2e-2
# Experts, those of a token, tokens; width of a model and of an expert.
_EXPERTS = ((8, 2), (16, 4), (32, 4), (64, 6), (64, 8), (128, 8))
_TOKENS = (64, 512, 2048, 8192)
_WIDTHS = ((2048, 1408), (2048, 4096), (4096, 1536), (4096, 2048), (5120, 1536))
# Height and width, channels, filters, taps, stride: ResNet, ConvNeXt's dense layers, diffusion.
_LAYERS = (
    (56, 64, 64, 3, 1), (56, 256, 64, 1, 1), (56, 128, 128, 3, 2), (28, 128, 128, 3, 1),
    (28, 512, 128, 1, 1), (14, 256, 256, 3, 1), (14, 1024, 256, 1, 1), (7, 512, 512, 3, 1),
    (56, 256, 256, 3, 1), (28, 256, 256, 3, 2), (56, 96, 192, 2, 2), (14, 384, 768, 2, 2),
    (56, 96, 384, 1, 1), (64, 320, 320, 3, 1), (32, 640, 640, 3, 1), (16, 1280, 1280, 3, 1),
    (64, 640, 320, 3, 1), (32, 1280, 640, 3, 1), (32, 640, 640, 3, 2), (128, 128, 128, 3, 1),
)  # fmt: skip
_ROUTED_TILES = ((128, 256, 64), (128, 128, 64), (64, 256, 64), (64, 128, 64))
_IMAGE_TILES = ((128, 256, 64), (128, 128, 64), (128, 64, 64), (64, 128, 64), (128, 192, 64))


@dataclass
class Work:
    """`ours` with a schedule and `theirs` on a set of operands; `error` of a result of ours."""

    name: str
    sets: Sequence[Any]
    ours: Callable[[Any, str | None], Any]
    theirs: Callable[[Any], Any]
    exact: Callable[[Any], Any]
    tiles: Sequence[tuple[int, int, int]]


@dataclass(frozen=True)
class Row:
    """A call: microseconds of a launch, medians of the rounds; by tile in `others`."""

    name: str
    microseconds: float
    peer_microseconds: float
    ratio: float
    best: float
    best_tile: str
    error: float
    others: dict[str, float]


def routed(torch: Any, draw: random.Random) -> Work:
    """The first product of a layer of experts."""
    (count, k), tokens = draw.choice(_EXPERTS), draw.choice(_TOKENS)
    width, hidden = draw.choice(_WIDTHS)
    device = "cuda"
    total = tokens * k
    # Some experts have far more tokens than others.
    shares = torch.rand(count, device=device) ** 2 + 0.05
    chosen = torch.multinomial(shares.expand(tokens, -1), k).flatten()
    order = chosen.argsort(stable=True)
    rows = (order // k).int()
    ends = torch.bincount(chosen, minlength=count).cumsum(0).int()
    offsets = torch.cat((ends.new_zeros(1), ends))
    x = torch.randn(tokens, width, device=device).bfloat16()
    sorted_x = x[rows.long()].contiguous()

    def operands() -> Any:
        b = (torch.randn(count, hidden, width, device=device) / width**0.5).bfloat16()
        out = torch.empty(total, hidden, device=device, dtype=b.dtype)
        return b, out

    def ours(given: Any, schedule: str | None) -> Any:
        b, out = given
        return cute.routed_gemm(x, b.mT, offsets, rows=rows, out=out, schedule=schedule)

    def theirs(given: Any) -> Any:
        return torch._grouped_mm(sorted_x, given[0].mT, offs=ends)

    name = f"routed {count} experts {tokens}x{k} {width}x{hidden}"
    exact = lambda given: theirs(given).float()  # noqa: E731
    return Work(name, [operands() for _ in range(_SETS)], ours, theirs, exact, _ROUTED_TILES)


def convolution(torch: Any, draw: random.Random, kind: str) -> Work:
    """A layer of an image network: forward, or a gradient."""
    extent, channels, filters, taps, stride = draw.choice(_LAYERS)
    images = draw.choice((8, 16, 32))
    padding = taps // 2 if taps % 2 else 0
    shape = (images, channels, extent, extent)

    def filled(*sizes: int) -> Any:
        found = torch.randn(sizes, device="cuda", dtype=torch.bfloat16) / 4
        return found.contiguous(memory_format=torch.channels_last)

    def operands() -> Any:
        x, w = filled(*shape), filled(filters, channels, taps, taps)
        y = torch.nn.functional.conv2d(x, w, stride=stride, padding=padding)
        return x, w, filled(*y.shape)

    where: dict[str, Any] = {"stride": stride, "padding": padding}

    def ours(given: Any, schedule: str | None) -> Any:
        x, w, dy = (each.permute(0, 2, 3, 1) for each in given)
        if kind == "fprop":
            return cute.conv2d(x, w, schedule=schedule, **where)
        if kind == "dgrad":
            return cute.conv2d_dgrad(dy, w, (extent, extent), schedule=schedule, **where)
        return cute.conv2d_wgrad(x, dy, taps, schedule=schedule, **where)

    def theirs(given: Any) -> Any:
        x, w, dy = given
        if kind == "fprop":
            return torch.nn.functional.conv2d(x, w, **where)
        # With the image itself, which says that the channels are last: `torch.nn.grad.conv2d_input`
        # has none, and gradients come from there in another layout, at several times the cost.
        wanted = [kind == "dgrad", kind == "wgrad", False]
        steps = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1
        both = torch.ops.aten.convolution_backward(dy, x, w, None, *steps, wanted)
        return both[wanted.index(True)]

    def exact(given: Any) -> Any:
        return theirs(tuple(each.float() for each in given)).permute(0, 2, 3, 1)

    name = f"{kind} {images}x{extent}x{extent}x{channels} {filters}x{taps}x{taps} / {stride}"
    return Work(name, [operands() for _ in range(_SETS)], ours, theirs, exact, _IMAGE_TILES)


def drawn(torch: Any, only: str, seed: int, count: int) -> Iterator[Callable[[], Work]]:
    """So many calls of each kind, one kind after another in turns."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(count):
        if re.search(only, "routed"):
            yield lambda: routed(torch, draw)
        for kind in ("fprop", "dgrad", "wgrad"):
            if re.search(only, kind):
                yield lambda kind=kind: convolution(torch, draw, kind)


def row_of(torch: Any, work: Work, rounds: int, tiles: bool) -> Row:
    """The figures of one call."""
    schedules: list[str | None] = [None]
    if tiles:
        schedules += [f"tile = ({m},{n},{k})" for m, n, k in work.tiles]

    def run(schedule: str | None) -> str | None:
        try:
            work.ours(work.sets[0], schedule)
        except (cute.CompileError, ValueError, RuntimeError) as error:
            return str(error)
        return None

    run(None)
    with ThreadPoolExecutor() as pool:
        refused = list(pool.map(run, schedules))
    taken = [each for each, why in zip(schedules, refused, strict=True) if why is None]
    if None not in taken:
        raise RuntimeError(refused[0])
    wanted = work.exact(work.sets[0])
    got = work.ours(work.sets[0], None)
    error = float((got.float() - wanted).abs().max() / wanted.abs().max())
    calls = [work.theirs, *(lambda x, s=each: work.ours(x, s) for each in taken)]
    for call in calls:
        for operands in work.sets:
            call(operands)
    torch.cuda.synchronize()
    batches = make_batches(torch, calls, work.sets, _LAUNCHES)
    peer, *mine = interleave(torch, batches, Plan(rounds=rounds, warmup=2, cool_down=0.1)).ms
    times = {str(s or "default"): 1e3 * median(ms) for s, ms in zip(taken, mine, strict=True)}
    ratios = [median(b / a for a, b in zip(own, peer, strict=True)) for own in mine]
    best = max(range(len(ratios)), key=ratios.__getitem__)
    return Row(
        work.name, times["default"], 1e3 * median(peer), ratios[0], ratios[best],
        str(taken[best] or "default"), error, times,
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 unless there is no GPU, or a result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gathered")
    parser.add_argument("--work", default="", help="routed, fprop, dgrad or wgrad")
    parser.add_argument("--count", type=int, default=20, help="calls of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tiles", action="store_true", help="time some tiles, too")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    given = parser.parse_args(arguments)
    torch = torch_on_gpu()
    if torch is None:
        return 1
    torch.backends.cudnn.benchmark = True
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"{'call':48} {'us':>8} {'torch':>8} {'ratio':>6} {'best':>6}  error, fastest tile")
    rows: list[Row] = []
    wrong, begun = 0, time.monotonic()
    for make in drawn(torch, given.work, given.seed, given.count):
        if time.monotonic() - begun > given.budget:
            break
        try:
            work = make()
            row = row_of(torch, work, given.rounds, given.tiles)
        except (cute.CompileError, RuntimeError, ValueError) as error:
            wrong += 1
            print(f"failed: {str(error)[:300]}", flush=True)
            continue
        rows.append(row)
        is_wrong = not row.error < _TOLERANCE
        wrong += is_wrong
        print(
            f"{row.name:48} {row.microseconds:8.1f} {row.peer_microseconds:8.1f} {row.ratio:6.2f} "
            f"{row.best:6.2f}  {row.error:.1e}{' WRONG' * is_wrong}, {row.best_tile}",
            flush=True,
        )
        if given.json is not None:
            given.json.write_text(json.dumps([asdict(each) for each in rows], indent=1))
    for kind in ("routed", "fprop", "dgrad", "wgrad"):
        mine = [row for row in rows if row.name.startswith(kind)]
        if mine:
            means = [geometric_mean(getattr(x, f) for x in mine) for f in ("ratio", "best")]
            least = min(row.ratio for row in mine)
            print(f"{kind}: mean {means[0]:.3f}, least {least:.3f}; best tiles {means[1]:.3f}")
    return 0 if rows and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
