"""`python -m cutedialect model FILE SHAPE...`: how many cycles a launch of a kernel takes by the
static model, and where they go in each role. FILE is the IR of the last stage, `convert-to-ptx`, as
`kernel.stages` and the command `compile` have it. No GPU is needed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError

from cutedialect.dialects import all_dialects
from cutedialect.model import Kernel, Prediction, predict
from cutedialect.tools.locating_parser import LocatingParser

_ARGUMENTS = """arguments, in the order of the kernel's parameters:
  8192x4096          a tensor of these extents, the last mode contiguous
  4096x8192:1,4096   another order: strides in elements
  1.0                a number
"""
_SHAPE = re.compile(r"(\d+(?:x\d+)*)(?::(\d+(?:,\d+)*))?")
_SHOWN = ("issue", "tensor", "sfu", "fma", "alu", "shuffle", "tensor memory")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect model",
        description="Predict the cycles of a launch, and where they go, without a GPU.",
        epilog=_ARGUMENTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", help="IR of the stage convert-to-ptx; - is the input")
    parser.add_argument("arguments", nargs="*", metavar="SHAPE", help="an argument, see below")
    options = parser.parse_args(arguments)
    text = (
        sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8")
    )
    print(described(predict(parsed(text), [argument(each) for each in options.arguments])))
    return 0


def parsed(text: str) -> ModuleOp:
    """The module of a stage's text; ValueError where it does not parse."""
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    try:
        return LocatingParser(context, text, "input").parse_module()
    except ParseError as error:
        raise ValueError(f"expected IR of a kernel: {error}") from error


def argument(text: str) -> Any:
    """(shape, strides) of a tensor, or a number.

    >>> argument("64x32"), argument("64x32:1,64"), argument("0.5")
    (((64, 32), (32, 1)), ((64, 32), (1, 64)), 0.5)
    """
    found = _SHAPE.fullmatch(text)
    if found is None or ("x" not in text and found[2] is None):
        try:
            return int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            raise ValueError(
                f"expected extents such as 8192x4096 or a number, got '{text}'"
            ) from None
    shape = tuple(map(int, found[1].split("x")))
    if found[2] is None:
        return shape, packed(shape)
    strides = tuple(map(int, found[2].split(",")))
    if len(strides) != len(shape):
        raise ValueError(f"expected {len(shape)} strides, got '{text}'")
    return shape, strides


def packed(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor whose last mode is contiguous, without gaps."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides)


def described(prediction: Prediction) -> str:
    """A prediction as a table."""
    device = prediction.device
    lines = [
        f"{prediction.cycles:,.0f} cycles on {device.name}, "
        f"{prediction.seconds * 1e6:.1f} us at {device.clock / 1e6:.0f} MHz"
    ]
    for kernel in prediction.kernels:
        lines += _kernel(kernel)
    return "\n".join(lines)


def _kernel(kernel: Kernel) -> list[str]:
    lines = [
        f"@{kernel.name}: {kernel.cycles:,.0f} cycles of {kernel.rounds:.1f} rounds, "
        f"{kernel.bytes / 1e6:.1f} MB of memory; most: {kernel.bound}",
    ]
    for role in kernel.roles:
        first, last = role.warps[0], role.warps[-1]
        name = f"{role.name} ({first})" if first == last else f"{role.name} ({first} to {last})"
        busy = [
            f"{unit} {role.busy[unit] / kernel.alone:.0%}" for unit in _SHOWN if unit in role.busy
        ]
        waits = [
            f"{what} {time / kernel.alone:.0%}"
            for what, time in sorted(role.waited.items())
            if time > kernel.alone / 100
        ]
        moved = [f"{where} {amount / 1e3:,.0f} kB" for where, amount in sorted(role.bytes.items())]
        lines.append(f"  {name:18} " + ", ".join(busy))
        for head, facts in (("waits for", waits), ("moves", moved)):
            if facts:
                lines.append(f"  {'':18} {head} " + ", ".join(facts))
    return lines
