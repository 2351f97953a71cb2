"""The Python state around a body that is traced once: what the body must leave as it was. A loop
would go on from what it changed, and a branch that is not taken would not have changed it.
"""

from __future__ import annotations

import dis
import itertools
import re
from bisect import bisect_left, bisect_right
from collections import deque
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from cutedialect.backend.runtime.fingerprint import is_installed

from .captured import Captured, is_same
from .scalar import Scalar
from .tile import Tensor, Tile, View, Views
from .trace import current, error, traced_frames

_TRACED = (Tile, Scalar, View, Views, Tensor)
_IN_TILES = "keep state in a tile made by cute.zeros or cute.full, changed by .assign or +="
_JUMPS = {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"}
# What stands between instructions and does nothing.
_NOT_AN_INSTRUCTION = {"CACHE", "EXTENDED_ARG"}
_ENDS = {"RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS"}


class StateBefore:
    """Names and objects that the user's code reaches when a body begins."""

    def __init__(self, is_loop: bool) -> None:
        self.is_loop = is_loop
        self.frames = [(frame, dict(frame.f_locals)) for frame in traced_frames()]
        self.captured = Captured()
        for frame, names in self.frames:
            if not is_installed(frame.f_globals.get("__name__")):
                self.captured.add_code(frame.f_code, frame.f_globals)
            for name, value in names.items():
                if not isinstance(value, _TRACED):
                    self.captured.add(name, value)

    def check(self) -> dict[str, Any]:
        """Refuse what the body has changed, at the end of it. Lists and dictionaries that a loop
        has filled with values of its body alone are returned, by how a user would write them: they
        may be read in the trip that fills them.
        """
        for frame, before in self.frames:
            for name, value in frame.f_locals.items():
                self._check_name(frame, name, before, value)
        for name in self.captured.changed_names():
            raise self._refusal(name, "changed")
        filled: dict[str, Any] = {}
        for name, owner, state in self.captured.changed_objects():
            if not (self.is_loop and _is_filled(owner, state)):
                raise self._refusal(name, "changed")
            filled[name] = owner
        return filled

    def check_next(self, filled: dict[str, Any], extents: dict[str, int], is_alike: bool) -> None:
        """Refuse containers that a loop fills where its second trip is another one than the first,
        or where they grow from trip to trip and may be read behind the loop.
        """
        for name, owner in filled.items():
            root = re.split(r"[.\[]", name)[0]
            grows = len(owner) != extents[name]
            if not is_alike or (grows and self._is_read_behind(root)):
                raise self._refusal(name, "changed")

    def _is_read_behind(self, name: str) -> bool:
        """Whether a name may be read behind the loop; one that is no local of a function may be."""
        for number, (frame, before) in enumerate(self.frames):
            if name in before:
                return is_live_at_exit(frame, name) if number == 0 else is_live(frame, name)
        return True

    def _check_name(
        self, frame: FrameType, name: str, before: dict[str, object], value: object
    ) -> None:
        if name not in before or _is_over(before[name]):
            is_choice = not self.is_loop and not isinstance(value, _TRACED)
            if is_choice and is_live(frame, name):
                raise error(
                    f"expected '{name}' to have a value whether or not the condition holds, got "
                    "one under it only; the body of a condition is always traced: choose with "
                    "cute.where(condition, a, b)",
                    code="CD-P6",
                )
            return
        old = before[name]
        if is_same(old, value) or not is_live(frame, name):
            return
        if _lives(old):
            where = "loop" if self.is_loop else "condition"
            raise error(
                f"expected '{name}' to keep its value across the {where}, got it rebound in the "
                f"body; use {name}.assign(...) or {name} += ... on a tile made by cute.zeros or "
                "cute.full",
                code="CD-P6",
            )
        raise self._refusal(name, "rebound")

    def _refusal(self, name: str, how: str) -> Exception:
        if self.is_loop:
            return error(
                f"expected '{name}' to be the same in every trip of the loop, got it {how} in the "
                "body, which is traced once for all trips; count with the loop's index, or "
                f"{_IN_TILES}",
                code="CD-P6",
            )
        return error(
            f"expected '{name}' to be the same whether or not the condition holds, got it {how} "
            "under it; the body of a condition is always traced: choose with "
            f"cute.where(condition, a, b), or {_IN_TILES}",
            code="CD-P6",
        )


def _is_filled(owner: object, before: tuple[Any, ...]) -> bool:
    """Whether all that a list or dictionary has other than before are values of the body."""
    if type(owner) is dict:
        half = len(before) // 2
        old = dict(zip(before[:half], before[half:], strict=True))
        pairs = [(old.get(key), value) for key, value in owner.items()]
        return old.keys() <= owner.keys() and all(_is_new(*pair) for pair in pairs)
    if type(owner) is list or type(owner) is deque:
        return all(map(_is_new, itertools.chain(before, itertools.repeat(None)), owner))
    return False


def _is_new(old: object, value: object) -> bool:
    """Whether a value is the old one, or one that ends with the body that is traced."""
    if value is old and value is not None:
        return True
    if isinstance(value, tuple | list):
        return all(_is_new(None, each) for each in value)
    scope = getattr(value, "scope", None)
    is_traced = isinstance(value, _TRACED) and not isinstance(value, Tensor)
    return is_traced and scope is not None and (not scope.open or scope is current().scope)


def _lives(value: object) -> bool:
    """Whether a value of the trace may still be used."""
    return isinstance(value, _TRACED) and (isinstance(value, Tensor) or value.scope.open)


def _is_over(value: object) -> bool:
    """Whether a value is one of an ended loop, whose use is an error and whose name is free."""
    return isinstance(value, _TRACED) and not _lives(value)


def is_live(frame: FrameType, name: str) -> bool:
    """Whether a frame may read a local name behind the instruction that it is at. A name that inner
    functions use counts as read.
    """
    code = frame.f_code
    if name in code.co_cellvars or name in code.co_freevars:
        return True
    offsets, behind = _liveness(code)
    return name in behind[max(0, bisect_right(offsets, frame.f_lasti) - 1)]


def is_live_at_exit(frame: FrameType, name: str) -> bool:
    """The same behind a `for` statement whose iterator the frame asks for the next value."""
    code = frame.f_code
    if name in code.co_cellvars or name in code.co_freevars:
        return True
    offsets, behind = _liveness(code)
    here = _instructions(code)[max(0, bisect_right(offsets, frame.f_lasti) - 1)]
    if here.opname != "FOR_ITER":
        return True
    at = bisect_left(offsets, here.argval)
    reads, writes = _reads_and_writes(_instructions(code)[at], ())
    return name in reads or (name in behind[at] and name not in writes)


def is_at_loop(frame: FrameType) -> bool:
    """Whether a frame takes an iterator for a `for` statement, rather than in a call or for a
    comprehension; a generator expression may have the bytecode of a `for`.
    """
    if frame.f_code.co_name == "<genexpr>":
        return False
    here = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return here == "GET_ITER" and _next_instruction(frame) == "FOR_ITER"


def is_stored(frame: FrameType) -> bool:
    """Whether a frame stores the result of the call that it is at under a name or in an object."""
    return _next_instruction(frame).startswith("STORE_")


def _next_instruction(frame: FrameType) -> str:
    """The name of the instruction behind the one that a frame is at; "" if there is none."""
    # An instruction is two bytes, of which the first says what it does.
    following = (dis.opname[each] for each in frame.f_code.co_code[frame.f_lasti + 2 :: 2])
    return next((name for name in following if name not in _NOT_AN_INSTRUCTION), "")


@lru_cache(maxsize=64)
def _instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple(dis.get_instructions(code))


@lru_cache(maxsize=64)
def _liveness(code: CodeType) -> tuple[tuple[int, ...], tuple[frozenset[str], ...]]:
    """The offsets of the instructions, and the names that may be read behind each of them."""
    instructions = _instructions(code)
    offsets = tuple(each.offset for each in instructions)
    given_back = _given_back(instructions, offsets)
    facts = [
        _reads_and_writes(each, given_back.get(index, ()))
        for index, each in enumerate(instructions)
    ]
    successors = [_successors(each, index, offsets) for index, each in enumerate(instructions)]
    before = [frozenset[str]() for _ in instructions]
    behind = list(before)
    has_changed = True
    while has_changed:
        has_changed = False
        for index in range(len(instructions) - 1, -1, -1):
            reads, writes = facts[index]
            behind[index] = frozenset[str]().union(*(before[each] for each in successors[index]))
            live = reads | (behind[index] - writes)
            if live != before[index]:
                before[index] = live
                has_changed = True
    return offsets, tuple(behind)


def _successors(
    instruction: dis.Instruction, index: int, offsets: tuple[int, ...]
) -> tuple[int, ...]:
    """The instructions that may come next, exceptions apart: one that leaves a traced body is an
    error of its own.
    """
    follow = (index + 1,) if index + 1 < len(offsets) else ()
    if instruction.opname in _ENDS:
        return ()
    if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
        target = (bisect_left(offsets, instruction.argval),)
        return target if instruction.opname in _JUMPS else follow + target
    return follow


def _given_back(
    instructions: tuple[dis.Instruction, ...], offsets: tuple[int, ...]
) -> dict[int, tuple[str, ...]]:
    """The stores by which a comprehension gives names back that it had put aside: from Python 3.12
    on it is part of the function (PEP 709), whose names its own ones hide.
    """
    found: dict[int, tuple[str, ...]] = {}
    names: list[str] = []
    for each in instructions:
        if each.opname == _ASIDE:
            names.append(each.argval)
        elif each.opname == "FOR_ITER" and names:
            at = bisect_left(offsets, each.argval)
            while names and at < len(instructions):
                store = instructions[at]
                if store.opname.startswith("STORE_FAST"):
                    value = store.argval
                    stored = value if isinstance(value, tuple) else (value,)
                    found[at] = tuple(name for name in stored if name in names)
                    names = [name for name in names if name not in stored]
                elif store.opname not in _AT_THE_END:
                    break
                at += 1
            names = []
    return found


# Puts a name aside, and what may stand between a comprehension's loop and its stores.
_ASIDE = "LOAD_FAST_AND_CLEAR"
_AT_THE_END = ("END_FOR", "POP_TOP", "POP_ITER", "SWAP", "NOP", "CACHE", "EXTENDED_ARG")


def _reads_and_writes(
    instruction: dis.Instruction, given_back: tuple[str, ...]
) -> tuple[frozenset[str], frozenset[str]]:
    """Local names that an instruction reads and writes; those in pairs come in order."""
    name = instruction.opname
    value = instruction.argval
    if not any(kind in name for kind in ("_FAST", "_NAME", "_DEREF")) or name == _ASIDE:
        return frozenset(), frozenset()
    names = value if isinstance(value, tuple) else (value,)
    for each in given_back:
        first = names.index(each)
        names = names[:first] + names[first + 1 :]
    if not names or (given_back and name == "STORE_FAST_LOAD_FAST"):
        return frozenset(names), frozenset()
    if name == "STORE_FAST_LOAD_FAST":
        # The store comes first: a name that both have is not read from before.
        return frozenset(names[1:]) - {names[0]}, frozenset(names[:1])
    if name.startswith(("STORE_", "DELETE_")):
        return frozenset(), frozenset(names)
    return frozenset(names), frozenset()
