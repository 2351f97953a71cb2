"""`python -m benchmarks.layout_laws [--count N] [--first F] [--seed S] [--jobs N] [--law NAME]
[--list]`: the laws of the layout algebra on every compact layout of at most 4 modes with extents up
to 4, in all orders of strides, on every layout of at most 2 modes with strides up to twice its
size, and on drawn ones beyond, the numbers F to F + N - 1 of a seed.

A law (`benchmarks/laws/`) is a statement about the functions that layouts are, checked against
their definition: digits of the index times strides. Prints each layout that breaks one, the laws
that said something of the fewest layouts, and how many there were; exits 1 where one is broken, or
said nothing at all. A layout that is drawn again is not checked again, since a law is a function of
the layout alone. `--count 1000000` is half an hour of one core.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice, permutations, product
from math import prod
from multiprocessing import get_context

from benchmarks.laws import LAWS, Case
from cutedialect.layout import Layout

_EXTENTS = (1, 2, 3, 4)
# Elements of drawn layouts: of most of them few, so that a million take minutes.
_SMALL, _LARGEST, _LARGE_SHARE = 24, 256, 0.04
# Laws whose counts are shown.
_SHOWN = 5
# Layouts that a process checks before it asks for more.
_BATCH = 250


def compact_layouts() -> Iterator[Layout]:
    """Every compact layout of at most 4 modes with extents up to 4, in all orders."""
    for rank in range(1, 5):
        for shape in product(_EXTENTS, repeat=rank):
            for order in permutations(range(rank)):
                strides, size = [0] * rank, 1
                for mode in order:
                    strides[mode] = size
                    size *= shape[mode]
                yield Layout(shape, tuple(strides))


def strided_layouts() -> Iterator[Layout]:
    """Every layout of at most 2 modes with extents up to 4 and strides up to twice its size."""
    for rank in (1, 2):
        for shape in product(_EXTENTS, repeat=rank):
            for strides in product(range(2 * prod(shape) + 1), repeat=rank):
                yield Layout(shape, strides)


def drawn_layouts(seed: int) -> Iterator[Layout]:
    """Endlessly many layouts of up to 5 modes, some of them nested."""
    draw = random.Random(seed)
    while True:
        shape = [draw.choice((1, 2, 2, 3, 4, 5, 8)) for _ in range(draw.randint(1, 5))]
        if prod(shape) > (_LARGEST if draw.random() < _LARGE_SHARE else _SMALL):
            continue
        if draw.random() < 0.5:
            order = draw.sample(range(len(shape)), len(shape))
            stride, size = [0] * len(shape), draw.choice((1, 1, 1, 2, 3))
            for mode in order:
                stride[mode] = size
                size *= shape[mode] * draw.choice((1, 1, 1, 2))
        else:
            stride = [draw.choice((0, 1, 2, 3, 4, 6, 8, 12, 16, 64)) for _ in shape]
        if len(shape) > 2 and draw.random() < 0.5:
            shape, stride = [tuple(shape[:2]), *shape[2:]], [tuple(stride[:2]), *stride[2:]]
        yield Layout(tuple(shape), tuple(stride))


def broken(cases: Iterable[Case], said: Counter[str], only: str = "") -> int:
    """How many laws the layouts of cases break; each is printed. Counts of how many layouts each
    law says something.
    """
    laws = {only: LAWS[only]} if only else LAWS
    faults = 0
    for case in cases:
        for name, check in laws.items():
            kept = check(case)
            if kept is None:
                continue
            said[name] += 1
            if not kept:
                print(f"{name}: {case.layout}", flush=True)
                faults += 1
    return faults


def layouts_of(seed: int, first: int, count: int) -> list[Layout]:
    """All small layouts, and those of the numbers from `first` on of a seed, each once."""
    drawn = islice(drawn_layouts(seed), first, first + count)
    return list(dict.fromkeys(chain(compact_layouts(), strided_layouts(), drawn)))


def _share(layouts: Sequence[Layout], only: str) -> tuple[int, Counter[str]]:
    """What one process finds of a batch."""
    said: Counter[str] = Counter()
    return broken(map(Case, layouts), said, only), said


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all laws; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.layout_laws",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=100_000, help="drawn layouts")
    parser.add_argument("--first", type=int, default=0, help="number of the first drawn layout")
    parser.add_argument("--seed", type=int, default=0, help="of the drawn layouts")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--law", default="", choices=("", *LAWS), help="this one alone")
    parser.add_argument("--list", action="store_true", help="print the names of all laws")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(LAWS))
        return 0
    start = time.perf_counter()
    layouts = layouts_of(options.seed, options.first, options.count)
    batches = [layouts[at : at + _BATCH] for at in range(0, len(layouts), _BATCH)]
    check = partial(_share, only=options.law)
    said = Counter(dict.fromkeys([options.law] if options.law else LAWS, 0))
    faults = 0
    with ExitStack() as stack:
        parts = map(check, batches)
        if options.jobs > 1:
            pool = stack.enter_context(get_context("spawn").Pool(options.jobs))
            parts = pool.imap_unordered(check, batches)
        for fault, part in parts:
            faults += fault
            said.update(part)
    for name, count in said.most_common()[: -_SHOWN - 1 : -1]:
        print(f"{count:>11,} layouts: {name}")
    last = options.first + options.count - 1
    print(
        f"{len(said)} laws, all small layouts and the drawn ones {options.first:,} to {last:,} of "
        f"seed {options.seed}, {len(layouts):,} different ones: {sum(said.values()):,} statements, "
        f"{faults} broken, {time.perf_counter() - start:.0f} s"
    )
    return 1 if faults or not all(said.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
