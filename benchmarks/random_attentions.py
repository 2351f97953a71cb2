"""Attention drawn by lot: element types, head dimensions, masks, shared heads, padded keys, packed
sequences, pages and schedules; run in the emulator, compared with NumPy, and assembled.

    python -m benchmarks.random_attentions [--count N] [--seed S] [--only NUMBER] [--target NAME]
                                           [--assemble] [--ptxas PATH] [--dry] [--budget SECONDS]
                                           [--jobs N] [--form NAME ...] [--open]

Forms have their turns, those that `--form` names or all. With `--open` no schedule is drawn: each
problem, of wide heads more often, takes what its call takes where extents are not known, which is
chosen for many rows and keys, CTA pairs among it.

A result is right where its errors are at most twice those of the same computation in the same
precision, or half a unit of the result's last place. `--assemble` and `--ptxas` ask assemblers as
`benchmarks.random_gemms` does, of which default kernels must not spill. `--dry` compiles and
assembles, and runs nothing. The exit status is 1 where a problem is wrong or ends in another error
than a refusal, or in one of a kernel whose synchronization is not proved, or where a default
spills.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from unittest import mock

import ml_dtypes
import numpy as np

import cutedialect as cute
from cutedialect.frontend import attention_facts

from .protocol_verdict import forget_calls
from .random_gemms import KINDS, Release, add_options, assembled_by, refusal, releases
from .random_programs import Outcome

TARGETS = ("sm_100a", "sm_103a")
FORMS = ("plain", "causal", "window", "capped", "padded", "packed", "paged")
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
_TYPES = (BF16, BF16, np.float16, E4M3)
_DEPTHS = ((64, 64), (128, 128), (128, 128), (256, 256), (192, 128), (96, 96), (80, 80), (72, 40))
_OPEN_DEPTHS = (
    *((256, 256),) * 3, *((192, 128),) * 3, (224, 224), (160, 160), (128, 128),
)  # fmt: skip
_PAGE = 32
# What is multiplied by V in 8 bits is so many powers of two larger than exponentials up to 1.
_SHIFT = 8
# The largest score of a problem whose scores rise from block to block, in units of log(2).
_DEVIATIONS = (0.5, 1.0, 1.0, 4.0, 8.0)


@dataclass(frozen=True)
class Problem:
    """A call: `lengths` has (rows, keys) of each sequence; those of unpacked ones have the same."""

    number: int
    target: str
    form: str
    dtype: Any
    heads: tuple[int, int]
    depths: tuple[int, int]
    lengths: tuple[tuple[int, int], ...]
    deviation: float
    masks: dict[str, Any] = field(default_factory=dict)
    returns_lse: bool = False
    schedule: str | None = None
    is_open: bool = False

    @property
    def text(self) -> str:
        """The problem in one line."""
        (heads, shared), (depth, wide) = self.heads, self.depths
        lengths = " ".join(f"{rows}x{keys}" for rows, keys in self.lengths)
        masks = "".join(f" {name}={value}" for name, value in self.masks.items())
        return (
            f"{self.number} {self.target} {np.dtype(self.dtype).name} {self.form} {heads}/{shared} "
            f"heads {depth}/{wide} {lengths} deviation {self.deviation:g}{masks}"
            f"{' lse' if self.returns_lse else ''} "
            f"[{self.schedule or 'default'}{' of open extents' * self.is_open}]"
        )


def draw(
    seed: int, number: int, targets: Sequence[str] = TARGETS, forms: Sequence[str] = FORMS,
    is_open: bool = False,
) -> Problem:  # fmt: skip
    """The problem of this number of a seed; forms have their turns."""
    rng = np.random.default_rng((seed, number))

    def one(choices: Sequence[Any]) -> Any:
        return choices[int(rng.integers(len(choices)))]

    def length(most: int) -> int:
        return int(rng.integers(1, most))

    form = forms[number % len(forms)]
    masks: dict[str, Any] = {}
    if form == "causal" or (form != "plain" and rng.random() < 0.5):
        masks["causal"] = True
    if form == "window":
        masks["window"] = (length(200), -1 if "causal" in masks else length(60))
    if form == "capped":
        masks["softcap"] = float(one((2.5, 20.0)))
    entries = one((1, 1, 2)) if form in ("plain", "causal", "window", "capped") else one((2, 3))
    # Wide heads take long to emulate.
    entries = min(entries, 1 if form in ("plain", "causal") else 2) if is_open else entries
    if form == "packed":
        lengths = tuple((length(200), length(300)) for _ in range(entries))
    else:
        rows = length(300)
        keys = length(400) if form in ("padded", "paged") else one((rows, length(400)))
        lengths = tuple((rows, keys) for _ in range(entries))
    if form in ("padded", "paged"):
        lengths = tuple((rows, int(rng.integers(0, keys + 1))) for rows, keys in lengths)
    shared = 1 if is_open else one((1, 1, 2))
    groups = (1, 1, 2) if is_open else (1, 1, 2, 4)
    return Problem(
        number,
        one(targets),
        form,
        one(_TYPES),
        (shared * one(groups), shared),
        one(_OPEN_DEPTHS if is_open else _DEPTHS),
        lengths,
        one(_DEVIATIONS),
        masks,
        bool(rng.random() < (0.1 if is_open else 0.3)),
        None if is_open or rng.random() < 0.6 else _schedule(one),
        is_open,
    )


def _schedule(one: Callable[[Sequence[Any]], Any]) -> str:
    choices = {
        "tile": one(("(128,64)", "(256,64)", "(128,128)", "(256,128)")),
        "stages": one((None, 1, 2, 3)),
        "scheduler": one((None, "single", "persistent", "cancel", "dynamic")),
        "maxima": one((None, None, "exact", "lazy")),
        "polynomials": one((None, None, "(2,3)", "(8,3)", "(0,3)")),
        "epilogue": one((None, None, "direct", "smem", "tma")),
        "cluster": one((None, None, None, "(2,1)")),
        "split_loops": one((None, None, None, "no")),
    }
    return ", ".join(f"{name} = {value}" for name, value in choices.items() if value is not None)


@dataclass
class Operands:
    """Arrays of each sequence (heads, length, depth), and the call's arguments."""

    sequences: list[tuple[Any, Any, Any]]
    arrays: tuple[Any, Any, Any]
    options: dict[str, Any]

    def results(self, problem: Problem, result: Any) -> Iterator[Any]:
        """The part of a result (1 or entries, heads, rows...) of each sequence."""
        if problem.form != "packed":
            yield from result
            return
        at = 0
        for rows, _ in problem.lengths:
            yield result[0][:, at : at + rows]
            at += rows


