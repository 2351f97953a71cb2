"""Launches with their arguments packed: one buffer that holds the arguments of all launches of a
call, written in place from call to call. A tensor map in it is re-addressed, not encoded again.

A `Packet` is used by one thread at a time; `Template` keeps as many as threads launch at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from cutedialect.backend.runtime.arguments import Packer
from cutedialect.backend.runtime.device_memory import Allocation, DeviceMemory, Located
from cutedialect.backend.runtime.driver import (
    PROGRAMMATIC_LAUNCH,
    Driver,
    LaunchAttribute,
    LaunchConfig,
)
from cutedialect.backend.runtime.host import Launch
from cutedialect.backend.runtime.tensor_maps import TensorMapArgument, encoded, replacer

# What the driver wants of tensor maps in memory.
_ALIGNMENT = 128
_POINTER_BYTES = 8
# Packets that a template keeps.
_PACKETS = 64

Numbers = tuple[float, ...]
Pointers = tuple[int, ...]


class Address(NamedTuple):
    """In the place of a pointer: that of the call's tensor with this number."""

    tensor: int


class Number(NamedTuple):
    """In the place of a floating-point argument: the call's number with this place."""

    place: int


@dataclass(frozen=True)
class Entry:
    """One launch: the kernel's CUfunction, how each of its arguments is packed, the bytes that it
    declares for each, and the launch, in which an `Address` or a `Number` stands for what differs
    from call to call. `is_early` lets it start while the launch in front of it ends.
    """

    function: int
    packers: tuple[Packer, ...]
    sizes: tuple[int, ...]
    launch: Launch
    is_early: bool = False


class Template:
    """Launches for calls that differ in pointers and numbers alone, all on one device.

    `run` may be called by several threads at once: a packet in use is in nobody else's hands. Those
    that are free are kept by their pointers, since memory comes back to the same places.
    """

    def __init__(
        self,
        driver: Driver,
        device: int,
        entries: tuple[Entry, ...],
        memory: DeviceMemory,
        needs: tuple[int, int] = (0, 0),
        tables: tuple[Allocation, ...] = (),
    ) -> None:
        self.device = device
        self._driver = driver
        self._context = driver.primary_context(device)
        self._entries = entries
        self._memory, self._needs, self._tables = memory, needs, tables
        self._points_elsewhere = bool(tables) or needs != (0, 0)
        self._free: dict[Pointers, Packet] = {}
        # Those whose tensor maps were encoded.
        self._first: Pointers | None = None

    def run(self, pointers: Pointers, numbers: Numbers, handle: int) -> None:
        """Launch on the stream `handle` with the tensors at `pointers`. Nothing is compiled, loaded
        or, but for the first workspace of a stream, allocated.
        """
        packet = self._free.pop(pointers, None)
        if packet is None:
            packet = self._packet(pointers, numbers)
        try:
            if self._points_elsewhere:
                with self._in_context(packet):
                    self._locate(packet, handle)
                    packet.run(numbers, handle)
            else:
                packet.run(numbers, handle)
        finally:
            self._free[pointers] = packet

    def _in_context(self, packet: Packet) -> AbstractContextManager[Any]:
        """The context of the functions as the calling thread's, for what is allocated there."""
        if packet.current_context() == self._context:
            return nullcontext()
        return self._driver.on(self.device)

    def _packet(self, pointers: Pointers, numbers: Numbers) -> Packet:
        """A packet for other pointers: a new one, or the one that was used longest ago. In either
        the tensor maps of earlier pointers are re-addressed.
        """
        if len(self._free) >= _PACKETS:
            try:
                oldest = self._free.pop(next(iter(self._free)))
            except (KeyError, RuntimeError, StopIteration):  # another thread was faster
                pass
            else:
                oldest.move(pointers)
                return oldest
        first = self._first = self._first or pointers
        made = Packet(self._driver, self.device, self._entries, first, numbers)
        if first != pointers:
            made.move(pointers)
        return made

    def _locate(self, packet: Packet, handle: int) -> None:
        """Keep what a graph under capture points to, and say where workspaces are."""
        if self._tables:
            self._memory.keep_for_graph(self._tables, handle)
        if self._needs != (0, 0):
            packet.locate(self._memory.workspaces(self._needs, handle))


