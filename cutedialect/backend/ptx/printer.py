"""Prints the `ptx.kernel` ops of a module as one PTX text, of the lowest `.version` in which the
target and all that is printed for it exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from cutedialect import environment
from cutedialect.atoms import mma_sync, target
from cutedialect.dialects.ptx import KernelOp, MmaOp

from .assertions import DECLARATION, Numbers, comments
from .kernel_printer import Files, KernelPrinter
from .printf import PROTOTYPE

# First architecture to the PTX version that our instructions for it need, newest first: products of
# fp8 and of mixed signs came with 8.4, L2 policies with 7.4, `tanh` with 7.0.
_INSTRUCTIONS = ((89, (8, 4)), (80, (7, 4)), (70, (7, 0)))
# The block sizes of `tcgen05.mma` and the family targets came together.
_TENSOR_MEMORY = (8, 8)


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
    assertions: Numbers = {}
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
    if assertions:
        declarations.append(DECLARATION)
    head = [f".version {version_of(target, products)}", f".target {target}", ".address_size 64", ""]
    tail = [f'\t.file {number} "{path}"' for path, number in files.numbers.items()]
    if assertions:
        tail += comments(assertions)
    return "\n".join([*head, *declarations, *bodies, *tail]) + "\n"


def version_of(name: str, products: Iterable[str] = ()) -> str:
    """The `.version` to print for a target and for the `mma.sync` in use, by their PTX spelling;
    ValueError for a target that is not known.

    >>> version_of("sm_89"), version_of("sm_100f")
    ('8.4', '8.8')
    """
    chip = target(name)
    versions = [next(version for number, version in _INSTRUCTIONS if chip.number >= number)]
    if chip.tmem_columns and chip.suffix:
        versions.append(_TENSOR_MEMORY)
    used = set(products)
    if used:
        versions += [atom.ptx_version for atom in mma_sync() if atom.ptx in used]
    major, minor = max(chip.ptx_version, *versions)
    return f"{major}.{minor}"
