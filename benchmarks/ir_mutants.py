"""`python -m benchmarks.ir_mutants [--count N] [--first F] [--seed S] [--jobs N] [--only WORD]`:
mutates the tokens of the repository's own IR and reads each mutant with `cute-opt`, through the
passes of the layout algebra where it is accepted: the numbers F to F + N - 1 of a seed. Whatever
the text, there is no traceback, no internal error, no hang over a second, and every rejection has a
position inside of the text.

Exits 1 with the text of each mutant that breaks this. `--count 1000000` is 40 minutes of one core.
`make test` reads 20,000.
"""

from __future__ import annotations

import argparse
import io
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from cutedialect.tools.cute_opt import CuteOpt

_TEST = Path(__file__).parents[1] / "test"
_LOCATED = re.compile(r"^<stdin>:(\d+):(\d+): error: (\S.*)$")
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#!^]?[A-Za-z_$.][\w$.-]*|%?\d+|\s+|.', re.DOTALL)
# Tokens inside of a type's text, which is one string to the lexer.
_INSIDE = re.compile(r"S<|\d+|\s+|[a-z]\w*|.", re.DOTALL)
_INSERTED = (
    *"{}()[]<>,:=?*-+%#!@^",
    '"', "->", "loc(", "-1", "9" * 40, "0x", "i0", "i999999999", "tensor<?x", "dense<",
    "affine_map<(", "%a", "%0", "^bb0", "@f", "@g", "arith.addi", "func.func", "true", "unit",
    '"(4,8):(8,1)"', '"S<3,4,3> o 0 o (8,64):(64,1)"', '"builtin.module"', "!cute.layout<",
    "cute.composition", "cute.static", "!cute.tile<", "gpu.func", "only_dynamic",
)  # fmt: skip
_INSIDE_INSERTED = (*"(),:?@_{}<>[]", "0", "1", "-1", "4096", "?{i64}", "?{div=8}", "1@0", " o ")
# Texts above that take as long as many others.
_LONGEST = 2_500
_SLOWEST_SECONDS = 1.0
# Mutants of one draw, which a process reads before it asks for more.
_BLOCK = 1_000
_PASSES = "cute-fold-static,cute-expand-ops,cute-to-base"


def corpus(word: str = "") -> list[str]:
    """The parts of the test files of IR whose path has a word."""
    return [
        chunk
        for path in sorted(_TEST.rglob("*.mlir"))
        if word in path.as_posix()
        for chunk in path.read_text(encoding="utf-8").split("// -----")
        if 0 < len(chunk) < _LONGEST
    ]


def mutants(seeds: Sequence[str], seed: int | str) -> Iterator[str]:
    """Endlessly many texts, each with one to four tokens changed."""
    draw = random.Random(seed)
    while True:
        tokens = _TOKEN.findall(draw.choice(seeds))
        for _ in range(draw.choice((1, 1, 2, 4))):
            _mutate(tokens, draw)
            tokens = tokens or [" "]
        yield "".join(tokens)


def _mutate(tokens: list[str], draw: random.Random) -> None:
    place = draw.randrange(len(tokens))
    texts = [at for at, token in enumerate(tokens) if token.startswith('"') and len(token) > 3]
    match draw.randrange(7):
        case 0:
            del tokens[place]
        case 1:
            tokens.insert(place, draw.choice(_INSERTED))
        case 2:
            tokens[place] = draw.choice(_INSERTED)
        case 3:
            tokens[place] = draw.choice(tokens)
        case 4:
            del tokens[max(place, 1) :]
        case _ if texts:
            at = draw.choice(texts)
            parts = _INSIDE.findall(tokens[at][1:-1])
            parts[draw.randrange(len(parts))] = draw.choice((*_INSIDE_INSERTED, *parts))
            tokens[at] = '"' + "".join(parts) + '"'
        case _:
            tokens.insert(place, tokens[place])


def fault_of(text: str) -> tuple[str, bool]:
    """What is wrong with how a text is answered, empty if nothing is, and whether it is refused."""
    code, told, seconds = _answer(text)
    if seconds > _SLOWEST_SECONDS:
        # The first reading of a process imports passes, and any may collect garbage or share its
        # core: what hangs is slow again.
        seconds = min(seconds, _answer(text)[2])
    if seconds > _SLOWEST_SECONDS:
        return f"{seconds:.1f} s", bool(code)
    if "Traceback" in told or "internal error" in told:
        return told, bool(code)
    if code:
        first = _LOCATED.match(told.split("\n", 1)[0])
        if first is None or not 1 <= int(first[1]) <= text.count("\n") + 1:
            return f"no position: {told}", True
    return "", bool(code)


def _answer(text: str) -> tuple[int, str, float]:
    """Exit code, diagnostics and seconds of processor time of one reading."""
    err = io.StringIO()
    start = time.process_time()
    code = CuteOpt(["-p", _PASSES], io.StringIO(text), io.StringIO(), err).run()
    return code, err.getvalue(), time.process_time() - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Read mutants; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ir_mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=20_000, help="mutants (default 20,000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default 0)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", default="", help="files of test/ whose path has this word")
    options = parser.parse_args(arguments)
    seeds = corpus(options.only)
    if not seeds:
        raise SystemExit(f"expected files of IR whose path has '{options.only}', got none")
    start = time.perf_counter()
    last = options.first + options.count - 1
    blocks = range(options.first // _BLOCK, last // _BLOCK + 1)
    read = partial(_read, seeds, options.seed, range(options.first, last + 1))
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        parts = map(read, blocks)
        if options.jobs > 1:
            pool = stack.enter_context(get_context("spawn").Pool(options.jobs))
            parts = pool.imap_unordered(read, blocks)
        for part in parts:
            counts += part
    print(
        f"mutants {options.first:,} to {last:,} of seed {options.seed}, of {len(seeds)} texts: "
        f"{counts['accepted']:,} accepted, {counts['refused']:,} refused, "
        f"{counts['faults']:,} faults, {time.perf_counter() - start:.0f} s"
    )
    return 1 if counts["faults"] else 0


def _read(seeds: Sequence[str], seed: int, numbers: range, block: int) -> Counter[str]:
    """Read the mutants of a block whose numbers are asked for; prints each that is answered badly.
    A block has a draw of its own, so that a mutant's number says which it is in any range.
    """
    counts: Counter[str] = Counter()
    start = block * _BLOCK
    for number, text in zip(
        range(start, start + _BLOCK), mutants(seeds, f"{seed}:{block}"), strict=False
    ):
        if number not in numbers:
            continue
        fault, is_refused = fault_of(text)
        counts["refused" if is_refused else "accepted"] += 1
        if fault:
            counts["faults"] += 1
            print(f"seed {seed}, number {number}: {fault}\n{text}\n", flush=True)
    return counts


if __name__ == "__main__":
    sys.exit(main())
