"""From a tile program and its arguments to a running kernel: specs, passes, caches, launch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cutedialect import environment
from cutedialect.atoms import Device, device_named, target, usual_device
from cutedialect.backend.runtime.announcements import announce_environment
from cutedialect.backend.runtime.arrays import TensorArgument, tensor_argument
from cutedialect.backend.runtime.devices import current_arch, device_name
from cutedialect.backend.runtime.driver import gpu_available
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.new_arrays import on_device_of
from cutedialect.backend.runtime.program import (
    CompiledProgram,
    cached_program,
    collections_held_back,
    program_key,
)
from cutedialect.backend.runtime.signature import GroupParameter, TensorParameter
from cutedialect.choices import Arch, Backend, Unproved
from cutedialect.frontend.fitting import compiled_by_default
from cutedialect.remarks import Remark, collecting
from cutedialect.schedule import Schedule

from .captured import exact, version
from .dtypes import DType, as_dtype
from .fitting import allowed, nearest_schedule
from .kernel import (
    OPTIONS,
    GroupSpec,
    KernelFunction,
    ScalarSpec,
    Spec,
    TensorSpec,
    checked_protocol,
    checked_spills,
    scalar_spec,
    with_wide_floats,
)
from .rules import refuse_traced

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Region

    from .open_parameters import Sized

# The dialects of which a trace is verified.
_DIALECTS = ("cute.", "cute_nvgpu.", "pipeline.", "ptx.")
# Bytes of the unit that TMA stores.
_LINE = 16
_kernels: dict[tuple[object, ...], Kernel] = {}


def known_kernels() -> list[Kernel]:
    """The kernels that the process keeps, in the order in which they were compiled."""
    return list(_kernels.values())


def run(program: KernelFunction, args: Sequence[object], options: Mapping[str, Any]) -> None:
    """Compile (or find) the kernel for `args` and launch it."""
    args, options = program.bind(args, options)
    stream = options.get("stream")
    with on_device_of(args):
        kernel = compile_call(program, args, options)
    given = [arg for arg in args if arg is not None]
    kernel.launch(*given, stream=stream)


@dataclass(frozen=True)
class Variants:
    """How a kernel looks with other schedules: `given` is what the call gives of one, and `options`
    are those that differ, for another one in its place. It lives as long as the kernel.
    """

    given: Schedule
    options: Callable[[Schedule], dict[str, Any]]


def compile_kernel(
    program: KernelFunction,
    args: Sequence[object],
    options: Mapping[str, Any],
    variants: Variants | None = None,
    takes_tuned: bool = True,
) -> Kernel:
    """The kernel of a program for arrays, numbers or specs; kept in the process and on disk. Open
    parameters have what tuning found, unless `takes_tuned` is off.
    """
    args, options = program.bind(args, options)
    options = _with_schedule(options)
    if program.space is not None and program.leaves_open(options):
        from .declared_spaces import spaced_kernel

        return spaced_kernel(program, args, options)
    specs = specs_of(program, args)
    sized = None
    if program.leaves_open(options):
        from .open_parameters import Sized

        sized = Sized.of(args, takes_tuned)
    found = _kernel(program, specs, options, variants, sized)
    back: list[str] = []
    while any(isinstance(spec, TensorSpec | GroupSpec) and _is_odd(spec) for spec in specs):
        kept, mapped = _in_reach(found, specs)
        if kept == specs:
            break
        specs, back = kept, back + mapped
        try:
            found = _kernel(program, specs, options, variants, sized)
        except CompileError as error:
            error.notes += tuple(map(_said_of_steps_back, back))
            raise
    for name in back:
        found.note(Remark("launch", _said_of_steps_back(name)))
    return found


def _said_of_steps_back(name: str) -> str:
    return f"{name}: a stride below zero, which TMA does not take; its tiles are copied otherwise"


def specs_of(program: KernelFunction, args: Sequence[object]) -> list[Spec]:
    """What is compiled for one argument of each parameter."""
    given = [spec_of(arg, name) for arg, name in zip(args, program.parameters, strict=True)]
    return with_wide_floats(given, args)


def compile_call(
    program: KernelFunction, args: Sequence[object], options: Mapping[str, Any]
) -> Kernel:
    """The kernel for the arguments of a user's call, whose schedule may be one that passes refuse:
    the error then names the nearest one that they take.
    """
    options = _with_schedule(options)
    given = as_schedule(options.get("schedule"))
    if given is None or (program.space is not None and program.leaves_open(options)):
        return compile_kernel(program, args, options)
    return allowed(
        lambda schedule: compile_kernel(program, args, {**options, "schedule": schedule}), given
    )


def _with_schedule(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options with the schedule of calls that name none."""
    chosen = environment.called_with("schedule")
    if chosen is None or options.get("schedule") is not None:
        return options
    return {**options, "schedule": chosen}