def operands_of(problem: Problem) -> Operands:
    """Normally distributed elements; what no row sees of padded keys and pages is NaN."""
    rng = np.random.default_rng(problem.number)
    (heads, shared), (depth, wide) = problem.heads, problem.depths

    def normal(*shape: int, size: float = 1.0) -> Any:
        return (rng.standard_normal(shape) * size).astype(problem.dtype)

    size = math.sqrt(problem.deviation)
    sequences = [
        (
            normal(heads, rows, depth, size=size),
            normal(shared, keys, depth, size=size),
            normal(shared, keys, wide),
        )
        for rows, keys in problem.lengths
    ]
    options: dict[str, Any] = dict(problem.masks)
    q, k, v = zip(*sequences, strict=True)
    if problem.form == "packed":
        offsets = [
            np.cumsum([0, *each]).astype(np.int32) for each in zip(*problem.lengths, strict=True)
        ]
        options["cu_seqlens"] = tuple(offsets)
        arrays = tuple(np.concatenate(each, 1)[None] for each in (q, k, v))
        return Operands(sequences, arrays, options)  # pyright: ignore[reportArgumentType]
    if problem.form not in ("padded", "paged"):
        arrays = tuple(np.stack(each) for each in (q, k, v))
        return Operands(sequences, arrays, options)  # pyright: ignore[reportArgumentType]
    options["lengths"] = np.array([keys for _, keys in problem.lengths], np.int32)
    if problem.form == "padded":
        most = max(1, *(keys for _, keys in problem.lengths))
        return Operands(sequences, (np.stack(q), *(_padded(x, most) for x in (k, v))), options)
    table, pages = _in_pages(rng, (k, v), [keys for _, keys in problem.lengths])
    options["block_table"] = table
    return Operands(sequences, (np.stack(q), *pages), options)


def _padded(arrays: Sequence[Any], most: int) -> Any:
    first = arrays[0]
    result = np.full((len(arrays), first.shape[0], most, first.shape[2]), np.nan, first.dtype)
    for to, each in zip(result, arrays, strict=True):
        to[:, : each.shape[1]] = each
    return result


