"""The launcher without a GPU: the same program, plan and argument checks, with every kernel run by
the PTX emulator on NumPy arrays.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cutedialect.backend.runtime.arguments import Bound, Packer, packers
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.host import POINTER, TABLE, TENSOR_MAP
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.backend.runtime.progress_line import ProgressLine
from cutedialect.backend.runtime.tables import emulated_table
from cutedialect.backend.runtime.tensor_maps import emulated
from cutedialect.backend.runtime.workspaces import Workspace, emulated_workspace

if TYPE_CHECKING:
    from cutedialect.backend.emulator import Report


# What `cute.sm_count` is in the emulator: few enough that small problems have a second wave.
SM_COUNT = 4
# A kernel that takes longer shows how far it is.
_SHOWN_AFTER_SECONDS = 2.0


class EmulatedLauncher:
    """Runs a program in the emulator; `reports` are those of the last call, one per kernel, and
    `arguments` what it took: (shape, strides) of a tensor, a list of such of a group, a number.
    """

    name = "emulator"

    def __init__(self, program: CompiledProgram) -> None:
        self._program = program
        self.reports: tuple[Report, ...] = ()
        self.arguments: tuple[Any, ...] = ()
        self._packers: dict[str, tuple[Packer, ...]] = {}
        for kernel, types in program.plan.types.items():
            exact = packers(types, program.entries[kernel].sizes)
            self._packers[kernel] = tuple(
                _PACKERS.get(type_, pack) for type_, pack in zip(types, exact, strict=True)
            )

    def warmup(self, device: int | None = None) -> None:
        """Nothing to load."""

    def launch(self, bound: Bound, stream: Any = None) -> None:
        """Run every kernel to its end; raises EmulatorError for a fault of the kernel."""
        from cutedialect.backend import emulator

        if stream is not None:
            raise ValueError("stream: expected None with the emulator, got a stream")
        arguments = [self._argument(value) for value in bound]
        reports: list[Report] = []
        line = ProgressLine()
        memory: dict[Workspace, np.ndarray] = {}
        for launch in self._program.plan.run(arguments, SM_COUNT):
            for value in launch.arguments:
                if type(value) is Workspace and value not in memory:
                    memory[value] = emulated_workspace(value)
            flat = [
                pack(memory[value] if type(value) is Workspace else value)
                for pack, value in zip(self._packers[launch.kernel], launch.arguments, strict=True)
            ]
            more: dict[str, Any] = {}
            if line.is_shown:
                more["progress"] = _shown(line, launch.kernel)
            try:
                report = emulator.launch(
                    self._program.ptx,
                    launch.kernel,
                    launch.grid,
                    launch.block,
                    flat,
                    launch.smem,
                    launch.cluster,
                    **more,
                )
            except emulator.EmulatorError as error:
                line.clear()
                sys.stdout.write(error.output)
                raise
            finally:
                line.clear()
            sys.stdout.write(report.output)
            reports.append(report)
        self.reports = tuple(reports)
        self.arguments = tuple(_looks(value) for value in bound)
        for workspace, left in memory.items():
            if workspace.zeroed and left.any():
                raise RuntimeError(
                    f"expected kernel '{self._program.name}' to leave zeros in its workspace, got "
                    f"{np.count_nonzero(left)} other elements"
                )
        self._check_assertions(reports)

    def _check_assertions(self, reports: Sequence[Report]) -> None:
        """Raise the first assertion that failed; the kernels have run to their ends."""
        found = self._program.assertions
        if found is None:
            return
        for report in reports:
            status = report.variables.get(found.symbol)
            word = 0 if status is None else int(status.view(np.uint64)[0])
            error = found.error(self._program.name, word)
            if error is not None:
                raise error

    def _argument(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._argument(each) for each in value]
        if not isinstance(value, TensorArgument):
            return value
        if value.array is None:
            raise ValueError(
                f"expected arrays in host memory for the emulator, got one on device {value.device}"
            )
        return value.array, value.shape, value.strides


def _looks(value: Any) -> Any:
    if isinstance(value, list):
        return [_looks(each) for each in value]
    return (value.shape, value.strides) if isinstance(value, TensorArgument) else value


def _shown(line: ProgressLine, kernel: str) -> Callable[[int, int, int], None]:
    """What shows how far a kernel is that takes a while."""
    begun = time.monotonic()

    def show(done: int, ctas: int, instructions: int) -> None:
        seconds = time.monotonic() - begun
        if seconds >= _SHOWN_AFTER_SECONDS:
            line.show(
                f"emulator: {kernel}, {done} of {ctas} CTAs done, {instructions:,} instructions, "
                f"{seconds:.0f} s"
            )

    return show


def _array(value: np.ndarray) -> np.ndarray:
    return value


_PACKERS: dict[str, Packer] = {POINTER: _array, TENSOR_MAP: emulated, TABLE: emulated_table}
