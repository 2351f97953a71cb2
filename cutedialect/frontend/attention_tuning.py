"""`cute.attention` as something to tune. A call without a schedule looks for a result of its class
of problems on its device.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from cutedialect.backend.runtime.fingerprint import fingerprint
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.timing import Timer
from cutedialect.schedule import Schedule

from .attention import AttentionCall
from .attention_operands import ATTENTION, columns_of
from .attention_variants import tuned_schedules
from .kernel import TensorSpec
from .library.attention import attention as program
from .ready_attention import ReadyAttention
from .tunable import held, tensor_class
from .tuned_options import Candidate, Options

# Arrays whose numbers say what is computed: random ones say nothing.
_INDICES = ("lengths", "block_table", "cu_seqlens")
_NUMBERS = ("scale_q", "scale_k", "scale_v")


class TunableAttention:
    """A call of `cute.attention` on arrays, or specs of given extents."""

    name = "attention"

    def __init__(self, args: tuple[Any, ...], options: dict[str, Any], timer: Timer) -> None:
        self._arch: str = options["arch"]
        given = ATTENTION.given(*args, **{k: v for k, v in options.items() if k != "arch"})
        array, columns = columns_of(given.k, given.v)
        given.v = array if columns is None else columns
        for name in ("q", "k", "out", *_NUMBERS):
            setattr(given, name, held_array(getattr(given, name), name, timer))
        if columns is None:
            given.v = held_array(given.v, "v", timer)
        for name in _INDICES:
            setattr(given, name, held_indices(getattr(given, name), name, timer))
        self._call = AttentionCall(given)
        if given.out is None:
            # The result of each candidate is compared with the first one's.
            given.out = held(self._call.result, "out", timer)
        self._lse = None
        if self._call.given.return_lse:
            self._lse = held(TensorSpec(self._call.out_shape[:-1], "f32"), "lse", timer)

    @property
    def problem(self) -> str:
        return problem_class(self._call)

    @property
    def fingerprint(self) -> str:
        return _program_fingerprint()

    def candidates(self) -> tuple[Schedule | None, ...]:
        return None, *tuned_schedules(self._call.problem(self._arch, "auto"))

    def compiled(self, schedule: Candidate) -> Kernel:
        kernel = self._ready(schedule).kernel
        if kernel is None:
            raise ValueError(f"q: expected an output with elements, got {self._call.out_shape}")
        return kernel

    def arguments(self, schedule: Candidate) -> tuple[Any, ...]:
        given = self._call.arguments(self._ready(schedule), self._call.given.out, self._lse)
        return tuple(value for value in given if value is not None)

    def _ready(self, schedule: Candidate) -> ReadyAttention:
        assert not isinstance(schedule, Options)  # `tune` refuses these for a call of arrays
        return self._call.prepared_with(schedule, self._arch, "auto")


def problem_class(call: AttentionCall) -> str:
    """The classes of the arrays, and what is asked for beside them."""
    arrays = {
        "q": call.q.value,
        "k": call.k.value,
        "v": f"{call.v.shape[-1]} columns" if call.is_latent else tensor_class(call.v.value),
        "out": call.result,
        "lengths": call.lengths and call.lengths.value,
        "cu_seqlens": call.packing and call.packing.q_offsets.value,
        "block_table": call.block_table and call.block_table.value,
    }
    parts = [
        f"{name} {value if isinstance(value, str) else tensor_class(value, name)}"
        for name, value in arrays.items()
        if value is not None
    ]
    left, right = call.masks()
    facts = {"left": left, "right": right, "softcap": call.softcap, "scales": call.scales.ranks}
    parts += [f"{name} {value}" for name, value in facts.items() if value not in (None, (0, 0, 0))]
    parts += ["negative"] if call.scale <= 0 else []
    return ", ".join([*parts, *(["lse"] if vars(call.given).get("return_lse") else [])])


@lru_cache(maxsize=1)
def _program_fingerprint() -> str:
    return fingerprint(program.function)


def held_array(value: Any, name: str, timer: Timer) -> Any:
    """A private copy of an array; numbers stay."""
    return value if value is None or isinstance(value, int | float) else held(value, name, timer)


def held_indices(value: Any, name: str, timer: Timer) -> Any:
    """The same of arrays whose numbers matter. Raises TypeError for a spec."""
    if isinstance(value, tuple | list):
        return tuple(held_indices(each, f"{name}[{i}]", timer) for i, each in enumerate(value))
    if isinstance(value, TensorSpec):
        raise TypeError(f"{name}: expected an array to tune with, got a spec")
    return held_array(value, name, timer)