class Packet:
    """The buffer, and where in it what lies."""

    def __init__(
        self,
        driver: Driver,
        device: int,
        entries: Sequence[Entry],
        pointers: Pointers,
        numbers: Numbers,
    ) -> None:
        self._driver, self._device = driver, device
        self._pointers, self._numbers = pointers, numbers
        try:
            self._launch_ex = driver.function("cuLaunchKernelEx")
        except AttributeError:
            raise RuntimeError(
                "expected a CUDA driver of version 11.8 or later, which has cuLaunchKernelEx, got "
                "an older one"
            ) from None
        self._get_context = driver.quick("cuCtxGetCurrent")
        self._context = ctypes.c_void_p()
        self._context_ref = ctypes.byref(self._context)
        self._early = (LaunchAttribute * 1)()
        self._early[0].id, self._early[0].extents[0] = PROGRAMMATIC_LAUNCH, 1
        self._address = ctypes.c_void_p()
        self._handle: int | None = None
        # First byte of a plain pointer and the number of its tensor; address of a tensor map, and
        # its tensor.
        self._plain: list[tuple[int, int]] = []
        self._maps: list[tuple[ctypes.c_void_p, int]] = []
        # First byte of a number, its place, and how it is packed.
        self._floats: list[tuple[int, int, Packer]] = []
        self._located: list[tuple[int, Located]] = []
        places = [_places(entry.sizes) for entry in entries]
        size = sum(-(-end // _ALIGNMENT) * _ALIGNMENT for _, end in places)
        self._storage = (ctypes.c_char * (size + _ALIGNMENT))()
        start = ctypes.addressof(self._storage)
        self._base = start + -start % _ALIGNMENT
        self._configs: list[LaunchConfig] = []
        # What cuLaunchKernelEx takes for each.
        self._launches: list[tuple[Any, ctypes.c_void_p, Any, None]] = []
        first = 0
        for entry, (offsets, end) in zip(entries, places, strict=True):
            self._add(entry, first, offsets)
            first += -(-end // _ALIGNMENT) * _ALIGNMENT

    def _add(self, entry: Entry, first: int, offsets: Sequence[int]) -> None:
        """Lay out the arguments of a launch from a byte on."""
        launch = entry.launch
        for value, pack, offset in zip(launch.arguments, entry.packers, offsets, strict=True):
            self._fill(value, pack, first + offset)
        config = LaunchConfig(
            (ctypes.c_uint * 3)(*launch.grid),
            (ctypes.c_uint * 3)(launch.block, 1, 1),
            launch.smem,
            None,
            self._early if entry.is_early else None,
            1 if entry.is_early else 0,
        )
        addresses = [self._base + first + offset for offset in offsets]
        parameters = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        self._configs.append(config)
        self._launches.append(
            (ctypes.byref(config), ctypes.c_void_p(entry.function), parameters, None)
        )

    def _fill(self, value: Any, pack: Packer, place: int) -> None:
        """Write an argument, and remember where what may change lies."""
        if type(value) is Address:
            self._plain.append((place, value.tensor))
            self._write(place, self._pointers[value.tensor].to_bytes(_POINTER_BYTES, "little"))
        elif type(value) is Number:
            self._floats.append((place, value.place, pack))
            self._write(place, pack(self._numbers[value.place]).tobytes())
        elif type(value) is Located:
            self._located.append((place, value))
        elif type(value) is TensorMapArgument and type(value.pointer) is Address:
            tensor = value.pointer.tensor
            made = encoded(value._replace(pointer=self._pointers[tensor]))
            self._write(place, made.tobytes())
            # Nothing is read through the map of a tensor without elements.
            if 0 not in value.shape:
                self._maps.append((ctypes.c_void_p(self._base + place), tensor))
        else:
            self._write(place, pack(value).tobytes())

    def _write(self, place: int, data: bytes) -> None:
        ctypes.memmove(self._base + place, data, len(data))

    def current_context(self) -> int:
        """The handle of the calling thread's context, 0 for none."""
        self._get_context(self._context_ref)
        return self._context.value or 0

    def locate(self, starts: tuple[int, int]) -> None:
        """Say where the two kinds of workspace are."""
        for place, located in self._located:
            address = starts[located.zeroed] + located.start
            self._write(place, address.to_bytes(_POINTER_BYTES, "little"))

    def move(self, pointers: Pointers) -> None:
        """Put other pointers in the places of those of the last call."""
        for place, tensor in self._plain:
            self._write(place, pointers[tensor].to_bytes(_POINTER_BYTES, "little"))
        if self._maps:
            again = replacer()
            for map_, tensor in self._maps:
                if pointers[tensor] != self._pointers[tensor]:
                    self._address.value = pointers[tensor]
                    status = again(map_, self._address)
                    if status:
                        raise self._driver.error("cuTensorMapReplaceAddress", status)
        self._pointers = pointers

    def run(self, numbers: Numbers, handle: int) -> None:
        """Launch. Which context is the calling thread's is asked only where the driver refuses: it
        launches no function of another one (CUDA_ERROR_INVALID_HANDLE, INVALID_CONTEXT).
        """
        # 0.0 and -0.0 are equal, and different arguments.
        if numbers is not self._numbers and (numbers != self._numbers or 0 in numbers):
            for place, index, pack in self._floats:
                self._write(place, pack(numbers[index]).tobytes())
            self._numbers = numbers
        if handle != self._handle:
            for config in self._configs:
                config.stream = handle
            self._handle = handle
        launch_ex = self._launch_ex
        for launch in self._launches:
            status = launch_ex(*launch)
            if status:
                self._launch_in_context(self._launches.index(launch), status)
                return

    def _launch_in_context(self, first: int, status: int) -> None:
        """Launch from the refused one on with the context of the functions as the thread's; raises
        DriverError where it is that already, or that is refused too.
        """
        if self.current_context() == self._driver.primary_context(self._device):
            raise self._driver.error("cuLaunchKernelEx", status)
        with self._driver.on(self._device):
            for launch in self._launches[first:]:
                status = self._launch_ex(*launch)
                if status:
                    raise self._driver.error("cuLaunchKernelEx", status)


def _places(sizes: Sequence[int]) -> tuple[list[int], int]:
    """The first bytes of arguments of some sizes, each a multiple of its size, and the end of the
    last one.
    """
    offsets: list[int] = []
    end = 0
    for size in sizes:
        end = -(-end // size) * size
        offsets.append(end)
        end += size
    return offsets, end
