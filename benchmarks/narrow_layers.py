"""`cute.gemm` by weights of 8 and 4 bits for drawn layers of language models, beside cuBLAS with
weights of bf16, on this machine's GPU (`python -m benchmarks.narrow_weights --drawn SEED`).

The kernels are those that calls take without tuning. Rows of a section are layers of which the
weights have 64 MB and more in bf16, and smaller ones; 1 to 64 rows, 256 and 4096. A section ends
with the geometric mean of cuBLAS's GPU time over ours, and the least of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import exp, log
from statistics import geometric_mean, median
from typing import Any

import cutedialect as cute
from cutedialect.layout.text import parse_layout

from .shape_draws import LAYERS
from .timing import Plan, interleave, make_batches

LARGE_BYTES = 64 << 20
_ROTATED, _LAUNCHES, _MOST_SETS = 3 * (50 << 20), 60, 12
# What a thread of a warpgroup multiplies of 64 rows lies beside each other (`cute.pack`).
ORDER, BYTES_ORDER = "(2,4,2,(2,2)):(4,16,2,(1,8))", "(2,4,2,4):(1,16,2,4)"
GROUP = 128
# Rows of x, least and most, of the sections of large and of small layers.
SECTIONS = (
    ("1-64 large", True, (1, 64)),
    ("1-64 small", False, (1, 64)),
    ("256", None, (256, 256)),
    ("4096", None, (4096, 4096)),
)
# By name: bits of weights, rows of a group that shares a scale, 0 for all, and how they are packed.
KINDS: dict[str, tuple[int, int, str | None]] = {
    "W8A16": (8, 0, None),
    "W8A16 packed": (8, 0, f"i8 -2 {BYTES_ORDER}"),
    "W4A16": (4, 0, f"u4 -2 {ORDER}"),
    "W4A16 g128": (4, GROUP, f"u4 -2 {ORDER}"),
}


@dataclass(frozen=True)
class Layer:
    """A product (M, N, K) of a section."""

    section: str
    m: int
    n: int
    k: int


def drawn(seed: int, count: int) -> list[Layer]:
    """As many layers for each section; the same ones for a seed."""
    found: list[Layer] = []
    for section, is_large, (least, most) in SECTIONS:
        rng = random.Random(f"{seed} {section}")
        fitting = [
            (n, k)
            for n, k in LAYERS
            if k % 64 == 0 and is_large in (None, 2 * n * k >= LARGE_BYTES)
        ]
        for n, k in rng.sample(fitting, min(count, len(fitting))):
            rows = round(exp(rng.uniform(log(least), log(most))))
            found.append(Layer(section, rows, n, k))
    return found


@dataclass(frozen=True)
class Row:
    """One product: microseconds of a launch, medians of the rounds."""

    kind: str
    layer: Layer
    microseconds: float
    cublas_microseconds: float
    ratio: float
    error: float
    schedule: str


def measured(torch: Any, layers: list[Layer], rounds: int, only: Any) -> Iterator[Row]:
    """The rows of all kinds, layer by layer."""
    with ThreadPoolExecutor(8) as pool:
        wanted = [(layer, kind) for layer in layers for kind in KINDS if only(kind)]
        kernels = dict(zip(wanted, pool.map(lambda each: _compiled(*each), wanted), strict=True))
    for layer in layers:
        yield from _rows(
            torch, layer, rounds, {k: v for (x, k), v in kernels.items() if x == layer}
        )


def _compiled(layer: Layer, kind: str) -> Any:
    """The kernel of a call, assembled, so that the first call finds it in the cache."""
    bits, group, _ = KINDS[kind]
    m, n, k = layer.m, layer.n, layer.k
    scale = cute.TensorSpec((-(-k // group), n) if group else (n,), "f32")
    specs = (
        cute.TensorSpec((m, k), "bf16"),
        cute.TensorSpec((k * bits // 8, n), "u8" if bits == 4 else "i8", (1, None)),
    )
    kernel = cute.gemm.compile(*specs, scale_b=scale, arch="sm_90a", **_options(kind))
    assert kernel.cubin
    return kernel


def _options(kind: str) -> dict[str, Any]:
    """How weights of a kind are packed, and what stands for 0 in them."""
    bits, _, text = KINDS[kind]
    options: dict[str, Any] = {} if text is None else {"packed_b": text}
    return options | ({"zero_b": 8} if bits == 4 else {})


def _rows(torch: Any, layer: Layer, rounds: int, kernels: dict[str, Any]) -> Iterator[Row]:
    m, n, k = layer.m, layer.n, layer.k
    x = torch.randn(m, k, device="cuda").to(torch.bfloat16)
    results = [torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    count = min(_MOST_SETS, max(2, -(-_ROTATED // (2 * n * k)) + 1))
    wides = [torch.randn(n, k, device="cuda").to(torch.bfloat16) for _ in range(count)]
    for kind, kernel in kernels.items():
        bits, group, text = KINDS[kind]
        moved = n * k * bits // 8
        narrow = min(_MOST_SETS, max(2, -(-_ROTATED // moved) + 1))
        shape = (n, k * bits // 8)
        sets = [
            torch.randint(0, 256, shape, device="cuda", dtype=torch.uint8) for _ in range(narrow)
        ]
        scale = torch.rand((-(-k // group), n) if group else (n,), device="cuda") / 16
        options: dict[str, Any] = {"scale_b": scale, "out": results[0], **_options(kind)}
        if bits == 8:
            sets = [each.view(torch.int8) for each in sets]

        def ours(at: int, sets: Any = sets, options: Any = options) -> object:
            return cute.gemm(x, sets[at % len(sets)].T, **options)

        def cublas(at: int) -> object:
            return torch.matmul(x, wides[at % len(wides)].T, out=results[1])

        numbers: list[Any] = list(range(max(len(sets), count)))
        for at in numbers:
            cublas(at)
            ours(at)
        ours(0)
        error = _error(torch, x, sets[0], scale, text, results[0])
        batches = make_batches(torch, [cublas, ours], numbers, max(len(numbers), _LAUNCHES))
        peer, mine = interleave(torch, batches, Plan(rounds=rounds)).ms
        ratio = median(theirs / own for theirs, own in zip(peer, mine, strict=True))
        yield Row(
            kind, layer, 1e3 * median(mine), 1e3 * median(peer), ratio, error, kernel.schedule
        )


def _error(torch: Any, x: Any, integers: Any, scale: Any, text: str | None, y: Any) -> float:
    """The largest error of some columns, relative to the largest result."""
    columns = slice(0, 128)
    q = integers[columns]
    if text is not None:
        dtype, _, order = text.split()
        places = parse_layout(order).offsets()
        parts = torch.stack((q & 15, q >> 4), -1) if dtype == "u4" else q
        q = parts.reshape(len(q), -1, 64)[..., places].reshape(len(q), -1)
        q = q.double() - (8 if dtype == "u4" else 0)
    wide = q.double()
    if scale.dim() == 2:
        wide = wide * scale[:, columns].T.double().repeat_interleave(GROUP, 1)[:, : q.shape[1]]
    exact = x.double() @ wide.T
    if scale.dim() == 1:
        exact = exact * scale[columns].double()
    return float((y[:, columns].double() - exact).abs().max() / exact.abs().max())


def summary(rows: list[Row]) -> Iterator[str]:
    """Means and least ratios, by kind and section."""
    for kind in KINDS:
        for section, _, _ in SECTIONS:
            found = [
                each.ratio for each in rows if (each.kind, each.layer.section) == (kind, section)
            ]
            if found:
                yield (
                    f"{kind:11} {section:11} {len(found):3} layers: mean "
                    f"{geometric_mean(found):.3f}, least {min(found):.3f}"
                )
