"""Declared calls as functions of JAX: their arguments as what is traced and what is known, and the
words of their custom calls. What is JAX's own, gradients and how arrays are parted, is beside each
call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

from cutedialect.frontend.signature import (
    DTYPE,
    NUMBER,
    OFFSETS,
    RESULT,
    SCALE,
    SCHEDULE,
    SOME_NUMBER,
    WINDOW,
    Call,
    Kind,
    offsets,
    operator_names,
    written,
)

from .custom_call import dtype_name, named, number, schedule_text, spec

_ENTRY = """\
def {name}({parameters}):
    return called({given})
"""
Options = tuple[tuple[str, Any], ...]
"""What is known when JAX traces, by name."""


class Function:
    """What the functions of a declared call share. `direct` is the one of arrays."""

    def __init__(self, call: Call, direct: Any) -> None:
        self.call = call
        self.direct = direct
        self.rows = call.taken("jax")
        self.arrays = [
            name
            for each in self.rows
            if each.kind.is_array
            for name in (operator_names(each) if each.kind is OFFSETS else (each.name,))
        ]

    def function(self, module: str, doc: str, called: Callable[..., Any]) -> Any:
        """The function, which gives `called` the options, the arrays and what a result is."""
        text = _ENTRY.format(
            name=self.call.name,
            parameters=str(self.call.signature("jax"))[1:-1],
            given=", ".join(f"{each.name}={each.name}" for each in self.rows),
        )
        names = {"__name__": module, "called": lambda **given: called(*self.split(given))}
        return written(text, self.call.name, __file__, names, doc)

    def split(self, given: Mapping[str, Any]) -> tuple[Options, tuple[Any, ...], Any]:
        """The arguments as options, arrays in the order of `arrays`, and what a result is."""
        options: dict[str, Any] = {}
        arrays: list[Any] = []
        result = None
        for each in self.rows:
            value = given[each.name]
            if each.kind is SCALE and isinstance(value, int | float):
                options[each.name] = number(value, each.name)
                arrays.append(None)
            elif each.kind is OFFSETS:
                arrays += map(_array, offsets(each.name, value))
            elif each.kind.is_list:
                arrays.append(None if value is None else tuple(map(_array, value)))
            elif each.kind.is_array:
                arrays.append(_array(value))
            elif each.kind is RESULT:
                result = value
            elif value is not None or not each.is_late:
                options[each.name] = _option(each.kind, value, each.name)
        return tuple(options.items()), tuple(arrays), result

    def options(self, **given: Any) -> Options:
        """The options of a call of which the others are the defaults."""
        defaults = {x.name: None if x.kind.is_array else x.default for x in self.rows}
        return self.split(defaults | given)[0]

    def given(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """The arrays that there are, by name."""
        named_arrays = zip(self.arrays, arrays, strict=True)
        return {name: each for name, each in named_arrays if each is not None}

    def compile(self, options: Options, arrays: Sequence[Any], **more: Any) -> None:
        """Refuse wrong arguments where they are traced, and compile the kernel there."""
        specs: dict[str, Any] = {
            name: [spec(x, f"{name}[{i}]") for i, x in enumerate(each)]
            if isinstance(each, tuple)
            else spec(each, name)
            for name, each in self.given(arrays).items()
        }
        if "k_offsets" in specs:
            specs["cu_seqlens"] = specs.pop("q_offsets"), specs.pop("k_offsets")
        self.direct.compile(**specs, **dict(options), **more)

    def text(self, options: Options, arrays: Sequence[Any], results: Sequence[str]) -> str:
        """The words of the custom call."""
        given = self.given(arrays)
        description = {
            "function": self.call.name,
            "options": {
                name: {"function": named(value)} if callable(value) else value
                for name, value in options
            },
            "arguments": list(given),
            "results": list(results),
        }
        lists = {name: len(each) for name, each in given.items() if isinstance(each, tuple)}
        if lists:
            description["lists"] = lists
        return json.dumps(description, sort_keys=True)


def _array(value: Any) -> Any:
    return None if value is None else jnp.asarray(value)


def _option(kind: Kind, value: Any, name: str) -> Any:
    if kind is NUMBER or (kind is SOME_NUMBER and value is not None):
        return number(value, name)
    if kind is DTYPE:
        return dtype_name(value, name)
    if kind is SCHEDULE:
        return schedule_text(value)
    if kind is WINDOW and isinstance(value, tuple | list):
        return tuple(map(int, value))
    return value
