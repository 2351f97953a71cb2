"""Declared calls as operators of torch: their schemas, what an operator runs, and the function in
front of it. What is torch's own, results of the right shape and derivatives, is beside each call.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from cutedialect.frontend.signature import (
    DTYPE,
    NUMBER,
    OFFSETS,
    SCALE,
    SCHEDULE,
    WINDOW,
    Call,
    offsets,
    operator_names,
    written,
)

from .operators import check_deterministic, define, is_direct, schedule_text, torch_dtype

_ENTRY = """\
def {name}({parameters}):
    text = schedule_text(schedule)
    tensors = {tensors}
    if is_direct(tensors):
        check_deterministic(text)
        return direct({given})
    return operated(dict({given}), tensors, lambda: ({values},))
"""
Given = SimpleNamespace
Values = Callable[[], tuple[Any, ...]]


class Operator:
    """What the operators of a declared call share. `direct` is the function of arrays."""

    def __init__(self, call: Call, direct: Callable[..., Any]) -> None:
        self.call = call
        self.direct = direct
        arguments = list(call.operator())
        self.names = tuple(name for name, _ in arguments)
        self.schema = ", ".join(text for _, text in arguments)

    def define(
        self,
        fake: Callable[[Given], Any],
        result: str,
        *,
        suffix: str = "",
        leading: Mapping[str, str] | None = None,
        run: Callable[[Given], Any] | None = None,
        casts: Sequence[str] = (),
    ) -> None:
        """Define the operator of the call's name and a suffix. `leading` are arguments in front of
        the call's, by name; `run` computes the result, by default that of the function of arrays.
        """
        first = leading or {}
        names = (*first, *self.names)

        def ran(*values: Any) -> Any:
            given = self.given(values, names)
            check_deterministic(given.schedule)
            return self.run(given) if run is None else run(given)

        def faked(*values: Any) -> Any:
            return fake(self.given(values, names))

        schema = ", ".join((*first.values(), self.schema))
        define(f"{self.call.name}{suffix}", f"({schema}) -> {result}", ran, faked, casts)

    def given(self, values: Sequence[Any], names: Sequence[str] = ()) -> Given:
        """The arguments of an operator, of which torch leaves out the last ones that have their
        defaults, as those of the function of arrays.
        """
        named = dict(zip(names or self.names, values, strict=False))
        for each in self.call.taken("torch"):
            first, *others = operator_names(each)
            value = named.pop(first, each.default)
            more = [named.pop(name, None) for name in others]
            if each.kind is OFFSETS:
                is_there = value is not None or more[0] is not None
                value = (value, *more) if is_there else None
            elif more and value is None:
                (value,) = more
            elif each.kind is WINDOW and value is not None:
                value = tuple(value)
            named[each.name] = value
        return SimpleNamespace(**named)

    def run(self, given: Given, **more: Any) -> Any:
        """The result of the function of arrays."""
        return self.direct(**(vars(given) | more))

    def _values(self) -> str:
        """The arguments of the operator, as expressions of those of the function."""
        made: dict[str, str] = {}
        for each in self.call.taken("torch"):
            names, name = operator_names(each), each.name
            if each.kind is OFFSETS:
                made |= {part: f"pair({name!r}, {name})[{at}]" for at, part in enumerate(names)}
            elif len(names) > 1:
                made |= {part: f"split({name})[{at}]" for at, part in enumerate(names)}
            elif each.kind is DTYPE:
                made[name] = f"torch_dtype({name}, {name!r})"
            else:
                made[name] = {NUMBER: f"float({name})", SCHEDULE: "text"}.get(each.kind, name)
        return ", ".join(made[name] for name in self.names)

    def gradients(self, **given: Any) -> tuple[Any, ...]:
        """What a backward returns: the gradients of arguments by name."""
        return tuple(given.get(name) for name in self.names)

    def function(
        self,
        names: dict[str, Any],
        doc: str,
        operated: Callable[[dict[str, Any], tuple[Any, ...], Values], Any],
    ) -> Any:
        """The function in front of the operators, in the module that has `names`, where Dynamo
        looks for what it uses. `operated` gets the arguments by name, all tensors, and what
        makes the operator's arguments, where torch has to know of the call.
        """
        call = self.call
        text = _ENTRY.format(
            name=call.name,
            parameters=str(call.signature("torch"))[1:-1],
            tensors=self._tensors(),
            given=", ".join(f"{each.name}={each.name}" for each in call.taken("torch")),
            values=self._values(),
        )
        names |= {
            "direct": self.direct, "operated": operated, "is_direct": is_direct,
            "check_deterministic": check_deterministic, "schedule_text": schedule_text,
            "Tensor": torch.Tensor, "split": _split, "pair": offsets, "torch_dtype": torch_dtype,
        }  # fmt: skip
        return written(text, call.name, __file__, names, doc)

    def _tensors(self) -> str:
        """The tensors among the arguments, as an expression."""
        plain, more = [], ""
        for each in self.call.arrays:
            if each.kind.is_list:
                plain.append(f"*({each.name} if isinstance({each.name}, list | tuple) else ())")
            elif each.kind is SCALE:
                more += f" + (({each.name},) if isinstance({each.name}, Tensor) else ())"
            elif each.kind is OFFSETS:
                more += f" + (tuple({each.name}) if isinstance({each.name}, tuple | list) else ())"
            else:
                plain.append(each.name)
        return f"({', '.join(plain)}){more}"


def _split(scale: Any) -> tuple[Any, float | None]:
    """A scale as (arrays, number), one of which is None."""
    if scale is None or isinstance(scale, torch.Tensor | list | tuple):
        return scale, None
    return None, float(scale)


def transformable(
    operator: str, backward: Callable[..., Any], remember: Callable[..., None]
) -> type[torch.autograd.Function]:
    """An operator in the form that transforms of torch.func take."""

    class Transformable(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*inputs: Any) -> Any:
            return getattr(torch.ops.cutedialect, operator)(*inputs)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            remember(ctx, inputs, output)

    Transformable.backward = staticmethod(backward)  # type: ignore[method-assign]
    return Transformable
