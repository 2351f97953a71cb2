"""What a probe is: a small problem that one call computes on any backend, and how its results are
judged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Place = Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Probe(ABC):
    """One call; the names of all probes are unique."""

    name: str

    @abstractmethod
    def make(self, place: Place, seed: int = 0) -> Any:
        """The arrays of the call, `place` puts each where it is to run. Equal seeds make equal
        values.
        """

    @abstractmethod
    def run(self, given: Any, backend: str) -> list[Any]:
        """Compute; every output, where it was placed."""

    @abstractmethod
    def wrong(self, given: Any, outputs: list[np.ndarray]) -> str | None:
        """What is wrong with outputs, by float64."""

    @abstractmethod
    def apart(self, outputs: list[np.ndarray], others: list[np.ndarray]) -> str | None:
        """How the outputs of two backends differ more than they may."""


def are_equal(outputs: list[np.ndarray], others: list[np.ndarray]) -> bool:
    """Whether all bits are the same."""
    return all(one.tobytes() == other.tobytes() for one, other in zip(outputs, others, strict=True))
