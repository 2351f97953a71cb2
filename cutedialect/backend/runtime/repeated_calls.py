"""Calls of a whole front-end function on device arrays, remembered with all that they led to, so
that the same call again is one dictionary look-up and the launch itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from cutedialect.backend.runtime.arrays import call_key
from cutedialect.backend.runtime.cupy import PreparedCall
from cutedialect.backend.runtime.kernel import Kernel

_REMEMBERED = 1024


class RepeatedCalls:
    """The calls of one function. `arrays` are device arrays, numbers or None; `options` everything
    else that the call depends on, compared by value. Host arrays are never remembered.
    """

    def __init__(self) -> None:
        self._calls: dict[Hashable, PreparedCall] = {}

    def repeat(self, arrays: Sequence[Any], options: Hashable, stream: Any = None) -> bool:
        """Launch again what an equal call launched; False, with nothing done, if there is none."""
        key = call_key(arrays)
        if key is None:
            return False
        try:
            found = self._calls.get((key, options))
        except TypeError:  # an option without a hash
            return False
        return found is not None and found.repeat(stream)

    def keep(
        self, arrays: Sequence[Any], options: Hashable, kernel: Kernel, args: Sequence[Any]
    ) -> None:
        """Remember that this call launched `kernel` on `args` and did nothing else."""
        key, prepared = call_key(arrays), kernel.prepared(*args)
        if key is None or prepared is None:
            return
        if len(self._calls) >= _REMEMBERED:
            self._calls.clear()
        try:
            self._calls[key, options] = prepared
        except TypeError:
            return
