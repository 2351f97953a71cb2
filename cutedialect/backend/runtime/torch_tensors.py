"""torch tensors as arguments: which of them a kernel may touch behind torch's back, and what torch
has to be told of a launch: that a tensor was written (autograd), on which stream its memory is in
use (the caching allocator). torch itself is never imported here: who passes a tensor has done so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from math import prod
from types import CodeType
from typing import Any, NamedTuple, TypeVar

from cutedialect.backend.runtime.arrays import Reader, TensorArgument, host_view
from cutedialect.backend.runtime.streams import stream_handle

_REMEDY = "call the op of cutedialect.torch instead"


def is_torch(value: Any) -> bool:
    """Whether a value is a tensor of torch, or of a class derived from it."""
    return hasattr(value, "data_ptr") and any(
        base.__module__.partition(".")[0] == "torch" for base in type(value).__mro__
    )


def torch_reader(cls: type) -> Reader:
    """How tensors of a class are read; a class that dispatches its operations itself is refused."""
    torch: Any = sys.modules["torch"]
    _skip_frames()
    plain = getattr(torch._C, "_disabled_torch_dispatch_impl", None)
    if getattr(cls, "__torch_dispatch__", plain) is not plain:
        return Reader(_refuse_subclass)
    grad_enabled = torch.is_grad_enabled
    strided = torch.strided
    # Views that negate have one of the types of parts of complex numbers.
    parts = {getattr(torch, name, None) for name in ("float16", "float32", "float64")}

    def negative(tensor: Any) -> bool:
        return tensor.dtype in parts and tensor.is_neg()

    def argument(tensor: Any) -> TensorArgument:
        if tensor.layout is not strided:
            raise ValueError(f"expected a strided tensor, got {tensor.layout}; use .to_dense()")
        if getattr(tensor, "is_nested", False):
            raise ValueError(
                "expected a tensor with one shape, got a nested one; cute.grouped_gemm takes the "
                "list of its parts, .to_padded_tensor() makes one of them"
            )
        if tensor.requires_grad and grad_enabled():
            raise ValueError(
                "expected a tensor without gradient, got one that requires it, which a kernel "
                "would drop; call the op of cutedialect.torch, which has a backward where there is "
                "one, or take torch.no_grad() or .detach()"
            )
        if negative(tensor):
            raise ValueError(
                "expected a tensor as it lies in memory, got a view that negates it; use "
                ".resolve_neg()"
            )
        return _argument(tensor)

    def look(tensor: Any) -> Any:
        try:
            dtype = tensor.dtype
            if (tensor.requires_grad and grad_enabled()) or (dtype in parts and tensor.is_neg()):
                return None
            address = tensor.data_ptr()
            return (
                cls, tensor.shape, tensor.stride(), dtype, address & 15, tensor.device,
            ), address if tensor.is_cuda else None  # fmt: skip
        except RuntimeError:  # no strides, or no memory
            return None

    def key(tensor: Any) -> Any:
        try:
            if not tensor.is_cuda or (tensor.requires_grad and grad_enabled()) or negative(tensor):
                return None
            return (
                tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(),
            )  # fmt: skip
        except RuntimeError:  # no strides, or no memory
            return None

    return Reader(argument, look, key, _cuda_pointer)


def _cuda_pointer(tensor: Any) -> int | None:
    try:
        return tensor.data_ptr() if tensor.is_cuda else None
    except RuntimeError:  # no memory
        return None


def opaque(instead: str) -> Callable[[_Call], _Call]:
    """Keep torch.compile out of a function and all that it calls: Dynamo breaks the graph at a call
    of it, or with fullgraph=True refuses it and says what to call `instead`.
    """

    def mark(function: _Call) -> _Call:
        function._torchdynamo_disable = True  # type: ignore[attr-defined]
        function._torchdynamo_disable_msg = instead  # type: ignore[attr-defined]
        _opaque_code.append(function.__code__)  # type: ignore[attr-defined]
        if sys.modules.get("torch") is not None:  # None: an import that is forbidden
            _skip_frames()
        return function

    return mark


_Call = TypeVar("_Call", bound=Callable[..., Any])
# Code that Dynamo has not been told of yet.
_opaque_code: list[CodeType] = []


def _skip_frames() -> None:
    """Tell Dynamo, once torch is there, to run opaque code and what it calls as it is."""
    if not _opaque_code:
        return
    frames: Any = getattr(getattr(sys.modules["torch"]._C, "_dynamo", None), "eval_frame", None)
    if not hasattr(frames, "set_code_exec_strategy"):
        return
    skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
    with suppress(IndexError):  # another thread took the last one
        while _opaque_code:
            frames.set_code_exec_strategy(_opaque_code.pop(), skip)


def _refuse_subclass(tensor: Any) -> TensorArgument:
    name = type(tensor).__name__
    if name == "DTensor":
        raise TypeError(
            "expected a local tensor, got a DTensor; use cutedialect.torch, which takes them, or "
            ".to_local() on each rank, and add up what is sharded over K"
        )
    if name == "FakeTensor":
        raise TypeError(f"expected a tensor with memory, got a FakeTensor; {_REMEDY}")
    raise TypeError(
        f"expected a tensor with memory of its own, got a {name}, which dispatches operations "
        f"itself; {_REMEDY}, which dispatches, or pass the tensor inside of it"
    )


def _argument(tensor: Any) -> TensorArgument:
    dtype = str(tensor.dtype).removeprefix("torch.")
    device, shape = tensor.device, tuple(tensor.shape)
    if device.type == "meta":
        raise TypeError(f"expected a tensor with memory, got one on the meta device; {_REMEDY}")
    try:
        pointer = tensor.data_ptr()
    except RuntimeError:
        raise TypeError(
            f"expected a tensor with memory, got one inside of a transform of torch.func; {_REMEDY}"
        ) from None
    if device.type == "cuda":
        return TensorArgument(pointer, shape, tensor.stride(), dtype, device.index, tensor)
    if device.type != "cpu":
        raise ValueError(f"expected a tensor on a CUDA device or in host memory, got {device}")
    return host_view(pointer, shape, tensor.stride(), dtype, tensor, writeable=True)


def check_modes(values: Sequence[Any]) -> None:
    """Refuse tensors whose tangents a launch would drop (forward-mode differentiation), and all of
    them under torch.jit.trace, which would record memory that nothing writes.
    """
    torch: Any = sys.modules.get("torch")
    autograd = getattr(torch, "autograd", None)
    forward: Any = getattr(autograd, "forward_ad", None)
    tracing = getattr(getattr(torch, "_C", None), "_get_tracing_state", None)
    if getattr(forward, "_current_level", -1) >= 0:
        for tensor in _flat(values):
            if is_torch(tensor) and forward.unpack_dual(tensor).tangent is not None:
                raise NotImplementedError(
                    "expected tensors without a tangent, got one of forward-mode differentiation "
                    "(jvp), which kernels do not have; take torch.autograd.grad with an op of "
                    "cutedialect.torch"
                )
    if tracing is not None and tracing() is not None and any(map(is_torch, _flat(values))):
        raise NotImplementedError(
            "expected a call outside of torch.jit.trace, got one inside, which would not record "
            f"the kernel; {_REMEDY}"
        )


def recording() -> Callable[[], bool]:
    """What tells whether `check_modes` has anything to look for: forward-mode differentiation or
    torch.jit.trace is under way.
    """
    names = asked_and_told()
    forward, tracing = names["forward"], names["tracing"]

    def is_recording() -> bool:
        return forward._current_level >= 0 or tracing() is not None

    return is_recording


def asked_and_told() -> dict[str, Any]:
    """What a warm call asks torch and tells it: `forward`, whose `_current_level` is negative where
    nothing is differentiated in forward mode; `tracing`, None where torch.jit.trace is not at work;
    `bump`, for the tensors that it has written (`mark_written`).
    """
    torch: Any = sys.modules["torch"]
    forward: Any = getattr(torch.autograd, "forward_ad", None)
    tracing = getattr(torch._C, "_get_tracing_state", None)
    return {
        "forward": forward if hasattr(forward, "_current_level") else _NoLevels,
        "tracing": tracing or (lambda: None),
        "bump": version_bump(),
    }


class _NoLevels:
    """Of a torch without forward mode."""

    _current_level = -1


def alike(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """What tells, in one call into torch, whether as many tensors look like these: those are the
    guards of its compiler, on class, element type, device, shape, strides, whether a gradient is
    required, and what dispatches their operations. None where this torch has none, and for classes
    that may come and go. The addresses, and whether gradients are enabled, are not looked at.
    """
    torch: Any = sys.modules["torch"]
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    kind = getattr(guards, "TensorGuards", None)
    if kind is None or not {*map(type, tensors)} <= {torch.Tensor, torch.nn.Parameter}:
        return None
    try:
        check = _guards(kind, tensors)
        return check if _tells_apart(kind) and check(*tensors) else None
    except (TypeError, RuntimeError):  # of a torch that takes other arguments
        return None


def _guards(kind: Any, tensors: Sequence[Any]) -> Callable[..., bool]:
    # Without dynamic extents all are as they are.
    return kind(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check


@cache
def _tells_apart(kind: Any) -> bool:
    """Whether guards do what calls rely on, which is no promise of torch."""
    torch: Any = sys.modules["torch"]
    with torch.inference_mode(False), torch.no_grad():
        tensor = torch.zeros(2, 3)
        check = _guards(kind, [tensor])
        others = [
            tensor[:1], tensor.T, tensor.double(), torch.zeros(2, 6)[:, ::2], tensor.to("meta"),
            torch._neg_view(tensor), torch.zeros(2, 3, requires_grad=True), torch.zeros(2, 3, 1),
            torch.nn.Parameter(tensor, requires_grad=False), tensor.to_sparse(),
        ]  # fmt: skip
        return check(torch.ones(2, 3)) and not any(map(check, others))


def mark_written(values: Sequence[Any]) -> None:
    """Bump the version of each tensor of `values`, lists included, as an in-place operation of
    torch does: a backward that has saved the old contents then says so.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    tensors = [tensor for tensor in _flat(values) if is_torch(tensor)]
    if tensors:
        torch.autograd.graph.increment_version(tensors)


