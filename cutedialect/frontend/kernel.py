"""`@cute.kernel`: a Python function that is a tile program, and its trace into IR.

Positional parameters are tensors and run-time scalars, keyword-only parameters are compile-time
values. The body runs once, on objects whose operators append ops.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, overload

from cutedialect.backend.runtime.torch_tensors import opaque
from cutedialect.choices import Spills, Unproved
from cutedialect.layout import Dyn, Layout
from cutedialect.schedule import Schedule

from .dtypes import DType, as_dtype, f32, f64, i1, i32, i64

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Block, Operation

    from cutedialect.dialects.cute import KernelOp

    from .trace import Trace

# Coordinates are i32.
_EXTENT_LIMIT = 1 << 31


@dataclass(frozen=True)
class TensorSpec:
    """What a kernel knows of a tensor argument.

    shape: extents, None for a run-time value; extents are run-time values in the kernel anyway.
    dtype: element type (a DType, its name, or a NumPy or torch type).
    strides: in elements; None is row-major. align: largest power of two, up to 16, that divides
    the base address and all non-unit strides in bytes. has_tail: whether rows are no whole number
    of 16 bytes, while `align` is 16: something else may lie behind them. steps_back: whether a
    stride is below zero, which TMA does not copy.
    """

    shape: tuple[int | None, ...]
    dtype: DType
    strides: tuple[int | None, ...] | None = None
    align: int = 16
    has_tail: bool = False
    steps_back: bool = False

    def __init__(
        self,
        shape: Sequence[int | None],
        dtype: object,
        strides: Sequence[int | None] | None = None,
        align: int = 16,
        has_tail: bool = False,
        steps_back: bool = False,
    ) -> None:
        object.__setattr__(self, "shape", tuple(shape))
        object.__setattr__(self, "dtype", as_dtype(dtype))
        object.__setattr__(self, "strides", None if strides is None else tuple(strides))
        object.__setattr__(self, "align", align)
        object.__setattr__(self, "has_tail", has_tail)
        object.__setattr__(self, "steps_back", steps_back)
        for what, values in (("extents", self.shape), ("strides", self.strides or ())):
            if any(
                value is not None and (not hasattr(value, "__index__") or value < 0)
                for value in values
            ):
                advice = "; say steps_back=True of negative ones" if what == "strides" else ""
                raise ValueError(
                    f"expected {what} of zero or more, or None for a run-time value, got "
                    f"{values}{advice}"
                )
        if any(extent is not None and extent >= _EXTENT_LIMIT for extent in self.shape):
            raise ValueError(
                f"expected extents below 2**31, got {self.shape}; give it one more mode, as "
                "x.reshape(-1, 65536) does"
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
        return MemRefType.get(self.dtype.in_memory.ir, "gmem", align, Layout(shape, strides))


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


_NOT_GIVEN = inspect.Parameter.empty
# Values of which a parameter is open.
_FEWEST = 2


@dataclass(frozen=True)
class OneOf:
    """The values that an open parameter may have; none where the program's space names them."""

    values: tuple[object, ...]

    def __repr__(self) -> str:
        return f"one_of({', '.join(map(repr, self.values))})"


def one_of(*values: object) -> Any:
    """Declare a compile-time parameter of a kernel open, with the values that it may have.

    It stands where a default does. A call that gives the parameter gets what it gives; else the
    value is that which `cute.autotune` found for such arguments, or what is estimated to be fastest
    for their extents of what passes take and whose registers do not spill, of no more than three
    that are tried; the first ones where that is not known, or takes no more:

        @cute.kernel
        def scale(X, Y, *, tile=cute.one_of((4, 1024), (1, 4096))): ...

    `cute.one_of()` leaves a parameter to the `space` of its program (`@cute.kernel(space=...)`).

    Raises TypeError for a value that cannot be a key, and ValueError for one value alone.
    """
    distinct = tuple(dict.fromkeys(values))
    if values and len(distinct) < _FEWEST:
        raise ValueError(f"one_of: expected two different values or more, got {list(values)}")
    return OneOf(distinct)


