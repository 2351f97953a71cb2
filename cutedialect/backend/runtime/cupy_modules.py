"""Kernels through CuPy: a `cupy.RawModule` of the PTX text or the cubin, and launches by its
`RawKernel`s, to which arguments go by value as NumPy scalars and tensor maps as structured arrays
of 128 bytes. CuPy launches by `cuLaunchKernel`, so that clusters are those which the PTX text asks
for, and attributes of a launch cannot be passed (`unpassed`).
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cutedialect.backend.runtime.arguments import Packer
from cutedialect.backend.runtime.device_memory import Allocation, DeviceMemory, Located
from cutedialect.backend.runtime.devices import import_cupy
from cutedialect.backend.runtime.driver import NON_PORTABLE_CLUSTER, Driver
from cutedialect.backend.runtime.kept import Kept
from cutedialect.backend.runtime.modules import (
    DEFAULT_DYNAMIC_SMEM,
    PORTABLE_CLUSTER,
    Assembler,
)
from cutedialect.backend.runtime.packets import Address, Entry, Number, Numbers, Pointers
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.backend.runtime.target_fit import check_driver
from cutedialect.backend.runtime.tensor_maps import TensorMapArgument, encoded
from cutedialect.remarks import Remark

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

Form = Literal["ptx", "cubin"]
"""What CuPy loads: the text, which the driver assembles, or what ptxas made of it."""

# Calls with other pointers whose arguments are kept.
_KEPT = 64


def unpassed(program: CompiledProgram) -> tuple[Remark, ...]:
    """What a launch through CuPy leaves out."""
    early = [name for name in program.plan.types if program.entries[name].is_early]
    return tuple(
        Remark(
            "cupy",
            f"kernel '{name}' starts when the launch in front of it has ended: CuPy passes no "
            "attributes of a launch, so none for an early one (early_launch); backend='cuda' "
            "passes it",
        )
        for name in early
    )


class CupyModule:
    """A program that CuPy has loaded on its current device, in the form `form`; `raw` is the
    `cupy.RawModule`, `kernels` are its `RawKernel`s by name.

    Raises ImportError without CuPy, RuntimeError for a driver that is too old for the PTX text or
    that refuses it, CompileError for a cubin that ptxas does not make.
    """

    def __init__(
        self,
        driver: Driver,
        program: CompiledProgram,
        arch: str,
        assembler: Assembler,
        form: Form = "ptx",
    ) -> None:
        cupy = import_cupy("a launch through CuPy")
        if form == "ptx":
            check_driver(
                driver, program.name, program.ptx, "with ptxas here, the form 'cubin' needs no PTX"
            )
            image = program.ptx.encode()
        else:
            image = assembler(arch).cubin
        self._driver, self._program = driver, program
        try:
            self.raw = cupy.RawModule(path=str(_file(program.name, form, image)))
            self.kernels = {name: self.raw.get_function(name) for name in program.plan.types}
        except RuntimeError as error:  # those of CuPy's calls of the driver
            said = "; kernel.cubin tells what ptxas says of it" if form == "ptx" else ""
            raise RuntimeError(
                f"expected CuPy to load the {form} of kernel '{program.name}' for {arch}, got "
                f"{error}{said}"
            ) from error
        self.functions = {name: kernel.kernel.ptr for name, kernel in self.kernels.items()}

    def opt_in(self) -> CupyModule:
        """Let kernels have the shared memory and the clusters that they are launched with."""
        for name, size in self._program.plan.smem.items():
            if size > DEFAULT_DYNAMIC_SMEM:
                self.allow_smem(name, size)
        for name, cluster in self._program.plan.clusters.items():
            if prod(cluster) > PORTABLE_CLUSTER:  # CuPy has no name for this attribute
                self._driver.set_function_attribute(self.functions[name], NON_PORTABLE_CLUSTER, 1)
        return self

    def address(self, variable: str) -> int:
        return self.raw.get_global(variable).ptr

    def allow_smem(self, kernel: str, size: int) -> None:
        self.kernels[kernel].max_dynamic_shared_size_bytes = size

    def launches(
        self,
        device: int,
        entries: tuple[Entry, ...],
        memory: DeviceMemory,
        needs: tuple[int, int],
        tables: tuple[Allocation, ...],
    ) -> CupyLaunches:
        kernels = tuple(self.kernels[entry.launch.kernel] for entry in entries)
        return CupyLaunches(self._driver, device, kernels, entries, memory, needs, tables)


class _Stream(NamedTuple):
    """A stream as CuPy's launches read it."""

    ptr: int