def _in_pages(
    rng: np.random.Generator, arrays: Sequence[Sequence[Any]], lengths: Sequence[int]
) -> tuple[Any, tuple[Any, Any]]:
    """(table, pages of K and V): pages in any order; entries behind the last name no page."""
    counts = [-(-length // _PAGE) for length in lengths]
    places = iter(rng.permutation(sum(counts) + 1).tolist())
    table = np.full((len(lengths), max(1, *counts) + 1), 1 << 20, np.int32)
    pages = tuple(
        np.full((sum(counts) + 1, x[0].shape[0], _PAGE, x[0].shape[2]), np.nan, x[0].dtype)
        for x in arrays
    )
    for entry, count in enumerate(counts):
        for page in range(count):
            table[entry, page] = place = next(places)
            for given, to in zip(arrays, pages, strict=True):
                part = given[entry][:, page * _PAGE : (page + 1) * _PAGE]
                to[place, :, : part.shape[1]] = part
    return table, pages  # pyright: ignore[reportReturnType]


def expected(problem: Problem, q: Any, k: Any, v: Any, precision: Any) -> tuple[Any, Any]:
    """(output, logarithms) of a sequence in a precision; in f32 what is multiplied by V and stored
    is rounded as a kernel rounds it.
    """
    rounds = precision is np.float32
    is_narrow = np.dtype(problem.dtype).itemsize == 1
    group = q.shape[0] // k.shape[0]
    q, k, v = (x.astype(precision) for x in (q, np.repeat(k, group, 0), np.repeat(v, group, 0)))
    s = q @ k.swapaxes(-1, -2) * precision(1 / math.sqrt(q.shape[-1]))
    if cap := problem.masks.get("softcap"):
        s = precision(cap) * np.tanh(s / precision(cap))
    left, right = problem.masks.get("window", (-1, -1))
    right = 0 if problem.masks.get("causal") else right
    behind = np.arange(k.shape[1])[None] - np.arange(q.shape[1])[:, None]
    behind = behind - (k.shape[1] - q.shape[1])
    seen = ((right < 0) | (behind <= right)) & ((left < 0) | (behind >= -left))
    s = np.where(seen, s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isinf(top), precision(0), top)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    if rounds:
        shift = _SHIFT if is_narrow else 0
        p = np.ldexp(np.ldexp(p, shift).astype(problem.dtype).astype(precision), -shift)
    out = np.where(total == 0, precision(0), p @ v / np.where(total == 0, precision(1), total))
    if rounds:
        out = out.astype(BF16 if is_narrow else problem.dtype)
    with np.errstate(divide="ignore"):
        return out.astype(np.float64), (top + np.log(total))[..., 0]


@contextlib.contextmanager
def _open_extents() -> Iterator[None]:
    """Calls inside choose as those do whose extents are not known."""
    forget_calls()
    unknown = None, None, None
    with mock.patch.object(attention_facts, "_lengths", return_value=unknown):
        yield
    forget_calls()


def outcome(
    problem: Problem, tools: Sequence[Release] = (), runs: bool = True
) -> tuple[Outcome, str]:
    """What became of a problem, and with which instruction it multiplies."""
    with _open_extents() if problem.is_open else contextlib.nullcontext():
        return _outcome(problem, tools, runs)


def _outcome(problem: Problem, tools: Sequence[Release], runs: bool) -> tuple[Outcome, str]:
    operands = operands_of(problem)
    given: dict[str, Any] = operands.options | {"return_lse": problem.returns_lse}
    given |= {"arch": problem.target, "backend": "emulator"}
    if problem.schedule is not None:
        given["schedule"] = problem.schedule
    function, compile_ = cast("Any", cute.attention), cast("Any", cute.compile)
    try:
        got = function(*operands.arrays, **given) if runs else None
        kernel = compile_(function, *operands.arrays, **given)
    except (cute.CompileError, ValueError) as error:
        return refusal(error), ""
    except Exception as error:
        return Outcome("broken", f"{type(error).__name__}: {error}"), ""
    unit = "tcgen05" if "tcgen05.mma" in kernel.ptx else "mma.sync"
    unit += " pair" if "cta_group::2" in kernel.ptx else ""
    if got is not None and (why := _difference(problem, operands, got)):
        return Outcome("wrong", why), unit
    said = [(release, *assembled_by(kernel, release)) for release in tools]
    for kind in ("wrong", "spills"):
        for release, found, why in said:
            if found == kind:
                return Outcome(kind, f"ptxas {release.number}: {why}"), unit
    return Outcome("right", "; ".join(each.message for each in kernel.remarks)), unit


def _difference(problem: Problem, operands: Operands, got: Any) -> str:
    """What is wrong about a result, "" for nothing; errors of all sequences together."""
    out, lse = got if problem.returns_lse else (got, None)
    pairs = [
        (expected(problem, *each, np.float64), expected(problem, *each, np.float32))
        for each in operands.sequences
    ]
    parts = list(operands.results(problem, np.asarray(out).astype(np.float64)))
    errors, allowed, largest = [np.zeros(1)], [np.zeros(1)], 0.0
    for ((exact, _), (same, _)), part in zip(pairs, parts, strict=True):
        errors.append(np.abs(part - exact).ravel())
        allowed.append(np.abs(same - exact).ravel())
        largest = max(largest, float(np.abs(exact).max(initial=0.0)))
    found, most = np.concatenate(errors), np.concatenate(allowed)
    half = largest * float(ml_dtypes.finfo(out.dtype).eps) / 2
    limits = max(2 * most.max(), half), 2 * most.mean() + half / 64
    if not (found.max() <= limits[0] and found.mean() <= limits[1]):
        return (
            f"expected errors of at most {limits[0]:.3g}, {limits[1]:.3g} on average, got "
            f"{found.max():.3g} and {found.mean():.3g}"
        )
    if lse is None:
        return ""
    near = 2e-3 if np.dtype(problem.dtype).itemsize == 1 else 1e-5
    if ",3)" in (problem.schedule or "").partition("polynomials = ")[2]:
        # Polynomials of degree 3, which a default takes only without logarithms, are off by 2^-13.
        near = max(near, 2.0**-13)
    for ((_, exact), _), part in zip(pairs, operands.results(problem, lse), strict=True):
        if not np.allclose(part, exact, rtol=near, atol=near):
            return f"expected logarithms {exact.ravel()[:4]}, got {part.ravel()[:4]}"
    return ""


def _told(
    options: argparse.Namespace, number: int
) -> tuple[Problem, Outcome, str, list[tuple[str, Counter[str]]]]:
    """A problem with its outcome and what each assembler said, for a process of its own."""
    named = options.ptxas or ()
    tools = releases(named) if options.assemble or named else []
    targets, forms = options.target or TARGETS, options.form or FORMS
    problem = draw(options.seed, number, targets, forms, options.open)
    found, unit = outcome(problem, tools, not options.dry)
    return problem, found, unit, [(each.number, each.said) for each in tools]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.random_attentions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser, 70, TARGETS)
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--form", metavar="NAME", action="append", choices=FORMS, help="of these")
    parser.add_argument("--open", action="store_true", help="schedules of unknown extents")
    options = parser.parse_args(arguments)
    ask = partial(_told, options)
    numbers = range(options.count) if options.only is None else [options.only]
    began, kinds = time.perf_counter(), Counter[str]()
    units, reasons, said = Counter[str](), Counter[str](), dict[str, Counter[str]]()
    faults = 0
    for problem, found, unit, told in _answers(ask, numbers, options.jobs, options.budget):
        kinds[found.kind] += 1
        units[unit] += found.kind == "right"
        if found.kind == "refused":
            reasons[f"refused: {found.pattern}"] += 1
        is_default = found.kind == "spills" and problem.schedule is None
        faults += found.kind in ("wrong", "broken") or is_default
        for number, counts in told:
            said.setdefault(number, Counter()).update(counts)
        if found.kind in ("wrong", "broken", "spills") or options.only is not None:
            print(f"{problem.text}\n  {found.kind} {unit}: {found.reason}", flush=True)
    print(f"{sum(kinds.values())} problems in {time.perf_counter() - began:.0f} s")
    print(", ".join(f"{kinds[kind]} {kind}" for kind in KINDS))
    print(", ".join(f"{count} by {unit}" for unit, count in units.items() if unit))
    for number, counts in sorted(said.items()):
        print(f"ptxas {number}: {counts['clean']} clean, {counts['spills']} with spills, "
              f"{counts['wrong']} with warnings or C75xx")  # fmt: skip
    for reason, count in reasons.most_common():
        print(f"  {count:4} {reason}")
    return 1 if faults else 0


def _answers(ask: Any, numbers: Sequence[int], jobs: int, budget: float | None) -> Iterator[Any]:
    """What is told of each number until the time is over."""
    began = time.perf_counter()
    if jobs == 1:
        for number in numbers:
            if budget is not None and time.perf_counter() - began > budget:
                return
            yield ask(number)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for start in range(0, len(numbers), 4 * jobs):
            if budget is not None and time.perf_counter() - began > budget:
                return
            yield from pool.map(ask, numbers[start : start + 4 * jobs])


if __name__ == "__main__":
    sys.exit(main())
