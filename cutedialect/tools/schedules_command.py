"""`python -m cutedialect schedules [--dtype bf16] [--problem MxNxK [--majors TN]]`: the schedules
from which `cute.gemm` chooses, and what it chooses for a problem that was never tuned. The mark is
read off the kernel that is compiled for the problem. `--attention BxHxRxKxD [--causal]` lists those
of `cute.attention`, `--kernel FILE.py:NAME SPEC...` those of a program.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import Any

from cutedialect.choosing.gemm_price import cycles
from cutedialect.choosing.gemm_problem import Problem
from cutedialect.choosing.gemm_schedules import fits, gemm_schedules
from cutedialect.frontend.dtypes import as_dtype
from cutedialect.frontend.launch import check_arch
from cutedialect.schedule import Schedule

from .attention_listing import list_attention
from .kernel_arguments import ARGUMENTS
from .program_listing import list_program

# Element widths of operands with a list, and the type that stands for each.
_WIDTHS = {16: "bf16", 8: "e4m3", 32: "f32"}
_LISTED = "sm_90a"
_MAJORS = ("TN", "TT", "NN", "NT")


@dataclass(frozen=True)
class Choice:
    """A listed schedule; `cycles` is its estimate for the problem, None without one."""

    bits: int
    schedule: Schedule
    cycles: float | None = None
    chosen: bool = False


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect schedules",
        description="The schedules from which cute.gemm chooses, and its choice for a problem.",
        epilog=ARGUMENTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bits", type=int, choices=_WIDTHS, help="width of an operand's element")
    parser.add_argument("--dtype", help="type of the operands, such as bf16; implies the width")
    parser.add_argument("--arch", default=_LISTED, help=f"target (default {_LISTED})")
    parser.add_argument("--problem", metavar="MxNxK", help="mark what is chosen for these sizes")
    parser.add_argument("--batch", type=int, default=1, help="products of the problem (default 1)")
    parser.add_argument(
        "--majors",
        choices=_MAJORS,
        default="TN",
        help="of a and b in the problem: TN (default) is both contiguous along K, NT neither",
    )
    parser.add_argument(
        "--attention", metavar="BxHxRxKxD", help="list for cute.attention of these sizes instead"
    )
    parser.add_argument("--causal", action="store_true", help="of an attention that is causal")
    parser.add_argument("--kernel", metavar="FILE.py:NAME", help="list for a @cute.kernel function")
    parser.add_argument("arguments", nargs="*", metavar="SPEC", help="its arguments, see below")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="its keyword arguments"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    check_arch(options.arch)
    if options.kernel is not None:
        return list_program(
            options.kernel, options.arguments, options.set, options.arch, options.json
        )
    if options.arguments or options.set:
        parser.error("expected arguments with --kernel alone")
    if options.batch < 1:
        raise ValueError(f"--batch: expected 1 or more, got {options.batch}")
    if options.attention is not None:
        dtype = options.dtype or _WIDTHS[options.bits or 16]
        sizes = options.attention
        return list_attention(sizes, dtype, options.arch, options.causal, options.json)
    sizes = None if options.problem is None else _sizes(options.problem)
    dtypes = _dtypes(options.dtype, options.bits, sizes is not None)
    listed = [choice for dtype in dtypes for choice in _listed(dtype, options.arch)]
    default = None
    if sizes is not None:
        default = default_schedule(sizes, options.batch, dtypes[0], options.arch, options.majors)
        listed = marked(listed, default, sizes, options.batch, dtypes[0], options.majors)
        if not _has_list(dtypes[0], options.majors):
            listed = []
    if options.json:
        print(json.dumps(_described(options.arch, listed, default)))
    else:
        _show(options.arch, listed, default)
    return 0


def default_schedule(
    sizes: tuple[int, int, int], batch: int, dtype: str, arch: str, majors: str = "TN"
) -> Schedule:
    """What `cute.gemm` runs where nothing was tuned."""
    cute: Any = import_module("cutedialect")
    m, n, k = sizes
    outer = () if batch == 1 else (batch,)
    free = (None,) * len(outer)
    a, b = (
        cute.TensorSpec(
            (*outer, *shape), dtype, (*free, None, 1) if major == "T" else (*free, 1, None)
        )
        for shape, major in zip(((m, k), (k, n)), majors, strict=True)
    )
    kernel = cute.compile(cute.gemm, a, b, arch=arch, backend="emulator")
    return Schedule.parse(kernel.schedule)


def marked(
    listed: Sequence[Choice],
    default: Schedule,
    sizes: tuple[int, int, int],
    batch: int,
    dtype: str,
    majors: str = "TN",
) -> list[Choice]:
    """The list with estimates for a problem that they suit, and the default's entry marked; one
    more where that has a tile of a width of its own.
    """
    bits = as_dtype(dtype).bits
    out_bits = {"e4m3": 16, "e5m2": 16, "i8": 32, "u8": 32}.get(dtype, bits)
    across = (majors[0] == "N", majors[1] == "T") if bits == 8 else (False, False)
    problem = Problem(*sizes, batch, bits, out_bits, transposed=across)
    fields = ("tile", "cluster", "roles", "swap_ab")
    entry = Schedule(**{name: getattr(default, name) for name in fields})
    if listed and entry.cluster and all(each.schedule != entry for each in listed):
        listed = [*listed, Choice(bits, entry)]
    return [
        Choice(
            each.bits,
            each.schedule,
            cycles(each.schedule, problem) if fits(each.schedule, problem) else None,
            default.merged(each.schedule) == default,
        )
        for each in listed
    ]


def _listed(dtype: str, arch: str) -> list[Choice]:
    bits = as_dtype(dtype).bits
    if arch != _LISTED:
        return []
    return [Choice(bits, schedule) for schedule in gemm_schedules(bits)]


def _has_list(dtype: str, majors: str) -> bool:
    """Whether warpgroups multiply the operands: those of 32 bits where K is contiguous."""
    return as_dtype(dtype).bits != 32 or majors == "TN"


def _dtypes(dtype: str | None, bits: int | None, for_problem: bool) -> list[str]:
    """The types to list: the one asked for, else one of each width."""
    if dtype is not None:
        found = as_dtype(dtype, "--dtype")
        if found.bits not in _WIDTHS or (bits is not None and found.bits != bits):
            expected = bits if bits is not None else ", ".join(map(str, sorted(_WIDTHS)))
            raise ValueError(
                f"--dtype: expected a type of {expected} bits, got {found.name} of {found.bits}"
            )
        return [found.name]
    if bits is not None:
        return [_WIDTHS[bits]]
    return [_WIDTHS[16]] if for_problem else list(_WIDTHS.values())


def _sizes(text: str) -> tuple[int, int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text)
    if match is None or not prod(map(int, match.groups())):
        raise ValueError(f"--problem: expected MxNxK such as 4096x4096x4096, got '{text}'")
    m, n, k = map(int, match.groups())
    return m, n, k


def _show(arch: str, listed: Sequence[Choice], default: Schedule | None) -> None:
    if not listed:
        print(
            f"{arch} has no list for this: the tile follows from the element type and the problem"
        )
    else:
        print(f"{len(listed)} schedules for {arch}")
    for choice in listed:
        mark = "*" if choice.chosen else " "
        known = default is not None and choice.cycles is not None
        estimate = f"{choice.cycles:>14,.0f} cycles" if known else " " * 21 if default else ""
        print(f"{mark} {choice.bits:2} bits{estimate}  {choice.schedule.text()}")
    if default is not None:
        print(f"default: {default.text()}")


def _described(arch: str, listed: Sequence[Choice], default: Schedule | None) -> dict[str, object]:
    return {
        "arch": arch,
        "schedules": [
            {
                "bits": choice.bits,
                "schedule": choice.schedule.text(),
                "cycles": choice.cycles,
                "chosen": choice.chosen,
            }
            for choice in listed
        ],
        "default": None if default is None else default.text(),
    }
