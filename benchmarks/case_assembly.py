"""What assemblers say of the default kernels of the listed cases for Blackwell (`benchmarks.cases`:
products, attention and its gradients).

    python -m benchmarks.case_assembly [TEXT] [--kind KIND] [--target NAME] [--ptxas PATH]
                                       [--jobs N]
    python -m benchmarks.case_assembly --forms [TEXT] [--target NAME] [--ptxas PATH] [--jobs N]

TEXT picks the cases that have it in their name. `--forms` has attention of each head dimension and
type instead, without a mask and causal, with as many heads of K and V as of Q and with fewer.
Each is compiled for each target, and assembled by
the newest ptxas of each CUDA from 12.9 on that is found, and by those that `--ptxas` names. A row
is printed for what spills, loses speed (C75xx), has a warning, or is refused, and the exit status
is 1 then.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import cutedialect as cute

from .attention_backward_assembly import losses, pool, print_losses
from .cases import named, select
from .random_gemms import releases

TARGETS = ("sm_100a", "sm_103a")
# Of `--forms`: columns of Q and K and those of V, the widest first; rows and keys; heads of Q.
_COLUMNS = (*((depth, depth) for depth in range(256, 16, -16)), (192, 128))
_ROWS, _HEADS, _SHARED = 8192, 16, 4


@dataclass(frozen=True)
class Form:
    """Attention of many rows: columns of Q and of V, an element type, whether rows see the keys
    before them alone, and how many heads K and V have.
    """

    columns: tuple[int, int]
    dtype: str
    causal: bool
    heads: int

    @property
    def name(self) -> str:
        (depth, width), mask = self.columns, "causal" if self.causal else "full"
        return f"{_HEADS}/{self.heads}x{depth}/{width} {mask} {self.dtype}"

    def compiled(self, schedule: str | None, target: str) -> cute.Kernel:
        """The kernel of a target, the default one without a schedule."""
        (depth, width), rows = self.columns, (1, _HEADS, _ROWS)
        keys = 1, self.heads, _ROWS
        specs = [
            cute.TensorSpec(shape, self.dtype)
            for shape in ((*rows, depth), (*keys, depth), (*keys, width))
        ]
        given: dict[str, Any] = {"schedule": schedule, "arch": target, "causal": self.causal}
        return cute.compile(cute.attention, *specs, **given)


def forms() -> dict[str, Form]:
    """All of them by name."""
    listed = product(_COLUMNS, ("bf16", "f16", "e4m3"), (False, True), (_HEADS, _SHARED))
    return {form.name: form for form in (Form(*each) for each in listed)}


def found(work: tuple[str, str], tools: Sequence[Path]) -> tuple[str, ...]:
    """What each assembler says of the default of a case or a form for a target, of a kernel without
    a loss nothing. `work` has the name and the target.
    """
    name, target = work
    case = forms().get(name) or named(name)
    return losses(partial(case.compiled, None, target), tools)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.case_assembly",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("only", metavar="TEXT", nargs="?", help="cases with this in their name")
    parser.add_argument("--kind", default="", help="gemm, attention or attention_backward")
    parser.add_argument("--forms", action="store_true", help="attention of each head dimension")
    parser.add_argument("--target", metavar="NAME", action="append", help=", ".join(TARGETS))
    parser.add_argument("--ptxas", metavar="PATH", type=Path, action="append", help="by this, too")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count(), help="processes")
    options = parser.parse_args(arguments)
    tools = releases(options.ptxas or ())
    if options.forms:
        names = [name for name in forms() if re.search(options.only or "", name)]
    else:
        names = list(dict.fromkeys(x.name for x in select(options.only, kind=options.kind)))
    work = [(name, target) for name in names for target in options.target or TARGETS]
    asked = partial(found, tools=[each.path for each in tools])
    with pool(options.jobs) as processes:
        results = map(asked, work) if processes is None else processes.map(asked, work)
        return print_losses(tools, [(f"{name} {target}", "") for name, target in work], results)


if __name__ == "__main__":
    sys.exit(main())
