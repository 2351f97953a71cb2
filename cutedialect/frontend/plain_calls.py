"""Calls whose kernel takes their arrays as they are: a declaration and a tile program are all that
there is of them. The program takes the operands in the order of the declaration, then the result,
then numbers, each as a run-time argument; None is an array that is not given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

from cutedialect.schedule import Schedule

from .doors import Door
from .dtypes import f32
from .gemm_operands import as_number
from .kernel import KernelFunction
from .launch import as_schedule, check_arch, compile_call, default_arch
from .ready_call import Ready
from .rules import Checked, new_spec
from .signature import NUMBER, Call


@dataclass
class PlainReady(Ready):
    """Such a call after its checks, with the names of its arrays, the result behind the others."""

    names: tuple[str, ...] = ()

    @property
    def ARRAYS(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.names

    @property
    def OUT(self) -> int:  # type: ignore[override]
        return len(self.names) - 1

    @property
    def WRITTEN(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.OUT,)

    def numbers(self, *given: float) -> tuple[Any, ...]:
        return tuple(f32.numpy.type(each) for each in given)

    def arguments(self, arrays: Sequence[Any], numbers: tuple[float, ...]) -> list[Any]:
        return [*arrays, *self.numbers(*numbers)]

    def places(self, arrays: Sequence[Any]) -> list[int]:
        return list(range(len(arrays)))


class PlainCall(Checked):
    """The checked arguments of such a call."""

    ready_type: ClassVar[type[PlainReady]] = PlainReady
    program: KernelFunction

    def __init__(self, call: Call, program: KernelFunction | None, given: SimpleNamespace) -> None:
        self.call = call
        if program is not None:
            self.program = program
        super().__init__(given)

    def constants(self, arch: str, tile: tuple[int, ...] | None) -> dict[str, Any]:
        """Compile-time parameters of the program, which may take a tile."""
        return {}

    def ready(self) -> PlainReady:
        """What runs the call, without a kernel."""
        return self.ready_type(None, self.out_shape, self.out_dtype, names=self.call.placed)

    def prepare(self) -> PlainReady:
        """Compile (or find) the kernel; an empty output has none."""
        return self.prepared_with(as_schedule(self.given.schedule), self.target())

    def target(self) -> str:
        """The architecture that is asked for, or that of the device."""
        arch = self.given.arch or default_arch(self.given.backend)
        check_arch(arch)
        return arch

    def prepared_with(
        self, schedule: Schedule | None, target: str, tile: tuple[int, ...] | None = None
    ) -> PlainReady:
        """The same with a schedule, and with a tile of the program that is not the schedule's."""
        given, ready = self.given, self.ready()
        if 0 in self.out_shape:
            return ready
        operands = [getattr(self, name) for name in ready.names]
        arrays = [None if each is None else each.value for each in operands]
        if arrays[-1] is None:
            arrays[-1] = new_spec(self.out_shape, self.out_dtype)
        numbers = [
            as_number(each.name, getattr(given, each.name)) for each in numbers_of(self.call)
        ]
        options = {"arch": target, "schedule": schedule, "backend": given.backend}
        tile = schedule.tile if tile is None and schedule is not None else tile
        options |= self.constants(target, tile)
        args = ready.arguments(arrays, tuple(numbers))
        return replace(ready, kernel=compile_call(self.program, args, options))


def numbers_of(call: Call) -> tuple[Any, ...]:
    """The parameters that are numbers."""
    return tuple(each for each in call.parameters if each.kind is NUMBER)


def plain(call: Call, program: KernelFunction, module: str) -> tuple[Door[Any, Any], Any]:
    """The door of such a call, and its function in a module."""
    door: Door[PlainCall, PlainReady] = Door(call, partial(PlainCall, call, program))
    names = numbers_of(call)
    lines = [f"{each.name} = as_number({each.name!r}, {each.name})" for each in names]
    filled = replace(
        call,
        before="\n".join([*call.before.splitlines(), *lines]),
        numbers=f"({''.join(f'{each.name}, ' for each in names)})",
    )
    door.call = filled
    return door, door.function(module, {"as_number": as_number})
