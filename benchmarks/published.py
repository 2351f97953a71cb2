"""A static model of attention's steady loops on a B200, frozen on kernels whose speed others have
published, and ours in it.

    python -m benchmarks.published [CASE ...]

A block of keys takes as long as the unit that is busy longest: the tensor core, which reads both
operands of Q K^T from shared memory (128 bytes a cycle) and of P V the second one, of which the
CTAs of a pair have half each, read for both (FlashAttention-4's paper, on two CTAs); special
functions, arithmetic, and issue slots of a quarter, as the machine code's loops have them
(`benchmarks.sass`). Two figures are fitted, each to one published kernel: at which rate the tensor
core goes under load (cuBLAS), and of which share of their peak special functions are used
(FlashAttention-4, D = 64). The third kernel, FlashAttention-4 at D = 128, is held out and judges
the model. How long roles wait for each other is not in it: its figures bound ours from above.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cutedialect.model import B200, Device
from cutedialect.schedule import Schedule

from .attention_case import Attention
from .cases import named
from .machine_code import Loop, MachineCode, read
from .sass import Role, roles_of, steady_of

_COUNTS = Path(__file__).parent / "machine_counts"
# TFLOP/s of bf16. Sources: NVIDIA's Tilus, docs "Matmul (Blackwell)", cuBLAS at 8192^3 on a B200;
# the FlashAttention-4 paper, D = 128 full; Dao-AILab/flash-attention pull request 2605, D = 64 full
# of 16k tokens, among the rows whose share of peak is that of 2,250 TFLOP/s. The same rows have
# 1321 at D = 128, so that the share of special functions may be too low for a faster machine; rows
# with 1225 are shares of 2,500, of another device.
CUBLAS, FLASH_128, FLASH_64 = 1610.0, 1605.0, 878.0
PEAK = 2250.0
_SHARED_BYTES, _ROWS, _STEP, _BITS = 128, 128, 16, 16
# Cycles of a quarter's unit for an instruction of a warp as peaks are (CUDA C++ Programming Guide,
# throughput of native arithmetic instructions): the model's own ones were fitted on an H100.
_DEVICE: Device = replace(B200, heavy={"fma": 1.0, "alu": 2.0, "sfu": 8.0, "shuffle": 4.0})
CASES = (
    "16k 16x128 full bf16", "16k 16x128 causal bf16", "16k 32x64 full bf16", "16k 8x256 full bf16",
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """What a CTA does with a block of keys: `rows` and `keys` of scores, head dimensions of K and
    V, and the steady loops of the roles; `ctas` multiply together.
    """

    rows: int
    keys: int
    depths: tuple[int, int]
    roles: Sequence[Role]
    ctas: int = 1

    @property
    def flops(self) -> float:
        """Those of both products."""
        return 2.0 * self.rows * self.keys * sum(self.depths)

    def tensor(self) -> float:
        """Cycles of the tensor core, or of shared memory for it."""
        of_k, of_v = self.depths
        scores = multiply_cycles(self.keys, 2, self.ctas) * of_k / _STEP
        products = multiply_cycles(of_v, 1, self.ctas) * self.keys / _STEP
        return (scores + products) * self.rows / _ROWS

    def units(self) -> dict[str, float]:
        """Cycles of each unit of a quarter, which has a warp of each role."""
        softmax, correct = steady_of(self.roles)
        total = Counter[str]()
        for role in (*softmax, *([] if correct is None else [correct])):
            total.update(role.bounds(_DEVICE, ()))
        return {**total}

    def tflops(self, rate: float, share: float) -> tuple[float, str]:
        """TFLOP/s of a B200 and the unit that bounds it: `rate` cycles of the tensor core a second,
        and other units at a share of the clock.
        """
        seconds = {"tensor": self.tensor() / rate}
        for unit, cycles in self.units().items():
            seconds[unit] = cycles / (share * B200.clock)
        unit = max(seconds, key=lambda each: seconds[each])
        return B200.processors * self.flops / seconds[unit] / 1e12, unit


def multiply_cycles(columns: int, from_shared: int, ctas: int = 1) -> float:
    """Of a multiply of 128 rows by some columns, 16 deep, with one operand or both from shared
    memory; each of `ctas` that multiply together has as many rows, and a part of the columns.
    """
    size = _STEP * _BITS // 8
    taken = (columns / ctas + (_ROWS if from_shared > 1 else 0)) * size / _SHARED_BYTES
    return max(_ROWS * columns * _STEP / B200.tensor, taken)


def kept(name: str, depth: int) -> Block:
    """A published kernel, of 256 rows and 128 keys, from its counts."""
    given = json.loads((_COUNTS / f"{name}.json").read_text())
    roles = [
        Role(
            MachineCode(loop["kernel"], (), loop["registers"], loop["columns"]),
            Loop(0, 0, Counter(loop["always"]), Counter(loop["sometimes"])),
            loop["scores"],
        )
        for loop in given["loops"]
    ]
    return Block(256, 128, (depth, depth), roles)


def ours(case: Attention, schedule: str | None = None, arch: str = "sm_100a") -> tuple[Block, str]:
    """The kernel of a case, the default one without a schedule, and its schedule."""
    kernel = case.compiled(schedule, arch)
    tile = Schedule.parse(kernel.schedule).tile
    assert tile is not None
    rows, keys = tile[:2]
    ctas = 2 if "tcgen05.mma.cta_group::2" in kernel.ptx else 1
    block = Block(rows, keys, (case.depth, case.v_depth), roles_of(read(kernel.cubin)), ctas)
    return block, kernel.schedule


def frozen() -> tuple[float, float]:
    """The rate of the tensor core (cycles a second) and the share of other units."""
    rate = CUBLAS * 1e12 / (2 * B200.tensor * B200.processors)
    block = kept("flash-attention-4-d64-full", 64)
    cycles = FLASH_64 * 1e12 / B200.processors / block.flops * max(block.units().values())
    return rate, cycles / B200.clock


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.published",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cases", metavar="CASE", nargs="*", help=f"default: {', '.join(CASES)}")
    parser.add_argument("--schedule", help="instead of the default one")
    options = parser.parse_args(arguments)
    rate, share = frozen()
    print(f"tensor core: {rate / 1e9:.3f} GHz under load (cuBLAS {CUBLAS:.0f} TFLOP/s); "
          f"special functions: {share:.1%} of {B200.clock / 1e9:.2f} GHz (FlashAttention-4 at "
          f"D = 64, {FLASH_64:.0f})")  # fmt: skip
    said, unit = kept("flash-attention-4-d128-full", 128).tflops(rate, share)
    print(f"held out, FlashAttention-4 at D = 128: {said:.0f} by {unit}, published "
          f"{FLASH_128:.0f}, {said / FLASH_128 - 1:+.1%}")  # fmt: skip
    theirs = {(64, 64): FLASH_64, (128, 128): said}
    try:
        for name in options.cases or CASES:
            case = named(name)
            assert isinstance(case, Attention)
            block, schedule = ours(case, options.schedule)
            said, unit = block.tflops(rate, share)
            other = theirs.get(block.depths)
            ratio = "" if other is None else f", {said / other:.3f} of FlashAttention-4 full"
            print(f"{name}: at most {said:.0f} by {unit}, {said / PEAK:.1%} of peak{ratio} "
                  f"({schedule})")  # fmt: skip
    except FileNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
