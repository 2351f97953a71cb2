"""The launcher for CUDA devices through CuPy: loads the cubin once per device, passes packed
arguments on the current stream, and moves NumPy arrays to the device and back. CuPy is imported
inside functions only.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from math import prod
from typing import Any

from cutedialect.backend.runtime.arguments import Bound, Packer, packers, tensors_of
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.device_memory import DeviceMemory, Placed
from cutedialect.backend.runtime.errors import PtxasNotFoundError
from cutedialect.backend.runtime.exchange import order_behind
from cutedialect.backend.runtime.occupancy import active_clusters
from cutedialect.backend.runtime.program import CompiledProgram, assembled
from cutedialect.backend.runtime.staging import staged
from cutedialect.backend.runtime.streams import (
    Stream,
    current_handle,
    from_torch,
    stream_handle,
    torch_handle,
    wait_for,
)
from cutedialect.backend.runtime.target_fit import device_arch, misfit

# CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES; above the default the kernel has to opt in.
_MAX_DYNAMIC_SMEM = 8
# CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, for clusters of more CTAs than every device
# with clusters has.
_NON_PORTABLE_CLUSTER = 14
_PORTABLE_CLUSTER = 8
_MULTIPROCESSOR_COUNT = 16
_MAX_THREADS_PER_BLOCK = 0
_DEFAULT_DYNAMIC_SMEM = 48 * 1024


def _cuda() -> Any:
    """`cupy.cuda`; pyright would take `import cupy` for this file."""
    return sys.modules.get("cupy.cuda") or import_module("cupy.cuda")


@cache
def gpu_available() -> bool:
    """Whether CuPy is installed and sees a device."""
    if importlib.util.find_spec("cupy") is None:
        return False
    try:
        return bool(_cuda().is_available())
    except Exception:  # a broken driver reports itself in many ways, and means no GPU in each
        return False


def _planned(value: Any) -> Any:
    """An argument as the host part takes it."""
    if isinstance(value, TensorArgument):
        return value.pointer, value.shape, value.strides
    return [_planned(each) for each in value] if isinstance(value, list) else value


@dataclass
class _Loaded:
    """A program on one device: its functions, on how many multiprocessors they can be, what they
    point to beside arrays, and the shared memory that the functions have opted in to.
    """

    functions: dict[str, Any]
    sm_count: int
    memory: DeviceMemory
    smem: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call with its arguments checked and packed: `(function, grid, block, smem, arguments)` for
    each launch, all on `device`, on the current stream of torch if `torch` says so, else of CuPy.
    `memory` is what the arguments point to beside the caller's arrays; where that belongs to a
    stream, `stream` is its handle.
    """

    device: int
    torch: bool
    launches: tuple[tuple[Any, ...], ...]
    memory: tuple[Any, ...] = ()
    stream: int | None = None

    def repeat(self, stream: Any) -> bool:
        """Launch again, on the device of the call; False, with nothing done, where the call has to
        be prepared for another stream or for a graph.
        """
        cuda = _cuda()
        if cuda.runtime.getDevice() != self.device:
            with cuda.Device(self.device):
                return self.repeat(stream)
        if stream is not None:
            on: Stream | None = Stream(stream_handle(stream))
        elif self.torch:
            on = Stream(torch_handle(self.device))
        else:
            on = None
        if self.memory:
            handle = cuda.get_current_stream().ptr if on is None else on.ptr
            if self.stream not in (None, handle) or cuda.runtime.streamIsCapturing(handle):
                return False
        for function, grid, block, smem, arguments in self.launches:
            function(grid, block, arguments, smem, on)
        return True