def _is_odd(spec: TensorSpec | GroupSpec) -> bool:
    """Whether TMA may not take a tensor, though it is aligned as TMA asks."""
    member = spec if isinstance(spec, TensorSpec) else spec.member
    return member.has_tail or member.steps_back


def _in_reach(kernel: Kernel, specs: Sequence[Spec]) -> tuple[list[Spec], list[str]]:
    """Specs for a kernel that goes without TMA where it must, as if tensors were aligned to 8, and
    the names of those that have strides below zero. TMA stores write whole units of 16 bytes,
    whatever the tensor map says, and what lies behind rows is to be left alone. The specs are the
    same ones where the kernel does what it may as it is.
    """
    result: list[Spec] = []
    back: list[str] = []
    parameters = iter(kernel.signature.parameters)
    for spec in specs:
        parameter = None if spec is None else next(parameters)
        one, asked = spec, parameter
        if isinstance(spec, GroupSpec) and isinstance(parameter, GroupParameter):
            one, asked = spec.member, parameter.member
        if isinstance(one, TensorSpec) and isinstance(asked, TensorParameter):
            if one.steps_back and asked.mapped:
                back.append(getattr(parameter, "name", ""))
            elif not (one.has_tail and asked.whole_rows):
                result.append(spec)
                continue
            one = _in_halves(one)
            result.append(GroupSpec(one) if isinstance(spec, GroupSpec) else one)
        else:
            result.append(spec)
    return result, back


def _in_halves(spec: TensorSpec) -> TensorSpec:
    """The spec of a tensor of which nothing is known to be aligned to more than 8 bytes."""
    return TensorSpec(spec.shape, spec.dtype, spec.strides, min(spec.align, 8))


def _kernel(
    program: KernelFunction,
    specs: Sequence[Spec],
    options: Mapping[str, Any],
    variants: Variants | None = None,
    sized: Sized | None = None,
) -> Kernel:
    """The kernel for what is compiled for arguments, `sized` where parameters are open."""
    backend = options.get("backend") or "auto"
    asked = Asked(
        program,
        tuple(specs),
        program.constants({k: v for k, v in options.items() if k not in OPTIONS}),
        as_schedule(options.get("schedule")),
        options.get("arch") or default_arch(backend),
        backend,
        checked_spills(options.get("spills") or program.spills),
        checked_protocol(options.get("protocol") or program.protocol),
    )
    known = asked.known()
    open_call = None
    if sized is not None:
        from .open_parameters import OpenCall

        open_call = OpenCall.of(asked, options, sized)
        if known is not None:
            # What is chosen is one thing for each class of problems.
            known = (*known, *open_call.known)
    found = None if known is None else _kernels.get(known)
    if found is None:
        misspelled = environment.check()
        if misspelled:
            announce_environment(misspelled)
        check_arch(asked.arch)
        if open_call is not None:
            found = open_call.kernel(
                asked.key(*open_call.known),
                lambda filled: _kernel(program, specs, {**options, **filled.call()}, variants),
            )
        else:
            found = _compile(asked, options, variants)
        if known is not None:
            _kernels[known] = found
    return found


