"""Prints the `ptx.kernel` ops of a module as one PTX text."""

from __future__ import annotations

from typing import TextIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from cutedialect import environment
from cutedialect.dialects.ptx import KernelOp, MmaOp

from .assertions import DECLARATION, Assertions
from .kernel_printer import Files, KernelPrinter
from .printf import PROTOTYPE
from .target import version_of


def print_ptx(module: ModuleOp, output: TextIO, *, verify: bool | None = None) -> None:
    """Print every `ptx.kernel` of a module as one PTX text; `verify` is that of `ptx_text`."""
    output.write(ptx_text(module, verify=verify))


def ptx_text(module: ModuleOp, *, verify: bool | None = None) -> str:
    """The PTX text of every `ptx.kernel` of a module; ValueError when there is none. With `verify`,
    which is what the environment says if left out, an instruction that the target has not is a
    VerifyException at its op.
    """
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    if not kernels:
        raise ValueError("expected a ptx.kernel in the module (run convert-to-ptx), got none")
    target = kernels[0].target.data
    for kernel in kernels:
        if kernel.target.data != target:
            raise VerifyException(
                f"expected one target in a module, got {target} and {kernel.target.data}", kernel
            )
    if verify is None:
        verify = environment.verify_ptx()
    files = Files()
    assertions = Assertions()
    bodies: list[str] = []
    declarations: list[str] = []
    products: set[str] = set()
    for kernel in kernels:
        printer = KernelPrinter(kernel, files, len(declarations), assertions)
        bodies.append(printer.print())
        declarations += printer.declarations
        products |= {f"mma.{op.modifiers.data}" for op in printer.ops if type(op) is MmaOp}
        if verify:
            from .line_check import check_lines

            check_lines(printer.body.lines, printer.first_lines, printer.ops, target)
    if any(line.startswith(".global") for line in declarations):
        declarations.insert(0, PROTOTYPE)
    if assertions.numbers:
        declarations.append(DECLARATION)
    head = [f".version {version_of(target, products)}", f".target {target}", ".address_size 64", ""]
    tail = [f'\t.file {number} "{path}"' for path, number in files.numbers.items()]
    tail += assertions.comments()
    return "\n".join([*head, *declarations, *bodies, *tail]) + "\n"
