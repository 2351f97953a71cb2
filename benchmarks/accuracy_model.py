"""Errors of attention without a GPU: `python -m benchmarks.accuracy_model --seed N` says of the
problems of a seed whose errors `python -m benchmarks.attention --only accuracy` pools what they are
to be.

Sampled rows are computed as the kernel computes them, in torch on the CPU: the order of the blocks
of keys, what exponentials count from, their rounding, and the tree of their sums. cuDNN is what is
known of it: exponentials that count from the largest score so far, whose sums are of f32. Products
of 16 bits are added up in f32, in another order than tensor cores have.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, log2
from typing import Any

from cutedialect.choosing import attention_parameters as parameters
from cutedialect.choosing.attention_problem import AttentionProblem
from cutedialect.choosing.attention_space import ATTENTION
from cutedialect.choosing.choose import choose
from cutedialect.frontend.library import online_softmax as program

from .attention_case import Attention
from .attention_draws import ACCURACY, drawn
from .attention_reference import unit
from .attention_values import shaped
from .inputs import TYPES
from .rows import is_accurate

_ARCH, _STEP, _CUDNN_KEYS = "sm_90a", 61, 128
# Threads that share a row, and elements in a register: what a register holds are neighbors.
_THREADS, _PAIR = 4, 2
_LOG2_E = 1.4426950408889634


@dataclass(frozen=True)
class Plan:
    """How a kernel computes: rows and keys of a tile, how it keeps what exponentials count from,
    and how many elements the sums of a block add in 16 bits, and of one that a mask cuts.
    """

    rows: int
    keys: int
    maxima: str
    packed: tuple[int, int]


@dataclass(frozen=True)
class Sample:
    """Rows `at` of heads, q (heads, rows, depth), and all of their k and v (heads, keys, depth)."""

    at: Any
    q: Any
    k: Any
    v: Any
    causal: bool

    @property
    def hidden(self) -> Any:
        """Which keys a row does not see, or None."""
        keys = self.at.new_tensor(range(self.k.shape[1]))
        return keys > self.at[:, None] if self.causal else None


def plan_of(case: Attention) -> Plan:
    """What `cute.attention` chooses."""
    rows, keys = case.rows, case.keys
    problem = AttentionProblem(
        dims=(case.depth, case.depth), rows=rows, keys=keys, is_uneven=case.causal,
        is_f16=case.dtype == "f16", sequences=case.batch * case.heads[0], arch=_ARCH,
    )  # fmt: skip
    chosen = choose(ATTENTION, problem)
    assert chosen.tile is not None
    bq, bk = chosen.tile
    made = parameters.open_parameters(problem, chosen)
    packed: Any = made["packed"]
    if made["sums"] == "multiply":
        packed = 1, 1
    return Plan(bq, bk, parameters.maxima(problem, chosen), packed)


def samples(torch: Any, case: Attention, seed: int) -> Iterator[Sample]:
    """One for each draw of a case."""
    kind = getattr(torch, TYPES[case.dtype][0])
    heads = case.batch * case.heads[0]
    at = torch.tensor([*range(0, case.rows, _STEP), case.rows - 1])
    for draw in range(case.draws):
        generator = torch.Generator().manual_seed(seed * case.draws + draw)
        q, k, v = (
            torch.randn((heads, count, case.depth), generator=generator)
            for count in (len(at), case.keys, case.keys)
        )
        q, k = shaped(torch, generator, case.values, case.size, q, k)
        yield Sample(at, q.to(kind), k.to(kind), v.to(kind), case.causal)


def exact(torch: Any, sample: Sample) -> Any:
    """The result in float64."""
    q, k, v = (each.double() for each in (sample.q, sample.k, sample.v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return torch.softmax(s if sample.hidden is None else s.masked_fill(sample.hidden, -inf), -1) @ v


def attended(torch: Any, sample: Sample, plan: Plan) -> Any:
    """The result of a kernel of ours."""
    tile = sample.at // plan.rows * plan.rows
    kind = sample.q.dtype
    is_f16 = kind == torch.float16
    name = "f16" if is_f16 else "bf16"
    # Blocks that take the largest score so far, and by how much it may be more in others.
    shift, few, most = 0.0, 0, 0.0
    if plan.maxima == "guessed":
        shift, few = (program._ROOM[name], program.FIRST_BLOCKS) if is_f16 else (0.0, 0)
        most = program._FAR if is_f16 else log2(program._MOST[name])
    elif plan.maxima == "lazy":
        most = program._SLACK[name]

    def base(m: Any, top: Any, first: int) -> Any:
        return torch.where(top <= m + (most if first >= few * plan.keys else 0.0), m, top)

    def total(p: Any, rounded: Any, first: int) -> Any:
        whole, cut = plan.packed
        found = _row_sums(rounded, whole)
        if not sample.causal or whole == cut:
            return found
        is_cut = first + plan.keys > tile + 1
        return torch.where(is_cut[:, None], _row_sums(rounded, cut), found)

    return _online(torch, sample, plan.keys, base, total, shift)


def cudnn(torch: Any, sample: Sample) -> Any:
    return _online(
        torch,
        sample,
        _CUDNN_KEYS,
        lambda m, top, first: top,
        lambda p, rounded, first: p.sum(-1, keepdim=True),
    )


def _online(
    torch: Any,
    sample: Sample,
    keys: int,
    base: Callable[[Any, Any, int], Any],
    total: Callable[[Any, Any, int], Any],
    shift: float = 0.0,
) -> Any:
    """Attention over blocks of `keys`: `base` of what exponentials counted from, the largest score
    so far, and the key that the block begins at is what they count from, times 2^shift; `total` is
    the sum of those of a block, before and behind rounding, that begins at a key.
    """
    q, k, v = sample.q.float(), sample.k.float(), sample.v.float()
    scale = torch.tensor(q.shape[-1] ** -0.5 * _LOG2_E)
    m = torch.full((*q.shape[:2], 1), -inf)
    sums, o = torch.zeros_like(m), torch.zeros_like(q)
    for first in range(0, k.shape[1], keys):
        block = slice(first, first + keys)
        s = q @ k[:, block].transpose(-1, -2)
        if sample.hidden is not None:
            s = s.masked_fill(sample.hidden[:, block], -inf)
        # Keys behind the last one.
        s = torch.nn.functional.pad(s, (0, keys - s.shape[-1]), value=-inf)
        new = base(m, torch.maximum(m, s.amax(-1, True) * scale), first)
        finite = new.clamp(min=program._LOWEST)
        p = torch.exp2(s * scale - (finite - shift))
        rounded = p.to(sample.q.dtype)
        factor = torch.where(m == new, 1.0, torch.exp2(m - finite))
        sums = sums * factor + total(p, rounded, first)
        o = o * factor + rounded.float()[..., : v[:, block].shape[1]] @ v[:, block]
        m = new
    return (o * (1.0 / sums)).to(sample.q.dtype)


def _row_sums(rounded: Any, packed: int) -> Any:
    """Sums of rows of which a thread adds so many registers in their type first, as a tree."""
    if packed == 1:
        return rounded.float().sum(-1, keepdim=True)
    rows, registers = rounded.shape[:-1], rounded.shape[-1] // (_THREADS * _PAIR)
    of_threads = rounded.reshape(*rows, registers, _THREADS, _PAIR).unbind(-3)
    found = rounded.new_zeros((*rows, 1)).float()
    for first in range(0, registers, packed):
        level = of_threads[first : first + packed]
        while len(level) > 1:
            pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
            level = [sum(pair[1:], pair[0]) for pair in pairs]
        found = found + level[0].float().sum((-1, -2))[..., None]
    return found


def errors(results: Sequence[Any], wanted: Sequence[Any]) -> tuple[float, float, float]:
    """(largest, mean) absolute error of several draws together, and the largest in units."""
    mean, largest = 0.0, (0.0, 0.0)
    for result, exact in zip(results, wanted, strict=True):
        apart = (result.double() - exact).abs().reshape(-1)
        mean += float(apart.mean()) / len(results)
        at = int(apart.argmax())
        error, value = float(apart[at]), float(exact.reshape(-1)[at])
        kind = sys.modules["torch"].finfo(result.dtype)
        largest = max(largest, (error, error / unit(kind, value)))
    return largest[0], mean, largest[1]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.accuracy_model", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    chosen = parser.parse_args(arguments)
    import torch  # pyright: ignore[reportMissingImports]

    missed = 0
    for case in drawn(chosen.seed):
        if case.section != ACCURACY or chosen.only not in case.name:
            continue
        wanted, mine, theirs = [], [], []
        for sample in samples(torch, case, chosen.seed):
            wanted.append(exact(torch, sample))
            mine.append(attended(torch, sample, plan_of(case)))
            theirs.append(cudnn(torch, sample))
        found, other = errors(mine, wanted), errors(theirs, wanted)
        holds = is_accurate(found, other)
        missed += not holds
        print(
            f"{case.name}: mean {found[1] / other[1]:.2f} of cuDNN's, largest "
            f"{found[0] / other[0]:.2f} ({found[2]:.2f} units){'' if holds else '  MISSED'}"
        )
    print(f"{missed} missed")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