@dataclass
class Asked:
    """A kernel that is asked for: what is traced anew by each call of this, where it runs, and what
    is promised of it. It can be pickled if the arguments can.
    """

    program: KernelFunction
    specs: tuple[Spec, ...]
    constants: Mapping[str, object]
    schedule: Schedule | None
    arch: str
    backend: str
    spills: str
    protocol: Unproved

    def __call__(self) -> ModuleOp:
        return self.program.trace(self.specs, self.constants, self.schedule)

    @property
    def keys(self) -> tuple[object, ...]:
        return tuple(None if spec is None else spec.key() for spec in self.specs)

    @property
    def text(self) -> str:
        return "" if self.schedule is None else self.schedule.text()

    def known(self) -> tuple[object, ...] | None:
        """What tells it from others in this process; None with a compile-time value that has no
        hash, which is compiled at each call.
        """
        program, promised = self.program, (self.spills, self.protocol)
        with suppress(TypeError):
            given = tuple((name, exact(value)) for name, value in sorted(self.constants.items()))
            what = version(program.function), self.keys, given, self.text
            return (program, *what, self.arch, self.backend, promised)
        return None

    def key(self, *more: object) -> str | None:
        """What tells what it is compiled to from that of others on disk."""
        promised = self.program.in_bounds, self.spills, self.protocol
        what = self.keys, self.constants, promised, *more
        return program_key(self.program.function, what, self.text, self.arch)


def forget_open(program: KernelFunction) -> None:
    """Choose the open parameters of a program anew, since tuning found others."""
    if program.space is not None:
        from .declared_spaces import forget_choices

        forget_choices(program)
    if program.open:
        for key in [key for key in _kernels if key[0] is program]:
            del _kernels[key]


def _compile(asked: Asked, options: Mapping[str, Any], variants: Variants | None) -> Kernel:
    program, constants, schedule = asked.program, asked.constants, asked.schedule

    def lowered(chosen: Schedule | None) -> CompiledProgram:
        module = replace(asked, schedule=chosen)()
        return lower(module, program.symbol, asked.arch, protocol=asked.protocol)

    def make() -> CompiledProgram:
        with collections_held_back():
            return replace(compiled_by_default(lowered, schedule), spills=asked.spills)

    compiled = cached_program(asked.key(), make)
    trace = asked
    if compiled.instead:
        trace = replace(asked, schedule=Schedule.parse(compiled.instead))
    stages = partial(_stages, trace, program.symbol, asked.arch)
    kept = {name: value for name, value in options.items() if name != "stream"}

    def nearest() -> str | None:
        done = Schedule.parse(compiled.schedule)

        def compiled_with(other: Schedule) -> Kernel:
            if variants is not None:
                return _kernel(program, asked.specs, kept | variants.options(other), variants)
            changed = {**kept, "schedule": other}
            # The tile of a program that takes it as a compile-time value.
            if done.tile is not None and constants.get("tile") == done.tile != other.tile:
                changed["tile"] = other.tile or done.tile
            return _kernel(program, asked.specs, changed)

        given = variants.given if variants is not None else schedule or Schedule()
        found = nearest_schedule(given, done, compiled_with)
        return None if found is None else found.text()

    kernel = Kernel(compiled, stages, backend=asked.backend, trace=trace, nearest=nearest)  # type: ignore[arg-type]
    folder = environment.dump_dir()
    if folder is not None:
        from .dumps import dump_twice

        dump_twice(kernel, folder)
    return kernel


def with_name(kernel: Kernel, name: str) -> Kernel:
    """The same program under another symbol; of several kernels each has the name in front of its
    own. Raises ValueError for what is no name in PTX and C.
    """
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
        raise ValueError(f"expected a name of ASCII letters, digits and _, got '{name}'")

    trace = partial(_renamed, kernel, name)
    program = replace(lower(trace(), name, kernel.arch), spills=kernel.program.spills)
    stages = partial(_stages, trace, name, kernel.arch)
    return Kernel(program, stages, backend=kernel.backend, trace=trace)


def _renamed(kernel: Kernel, name: str) -> ModuleOp:
    """The traced module, its kernels and their launches by the host part with other names."""
    from xdsl.dialects.builtin import StringAttr, SymbolRefAttr

    from cutedialect.dialects.cute import KernelOp, LaunchOp
    from cutedialect.dialects.walks import walk

    module = kernel.traced()
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    names = {
        op.sym_name.data: name if len(kernels) == 1 else f"{name}_{op.sym_name.data}"
        for op in kernels
    }
    for op in kernels:
        op.properties["sym_name"] = StringAttr(names[op.sym_name.data])
    for op in walk(module):
        if isinstance(op, LaunchOp):
            op.properties["kernel"] = SymbolRefAttr(names[op.kernel.string_value()])
    return module


