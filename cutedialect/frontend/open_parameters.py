"""Open compile-time parameters: a program declares the values that one may have, and a call that
gives none gets what is chosen: what tuning found for its class of problems, else what has the least
price (`choosing/program_price.py`) of what compiles and has its registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from cutedialect.backend.runtime import cache
from cutedialect.backend.runtime.arrays import tensor_argument
from cutedialect.backend.runtime.devices import device_name
from cutedialect.backend.runtime.fingerprint import FingerprintError, fingerprint
from cutedialect.backend.runtime.tunings import best_schedule, extent_class, has_tunings
from cutedialect.choosing.choose import choose
from cutedialect.choosing.need import NONE, Need
from cutedialect.choosing.program_price import estimated, need
from cutedialect.choosing.program_space import OPEN_SPACE, OpenParameters, OpenProblem, Options
from cutedialect.schedule import Schedule

from .fitting import Filled, runs_on_device, searched
from .kernel import GroupSpec, TensorSpec

if TYPE_CHECKING:
    from cutedialect.atoms import Device
    from cutedialect.backend.runtime.kernel import Kernel

    from .launch import Asked


def listed(parameters: OpenParameters, given: Schedule | None = None) -> list[Options]:
    """The values that are worth timing, as the program names them."""
    return list(OPEN_SPACE.ranked(OpenProblem(parameters), given, NONE))


Extents = tuple[tuple[int | None, ...] | None, ...]


def rounded_up(extent: int) -> int:
    """The next extent with four leading bits.

    >>> [rounded_up(extent) for extent in (7, 200, 1000, 1025, 14336)]
    [7, 208, 1024, 1152, 14336]
    """
    low = max(0, (extent - 1).bit_length() - 4)
    return -(-extent >> low) << low


@lru_cache(maxsize=4096)
def _each(rough: Callable[[int], int], shapes: Extents) -> Extents:
    """Something of the extents of shapes."""
    return tuple(
        shape and tuple(None if each is None else rough(each) for each in shape) for shape in shapes
    )


class Sized(NamedTuple):
    """What decides on open parameters of a call: the shape of each argument that a kernel has, None
    of what is no tensor, and whether it takes what tuning found.
    """

    shapes: Extents
    takes_tuned: bool

    @classmethod
    def of(cls, args: Sequence[object], takes_tuned: bool) -> Sized:
        """That of arguments."""
        return cls(tuple(_shape(each) for each in args if each is not None), takes_tuned)

    @property
    def extents(self) -> Extents:
        """Rough extents, no less than they are, so that no tile is missed."""
        return _each(rounded_up, self.shapes)

    @property
    def known(self) -> tuple[object, ...]:
        """What is the same for calls for which the same is chosen, or was tuned."""
        return self.extents, _each(extent_class, self.shapes), self.takes_tuned


def _shape(value: object) -> tuple[int | None, ...] | None:
    """The shape of an argument."""
    if isinstance(value, TensorSpec):
        return value.shape
    array = None if isinstance(value, list | tuple | GroupSpec) else tensor_argument(value)
    return None if array is None else array.shape or None


@dataclass(frozen=True)
class OpenCall:
    """A call that leaves parameters open: what is asked for, with the first values of those that
    are open, and what decides on these.
    """

    asked: Asked
    parameters: Mapping[str, Sequence[object]]
    sized: Sized

    @classmethod
    def of(cls, asked: Asked, given: Mapping[str, object], sized: Sized) -> OpenCall:
        """One that gives some of the parameters."""
        open_ = asked.program.open.items()
        return cls(asked, {name: values for name, values in open_ if name not in given}, sized)

    @property
    def known(self) -> tuple[object, ...]:
        """What the kernel depends on beside what is asked for."""
        return tuple(self.parameters), *self.sized.known

    def kernel(self, key: str | None, compiled: Callable[[Options], Kernel]) -> Kernel:
        """The kernel with the values that are chosen; `compiled` makes one, and `key` is that of
        the call on disk, where the choice is kept.
        """
        known = self._tuned() or self._kept(key)
        if known is not None:
            return compiled(known)
        taken: list[Options] = []

        def prepared(candidate: Options) -> Filled:
            taken.append(candidate)
            return Filled(compiled(candidate))

        problem = OpenProblem(self.parameters, lru_cache(self._price))
        choice = partial(choose, OPEN_SPACE, problem, self.asked.schedule)
        kernel = searched(choice, prepared, self.asked.backend).kernel
        if key is not None:
            cache.write(*self._place(key), taken[-1].text().encode())
        return kernel

    def _price(self, filled: Options) -> tuple[float, Need]:
        """Cycles and registers of a combination of values, from its trace; the same for all where
        trips are known at run time alone, and more than any where there is no trace.
        """
        from cutedialect.passes.analysis.program_work import work_of

        constants = {**self.asked.constants, **dict(filled.parameters)}
        try:
            module = replace(self.asked, constants=constants)()
            works = work_of(module, self.sized.extents)
        except Exception:  # What it is shows where it is compiled.
            return inf, Need()
        return (0.0, Need()) if works is None else (estimated(works, self._device), need(works))

    @cached_property
    def _device(self) -> Device:
        from .launch import device_for

        return device_for(self.asked.arch)

    def _place(self, key: str) -> tuple[str, str]:
        """Where a choice is kept: registers are asked about for a device alone."""
        asks = str(runs_on_device(self.asked.backend))
        return "choice", cache.key("choice", key, asks, self._device.name)

    def _kept(self, key: str | None) -> Options | None:
        """What was chosen for such a call before."""
        raw = None if key is None else cache.read(*self._place(key))
        return None if raw is None else self.named(raw.decode())

    def _tuned(self) -> Options | None:
        """The fastest that tuning found for such arguments on this device, or None."""
        from .tunable import tensor_class

        asks = (
            self.sized.takes_tuned
            and self.asked.schedule is None
            and runs_on_device(self.asked.backend)
        )
        if not asks or not has_tunings():
            return None
        try:
            kernel = fingerprint(self.asked.program.function, self.asked.constants)
        except FingerprintError:
            return None
        shapes = iter(self.sized.shapes)
        classes: list[str] = []
        for spec in self.asked.specs:
            shape = None if spec is None else next(shapes)
            sized = replace(spec, shape=shape) if isinstance(spec, TensorSpec) else spec
            classes.append(tensor_class(sized))
        best = best_schedule(kernel, ", ".join(classes), self.asked.arch, device_name())
        return None if best is None else self.named(best)

    def named(self, text: str) -> Options | None:
        """The values that a record tells of, or the first ones with the schedule that it does."""
        known = {each.text(): each for each in listed(self.parameters, self.asked.schedule)}
        if text in known:
            return known[text]
        first = next(iter(known.values()))
        is_schedule = text and not text.startswith(tuple(f"{name} = " for name in self.parameters))
        return Options(first.parameters, Schedule.parse(text)) if is_schedule else None
