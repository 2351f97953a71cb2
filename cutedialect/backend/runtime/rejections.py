"""Schedules that were not right for a class of problems, kept on disk: no process compiles them
again with the same package and the same assembler.
"""

from __future__ import annotations

import json

from cutedialect import environment
from cutedialect.backend.runtime import cache, ptxas
from cutedialect.backend.runtime.errors import PtxasNotFoundError

_KIND = "rejection"
Kept = tuple[str, str, str]
"""A schedule's text, what it lacks, and why it is not right."""


def rejections_key(problem: str, arch: str) -> str:
    """The key of a class of problems on a target."""
    try:
        assembler = ptxas.version(ptxas.find(arch))
    except PtxasNotFoundError:
        assembler = ""
    return cache.key(_KIND, cache.package_stamp(), problem, arch, assembler)


def has_rejections() -> bool:
    """Whether any was ever kept; without them no key has to be computed."""
    return environment.cache_enabled() and (cache.folder() / _KIND).is_dir()


def read_rejections(key: str) -> tuple[Kept, ...]:
    """What was kept under a key."""
    raw = cache.read(_KIND, key)
    return () if raw is None else tuple((a, b, c) for a, b, c in json.loads(raw))


def keep_rejection(key: str, rejection: Kept) -> bool:
    """Keep one beside what was known; returns whether it was kept."""
    known = dict.fromkeys((*read_rejections(key), rejection))
    return cache.write(_KIND, key, json.dumps(list(known)).encode())