def _stages(trace: Callable[[], ModuleOp], name: str, arch: str) -> dict[str, str]:
    """The IR of a trace and after each pass on it."""
    from cutedialect.dialects.printing import text_of

    module = trace()
    kept = {"trace": text_of(module)}
    lower(module, name, arch, lambda step, ir: kept.__setitem__(step, text_of(ir)))
    return kept


def lower(
    module: ModuleOp,
    name: str,
    arch: str,
    after: Callable[[str, ModuleOp], None] | None = None,
    protocol: Unproved = "warn",
) -> CompiledProgram:
    """Run the passes on a traced module, and print; `after` sees the module after each pass. The
    module is verified before the first of them, and after each where the environment asks for it.
    `protocol` says what becomes of a kernel whose synchronization is not proved.
    """
    from xdsl.context import Context

    from cutedialect.backend.ptx import ptx_text
    from cutedialect.dialects.ptx import KernelOp
    from cutedialect.frontend.argument_relations import contracted_extents, shared_memory
    from cutedialect.frontend.trace import faults_of, located
    from cutedialect.passes.cute_to_ptx import steps
    from cutedialect.passes.verify_dominance import check_dominance

    context = Context()
    verify_each = environment.verify_each()
    schedule = ""
    with collecting() as remarks, _told(remarks), located(module):
        _verify(module)
        equal, shared = contracted_extents(module), shared_memory(module)
        for step in steps(module, arch, protocol=protocol):
            with faults_of(step.name, module):
                step.apply(context, module)
            if verify_each:
                module.verify()
                check_dominance(module)
            if step.name == "cute-schedule-loops":
                # The last of the passes that fill in what was open.
                schedule = _schedule_text(module)
            if after is not None:
                after(step.name, module)
        with faults_of("the printer of PTX", module):
            ptx = ptx_text(module)
    ops: dict[str, int] = {}
    for kernel in module.ops:
        if isinstance(kernel, KernelOp):
            ops["main"] = ops.get("main", 0) + _count(kernel.body)
    return CompiledProgram.of(
        name, arch, ptx, module, schedule=schedule, ops=ops, remarks=remarks, equal_extents=equal,
        shared_memory=shared,
    )  # fmt: skip


@contextmanager
def _told(remarks: Sequence[Remark]) -> Iterator[None]:
    """Let a refusal tell what passes declined at the same place: why multiplies are none of
    warpgroups, say.
    """
    try:
        yield
    except CompileError as error:
        there = [each for each in remarks if each.location == error.location is not None]
        error.notes += tuple(f"{each.pass_name}: {each.message}" for each in there)
        raise


def _verify(module: ModuleOp) -> None:
    """Verify what a trace made: of ops of the dialects of this package what they ask for. Those of
    numbers and control are xDSL's own, made by constructors that give them no other types.
    """
    from cutedialect.dialects.walks import walk

    for op in walk(module):
        if op.name.startswith(_DIALECTS):
            op.verify(verify_nested_ops=False)


def _count(region: Region) -> int:
    """The ops of a region, those in their regions included."""
    return sum(1 + sum(map(_count, op.regions)) for block in region.blocks for op in block.ops)


def _schedule_text(module: ModuleOp) -> str:
    """The schedule of the kernel that took the call's, which is the first where nothing says so."""
    from cutedialect.dialects.cute import SCHEDULED, KernelOp

    of = module.attributes.get(SCHEDULED)
    for op in module.ops:
        if isinstance(op, KernelOp) and op.schedule is not None and of in (None, op.sym_name):
            return op.schedule.data.text()
    return ""


def check_arch(arch: str) -> None:
    """Refuse a target that does not exist."""
    try:
        target(arch)
    except ValueError as error:
        raise ValueError(f"arch: {error}") from None


