"""`python -m benchmarks.stages`: what each stage before `cute-synchronize` computes, of all kernels
of the benchmarks and the examples, by the tile interpreter, compared with what the program does.

    python -m benchmarks.stages [--only REGEX] [--json FILE]

A row is a problem with the schedule that it has in its table, computed at a size of few tiles, on
numbers drawn for it; examples launch their own. It lists the stages that agree, or names the first
pass that changed a result. Takes some minutes; exits 1 where a stage differs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import cutedialect as cute

from . import chains, streaming
from .attention_backward_case import AttentionBackward
from .attention_case import Attention
from .attention_edits import Edited
from .cases import CASES, EXTRAS
from .gemm_case import Gemm
from .inputs import TYPES
from .streaming_case import Streaming

_ARCH = "sm_90a"
_WHERE: dict[str, Any] = {"arch": _ARCH, "backend": "emulator"}
_EXAMPLES = Path(__file__).parents[1] / "examples"
# Rows, columns and depth of products, rows and keys of attention: some tiles, the last not whole.
_SIZES, _ROWS, _KEYS, _PACKED = (208, 272, 336), 150, 330, (70, 1, 130)
_BLOCK = 128
# Shapes of streaming programs that are drawn beside the listed ones.
_DRAWN = 5
Launch = Callable[..., None]


def validating(launch: Launch, checked: list[str], runs: bool = True) -> Launch:
    """`Kernel.launch` for kernels of tile programs: the first launch of each is compared stage by
    stage, whose names `checked` gets, and with what it left, unless it never `runs`.
    """
    from xdsl.context import Context

    from cutedialect.backend.interpreter import Validation, copies
    from cutedialect.backend.runtime.interpreted import host_array
    from cutedialect.passes.cute_to_ptx import steps

    seen: set[Any] = set()

    def launch_and_compare(kernel: Any, *args: Any, **options: Any) -> None:
        is_new = kernel not in seen and kernel._trace is not None
        if not is_new or kernel.where not in ("the emulator", "the interpreter"):
            return launch(kernel, *args, **options) if runs else None
        try:
            given = [host_array(value) for value in kernel._checker.bind(args)]
        except (TypeError, ValueError):  # the call says what is wrong
            return launch(kernel, *args, **options)
        before = copies(given)
        if runs:
            launch(kernel, *args, **options)
        seen.add(kernel)
        module = kernel.traced()
        validation = Validation(module, before)
        for step in steps(module, kernel.arch):
            step.apply(Context(), module)
            if not validation.check(step.name, module):
                break
            checked.append(step.name)
        if runs:
            validation.compare(kernel.where, given)
        return None

    return launch_and_compare


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each problem; 0 if all stages agree."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description=__doc__)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), help="rows by name")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    given = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for name, call, runs in problems():
        if not given.only.search(name):
            continue
        start, failure = time.perf_counter(), ""
        with _validated(runs) as checked:
            try:
                call()
            except Exception as error:  # a row says what is wrong with it
                failure = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        rows.append({"name": name, "stages": checked, "failure": failure, "seconds": seconds})
        said = failure.splitlines()[0] if failure else f"{len(checked)} stages agree"
        print(f"{name:52} {said} ({seconds:.1f} s)", flush=True)
        if given.json is not None:
            given.json.write_text(json.dumps(rows, indent=1))
    bad = [row for row in rows if row["failure"]]
    stages = sum(len(row["stages"]) for row in rows)
    print(f"{len(rows)} problems, {stages} stages, {len(bad)} problems with one that differs")
    return 1 if bad or not stages else 0


@contextmanager
def _validated(runs: bool) -> Iterator[list[str]]:
    from cutedialect.backend.runtime.kernel import Kernel

    checked: list[str] = []
    launch = Kernel.launch
    Kernel.launch = validating(launch, checked, runs)  # type: ignore[method-assign]
    try:
        yield checked
    finally:
        Kernel.launch = launch  # type: ignore[method-assign]


def problems() -> Iterator[tuple[str, Callable[[], object], bool]]:
    """(name, call, whether the call has to run the kernel as well) of each problem."""
    rng = np.random.default_rng(0)
    for case in (*CASES, *EXTRAS, *streaming.cases(0, _DRAWN)):
        makers = {
            Gemm: _product,
            AttentionBackward: _attention_backward,
            Attention: _attention,
            Streaming: _stream,
        }
        maker = next(make for kind, make in makers.items() if isinstance(case, kind))
        yield (
            f"{case.kind} {case.section} {case.name}",
            lambda maker=maker, case=case: maker(case, rng),
            False,
        )
    for name, launch in _chains(rng):
        yield f"chain {name}", launch, False
    for path in sorted(_EXAMPLES.glob("*.py")):
        yield f"example {path.name}", lambda path=path: _run_example(path), True


def _drawn(rng: np.random.Generator, shape: Sequence[int], kind: Any) -> np.ndarray:
    """Small whole numbers, of which sums are exact."""
    return rng.integers(-2, 3, shape).astype(kind)


def _dtype(name: str) -> Any:
    """NumPy's type for torch's name of one."""
    return getattr(ml_dtypes, name, None) or np.dtype(name)


def _product(case: Gemm, rng: np.random.Generator) -> None:
    inputs, output = map(_dtype, TYPES[case.dtype])
    batch = (min(case.batch, 2),) if case.batch > 1 else ()

    def matrix(rows: int, columns: int, by_rows: bool) -> np.ndarray:
        if by_rows:
            return _drawn(rng, (*batch, rows, columns), inputs)
        return np.swapaxes(_drawn(rng, (*batch, columns, rows), inputs), -1, -2)

    def operands(sizes: tuple[int, int, int]) -> tuple[np.ndarray, ...]:
        m, n, k = map(min, sizes, _SIZES)
        if case.align < 16:
            m, n, k = (each + case.align for each in (m, n, k))
        a, b = matrix(m, k, case.majors[0] == "T"), matrix(k, n, case.majors[1] == "T")
        return a, b, np.zeros((*batch, m, n), output)

    schedule = case.compiled(None, _ARCH).schedule
    if case.group:
        a, b, out = (list(part) for part in zip(*map(operands, case.group[:3]), strict=True))
        cute.grouped_gemm(a, b, out=out, schedule=schedule, **_WHERE, **case._options)
        return
    a, b, out = operands(case.sizes)
    scales: dict[str, Any] = {}
    if case.sums == "blocks":
        deep, wide = (-(-each // _BLOCK) for each in (a.shape[1], out.shape[1]))
        scales["scale_a"] = _drawn(rng, (deep, len(a)), np.float32).T
        scales["scale_b"] = _drawn(rng, (wide, deep), np.float32).T
    cute.gemm(a, b, out=out, schedule=schedule, **scales, **_WHERE, **case._options)


def _attention_backward(case: AttentionBackward, rng: np.random.Generator) -> None:
    small = replace(
        case, batch=1, heads=(max(1, case.heads[0] // case.heads[1]), 1), rows=_KEYS, keys=_KEYS
    )
    inputs, _ = map(_dtype, small.types)
    q_shape, k_shape = small.shapes
    shapes = q_shape, q_shape, k_shape, k_shape, q_shape
    do, q, k, v, out = (_drawn(rng, shape, inputs) for shape in shapes)
    lse = np.full(q_shape[:3], 8.0, np.float32)
    schedule = case.compiled(None, _ARCH).schedule
    schedule = schedule if "tile" in schedule else None
    cute.attention_backward(
        do, q, k, v, out, lse, causal=small.causal, deterministic=small.deterministic,
        schedule=schedule, **_WHERE,
    )  # fmt: skip


def _attention(case: Attention, rng: np.random.Generator) -> None:
    small = replace(
        case,
        batch=min(case.batch, 2),
        heads=(max(1, case.heads[0] // case.heads[1]), 1),
        rows=min(case.rows, _ROWS if case.rows != case.keys else _KEYS),
        keys=min(case.keys, _KEYS) if not case.page else 4 * case.page,
        packed=_PACKED if case.packed else (),
        window=None if case.window is None else min(case.window, 100),
    )
    inputs, output = map(_dtype, small.types)
    q_shape, k_shape = small.shapes
    q, k, v = (_drawn(rng, shape, inputs) for shape in (q_shape, k_shape, k_shape))
    options: dict[str, Any] = {}
    if small.packed:
        offsets = np.cumsum([0, *small.packed]).astype(np.int32)
        options["cu_seqlens"] = (offsets, offsets)
    if small.page:
        pages = rng.permutation(len(k)).astype(np.int32)
        options["block_table"] = pages.reshape(small.batch, -1)
    if np.dtype(inputs).itemsize == 1:
        scales = (np.full(heads, 0.5, np.float32) for heads in (*small.heads, small.heads[1]))
        options |= dict(zip(("scale_q", "scale_k", "scale_v"), scales, strict=True))
    out = np.zeros(q_shape, output)
    schedule = case.compiled(None, _ARCH).schedule
    if isinstance(small, Edited):
        program, given = small._program()
        program(q, k, v, out, small._scale, schedule=schedule, **_WHERE, **given)
        return
    options |= {"causal": small.causal, "window": small._window(), "schedule": schedule}
    cute.attention(q, k, v, out=out, **options, **_WHERE)


def _stream(case: Streaming, rng: np.random.Generator) -> None:
    """The program at the width, and so the tile, of the row."""
    workload = case._of
    few = (min(case.whole[0], 5), case.whole[1])

    def made(shape: tuple[int, ...], kind: str) -> np.ndarray:
        if kind == "labels":
            return rng.integers(0, few[1], shape).astype(np.int32)
        if kind == "places":
            return rng.permutation(shape[0]).astype(np.int32)
        return _drawn(rng, shape, _dtype(kind.partition(" ")[0]))

    inputs, outputs = (
        [made(*each) for each in of(few)] for of in (workload.inputs, workload.outputs)
    )
    arrays = (*workload.arrange(inputs, outputs), *workload.extra(few))
    workload.ours()(*arrays, **_WHERE, **workload.options(case.whole))


def _chains(rng: np.random.Generator) -> Iterator[tuple[str, Callable[[], object]]]:
    """The chains that `benchmarks.chains` times."""

    def half(*shape: int) -> np.ndarray:
        return _drawn(rng, shape, np.float16)

    q, keys, y = half(100, 64), [half(192, 64) for _ in range(3)], np.zeros((100, 64), np.float32)
    heads = [half(2, 150, 64) for _ in range(4)]
    calls: dict[str, tuple[Any, Sequence[Any], dict[str, Any]]] = {
        "three": (chains.three, (q, *keys, y), {}),
        "decayed": (chains.decayed, (q, *keys[:2], np.ones(100, np.float32), y), {}),
        "attended": (chains.attended, (q, *keys[:2], np.ones(100, np.float32), y), {}),
        "linear": (chains.linear, heads, {}),
        "adapted": (
            chains.adapted,
            (half(100, 128), half(128, 64), half(64, 128), half(100, 128)),
            {},
        ),
    }
    for bq, bk, dim in chains._BACKWARD:
        halves = [half(each, dim) for each in (150, 140, 140, 150)]
        rows = [np.full(150, 4, np.float32) for _ in range(2)]
        sums = [np.zeros((each, dim), np.float32) for each in (150, 140, 140)]
        args = (*halves, *rows, *sums)
        calls[f"backward {bq}x{bk}x{dim}"] = (chains.backward, args, {"tile": (bq, bk, dim)})
    for name, (kernel, args, options) in calls.items():
        yield (
            name,
            lambda kernel=kernel, args=args, options=options: kernel(*args, **_WHERE, **options),
        )


def _run_example(path: Path) -> None:
    """The main program of an example, whose output is of no interest here."""
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with redirect_stdout(StringIO()):
        code = module.main()
    if code:
        raise RuntimeError(f"expected 0 from {path.name}, got {code}")


if __name__ == "__main__":
    sys.exit(main())
