"""The launcher for CUDA devices: loads the program once per device, packs arguments, and launches
through the driver or CuPy on the stream of the arrays' library. NumPy arrays go to the device and
back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any
from weakref import WeakSet

import numpy as np

from cutedialect.backend.runtime.arguments import Bound, Packer, packers, tensors_of
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.device_memory import DeviceMemory, memory_of
from cutedialect.backend.runtime.driver import (
    MAX_THREADS_PER_BLOCK,
    MULTIPROCESSOR_COUNT,
    NON_PORTABLE_CLUSTER,
    Driver,
    driver,
    find_driver,
)
from cutedialect.backend.runtime.exchange import order_behind
from cutedialect.backend.runtime.modules import (
    DEFAULT_DYNAMIC_SMEM,
    PORTABLE_CLUSTER,
    Assembler,
    DriverModule,
    Launches,
    Loader,
    Module,
)
from cutedialect.backend.runtime.occupancy import active_clusters
from cutedialect.backend.runtime.packets import (
    Address,
    Entry,
    Number,
    Numbers,
    Pointers,
)
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.backend.runtime.signature import ScalarParameter
from cutedialect.backend.runtime.staging import staged
from cutedialect.backend.runtime.streams import current_stream, stream_handle, wait_for
from cutedialect.backend.runtime.target_fit import fitting_arch


@dataclass
class _Loaded:
    """A program on one device: on how many multiprocessors its functions can be, what they point to
    beside arrays, and the shared memory that the functions have opted in to.
    """

    module: Module
    sm_count: int
    memory: DeviceMemory
    smem: dict[str, int] = field(default_factory=dict)
    # The address of the status word of assertions, 0 where the program has none.
    status: int = 0


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call with its arguments checked and packed, which may be repeated while the arrays live.
    `stream` gives the current stream of the arrays' library.
    """

    template: Launches
    pointers: Pointers
    numbers: Numbers
    stream: Callable[[], int]

    def like(self, pointers: Pointers, numbers: Numbers) -> PreparedCall:
        """The call on other arrays that look the same; without numbers it has those of this one."""
        return PreparedCall(self.template, pointers, numbers or self.numbers, self.stream)

    def repeat(self, stream: Any = None) -> None:
        """Launch again, on `stream` or the current one of the arrays' library."""
        handle = self.stream() if stream is None else stream_handle(stream)
        self.template.run(self.pointers, self.numbers, handle)


