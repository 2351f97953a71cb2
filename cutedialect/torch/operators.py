"""What the operators have in common: how one is defined, when a call needs it, what autocast casts,
and arguments in the spelling of a schema.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from cutedialect.backend.runtime.arrays import array_looks
from cutedialect.frontend.dtypes import DType, as_dtype
from cutedialect.schedule import Schedule

NAMESPACE = "cutedialect"
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_AUTOCAST = {"cuda": "AutocastCUDA", "cpu": "AutocastCPU"}


def define(
    name: str,
    schema: str,
    run: Callable[..., Any],
    fake: Callable[..., Any],
    casts: Sequence[str] = (),
) -> None:
    """Define the operator `cutedialect::name`. `run` computes on tensors with memory, `fake` makes
    results of the same shapes without; under autocast the arguments `casts` get its type.
    """
    qualified = f"{NAMESPACE}::{name}"
    _LIBRARY.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
    for key in ("CPU", "CUDA"):
        _LIBRARY.impl(name, run, key)
    operator = getattr(getattr(torch.ops, NAMESPACE), name).default
    names = [argument.name for argument in operator._schema.arguments]

    def checked(*args: Any) -> Any:
        check_devices(zip(names, args, strict=False))
        return fake(*args)

    torch.library.register_fake(qualified, checked, lib=_LIBRARY)
    if casts:
        for device, key in _AUTOCAST.items():
            _LIBRARY.impl(name, _casting(name, device, key, casts), key)


def check_devices(named: Iterable[tuple[str, Any]]) -> None:
    """Refuse tensors of several devices, lists included: torch asks the fake kernel of an operator
    where one of them is on the meta device, whatever the others have in memory.
    """
    first: tuple[str, torch.device] | None = None
    for name, value in named:
        for tensor in value if isinstance(value, list | tuple) else (value,):
            if not isinstance(tensor, torch.Tensor):
                continue
            if first is None:
                first = name, tensor.device
            elif tensor.device != first[1]:
                raise ValueError(
                    f"{name}: expected a tensor on {first[1]} like {first[0]}, got one on "
                    f"{tensor.device}"
                )


def with_backward(
    name: str, backward: Callable[..., Any], setup_context: Callable[..., None]
) -> None:
    """Give an operator a backward; `setup_context` raises where there is none for its inputs."""
    torch.library.register_autograd(
        f"{NAMESPACE}::{name}", backward, setup_context=setup_context, lib=_LIBRARY
    )


def _casting(name: str, device: str, key: str, casts: Sequence[str]) -> Callable[..., Any]:
    """The kernel of an operator under autocast: it casts, and calls the operator without it."""
    operator = getattr(getattr(torch.ops, NAMESPACE), name).default
    places = [
        place for place, argument in enumerate(operator._schema.arguments) if argument.name in casts
    ]
    excluded = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def cast(value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, list | tuple):
            return [cast(each, dtype) for each in value]
        if value is None or value.device.type != device or value.dtype not in _CAST:
            return value
        return value.to(dtype)

    def run(*args: Any) -> Any:
        dtype = torch.get_autocast_dtype(device)
        given = list(args)
        first = given[places[0]]
        first = first[0] if isinstance(first, list | tuple) and first else first
        # Operands of 8 bits or f64 are what the caller wants; what is added stays beside them.
        if isinstance(first, torch.Tensor) and first.dtype in _CAST:
            for place in places:
                if place < len(given):
                    given[place] = cast(given[place], dtype)
        with torch._C._ExcludeDispatchKeyGuard(excluded):
            return operator(*given)

    return run


_CAST = (torch.float32, torch.float16, torch.bfloat16)


def is_direct(tensors: Sequence[Any]) -> bool:
    """Whether a call needs nothing of torch: it is not compiled, traced, transformed or under
    autocast, and no tensor requires a gradient, dispatches itself, or has no memory. Tensors may be
    None.
    """
    if torch.compiler.is_compiling():
        return False
    if torch._C._len_torch_dispatch_stack() or is_transformed() or torch._C._get_tracing_state():
        return False
    return not _autocasts() and (
        _are_plain(tensors)
        or (array_looks(tensors) is not None and not any(map(_is_meta, tensors)))
    )


def _are_plain(tensors: Sequence[Any]) -> bool:
    """Whether tensors, some of them None, are torch's own kind, as they lie in memory, and record
    nothing: what nearly all are. It takes less than half as long as a proper look at each.
    """
    records = torch.is_grad_enabled()
    for tensor in tensors:
        if tensor is None:
            continue
        if (
            type(tensor) not in _PLAIN
            or (records and tensor.requires_grad)
            or tensor.layout is not _STRIDED
            or tensor.is_meta
            or tensor.is_nested
            or tensor.is_neg()
        ):
            return False
    return True


_PLAIN = {torch.Tensor, torch.nn.Parameter}
_STRIDED = torch.strided


def is_transformed() -> bool:
    """Whether a transform of torch.func (grad, vmap, jvp) is at work; Dynamo traces through it."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._functorch.peek_interpreter_stack() is not None


def check_forward_mode(tensors: Iterable[Any]) -> None:
    """Refuse tangents, which an operator would drop: it has no forward-mode derivative."""
    forward = torch.autograd.forward_ad
    if forward._current_level < 0:
        return
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and forward.unpack_dual(tensor).tangent is not None:
            raise NotImplementedError(
                "expected tensors without a tangent, got one of forward-mode differentiation (jvp);"
                " gradients of cutedialect.torch are of reverse mode (torch.autograd.grad, vjp)"
            )


def _is_meta(tensor: Any) -> bool:
    return getattr(tensor, "is_meta", False)


def _autocasts() -> bool:
    return any(map(torch.is_autocast_enabled, _AUTOCAST))


# One question for all devices, where torch has it.
_autocasts = getattr(torch._C, "_is_any_autocast_enabled", _autocasts)


def needs_gradient(tensors: Iterable[Any]) -> bool:
    """Whether autograd records an operation on these tensors."""
    return torch.is_grad_enabled() and any(
        needs_gradient(each)
        if isinstance(each, list | tuple)
        else getattr(each, "requires_grad", False)
        for each in tensors
        if each is not None
    )


def torch_dtype(dtype: object, name: str) -> torch.dtype | None:
    """An element type in any spelling as torch's."""
    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    return getattr(torch, as_dtype(dtype, name).numpy.name)


def element_type(dtype: torch.dtype, name: str) -> DType:
    """torch's element type as one of the language."""
    return as_dtype(str(dtype), name)


def schedule_text(schedule: Schedule | str | None) -> str | None:
    """A schedule as its text."""
    return schedule.text() if isinstance(schedule, Schedule) else schedule


def check_deterministic(schedule: str | None, places: torch.Tensor | None = None) -> None:
    """Refuse, or warn of, sums that are added as they come, as torch's deterministic mode says:
    those of a schedule, and of products that are added to rows at `places` (rows,).
    """
    if not torch.are_deterministic_algorithms_enabled():
        return
    mode = "under torch.use_deterministic_algorithms(True)"
    if schedule is not None and Schedule.parse(schedule).reduction == "atomic":
        text = (
            f"schedule: expected reduction = ordered {mode}, got atomic, which adds partial sums "
            "in the order in which they come"
        )
    elif places is not None and places.dim() == 1:
        text = (
            f"scatter: expected the products of each row (S, k) {mode}, got the row of each "
            "product, to which they are added in the order in which they come"
        )
    else:
        return
    if not torch.is_deterministic_algorithms_warn_only_enabled():
        raise RuntimeError(text)
    warnings.warn(text, stacklevel=3)