def version_bump() -> Callable[[Sequence[Any]], object]:
    """What bumps the version of each of some tensors, as `mark_written` does."""
    torch: Any = sys.modules["torch"]
    # torch's own function asks first whether it was given one tensor or several.
    raw = getattr(torch._C, "_increment_version", None)
    return torch.autograd.graph.increment_version if raw is None else raw


class Watch(NamedTuple):
    """What a warm launch asks torch, and tells it of the tensors that it has written."""

    is_recording: Callable[[], bool]
    bump: Callable[[Sequence[Any]], object]


def watch_of(values: Sequence[Any], written: Sequence[Any]) -> Watch | None:
    """What launches on values like these have to do with torch; None where none is a tensor of it,
    lists included.
    """
    if "torch" not in sys.modules or not any(map(is_torch, _flat(values))):
        return None
    return Watch(recording(), version_bump() if all(map(is_torch, written)) else mark_written)


def record_use(values: Sequence[Any], stream: Any) -> None:
    """Tell torch's allocator that CUDA tensors of `values` are in use on another stream than the
    current one, so that their memory is not given away before the launch is over.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    for tensor in _flat(values):
        if is_torch(tensor) and tensor.is_cuda:
            other = torch_stream(stream, tensor.device)
            if other != torch.cuda.current_stream(tensor.device):
                tensor.record_stream(other)


def new_tensor(like: Any, shape: tuple[int, ...], dtype: str, stream: Any) -> Any:
    """A new torch tensor where `like` lives; with a stream, in memory that is free on that one,
    and known to be in use on the current one.
    """
    torch: Any = sys.modules["torch"]
    element, device = getattr(torch, dtype), like.device
    if stream is None or device.type != "cuda":
        return torch.empty(shape, dtype=element, device=device)
    current = torch.cuda.current_stream(device)
    with torch.cuda.stream(torch_stream(stream, device)):
        made = torch.empty(shape, dtype=element, device=device)
    made.record_stream(current)
    return made


def maker_like(tensor: Any, shape: tuple[int, ...], dtype: str) -> Callable[[Any, Any], Any]:
    """What makes tensors as `new_tensor` does where those like `tensor` live, without a stream at
    the speed of torch's generated code where this torch has that function.
    """
    torch: Any = sys.modules["torch"]
    element, device = getattr(torch, dtype), tensor.device

    def empty(like: Any, stream: Any) -> Any:
        if stream is not None:
            return new_tensor(like, shape, dtype, stream)
        return torch.empty(shape, dtype=element, device=device)

    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    raw = getattr(guards, "_empty_strided_cuda", None)
    if device.type != "cuda" or raw is None:
        return empty
    index = device.index
    strides = tuple(prod(shape[mode + 1 :]) for mode in range(len(shape)))

    def on_current(like: Any, stream: Any) -> Any:
        if stream is not None:
            return empty(like, stream)
        made = raw(shape, strides, element)
        # It knows the current device alone.
        return made if made.get_device() == index else empty(like, None)

    return on_current


def torch_stream(stream: Any, device: Any) -> Any:
    """torch's object for a stream as users give it."""
    torch: Any = sys.modules["torch"]
    if isinstance(stream, torch.cuda.Stream):
        return stream
    handle = stream_handle(stream)
    if handle == 0:
        return torch.cuda.default_stream(device)
    return torch.cuda.ExternalStream(handle, device=device)


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value