class CudaLauncher:
    """Runs a program on CUDA devices, each of which gets its own module: what `load` makes of the
    PTX text, or of what `assembler` makes of that, for the device's target.
    """

    name = "cuda"

    def __init__(
        self, program: CompiledProgram, assembler: Assembler, load: Loader = DriverModule
    ) -> None:
        self._program = program
        self._assembler = assembler
        self._load_module = load
        self._devices: dict[int, _Loaded] = {}
        self._packers: dict[str, tuple[Packer, ...]] = {
            kernel: packers(types, program.entries[kernel].sizes)
            for kernel, types in program.plan.types.items()
        }

    def warmup(self, device: int | None = None) -> None:
        """Assemble and load for `device` (the current one by default), so that a later launch does
        nothing but launch and may be captured in a CUDA graph.
        """
        found = driver()
        chosen = found.current_device() if device is None else device
        with found.on(chosen):
            loaded = self._devices.get(chosen)
            if loaded is None:
                loaded = self._devices[chosen] = self._load(found, chosen)
            if self._program.plan.has_workspaces:
                loaded.memory.reserve()

    def launch(self, bound: Bound, stream: Any = None) -> PreparedCall | None:
        """Launch every kernel of the program in order; raises ValueError for arrays of two devices,
        RuntimeError for a device that does not fit or for a first call under graph capture.

        Returns the call to repeat while the same arrays live, None for host arrays and for those
        that have to be told of each launch.
        """
        found = driver()
        anchor, host = self._placement(bound)
        device = found.current_device() if anchor is None else anchor.device
        assert device is not None
        current = current_stream(anchor, device)
        with found.on(device):
            handle = current() if stream is None else stream_handle(stream)
            loaded = self._devices.get(device)
            if loaded is None or host:
                self._refuse_capture(found, handle, loaded is None)
            if loaded is None:
                loaded = self._devices[device] = self._load(found, device)
            if host:
                with staged(self._program.signature, bound, handle) as moved:
                    self._prepare(found, loaded, moved, handle, device).run(*_given(moved), handle)
                self._raise_failed(found, loaded, handle)
                return None
            template = self._prepare(found, loaded, bound, handle, device)
            pointers, numbers = _given(bound)
            with self._ordered(found, bound, handle) as is_ordered:
                template.run(pointers, numbers, handle)
        return None if is_ordered else PreparedCall(template, pointers, numbers, current)

    def _placement(self, bound: Bound) -> tuple[TensorArgument | None, bool]:
        """The first tensor on a device, and whether any lives in host memory."""
        anchor: TensorArgument | None = None
        first = ""
        host = ""
        for parameter, value in tensors_of(self._program.signature, bound):
            if value.device is None:
                host = host or parameter.name
            elif anchor is None:
                anchor, first = value, parameter.name
            elif value.device != anchor.device:
                raise ValueError(
                    f"{parameter.name}: expected an array on device {anchor.device} like "
                    f"'{first}', got one on device {value.device}"
                )
        if anchor is not None and host:
            raise ValueError(
                f"{host}: expected an array on device {anchor.device} like '{first}', got one in "
                "host memory"
            )
        return anchor, bool(host)

    @contextmanager
    def _ordered(self, found: Driver, bound: Bound, handle: int) -> Iterator[bool]:
        """Launches behind the work that the arrays' libraries have still to do on them, and in
        front of what they do next; tells whether there is any. A graph under capture holds nothing
        of other streams.
        """
        streams: set[int] = set()
        told = False
        for _, value in tensors_of(self._program.signature, bound):
            if value.stream is not None:
                told = True
                if value.stream != handle:
                    streams.add(value.stream)
            if value.exporter is not None:
                told = True
                order_behind(value.exporter, handle)
        if streams and found.captured_id(handle):
            streams.clear()
        for stream in streams:
            wait_for(found, stream, handle)
        yield told
        for stream in streams:
            wait_for(found, handle, stream)

    def _prepare(
        self, found: Driver, loaded: _Loaded, bound: Bound, handle: int, device: int
    ) -> Launches:
        """Plan the launches for arguments that differ from these in pointers and numbers alone, but
        for the pointers of groups.
        """
        tensors, numbers = iter(range(len(bound))), iter(range(len(bound)))
        arguments: list[Any] = []
        for parameter, value in zip(self._program.signature.parameters, bound, strict=True):
            if isinstance(value, TensorArgument):
                arguments.append((Address(next(tensors)), value.shape, value.strides))
            elif isinstance(value, list):
                arguments.append([(each.pointer, each.shape, each.strides) for each in value])
            elif isinstance(parameter, ScalarParameter) and isinstance(value, float):
                arguments.append(Number(next(numbers)))
            else:
                arguments.append(value)
        planned = self._program.plan.run(arguments, loaded.sm_count)
        placed = loaded.memory.place(planned, handle, self._program.name)
        entries: list[Entry] = []
        for launch in placed.launches:
            function = loaded.module.functions[launch.kernel]
            self._allow_smem(loaded, launch.kernel, launch.smem)
            entry = self._program.entries[launch.kernel]
            packers_ = self._packers[launch.kernel]
            entries.append(Entry(function, packers_, entry.sizes, launch, entry.is_early))
        return loaded.module.launches(
            device, tuple(entries), loaded.memory, placed.needs, placed.tables
        )

    def _load(self, found: Driver, device: int) -> _Loaded:
        program = self._program
        arch = fitting_arch(found, device, program.name, program.arch)
        module = self._load_module(found, program, arch, self._assembler)
        for kernel, cluster in program.plan.clusters.items():
            if prod(cluster) > PORTABLE_CLUSTER:
                function = module.functions[kernel]
                found.set_function_attribute(function, NON_PORTABLE_CLUSTER, 1)
        sm_count = found.device_attribute(MULTIPROCESSOR_COUNT, device)
        loaded = _Loaded(module, sm_count, memory_of(found, device))
        if program.assertions is not None:
            loaded.status = module.address(program.assertions.symbol)
            _asserting.add(self)
        for kernel, cluster in program.plan.clusters.items():
            if prod(cluster) > 1:
                self._fit(found, loaded, kernel, cluster)
        return loaded

    def check_assertions(self, found: Driver, stream: int | None) -> None:
        """Wait for all of each device unless a stream was waited for, and raise the first assertion
        that has failed since the last look.
        """
        for device, loaded in self._devices.items():
            with found.on(device):
                if stream is None:
                    found.synchronize_context()
                self._raise_failed(found, loaded, 0)

    def _raise_failed(self, found: Driver, loaded: _Loaded, stream: int) -> None:
        """Read the status word of kernels that have ended, and set it back."""
        assertions = self._program.assertions
        if assertions is None:
            return
        word = np.zeros(1, np.uint64)
        found.copy_to_host(word.ctypes.data, loaded.status, word.nbytes, stream)
        found.synchronize(stream)
        error = assertions.error(self._program.name, int(word[0]))
        if error is not None:
            found.clear(loaded.status, word.nbytes)
            raise error

    def _fit(
        self, found: Driver, loaded: _Loaded, kernel: str, cluster: tuple[int, int, int]
    ) -> None:
        """Count no more multiprocessors than clusters of a kernel can be on at one time."""
        function, smem = loaded.module.functions[kernel], self._program.plan.smem[kernel]
        self._allow_smem(loaded, kernel, smem)
        # What `.reqntid` in the PTX says.
        threads = found.function_attribute(function, MAX_THREADS_PER_BLOCK)
        clusters = active_clusters(function, cluster, threads, smem)
        if clusters is not None:
            loaded.sm_count = min(loaded.sm_count, clusters * prod(cluster))

    def _allow_smem(self, loaded: _Loaded, kernel: str, smem: int) -> None:
        if smem > loaded.smem.get(kernel, DEFAULT_DYNAMIC_SMEM):
            loaded.module.allow_smem(kernel, smem)
            loaded.smem[kernel] = smem

    def _refuse_capture(self, found: Driver, handle: int, first: bool) -> None:
        if not found.captured_id(handle):
            return
        if first:
            raise RuntimeError(
                f"expected a call of warmup() before kernel '{self._program.name}' is captured in "
                "a CUDA graph, got its first launch under capture; loading a module cannot be "
                "captured"
            )
        raise RuntimeError(
            f"expected device arrays for kernel '{self._program.name}' under CUDA graph capture, "
            "got NumPy arrays, whose copies cannot be captured"
        )


def _given(bound: Bound) -> tuple[Pointers, Numbers]:
    """The pointers and the floating-point numbers of a call, each in the order of the arguments."""
    return (
        tuple([value.pointer for value in bound if isinstance(value, TensorArgument)]),
        tuple([value for value in bound if isinstance(value, float)]),
    )


# Launchers of programs with assertions that were loaded.
_asserting: WeakSet[CudaLauncher] = WeakSet()


def synchronize(stream: Any = None) -> None:
    """Wait for the work on `stream`, or on the current device and all that kernels with assertions
    ran on, and raise KernelAssertionError for an assertion (`cute.assert_`) that has failed there.

    Calls on NumPy arrays, and all without a GPU, wait by themselves. Without a device nothing
    happens.
    """
    found = find_driver()
    if found is None:
        return
    handle = None if stream is None else stream_handle(stream)
    if handle is not None:
        found.synchronize(handle)
    elif found.current_context():
        found.synchronize_context()
    for launcher in list(_asserting):
        launcher.check_assertions(found, handle)
