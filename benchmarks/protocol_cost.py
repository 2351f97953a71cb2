"""`python -m benchmarks.protocol_cost`: what `cute-check-protocol` costs a compilation, by kernel
of tables and target, and what it says of each.

    python -m benchmarks.protocol_cost [--target NAME] [--only REGEX] [--repeat N] [--share I/N]
                                       [--json FILE]

Milliseconds of this process's CPU, the least of some compilations from program to PTX, each with
empty memos; on a machine that does other work they come out too large. "before" is without the
check. Gates: 15 ms for a product, 60 ms for attention, a quarter of the whole for each. Exits 1
where a gate fails, where a kernel is not proved, or where a body of one is not entered. The file
has a digest of each kernel's PTX, to compare two trees by.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from typing import Any

from cutedialect import CompileError
from cutedialect.passes.protocol import check_protocol

from .attention_case import Attention
from .case import Case
from .cases import CASES, EXTRAS
from .multiplied_programs import TARGETS
from .protocol_verdict import forget_calls
from .trees.compilation import forget

_MOST_MS = {True: 60, False: 15}
_MOST_SHARE = 0.25


def measured(case: Case, arch: str, repeat: int) -> dict[str, Any]:
    """The milliseconds of a compilation and of its checks, and what these say."""
    verdict_of = check_protocol.verdict_of
    spent, says = [0.0], set[str]()

    def timed(kernel: Any) -> check_protocol.Verdict:
        began = time.process_time()
        try:
            verdict = verdict_of(kernel)
        except check_protocol.Undecided as undecided:
            says.add(f"undecided: {undecided}")
            raise
        finally:
            spent[0] += time.process_time() - began
        says.update(finding.text() for finding in verdict.findings)
        says.update(f"no case enters {op.name}" for op in verdict.missed)
        says.update(f"undecided: no end of {op.name} ({case})" for op, case in verdict.unended)
        return verdict

    best, least, digest = float("inf"), float("inf"), ""
    check_protocol.verdict_of = timed
    try:
        for _ in range(repeat):
            forget_calls()
            forget()
            spent[0], began = 0.0, time.process_time()
            compiled = case.compiled(None, arch)
            best = min(best, time.process_time() - began)
            least = min(least, spent[0])
            if compiled is not None:
                digest = hashlib.sha256(compiled.ptx.encode()).hexdigest()[:16]
    finally:
        check_protocol.verdict_of = verdict_of
    return {
        "arch": arch, "name": case.name, "whole": 1e3 * best, "check": 1e3 * least,
        "is_attention": isinstance(case, Attention), "says": sorted(says), "ptx": digest,
    }  # fmt: skip


def _is_bad(row: dict[str, Any]) -> bool:
    is_slow = row["check"] > _MOST_MS[row["is_attention"]]
    return bool(row["says"]) or is_slow or row["check"] > _MOST_SHARE * row["whole"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.protocol_cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--target", metavar="NAME", action="append", help="all five")
    parser.add_argument("--only", metavar="REGEX", default="", help="kernels with this in the name")
    parser.add_argument("--repeat", metavar="N", type=int, default=3, help="compilations of each")
    parser.add_argument("--share", metavar="I/N", default="0/1", help="every N-th from number I on")
    parser.add_argument("--json", metavar="FILE", help="write the rows")
    options = parser.parse_args(arguments)
    os.environ["CUTEDIALECT_NO_CACHE"] = "1"
    first, step = map(int, options.share.split("/"))
    kernels = [
        (case, arch)
        for arch in options.target or TARGETS
        for case in (*CASES, *EXTRAS)
        if re.search(options.only, case.name)
    ][first::step]
    rows: list[dict[str, Any]] = []
    print(f"{'before':>8} {'check':>7} share")
    for case, arch in kernels:
        try:
            row = measured(case, arch, options.repeat)
        except (CompileError, ValueError) as error:
            print(f"{case.name} on {arch}: not compiled: {str(error).splitlines()[0]}")
            continue
        rows.append(row)
        before = row["whole"] - row["check"]
        print(
            f"{before:8.1f} {row['check']:7.1f} {100 * row['check'] / row['whole']:4.1f} % "
            f"{case.name} on {arch}{'  MISSED' if _is_bad(row) else ''} {'; '.join(row['says'])}",
            flush=True,
        )
    for is_attention, kind in ((False, "products"), (True, "attention")):
        mine = [row for row in rows if row["is_attention"] is is_attention]
        if mine:
            most = max(mine, key=lambda row: row["check"])
            shares = [row["check"] / row["whole"] for row in mine]
            print(
                f"{len(mine)} {kind}: {most['check']:.1f} ms at most ({most['name']} on "
                f"{most['arch']}; gate {_MOST_MS[is_attention]}), {100 * max(shares):.1f} % at most"
            )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 1 if any(map(_is_bad, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