# What a call takes beside the arguments of the program.
OPTIONS = ("arch", "schedule", "backend", "stream", "spills", "protocol")
# What may become of a kernel whose registers spill.
SPILLS: tuple[Spills, ...] = get_args(Spills)
# What may become of a kernel whose synchronization the check refuses.
UNPROVED: tuple[Unproved, ...] = get_args(Unproved)


class KernelFunction:
    """A decorated tile program; calling it compiles (or finds) a kernel and runs it. It is pickled
    like a function: by its name where a module has it, or as whoever pickles does functions.
    """

    _decorator = "cute.kernel"

    def __init__(
        self,
        function: Callable[..., None],
        in_bounds: bool = False,
        spills: Spills = "warn",
        protocol: Unproved = "refuse",
        space: str | None = None,
    ) -> None:
        _check_function(function)
        functools.update_wrapper(self, function)
        self.function = function
        self.space: str | None = checked_space(space)
        self.in_bounds = in_bounds
        self.spills: Spills = checked_spills(spills)
        self.protocol: Unproved = checked_protocol(protocol)
        self.signature: inspect.Signature = _signature(function)
        for parameter in self.signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(f"expected named parameters of {self.__name__}, got {parameter}")
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.name in OPTIONS:
                raise TypeError(
                    f"expected other names for compile-time parameters of {self.__name__} than "
                    f"the options of a call ({', '.join(OPTIONS)}), got {parameter.name}"
                )
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        # Names of the run-time parameters, in order.
        self.parameters: tuple[str, ...] = tuple(
            name for name, each in self.signature.parameters.items() if each.kind in kinds
        )
        # Values of the compile-time parameters that are open.
        self.open: dict[str, tuple[object, ...]] = {
            name: each.default.values
            for name, each in self.signature.parameters.items()
            if isinstance(each.default, OneOf)
        }
        for name in self.open:
            if name in self.parameters:
                raise TypeError(
                    f"expected one_of for a compile-time parameter, behind '*', got {name} of "
                    f"{self.__name__}, which is an argument"
                )
            if not self.open[name] and space is None:
                raise TypeError(
                    f"expected values of {self.__name__}'s open parameter {name}, or a space that "
                    "names them (@cute.kernel(space=...)), got neither"
                )

    def __repr__(self) -> str:
        code = self.function.__code__
        place = f"{code.co_filename}:{code.co_firstlineno}"
        return f"<@{self._decorator} {self.__qualname__}{self.signature} at {place}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # The module has this object under the function's name, so that the function is in here.
        for owner in ("", ".kernel"):  # itself, or a @cute.autotuned one
            path = f"{self.__qualname__}{owner}{_FUNCTION}"
            if _reached(self.function.__module__, path) is self.function:
                self.function.__qualname__ = path
        return _restored, (type(self), self.function, self._options())

    def _options(self) -> tuple[Any, ...]:
        """What the decorator takes beside the function."""
        return self.in_bounds, self.spills, self.protocol, self.space

    def leaves_open(self, given: Collection[str]) -> bool:
        """Whether a call that gives some of the parameters leaves an open one."""
        return not self.open.keys() <= set(given)

    @property
    def symbol(self) -> str:
        """The name in PTX, whose identifiers are ASCII: that of a lambda is `lambda`."""
        return re.sub(r"[^A-Za-z0-9_]", "_", self.__name__).strip("_") or "kernel"

    def bind(
        self, args: Sequence[object], given: Mapping[str, Any]
    ) -> tuple[Sequence[object], Mapping[str, Any]]:
        """One argument for each run-time parameter, from positions, keywords and defaults, and the
        keywords that are left. Raises TypeError for one too many or too few.
        """
        names = self.parameters
        if len(args) == len(names) and given.keys().isdisjoint(names):
            return args, given
        left, values = dict(given), list(args)
        missing: list[str] = []
        for name in names[len(args) :]:
            parameter = self.signature.parameters[name]
            if name in left and name not in OPTIONS and parameter.kind is not _BY_POSITION:
                values.append(left.pop(name))
            elif parameter.default is not parameter.empty:
                values.append(parameter.default)
            else:
                missing.append(name)
        twice = [n for n in names[: len(args)] if n in left and n not in OPTIONS]
        if missing or twice or len(args) > len(names):
            note = f"; {missing[0]} is missing" if missing else ""
            note = f"; {twice[0]} is given twice" if twice else note
            raise TypeError(
                f"expected {len(names)} arguments for {self.__name__} ({', '.join(names)}), "
                f"got {len(args) + sum(name in given for name in names)}{note}"
            )
        return values, left

    def forget(self) -> None:
        """Look anew for what tuning found."""
        from .launch import forget_open

        forget_open(self)

    def constants(self, given: Mapping[str, object]) -> dict[str, object]:
        """Compile-time parameters: the defaults, with `given` on top; of open ones that are not
        given the first values.
        """
        firsts = {name: next(iter(values), _NOT_GIVEN) for name, values in self.open.items()}
        known = {
            name: firsts.get(name, parameter.default)
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
        missing = [n for n, v in merged.items() if v is _NOT_GIVEN]
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

        try:
            return run(self, args, options)
        except Exception as error:
            from cutedialect.backend.runtime.tracebacks import concise

            raise concise(error)  # noqa: B904


# Where a program has its function.
_FUNCTION = ".function"


def _reached(module: str, path: str) -> object:
    """What a module has under a dotted path, or None."""
    found: object = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _restored(
    kind: type[KernelFunction], function: Callable[..., None], options: tuple[Any, ...]
) -> KernelFunction:
    """The program of a function that comes out of a pickle: the module's own, if it has one."""
    owner = function.__qualname__.removesuffix(_FUNCTION)
    found = _reached(function.__module__, owner)
    if isinstance(found, kind) and found.function is function:
        return found
    function.__qualname__ = owner
    return kind(function, *options)


@overload
def kernel(function: Callable[..., None]) -> KernelFunction: ...


@overload
def kernel(
    *,
    in_bounds: bool = False,
    spills: Spills = "warn",
    protocol: Unproved = "refuse",
    space: str | None = None,
) -> Callable[[Callable[..., None]], KernelFunction]: ...


def kernel(
    function: Callable[..., None] | None = None,
    *,
    in_bounds: bool = False,
    spills: Spills = "warn",
    protocol: Unproved = "refuse",
    space: str | None = None,
) -> KernelFunction | Callable[[Callable[..., None]], KernelFunction]:
    """Make a Python function a tile program.

    Its positional parameters are arrays and run-time numbers, given by position or keyword; one
    with a default may be left out, and one whose argument is None is None in the program. Python's
    ints are i32, those that i32 does not hold i64; its floats are f32, and f64 beside an argument
    of f64; NumPy's numbers keep their type. Keyword-only parameters are compile-time values.

    An array may be read as one argument and written as another where each work item reads of it
    what it writes, and reads it first; other memory that both share is refused by the call.

    Tiles that lie outside of their tensor read 0 and are not stored. `@cute.kernel(in_bounds=True)`
    promises that no coordinate is negative and none of a batch mode beyond its extent, and that
    what is stored at a work item's coordinates ends where the tensor of `tile_index` does, so that
    nothing is spent on looking; tiles may still hang over the end of a mode. `spills`, which a call
    takes as well, says what becomes of a kernel whose registers spill, or whose `wgmma` the
    assembler serializes: "refuse" it, "warn" once and in `Kernel.remarks`, or "allow" it.

    What synchronizes the warps is proved before anything is printed. `protocol`, which a call takes
    as well, says what becomes of a kernel in which two accesses meet that nothing orders, or a wait
    never ends: "refuse" it with a code such as CD-R1, or "warn" in `Kernel.remarks`. Where no
    schedule is given, another one that is proved is taken first.

    `space="attention"` says that the program is one of attention, with the run-time parameters of
    `library/attention.py`: what a call leaves open of its parameters and its schedule is chosen as
    `cute.attention` does, by the same facts of the arguments.
    """
    if function is None:
        checked_protocol(protocol)
        checked_space(space)
        return lambda given: KernelFunction(given, in_bounds, spills, protocol, space)
    return KernelFunction(function, in_bounds, spills, protocol, space)


def checked_spills(spills: object) -> Spills:
    """What a program or a call says about spills."""
    for each in SPILLS:
        if spills == each:
            return each
    raise ValueError(f"expected spills to be one of {', '.join(SPILLS)}, got {spills!r}")


def checked_space(space: str | None) -> str | None:
    """The space that a program names, None without one."""
    if space is None:
        return None
    from .declared_spaces import SPACES

    if space in SPACES:
        return space
    raise ValueError(f"expected space to be one of {', '.join(SPACES)}, or None, got {space!r}")


def checked_protocol(protocol: object) -> Unproved:
    """What a program or a call says about synchronization that is not proved."""
    for each in UNPROVED:
        if protocol == each:
            return each
    raise ValueError(f"expected protocol to be one of {', '.join(UNPROVED)}, got {protocol!r}")


def _signature(function: Callable[..., None]) -> inspect.Signature:
    """The parameters. Python 3.14 evaluates annotations when they are asked for: a name that only
    type checkers import stays a reference then.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


_BY_POSITION = inspect.Parameter.POSITIONAL_ONLY


def _check_function(function: object) -> None:
    """Refuse what is no plain function, whose body could not be run once from start to end."""
    if isinstance(function, KernelFunction):
        raise TypeError(f"expected a Python function, got {function.__name__}, decorated already")
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"expected a Python function, got {type(function).__name__}")
    for kind, test in (
        ("a generator", inspect.isgeneratorfunction),
        ("a coroutine", inspect.iscoroutinefunction),
        ("an asynchronous generator", inspect.isasyncgenfunction),
    ):
        if test(function):
            raise TypeError(
                f"expected {function.__name__} to be a plain function, got {kind}, whose body does "
                "not run when it is called"
            )


def trace_kernel(
    program: KernelFunction,
    specs: Sequence[Spec],
    constants: Mapping[str, object],
    schedule: Schedule | None,
) -> ModuleOp:
    """Run the body once and collect the IR."""
    from xdsl.dialects.builtin import ModuleOp

    types, held = types_of(program, specs), held_of(specs)
    return ModuleOp([trace_function(program, program.symbol, types, constants, schedule, held)])


def types_of(program: KernelFunction, specs: Sequence[Spec]) -> list[Attribute | None]:
    """The IR types of a program's arguments, None for one that is None."""
    names = program.parameters
    if len(specs) != len(names):
        raise TypeError(
            f"expected {len(names)} arguments for {program.__name__} ({', '.join(names)}), "
            f"got {len(specs)}"
        )
    return [None if spec is None else _type_of(spec) for spec in specs]


def held_of(specs: Sequence[Spec]) -> dict[int, DType]:
    """The element types of tensors, or groups of them, that are bytes in IR, by their places."""
    members = [spec.member if isinstance(spec, GroupSpec) else spec for spec in specs]
    return {
        place: spec.dtype
        for place, spec in enumerate(members)
        if isinstance(spec, TensorSpec) and spec.dtype.mlir
    }


def mark_elements(
    op: Operation, types: Sequence[Attribute | None], held: Mapping[int, DType]
) -> None:
    """Note on a kernel or host part which element types its arguments hold in bytes."""
    from xdsl.dialects.builtin import ArrayAttr, StringAttr

    places = [place for place, type_ in enumerate(types) if type_ is not None]
    names = [held[place].mlir if place in held else "" for place in places]
    if any(names):
        op.attributes["cute.elements"] = ArrayAttr([StringAttr(name) for name in names])


def trace_function(
    program: KernelFunction,
    name: str,
    types: Sequence[Attribute | None],
    constants: Mapping[str, object],
    schedule: Schedule | None,
    held: Mapping[int, DType] | None = None,
) -> KernelOp:
    """A `cute.kernel` of a program for arguments of these types, of which those at places of
    `held` are tensors of such elements in bytes.
    """
    from xdsl.dialects.builtin import UnitAttr

    from cutedialect.backend.runtime.fingerprint import is_installed
    from cutedialect.dialects.cute import (
        AssertOp,
        AtomicOp,
        CopyOp,
        KernelOp,
        PrintfOp,
        ScheduleAttr,
    )
    from cutedialect.dialects.walks import ops_of

    from .trace import start_of

    block, state = trace_arguments(program, types)
    trace_body(program, types, block, state, constants, held)
    if not any(map(_has_effect, ops_of(block, AssertOp, AtomicOp, CopyOp, PrintfOp))):
        raise at_start(
            program,
            f"expected {program.__name__} to store a tile (cute.copy, cute.atomic_add), got a "
            "kernel without an effect",
        )
    made = KernelOp(name, block, None if schedule is None else ScheduleAttr(schedule))
    if not is_installed(program.function.__module__):
        made.location = start_of(program.function.__code__)
    mark_elements(made, types, held or {})
    if program.in_bounds:
        made.attributes["in_bounds"] = UnitAttr()
    return made


def _has_effect(op: Operation) -> bool:
    """Whether anybody can see what an op of those that copy or print does."""
    from cutedialect.dialects.cute import CopyOp, MemRefType

    return not isinstance(op, CopyOp) or isinstance(op.destination.type, MemRefType)


def at_start(program: KernelFunction, message: str) -> Exception:
    """A TraceError at the line where the program's function starts."""
    from .trace import TraceError

    code = program.function.__code__
    where = f"{code.co_filename}:{code.co_firstlineno}"
    return TraceError(message, code="CD-P12", location=where)


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
    held: Mapping[int, DType] | None = None,
) -> None:
    """Run the program's function once; its ops go into `block`."""
    from cutedialect.dialects.cute import GroupType, MemRefType

    from .group import Group
    from .instead import UnknownNameError
    from .scalar import Scalar
    from .tile import Tensor
    from .trace import Scope, TraceError, located_at, tracing

    given, held = iter(block.args), held or {}
    values: list[object] = []
    with tracing(state):
        root = Scope(block, f"@{program.__name__}")
        state.scopes.append(root)
        for place, (name, type_) in enumerate(zip(program.parameters, types, strict=True)):
            if type_ is None:
                values.append(None)
                continue
            arg = next(given)
            arg.name_hint = name
            if isinstance(type_, MemRefType):
                values.append(Tensor(arg, name, held.get(place)))
            elif isinstance(type_, GroupType):
                values.append(Group(arg, name, held.get(place)))
            else:
                values.append(Scalar(arg, root))
        try:
            result = program.function(*values, **constants)
        except TraceError as failure:
            if state.failure is not None and state.failure is not failure:
                raise failure from None
            raise
        except UnknownNameError as failure:
            raise located_at(failure, str(failure), "CD-P15") from None
        if state.failure is not None:
            raise state.failure
        for message, where in state.unused.values():
            raise TraceError(message, code="CD-P8", location=where)
        if result is not None:
            raise at_start(
                program,
                f"expected {program.__name__} to return nothing, got {type(result).__name__}; a "
                "kernel's results are arrays among its arguments, which cute.copy stores to",
            )


