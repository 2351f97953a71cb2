"""`@cute.kernel`: a Python function that is a tile program, and its trace into IR.

Positional parameters are tensors and run-time scalars, keyword-only parameters are compile-time
values. The body runs once, on objects whose operators append ops.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from cutedialect.backend.runtime.torch_tensors import opaque
from cutedialect.layout import Dyn, Layout
from cutedialect.schedule import Schedule

from .dtypes import DType, as_dtype, f32, i32, memory_dtype

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Block

    from cutedialect.dialects.cute import KernelOp

    from .trace import Trace


@dataclass(frozen=True)
class TensorSpec:
    """What a kernel knows of a tensor argument.

    shape: extents, None for a run-time value; extents are run-time values in the kernel anyway.
    dtype: element type (a DType, its name, or a NumPy or torch type).
    strides: in elements; None is row-major. align: largest power of two, up to 16, that divides
    the base address and all non-unit strides in bytes. has_tail: whether rows are no whole number
    of 16 bytes, while `align` is 16: something else may lie behind them.
    """

    shape: tuple[int | None, ...]
    dtype: DType
    strides: tuple[int | None, ...] | None = None
    align: int = 16
    has_tail: bool = False

    def __init__(
        self,
        shape: Sequence[int | None],
        dtype: object,
        strides: Sequence[int | None] | None = None,
        align: int = 16,
        has_tail: bool = False,
    ) -> None:
        object.__setattr__(self, "shape", tuple(shape))
        object.__setattr__(self, "dtype", memory_dtype(as_dtype(dtype), "a tensor"))
        object.__setattr__(self, "strides", None if strides is None else tuple(strides))
        object.__setattr__(self, "align", align)
        object.__setattr__(self, "has_tail", has_tail)
        for what, values in (("extents", self.shape), ("strides", self.strides or ())):
            if any(
                value is not None and (not hasattr(value, "__index__") or value < 0)
                for value in values
            ):
                raise ValueError(
                    f"expected {what} of zero or more, or None for a run-time value, got {values}"
                )
        if strides is not None and len(self.shape) != len(tuple(strides)):
            raise ValueError(
                f"expected one stride for each of the {len(self.shape)} modes, got {strides}"
            )
        if align not in (1, 2, 4, 8, 16):
            raise ValueError(f"expected align to be 1, 2, 4, 8 or 16 bytes, got {align}")

    @property
    def contiguous(self) -> int | None:
        """The mode with stride 1: the last of them, or None."""
        if self.strides is None:
            return len(self.shape) - 1
        unit = [mode for mode, stride in enumerate(self.strides) if stride == 1]
        return unit[-1] if unit else None

    def key(self) -> tuple[object, ...]:
        """What of it is compiled into a kernel: type, rank, major and alignment class."""
        return self.dtype.name, len(self.shape), self.contiguous, self.align

    def memref(self) -> Attribute:
        """The IR type: every extent and every non-unit stride is a run-time value."""
        from cutedialect.dialects.cute import MemRefType

        element = max(1, self.dtype.bits // 8)
        div = max(1, self.align // element)
        contiguous = self.contiguous
        strides = tuple(
            1 if mode == contiguous else Dyn(div=div, bits=64) for mode in range(len(self.shape))
        )
        shape = tuple(Dyn() for _ in self.shape)
        align = max(self.align, element)
        return MemRefType.get(self.dtype.ir, "gmem", align, Layout(shape, strides))


@dataclass(frozen=True)
class ScalarSpec:
    """A run-time scalar argument."""

    dtype: DType

    def key(self) -> tuple[object, ...]:
        return ("scalar", self.dtype.name)


@dataclass(frozen=True)
class GroupSpec:
    """An argument of any number of tensors of one type: a list of arrays."""

    member: TensorSpec

    def key(self) -> tuple[object, ...]:
        return ("group", *self.member.key())


Spec = TensorSpec | ScalarSpec | GroupSpec | None


class KernelFunction:
    """A decorated tile program; calling it compiles (or finds) a kernel and runs it."""

    def __init__(self, function: Callable[..., None], in_bounds: bool = False) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.in_bounds = in_bounds
        self.signature = inspect.signature(function)
        for parameter in self.signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(f"expected named parameters of {self.__name__}, got {parameter}")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the run-time parameters, in order."""
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return tuple(n for n, p in self.signature.parameters.items() if p.kind in kinds)

    def constants(self, given: Mapping[str, object]) -> dict[str, object]:
        """Compile-time parameters: the defaults, with `given` on top."""
        known = {
            name: parameter.default
            for name, parameter in self.signature.parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }
        for name in given:
            if name not in known:
                shown = ", ".join(known) or "none"
                raise TypeError(
                    f"expected keyword arguments of {self.__name__} ({shown}), got {name}"
                )
        merged = known | dict(given)
        missing = [n for n, v in merged.items() if v is inspect.Parameter.empty]
        if missing:
            raise TypeError(f"expected a value for {self.__name__}'s {missing[0]}, got none")
        return merged

    def trace(
        self,
        specs: Sequence[Spec],
        constants: Mapping[str, object] | None = None,
        schedule: Schedule | None = None,
    ) -> ModuleOp:
        """The kernel as a module with one `cute.kernel`; a spec of None passes None."""
        return trace_kernel(self, specs, self.constants(constants or {}), schedule)

    @opaque("make the kernel a custom operator with cutedialect.torch.op")
    def __call__(self, *args: object, **options: object) -> object:
        from .launch import run

        return run(self, args, options)


