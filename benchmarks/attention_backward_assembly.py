"""What assemblers say of the default kernels of `cute.attention_backward`, for problems drawn by
lot: shared heads, masks, caps, padded and packed sequences, values narrower than keys, results that
are not asked for, sums in order.

    python -m benchmarks.attention_backward_assembly [--count N] [--seed S] [--only NUMBER]
                                                     [--target NAME] [--ptxas PATH] [--jobs N]
    python -m benchmarks.attention_backward_assembly --every [--only NUMBER] [--target NAME]
                                                     [--ptxas PATH] [--jobs N]

`--every` takes each form of the call for each head dimension and type instead of drawn problems.
What no pass takes counts like a loss. Each problem is compiled for each target, and assembled by
the newest ptxas of each CUDA from 12.9 on that is found, and by those that `--ptxas` names. A row
is printed for what spills, loses speed (C75xx) or has a warning, and the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import cutedialect as cute
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.ptxas import loss

from .random_gemms import Release, releases

TARGETS = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
_DEPTHS = (32, 40, 64, 64, 80, 96, 112, 128, 128, 160, 192, 256)
_KINDS = ("plain", "plain", "shared", "padded", "packed", "packed and shared")
_MASKS = ("none", "causal", "causal", "window")
_HEADS, _BATCH, _SEQUENCES = 8, 2, 5
# Of `--every`: the columns of q and k and those of v, and the forms of a call: name, kind, options.
_COLUMNS = (
    *((depth, depth) for depth in (32, 40, 48, 64, 72, 80, 96, 112, 128, 160, 192, 224, 256)),
    (192, 128),
)
_FORMS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("plain", {}),
    ("plain", {"causal": True}),
    ("plain", {"window": (511, 0)}),
    ("plain", {"causal": True, "deterministic": True}),
    ("plain", {"causal": True, "softcap": 30.0}),
    ("shared", {}),
    ("shared", {"causal": True}),
    ("padded", {}),
    ("packed", {"causal": True}),
    ("packed and shared", {"causal": True}),
    ("packed and shared", {"causal": True, "softcap": 30.0}),
)
_ROWS = 4096


@dataclass(frozen=True)
class Problem:
    """A call: the shapes of q and of k, the columns of v, and what else the call takes."""

    q: tuple[int, ...]
    k: tuple[int, ...]
    width: int
    dtype: str
    kind: str
    options: Mapping[str, Any] = field(hash=False)

    @property
    def text(self) -> str:
        told = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f"q {self.q}, k {self.k}, v of {self.width}, {self.dtype} {self.kind}, {told}"

    def kernel(self, target: str) -> Any:
        """What the call runs, without a device."""
        q, k = cute.TensorSpec(self.q, self.dtype), cute.TensorSpec(self.k, self.dtype)
        v = cute.TensorSpec((*self.k[:-1], self.width), self.dtype)
        out = cute.TensorSpec((*self.q[:-1], self.width), self.dtype)
        lse = cute.TensorSpec(self.q[:-1], "f32")
        more: dict[str, Any] = {"arch": target, **self.options}
        if self.kind == "padded":
            more["lengths"] = cute.TensorSpec((_BATCH,), "i32")
        if "packed" in self.kind:
            more["cu_seqlens"] = (cute.TensorSpec((_SEQUENCES,), "i32"),) * 2
        return cute.compile(cute.attention_backward, out, q, k, v, out, lse, **more)


def draw(seed: int, number: int) -> Problem:
    """Problem `number` of a seed."""
    rng = random.Random(f"{seed} {number} assembly of attention backward")
    kind, depth, mask = rng.choice(_KINDS), rng.choice(_DEPTHS), rng.choice(_MASKS)
    rows, keys = (round(2 ** rng.uniform(6, 12)) for _ in range(2))
    if rng.random() < 0.5:
        rows = keys = -(-rows // 64) * 64
    width = depth if rng.random() < 0.85 else rng.choice(_DEPTHS)
    batch = 1 if "packed" in kind else _BATCH
    heads = _HEADS // rng.choice((2, 4, 8)) if "shared" in kind else _HEADS
    options: dict[str, Any] = {}
    if mask == "causal":
        options["causal"] = True
    if mask == "window":
        options["window"] = (rng.randint(0, keys), rng.choice((0, 0, 70)))
    if rng.random() < 0.15:
        options["softcap"] = 30.0
    if rng.random() < 0.15:
        options["deterministic"] = True
    if rng.random() < 0.15:
        options["wanted"] = rng.choice(("q", "kv", "k", "v", "qk"))
    dtype = rng.choice(("bf16", "f16"))
    shape = batch, _HEADS, rows, depth
    return Problem(shape, (batch, heads, keys, depth), width, dtype, kind, options)


def every() -> tuple[Problem, ...]:
    """Each form of the call, for each head dimension and type."""
    problems = []
    for (depth, width), (kind, options), dtype in product(_COLUMNS, _FORMS, ("bf16", "f16")):
        batch = 1 if "packed" in kind else _BATCH
        heads = _HEADS // 4 if "shared" in kind else _HEADS
        shapes = (batch, _HEADS, _ROWS, depth), (batch, heads, _ROWS, depth)
        problems.append(Problem(*shapes, width, dtype, kind, options))
    return tuple(problems)


def found(problem: Problem, target: str, tools: Sequence[Path]) -> tuple[str, ...]:
    """What each assembler says, of a kernel without a loss nothing."""
    return losses(partial(problem.kernel, target), tools)


def losses(compiled: Callable[[], Any], tools: Sequence[Path]) -> tuple[str, ...]:
    """What each assembler says of a kernel that is compiled, or None for none: of one without a
    loss nothing, and what refuses it where it is not taken.
    """
    try:
        kernel = compiled()
    except cute.CompileError as error:
        return (str(error),) * len(tools)
    if kernel is None:
        return ("",) * len(tools)
    said = []
    for path in tools:
        with mock.patch.dict(os.environ, {"CUTEDIALECT_PTXAS": str(path)}):
            try:
                why = loss(ptxas.assemble(kernel.ptx, kernel.arch), kernel.ptx)
            except cute.CompileError as error:
                why = error
        said.append("" if why is None else f"{str(why).splitlines()[0]} ({kernel.schedule})")
    return tuple(said)


def _found(work: tuple[Problem, str], tools: Sequence[Path]) -> tuple[str, ...]:
    return found(*work, tools)


def pool(jobs: int) -> AbstractContextManager[ProcessPoolExecutor | None]:
    """So many processes; None for one, which is this one."""
    return nullcontext() if jobs == 1 else ProcessPoolExecutor(jobs, get_context("spawn"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.attention_backward_assembly",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", metavar="N", type=int, default=40, help="so many problems")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="which ones")
    parser.add_argument("--every", action="store_true", help="each form, none by lot")
    parser.add_argument("--only", metavar="NUMBER", type=int, help="this problem alone")
    parser.add_argument("--target", metavar="NAME", action="append", help=", ".join(TARGETS))
    parser.add_argument("--ptxas", metavar="PATH", type=Path, action="append", help="by this, too")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count(), help="processes")
    options = parser.parse_args(arguments)
    tools = releases(options.ptxas or ())
    listed = every() if options.every else ()
    count = len(listed) if options.every else options.count
    if options.only is not None and options.every and not 0 <= options.only < count:
        parser.error(f"--only: expected 0 to {count - 1}, got {options.only}")
    numbers = range(count) if options.only is None else [options.only]
    work = [(number, target) for number in numbers for target in options.target or TARGETS]
    asked = partial(_found, tools=[each.path for each in tools])
    jobs = [
        (listed[number] if listed else draw(options.seed, number), target)
        for number, target in work
    ]
    with pool(options.jobs) as processes:
        results = map(asked, jobs) if processes is None else processes.map(asked, jobs)
        names = [
            (f"{number} {target}", f"\n  {job[0].text}")
            for (number, target), job in zip(work, jobs, strict=True)
        ]
        return print_losses(tools, names, results)


def print_losses(
    tools: Sequence[Release], names: Sequence[tuple[str, str]], said: Iterable[Sequence[str]]
) -> int:
    """Print what each assembler `said` of kernels that it took with a loss, as it comes, between
    the two parts of their names, and the counts; 1 if there are some.
    """
    lost = Counter[str]()
    for (name, more), losses in zip(names, said, strict=True):
        for tool, why in zip(tools, losses, strict=True):
            lost[tool.number] += bool(why)
            if why:
                print(f"{name} ptxas {tool.number}: {why}{more}")
        sys.stdout.flush()
    for tool in tools:
        print(f"ptxas {tool.number}: {len(names)} kernels, {lost[tool.number]} with a loss")
    return 1 if any(lost.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
