"""Matrix multiplies drawn by lot: element types, sizes, majors, epilogues, batches, groups and
schedules; run in the emulator, compared with NumPy, and assembled.

    python -m benchmarks.random_gemms [--count N] [--seed S] [--only NUMBER] [--target NAME]
                                      [--assemble] [--ptxas PATH] [--dry] [--budget SECONDS]
                                      [--scaled] [--start NUMBER]

Operands are small integers, so that a result is right bit by bit or wrong. `--assemble` also asks
the newest ptxas of each CUDA from 12.9 on that is found, and those that `--ptxas` names: a warning
or a loss of speed (C75xx) is wrong; a kernel that spills, which `cute.compile` refuses, is counted
by itself, with the nearest schedule that fits. A table in the end has a row for each release.
`--dry` compiles and assembles, and runs nothing. `--scaled` draws products with scales of blocks
(`scaled_draws.py`), on sm_100a, sm_103a, sm_120a and sm_121a. For the ptxas of CUDA 12.9 beside
another one:

    pip install --target build/cuda-12.9 nvidia-cuda-nvcc-cu12==12.9.86
    python -m benchmarks.random_gemms --ptxas build/cuda-12.9/nvidia/cuda_nvcc/bin/ptxas

The exit status is 1 where a problem is wrong or ends in another error than a refusal, or in one
of a kernel whose synchronization is not proved.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

import cutedialect as cute
from cutedialect.backend.emulator import EmulatorError
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.errors import SPILL
from cutedialect.backend.runtime.program import assembled

from . import scaled_draws
from .random_programs import Outcome

KINDS = ("right", "refused", "spills", "wrong", "broken")
TARGETS = ("sm_100a", "sm_100f", "sm_103a")
E4M3, E5M2, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16
# Element types of A and B, and what a result may be stored as.
_TYPES = {
    "f16": ((np.float16,), ("f16", "f32")),
    "bf16": ((BF16,), ("bf16", "f32")),
    "tf32": ((np.float32,), ("f32", "f16")),
    "f8": ((E4M3, E5M2), ("f16", "bf16", "f32")),
    "i8": ((np.int8, np.uint8), ("i32",)),
}
_NUMBERS = {"f16": np.float16, "bf16": BF16, "f32": np.float32, "i32": np.int32}
_ROWS, _COLUMNS = (64, 128, 128, 128, 256), (16, 32, 48, 64, 64, 96, 128, 192, 256)


@dataclass(frozen=True)
class Problem:
    """A call of `gemm`, or of `grouped_gemm` where there are several sizes."""

    number: int
    target: str
    types: tuple[Any, Any]
    out: str
    sizes: tuple[tuple[int, int, int], ...]
    majors: str
    schedule: str | None = None
    batch: tuple[int, ...] = ()
    shares_b: bool = False
    padding: tuple[int, int] = (0, 0)
    options: dict[str, Any] = field(default_factory=dict)
    formats: tuple[str, str] | None = None

    @property
    def text(self) -> str:
        """The problem in one line."""
        a, b = self.formats or (np.dtype(each).name for each in self.types)
        sizes = " ".join("x".join(map(str, size)) for size in self.sizes)
        batch = f" batch {self.batch}{' of one B' if self.shares_b else ''}" if self.batch else ""
        padded = f" padded {self.padding}" if any(self.padding) else ""
        options = "".join(f" {name}={value}" for name, value in self.options.items())
        return (
            f"{self.number} {self.target} {a} x {b} -> {self.out} {sizes} {self.majors}"
            f"{batch}{padded}{options} [{self.schedule or 'default'}]"
        )


def draw(seed: int, number: int, targets: Sequence[str] = TARGETS) -> Problem:
    """The problem of this number of a seed."""
    rng = np.random.default_rng((seed, number))

    def one(choices: Sequence[Any]) -> Any:
        return choices[int(rng.integers(len(choices)))]

    def chance(share: float) -> bool:
        return bool(rng.random() < share)

    target, kind = one(targets), one(tuple(_TYPES))
    elements, outs = _TYPES[kind]
    types = one(elements), one(elements)
    out = one(outs)
    is_grouped = chance(0.15)
    step = one((1, 1, 8, 16))

    def size() -> tuple[int, int, int]:
        m, n = (step * max(1, int(rng.integers(1, high)) // step) for high in (400, 300))
        return m, n, step * (int(rng.integers(0 if chance(0.2) else 1, 300)) // step)

    sizes = tuple(size() for _ in range(int(rng.integers(1, 5)) if is_grouped else 1))
    options: dict[str, Any] = {}
    if chance(0.4) and kind != "i8":
        options |= {"alpha": one((2.0, -1.0))}
    if chance(0.3):
        options["bias"] = True
    if chance(0.3) and kind != "i8" and not is_grouped:
        options |= {"beta": one((1.0, -2.0))}
    if chance(0.3):
        options["activation"] = "relu"
    if chance(0.2) and not is_grouped:
        options["aux"] = True
    return Problem(
        number,
        target,
        types,
        out,
        sizes,
        one("NT") + one("NT"),
        None if chance(0.3) else _schedule(one, chance, 32 // np.dtype(types[0]).itemsize),
        () if is_grouped or chance(0.7) else (int(rng.integers(1, 4)),),
        chance(0.3),
        (int(rng.integers(0, 17)), int(rng.integers(0, 17))) if chance(0.25) else (0, 0),
        options,
    )


def draw_scaled(seed: int, number: int, targets: Sequence[str]) -> Problem:
    """The product with scales of blocks of this number of a seed."""
    rng = np.random.default_rng((seed, number, 1))

    def one(choices: Sequence[Any]) -> Any:
        return choices[int(rng.integers(len(choices)))]

    def chance(share: float) -> bool:
        return bool(rng.random() < share)

    target = one(targets)
    formats = scaled_draws.formats_of(one, chance, target)
    packed = scaled_draws.FORMATS[formats[0]][3]
    is_grouped, step = chance(0.15), one((8, 16, 32))

    def size() -> tuple[int, int, int]:
        m, n = (max(1, int(rng.integers(1, 400))) for _ in range(2))
        # Rows of operands begin at whole vectors.
        return m, n, 16 * packed * int(rng.integers(0 if chance(0.1) else 1, 600 // 16 // packed))

    sizes = tuple(size() for _ in range(int(rng.integers(2, 5)) if is_grouped else 1))
    options: dict[str, Any] = {}
    for name, share, values in (
        ("alpha", 0.4, (2.0, -1.0)),
        ("bias", 0.3, (True,)),
        ("beta", 0.0 if is_grouped else 0.3, (1.0, -2.0)),
        ("activation", 0.3, ("relu",)),
        ("aux", 0.0 if is_grouped else 0.2, (True,)),
    ):
        if chance(share):
            options[name] = one(values)
    majors = "TN" if packed > 1 else one("TTTN") + one("TNNN")
    if majors[0] == "N" or majors[1] == "T":
        # What lies beside each other begins at whole vectors, too.
        sizes = tuple((-(-m // step) * step, -(-n // step) * step, k) for m, n, k in sizes)
    schedule = None if chance(0.4) else scaled_draws.schedule_of(one, chance, target, packed)
    elements = tuple(scaled_draws.FORMATS[each][0] for each in formats)
    return Problem(
        number,
        target,
        elements,  # pyright: ignore[reportArgumentType]
        one(("f16", "bf16", "f32")),
        sizes,
        majors,
        schedule,
        () if is_grouped or chance(0.6) else (int(rng.integers(1, 4)),),
        chance(0.3),
        (0, 0),
        options,
        formats,
    )


def _schedule(one: Any, chance: Any, depth: int) -> str:
    choices = {"tile": f"({one(_ROWS)},{one(_COLUMNS)},{depth * one((1, 2, 4, 4))})"}
    for name, share, values in (
        ("cluster", 0.6, ("(1,1)", "(2,1)", "(2,1)", "(1,2)", "(2,2)", "(4,1)", "(4,2)")),
        ("stages", 0.3, (1, 2, 3, 5)),
        ("split_k", 0.2, (2, 3, 4)),
        ("reduction", 0.2, ("ordered", "atomic")),
        ("epilogue", 0.3, ("direct", "smem", "tma")),
        ("scheduler", 0.4, ("single", "persistent", "dynamic", "stream")),
        ("raster", 0.2, (1, 2, 8)),
        ("order", 0.1, ("columns", "snake", "hilbert")),
        ("swap_ab", 0.1, ("yes",)),
        ("loads", 0.1, ("threads",)),
        ("warps", 0.15, ("(4,1)", "(8,1)", "(4,2)", "(8,2)")),
        ("roles", 0.05, ("uniform",)),
        ("ctas", 0.05, (1, 2)),
    ):
        if chance(share):
            choices[name] = str(one(values))
    if "split_k" in choices and choices.get("scheduler") == "stream":
        del choices["split_k"]
    return ", ".join(f"{name} = {value}" for name, value in choices.items())


def outcome(
    problem: Problem, releases: Sequence[Release] = (), runs: bool = True
) -> tuple[Outcome, str]:
    """What became of a problem, and with which instruction it multiplies."""
    rng = np.random.default_rng(problem.number)
    operands = [_operands(problem, size, rng) for size in problem.sizes]
    scaled = problem.formats is not None
    given = {k: v for k, v in problem.options.items() if k in ("alpha", "beta", "activation")}
    given |= {"arch": problem.target, "backend": "emulator", "out_dtype": problem.out}
    if problem.schedule is not None:
        given["schedule"] = problem.schedule
    extra = _extra(problem, operands, rng)
    is_grouped = len(problem.sizes) > 1
    left, right = [each.a for each in operands], [each.b for each in operands]
    if scaled:
        scales = [each.scale_a for each in operands], [each.scale_b for each in operands]
        names = "scale_a", "scale_b"
        extra |= dict(zip(names, scales if is_grouped else (x[0] for x in scales), strict=True))
    where = (left, right) if is_grouped else (left[0], right[0])
    try:
        function = cute.grouped_gemm if is_grouped else cute.gemm
        got = function(*where, **given, **extra) if runs else None
        kernel = cute.compile(function, *where, **given, **extra)
    except (cute.CompileError, ValueError) as error:
        return refusal(error), ""
    except Exception as error:
        return Outcome("broken", f"{type(error).__name__}: {error}"), ""
    unit = "tcgen05" if "tcgen05.mma" in kernel.ptx else "mma.sync"
    unit += " block_scale" if scaled and "block_scale" in kernel.ptx else ""
    unit += " pair" if "cta_group::2" in kernel.ptx else ""
    if got is not None:
        results = got if is_grouped else [got]
        for result, each, bias in zip(results, operands, _each(problem, extra), strict=True):
            if why := _difference(problem, result, each, bias, extra):
                return Outcome("wrong", why), unit
    said = [(release, *assembled_by(kernel, release)) for release in releases]
    for kind in ("wrong", "spills"):
        for release, found, why in said:
            if found == kind:
                return Outcome(kind, f"ptxas {release.number}: {why}"), unit
    return Outcome("right", "; ".join(each.message for each in kernel.remarks)), unit


def refusal(error: Exception) -> Outcome:
    """What the refusal of a problem is: what the emulator says of a kernel, or the check of the
    protocol, is a fault of the compiler's, whatever schedule was drawn.
    """
    is_unproved = isinstance(error, cute.CompileError) and error.is_unproved
    is_broken = is_unproved or isinstance(error, EmulatorError)
    return Outcome("broken" if is_broken else "refused", str(error))


def _each(problem: Problem, extra: dict[str, Any]) -> list[Any]:
    bias = extra.get("bias")
    return bias if isinstance(bias, list) else [bias] * len(problem.sizes)


@dataclass(frozen=True)
class _Operands:
    """A and B as arrays, what they stand for, and their scales."""

    a: Any
    b: Any
    wide_a: Any
    wide_b: Any
    scale_a: Any = None
    scale_b: Any = None


def _operands(problem: Problem, size: tuple[int, int, int], rng: Any) -> _Operands:
    m, n, k = size
    batch_b = () if problem.shares_b else problem.batch
    if problem.formats is not None:
        # Rows of B^T have scales: B is contiguous along K where it is column-major.
        majors = problem.majors[0], "T" if problem.majors[1] == "N" else "N"
        shapes = (*problem.batch, m, k), (*batch_b, n, k)
        one, other = (
            scaled_draws.drawn(*each, rng)
            for each in zip(problem.formats, shapes, majors, strict=True)
        )
        turned = [x.swapaxes(-1, -2) for x in (other.elements, other.wide)]
        return _Operands(one.elements, turned[0], one.wide, turned[1], one.scales, other.scales)
    shapes = ((*problem.batch, m, k), problem.types[0]), ((*batch_b, k, n), problem.types[1])
    found = []
    for (shape, dtype), major, pad in zip(shapes, problem.majors, problem.padding, strict=True):
        low = 0 if dtype is np.uint8 else -2
        values = rng.integers(low, 3, shape).astype(dtype)
        is_turned = major == "N"
        rows, columns = (shape[-1], shape[-2]) if is_turned else (shape[-2], shape[-1])
        memory = np.zeros((*shape[:-2], rows, columns + pad), dtype)[..., :columns]
        view = memory.swapaxes(-1, -2) if is_turned else memory
        view[...] = values
        found.append(view)
    return _Operands(*found, *(each.astype(np.float64) for each in found))


def _extra(problem: Problem, operands: Any, rng: Any) -> dict[str, Any]:
    """The arrays beside A and B."""
    number = _NUMBERS[problem.out]
    extra: dict[str, Any] = {}
    if "bias" in problem.options:
        biases = [rng.integers(-3, 4, each.b.shape[-1]).astype(number) for each in operands]
        extra["bias"] = biases if len(problem.sizes) > 1 else biases[0]
    shape = (*problem.batch, operands[0].a.shape[-2], operands[0].b.shape[-1])
    if "beta" in problem.options:
        extra["c"] = rng.integers(-3, 4, shape).astype(number)
    if "aux" in problem.options and len(problem.sizes) == 1:
        extra["aux"] = np.zeros(shape, number)
    return extra


def _difference(
    problem: Problem, got: Any, each: _Operands, bias: Any, extra: dict[str, Any]
) -> str:
    want = each.wide_a @ each.wide_b * problem.options.get("alpha", 1.0)
    if "c" in extra:
        want = want + problem.options["beta"] * extra["c"].astype(np.float64)
    if bias is not None:
        want = want + bias.astype(np.float64)
    pairs = [("the result", got, np.maximum(want, 0) if "activation" in problem.options else want)]
    if "aux" in extra:
        pairs.append(("aux", extra["aux"], want))
    for name, found, exact in pairs:
        rounded = exact.astype(np.float32).astype(_NUMBERS[problem.out])
        if not np.array_equal(found, rounded):
            at = tuple(int(i) for i in np.argwhere(found != rounded)[0])
            count = int((found != rounded).sum())
            return (
                f"{name} differs in {count} of {found.size} elements, first at {at}: expected "
                f"{rounded[at]}, got {found[at]}"
            )
    return ""


@dataclass
class Release:
    """An assembler, and how many kernels came out of it clean, spilled, or with a message."""

    number: str
    path: Path
    said: Counter[str] = field(default_factory=Counter)


def releases(named: Sequence[Path] = ()) -> list[Release]:
    """The assemblers that are named, and the newest of each CUDA from 12.9 on that is found."""
    newest: dict[int, tuple[tuple[int, ...], Path]] = {}
    for path in ptxas.candidates():
        number = tuple(map(int, ptxas.version(path).split(".")))
        if number >= (12, 9):
            newest[number[0]] = max(newest.get(number[0], ((), path)), (number, path))
    paths = dict.fromkeys([*named, *(path for _, path in newest.values())])
    made = {ptxas.version(path): path for path in reversed(paths)}
    return [Release(number, path) for number, path in sorted(made.items())]


def assembled_by(kernel: cute.Kernel, release: Release) -> tuple[str, str]:
    """Whether a kernel is "clean", "spills", or is "wrong" to an assembler, and what that says."""
    with mock.patch.dict(os.environ, {"CUTEDIALECT_PTXAS": str(release.path)}):
        try:
            messages = assembled(kernel.ptx, kernel.arch).messages
            found, why = ("wrong" if messages else "clean"), "; ".join(m.text for m in messages)
        except cute.CompileError as error:
            found, why = ("spills" if error.code == SPILL else "wrong"), str(error)
        if found == "spills":
            why += f"\n    {_advice(kernel)}"
    release.said[found] += 1
    return found, why


def _advice(kernel: cute.Kernel) -> str:
    """What the error of a kernel that spills says first."""
    try:
        _ = kernel.assembly
    except cute.CompileError as error:
        return error.notes[0]
    return "no spill in another run"


def add_options(parser: argparse.ArgumentParser, count: int, targets: Sequence[str]) -> None:
    """The options of tables of drawn problems, `count` of them by default."""
    parser.add_argument("--count", metavar="N", type=int, default=count, help="so many problems")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="which ones")
    parser.add_argument("--only", metavar="NUMBER", type=int, help="this problem of the seed")
    parser.add_argument("--target", metavar="NAME", action="append", help=", ".join(targets))
    parser.add_argument("--assemble", action="store_true", help="by each ptxas that is found, too")
    parser.add_argument("--ptxas", metavar="PATH", type=Path, action="append", help="by this, too")
    parser.add_argument("--dry", action="store_true", help="compile, and run nothing")
    parser.add_argument("--budget", metavar="SECONDS", type=float, help="begin none after")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.random_gemms",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser, 100, TARGETS)
    parser.add_argument("--scaled", action="store_true", help="products with scales of blocks")
    parser.add_argument("--start", metavar="N", type=int, default=0, help="the first one's number")
    options = parser.parse_args(arguments)
    tools = releases(options.ptxas or ()) if options.assemble or options.ptxas else []
    drawing, known = (
        (draw_scaled, scaled_draws.SCALED_TARGETS) if options.scaled else (draw, TARGETS)
    )
    began, kinds = time.perf_counter(), Counter[str]()
    units, reasons = Counter[str](), Counter[str]()
    numbers = range(options.start, options.start + options.count)
    for number in numbers if options.only is None else [options.only]:
        if options.budget is not None and time.perf_counter() - began > options.budget:
            break
        problem = drawing(options.seed, number, options.target or known)
        found, unit = outcome(problem, tools, not options.dry)
        kinds[found.kind] += 1
        units[unit] += found.kind == "right"
        if found.kind == "right":
            if unit == "mma.sync":
                reasons[found.reason or "no remark"] += 1
        elif found.kind == "refused":
            reasons[f"refused: {found.pattern}"] += 1
        if found.kind in ("wrong", "broken", "spills") or options.only is not None:
            print(f"{problem.text}\n  {found.kind} {unit}: {found.reason}", flush=True)
    print(f"{sum(kinds.values())} problems in {time.perf_counter() - began:.0f} s")
    print(", ".join(f"{kinds[kind]} {kind}" for kind in KINDS))
    print(", ".join(f"{count} by {unit}" for unit, count in units.items() if unit))
    for release in tools:
        clean, spills, wrong = (release.said[kind] for kind in ("clean", "spills", "wrong"))
        told = f"{clean} clean, {spills} with spills, {wrong} with warnings or C75xx"
        print(f"ptxas {release.number}: {told} ({release.path})")
    for reason, count in reasons.most_common():
        print(f"  {count:4} {reason}")
    return 1 if kinds["wrong"] or kinds["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
