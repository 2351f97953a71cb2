"""The GPU, the emulator and float64 on small problems that reach every way of `cute.gemm` and of
`cute.attention`.

    python -m benchmarks.agreement [--only REGEX] [--random N] [--json FILE] [--in-process]
                                   [--no-emulator]

Each probe runs on both backends; the outputs have to agree bit for bit, but for the last places
where activations and exponentials are approximated, which the hardware does not specify. A kernel
that hangs or takes the context along is a row, and the next probe starts in a new process.
`--random N` adds N problems of attention whose options are drawn by lot, always the same ones.
`--in-process` stays in this one, for compute-sanitizer:

    compute-sanitizer python -m benchmarks.agreement --in-process --no-emulator
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

from .probe import Probe, are_equal
from .probes import probes
from .progress import Progress
from .supervisor import NoDeviceError, Supervisor, WorkerError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.agreement",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="REGEX", default="", help="probes whose name matches")
    parser.add_argument("--random", metavar="N", type=int, default=0, help="so many random ones")
    parser.add_argument("--json", metavar="FILE", help="write the results")
    parser.add_argument("--in-process", action="store_true", help="no child process")
    parser.add_argument("--no-emulator", action="store_true", help="compare with float64 alone")
    parser.add_argument("--patience", type=float, default=60, metavar="S", help="until a hang")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        return _work(options.random)
    chosen = [each for each in probes(options.random) if re.search(options.only, each.name)]
    if not chosen:
        parser.error(f"--only: expected to match a probe, got '{options.only}'")
    emulates = not options.no_emulator
    progress = Progress(len(chosen))
    found: dict[str, dict[str, Any]] = {}
    try:
        if options.in_process:
            for probe in chosen:
                progress.step(probe.name)
                found[probe.name] = compare(probe, emulates)
        else:
            command = (sys.executable, "-m", "benchmarks.agreement", "--worker")
            command += ("--random", str(options.random))
            found = _supervised(chosen, emulates, options.patience, progress, command)
    except NoDeviceError as error:
        print(f"benchmarks.agreement: {error}", file=sys.stderr)
        return 2
    progress.clear()
    bad = {name: result for name, result in found.items() if result.get("failure")}
    for name, result in bad.items():
        print(f"FAILED  {name}: {result['failure']}")
    equal = sum(result.get("equal", False) for result in found.values())
    print(f"{len(found) - len(bad)} of {len(found)} probes agree, {equal} of them bit for bit")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    return 1 if bad else 0


def _supervised(
    chosen: Sequence[Probe],
    emulates: bool,
    patience: float,
    progress: Progress,
    command: Sequence[str],
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    with Supervisor(patience, command) as worker:
        for probe in chosen:
            progress.step(probe.name)
            try:
                found[probe.name] = worker.ask({"probe": probe.name, "emulates": emulates})
            except WorkerError as error:
                found[probe.name] = {"failure": str(error)}
    return found


def _work(random: int) -> int:
    """The child: answers one probe after the other."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    missing = _missing()
    print(
        json.dumps({"missing": missing} if missing else {"machine": {}}), file=answers, flush=True
    )
    if missing:
        return 2
    known = {each.name: each for each in probes(random)}
    for line in sys.stdin:
        request = json.loads(line)
        result = compare(known[request["probe"]], request["emulates"])
        print(json.dumps(result), file=answers, flush=True)
        if result.get("lost"):
            return 3
    return 0


def _missing() -> str | None:
    try:
        torch = import_module("torch")
    except ImportError:
        return "torch to place arrays with, got none"
    return None if torch.cuda.is_available() else "a GPU, got none that torch can use"


def compare(probe: Probe, emulates: bool) -> dict[str, Any]:
    """Whether the outputs agree, and what does not."""
    try:
        torch = import_module("torch")
        given = probe.make(_on_gpu)
        outputs = probe.run(given, "cuda")
        torch.cuda.synchronize()
        got = [_to_host(output) for output in outputs]
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return {"failure": text, "lost": "CUDA" in text or "cuda" in text}
    failure, equal = probe.wrong(given, got), False
    if failure is None and emulates:
        other = probe.run(probe.make(lambda array: array), "emulator")
        failure, equal = probe.apart(got, other), are_equal(got, other)
    return {"failure": failure, "equal": equal}


def _on_gpu(array: np.ndarray) -> Any:
    """A torch tensor with the strides of a NumPy array, and its distance from alignment."""
    torch = import_module("torch")
    size = array.dtype.itemsize
    plain = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    kind = {
        "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32,
        "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2,
        "int8": torch.int8, "uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64,
    }[array.dtype.name]  # fmt: skip
    bits = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}[size]
    strides = tuple(stride // size for stride in array.strides)
    offset = strides[0] - array.shape[1] if array.ndim == 2 and array.size else 0
    extent = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
    storage = torch.zeros(max(0, offset) + max(extent, 1), dtype=plain, device="cuda")
    placed = storage.as_strided(array.shape, strides, max(0, offset))
    placed.copy_(torch.from_numpy(np.ascontiguousarray(array).view(bits)))
    return placed.view(kind)


def _to_host(tensor: Any) -> np.ndarray:
    torch = import_module("torch")
    name = str(tensor.dtype).removeprefix("torch.")
    kind = np.dtype(getattr(ml_dtypes, name, None) or name)
    plain = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[kind.itemsize]
    return tensor.view(plain).cpu().numpy().view(kind)


if __name__ == "__main__":
    sys.exit(main())
