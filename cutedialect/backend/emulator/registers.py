"""The register file: one array over all lanes for each register, with a poison bit per lane. Poison
(uninitialized) values may be moved, selected and combined; using one as an address, a guard, a
barrier operand, or storing it to global memory is the error, and names where the poison came from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import Array, Lanes, anywhere
from .module import Reg
from .types import STORAGE


class Register:
    """``bits`` is the raw value of each lane; ``poison`` is None when no lane holds poison."""

    __slots__ = ("_clean", "_unwritten", "_views", "bits", "name", "origin", "poison", "width")

    def __init__(self, declared: Reg, unwritten: Array) -> None:
        """``unwritten``: one True a lane, which all registers of a machine share until some of
        their lanes are written.
        """
        lanes = len(unwritten)
        self.name = declared.name
        self.width = declared.type.bits
        self.bits: Array
        if self.width == 128:
            self.bits = np.zeros((lanes, 2), np.uint64)
        else:
            self.bits = np.zeros(lanes, STORAGE[self.width])
        self.poison: Array = unwritten
        self._unwritten: Array = unwritten
        self.origin: tuple[str, str] | None = None
        # The lanes cleared last: a loop of the same threads clears them once.
        self._clean: Lanes | None = None
        self._views: dict[Any, Array] = {}

    def view(self, dtype: Any) -> Array:
        """The whole register read as ``dtype`` of the same width; the memory is shared."""
        found = self._views.get(dtype)
        if found is None:
            found = self._views[dtype] = self.bits.view(dtype)
        return found

    def poisoned(self, lanes: Lanes) -> Array:
        """One bool a lane, or None when all of ``lanes`` hold defined values."""
        if self.poison is None or self._clean is lanes:
            return None
        found = self.poison[lanes.sel]
        return found if anywhere(found) else None

    def clear(self, lanes: Lanes) -> None:
        """Mark ``lanes`` as defined."""
        if lanes.full:
            self.poison = None
        elif self.poison is not None and self._clean is not lanes:
            self._clean = lanes
            self._own_poison()[lanes.sel] = False
            if not anywhere(self.poison):
                self.poison = None

    def taint(self, lanes: Lanes, mask: Array, origin: tuple[str, str] | None, total: int) -> None:
        """Set the poison of ``lanes`` to ``mask``; ``origin`` is (code, description)."""
        if self.poison is None:
            self.poison = np.zeros(total, np.bool_)
        self._clean = None
        self._own_poison()[lanes.sel] = mask
        self.origin = origin

    def _own_poison(self) -> Array:
        if self.poison is self._unwritten:
            self.poison = self._unwritten.copy()
        return self.poison

    def why(self) -> tuple[str, str]:
        """(code, description) of the poison in here."""
        if self.origin is not None:
            return self.origin
        return "CD-I4", f"register {self.name} was never written"
