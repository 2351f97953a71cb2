"""How exact attention's gradients are, for scores as trained models have them, and worse.

    python -m benchmarks.attention_backward_accuracy [--backend emulator] [--arch sm_90a]
        [--rows N] [--only REGEX] [--json FILE]

A row has scores of one kind: normal of a deviation from 0.5 to 16, drifting or rising along the
keys, or with much of the weight on the first keys or on one near the end. A figure is the largest
or the mean error of dq, dk or dv against float64, as a share of the error of the same computation
in float32 with what is multiplied and stored in 16 bits; above 2 a row fails. The forward pass is
ours, too. Without `--backend emulator` arrays are torch's, on its GPU.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .attention_gradients import ALLOWED, Array, shares

_SIZES = (0.5, 1, 2, 4, 8, 16)
_OTHERS = (("drift", 4), ("drift", 16), ("rise", 8), ("sink", 4), ("sink", 16), ("late", 8))
# Keys that begin a sequence and get much of the weight, and where a late one stands.
_SINKS, _LATE = 4, 0.9
_HEADS = 2
_SEED = 20261128


@dataclass(frozen=True)
class Row:
    """Scores of one kind and size, (rows) by as many keys."""

    values: str
    size: float
    depth: int
    causal: bool
    dtype: str

    @property
    def name(self) -> str:
        mask = "causal" if self.causal else "full"
        return f"{self.values} {self.size:g} d{self.depth} {mask} {self.dtype}"

    def operands(self, rows: int) -> tuple[Array, Array, Array, Array]:
        """(do, q, k, v)."""
        import ml_dtypes

        rng = np.random.default_rng(_SEED)
        dtype = np.float16 if self.dtype == "f16" else ml_dtypes.bfloat16
        do, q, k, v = (rng.standard_normal((1, _HEADS, rows, self.depth)) for _ in range(4))
        along = np.arange(rows)[:, None] / rows
        direction = rng.choice([-1.0, 1.0], self.depth)
        match self.values:
            case "normal":
                q = q * self.size
            case "rise":
                k = k * (along * (self.size - 1) + 1)
            case "drift":
                k = k + along * direction * self.size
            case _:
                number = np.arange(rows)[:, None]
                chosen = number < _SINKS if self.values == "sink" else number == int(_LATE * rows)
                q, k = q + direction, k + chosen * direction * (self.size / self.depth**0.5)
        do, q, k, v = (each.astype(dtype) for each in (do, q, k, v))
        return do, q, k, v

    def figures(self, rows: int, options: dict[str, Any]) -> dict[str, float]:
        """The errors of our gradients."""
        import cutedialect as cute

        given = self.operands(rows)
        to, back = (_kept, _kept) if options.get("backend") == "emulator" else (_to_gpu, _from_gpu)
        do, q, k, v = map(to, given)
        out, lse = cute.attention(q, k, v, causal=self.causal, return_lse=True, **options)
        backward: Any = cute.attention_backward
        found = backward(do, q, k, v, out, lse, causal=self.causal, **options)
        return shares([back(each, given[0].dtype) for each in found], *given, causal=self.causal)


def rows_of(only: str | None = None) -> Iterator[Row]:
    """The rows of the table, or those with a name that matches."""
    kinds = [*(("normal", size) for size in _SIZES), *_OTHERS]
    for values, size in kinds:
        for depth, causal, dtype in ((64, True, "f16"), (128, False, "bf16"), (128, True, "f16")):
            row = Row(values, size, depth, causal, dtype)
            if only is None or re.search(only, row.name):
                yield row


def _kept(array: Array, _dtype: Any = None) -> Array:
    return array


def _to_gpu(array: Array) -> Any:
    import torch

    kind = torch.float16 if array.dtype == np.float16 else torch.bfloat16
    return torch.from_numpy(array.view(np.int16).copy()).view(kind).cuda()


def _from_gpu(tensor: Any, dtype: Any) -> Array:
    import torch

    return tensor.view(torch.int16).cpu().numpy().view(dtype)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.attention_backward_accuracy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--backend", choices=["emulator", "cuda"], help="where kernels run")
    parser.add_argument("--arch", help="the target of the emulator")
    parser.add_argument("--rows", type=int, default=1024, help="rows, and keys, of a head")
    parser.add_argument("--only", metavar="REGEX", help="rows whose names match")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    given = parser.parse_args(arguments)
    chosen = {"backend": given.backend, "arch": given.arch}
    options = {name: value for name, value in chosen.items() if value is not None}
    table: dict[str, dict[str, float]] = {}
    wrong = 0
    for row in rows_of(given.only):
        figures = table[row.name] = row.figures(given.rows, options)
        worst = max(figures, key=figures.__getitem__)
        # A figure that is no number is above nothing.
        fails = not all(each <= ALLOWED for each in figures.values())
        wrong += fails
        shown = "  ".join(f"{name} {figure:.2f}" for name, figure in figures.items())
        print(f"{row.name:28s} {shown}{f'  FAILED: {worst}' if fails else ''}", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(table, indent=2) + "\n")
    largest = max((max(each.values()) for each in table.values()), default=0.0)
    print(f"{len(table) - wrong} of {len(table)} rows within {ALLOWED:g}; largest {largest:.2f}")
    return int(wrong > 0 or not table)


if __name__ == "__main__":
    sys.exit(main())
