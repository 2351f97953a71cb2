"""`@cute.host`: a Python function that launches tile programs in a row, traced into the module's
host part `func.func @launch`. What one kernel leaves for the next lies in a `cute.workspace`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cutedialect.layout import Dyn, Layout
from cutedialect.schedule import Schedule

from .dtypes import as_dtype, f32, i32
from .kernel import (
    KernelFunction,
    Spec,
    at_start,
    held_of,
    mark_elements,
    trace_arguments,
    trace_body,
    trace_function,
    types_of,
)

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue

    from cutedialect.dialects.cute import KernelOp

    from .scalar import Scalar
    from .tile import Tensor

_ALIGNMENT = 16


class HostFunction(KernelFunction):
    """A decorated host program: it is compiled, called and cached like a kernel."""

    _decorator = "cute.host"

    def _options(self) -> tuple[Any, ...]:
        return ()

    def trace(
        self,
        specs: Sequence[Spec],
        constants: Mapping[str, object] | None = None,
        schedule: Schedule | None = None,
    ) -> ModuleOp:
        """A module of the kernels that the function launches, and the host part that does."""
        from xdsl.dialects import func
        from xdsl.dialects.builtin import ModuleOp, StringAttr
        from xdsl.ir import Region

        from cutedialect.dialects.cute import SCHEDULED

        from .trace import location

        types, held = types_of(self, specs), held_of(specs)
        block, host = trace_arguments(self, types)
        host.launches = Launches(schedule)
        trace_body(self, types, block, host, self.constants(constants or {}), held)
        if not host.launches.kernels:
            raise at_start(
                self, f"expected {self.__name__} to launch a kernel (cute.launch), got none"
            )
        ending = func.ReturnOp()
        block.add_op(ending)
        op = func.FuncOp("launch", ([arg.type for arg in block.args], []), Region(block))
        op.location = ending.location = location()
        mark_elements(op, types, held)
        module = ModuleOp([*host.launches.kernels, op])
        scheduled = host.launches.scheduled
        if scheduled not in (None, host.launches.kernels[0].sym_name.data):
            module.attributes[SCHEDULED] = StringAttr(scheduled)
        return module


class Launches:
    """The kernels that a host program has launched so far. `scheduled` is the name of the first one
    with the schedule of the call.
    """

    def __init__(self, schedule: Schedule | None) -> None:
        self.schedule = schedule
        self.kernels: list = []
        self.scheduled: str | None = None

    def name(self, program: KernelFunction) -> str:
        """A name that no kernel of the module has yet."""
        taken = {kernel.sym_name.data for kernel in self.kernels}
        name, number = program.symbol, 1
        while name in taken:
            number += 1
            name = f"{program.symbol}_{number}"
        return name

    def add(self, kernel: KernelOp, has_own_schedule: bool) -> None:
        """Append a kernel, which has a schedule of its own or that of the call."""
        if not has_own_schedule and self.scheduled is None:
            self.scheduled = kernel.sym_name.data
        self.kernels.append(kernel)


def host(function: Callable[..., None]) -> HostFunction:
    """Make a Python function a host program: it runs once, launches kernels with `cute.launch`, and
    computes on scalars and extents only.
    """
    return HostFunction(function)


def launch(
    program: KernelFunction,
    *args: Tensor | Scalar | None,
    schedule: Schedule | str | None = None,
    **constants: object,
) -> None:
    """In a host program: launch a kernel on tensors and scalars when the launches before are done.

    `constants` are its compile-time parameters; the schedule is by default that of the call.
    """
    from cutedialect.dialects.cute import LaunchOp

    from .trace import current, error

    trace = current()
    if trace.launches is None:
        raise error(
            "expected cute.launch inside a @cute.host function, got it in a kernel", code="CD-P11"
        )
    if not isinstance(program, KernelFunction) or isinstance(program, HostFunction):
        raise error(f"expected a @cute.kernel function to launch, got {type(program).__name__}")
    try:
        given, left = program.bind(args, constants)
    except TypeError as failure:
        raise error(str(failure)) from None
    named = [*args, *(constants.get(name) for name in program.parameters[len(args) :])]
    values = [
        None if arg is None else _value(arg) if arg is by_caller else _constant(arg)
        for arg, by_caller in zip(given, named, strict=True)
    ]
    name = trace.launches.name(program)
    chosen = Schedule.parse(schedule) if isinstance(schedule, str) else schedule
    types = [None if value is None else value.type for value in values]
    held = {place: arg.held for place, arg in enumerate(given) if getattr(arg, "held", None)}
    shared = trace.launches.schedule
    kernel = trace_function(program, name, types, program.constants(left), chosen or shared, held)
    trace.launches.add(kernel, chosen is not None)
    trace.insert(LaunchOp(name, [], [value for value in values if value is not None]))


def workspace(shape: Sequence[int | Scalar], dtype: object) -> Tensor:
    """In a host program: memory for the kernels that it launches, row-major, of undefined contents.

    It is there for one call; calls on one stream may get the same memory, one after the other.
    """
    from cutedialect.dialects.cute import MemRefType, WorkspaceOp

    from .local_tiles import as_extent
    from .scalar import Scalar, as_i32
    from .tile import Tensor
    from .trace import current, error

    trace = current()
    if trace.launches is None:
        raise error(
            "expected cute.workspace inside a @cute.host function, got it in a kernel",
            code="CD-P11",
        )
    extents = tuple(each if isinstance(each, Scalar) else as_extent(each) for each in shape)
    if not extents:
        raise error("expected a workspace of one mode or more, got none", code="CD-P4")
    strides: list[int | Dyn] = []
    step, is_known = 1, True
    for extent in reversed(extents):
        strides.append(step if is_known else Dyn(div=step, bits=64))
        if isinstance(extent, Scalar):
            is_known = False
        else:
            step *= extent
    element = as_dtype(dtype)
    modes = tuple(Dyn() if isinstance(extent, Scalar) else extent for extent in extents)
    layout = Layout(modes, tuple(reversed(strides)))
    type_ = MemRefType.get(element.in_memory.ir, "gmem", _ALIGNMENT, layout)
    given = [as_i32(extent, "an extent") for extent in extents if isinstance(extent, Scalar)]
    made = trace.insert(WorkspaceOp(given, type_), "workspace").results[0]
    return Tensor(made, "workspace", element if element.mlir else None)


def _constant(default: object) -> SSAValue:
    """The default of a parameter, a number."""
    from .arithmetic import is_number, literal
    from .trace import error

    if not is_number(default):
        raise error(f"expected a number as a default, got {type(default).__name__}")
    return literal(default, i32 if hasattr(default, "__index__") else f32)


def _value(argument: object) -> SSAValue:
    from cutedialect.dialects.cute import SliceOp

    from .group import Group
    from .scalar import Scalar
    from .tile import Tensor
    from .trace import error

    if isinstance(argument, Scalar):
        return argument.use()
    if isinstance(argument, Tensor | Group):
        if isinstance(argument.value.owner, SliceOp):
            raise error(
                f"expected whole tensors to launch on, got a slice of {argument.name}; slice it in "
                "the kernel, with the bounds as its arguments",
                code="CD-P11",
            )
        return argument.value
    raise error(f"expected tensors and scalars to launch on, got {type(argument).__name__}")
