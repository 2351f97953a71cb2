"""Attention on problems drawn at random: scores of any deviation, short problems, windows, and
small ones whose errors are pooled. One seed gives one list.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from .attention_case import CUDNN, FLASH, Attention, repeated
from .attention_peers import CUDNN_PACKED, FLASH_DIRECT
from .attention_values import DRIFT, LATE, NORMAL, RISE, SINK
from .strata import Stratum

ACCURACY, LATENT = "accuracy", "latent"
STRATA = (
    Stratum("scores", 40, 1.12, 1.05, 1.0, 1.25, of_best=0.96),
    Stratum("short", 40, 1.05, 0.93, 0.93, 1.2, share=1.0),
    Stratum("windows", 2, 1.0, 1.0, 1.0, 1.2),
)
# Deviations of scores, and what grows to a size between the two.
_DEVIATIONS = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0)
_SIZES = {DRIFT: (4, 12), RISE: (4, 16), SINK: (8, 20), LATE: (12, 30)}
_DEPTHS, _LENGTHS = (64, 96, 128, 192, 256), (2048, 4096, 8192, 16384)
_WAYS = ("exact", "lazy", "guessed")
# Tokens of a problem, and heads times depth.
_TOKENS, _WIDTH = 16384, 2048
_SHORT_DEPTHS = (32, 64, 80, 96, 128, 192, 256)
_DRAWS, _SMALL, _CASES = 8, 2048, 20
# Decoding with latent attention: dimensions of q and k, and how many of these are v.
_LATENT_DEPTHS, _LATENT_CASES, _PAGE = (576, 512), 4, 64


def drawn(seed: int, scale: float = 1.0) -> tuple[Attention, ...]:
    """The rows of a seed, `scale` times as many as `STRATA` says (each stratum at least one)."""
    rows: list[Attention] = []
    makers = (_scores, _short, _windows, _latent, _accuracy)
    counts = [stratum.count for stratum in STRATA] + [_LATENT_CASES, _CASES]
    for number, (make, count) in enumerate(zip(makers, counts, strict=True)):
        rng = random.Random(f"{seed} attention {number}")
        rows += make(rng, max(1, round(scale * count)))
    # Rows of one name are one row.
    return tuple({case.name: case for case in rows}.values())


def _scores(rng: random.Random, count: int) -> Iterator[Attention]:
    """Each kind of scores, head dimension, mask and length as often as any other."""
    kinds = _dealt(rng, [*((NORMAL, each) for each in _DEVIATIONS), *_grown(rng)], count)
    depths, lengths = _dealt(rng, _DEPTHS, count), _dealt(rng, _LENGTHS, count)
    masks, types = _dealt(rng, (False, True), count), _dealt(rng, ("bf16",) * 3 + ("f16",), count)
    for (values, size), depth, length, causal, dtype in zip(
        kinds, depths, lengths, masks, types, strict=True
    ):
        heads = max(1, _WIDTH // depth)
        yield Attention(
            "scores", dtype, _TOKENS // length, (heads, heads), length, length, depth, causal,
            values=values, size=size, against=(CUDNN,), ways=_WAYS, label=f"{values} {size:g}",
            gate=1.05, goal=1.25,
        )  # fmt: skip


def _grown(rng: random.Random) -> list[tuple[str, float]]:
    return [(values, rng.randint(*limits)) for values, limits in _SIZES.items()]


def _short(rng: random.Random, count: int) -> Iterator[Attention]:
    """Up to 1024 rows: masks, windows and shared heads, and short packed sequences."""
    kinds = _dealt(rng, ("full", "causal", "full", "causal", "shared", "window", "packed"), count)
    depths = _dealt(rng, _SHORT_DEPTHS, count)
    # Rows whose logarithms crowd towards the most.
    logs = [((number + rng.random()) / count) ** 0.5 for number in range(count)]
    rng.shuffle(logs)
    for kind, depth, log in zip(kinds, depths, logs, strict=True):
        rows = max(1, round(1024**log))
        many = round(2 ** rng.uniform(3, 9))
        batch = max(1, round(many ** rng.random()))
        heads = max(1, many // batch)
        pair, causal = (heads, heads), kind in ("causal", "window") or rng.random() < 0.3
        more = {"window": None, "packed": (), "against": (CUDNN, FLASH)}
        keys = rows
        if kind == "shared":
            group = rng.choice((2, 4, 8))
            pair = (group * max(1, heads // group), max(1, heads // group))
            keys = max(rows, round(2 ** rng.uniform(5, 10)))
            causal &= keys == rows
            more["against"] = (CUDNN, FLASH, repeated(CUDNN), repeated(FLASH))
        elif kind == "window":
            rows = keys = max(rows, 64)
            more |= {"window": rng.randint(16, max(17, rows // 2)), "against": (FLASH_DIRECT,)}
        elif kind == "packed":
            lengths = tuple(rng.randint(20, 200) for _ in range(64))
            heads = rng.choice((4, 8, 16))
            pair = (heads, heads)
            batch, rows, keys = 1, 0, 0
            more |= {"packed": lengths, "against": (CUDNN_PACKED, FLASH_DIRECT)}
        label = f"{rows} rows, batch {batch}" if not more["packed"] else f"{sum(lengths)} rows"
        yield Attention(
            "short", "bf16", batch, pair, rows, keys, depth, causal, label=label,
            gate=0.93, goal=1.2, **more,
        )  # fmt: skip


def _windows(rng: random.Random, count: int) -> Iterator[Attention]:
    """Windows of 1024 of long sequences, against the whole causal problem for equal work."""
    for depth in _dealt(rng, (128, 64), count):
        heads = _WIDTH // depth
        yield Attention(
            "windows", "bf16", 1, (heads, heads), _TOKENS, _TOKENS, depth, True, 1024,
            label="drawn", gate=1.0, goal=1.2,
        )  # fmt: skip


def _latent(rng: random.Random, count: int) -> Iterator[Attention]:
    """Decoding with heads that share one of keys, of which values are a part."""
    depth, columns = _LATENT_DEPTHS
    kinds = _dealt(rng, [(heads, page) for heads in (16, 128) for page in (0, _PAGE)], count)
    for heads, page in kinds:
        keys = rng.choice((4096, 8192) if heads > 16 else (4096, 8192, 16384))
        yield Attention(
            LATENT, "bf16", 64 if heads > 16 else rng.choice((32, 64, 128)), (heads, 1), 1, keys,
            depth, page=page, columns=columns, gate=0.0,
        )  # fmt: skip


def _accuracy(rng: random.Random, count: int) -> Iterator[Attention]:
    """Small problems of all kinds of scores."""
    kinds = _dealt(rng, [*((NORMAL, each) for each in _DEVIATIONS), *_grown(rng)], count)
    depths, types = _dealt(rng, _DEPTHS, count), _dealt(rng, ("bf16", "bf16", "f16"), count)
    masks = _dealt(rng, (False, True), count)
    for (values, size), depth, dtype, causal in zip(kinds, depths, types, masks, strict=True):
        yield Attention(
            ACCURACY, dtype, 4, (8, 8), _SMALL, _SMALL, depth, causal, values=values, size=size,
            against=(CUDNN,), draws=_DRAWS, label=f"{values} {size:g}, {_DRAWS} draws", gate=0.0,
        )  # fmt: skip


def _dealt(rng: random.Random, cards: list | tuple, count: int) -> list:
    """So many of them in random order, each as often as any other."""
    found: list = []
    while len(found) < count:
        found += rng.sample(cards, len(cards))
    return found[:count]
