"""Memory that belongs to a CTA or a thread: shared and local bytes with a shadow byte each. A
shadow is ``CLEAN``, ``UNSET`` (never written) or ``IN_FLIGHT`` (the target of an asynchronous copy
that its issuing thread has not waited for).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import EmulatorError
from .lanes import Array

CLEAN, UNSET, IN_FLIGHT = 0, 1, 2

_WORD: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class BankedMemory:
    """``owners`` equal blocks of ``size`` bytes, addressed from ``start`` on in each.

    ``owner`` of an access is a row number (the CTA for shared memory, the lane for local memory).
    """

    def __init__(self, space: str, owners: int, size: int, start: int) -> None:
        self.space = space
        self.start = start
        self.size = size
        self.pitch = -(-max(size, 1) // 128) * 128
        self.data = np.zeros(owners * self.pitch, np.uint8)
        self.shadow = np.full(owners * self.pitch, UNSET, np.uint8)
        self._words: dict[int, tuple[Array, Array]] = {}

    def words(self, width: int) -> tuple[Array, Array]:
        found = self._words.get(width)
        if found is None:
            if width <= 8:
                found = self.data.view(_WORD[width]), self.shadow.view(_WORD[width])
            else:
                rows = len(self.data) // width
                found = (
                    self.data[: rows * width].view(np.uint32).reshape(rows, width // 4),
                    self.shadow[: rows * width].view(np.uint32).reshape(rows, width // 4),
                )
            self._words[width] = found
        return found

    def offsets(self, addresses: Array, owner: Array, width: int, verb: str) -> Array:
        """Byte offsets into ``data``, checked. Addresses are those of the space, 64-bit."""
        at = addresses.astype(np.int64) - self.start
        limit = self.size - width
        union = int(np.bitwise_or.reduce(at))
        if union < 0 or union > limit:
            wrong = (at < 0) | (at > limit)
            if wrong.any():
                bad = int(at[np.argmax(wrong)])
                raise EmulatorError(
                    f"out-of-bounds {self.space} {verb} of {width} bytes at offset {bad} "
                    f"of {self.size} bytes",
                    code="CD-I1",
                )
        if width > 1 and union & (width - 1):
            bad = int(at[np.argmax((at & (width - 1)) != 0)])
            raise EmulatorError(
                f"misaligned {self.space} access: {width} bytes at offset {bad}, "
                f"expected a multiple of {width}",
                code="CD-I2",
            )
        return at + owner * self.pitch

    def load(self, offsets: Array, width: int) -> tuple[Array, Array]:
        """``(words, poison)``: words as in ``LinearMemory.load``; poison is one bool a byte
        (``[lanes, width]``), or None. Reading a byte in flight is CD-I9."""
        data, shadow = self.words(width)
        row = offsets // width
        state = shadow[row]
        if not state.any():
            return data[row], None
        state = state.view(np.uint8).reshape(len(offsets), -1)
        self._refuse_in_flight(state, offsets, "read of")
        return data[row], state != CLEAN

    def store(self, offsets: Array, values: Array, width: int) -> None:
        data, shadow = self.words(width)
        row = offsets // width
        state = shadow[row]
        if state.any():
            view = state.view(np.uint8).reshape(len(offsets), -1)
            self._refuse_in_flight(view, offsets, "write to")
            shadow[row] = 0
        data[row] = values

    def mark(self, offsets: Array, width: int, state: int) -> None:
        _, shadow = self.words(width)
        shadow[offsets // width] = np.full(width, state, np.uint8).view(
            _WORD[width] if width <= 8 else np.uint32
        )[0]

    def _refuse_in_flight(self, state: Array, offsets: Array, verb: str) -> None:
        flying = (state == IN_FLIGHT).any(axis=1)
        if flying.any():
            lane = int(np.argmax(flying))
            offset = int(offsets[lane]) % self.pitch
            raise EmulatorError(
                f"{verb} {self.space} offset {offset}, which an asynchronous copy has yet to fill: "
                "its issuing thread has not waited for the copy's group",
                code="CD-I9",
            )

    def poison(self, offsets: Array, mask: Array) -> None:
        """Mark bytes as never written; ``mask`` is ``[lanes, width]``, after a store at
        ``offsets``.
        """
        lane, byte = np.nonzero(mask)
        self.shadow[offsets[lane] + byte] = UNSET