def default_arch(backend: str = "auto") -> str:
    """The current device's architecture, or sm_80 without one or where none is asked; or what a
    tool chose for calls that name none.
    """
    chosen = environment.called_with("arch")
    if chosen is not None:
        return chosen
    if backend not in ("emulator", "interpreter") and gpu_available():
        return current_arch()
    return "sm_80"


def device_for(arch: str) -> Device:
    """The current device where it has a target, else a usual one of that."""
    if gpu_available() and target(current_arch()).number == target(arch).number:
        return device_named(device_name(), arch)
    return usual_device(arch)


def as_schedule(value: object) -> Schedule | None:
    """A schedule given as an object, as its text, or not at all."""
    if value is None or isinstance(value, Schedule):
        return value
    if isinstance(value, str):
        return Schedule.parse(value)
    raise TypeError(f"expected schedule to be a cute.Schedule, got {type(value).__name__}")


def spec_of(value: object, name: str) -> Spec:
    """What is compiled for an argument: an array, a list of them, a number, a spec, or None."""
    if value is None or isinstance(value, TensorSpec | ScalarSpec | GroupSpec):
        return value
    if isinstance(value, list | tuple):
        return _group_spec(value, name)
    array = _argument(value, name)
    if array is not None and array.shape != ():
        return _tensor_spec(array, name)
    refuse_traced(value, name)
    return scalar_spec(value, name)


