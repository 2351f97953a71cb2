"""Attention on the GPU against torch's: correctness against float64, then paired timings.

    python -m benchmarks.attention [--only REGEX] [--quick] [--rounds N] [--runs N] [--schedule S]
                                   [--json FILE] [--plot FILE] [--check]
    python -m benchmarks.attention --seed N [--budget SECONDS] [--only REGEX] [--scale F]
                                   [--json FILE] [--check]

Ours and the yardstick, the faster of cuDNN and flash through scaled_dot_product_attention, run
interleaved in one process, as CUDA graphs over random inputs rotated past three times L2. A ratio
is their GPU time over ours, the median of the rounds; above 1 ours is faster. A case that fails is
a row with the reason. Other yardsticks: for `window` their whole causal time and for `own window`
ours, for `packed` our time on sequences of equal lengths, each for equal work; for `decode` 3.35
TB/s; for `e4m3` cuDNN on bf16; for `edited` the program of examples/attention.py without the user's
function.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .attention_drawn import table
from .supervisor import Supervisor
from .table import run


def main(arguments: Sequence[str] | None = None, supervisor: Supervisor | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if any(each.split("=")[0] == "--seed" for each in given):
        return table(__doc__).run(given, supervisor)
    title = "Attention, ratio to the better of cuDNN and flash"
    return run("attention", title, __doc__, arguments, supervisor)


if __name__ == "__main__":
    sys.exit(main())
