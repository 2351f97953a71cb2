"""The target `ptx`: a module of the `ptx` dialect as the text that ptxas and the emulator read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target


@dataclass(frozen=True)
class PTXTarget(Target):
    """Print every `ptx` kernel of the module; an op of another dialect is an error, and so is an
    instruction that the kernel's target has not, unless `verify` is false.
    """

    name = "ptx"

    verify: bool = True

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Write the PTX text of `module` to `output`."""
        from typing import TextIO

        from cutedialect.backend.ptx import print_ptx

        print_ptx(module, cast(TextIO, output), verify=self.verify)
