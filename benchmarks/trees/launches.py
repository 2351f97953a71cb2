"""Launches of a kernel of this process's tree on a device, timed in rounds that the asking process
puts between those of another tree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

# Elements of a result that are compared, evenly spread.
_SAMPLED = 1 << 18
_SEED = 7
_BATCH_MS, _ROUNDS = 5.0, 3
# Sets of operands of what a script launches, which is small.
_SETS = 4


@dataclass(frozen=True)
class Operands:
    """Arrays of a launch, of which those at `written` are results."""

    args: tuple[Any, ...]
    written: Sequence[int]

    @property
    def outputs(self) -> tuple[Any, ...]:
        return tuple(self.args[place] for place in self.written)


class Launches:
    """A batch of launches over sets of operands that are the same in each tree."""

    def __init__(self, call: Callable[[Any], object], sets: Sequence[Any], launches: int) -> None:
        self._torch = import_module("torch")
        self._timing = import_module("benchmarks.timing")
        call(sets[0])
        self._torch.cuda.synchronize()
        self._results = [out.detach().clone() for out in sets[0].outputs]
        for operands in sets[1:]:
            call(operands)
        self._torch.cuda.synchronize()
        # A captured graph has addresses alone: without this, launches would read freed memory.
        self._sets = sets
        (self._batch,) = self._timing.make_batches(self._torch, [call], sets, launches)

    @classmethod
    def of_case(cls, case: Any) -> Launches:
        """Of a case of the benchmarks, by its own operands."""
        torch, timing = import_module("torch"), import_module("benchmarks.timing")
        launches = timing.launches_for(case, timing.Plan(batch_ms=_BATCH_MS))
        rotation = import_module("benchmarks.inputs").rotation(torch, case)
        sets = [case.make_operands(torch, seed) for seed in range(min(rotation, launches))]
        return cls(case.ours(None), sets, launches)

    @classmethod
    def of_script(cls, kernel: Any, arguments: Sequence[Any]) -> Launches:
        """Of what a script launched, on arrays like those that it had."""
        on_device = kernel.on("cuda")
        written = kernel.signature.written
        sets = [
            Operands(tuple(_on_device(arg, number) for arg in arguments), written)
            for number in range(_SETS)
        ]
        return cls(lambda operands: on_device.launch(*operands.args), sets, _ROUNDS * 100)

    def result(self, folder: Path) -> dict[str, Any]:
        """Digests of the results, and a file with samples of them in f32."""
        digests, samples = [], []
        for out in self._results:
            bits = out.contiguous().flatten().view(self._torch.uint8).cpu().numpy()
            digests.append(hashlib.sha256(bits.tobytes()).hexdigest()[:16])
            flat = out.flatten()
            samples.append(flat[:: max(1, flat.numel() // _SAMPLED)].float().cpu().numpy())
        self._results = []
        file = folder / f"{hashlib.sha256(repr(digests).encode()).hexdigest()[:16]}.npz"
        np.savez(file, *samples)
        return {"digests": digests, "samples": str(file)}

    def ms(self) -> float:
        """Milliseconds of a launch: the median of a few batches behind one that is not timed."""
        plan = self._timing.Plan(rounds=_ROUNDS, warmup=1, cool_down=0.0)
        rounds = self._timing.interleave(self._torch, [self._batch], plan)
        return median(rounds.ms[0])


def _on_device(value: Any, number: int) -> Any:
    """A number as it is; an array as torch's on the device, with its strides. Whole numbers are
    kept, since they may say where something is; others are drawn.
    """
    if not hasattr(value, "shape"):
        return value
    torch = import_module("torch")
    array = np.asarray(value)
    steps = [step // array.itemsize for step in array.strides]
    span = 1 + sum((extent - 1) * step for extent, step in zip(array.shape, steps, strict=True))
    flat = np.lib.stride_tricks.as_strided(array, (span,), (array.itemsize,))
    if array.dtype.kind in "iub":
        made = torch.from_numpy(flat.copy()).cuda()
    else:
        drawn = np.random.default_rng((_SEED, number)).standard_normal(span) / 4
        stored = f"i{array.itemsize}"
        made = torch.from_numpy(drawn.astype(array.dtype).view(stored)).cuda()
        made = made.view(getattr(torch, str(array.dtype)))
    return made.as_strided(array.shape, steps)
