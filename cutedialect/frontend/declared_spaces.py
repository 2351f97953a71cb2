"""Spaces that a program names: `@cute.kernel(space="attention")`. Such a space fills the schedule
and the open parameters that a call leaves open, from the facts of its arguments; nothing is traced
for it. `cute.attention` and a user's copy of its program are the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from cutedialect.backend.runtime.devices import device_name
from cutedialect.backend.runtime.fingerprint import FingerprintError, fingerprint
from cutedialect.backend.runtime.tunings import best_schedule, has_tunings
from cutedialect.choosing.choose import Rejection, choose
from cutedialect.choosing.space import Space
from cutedialect.schedule import Schedule

from .captured import exact, version
from .fitting import Filled, Memory, Ready, fitted
from .kernel import KernelFunction
from .launch import Variants, as_schedule, check_arch, compile_kernel, default_arch, specs_of

if TYPE_CHECKING:
    from cutedialect.backend.runtime.kernel import Kernel

# By name, the module that has it as SPACE.
SPACES = {"attention": "attention_facts"}
# What a call takes beside compile-time parameters, and does not leave to a space.
_OPTIONS = ("schedule", "stream", "spills", "protocol")

# Kernels of calls that left parameters open, by all that they were chosen by.
_kernels: dict[tuple[object, ...], Kernel] = {}

_Made = TypeVar("_Made", bound=Ready)


@dataclass(frozen=True)
class DeclaredSpace:
    """problem: the facts of a call, from its arguments and the compile-time parameters that it
    gives by name, a target, and a backend. kernel_class: what of them a kernel depends on beside
    its schedule, readable. parameters: values of the program's parameters that go with a schedule.
    tuned: what is worth timing beside the default.
    """

    space: Space[Any, Schedule]
    problem: Callable[[Mapping[str, Any], str, str], Any]
    kernel_class: Callable[[Any], str]
    parameters: Callable[[Any, Schedule], Mapping[str, object]]
    tuned: Callable[[Any], Sequence[Schedule]]


def declared(name: str) -> DeclaredSpace:
    """The space of a name."""
    return import_module(f".{SPACES[name]}", __package__).SPACE


@dataclass(frozen=True)
class SpacedCall:
    """A call that leaves its schedule, or open parameters, to the space of its program. `given` is
    what it gives of a schedule, and `constants` of compile-time parameters and options.
    """

    program: KernelFunction
    declared: DeclaredSpace
    problem: Any
    given: Schedule | None
    constants: Mapping[str, Any]
    arch: str
    backend: str

    @classmethod
    def of(
        cls,
        program: KernelFunction,
        arguments: Mapping[str, Any],
        given: Schedule | None,
        options: Mapping[str, Any],
    ) -> SpacedCall:
        """The call of arguments by name; `options` have its target and backend."""
        assert program.space is not None
        space, arch, backend = declared(program.space), options["arch"], options["backend"]
        constants = {name: each for name, each in options.items() if name not in _OPTIONS}
        # A parameter of a field's name sets that field.
        names = {field.name for field in fields(Schedule)} & constants.keys()
        if names:
            set_ = Schedule(**{name: constants[name] for name in names})
            given = set_ if given is None else given.merged(set_)
        problem = space.problem({**arguments, **constants}, arch, backend)
        return cls(program, space, problem, given, constants, arch, backend)

    def chosen(self, given: Schedule | None) -> Schedule:
        """The schedule of the least price that has some fields."""
        return choose(self.declared.space, self.problem, given)

    def filled(self, schedule: Schedule) -> dict[str, Any]:
        """All options of a kernel with a schedule; what the call gives stays."""
        return {
            **self.declared.parameters(self.problem, schedule),
            "schedule": schedule,
            **self.constants,
        }

    def fitted(
        self,
        prepared: Callable[[Schedule | None, Schedule], _Made],
        kept: Callable[[], Schedule | None],
    ) -> _Made:
        """What `prepared` makes of the first schedule that passes take and whose registers suffice,
        where the first argument is what is given of it; before those what tuning `kept`.
        """

        def choice(given: Schedule | None) -> Callable[[Sequence[Rejection]], Schedule] | None:
            # What spills stays where its tile is given: the launch tells.
            stays = given is not None and given.tile is not None
            return None if stays else partial(choose, self.declared.space, self.problem, given)

        def made(given: Schedule | None, best: Schedule | None) -> _Made:
            return prepared(given, self.chosen(given) if best is None else best)

        memory = Memory(lambda: self._class, self.arch)
        return fitted(made, choice, self.given, self.backend, memory, kept)

    @property
    def _class(self) -> str:
        """The class of problems whose kernels have the same registers."""
        of_problem = self.declared.kernel_class(self.problem)
        return f"{self.program.__name__} {self._fingerprint} {of_problem}"

    @cached_property
    def _fingerprint(self) -> str | None:
        """The program's; None where it has no stable one."""
        try:
            return fingerprint(self.program.function)
        except FingerprintError:
            return None

    def tuned(self, problem: str) -> Schedule | None:
        """The fastest that tuning found for a class of problems on this device."""
        if not has_tunings() or self._fingerprint is None:
            return None
        best = best_schedule(self._fingerprint, problem, self.arch, device_name())
        return Schedule.parse(best) if best else None


def spaced_kernel(
    program: KernelFunction, args: Sequence[object], options: Mapping[str, Any]
) -> Kernel:
    """The kernel of a user's call that leaves parameters to the space of its program."""
    from .tunable import spaced_problem

    backend = options.get("backend") or "auto"
    target = options.get("arch") or default_arch(backend)
    check_arch(target)
    options = {**options, "arch": target, "backend": backend}
    named = dict(zip(program.parameters, args, strict=True))
    call = SpacedCall.of(program, named, as_schedule(options.get("schedule")), options)
    keys = tuple(None if spec is None else spec.key() for spec in specs_of(program, args))
    chosen = ((name, exact(value)) for name, value in options.items() if name != "stream")
    known = program, version(program.function), keys, call.problem, call.given, *sorted(chosen)
    with suppress(TypeError):  # a compile-time value without a hash is compiled at each call
        if known in _kernels:
            return _kernels[known]

    def near(other: Schedule) -> dict[str, Any]:
        return call.filled(call.chosen(other))

    def prepared(given: Schedule | None, chosen: Schedule) -> Filled:
        variants = Variants(given or Schedule(), near)
        return Filled(compile_kernel(program, args, options | call.filled(chosen), variants))

    ready = call.fitted(prepared, partial(call.tuned, spaced_problem(program, args, options)))
    with suppress(TypeError):
        _kernels[known] = ready.kernel
    return ready.kernel


def forget_choices(program: KernelFunction) -> None:
    """Choose anew for a program, since tuning found other schedules."""
    for key in [key for key in _kernels if key[0] is program]:
        del _kernels[key]
