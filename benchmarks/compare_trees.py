"""`python -m benchmarks.compare_trees --base REV`: whether the kernels of another commit and of
this tree are the same, and what those that differ lose or gain.

    python -m benchmarks.compare_trees (--base REV | --base-path FOLDER) [--targets NAME ...]
                                       [--kernels KIND ...] [--only REGEX] [--assemble]
                                       [--run [--seconds S]] [--compile [TURNS]] [--jobs N]
                                       [--json FILE] [--folder FOLDER]

Each tree compiles in processes of its own: the cases of the tables, streaming programs, and what
examples and pages launch. PTX is compared without comments and lines of the source. What the base
does not have, its compiler makes of the program of this tree, and scripts that launch others as
well: a kernel may differ because its program does. What only one tree compiles, for a new word or
a new case, is counted apart.

`--assemble` has registers, spills and instructions of both kernels of a pair that differs, and
what the static model of each tree predicts, where it knows the target. `--run` times them on the
GPU in turns, each in a process of its tree, and compares results: above 1 this tree is faster.
`--compile` has processor time from program to PTX, the least of some turns, without the check of
the protocol, which is named apart. Exits 1 where a kernel of this tree is slower than 0.97 (timed,
or else predicted), wrong, or spills more than the base's.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cutedialect.backend.runtime.devices import current_arch

from .multiplied_programs import TARGETS
from .trees import turns
from .trees.assembly import SAME, assembled, predicted
from .trees.pairs import DIFFERENT, STATES, Pair, Trees
from .trees.programs import KINDS, LISTED
from .trees.rows import alone, change, missed, row, summary
from .trees.tree import ROOT, Tree, exported

_TURNS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(options.folder or work)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            base = options.base_path or exported(options.base, Path(work) / "base")
        except ValueError as error:
            sys.stderr.write(f"{error}\n")
            return 2
        trees = Trees(
            Tree(ROOT, ROOT, folder / "cache"),
            Tree(base, base, folder / "cache-of-base"),
            Tree(base, ROOT, folder / "cache-of-base"),
        )
        pairs = compiled(trees, options, folder)
        for line in alone(pairs):
            print(line, flush=True)
        for pair in examined(trees, pairs, options, folder):
            print(row(pair), flush=True)
        for line in summary(pairs):
            print(line)
        if options.json is not None:
            options.json.write_text(json.dumps(list(map(asdict, pairs)), indent=1, default=str))
    return int(any(missed(pair) for pair in pairs))


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare_trees",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    base = parser.add_mutually_exclusive_group(required=True)
    base.add_argument("--base", metavar="REV", help="a revision that git has")
    base.add_argument("--base-path", metavar="FOLDER", type=Path, help="a folder with its files")
    parser.add_argument("--targets", metavar="NAME", nargs="+", default=TARGETS, help="all five")
    parser.add_argument("--kernels", nargs="+", choices=KINDS, default=KINDS, help="all four")
    parser.add_argument("--only", metavar="REGEX", default="", help="cases and scripts by name")
    parser.add_argument("--assemble", action="store_true", help="registers, code, predictions")
    parser.add_argument("--run", action="store_true", help="time kernels that differ on the GPU")
    parser.add_argument(
        "--seconds", type=float, default=600, help="of --run; first what changed most"
    )
    parser.add_argument(
        "--compile",
        metavar="TURNS",
        type=int,
        nargs="?",
        const=_TURNS,
        default=0,
        help=f"time compilations, {_TURNS} turns",
    )
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows")
    parser.add_argument("--folder", metavar="FOLDER", help="keep PTX and the caches there")
    return parser.parse_args(arguments)


def compiled(trees: Trees, options: Any, folder: Path) -> list[Pair]:
    """The kernels of both trees, and a line of counts for each kind and target."""
    rooms = [(kind, target) for kind in options.kernels for target in options.targets]
    shares = -(-options.jobs // len(rooms))
    work = [(*room, (share, shares)) for room in rooms for share in range(shares)]

    def one(kind: str, target: str, share: tuple[int, int]) -> list[Pair]:
        return trees.pairs(kind, target, share=share, only=options.only, folder=str(folder))

    with ThreadPoolExecutor(options.jobs) as pool:
        pairs = [pair for some in pool.map(lambda each: one(*each), work) for pair in some]
    for kind, target in rooms:
        counts = Counter(p.state for p in pairs if (p.kind, p.target) == (kind, target))
        said = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
        print(f"{kind} {target}: {said or 'none'}", flush=True)
    return pairs


def shared(pairs: Sequence[Pair], jobs: int) -> list[list[Pair]]:
    """Pairs for so many processes; a script's stay together, since it is compiled as a whole."""
    sources = dict.fromkeys(pair.source for pair in pairs)
    places = {source: number % jobs for number, source in enumerate(sources)}
    shares: list[list[Pair]] = [[] for _ in range(jobs)]
    for pair in pairs:
        shares[places[pair.source]].append(pair)
    return [share for share in shares if share]


def examined(trees: Trees, pairs: Sequence[Pair], options: Any, folder: Path) -> Iterator[Pair]:
    """The pairs that differ, with what is asked for of them: those that are timed as they are."""
    with ThreadPoolExecutor(options.jobs) as pool:

        def side_by_side(work: Callable[[list[Pair]], None], some: Sequence[Pair]) -> None:
            list(pool.map(work, shared(some, options.jobs)))

        different = [pair for pair in pairs if pair.state == DIFFERENT]
        if options.assemble or options.run:
            side_by_side(lambda some: assembled(trees, some, str(folder)), different)
            different = [pair for pair in different if pair.figures.get("alike") != SAME]
            different.sort(key=change, reverse=True)
        here = current_arch() if options.run else ""
        mine = [pair for pair in different if pair.target == here]
        if options.assemble:
            side_by_side(lambda some: predicted(trees, some), different)
        if options.compile:
            known = [pair for pair in pairs if pair.kind in LISTED and pair.old and pair.new]
            side_by_side(lambda some: turns.compiled(trees, some, options.compile), known)
        yield from (pair for pair in different if pair.target != here)
    yield from turns.timed(trees, mine, folder, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
