"""The look at all arguments of a launch, as one function for arguments of some classes. It is made
as text, since a call for each array costs as much as reading it does: half of the host time of a
launch on arrays that look like earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cutedialect.backend.runtime.arrays import Look, reader_of

LaunchLook = Callable[[Sequence[Any]], Look | None]
"""Gives what of a launch decides its grid and its tensor maps, and beside that the addresses of the
device arrays and the floating-point numbers, which equal launches need not have in common. None
where a value has to be bound each time, NotImplemented for values of other classes.
"""


def launch_look_for(values: Sequence[Any]) -> LaunchLook:
    """The look at values of the classes of these."""
    kinds = tuple(map(type, values))
    found = _made.get(kinds)
    if found is None:
        found = _made[kinds] = _make(kinds)
    return found


def launch_look(values: Sequence[Any]) -> Look | None:
    """The look at some values, whatever their classes are."""
    return launch_look_for(values)(values)


_made: dict[tuple[type, ...], LaunchLook] = {}


def _make(kinds: tuple[type, ...]) -> LaunchLook:
    names: dict[str, Any] = {"kinds": kinds}
    checks: list[str] = []
    facts: list[str] = ["kinds"]
    pointers: list[str] = []
    numbers: list[str] = []
    for place, kind in enumerate(kinds):
        value, reader = f"a{place}", reader_of(kind)
        names |= {f"k{place}": kind, f"look{place}": reader.look, f"key{place}": reader.key}
        if kind is float:
            numbers.append(value)
        elif reader.attributes is not None:
            address, others = reader.attributes
            checks.append(f"p{place} = {address.format(value)}")
            facts += [others.format(value), f"p{place} & 15"]
            pointers.append(f"p{place}")
        elif reader.pointer is not None:
            checks.append(f"s{place} = look{place}({value})")
            checks.append(f"if s{place} is None or s{place}[1] is None: return None")
            facts.append(f"s{place}[0]")
            pointers.append(f"s{place}[1]")
        else:
            checks.append(f"s{place} = key{place}({value})")
            checks.append(f"if s{place} is None: return None")
            facts.append(f"s{place}")
    places = range(len(kinds))
    wanted = " and ".join([f"type(a{place}) is k{place}" for place in places]) or "True"
    lines = [
        "def look(values):",
        f"    if len(values) != {len(kinds)}: return NotImplemented",
        f"    {_tuple([f'a{place}' for place in places])} = values",
        f"    if not ({wanted}): return NotImplemented",
        *(f"    {check}" for check in checks),
        f"    return {_tuple(facts)}, {_tuple(pointers)}, {_tuple(numbers)}",
    ]
    exec("\n".join(lines), names)
    return names["look"]


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)},)" if items else "()"
