"""Memory that belongs to a CTA or a thread: shared and local bytes with a shadow byte each. A
shadow is a set of flags: ``UNSET`` (never written), ``IN_FLIGHT`` (the target of a ``cp.async``
that its issuing thread has not waited for), ``LOADING`` (the target of a bulk copy that has not
completed), ``READING`` (the source of an asynchronous operation that may still read it) and
``BARRIER`` (part of a live mbarrier).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from .errors import EmulatorError
from .lanes import Array, anywhere

CLEAN, UNSET, IN_FLIGHT, LOADING, READING, BARRIER = 0, 1, 2, 4, 8, 16
CHUNK = 16

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
        # How many asynchronous operations read a chunk of 16 bytes; made at the first of them.
        self._readers: Array = None
        # Say more about a byte that an operation must not touch: ``(offset, flags)`` to
        # ``(code, text)``, or None from one who knows nothing of it.
        self.explain: list[Callable[[int, int], tuple[str, str] | None]] = []

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
            if anywhere(wrong):
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
        (``[lanes, width]``), or None. Reading a byte in flight is CD-I9, of an mbarrier CD-B8."""
        data, shadow = self.words(width)
        row = offsets // width
        state = shadow[row]
        if not anywhere(state):
            return data[row], None
        state = state.view(np.uint8).reshape(len(offsets), -1)
        if anywhere(state & (IN_FLIGHT | LOADING | BARRIER)):
            self._refuse(state, offsets, IN_FLIGHT | LOADING | BARRIER, "read of")
        poison = state & UNSET
        return data[row], poison != 0 if anywhere(poison) else None

    def store(self, offsets: Array, values: Array, width: int) -> None:
        """Writing a byte that is in flight, still read or part of an mbarrier is an error."""
        data, shadow = self.words(width)
        row = offsets // width
        state = shadow[row]
        if anywhere(state):
            view = state.view(np.uint8).reshape(len(offsets), -1)
            if anywhere(view & ~np.uint8(UNSET)):
                self._refuse(view, offsets, 0xFF & ~UNSET, "write to")
            shadow[row] = 0
        data[row] = values

    def mark(self, offsets: Array, width: int, state: int) -> None:
        _, shadow = self.words(width)
        shadow[offsets // width] = np.full(width, state, np.uint8).view(
            _WORD[width] if width <= 8 else np.uint32
        )[0]

    def claim(self, offsets: Array, width: int, state: int, verb: str) -> None:
        """Mark bytes for an asynchronous write or a barrier, unless they are in such use now."""
        found = self.words(width)[1][offsets // width]
        if anywhere(found):
            view = found.view(np.uint8).reshape(len(offsets), -1)
            others = LOADING | READING | BARRIER
            if anywhere(view & others):
                self._refuse(view, offsets, others, verb)
        self.mark(offsets, width, state)

    def refuse(self, chunks: Array, flags: int, verb: str, code: str | None = None) -> None:
        """``EmulatorError`` if a byte of the chunks (numbers of 16 bytes) has one of ``flags``.
        ``code`` replaces the usual ones, but for mbarriers."""
        state = self.words(CHUNK)[1][chunks]
        if anywhere(state):
            view = state.view(np.uint8).reshape(len(chunks), -1)
            if anywhere(view & flags):
                self._refuse(view, chunks * CHUNK, flags, verb, code)

    def begin_read(self, chunks: Array) -> None:
        """An asynchronous operation reads these chunks (distinct numbers of 16 bytes) from now
        until ``end_read``: a write in between is an error."""
        if self._readers is None:
            self._readers = np.zeros(len(self.data) // CHUNK, np.uint16)
        self._readers[chunks] += 1
        self.words(CHUNK)[1][chunks] |= _flag_word(READING)

    def end_read(self, chunks: Array) -> None:
        """One asynchronous operation has read the chunks for good."""
        left = self._readers[chunks] - 1
        self._readers[chunks] = left
        self.words(CHUNK)[1][chunks[left == 0]] &= ~_flag_word(READING)

    def _refuse(
        self, state: Array, offsets: Array, flags: int, verb: str, override: str | None = None
    ) -> NoReturn:
        wrong = (state & flags) != 0
        lane = int(np.argmax(wrong.any(axis=1)))
        byte = int(np.argmax(wrong[lane]))
        found = int(state[lane, byte])
        at = int(offsets[lane]) + byte
        what, code = next((w, c) for flag, w, c in _REASONS if found & flags & flag)
        known = (explain(at, found & flags) for explain in self.explain)
        code, more = next((answer for answer in known if answer), (code, ""))
        raise EmulatorError(
            f"{verb} {self.space} offset {at % self.pitch}, {what}",
            code=override if override and code != "CD-B8" else code,
            notes=(more,) if more else (),
        )

    def poison(self, offsets: Array, mask: Array) -> None:
        """Mark bytes as never written; ``mask`` is ``[lanes, width]``, after a store at
        ``offsets``.
        """
        lane, byte = np.nonzero(mask)
        self.shadow[offsets[lane] + byte] = UNSET


# (flag, what it means for whoever touches the byte, code), the most telling first.
_REASONS = (
    (BARRIER, "which is part of a live mbarrier", "CD-B8"),
    (IN_FLIGHT, "which an asynchronous copy has yet to fill: its issuing thread has not waited for "
                "the copy's group", "CD-I9"),
    (LOADING, "which a bulk copy has yet to fill", "CD-I9"),
    (READING, "which an asynchronous operation may still read", "CD-E7"),
)  # fmt: skip


def _flag_word(flag: int) -> np.uint32:
    return np.uint32(flag * 0x01010101)
