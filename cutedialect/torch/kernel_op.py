"""`op`: any `@cute.kernel` as an operator of torch. The schema comes from the kernel's parameters:
tensors, numbers where an annotation or a default says so, and what the kernel writes, which is an
argument that the operator mutates or a result that it makes.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from cutedialect.frontend.host import HostFunction
from cutedialect.frontend.kernel import KernelFunction
from cutedialect.frontend.launch import compile_kernel

from .operators import check_devices

_NUMBERS = {float: "float", int: "SymInt", bool: "bool", "float": "float", "int": "SymInt"}
_CONSTANTS = {bool: "bool", int: "int", float: "float", str: "str"}
# What every kernel takes beside its own parameters.
_OPTIONS = {"arch": "str? arch=None", "schedule": "str? schedule=None",
            "backend": "str backend='auto'"}  # fmt: skip


def op(
    name: str,
    *,
    mutates: Iterable[str] = (),
    outputs: Mapping[str, Callable[..., torch.Tensor]] | None = None,
    lists: Iterable[str] = (),
) -> Callable[[KernelFunction | HostFunction], CustomOpDef]:
    """Make a `@cute.kernel` (or `@cute.host`) program the operator `name`, as "mine::scale".

    Parameters that the kernel writes are named either in `mutates`, arguments that it changes in
    place, or in `outputs`: there a function of the other arguments, by their names, makes the empty
    tensor, which the operator returns instead of taking it; it also makes the shapes for fake
    tensors. `lists` are parameters that are groups of tensors. A parameter annotated `float` or
    `int` is a number. Compile-time parameters (behind the `*`) become arguments where their default
    is a number, a bool, a string or a tuple of ints; so do arch, schedule and backend.

    Returns torch's `CustomOpDef`, for `register_autograd` and the like. Raises ValueError for names
    that are no parameters of the kernel; a call raises it where the kernel writes a tensor that
    was not declared.

    Example:

        @op("mine::double", outputs={"Y": torch.empty_like})
        @cute.kernel
        def double(X, Y): ...

        y = double(x)
    """
    made = dict(outputs or {})
    changed, grouped = tuple(mutates), tuple(lists)

    def make(program: KernelFunction | HostFunction) -> CustomOpDef:
        return _operator(name, program, changed, made, grouped)

    return make


def _operator(
    name: str,
    program: KernelFunction,
    changed: tuple[str, ...],
    made: Mapping[str, Callable[..., torch.Tensor]],
    grouped: tuple[str, ...],
) -> CustomOpDef:
    if not isinstance(program, KernelFunction):
        raise TypeError(f"expected a @cute.kernel function, got {type(program).__name__}")
    for what, names in (("mutates", changed), ("outputs", tuple(made)), ("lists", grouped)):
        for each in names:
            if each not in program.parameters:
                raise ValueError(
                    f"{what}: expected parameters of {program.__name__} "
                    f"({', '.join(program.parameters)}), got {each!r}"
                )
    both = [each for each in changed if each in made]
    if both:
        raise ValueError(f"outputs: expected what is not in mutates, got {both[0]!r} in both")
    taken = [each for each in program.parameters if each not in made]
    constants = _constants(program)
    returns = "()" if not made else f"({', '.join(['Tensor'] * len(made))})"
    if len(made) == 1:
        returns = "Tensor"
    arguments = [_declared(program, each, changed, grouped) for each in taken]
    schema = f"({', '.join([*arguments, *constants.values(), *_OPTIONS.values()])}) -> {returns}"
    makers = {each: _maker(maker, taken) for each, maker in made.items()}
    keywords = (*constants, *_OPTIONS)

    def results(given: dict[str, Any]) -> tuple[torch.Tensor, ...]:
        return tuple(maker(given) for maker in makers.values())

    def returned(tensors: tuple[torch.Tensor, ...]) -> Any:
        return None if not tensors else tensors[0] if len(tensors) == 1 else tensors

    # The schema says how it is called: what comes by position and by name is not told apart here,
    # and torch leaves out what has its default.
    names = (*taken, *keywords)
    parameters = program.signature.parameters
    defaults = {
        each: parameters[each].default
        for each in taken
        if parameters[each].default is not inspect.Parameter.empty
    }

    def bound(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = defaults | dict(zip(names, args, strict=False)) | kwargs
        for each in keywords:
            if each in constants and each in given and isinstance(given[each], list):
                given[each] = tuple(given[each])
        return given

    def run(*args: Any, **kwargs: Any) -> Any:
        given = bound(args, kwargs)
        tensors = results(given)
        values = given | dict(zip(makers, tensors, strict=True))
        ordered = [values[each] for each in program.parameters]
        options = {each: given[each] for each in keywords if each in given}
        kernel = compile_kernel(program, ordered, options)
        _check_written(program, ordered, kernel.signature.written, (*changed, *makers))
        kernel.launch(*[value for value in ordered if value is not None])
        return returned(tensors)

    def fake(*args: Any, **kwargs: Any) -> Any:
        given = bound(args, kwargs)
        check_devices(given.items())
        return returned(results(given))

    operator = torch.library.custom_op(name, run, mutates_args=changed, schema=schema)
    operator.register_fake(fake)
    return operator


def _declared(
    program: KernelFunction, name: str, changed: tuple[str, ...], grouped: tuple[str, ...]
) -> str:
    """A run-time parameter in the schema."""
    parameter = program.signature.parameters[name]
    number = _NUMBERS.get(parameter.annotation)
    if number is not None:
        default = parameter.default
        return f"{number} {name}" + ("" if default is parameter.empty else f"={default!r}")
    kind = "Tensor"
    if name in changed:
        kind += f"(a{changed.index(name)}!)"
    if name in grouped:
        kind += "[]"
    if parameter.default is None:
        return f"{kind}? {name}=None"
    return f"{kind} {name}"


def _constants(program: KernelFunction) -> dict[str, str]:
    """Compile-time parameters that a schema can say; the others keep their defaults."""
    result: dict[str, str] = {}
    for name, parameter in program.signature.parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        default = parameter.default
        kind = _CONSTANTS.get(type(default))
        if kind is not None:
            result[name] = f"{kind} {name}={default!r}"
        elif isinstance(default, tuple) and default and all(type(each) is int for each in default):
            result[name] = f"int[] {name}={list(default)}"
    return result


def _maker(
    maker: Callable[..., torch.Tensor], taken: list[str]
) -> Callable[[dict[str, Any]], torch.Tensor]:
    """The function that makes an output, on the arguments that it names; one whose parameters have
    other names gets the first of them.
    """
    try:
        names = list(inspect.signature(maker).parameters)
    except (TypeError, ValueError):  # of C
        names = []
    if names and all(name in taken for name in names):
        return lambda given: maker(**{name: given[name] for name in names})
    return lambda given: maker(given[taken[0]])


def _check_written(
    program: KernelFunction,
    values: list[Any],
    written: tuple[int, ...],
    declared: tuple[str, ...],
) -> None:
    """Refuse a kernel that writes a tensor of which torch is not told."""
    names = [
        name for name, value in zip(program.parameters, values, strict=True) if value is not None
    ]
    for place in written:
        if names[place] not in declared:
            raise ValueError(
                f"mutates: expected {names[place]!r}, which {program.__name__} writes, in mutates "
                f"or outputs, got {', '.join(declared) or 'none'}"
            )
