"""Kernels of the same name in two trees, and what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..supervisor import Supervisor, WorkerError
from .programs import LISTED
from .tree import Tree

EQUAL, REWRITTEN, DIFFERENT, NEW, GONE, NEITHER = (
    "equal", "equal where both compile the program of today", "different",
    "compiled by this tree alone", "compiled by the base alone", "compiled by neither",
)  # fmt: skip
STATES = (EQUAL, REWRITTEN, DIFFERENT, NEW, GONE, NEITHER)


@dataclass
class Pair:
    """A kernel by its name; `old` and `new` are the files of bare PTX. `is_own` says that the base
    compiled its own program of that name, and not that of this tree.
    """

    kind: str
    target: str
    name: str
    state: str
    old: Path | None = None
    new: Path | None = None
    is_own: bool = True
    why: str = ""
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.name} on {self.target}"

    @property
    def source(self) -> tuple[str, str]:
        """The case or the script, with the target."""
        return self.target, self.name if self.kind in LISTED else self.name.split(maxsplit=1)[0]

    @property
    def request(self) -> dict[str, str]:
        """What names the kernel to a process of a tree."""
        return {"kind": self.kind, "target": self.target, "name": self.name}


@dataclass(frozen=True)
class Trees:
    """This tree, the base, and the base's compiler with the programs of this tree."""

    new: Tree
    old: Tree
    mixed: Tree

    def pairs(self, kind: str, target: str, **request: Any) -> list[Pair]:
        """The kernels of a kind for a target. Those that the base does not have, its compiler makes
        of this tree's programs, and scripts that launch others as well.
        """
        request |= {"kind": kind, "target": target}
        new = self.new.kernels(**request, names=None)
        old = self.old.kernels(**request, names=None)
        open_ones = [
            name
            for name, row in new.items()
            if "ptx" in row
            and (kind not in LISTED or _file(old, name) is None)
            and row["ptx"] != _file(old, name)
        ]
        mixed = self.mixed.kernels(**request, names=open_ones) if open_ones else {}
        names = dict.fromkeys((*new, *old))
        return [_pair(kind, target, name, new, old, mixed) for name in names]


def with_processes(
    trees: Trees, pairs: Sequence[Pair]
) -> Iterator[tuple[Pair, tuple[Supervisor, Supervisor]]]:
    """Each pair with a process of the base, whose programs are those that it was compiled of, and
    one of this tree.
    """
    for is_own, base in ((True, trees.old), (False, trees.mixed)):
        mine = [pair for pair in pairs if pair.is_own == is_own]
        if mine:
            with base.process() as old, trees.new.process() as new:
                for pair in mine:
                    yield pair, (old, new)


class Process(Protocol):
    """What answers requests: `Supervisor`."""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]: ...


def asked(process: Process, do: str, **request: Any) -> dict[str, Any]:
    """An answer; raises RuntimeError where there is none."""
    try:
        answer = process.ask({"do": do, **request})
    except WorkerError as error:
        raise RuntimeError(str(error)) from None
    if "failure" in answer:
        raise RuntimeError(answer["failure"])
    return answer


Rows = Mapping[str, Mapping[str, str]]


def _pair(kind: str, target: str, name: str, new: Rows, old: Rows, mixed: Rows) -> Pair:
    mine, own, same = (_file(rows, name) for rows in (new, old, mixed))
    theirs = own or same
    why = ""
    if mine is None:
        state = NEITHER if own is None else GONE
        why = _failure(new, name)
    elif mine == own:
        state = EQUAL
    elif mine == same:
        state = REWRITTEN
    elif theirs is None:
        state, why = NEW, _failure(mixed, name) or _failure(old, name)
    else:
        state = DIFFERENT
    paths = (None if file is None else Path(file) for file in (theirs, mine))
    return Pair(kind, target, name, state, *paths, is_own=own is not None, why=why)


def _file(rows: Rows, name: str) -> str | None:
    return rows.get(name, {}).get("ptx")


def _failure(rows: Rows, name: str) -> str:
    return rows.get(name, {}).get("failure", "")
