"""Device ``printf``: ``vprintf(format, buffer)`` with the arguments packed at their natural
alignment.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

import numpy as np

from .memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE

if TYPE_CHECKING:
    from .machine import Machine

_CONVERSION = re.compile(
    r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(hh|h|ll|l|z|t|j)?([diouxXcsfFeEgGaAp%])"
)


def read_bytes(machine: Machine, lane: int, address: int, count: int) -> bytes:
    """Bytes at a generic address as one thread sees it."""
    spots = np.arange(address, address + count, dtype=np.uint64)
    if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_SIZE:
        owner = machine.lane_cta[lane]
        at = machine.shared.offsets(spots - np.uint64(SHARED_WINDOW), owner, 1, "read")
        return machine.shared.load(at, 1)[0].tobytes()
    if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW_SIZE:
        at = machine.local.offsets(spots - np.uint64(LOCAL_WINDOW), np.int64(lane), 1, "read")
        return machine.local.load(at, 1)[0].tobytes()
    return machine.linear_of(address).load(spots, 1).tobytes()


def read_string(machine: Machine, lane: int, address: int) -> str:
    out = bytearray()
    while len(out) < 1 << 16:
        byte = read_bytes(machine, lane, address + len(out), 1)[0]
        if byte == 0:
            break
        out.append(byte)
    return out.decode("utf-8", "replace")


def format_output(machine: Machine, lane: int, format_at: int, buffer_at: int) -> str:
    """The text that one thread prints."""
    text = read_string(machine, lane, format_at)
    at = 0

    def take(code: str) -> int | float:
        nonlocal at
        size = struct.calcsize(code)
        at = -(-at // size) * size
        raw = read_bytes(machine, lane, buffer_at + at, size)
        at += size
        return struct.unpack("<" + code, raw)[0]

    def convert(match: re.Match[str]) -> str:
        spec, length, kind = match.group(0), match.group(1) or "", match.group(2)
        if kind == "%":
            return "%"
        while "*" in spec:
            spec = spec.replace("*", str(take("i")), 1)
        plain = spec.replace(length, "", 1) if length else spec
        if kind in "fFeEgGaA":
            value = float(take("d"))
            if kind in "aA":
                return value.hex()
            return plain % value
        if kind == "s":
            return plain % read_string(machine, lane, int(take("Q")))
        if kind == "p":
            return (plain[:-1] + "s") % hex(int(take("Q")))
        long = length in ("l", "ll", "z", "t", "j")
        value = int(
            take(("q" if kind in "di" else "Q") if long else ("i" if kind in "dic" else "I"))
        )
        if kind == "c":
            return plain % chr(value & 0xFF)
        if length in ("h", "hh") and kind not in "di":
            value &= 0xFFFF if length == "h" else 0xFF
        return plain.replace("u", "d") % value

    return _CONVERSION.sub(convert, text)
