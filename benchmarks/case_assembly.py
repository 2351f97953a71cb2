"""What assemblers say of the default kernels of the listed cases for Blackwell (`benchmarks.cases`:
products, attention and its gradients).

    python -m benchmarks.case_assembly [TEXT] [--kind KIND] [--target NAME] [--ptxas PATH]
                                       [--jobs N]

TEXT picks the cases that have it in their name. Each is compiled for each target, and assembled by
the newest ptxas of each CUDA from 12.9 on that is found, and by those that `--ptxas` names. A row
is printed for what spills, loses speed (C75xx), has a warning, or is refused, and the exit status
is 1 then.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from .attention_backward_assembly import losses, pool, print_losses
from .cases import named, select
from .random_gemms import releases

TARGETS = ("sm_100a", "sm_103a")


def found(work: tuple[str, str], tools: Sequence[Path]) -> tuple[str, ...]:
    """What each assembler says of a case's default for a target, of a kernel without a loss
    nothing. `work` has the case's name and the target.
    """
    name, target = work
    return losses(partial(named(name).compiled, None, target), tools)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.case_assembly",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("only", metavar="TEXT", nargs="?", help="cases with this in their name")
    parser.add_argument("--kind", default="", help="gemm, attention or attention_backward")
    parser.add_argument("--target", metavar="NAME", action="append", help=", ".join(TARGETS))
    parser.add_argument("--ptxas", metavar="PATH", type=Path, action="append", help="by this, too")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count(), help="processes")
    options = parser.parse_args(arguments)
    tools = releases(options.ptxas or ())
    names = dict.fromkeys(case.name for case in select(options.only, kind=options.kind))
    work = [(name, target) for name in names for target in options.target or TARGETS]
    asked = partial(found, tools=[each.path for each in tools])
    with pool(options.jobs) as processes:
        results = map(asked, work) if processes is None else processes.map(asked, work)
        return print_losses(tools, [(f"{name} {target}", "") for name, target in work], results)


if __name__ == "__main__":
    sys.exit(main())
