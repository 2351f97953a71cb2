"""The functions of declared calls as type checkers and editors see them, and their page of the
reference: `python .ci/typed_calls.py` writes what follows from the declarations in
cutedialect/frontend/declarations.py, with `--check` it exits 1 where something else is there.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from cutedialect.frontend.declarations import CALLS
from cutedialect.frontend.signature import REQUIRED, Call, Parameter

ROOT = Path(__file__).parents[1]
_HEAD = '''"""Declared calls, as type checkers see them. Written by .ci/typed_calls.py."""

# fmt: off
# pyright: reportMissingImports=false, reportUnusedImport=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import {typing}

{imports}from cutedialect.choices import {choices}
from cutedialect.schedule import Schedule
'''
_PAGE = """# Functions of arrays

What each argument is; `help(cutedialect.gemm)` says what is computed. Written by
`.ci/typed_calls.py`.
"""
_TILES = """
if TYPE_CHECKING:
    from cutedialect.atoms.tiled_mma import TiledMma

    from .tile import Tile, View
"""
# Where the functions are, what imports their arrays, and what an array is.
_PLACES = {
    "frontend": ("", "Any"),
    "torch": ("import torch\n\n", "torch.Tensor"),
    "jax": ("import jax\n\n", "jax.Array"),
}
_CHOICES = ("Activation", "Arch", "Backend", "BlockFormat", "Precision", "Rounding")
_WIDTH = 100


def shown(default: object) -> str:
    """A default as the project writes it."""
    return json.dumps(default) if isinstance(default, str) else repr(default)


def _parameter(row: Parameter, tensor: str, kind: str | None = None, needs: bool = False) -> str:
    text = (kind or row.kind.type).format(tensor=tensor)
    if tensor == "Any" and row.kind.type.startswith("{tensor}"):
        text = "Any"
    default = "" if needs or row.default is REQUIRED else f" = {shown(row.default)}"
    return f"{row.name}: {text}{default}"


def _function(name: str, parameters: list[str], result: str, is_overload: bool) -> str:
    lines = [""]
    for each in parameters:
        if lines[-1] and len(lines[-1]) + len(each) + 6 > _WIDTH:
            lines.append("")
        lines[-1] += f" {each}," if lines[-1] else f"{each},"
    body = textwrap.indent("\n".join(lines), "    ")
    return ("@overload\n" if is_overload else "") + f"def {name}(\n{body}\n) -> {result}: ...\n"


def _forms(call: Call, place: str) -> Iterator[tuple[list[str], str]]:
    """The parameters and the result of each overload."""
    tensor = _PLACES[place][1]
    rows = call.taken(place)
    tiles = [each for each in rows if each.kind.is_of_tiles]
    if tiles:
        first = [f"{name}: Tile | View" for name in call.operands]
        first += [_parameter(each, tensor, needs=each.is_positional) for each in tiles]
        yield [*first[:3], "*", *first[3:]], "None"

    def form(kinds: dict[str, str], needs: bool) -> list[str]:
        parts: list[str] = []
        for each in rows:
            if each.kind.is_of_tiles and not each.is_positional:
                continue
            if "*" not in parts and not each.is_positional and each.default is not REQUIRED:
                parts.append("*")
            kind = "None" if each.kind.is_of_tiles else kinds.get(each.name)
            parts.append(_parameter(each, tensor, kind, needs and each.name in kinds))
        return parts

    every = [(values, result.format(tensor=tensor)) for values, result in call.results()]
    if len(every) == 1:
        yield form({}, False), every[0][1]
        return
    for values, result in every:
        needs = any(value != call.by_name[name].default for name, value in values.items())
        yield form({name: f"Literal[{value}]" for name, value in values.items()}, needs), result
    either = "Any" if tensor == "Any" else " | ".join(result for _, result in every)
    yield form(dict.fromkeys(every[0][0], "bool"), True), either


def stubs(place: str) -> str:
    """The module of signatures."""
    parts: list[str] = []
    for call in CALLS:
        if place != "frontend" and place not in call.libraries:
            continue
        forms = list(_forms(call, place))
        parts += [_function(call.name, *form, len(forms) > 1) for form in forms]
        if len(forms) > 1:  # what a module, other than a stub, has beside overloads
            parts.append(f"def {call.name}(*args: Any, **options: Any) -> Any: ...\n")
    functions = "\n\n".join(parts)
    head = _HEAD.format(
        imports=_PLACES[place][0],
        typing="TYPE_CHECKING, " * (place == "frontend") + "Any, Literal, overload",
        choices=", ".join(each for each in _CHOICES if re.search(rf"\b{each}\b", functions)),
    )
    return "\n\n".join([head + _TILES * (place == "frontend"), functions])


def page() -> str:
    """The page of the reference."""
    parts = [_PAGE]
    for call in CALLS:
        parts.append(f"## cute.{call.name}\n\n{call.doc.splitlines()[0]}\n")
        for each in call.parameters:
            default = "" if each.default is REQUIRED else f" = {shown(each.default)}"
            line = f"`{each.name}{default}`: {each.said}."
            parts.append(textwrap.fill(line, 118, initial_indent="- ", subsequent_indent="  "))
        parts.append("")
    return "\n".join(parts)


def main() -> int:
    """Write all of them, or compare; returns the exit code."""
    made = {f"cutedialect/{place}/typed_calls.py": stubs(place) for place in _PLACES}
    made["docs/calls.md"] = page()
    other = [
        name
        for name, text in made.items()
        if not (ROOT / name).exists() or (ROOT / name).read_text() != text
    ]
    for name in other:
        print(name)
        if "--check" not in sys.argv:
            (ROOT / name).write_text(made[name])
    return int("--check" in sys.argv and bool(other))


if __name__ == "__main__":
    sys.exit(main())
