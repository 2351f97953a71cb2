"""What can be tuned: a kernel with its arguments, the schedules worth trying, and the class of
problems that a result holds for. Extents count in steps of an eighth to a quarter, strides and
addresses by their alignment class, as in the compiled kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from cutedialect.backend.runtime.arrays import tensor_argument
from cutedialect.backend.runtime.fingerprint import fingerprint
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.timing import Timer
from cutedialect.backend.runtime.tunings import extent_class
from cutedialect.schedule import Schedule

from .declared_spaces import SpacedCall
from .kernel import OPTIONS, GroupSpec, KernelFunction, ScalarSpec, TensorSpec
from .launch import compile_kernel, spec_of
from .open_parameters import listed
from .tuned_options import Candidate, Options

# Choices that are varied one at a time, around what the heuristic takes.
_VARIED: dict[str, tuple[Any, ...]] = {
    "stages": (1, 2, 3, 4, 5, 6, 8),
    "warps": ((2, 1), (4, 1), (8, 1), (2, 2), (4, 2)),
    "raster": (1, 4, 8, 16, 32),
    "epilogue": ("direct", "smem", "tma"),
    "scheduler": ("single", "persistent"),
    "order": ("snake", "hilbert"),
    "roles": ("uniform", "specialized", "alternate"),
    "overlap": ("no", "yes", "turns"),
    "split_loops": ("no", "yes"),
    "unroll": (2,),
    "loads": ("threads",),
    "split_loads": ("no", "yes"),
}


class Tunable(Protocol):
    """A kernel with arguments of a device."""

    @property
    def name(self) -> str:
        """What the kernel is called."""
        ...

    @property
    def problem(self) -> str:
        """The class of problems that a result holds for, readable."""
        ...

    @property
    def fingerprint(self) -> str:
        """The kernel, for the key of a result."""
        ...

    def candidates(self) -> tuple[Candidate, ...]:
        """What to try if nothing is given; None is what is chosen without one."""
        ...

    def compiled(self, schedule: Candidate) -> Kernel:
        """The kernel with a schedule; raises where there is none."""
        ...

    def arguments(self, schedule: Candidate) -> tuple[Any, ...]:
        """What `Kernel.launch` takes."""
        ...


class TunableKernel:
    """A `@cute.kernel` function; options are its compile-time parameters and `arch`."""

    def __init__(
        self,
        program: KernelFunction,
        args: Sequence[object],
        options: Mapping[str, Any],
        timer: Timer,
    ) -> None:
        self._program = program
        values, left = program.bind(args, options)
        self._options = dict(left)
        named = zip(values, program.parameters, strict=True)
        self._held = tuple(held(value, name, timer) for value, name in named)

    @property
    def name(self) -> str:
        return self._program.__name__

    @property
    def problem(self) -> str:
        if self._program.space is not None:
            return spaced_problem(self._program, self._held, self._options)
        return ", ".join(tensor_class(value) for value in self._held)

    @property
    def fingerprint(self) -> str:
        if self._program.space is not None:
            return fingerprint(self._program.function)
        constants = {k: v for k, v in self._options.items() if k != "arch"}
        return fingerprint(self._program.function, self._program.constants(constants))

    def candidates(self) -> tuple[Candidate, ...]:
        if self._program.space is not None and self._program.leaves_open(self._options):
            named = dict(zip(self._program.parameters, self._held, strict=True))
            options = {"backend": "auto", **self._options}
            call = SpacedCall.of(self._program, named, None, options)
            return None, *call.declared.tuned(call.problem)
        return None, *candidates_around(self.compiled(None), self._program, self._options)

    def compiled(self, schedule: Candidate) -> Kernel:
        options = schedule.call() if isinstance(schedule, Options) else {"schedule": schedule}
        # The default is what is chosen without what was tuned.
        return compile_kernel(self._program, self._held, self._options | options, takes_tuned=False)

    def arguments(self, schedule: Candidate) -> tuple[Any, ...]:
        return tuple(value for value in self._held if value is not None)


def spaced_problem(
    program: KernelFunction, values: Sequence[object], options: Mapping[str, Any]
) -> str:
    """The class of problems of a call whose program names a space."""
    constants = sorted((name, each) for name, each in options.items() if name not in OPTIONS)
    arguments = zip(program.parameters, values, strict=True)
    return ", ".join(
        [f"{name} {tensor_class(value, name)}" for name, value in arguments if value is not None]
        + [f"{name} = {value!r}" for name, value in constants]
    )


def candidates_around(
    kernel: Kernel, program: KernelFunction, options: Mapping[str, Any]
) -> tuple[Options | Schedule, ...]:
    """What is worth timing beside the default of a program, which `kernel` is: all values of open
    parameters, of which the default has some, and schedules that differ in one choice.
    """
    left = {name: values for name, values in program.open.items() if name not in options}
    default = Schedule.parse(kernel.schedule)
    varied = [
        Schedule(**{name: value})
        for name, values in _VARIED.items()
        for value in values
        if getattr(default, name) != value
    ]
    return *(listed(left) if left else ()), *varied


def held(value: object, name: str, timer: Timer) -> Any:
    """An argument in memory of its own: a copy of an array, random numbers for a spec."""
    if isinstance(value, TensorSpec):
        return timer.random(*extents_and_strides(value, name), value.dtype.numpy.name, value.align)
    if isinstance(value, ScalarSpec):
        raise TypeError(f"{name}: expected a number to tune with, got a spec")
    tensor = tensor_argument(value)
    return value if tensor is None or tensor.shape == () else timer.copied(tensor)


def extents_and_strides(spec: TensorSpec, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A spec with strides that are left open made compact; raises ValueError for an open extent."""
    shape = tuple(extent for extent in spec.shape if extent is not None)
    if len(shape) != len(spec.shape):
        raise ValueError(
            f"{name}: expected given extents to tune for, got "
            f"{'x'.join('?' if extent is None else str(extent) for extent in spec.shape)}"
        )
    rank = len(shape)
    given = (None,) * rank if spec.strides is None else spec.strides
    order = [mode for mode in range(rank) if mode != spec.contiguous]
    if spec.contiguous is not None:
        order.append(spec.contiguous)
    strides = [0] * rank
    step = 1
    for mode in reversed(order):
        stride = given[mode]
        strides[mode] = step if stride is None else stride
        step = max(step, strides[mode] * max(1, shape[mode]))
    return shape, tuple(strides)


def tensor_class(value: object, name: str = "an argument", has_extents: bool = True) -> str:
    """Type, major, alignment class and rough extents (if not left out) of an argument."""
    if value is None:
        return "none"
    spec = spec_of(value, name)
    if isinstance(spec, GroupSpec):
        return f"group of {tensor_class(spec.member, name, has_extents=False)}"
    if not isinstance(spec, TensorSpec):
        assert isinstance(spec, ScalarSpec)
        return spec.dtype.name
    tensor = tensor_argument(value)
    shape = spec.shape if tensor is None else tensor.shape
    extents = "x".join(rough(extent if has_extents else None) for extent in shape)
    major = "" if spec.contiguous == len(shape) - 1 else f" contiguous {spec.contiguous}"
    align = "" if spec.align == 16 else f" align {spec.align}"
    return f"{extents} {spec.dtype.name}{major}{align}"


def rough(extent: int | None) -> str:
    """The class of an extent, in words."""
    return "?" if extent is None else str(extent_class(extent))
