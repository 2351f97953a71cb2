"""A program loaded on one device, as a launcher wants it: `DriverModule` by calls of the driver,
`CupyModule` (cupy_modules.py) by CuPy. What they differ in is how kernels get there and how they
are launched; arguments, workspaces and streams are the launcher's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from cutedialect.backend.runtime.device_memory import Allocation, DeviceMemory
from cutedialect.backend.runtime.driver import MAX_DYNAMIC_SMEM, Driver
from cutedialect.backend.runtime.errors import PtxasNotFoundError
from cutedialect.backend.runtime.packets import Entry, Numbers, Pointers, Template
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.backend.runtime.ptxas import Assembly
from cutedialect.backend.runtime.target_fit import check_driver

# What a kernel has without opting in: dynamic shared memory in bytes, CTAs of a cluster.
DEFAULT_DYNAMIC_SMEM = 48 * 1024
PORTABLE_CLUSTER = 8

Assembler = Callable[[str], Assembly]
"""The machine code of a program for an architecture; raises CompileError."""


class Launches(Protocol):
    """The launches of a call, for calls that differ in pointers and numbers alone."""

    def run(self, pointers: Pointers, numbers: Numbers, handle: int) -> None:
        """Launch on the stream `handle` with the tensors at `pointers`."""
        ...


class Module(Protocol):
    """A program on one device, whose context is current in every call."""

    @property
    def functions(self) -> Mapping[str, int]:
        """The CUfunction of each kernel."""
        ...

    def address(self, variable: str) -> int:
        """The address of a variable in global memory."""
        ...

    def allow_smem(self, kernel: str, size: int) -> None:
        """Let a kernel ask for `size` bytes of dynamic shared memory, more than 48 KB."""
        ...

    def launches(
        self,
        device: int,
        entries: tuple[Entry, ...],
        memory: DeviceMemory,
        needs: tuple[int, int],
        tables: tuple[Allocation, ...],
    ) -> Launches:
        """What launches the entries one after the other."""
        ...


Loader = Callable[[Driver, CompiledProgram, str, Assembler], Module]
"""Loads a program, assembled for an architecture, in the current context."""


class DriverModule:
    """A program that the driver has loaded: its cubin, or without ptxas its PTX text."""

    def __init__(
        self, driver: Driver, program: CompiledProgram, arch: str, assembler: Assembler
    ) -> None:
        try:
            image = assembler(arch).cubin
        except PtxasNotFoundError:
            # The driver assembles PTX too; it only does not tell what it dropped.
            check_driver(
                driver,
                program.name,
                program.ptx,
                "pip install 'cutedialect[ptxas]' assembles it here instead",
            )
            image = program.ptx.encode() + b"\0"
        self._driver = driver
        self._module = driver.load(image)
        self.functions = {
            name: driver.module_function(self._module, name) for name in program.plan.types
        }

    def address(self, variable: str) -> int:
        return self._driver.module_variable(self._module, variable)

    def allow_smem(self, kernel: str, size: int) -> None:
        self._driver.set_function_attribute(self.functions[kernel], MAX_DYNAMIC_SMEM, size)

    def launches(
        self,
        device: int,
        entries: tuple[Entry, ...],
        memory: DeviceMemory,
        needs: tuple[int, int],
        tables: tuple[Allocation, ...],
    ) -> Template:
        return Template(self._driver, device, entries, memory, needs, tables)
