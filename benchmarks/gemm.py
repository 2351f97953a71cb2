"""GEMM on the GPU against cuBLAS: correctness against float64, then paired timings.

    python -m benchmarks.gemm [--only REGEX] [--quick] [--rounds N] [--runs N] [--schedule S]
                              [--json FILE] [--plot FILE] [--check] [--peers]

Ours and cuBLAS (through torch) run interleaved in one process, as CUDA graphs over random inputs
rotated past three times L2. A ratio is cuBLAS's GPU time over ours, the median of the rounds; above
1 ours is faster. A case that fails is a row with the reason. `--only extra` has rows without gates:
promoted sums and scales of blocks, 8-bit operands of all majors, operands that are not aligned.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .supervisor import Supervisor
from .table import run


def main(arguments: Sequence[str] | None = None, supervisor: Supervisor | None = None) -> int:
    return run("gemm", "GEMM, ratio to cuBLAS", __doc__, arguments, supervisor, has_peers=True)


if __name__ == "__main__":
    sys.exit(main())
