"""What a case is: one problem with its gate and goal, the operands it is computed on, and everybody
who computes it. Measuring, tabulating and sweeping know no more of a problem than this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol


class Operands(Protocol):
    """Arrays of one call; a contender writes `outputs`, or returns the only one as a new array."""

    @property
    def outputs(self) -> tuple[Any, ...]: ...


# A contender: queues one call on torch's current stream and writes the outputs, or returns an array
# of its own (or one for each output) instead; raises what its library raises when it refuses.
Call = Callable[[Any], Any]
Maker = Callable[[], Call]


@dataclass(frozen=True)
class Case(ABC):
    """One row: a gate is the least ratio to the yardstick that passes (0 for none), a goal the
    ratio aimed at.

    The yardstick is the fastest of those that `yardsticks` names. Where it names nobody, the ratio
    is the share of the memory's bandwidth that ours reaches. `dtype` is a key of `inputs.TYPES`.
    """

    section: str
    dtype: str
    gate: float = field(default=0.97, kw_only=True)
    goal: float = field(default=1.05, kw_only=True)
    quick: bool = field(default=False, kw_only=True)

    kind: ClassVar[str]

    @property
    @abstractmethod
    def name(self) -> str:
        """Unique among all cases."""

    @property
    @abstractmethod
    def flops(self) -> int:
        """Floating-point operations of one call."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """The least traffic of one call."""

    @property
    @abstractmethod
    def starved(self) -> bool:
        """Whether memory bounds the time; such a row is judged by its bandwidth as well."""

    @property
    @abstractmethod
    def yardsticks(self) -> tuple[str, ...]:
        """Names of the contenders that ours is compared with."""

    @property
    def share(self) -> float:
        """Our work over that of the yardstick, which may compute another problem."""
        return 1.0

    @property
    def rivals(self) -> Mapping[str, str]:
        """Schedules of ours that are timed beside the default where a table is drawn, by name."""
        return {}

    @property
    def draws(self) -> int:
        """Inputs of which errors are pooled, and nothing is timed; 0 for a case that is timed."""
        return 0

    @property
    def calls(self) -> int:
        """Calls of a library that one call of the case takes."""
        return 1

    @property
    def companions(self) -> tuple[Case, ...]:
        """Cases whose kernels, with the default schedule, a yardstick runs."""
        return ()

    @abstractmethod
    def make_operands(self, torch: Any, seed: int) -> Operands:
        """Random inputs on the current device, and outputs."""

    @abstractmethod
    def exact(self, torch: Any, operands: Any) -> Sequence[Any]:
        """A sample of the result in float64, of any form that `errors` takes."""

    @abstractmethod
    def errors(self, torch: Any, operands: Any, exact: Sequence[Any]) -> tuple[float, ...]:
        """How far the outputs are from the sample: figures that are each judged alone."""

    def allowance(self, torch: Any, operands: Any, exact: Sequence[Any]) -> tuple[float, ...]:
        """The figures of `errors` for a plain computation in the same precision; none where the
        yardstick's own errors are the measure.
        """
        return ()

    @abstractmethod
    def theirs(self, torch: Any) -> dict[str, Maker]:
        """A maker for each yardstick; it raises where its library is missing or refuses."""

    @abstractmethod
    def ours(self, schedule: str | None) -> Call:
        """The call of this package, under a schedule or the heuristic's."""

    def peers(self, torch: Any) -> dict[str, Maker]:
        """Others that are timed on request."""
        return {}

    @abstractmethod
    def compiled(self, schedule: str | None, arch: str | None = None) -> Any:
        """The `cute.Kernel` of ours, for `arch` or the current device; None where one call takes
        several. Raises what `cute.compile` raises.
        """