def _type_of(spec: TensorSpec | ScalarSpec | GroupSpec) -> Attribute:
    """The IR type of an argument."""
    if isinstance(spec, TensorSpec):
        return spec.memref()
    if isinstance(spec, ScalarSpec):
        return spec.dtype.ir
    from cutedialect.dialects.cute import GroupType

    return GroupType(spec.member.memref())


def scalar_spec(value: object, name: str) -> ScalarSpec:
    """The spec of a Python or NumPy number: floats are f32, ints i32, or i64 from 2**31 on."""
    if isinstance(value, bool):
        return ScalarSpec(i1)
    if hasattr(value, "dtype") and getattr(value, "shape", None) == ():
        return ScalarSpec(as_dtype(value.dtype, name))  # type: ignore[attr-defined]
    if isinstance(value, float):
        return ScalarSpec(f32)
    if not isinstance(value, int):
        raise TypeError(f"expected {name} to be an array or a number, got {type(value).__name__}")
    for dtype in (i32, i64):
        if -(1 << dtype.bits - 1) <= value < 1 << dtype.bits - 1:
            return ScalarSpec(dtype)
    raise ValueError(f"expected {name} to be an integer that i64 holds, got {value}")


def with_wide_floats(specs: Sequence[Spec], args: Sequence[object]) -> list[Spec]:
    """The specs, where Python's floats are f64 beside an argument of f64."""
    dtypes = {
        spec.member.dtype if isinstance(spec, GroupSpec) else spec.dtype
        for spec in specs
        if spec is not None
    }
    if f64 not in dtypes:
        return list(specs)
    return [
        ScalarSpec(f64) if type(arg) is float else spec
        for spec, arg in zip(specs, args, strict=True)
    ]
