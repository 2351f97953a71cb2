"""`python -m cutedialect cache path | ls | prune | clear`: the disk cache of compiled kernels."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from cutedialect import environment
from cutedialect.backend.runtime import cache
from cutedialect.environment import size_in_bytes


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect cache", description="The disk cache of compiled kernels."
    )
    parser.add_argument("action", choices=("path", "ls", "prune", "clear"))
    parser.add_argument(
        "--size",
        metavar="SIZE",
        help="with prune: the most bytes to keep, such as 200M (default CUTEDIALECT_CACHE_SIZE)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if options.size is not None and options.action != "prune":
        parser.error(f"--size: expected with prune, got {options.action}")
    match options.action:
        case "path":
            _show(options.json, {"path": str(environment.cache_dir())}, "{path}")
        case "ls":
            _list(options.json)
        case "prune":
            limit = None if options.size is None else size_in_bytes("--size", options.size)
            count, size = cache.prune(limit)
            text = "removed {removed} entries, {bytes:,} bytes"
            _show(options.json, {"removed": count, "bytes": size}, text)
            most = environment.cache_size() if limit is None else limit
            return _told(cache.size() > most)
        case _:
            _show(options.json, {"removed": cache.clear()}, "removed {removed} entries")
            return _told(cache.size() > 0)
    return 0


def _told(is_left: bool) -> int:
    """The exit code of a command that removes, with a word on what it could not."""
    if is_left:
        place = environment.cache_dir()
        print(f"error: expected a cache that can be written, got entries in {place} that cannot "
              "be removed", file=sys.stderr)  # fmt: skip
    return int(is_left)


def _show(as_json: bool, values: dict[str, object], text: str) -> None:
    print(json.dumps(values) if as_json else text.format(**values))


def _list(as_json: bool) -> None:
    entries = list(cache.entries())
    if as_json:
        print(json.dumps([{"kind": e.kind, "key": e.key, "bytes": e.size} for e in entries]))
        return
    for entry in entries:
        print(f"{entry.kind:8} {entry.size:>10,} {entry.key}")
    total = sum(entry.size for entry in entries)
    print(f"{len(entries)} entries, {total:,} bytes in {cache.folder()}")
