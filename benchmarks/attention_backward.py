"""The backward pass of attention on the GPU against torch's: correctness against float64, then
paired timings.

    python -m benchmarks.attention_backward [--only REGEX] [--quick] [--rounds N] [--runs N]
                                            [--schedule S] [--json FILE] [--plot FILE] [--check]
    python -m benchmarks.attention_backward --seed N [--budget SECONDS] [--only REGEX] [--scale F]
                                            [--json FILE] [--check]

Ours and the yardstick, the faster of cuDNN's and flash's backward passes, run interleaved in one
process, as CUDA graphs over random inputs rotated past three times L2; a time is that of everything
that a call launches. A ratio is their GPU time over ours, the median of the rounds; above 1 ours is
faster. Windows and packed sequences are compared with flash; `in order` with ours that adds up the
gradients of queries in any order.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .attention_backward_drawn import table
from .supervisor import Supervisor
from .table import run


def main(arguments: Sequence[str] | None = None, supervisor: Supervisor | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if any(each.split("=")[0] == "--seed" for each in given):
        return table(__doc__).run(given, supervisor)
    title = "Attention backward, ratio to the better of cuDNN and flash"
    return run("attention_backward", title, __doc__, arguments, supervisor)


if __name__ == "__main__":
    sys.exit(main())
