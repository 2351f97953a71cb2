"""Declared calls as operators of torch: their schemas, what an operator runs, results of the right
shapes without memory, and the function in front. What is torch's own, derivatives and what autocast
casts, is beside each call.

There is an operator of the call's name; one with a name behind it for each further result, which
`asked` gives or which is an array to write (`gemm_aux`, `attention_lse`); and one that writes the
caller's tensors (`gemm_out`).
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, get_args

import torch

from cutedialect.choices import Activation
from cutedialect.frontend import signature as kinds
from cutedialect.frontend.doors import Door
from cutedialect.frontend.kernel import TensorSpec
from cutedialect.frontend.packed import Packed, packing_from, unpacked
from cutedialect.frontend.routed_operands import matrix_of
from cutedialect.frontend.signature import Call, offsets, operator_names, written

from .operators import (
    check_deterministic,
    check_forward_mode,
    define,
    element_type,
    is_direct,
    is_transformed,
    needs_gradient,
    schedule_text,
    torch_dtype,
    with_backward,
)
from .sharded_lists import shared_lists
from .sharding import holds_dtensor, register

_ENTRY = """\
def {name}({parameters}):
    {unwraps}
    text = schedule_text(schedule)
    tensors = {tensors}
    if is_direct(tensors):
        check_deterministic(text{added})
        return direct_{name}({given})
    return operated_{name}(dict({given}), tensors, lambda: ({values},))
