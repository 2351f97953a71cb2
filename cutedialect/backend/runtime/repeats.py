"""A call on device arrays that look like those of an earlier one, as one function made for it: it
compares, reads the addresses, makes the outputs and launches. It is made as text, once for calls of
a kind, since calls of Python functions cost more than all that these do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

from cutedialect.backend.runtime.arrays import Reader, reader_of, tensor_argument
from cutedialect.backend.runtime.buffers import bytes_below, span_bytes
from cutedialect.backend.runtime.cuda import PreparedCall
from cutedialect.backend.runtime.streams import stream_handle
from cutedialect.backend.runtime.torch_tensors import (
    alike,
    asked_and_told,
    is_torch,
    record_use,
)

Repeat = Callable[..., Any]
"""`repeat(numbers, stream, is_known, *values)` launches and gives the call's result, or None with
nothing launched: the values look different, an output may lie on another array, or torch is at work
on more than values. Numbers of None are those of the first call. With `is_known` the caller has
seen that they look the same.
"""


class Overlap(NamedTuple):
    """Two values of a call, the first one of which is written. They are apart where the first
    elements of both are as many bytes apart as those from that of the lower one to its end, and
    those of the upper one that lie below its own. With `may_be_same` they may begin at one address.
    """

    written: int
    other: int
    written_bytes: int
    other_bytes: int
    may_be_same: bool = False

    def meets(self, pointers: Mapping[int, int]) -> bool:
        """Whether values at these addresses may share memory otherwise."""
        one, other = pointers[self.written], pointers[self.other]
        if self.may_be_same and one == other:
            return False
        return one < other + self.other_bytes and other < one + self.written_bytes


def overlap(values: Sequence[Any], one: int, other: int, may_be_same: bool = False) -> Overlap:
    """What is to be looked at of two arrays of a call, the first one of which is written."""
    first, second = tensor_argument(values[one]), tensor_argument(values[other])
    assert first is not None
    assert second is not None
    looks = [(each.shape, each.strides, each.dtype) for each in (first, second)]
    below = [bytes_below(*look) for look in looks]
    above = [span_bytes(*look) - less for look, less in zip(looks, below, strict=True)]
    is_same = may_be_same and looks[0] == looks[1]
    return Overlap(one, other, above[0] + below[1], above[1] + below[0], is_same)


def repeat_of(
    prepared: PreparedCall,
    values: Sequence[Any],
    places: Sequence[int],
    *,
    makers: Mapping[int, Callable[[Any, Any], Any]] | None = None,
    overlaps: Sequence[Overlap] = (),
    apart: Sequence[tuple[int, int]] = (),
    written: Sequence[int] = (),
    returned: Sequence[int] = (),
    alignment: int = 16,
) -> Repeat | None:
    """The function for calls like the one that `prepared` launched on values.

    places: for each pointer of the kernel the value that begins there. makers: for each value that
    the caller does not give, what makes one, of (the first value, stream). apart: values that have
    to begin at two addresses. written: the values that the kernel writes. returned: the values that
    are the call's result; True without any. alignment: what the addresses' remainders of have to be
    equal. None where a value has to be looked at in full each time.
    """
    made = makers or {}
    text = _Text(values, set(made))
    if not text.describe(values):
        return None
    if any(place not in text.pointers for place in places):
        return None
    text.names |= {f"make{place}": make for place, make in made.items()}
    text.names |= {"run": prepared.template.run, "kept": prepared.numbers, "low": alignment - 1}
    text.names |= {"current": prepared.stream, "handle_of": stream_handle}
    addresses = dict.fromkeys(places)
    remainders = {place: prepared.pointers[at] % alignment for at, place in enumerate(places)}
    lines = text.looks
    if text.checks:
        lines.append(f"if not (is_known or {' and '.join(text.checks)}): return None")
    if text.has_torch:
        text.names |= {"record_use": record_use, **asked_and_told()}
        lines.append("if forward._current_level >= 0 or tracing() is not None: return None")
    lines += [f"p{place} = {text.pointers[place]}" for place in addresses if place not in made]
    lines += [f"if p{one} == p{other}: return None" for one, other in apart]
    lines += text.looks_at_overlaps(overlaps)
    for place in made:
        lines.append(f"a{place} = make{place}(a0, stream)")
        if place in addresses:
            lines.append(f"p{place} = {text.pointers[place]}")
    lines += text.looks_at_remainders(remainders)
    lines.append(text.takes_numbers())
    pointers = _tuple([f"p{place}" for place in places])
    lines += [
        "handle = current() if stream is None else handle_of(stream)",
        f"run({pointers}, numbers, handle)",
    ]
    if text.has_torch:
        lines += text.told_to_torch([place for place in written if is_torch(values[place])])
    result = ", ".join(f"a{place}" for place in returned) or "True"
    lines.append(f"return {result}")
    return _function(text.names, lines, len(values))


class _Text:
    """What of the function depends on the classes of the values: for each the condition that it
    looks the same, and how its address is read.
    """

    def __init__(self, values: Sequence[Any], made: set[int]) -> None:
        self.made = made
        self.names: dict[str, Any] = {}
        self.looks: list[str] = []
        self.checks: list[str] = []
        self.pointers: dict[int, str] = {}
        self.numbers: list[str] = []
        self.has_torch = any(map(is_torch, values))

    def looks_at_overlaps(self, overlaps: Sequence[Overlap]) -> list[str]:
        """Lines that leave a call to a full look whose arrays share memory otherwise."""
        lines: list[str] = []
        for at, overlap in enumerate(overlaps):
            one, other = f"p{overlap.written}", f"p{overlap.other}"
            self.names |= {f"m{at}": overlap.written_bytes, f"n{at}": overlap.other_bytes}
            same = f" and {one} != {other}" if overlap.may_be_same else ""
            condition = f"{one} < {other} + n{at} and {other} < {one} + m{at}{same}"
            lines.append(f"if {condition}: return None")
        return lines

    def looks_at_remainders(self, remainders: Mapping[int, int]) -> list[str]:
        """Lines that leave a call to a full look whose addresses have other remainders."""
        if any(remainders.values()):
            self.names["remainders"] = tuple(remainders.values())
            parts = _tuple([f"p{place} & low" for place in remainders])
            return [f"if {parts} != remainders: return None"]
        if remainders:
            either = " | ".join(f"p{place}" for place in remainders)
            return [f"if ({either}) & low: return None"]
        return []

    def takes_numbers(self) -> str:
        """The line that takes the numbers of a call, or those of the call before it."""
        if self.numbers:
            return f"numbers = {_tuple(self.numbers)}"
        return "if numbers is None: numbers = kept"

    def told_to_torch(self, written: Sequence[int]) -> list[str]:
        """Lines that raise the versions of the tensors that are written, and keep the memory of all
        until a stream is through.
        """
        lines = [f"bump([{', '.join(f'a{place}' for place in written)}])"] if written else []
        used = ", ".join(f"a{place}" for place in self.pointers)
        return [*lines, f"if stream is not None: record_use([{used}], stream)"]

    def describe(self, values: Sequence[Any]) -> bool:
        """False where there is no telling without a full look."""
        given = [place for place in range(len(values)) if place not in self.made]
        tensors = [place for place in given if is_torch(values[place])]
        same = alike([values[place] for place in tensors]) if tensors else None
        for place, value in enumerate(values):
            name, reader = f"a{place}", reader_of(type(value))
            if place in self.made or value is None:
                self.checks.append(f"{name} is None")
            if value is None:
                continue
            if is_torch(value) and (same is not None or place in self.made):
                self.pointers[place] = f"{name}.data_ptr()"
            elif not self._describe(place, name, value, reader):
                return False
        if same is not None:
            self.names |= {"alike": same, "grad_enabled": sys.modules["torch"].is_grad_enabled}
            self.checks.append(f"alike({', '.join(f'a{place}' for place in tensors)})")
            if any(values[place].requires_grad for place in tensors):
                self.checks.append("not grad_enabled()")
        return True

    def _describe(self, place: int, name: str, value: Any, reader: Reader) -> bool:
        kind = type(value)
        is_kind = f"type({name}) is k{place}"
        self.names[f"k{place}"] = kind
        if kind is float:
            self.checks.append(is_kind)
            self.numbers.append(name)
        elif reader.attributes is not None:
            address, others = reader.attributes
            self.pointers[place] = address.format(name)
            if place not in self.made:
                facts = f"({others.format(name)})"
                self.names[f"w{place}"] = eval(facts, {name: value})
                self.checks.append(f"{is_kind} and {facts} == w{place}")
        elif reader.pointer is not None:
            seen = reader.look(value)
            if seen is None or seen[1] is None:
                return False
            self.names |= {f"look{place}": reader.look, f"w{place}": seen[0]}
            self.names[f"read{place}"] = reader.pointer
            if place in self.made:
                self.pointers[place] = f"read{place}({name})"
                return True
            self.looks.append(f"s{place} = look{place}({name}) if {is_kind} else None")
            self.looks.append(f"if s{place} is None or s{place}[1] is None: return None")
            self.pointers[place] = f"s{place}[1]"
            self.checks.append(f"s{place}[0] == w{place}")
        else:
            key = reader.key(value)
            if key is None:
                return False
            self.names |= {f"key{place}": reader.key, f"w{place}": key}
            self.checks.append(f"{is_kind} and key{place}({name}) == w{place}")
        return True


# Code by its text.
_made: dict[str, CodeType] = {}


def _function(names: Mapping[str, Any], lines: Sequence[str], count: int) -> Repeat:
    """A function of so many values with the names as its closure, where reading one is fastest."""
    taken = ", ".join(["numbers", "stream", "is_known", *(f"a{place}" for place in range(count))])
    given = sorted(names)
    text = "\n".join(
        [
            f"def make({', '.join(given)}):",
            f"    def repeat({taken}):",
            *(f"        {line}" for line in lines),
            "    return repeat",
        ]
    )
    code = _made.get(text)
    if code is None:
        code = _made[text] = compile(text, "<repeated call>", "exec")
    space: dict[str, Any] = {}
    exec(code, space)
    return space["make"](*[names[name] for name in given])


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)},)" if items else "()"
