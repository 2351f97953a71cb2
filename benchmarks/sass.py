"""`python -m benchmarks.sass CUBIN [--peer CUBIN] [--arch sm_100a] [--json FILE]`: what loops of a
kernel execute in a trip, by kind of instruction, for each score (a loop of exponentials) or for
each step (any other), and how long each unit of a quarter of a multiprocessor takes for it. CUBIN
is a file, or the name of a case of the benchmarks ("d128 full 16k"), which is compiled for `--arch`
without a device. Counted is what every trip executes; what only some ways through a trip execute
is a number apart.

Scores are counted by what rounds them: each `F2FP` packs two. `--scores N` says how many a thread
has in a trip where something else does. Multiplies of tensor memory do not say their shape:
`--multiply 128x64x16` does. Needs nvdisasm.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutedialect.model import DEVICES, Device

from .cases import select
from .machine_code import Loop, MachineCode, read

# Loops of fewer instructions wait for something.
_LEAST = 16
_SCORES_OF_A_PACK = 2
_SHOWN = 24
# Loops of blocks that a mask cuts take so many times as much as others, or more.
_MASKED = 1.5
# Characters of a kernel's name: those that template arguments make have hundreds.
_LONGEST = 48
# The unit of a quarter that executes a kind, beside its turn to issue; all others have none that
# bounds a loop. Packed ones take it twice.
_UNITS = {
    "fma": ("FFMA", "FMUL", "FADD", "HFMA2", "HADD2", "HMUL2", "IMAD", "FFMA2", "FMUL2", "FADD2"),
    "alu": (
        "FMNMX", "FMNMX3", "FSEL", "FSETP", "ISETP", "LOP3", "PRMT", "SHF", "SEL", "IADD3", "F2FP",
        "LEA", "VIADD", "VIMNMX", "PLOP3", "VIADDMNMX",
    ),
    "shuffle": ("SHFL",),
}  # fmt: skip
_PACKED = ("FFMA2", "FMUL2", "FADD2")
_SFU = "MUFU"
_MULTIPLIES = (
    "UTCHMMA", "UTCQMMA", "UTCOMMA", "UTCIMMA", "HGMMA", "QGMMA", "IGMMA", "HMMA", "QMMA", "OMMA",
    "IMMA",
)  # fmt: skip
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)")


@dataclass(frozen=True)
class Role:
    """A loop with what it is for, and how many scores a thread has in a trip (0: none)."""

    kernel: MachineCode
    loop: Loop
    scores: int

    @property
    def name(self) -> str:
        """By what is in it."""
        kinds = self.loop.always + self.loop.sometimes
        if self.scores:
            return "softmax"
        for name, which in (("multiply", _MULTIPLIES), ("load", ("UTMALDG",))):
            if any(kinds[kind] for kind in which):
                return name
        if kinds["LDTM"] and kinds["STTM"] and not kinds["F2FP"]:
            return "correct"
        return "store" if kinds["UTMASTG"] or kinds["STG"] else "other"

    @property
    def per(self) -> int:
        """Scores, or steps, of a trip."""
        return self.scores or 1

    @property
    def total(self) -> float:
        """Instructions for each score or step."""
        return sum(self.loop.always.values()) / self.per

    def bounds(self, device: Device, shape: Sequence[int]) -> dict[str, float]:
        """Cycles of each unit for a trip of one warp; of the tensor core those of the SM."""
        always = self.loop.always
        units = {"issue": float(sum(always.values()))}
        for unit, kinds in _UNITS.items():
            taken = sum(always[kind] * (2 if kind in _PACKED else 1) for kind in kinds)
            units[unit] = taken * device.heavy[unit]
        special = sum(count for kind, count in always.items() if kind.startswith(_SFU))
        units["sfu"] = special * device.heavy["sfu"]
        count = sum(always[kind] for kind in _MULTIPLIES)
        if count and shape:
            rows, columns, depth = shape
            units["tensor"] = count * rows * columns * depth / device.tensor
        return {unit: cycles for unit, cycles in units.items() if cycles}


def steady_of(roles: Sequence[Role]) -> tuple[list[Role], Role | None]:
    """The loops of blocks that no mask cuts, of each kind of warps that compute exponentials, and
    that of those which correct sums for them.
    """
    softmax = [role for role in roles if role.scores and role.loop.always["LDTM"]]
    if not softmax:
        return [], None
    least = min(softmax, key=lambda role: role.total)
    kinds = [role for role in softmax if role.scores == least.scores]
    kinds = [role for role in kinds if role.total < _MASKED * least.total]
    return kinds, next((role for role in roles if role.name == "correct"), None)


def together(roles: Sequence[Role]) -> float | None:
    """Instructions a score of all warps that compute exponentials, and of those that correct sums
    for them, as many as one kind has; None without exponentials.
    """
    kinds, correct = steady_of(roles)
    if not kinds:
        return None
    own = sum(role.total for role in kinds) / len(kinds)
    more = 0 if correct is None else sum(correct.loop.always.values())
    return own + more / (len(kinds) * kinds[0].scores)


def title(kernel: MachineCode) -> str:
    """Its name, of a long one what is in front."""
    return kernel.name if len(kernel.name) <= _LONGEST else f"{kernel.name[:_LONGEST]}..."


def roles_of(kernels: Sequence[MachineCode], scores: int = 0) -> list[Role]:
    """The loops that work, with their scores: given, or twice what packs them."""
    found: list[Role] = []
    for kernel in kernels:
        for loop in kernel.loops():
            if (loop.always + loop.sometimes).total() < _LEAST:
                continue
            packs = loop.always["F2FP"] if loop.always["MUFU.EX2"] else 0
            mine = (scores or packs * _SCORES_OF_A_PACK) if packs else 0
            found.append(Role(kernel, loop, mine))
    return found


def counts(role: Role) -> dict[str, float]:
    """Instructions for each score or step, by kind, most first."""
    return {kind: count / role.per for kind, count in role.loop.always.most_common()}


def shown(role: Role, device: Device, shape: Sequence[int], peer: Role | None = None) -> str:
    """A table of one loop, with the peer's numbers beside it."""
    unit = "score" if role.scores else "step"
    sometimes = sum(role.loop.sometimes.values())
    head = (
        f"{title(role.kernel)}: {role.name} loop at instruction {role.loop.first}, "
        f"{sum(role.loop.always.values())} instructions in every trip ({sometimes} in some)"
        + (f", {role.scores} scores a thread" if role.scores else "")
    )
    mine = counts(role)
    theirs = counts(peer) if peer is not None else {}
    kinds = list(mine)[:_SHOWN] + [kind for kind in list(theirs)[:_SHOWN] if kind not in mine]
    lines = [head, f"  {'a ' + unit:>16}{'ours':>9}" + (f"{'peer':>9}" if peer else "")]

    def row(name: str, one: float, other: float) -> str:
        return f"  {name:>16}{one:9.3f}" + (f"{other:9.3f}" if peer else "")

    lines += [row(kind, mine.get(kind, 0), theirs.get(kind, 0)) for kind in kinds]
    lines.append(row("all", role.total, peer.total if peer else 0))
    for whose, one in (("cycles a trip", role), ("the peer's", peer)):
        if one is not None:
            bounds = one.bounds(device, shape)
            told = ", ".join(f"{unit} {cycles:.0f}" for unit, cycles in bounds.items())
            lines.append(f"  {whose}: {told}")
    return "\n".join(lines)