"""
Given = SimpleNamespace


@dataclass(frozen=True)
class Own:
    """What is torch's own of a call. casts: what autocast casts. remember, backward: the context
    and the backward of the operator with a suffix, both with the operator and the suffix in front.
    needs_more: the further result that a backward needs. no_backward: the error where there is
    none. instead: what to do with an activation that is a function. made: results without contents,
    where their shapes do not follow from named modes.
    """

    doc: str = ""
    casts: tuple[str, ...] = ()
    remember: Callable[..., None] | None = None
    backward: Callable[..., Any] | None = None
    needs_more: Callable[[Mapping[str, Any]], str] = lambda named: ""
    no_backward: str = (
        "expected tensors without gradient, got one that requires it; take torch.no_grad()"
    )
    instead: str = ""
    made: Callable[[Operator, Given], Any] | None = None


class Operator:
    """The operators of a declared call, and the function in front of them."""

    def __init__(self, door: Door[Any, Any], own: Own) -> None:
        self.door = door
        self.call = door.call
        self.own = own
        arguments = list(self.call.operator())
        self.names = tuple(name for name, _ in arguments)
        self.schema = tuple(text for _, text in arguments)
        self.written = self.call.written
        self.asked = self.call.asked
        self.entry: Any = None
        self.transformable: dict[str, Any] = {}
        for more, schema in self.call.operators():
            self._define(f"_{more}" if more else "", schema)
        if self.call.is_single:
            tensors = (f"Tensor({'ab'[i]}!){'?' * (i > 0)} {x}" for i, x in enumerate(self.written))
            leading = (*tensors, *(f"bool {asked}" for asked in self.asked.values()))
            arguments = ", ".join((*leading, *self.schema))
            result = "Tensor" if self.asked else "()"
            self._define("_out", f"({arguments}) -> {result}", leading)

    def _define(self, suffix: str, schema: str, leading: tuple[str, ...] = ()) -> None:
        """Define an operator, with arguments in front of the call's, and give it its backward."""
        names = (*(each.split()[-1] for each in leading), *self.names)
        more = suffix.removeprefix("_") if suffix != "_out" else ""

        def ran(*values: Any) -> Any:
            given = self.given(values, names)
            check_deterministic(given.schedule, getattr(given, self.call.added, None))
            made = self._run(given, more)
            return made if suffix != "_out" else self._beside(given, made)

        def faked(*values: Any) -> Any:
            given = self.given(values, names)
            if suffix != "_out":
                return self.made(given, more)
            beside = "".join(each for each, asked in self.asked.items() if getattr(given, asked))
            return self._beside(given, self.made(given, beside))

        name = f"{self.call.name}{suffix}"
        define(name, schema, ran, faked, self.own.casts)
        if suffix == "_out":
            return
        if self.own.backward is None:
            remember: Any = self._refuse_gradient
            backward: Any = self._refuse_gradient
        else:
            assert self.own.remember is not None
            remember = partial(self.own.remember, self, suffix)
            backward = partial(self.own.backward, self, suffix)
        with_backward(name, backward, remember)
        if self.call.is_single:
            self.transformable[suffix] = transformable(name, backward, remember)

    def operator(self, suffix: str = "") -> Any:
        """The operator with a suffix."""
        return getattr(torch.ops.cutedialect, f"{self.call.name}{suffix}")

    def given(self, values: Sequence[Any], names: Sequence[str] = ()) -> Given:
        """The arguments of an operator, of which torch leaves out the last ones that have their
        defaults, as those of the function of arrays.
        """
        return given_of(self.call, values, names or self.names)

    def run(self, given: Given, **more: Any) -> Any:
        """The result of the function of arrays."""
        return self.door.function_of_arrays(**(vars(given) | more))

    def _run(self, given: Given, more: str) -> Any:
        if more in self.asked:
            return self.run(given, **{self.asked[more]: True})
        if not more:
            return self.run(given)
        tensor = self.made(given)
        return self.run(given, **{more: tensor}), tensor

    def _beside(self, given: Given, made: Any) -> Any:
        """What an operator that writes the first result returns: the second, where it has one."""
        if isinstance(made, tuple):
            return made[1]
        first = getattr(given, self.call.operands[0])
        return first.new_empty(0, dtype=torch.float32) if self.asked else None

    def made(self, given: Given, more: str = "") -> Any:
        """Results of the right shapes and types, of any contents; refuses wrong arguments."""
        if self.own.made is not None:
            return self.own.made(self, given)
        values = vars(given)
        checked = self.checked(values)
        names = [each.name for each in self.call.arrays if each.modes and not each.kind.is_written]
        columns = [values[name] for name in names]
        if not self.call.is_of_lists:
            return self._made(checked, dict(zip(names, columns, strict=True)), more, values)
        rows = zip(*(each or [None] * len(columns[0]) for each in columns), strict=True)
        return [self._made(checked, dict(zip(names, row, strict=True)), more) for row in rows]

    def checked(self, values: Mapping[str, Any]) -> Any:
        """The checked call of tensors without memory; refuses wrong arguments."""
        specs = {
            row.name: _spec(values[row.name], row.name)
            for row in self.call.taken("torch")
            if row.kind.is_array and not row.kind.is_written
        }
        return self.door.checked(**{**values, **specs, **dict.fromkeys(self.written)})

    def _made(
        self,
        checked: Any,
        tensors: Mapping[str, Any],
        more: str,
        given: Mapping[str, Any] | None = None,
    ) -> Any:
        first = next(iter(tensors.values()))
        known = {name: x.shape for name, x in tensors.items() if x is not None}
        if (text := getattr(checked.given, "packed_b", None)) is not None:
            name = self.call.operands[1]
            known[name] = _elements(tensors[name], text)
        shapes = self.call.result_shapes(known, given)
        types = {each.name: each.dtype for each in self.call.outputs}
        made = [
            first.new_empty(
                shapes.get(name, shapes["out"]),
                dtype=torch_dtype(types.get(name) or checked.out_dtype, "out_dtype"),
            )
            for name in (("out", more) if more else ("out",))
        ]
        return tuple(made) if more else made[0]

    def _refuse_gradient(self, *ignored: Any, **named: Any) -> None:
        raise RuntimeError(self.own.no_backward)

    def _operated(
        self,
        named: dict[str, Any],
        tensors: tuple[Any, ...],
        values_of: Callable[[], tuple[Any, ...]],
    ) -> Any:
        """The result of a call that torch has to know of: its arguments by name, all tensors among
        them, and what makes those of an operator.
        """
        if holds_dtensor(tensors):
            if self.call.is_of_lists:
                self.checked(named)
                return shared_lists(self.entry, named)
            register()
        self._check_operated(named, tensors)
        values = values_of()
        if any(named[name] is not None for name in self.written):
            return self._written(named, values)
        asked = "".join(name for name, by in self.asked.items() if named[by])
        more = asked
        if not more and needs_gradient(tensors):
            more = self.own.needs_more(named)
        suffix = f"_{more}" if more else ""
        run = self.operator(suffix)
        if is_transformed() and suffix in self.transformable:
            run = self.transformable[suffix].apply
        result = run(*values)
        return result[0] if more and not asked else result

    def _check_operated(self, named: Mapping[str, Any], tensors: tuple[Any, ...]) -> None:
        """Refuse what an operator does not take."""
        if self.own.backward is None and needs_gradient(tensors):
            self._refuse_gradient()
        for each in self.call.parameters:
            value = named.get(each.name)
            if each.kind is kinds.ACTIVATION and not (value is None or isinstance(value, str)):
                names = ", ".join(map(repr, get_args(Activation)))
                raise TypeError(
                    f"{each.name}: expected {names} or None where a gradient is required or torch "
                    f"compiles, got a function{self.own.instead}"
                )
        given = [name for name in self.written if named[name] is not None]
        if given and not self.call.is_single:
            gradient = "" if self.own.backward is None else "a gradient is required or "
            got = "list; take the result" if self.call.is_of_lists else "tensor; take the results"
            raise ValueError(
                f"{given[0]}: expected None where {gradient}torch compiles, got a {got}"
            )
        check_forward_mode(tensors)
        if given and needs_gradient(tensors):
            raise ValueError(
                f"{given[0]}: expected None where a gradient is required, got a tensor; take "
                "the result, or torch.no_grad()"
            )

    def _written(self, named: Mapping[str, Any], values: tuple[Any, ...]) -> Any:
        """The result of the operator that writes tensors of the caller."""
        first, *others = (named[name] for name in self.written)
        made = self.made(self.given(values)) if first is None else first
        asked = [named[name] for name in self.asked.values()]
        beside = self.operator("_out")(made, *others, *asked, *values)
        return (made, beside) if any(asked) else made

    def _values(self) -> str:
        """The arguments of the operator, as expressions of those of the function."""
        made: dict[str, str] = {}
        for each in self.call.taken("torch"):
            names, name = operator_names(each), each.name
            if each.kind is kinds.OFFSETS:
                made |= {part: f"pair({name!r}, {name})[{at}]" for at, part in enumerate(names)}
            elif len(names) > 1:
                made |= {part: f"split({name})[{at}]" for at, part in enumerate(names)}
            elif each.kind is kinds.DTYPE:
                made[name] = f"torch_dtype({name}, {name!r})"
            else:
                made[name] = {kinds.NUMBER: f"float({name})", kinds.SCHEDULE: "text"}.get(
                    each.kind, name
                )
        return ", ".join(made[name] for name in self.names)

    def gradients(self, **given: Any) -> tuple[Any, ...]:
        """What a backward returns: the gradients of arguments by name."""
        return tuple(given.get(name) for name in self.names)

    def function(self, names: dict[str, Any]) -> Any:
        """The function in front of the operators, in the module that has `names`, where Dynamo
        looks for what it uses.
        """
        call = self.call
        text = _ENTRY.format(
            name=call.name,
            parameters=str(call.signature("torch"))[1:-1],
            unwraps="\n    ".join(call.unwraps.strip().splitlines()),
            tensors=self._tensors(),
            given=", ".join(f"{each.name}={each.name}" for each in call.taken("torch")),
            values=self._values(),
            added=f", {call.added}" if call.added else "",
        )
        mine = {f"direct_{call.name}": self.door.function_of_arrays}
        mine[f"operated_{call.name}"] = self._operated
        names |= mine | {
            "is_direct": is_direct, "check_deterministic": check_deterministic,
            "schedule_text": schedule_text, "Tensor": torch.Tensor, "split": _split,
            "pair": offsets, "torch_dtype": torch_dtype, "Packed": Packed, "unpacked": unpacked,
            "matrix_of": matrix_of,
        }  # fmt: skip
        self.entry = written(text, call.name, __file__, names, self.own.doc or call.doc)
        return self.entry

    def _tensors(self) -> str:
        """The tensors among the arguments, as an expression."""
        plain, more = [], ""
        for each in self.call.arrays:
            if each.kind.is_list:
                plain.append(f"*({each.name} if isinstance({each.name}, list | tuple) else ())")
            elif each.kind is kinds.SCALE:
                more += f" + (({each.name},) if isinstance({each.name}, Tensor) else ())"
            elif each.kind is kinds.OFFSETS:
                more += f" + (tuple({each.name}) if isinstance({each.name}, tuple | list) else ())"
            else:
                plain.append(each.name)
        return f"({', '.join(plain)}){more}"