@overload
def kernel(function: Callable[..., None]) -> KernelFunction: ...


@overload
def kernel(*, in_bounds: bool = False) -> Callable[[Callable[..., None]], KernelFunction]: ...


def kernel(
    function: Callable[..., None] | None = None, *, in_bounds: bool = False
) -> KernelFunction | Callable[[Callable[..., None]], KernelFunction]:
    """Make a Python function a tile program.

    Tiles that lie outside of their tensor read 0 and are not stored. `@cute.kernel(in_bounds=True)`
    promises that no coordinate is negative and none of a batch mode beyond its extent, so that
    nothing is spent on looking; tiles may still hang over the end of a mode.
    """
    if function is None:
        return lambda given: KernelFunction(given, in_bounds)
    return KernelFunction(function, in_bounds)


def trace_kernel(
    program: KernelFunction,
    specs: Sequence[Spec],
    constants: Mapping[str, object],
    schedule: Schedule | None,
) -> ModuleOp:
    """Run the body once and collect the IR."""
    from xdsl.dialects.builtin import ModuleOp

    types = types_of(program, specs)
    return ModuleOp([trace_function(program, program.__name__, types, constants, schedule)])


def types_of(program: KernelFunction, specs: Sequence[Spec]) -> list[Attribute | None]:
    """The IR types of a program's arguments, None for one that is None."""
    names = program.parameters
    if len(specs) != len(names):
        raise TypeError(
            f"expected {len(names)} arguments for {program.__name__} ({', '.join(names)}), "
            f"got {len(specs)}"
        )
    return [None if spec is None else _type_of(spec) for spec in specs]


def trace_function(
    program: KernelFunction,
    name: str,
    types: Sequence[Attribute | None],
    constants: Mapping[str, object],
    schedule: Schedule | None,
) -> KernelOp:
    """A `cute.kernel` of a program for arguments of these types."""
    from xdsl.dialects.builtin import UnitAttr

    from cutedialect.dialects.cute import KernelOp, ScheduleAttr

    from .trace import TraceError

    block, state = trace_arguments(program, types)
    trace_body(program, types, block, state, constants)
    if block.first_op is None:
        code = program.function.__code__
        raise TraceError(
            f"expected {program.__name__} to compute something, got an empty body",
            location=f"{code.co_filename}:{code.co_firstlineno}",
        )
    made = KernelOp(name, block, None if schedule is None else ScheduleAttr(schedule))
    if program.in_bounds:
        made.attributes["in_bounds"] = UnitAttr()
    return made


def trace_arguments(
    program: KernelFunction, types: Sequence[Attribute | None]
) -> tuple[Block, Trace]:
    """An empty block with an argument for each type, and the state of its trace."""
    from xdsl.ir import Block

    from .trace import Trace

    block = Block(arg_types=[type_ for type_ in types if type_ is not None])
    return block, Trace(program.__name__)


def trace_body(
    program: KernelFunction,
    types: Sequence[Attribute | None],
    block: Block,
    state: Trace,
    constants: Mapping[str, object],
) -> None:
    """Run the program's function once; its ops go into `block`."""
    from cutedialect.dialects.cute import GroupType, MemRefType

    from .group import Group
    from .scalar import Scalar
    from .tile import Tensor
    from .trace import Scope, TraceError, tracing

    given = iter(block.args)
    values: list[object] = []
    with tracing(state):
        root = Scope(block, f"@{program.__name__}")
        state.scopes.append(root)
        for name, type_ in zip(program.parameters, types, strict=True):
            if type_ is None:
                values.append(None)
                continue
            arg = next(given)
            arg.name_hint = name
            if isinstance(type_, MemRefType):
                values.append(Tensor(arg, name))
            elif isinstance(type_, GroupType):
                values.append(Group(arg, name))
            else:
                values.append(Scalar(arg, root))
        try:
            program.function(*values, **constants)
        except TraceError as failure:
            if state.failure is not None and state.failure is not failure:
                raise failure from None
            raise
        if state.failure is not None:
            raise state.failure


def _type_of(spec: TensorSpec | ScalarSpec | GroupSpec) -> Attribute:
    """The IR type of an argument."""
    if isinstance(spec, TensorSpec):
        return spec.memref()
    if isinstance(spec, ScalarSpec):
        return spec.dtype.ir
    from cutedialect.dialects.cute import GroupType

    return GroupType(spec.member.memref())


def scalar_spec(value: object, name: str) -> ScalarSpec:
    """The spec of a Python or NumPy number: floats are f32, ints i32."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        if hasattr(value, "dtype") and getattr(value, "shape", None) == ():
            return ScalarSpec(as_dtype(value.dtype, name))  # type: ignore[attr-defined]
        raise TypeError(f"expected {name} to be an array or a number, got {type(value).__name__}")
    return ScalarSpec(i32 if isinstance(value, int) else f32)