def described(roles: Sequence[Role]) -> list[dict[str, Any]]:
    """The same as JSON keeps it: counts, never code."""
    return [
        {
            "kernel": title(role.kernel),
            "registers": role.kernel.registers,
            "columns": role.kernel.columns,
            "barriers": role.kernel.barriers,
            "loop": role.name,
            "scores": role.scores,
            "always": dict(role.loop.always.most_common()),
            "sometimes": dict(role.loop.sometimes.most_common()),
        }
        for role in roles
    ]


def cubin_of(name: str, arch: str) -> tuple[bytes, str]:
    """Machine code of a file, or of our kernel of a case; and the kernel's schedule."""
    if Path(name).is_file():
        return Path(name).read_bytes(), ""
    case = select(name)[0]
    kernel = case.compiled(None, arch)
    if kernel is None:
        raise SystemExit(f"expected a case of one kernel, got '{case.name}'")
    return kernel.cubin, f"{case.name}: {kernel.schedule}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the loops; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sass",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cubin", help="a file, or a case's name")
    parser.add_argument("--peer", help="another file or case to stand beside it")
    parser.add_argument("--arch", default="sm_100a", choices=sorted(DEVICES), help="of cases")
    parser.add_argument("--scores", type=int, default=0, help="of a thread in a trip")
    parser.add_argument("--multiply", default="", metavar="MxNxK", help="shape of a multiply")
    parser.add_argument("--json", type=Path, help="write the counts there")
    parser.add_argument("--about", default="", help="where the code comes from, for the JSON")
    options = parser.parse_args(arguments)
    shape = _SHAPE.fullmatch(options.multiply)
    if options.multiply and shape is None:
        parser.error(f"expected a shape MxNxK, got '{options.multiply}'")
    sizes = [int(size) for size in shape.groups()] if shape else []
    try:
        code, schedule = cubin_of(options.cubin, options.arch)
        roles = roles_of(read(code), options.scores)
        peers = []
        if options.peer is not None:
            peers = roles_of(read(cubin_of(options.peer, options.arch)[0]), options.scores)
    except (FileNotFoundError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if schedule:
        print(schedule)
    for kernel in dict.fromkeys(role.kernel for role in roles):
        print(
            f"{title(kernel)}: {len(kernel.lines)} instructions, {kernel.registers} registers, "
            f"{kernel.columns} columns of tensor memory, {kernel.barriers} mbarriers"
        )
    if (all_of_them := together(roles)) is not None:
        print(f"softmax and correction, all warps: {all_of_them:.3f} instructions a score")
    device = DEVICES[options.arch]
    waiting = list(peers)
    for role in roles:
        peer = next((one for one in waiting if one.name == role.name), None)
        if peer is not None:
            waiting.remove(peer)
        print(shown(role, device, sizes, peer))
    if options.json is not None:
        text = json.dumps({"about": options.about, "loops": described(roles)}, indent=1)
        options.json.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
