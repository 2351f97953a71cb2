"""Declared calls as functions of JAX: their arguments as what is traced and what is known, the
words of their custom calls, and how XLA parts arrays that several devices share. What is JAX's own,
gradients and what may be parted, is beside each call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

from cutedialect.frontend import signature as kinds
from cutedialect.frontend.calls import DOORS
from cutedialect.frontend.doors import Door
from cutedialect.frontend.dtypes import DType
from cutedialect.frontend.signature import Kind, offsets, operator_names, written

from .custom_call import (
    arranged,
    custom_call,
    dtype_name,
    named,
    number,
    schedule_text,
    spec,
    struct,
)
from .partitioning import Rule

_ENTRY = """\
def {name}({parameters}):
    return called({given})
"""
Options = tuple[tuple[str, Any], ...]
"""What is known when JAX traces, by name."""


def _no_gradient(*arguments: Any) -> Any:
    raise NotImplementedError(
        "expected no gradient to be taken, got one; take jax.lax.stop_gradient"
    )


@dataclass(frozen=True)
class Own:
    """What is JAX's own of a call. forward, backward: those of `jax.custom_vjp`, with the function
    in front of what it gives them. rule: how the arrays by name and so many results are parted,
    None for not at all.
    """

    doc: str = ""
    forward: Callable[..., Any] = _no_gradient
    backward: Callable[..., Any] = _no_gradient
    rule: Callable[[Mapping[str, Any], int], Rule | None] = lambda given, count: None


class Function:
    """A declared call: `results` are those of the custom call, and `traced` has a gradient, too."""

    def __init__(self, door: Door[Any, Any], own: Own) -> None:
        self.door = door
        self.call = door.call
        self.own = own
        self.rows = self.call.taken("jax")
        self.arrays = [
            name
            for each in self.rows
            if each.kind.is_array
            for name in (operator_names(each) if each.kind is kinds.OFFSETS else (each.name,))
        ]
        self.traced: Any = jax.custom_vjp(self.results, nondiff_argnums=(0, 1))
        self.traced.defvjp(partial(own.forward, self), partial(own.backward, self))

    def function(self, module: str) -> Any:
        """The function."""
        text = _ENTRY.format(
            name=self.call.name,
            parameters=str(self.call.signature("jax"))[1:-1],
            given=", ".join(f"{each.name}={each.name}" for each in self.rows),
        )
        names = {"__name__": module, "called": self._called}
        return written(text, self.call.name, __file__, names, self.own.doc or self.call.doc)

    def _called(self, **given: Any) -> Any:
        asked = {each.name for each in self.call.outputs if not each.asked or given[each.asked]}
        options, arrays = self.split(given)
        if self.call.is_of_lists:
            return list(self.traced(("out",), options, arrays)) if arrays[0] else []
        results = self.traced(
            tuple(x.name for x in self.call.outputs if x.name in asked), options, arrays
        )
        return results[0] if len(results) == 1 else tuple(results)

    def split(self, given: Mapping[str, Any]) -> tuple[Options, tuple[Any, ...]]:
        """The arguments as options, and arrays in the order of `arrays`."""
        options: dict[str, Any] = {}
        arrays: list[Any] = []
        for each in self.rows:
            value = given[each.name]
            if each.kind is kinds.SCALE and isinstance(value, int | float):
                options[each.name] = number(value, each.name)
                arrays.append(None)
            elif each.kind is kinds.OFFSETS:
                arrays += map(_array, offsets(each.name, value))
            elif each.kind.is_list:
                arrays.append(None if value is None else tuple(map(_array, value)))
            elif each.kind.is_array:
                arrays.append(_array(value))
            elif each.kind is not kinds.RESULT and (value is not None or not each.is_late):
                options[each.name] = _option(each.kind, value, each.name)
        return tuple(options.items()), tuple(arrays)

    def options(self, **given: Any) -> Options:
        """The options of a call of which the others are the defaults."""
        defaults = {x.name: None if x.kind.is_array else x.default for x in self.rows}
        return self.split(defaults | given)[0]

    def known(self, options: Options) -> SimpleNamespace:
        """The arguments that are known, with defaults."""
        defaults = {x.name: x.default for x in self.call.parameters}
        return SimpleNamespace(**(defaults | dict(options)))

    def results(
        self, names: tuple[str, ...], options: Options, arrays: Sequence[Any]
    ) -> tuple[Any, ...]:
        """The results of the custom call by their names, those of all problems of lists. Wrong
        arguments are refused where they are traced, and the kernel is compiled there.
        """
        given = {x: each for x, each in zip(self.arrays, arrays, strict=True) if each is not None}
        specs: dict[str, Any] = {
            name: [spec(x, f"{name}[{i}]") for i, x in enumerate(each)]
            if isinstance(each, tuple)
            else spec(each, name)
            for name, each in given.items()
        }
        if "k_offsets" in specs:
            specs["cu_seqlens"] = specs.pop("q_offsets"), specs.pop("k_offsets")
        more = {x.asked: True for x in self.call.outputs if x.asked and x.name in names}
        checked = self.door.checked(**specs, **dict(options), **more)
        checked.prepare()
        types = {each.name: each.dtype for each in self.call.outputs}
        elements = tuple(types.get(name) or checked.out_dtype for name in names)
        text, rule = self._text(options, given, names), None
        if jax.device_count() > 1:
            rule = self.own.rule(given, len(names))
        call = partial(_part, text, elements) if rule is None else _parted(text, elements, rule)
        flat = (each if isinstance(each, tuple) else (each,) for each in given.values())
        return tuple(call(*(array for each in flat for array in each)))

    def _text(self, options: Options, given: Mapping[str, Any], names: Sequence[str]) -> str:
        """The words of the custom call."""
        description = {
            "function": self.call.name,
            "options": {
                name: {"function": named(value)} if callable(value) else value
                for name, value in options
            },
            "arguments": list(given),
            "results": [] if self.call.is_of_lists else list(names),
        }
        if self.call.is_of_lists:
            description["lists"] = {name: len(each) for name, each in given.items()}
        return json.dumps(description, sort_keys=True)


def _part(text: str, elements: Sequence[DType], *arrays: Any) -> list[Any]:
    """The custom call for whole arrays, or for a device's parts of them."""
    description = json.loads(text)
    results = [
        struct(shapes[name if name in shapes else "out"], element)
        for shapes in _result_shapes(description, arrays)
        for name, element in zip(description["results"] or ["out"], elements, strict=True)
    ]
    return custom_call(description, results, arrays)


def _result_shapes(
    description: Mapping[str, Any], arrays: Sequence[Any]
) -> Iterator[dict[str, tuple[Any, ...]]]:
    """The shapes of results by their names, of each problem of lists."""
    given = arranged(description, arrays)
    call = DOORS[description["function"]].call
    if not call.is_of_lists:
        yield call.result_shapes({name: each.shape for name, each in given.items()})
        return
    for problem in zip(*given.values(), strict=True):
        yield call.result_shapes({n: x.shape for n, x in zip(given, problem, strict=True)})


@lru_cache(maxsize=1024)
def _parted(text: str, elements: tuple[DType, ...], rule: Rule) -> Callable[..., Any]:
    return rule.apply(partial(_part, text, elements))


def _array(value: Any) -> Any:
    return None if value is None else jnp.asarray(value)


def _option(kind: Kind, value: Any, name: str) -> Any:
    if kind is kinds.NUMBER or (kind is kinds.SOME_NUMBER and value is not None):
        return number(value, name)
    if kind is kinds.DTYPE:
        return dtype_name(value, name)
    if kind is kinds.SCHEDULE:
        return schedule_text(value)
    if kind is kinds.WINDOW and isinstance(value, tuple | list):
        return tuple(map(int, value))
    return value