class CupyLauncher:
    """Runs a program on CUDA devices, each of which gets its own module."""

    name = "cuda"

    def __init__(self, program: CompiledProgram) -> None:
        self._program = program
        self._devices: dict[int, _Loaded] = {}
        self._packers: dict[str, tuple[Packer, ...]] = {
            kernel: packers(types, program.entries[kernel].sizes)
            for kernel, types in program.plan.types.items()
        }

    def warmup(self, device: int | None = None) -> None:
        """Assemble and load for `device` (the current one by default), so that a later launch does
        nothing but launch and may be captured in a CUDA graph.
        """
        cuda = _cuda()
        chosen: int = cuda.runtime.getDevice() if device is None else device
        if chosen not in self._devices:
            with cuda.Device(chosen):
                self._devices[chosen] = self._load(chosen)

    def launch(self, bound: Bound, stream: Any = None) -> PreparedCall | None:
        """Launch every kernel of the program in order; raises ValueError for arrays of two devices,
        RuntimeError for a device that does not fit or for a first call under graph capture.

        Returns the call to repeat while the same arrays live, None for host arrays.
        """
        cuda = _cuda()
        runtime = cuda.runtime
        anchor, host = self._placement(bound)
        current = runtime.getDevice()
        device = current if anchor is None else anchor.device
        assert device is not None
        switch: AbstractContextManager[Any] = (
            nullcontext() if device == current else cuda.Device(device)
        )
        with switch:
            handle = current_handle(anchor, device) if stream is None else stream_handle(stream)
            loaded = self._devices.get(device)
            if loaded is None or host:
                self._refuse_capture(runtime, handle, loaded is None)
            if loaded is None:
                loaded = self._devices[device] = self._load(device)
            if host:
                with staged(self._program.signature, bound, handle) as moved:
                    # The staging waits for the launches, so that the memory may go after it.
                    launches, _placed = self._prepare(loaded, moved, handle)
                    self._run(launches, handle)
                return None
            launches, placed = self._prepare(loaded, bound, handle)
            with self._ordered(runtime, bound, handle):
                self._run(launches, handle)
            loaded.memory.release(placed, handle)
        if placed.captured:
            return None
        return PreparedCall(device, from_torch(anchor), launches, placed.memory, placed.stream)

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
    def _ordered(self, runtime: Any, bound: Bound, handle: int) -> Iterator[None]:
        """Launches behind the work that the arrays' libraries have still to do on them, and in
        front of what they do next. A graph under capture holds nothing of other streams.
        """
        streams: set[int] = set()
        for _, value in tensors_of(self._program.signature, bound):
            if value.stream is not None and value.stream != handle:
                streams.add(value.stream)
            if value.exporter is not None:
                order_behind(value.exporter, handle)
        if streams and runtime.streamIsCapturing(handle):
            streams.clear()
        for stream in streams:
            wait_for(runtime, stream, handle)
        yield
        for stream in streams:
            wait_for(runtime, handle, stream)

    def _run(self, launches: tuple[tuple[Any, ...], ...], handle: int) -> None:
        stream = Stream(handle)
        for function, grid, block, smem, arguments in launches:
            function(grid, block, arguments, smem, stream)

    def _prepare(
        self, loaded: _Loaded, bound: Bound, handle: int
    ) -> tuple[tuple[tuple[Any, ...], ...], Placed]:
        """Plan the launches and pack their arguments; returns them and what they point to."""
        launches: list[tuple[Any, ...]] = []
        arguments = [_planned(value) for value in bound]
        placed = loaded.memory.place(self._program.plan.run(arguments, loaded.sm_count), handle)
        for launch in placed.launches:
            function = loaded.functions[launch.kernel]
            if launch.smem > loaded.smem.get(launch.kernel, _DEFAULT_DYNAMIC_SMEM):
                _cuda().driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SMEM, launch.smem)
                loaded.smem[launch.kernel] = launch.smem
            packed = tuple(
                [
                    pack(value)
                    for pack, value in zip(
                        self._packers[launch.kernel], launch.arguments, strict=True
                    )
                ]
            )
            launches.append((function, launch.grid, (launch.block, 1, 1), launch.smem, packed))
        return tuple(launches), placed

    def _load(self, device: int) -> _Loaded:
        cuda = _cuda()
        program = self._program
        capability = cuda.Device(device).compute_capability
        arch = device_arch(capability, program.arch)
        if arch is None:
            described = cuda.runtime.getDeviceProperties(device)["name"].decode()
            raise RuntimeError(
                misfit(program.name, program.arch, f"device {device} ({described})", capability)
            )
        try:
            image = assembled(program.ptx, arch).cubin
        except PtxasNotFoundError:
            # The driver assembles PTX too; it only does not tell what it dropped.
            image = program.ptx.encode() + b"\0"
        module = cuda.function.Module()
        module.load(image)
        functions = {kernel: module.get_function(kernel) for kernel in program.plan.types}
        for kernel, cluster in program.plan.clusters.items():
            if prod(cluster) > _PORTABLE_CLUSTER:
                cuda.driver.funcSetAttribute(functions[kernel].ptr, _NON_PORTABLE_CLUSTER, 1)
        sm_count = cuda.runtime.deviceGetAttribute(_MULTIPROCESSOR_COUNT, device)
        loaded = _Loaded(functions, sm_count, DeviceMemory(cuda, program.name))
        for kernel, cluster in program.plan.clusters.items():
            if prod(cluster) > 1:
                self._fit(loaded, kernel, cluster)
        return loaded

    def _fit(self, loaded: _Loaded, kernel: str, cluster: tuple[int, int, int]) -> None:
        """Count no more multiprocessors than clusters of a kernel can be on at one time."""
        function, smem = loaded.functions[kernel], self._program.plan.smem[kernel]
        if smem > _DEFAULT_DYNAMIC_SMEM:
            _cuda().driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SMEM, smem)
            loaded.smem[kernel] = smem
        # What `.reqntid` in the PTX says.
        threads = _cuda().driver.funcGetAttribute(_MAX_THREADS_PER_BLOCK, function.ptr)
        clusters = active_clusters(function.ptr, cluster, threads, smem)
        if clusters is not None:
            loaded.sm_count = min(loaded.sm_count, clusters * prod(cluster))

    def _refuse_capture(self, runtime: Any, handle: int, first: bool) -> None:
        if not runtime.streamIsCapturing(handle):
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