class _Open(NamedTuple):
    """An argument that differs between calls with the same pointers: its place, what it is, and how
    it is packed.
    """

    place: int
    value: Any
    pack: Packer


class _Packed(NamedTuple):
    """A launch with its arguments for some pointers."""

    kernel: Any
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    smem: int
    arguments: tuple[Any, ...]
    open: tuple[_Open, ...]


class CupyLaunches:
    """Launches through `cupy.RawKernel` for calls that differ in pointers and numbers alone, all on
    one device. `run` may be called by several threads at once.
    """

    def __init__(
        self,
        driver: Driver,
        device: int,
        kernels: tuple[Any, ...],
        entries: tuple[Entry, ...],
        memory: DeviceMemory,
        needs: tuple[int, int],
        tables: tuple[Allocation, ...],
    ) -> None:
        self._driver, self._device = driver, device
        self._context = driver.primary_context(device)
        self._get_context = driver.quick("cuCtxGetCurrent")
        self._kernels, self._entries = kernels, entries
        self._memory, self._needs, self._tables = memory, needs, tables
        self._packed: Kept[Pointers, tuple[_Packed, ...]] = Kept(_KEPT)

    def run(self, pointers: Pointers, numbers: Numbers, handle: int) -> None:
        """Launch on the stream `handle` with the tensors at `pointers`. CuPy launches on the device
        of the calling thread's context, which is that of the kernels meanwhile.
        """
        packed = self._packed.get(pointers)
        if packed is None:
            packed = self._pack(pointers)
            self._packed.keep(pointers, packed)
        context = ctypes.c_void_p()
        self._get_context(ctypes.byref(context))
        if context.value == self._context:
            self._run(packed, numbers, handle)
        else:
            with self._driver.on(self._device):
                self._run(packed, numbers, handle)

    def _run(self, packed: tuple[_Packed, ...], numbers: Numbers, handle: int) -> None:
        stream, starts = _Stream(handle), (0, 0)
        if self._tables:
            self._memory.keep_for_graph(self._tables, handle)
        if self._needs != (0, 0):
            starts = self._memory.workspaces(self._needs, handle)
        for kernel, grid, block, smem, arguments, open_ in packed:
            if open_:
                filled = list(arguments)
                for place, value, pack in open_:
                    if type(value) is Located:
                        filled[place] = np.uint64(starts[value.zeroed] + value.start)
                    else:
                        filled[place] = pack(numbers[value.place])
                arguments = tuple(filled)
            kernel(grid, block, arguments, shared_mem=smem, stream=stream)

    def _pack(self, pointers: Pointers) -> tuple[_Packed, ...]:
        packed: list[_Packed] = []
        for kernel, entry in zip(self._kernels, self._entries, strict=True):
            launch, arguments, open_ = entry.launch, [], []
            for place, (value, pack) in enumerate(
                zip(launch.arguments, entry.packers, strict=True)
            ):
                if type(value) in (Located, Number):
                    open_.append(_Open(place, value, pack))
                arguments.append(_by_value(value, pack, pointers))
            block = (launch.block, 1, 1)
            packed.append(
                _Packed(kernel, launch.grid, block, launch.smem, tuple(arguments), tuple(open_))
            )
        return tuple(packed)


def _by_value(value: Any, pack: Packer, pointers: Pointers) -> Any:
    """An argument as CuPy passes it by value; None for what is filled in at the call."""
    if type(value) in (Located, Number):
        return None
    if type(value) is Address:
        return np.uint64(pointers[value.tensor])
    if type(value) is TensorMapArgument and type(value.pointer) is Address:
        return encoded(value._replace(pointer=pointers[value.pointer.tensor]))
    return pack(value)


def _file(name: str, form: Form, image: bytes) -> Path:
    """The file with an image, which stays as long as the process: CuPy reads it anew for each
    device, and remembers a module by its path, so that other contents need another name.
    """
    path = Path(_folder().name) / f"{name}-{hashlib.sha256(image).hexdigest()[:16]}.{form}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{form}.part")
        part.write_bytes(image)
        part.replace(path)
    return path


@cache
def _folder() -> TemporaryDirectory[str]:
    """The folder of this process."""
    import tempfile

    return tempfile.TemporaryDirectory(prefix="cutedialect-", ignore_cleanup_errors=True)