def given_of(call: Call, values: Sequence[Any], names: Sequence[str]) -> Given:
    """The arguments of an operator with these names as those of the function of arrays."""
    named = dict(zip(names, values, strict=False))
    for each in call.taken("torch"):
        first, *others = operator_names(each)
        value = named.pop(first, each.default)
        more = [named.pop(name, None) for name in others]
        if each.kind is kinds.OFFSETS:
            is_there = value is not None or more[0] is not None
            value = (value, *more) if is_there else None
        elif more and value is None:
            (value,) = more
        elif each.kind is kinds.WINDOW and value is not None:
            value = tuple(value)
        named[each.name] = value
    return SimpleNamespace(**named)


def _elements(tensor: Any, text: str) -> tuple[Any, ...]:
    """The shape of the elements that a tensor of integers holds."""
    rank = tensor.dim()
    return packing_from(text, element_type(tensor.dtype, "b"), rank).shape(tensor.shape)


def _spec(value: Any, name: str) -> Any:
    """A tensor, or several, as what a call is checked for; numbers stay."""
    if isinstance(value, list | tuple):
        return type(value)(_spec(each, name) for each in value)
    if not isinstance(value, torch.Tensor):
        return value
    return TensorSpec([_extent(each) for each in value.shape], element_type(value.dtype, name))


def _extent(extent: Any) -> int | None:
    """An extent, of one that torch has a symbol for what it is now."""
    if type(extent) is int:
        return extent
    return extent.node.hint if extent.node.has_hint() else None


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