def _argument(value: object, name: str) -> TensorArgument | None:
    """An array; one that no kernel may touch is refused by its name."""
    try:
        return tensor_argument(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def _group_spec(values: Sequence[object], name: str) -> GroupSpec:
    """What is compiled for a list of arrays: what holds for each of them."""
    if not values:
        raise ValueError(f"expected {name} to be a list of one or more arrays, got an empty one")
    if all(isinstance(value, TensorSpec) for value in values):
        return _merged(values, name)  # pyright: ignore[reportArgumentType]
    specs: list[TensorSpec] = []
    arrays: list[TensorArgument] = []
    for number, value in enumerate(values):
        each = f"{name}[{number}]"
        array = _argument(value, each)
        if array is None or array.shape == ():
            raise TypeError(f"expected {each} to be an array, got {type(value).__name__}")
        spec = _tensor_spec(array, each)
        if specs and (spec.dtype, len(spec.shape)) != (specs[0].dtype, len(specs[0].shape)):
            raise TypeError(
                f"expected {each} of {specs[0].dtype.name} with {len(specs[0].shape)} dimensions "
                f"like {name}[0], got {spec.dtype.name} with {len(spec.shape)}"
            )
        specs.append(spec)
        arrays.append(array)
    filled = [array for array in arrays if 0 not in array.shape]
    contiguous = _shared_mode(arrays, filled, len(specs[0].shape))
    aligns = [_alignment(array, contiguous, specs[0].dtype) for array in filled]
    align = min(aligns, default=16)
    strides = tuple(1 if mode == contiguous else None for mode in range(len(specs[0].shape)))
    has_tail = align == _LINE and any(
        _has_ragged_rows(array, contiguous, specs[0].dtype) for array in arrays
    )
    back = any(spec.steps_back for spec in specs)
    shape = (None,) * len(strides)
    return GroupSpec(TensorSpec(shape, specs[0].dtype, strides, align, has_tail, back))


def _shared_mode(
    arrays: Sequence[TensorArgument], filled: Sequence[TensorArgument], rank: int
) -> int | None:
    """The mode that is contiguous in all arrays, of which those that are `filled` have elements. A
    mode of one element is taken only where no array has a contiguous one.
    """
    modes = [_contiguous_modes(array) for array in filled]
    shared = set.intersection(*modes) if modes else set(range(rank))
    real = {
        mode
        for array in arrays
        for mode in shared
        if array.shape[mode] > 1 and array.strides[mode] == 1
    }
    return max(real or shared, default=None)


def _merged(specs: Sequence[TensorSpec], name: str) -> GroupSpec:
    """What holds for each of some specs."""
    first = specs[0]
    for number, spec in enumerate(specs):
        if spec.key()[:3] != first.key()[:3]:
            raise TypeError(f"expected {name}[{number}] like {first}, got {spec}")
    strides = tuple(1 if mode == first.contiguous else None for mode in range(len(first.shape)))
    align = min(spec.align for spec in specs)
    has_tail = any(spec.has_tail for spec in specs)
    back = any(spec.steps_back for spec in specs)
    shape = (None,) * len(strides)
    return GroupSpec(TensorSpec(shape, first.dtype, strides, align, has_tail, back))


def _contiguous_modes(array: TensorArgument) -> set[int]:
    """The modes that may count as contiguous: those of one element have no stride of their own."""
    facts = enumerate(zip(array.shape, array.strides, strict=True))
    return {mode for mode, (extent, stride) in facts if stride == 1 or extent < 2}


def _tensor_spec(array: TensorArgument, name: str) -> TensorSpec:
    dtype = as_dtype(array.dtype, name)
    rank = len(array.shape)
    real = [d for d in range(rank) if array.shape[d] > 1 and array.strides[d] == 1]
    # A mode with at most one element has no stride of its own and may count as contiguous.
    free = [d for d in range(rank) if array.shape[d] < 2]
    contiguous = real[-1] if real else free[-1] if free else None
    strides = tuple(1 if mode == contiguous else None for mode in range(rank))
    align = _alignment(array, contiguous, dtype)
    has_tail = align == _LINE and _has_ragged_rows(array, contiguous, dtype)
    steps_back = 0 not in array.shape and any(
        extent > 1 and stride < 0 for extent, stride in zip(array.shape, array.strides, strict=True)
    )
    return TensorSpec((None,) * rank, dtype, strides, align, has_tail, steps_back)


def _has_ragged_rows(array: TensorArgument, contiguous: int | None, dtype: DType) -> bool:
    """Whether rows end within 16 bytes of memory."""
    element = dtype.in_memory.bits // 8
    return contiguous is not None and array.shape[contiguous] * element % _LINE != 0


def _alignment(array: TensorArgument, contiguous: int | None, dtype: DType) -> int:
    """The alignment class in bytes, where `contiguous` is the mode of stride 1."""
    size = max(1, dtype.bits // 8)
    align = 16
    for mode, (extent, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        if mode != contiguous and extent > 1:
            align = _divisor(align, stride * size)
    return max(_divisor(align, array.pointer), 1)


def _divisor(limit: int, value: int) -> int:
    """Largest power of two up to `limit` that divides `value`."""
    while value % limit:
        limit //= 2
    return limit


def compile(
    op: object,
    *args: object,
    arch: Arch | None = None,
    schedule: Schedule | str | None = None,
    backend: Backend = "auto",
    **options: Any,
) -> Kernel:
    """Compile without running: `op` is a `@cute.kernel` function, `args` are arrays or specs.

    Options: arch, schedule, backend, and the program's compile-time parameters. No GPU needed.
    With `spills="warn"` or `"refuse"` a program is assembled at once, where there is a ptxas: its
    spills are then a warning and a remark, or a CompileError. Else that is told when it is first
    loaded, or asked for its `fits`, `resources` or `cubin`.
    """
    given = {"arch": arch, "schedule": schedule, "backend": backend}
    options |= {name: value for name, value in given.items() if value not in (None, "auto")}
    try:
        return _compile_op(op, args, options)
    except Exception as error:
        from cutedialect.backend.runtime.tracebacks import concise

        raise concise(error)  # noqa: B904


def _compile_op(op: object, args: tuple[object, ...], options: dict[str, Any]) -> Kernel:
    if isinstance(op, KernelFunction):
        kernel = compile_call(op, args, options)
        if options.get("spills") is not None:
            kernel.look_for_losses()
        return kernel
    compiler = getattr(op, "compile", None)
    if compiler is None:
        kind = type(op).__name__
        got = getattr(op, "__name__", kind)
        raise TypeError(
            f"expected cute.gemm, cute.attention or a @cute.kernel function, got {kind}"
            + (f" '{got}'" if got != kind else "")
        )
    from inspect import signature

    wanted = signature(compiler)
    try:
        wanted.bind(*args, **options)
    except TypeError as error:
        name = getattr(op, "__name__", "op")
        raise TypeError(
            f"cute.{name}: {error}; its arguments are {', '.join(wanted.parameters)}"
        ) from None
    return compiler(*args, **options)
