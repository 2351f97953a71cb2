"""`op`: any `@cute.kernel` as a function of JAX, whose outputs are results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

from cutedialect.frontend.kernel import KernelFunction
from cutedialect.frontend.launch import compile_kernel

from .custom_call import custom_call, named


def op(
    outputs: Mapping[str, Callable[..., jax.ShapeDtypeStruct]],
) -> Callable[[KernelFunction], Callable[..., Any]]:
    """Make a `@cute.kernel` (or `@cute.host`) program a function of JAX, for jit and vmap.

    `outputs` are the parameters that the kernel writes: for each a function of the arrays, by their
    names, gives the shape and type of the result. The function takes the other parameters, arrays
    and numbers, by position, and compile-time parameters, arch, schedule and backend by name; it
    returns the one result, or a tuple. For a gradient, wrap it in `jax.custom_vjp`.

    Raises ValueError for names that are no parameters of the kernel, and at a call for a kernel
    that writes an array that is none of `outputs`.

    Example:

        @op({"Y": lambda X: jax.ShapeDtypeStruct(X.shape, X.dtype)})
        @cute.kernel
        def double(X, Y): ...

        y = double(x)
    """

    def make(program: KernelFunction) -> Callable[..., Any]:
        if not isinstance(program, KernelFunction):
            raise TypeError(f"expected a @cute.kernel function, got {type(program).__name__}")
        for name in outputs:
            if name not in program.parameters:
                raise ValueError(
                    f"outputs: expected parameters of {program.__name__} "
                    f"({', '.join(program.parameters)}), got {name!r}"
                )
        return _function(program, dict(outputs))

    return make


def _function(
    program: KernelFunction, outputs: dict[str, Callable[..., jax.ShapeDtypeStruct]]
) -> Callable[..., Any]:
    taken = [name for name in program.parameters if name not in outputs]
    signature = inspect.Signature(
        [program.signature.parameters[name] for name in taken]
        + [
            inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD),
        ]
    )
    # Launches by everything but the arrays: a name in this process each.
    runners: dict[Any, Callable[..., None]] = {}

    def call(*args: Any, **options: Any) -> Any:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        constants = bound.arguments.get("options", {})
        values = {name: bound.arguments[name] for name in taken}
        numbers = {name: x for name, x in values.items() if x is None or _is_number(x)}
        arrays = {name: jnp.asarray(x) for name, x in values.items() if name not in numbers}
        results = [_made(maker, arrays) for maker in outputs.values()]
        key = (tuple(numbers.items()), tuple(sorted(constants.items(), key=str)))
        runner = runners.get(key)
        if runner is None:
            runner = runners[key] = _runner(
                program, list(arrays), list(outputs), numbers, constants
            )
        made = custom_call({"kernel": named(runner)}, results, list(arrays.values()))
        return made[0] if len(made) == 1 else tuple(made)

    call.__name__ = program.__name__
    call.__doc__ = program.__doc__
    return call


def _runner(
    program: KernelFunction,
    arrays: Sequence[str],
    outputs: Sequence[str],
    numbers: Mapping[str, Any],
    constants: Mapping[str, Any],
) -> Callable[[Sequence[Any], Sequence[Any], Any], None]:
    """What XLA's call of the kernel does."""

    def run(arguments: Sequence[Any], results: Sequence[Any], stream: Any) -> None:
        values = dict(numbers)
        values |= zip(arrays, arguments, strict=True)
        values |= zip(outputs, results, strict=True)
        ordered = [values[name] for name in program.parameters]
        kernel = compile_kernel(program, ordered, constants)
        given = [name for name in program.parameters if values[name] is not None]
        for place in kernel.signature.written:
            if given[place] not in outputs:
                raise ValueError(
                    f"outputs: expected {given[place]!r}, which {program.__name__} writes, among "
                    f"them, got {', '.join(outputs) or 'none'}"
                )
        kernel.launch(*[value for value in ordered if value is not None], stream=stream)

    return run


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, jax.core.Tracer)


def _made(maker: Callable[..., Any], arrays: Mapping[str, Any]) -> jax.ShapeDtypeStruct:
    """The shape and type of an output, from the arrays that its maker names."""
    names = list(inspect.signature(maker).parameters)
    unknown = [name for name in names if name not in arrays]
    if unknown:
        raise ValueError(
            f"outputs: expected a function of the arrays ({', '.join(arrays)}), got one of "
            f"{unknown[0]!r}"
        )
    made = maker(**{name: arrays[name] for name in names})
    return jax.ShapeDtypeStruct(made.shape, made.dtype)
