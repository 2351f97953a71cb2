"""Variants of `python -m cutedialect compile`: several kernels of one call in a folder, for other
types, alignments and schedules, each for every target, with a manifest.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MANIFEST_FORMAT = "cutedialect-manifest-1"
VARIANTS = """variants, in the order in which a launcher tries them:
  --variant 'half: ?x?:f16 ?x?:f16'                      the arguments of one, after its name
  --variant 'bytes: ?x?:e4m3@4 ?x?:e4m3@4 --set scale_a=2.0'   and what else it has of its own
"""
_NAMED = re.compile(r"\s*([A-Za-z]\w*)\s*:\s(.*)", re.DOTALL)


@dataclass(frozen=True)
class Words:
    """What one kernel is compiled from; without a name it is the only one."""

    name: str | None
    arguments: tuple[str, ...]
    settings: tuple[str, ...]
    schedule: str | None

    def shown(self) -> list[str]:
        """As words of the command line."""
        words = [*self.arguments, *(word for text in self.settings for word in ("--set", text))]
        return words if self.schedule is None else [*words, "--schedule", self.schedule]


def variants_of(options: argparse.Namespace) -> list[Words]:
    """The kernels that a command line asks for. What stands outside of the variants is of all of
    them; raises ValueError for a variant that is none.
    """
    settings, schedule = tuple(options.set), options.schedule
    if not options.variant:
        return [Words(None, tuple(options.arguments), settings, schedule)]
    if options.arguments:
        raise ValueError(
            f"--variant: expected the arguments within the variants, got {options.arguments[0]} "
            "beside them"
        )
    found: list[Words] = []
    for text in options.variant:
        match = _NAMED.fullmatch(text)
        if match is None:
            raise ValueError(f"--variant: expected 'NAME: SPEC ...', got '{text}'")
        own = _parser().parse_intermixed_args(shlex.split(match[2]))
        words = Words(
            match[1], tuple(own.arguments), settings + tuple(own.set), own.schedule or schedule
        )
        if match[1] in (other.name for other in found):
            raise ValueError(f"--variant: expected names that differ, got {match[1]} twice")
        found.append(words)
    return found


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ValueError(f"--variant: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False)
    parser.add_argument("arguments", nargs="*")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--schedule")
    return parser


def manifest(
    name: str, kernel: str, variants: Sequence[tuple[Words, Sequence[Mapping[str, Any]]]]
) -> bytes:
    """The file NAME.manifest.json: of each variant what it was compiled from, and of each of its
    targets the files.
    """
    described = {
        "format": MANIFEST_FORMAT,
        "name": name,
        "kernel": kernel,
        "variants": [
            {
                "name": words.name,
                "kernel": f"{name}_{words.name}",
                "arguments": list(words.arguments),
                "settings": list(words.settings),
                "schedule": words.schedule,
                "targets": list(targets),
            }
            for words, targets in variants
        ],
    }
    return (json.dumps(described, indent=1) + "\n").encode()
