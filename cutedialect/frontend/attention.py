"""`cute.attention` on arrays: it checks its arguments, makes the outputs, and runs the tile program
`library/attention.py`; it touches nothing that the program does not.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cutedialect.choosing.attention_problem import AttentionProblem
from cutedialect.schedule import Schedule

from .attention_operands import ATTENTION, Packing, Window, columns_of
from .attention_scales import HeadScales, split_scales
from .attention_splits import Work, parts_of, without_parts
from .attention_views import follow_each_other
from .declared_spaces import SpacedCall
from .doors import Door
from .dtypes import DType, f32, i32
from .gemm_operands import check_types
from .kernel import TensorSpec
from .launch import Variants, as_schedule, check_arch, compile_kernel, default_arch
from .library.attention import attention as program
from .library.split_attention import split_attention
from .ready_attention import ReadyAttention
from .ready_call import call_key
from .rules import Checked, Operand, new_spec, tile_of

_LOG2_E = math.log2(math.e)
# Rows of heads that share keys are those of one tile where they are so many of a head, or so many
# of all heads: then one tile holds them.
_MOST_FOLDED, _MOST_TOGETHER = 8, 64


class AttentionCall(Checked):
    """The checked arguments of one call. `columns` are those of k that are values, if any."""

    call = ATTENTION
    q: Operand
    k: Operand
    v: Operand
    block_table: Operand | None
    lengths: Operand | None
    out: Operand | None
    columns: int | None
    window: Window
    scale: float
    softcap: float | None
    scales: HeadScales
    packing: Packing | None

    @property
    def given_scales(self) -> tuple[Any, Any, Any]:
        """The scales as the call gives them."""
        return self.given.scale_q, self.given.scale_k, self.given.scale_v

    @property
    def scaled_keys(self) -> tuple[int | None, ...] | None:
        """(batch or pages, heads, keys), each of which may have a scale; None beside 8 bits of q,
        whose exponentials have too few bits for more factors.
        """
        return self.k.shape[:3] if self.q.dtype.bits > 8 else None

    @property
    def is_latent(self) -> bool:
        """Whether values are columns of k."""
        return self.columns is not None

    @property
    def heads(self) -> int | None:
        """The heads of k and v."""
        return self.extents["Hk"]

    def prepare(self) -> Any:
        """Compile (or find) the kernel; an empty output has none. Of a call without a schedule, one
        that spills gives way to one with fewer keys in a block.
        """
        backend = self.given.backend
        target = self.given.arch or default_arch(backend)
        check_arch(target)
        check_types(self.q, self.q, target)
        call = self._of_program(as_schedule(self.given.schedule), target, backend)
        tile_of(call.given, "rows, keys")
        return call.fitted(partial(self._prepared_with, call), partial(_kept, self, call))

    def prepared_with(self, given: Schedule | None, target: str, backend: str) -> ReadyAttention:
        """The call with the choice that has the fields of a schedule."""
        call = self._of_program(given, target, backend)
        return self._prepared_with(call, given, call.chosen(given))

    def problem(self, target: str, backend: str) -> AttentionProblem:
        """What the choice of a schedule depends on."""
        return self._of_program(None, target, backend).problem

    def _of_program(self, given: Schedule | None, target: str, backend: str) -> SpacedCall:
        """The call of the program, as one of its users makes it: tiles have a row, until it is
        chosen how many.
        """
        ready = self._ready(Schedule(), 1)
        taken = split_attention if ready.gathers else program
        named = dict.fromkeys(program.parameters) | dict(
            zip(taken.parameters, self.arguments(ready, self.result, self._lse), strict=True)
        )
        options = {
            "page_size": 0 if self.block_table is None else self.k.shape[2],
            # The largest score is that of the largest product only with a positive factor.
            "is_scaled_first": self.softcap is not None or self.scale <= 0,
            "arch": target,
            "backend": backend,
        }
        return SpacedCall.of(program, named, given, options)

    def _prepared_with(
        self, call: SpacedCall, given: Schedule | None, chosen: Schedule
    ) -> ReadyAttention:
        """The call with what was chosen, where `given` is what it gives of that."""
        ready = self._ready(without_parts(chosen), self._parts(chosen, call.arch, call.backend))
        if 0 in self.out_shape:
            return ready

        def options(of: Schedule) -> dict[str, Any]:
            return call.filled(without_parts(of))

        def near(other: Schedule) -> dict[str, Any]:
            return options(call.chosen(other))

        args = self.arguments(ready, self.result, self._lse)
        taken = split_attention if ready.parts is not None or ready.gathers else program
        kernel = compile_kernel(taken, args, options(chosen), Variants(given or Schedule(), near))
        return replace(ready, kernel=kernel)

    @property
    def group(self) -> int:
        """Heads of q that share one of k and v."""
        return (self.q.shape[1] or 0) // (self.heads or 1)

    @property
    def result(self) -> Any:
        """The output, or its spec."""
        out = self.given.out
        return new_spec(self.out_shape, self.out_dtype) if out is None else out

    @property
    def _lse(self) -> TensorSpec | None:
        """What the logarithms look like, where they are asked for."""
        return TensorSpec(self.out_shape[:-1], f32, align=4) if self.given.return_lse else None

    def _gathers(self) -> bool:
        """Whether rows of heads that share keys are brought together first."""
        return self.folds and not follow_each_other(self.q.value, self.heads or 1)

    def _parts(self, chosen: Schedule, target: str, backend: str) -> int:
        """Into how many parts keys are split."""
        rows, times = self.q.shape[2], self.group
        if self.folds and rows is not None:
            rows, times = self.group * rows, 1
        converts = self.k.dtype.bits < self.q.dtype.bits
        packed = self.packing is not None
        work = Work(self.key_shape(), rows, times, self.masks(), packed, converts)
        return parts_of(work, chosen, target, backend)

    def _ready(self, chosen: Schedule, parts: int) -> ReadyAttention:
        """What runs the call, without a kernel."""
        heads, rows = self.heads or 1, chosen.tile[0] if chosen.tile else 1
        queries = self.folds and self.masks() != (None, None)
        return ReadyAttention(
            None,
            self.out_shape,
            self.out_dtype,
            self.given.return_lse,
            heads,
            self.group,
            self.scalars(),
            self.scales,
            None if self.packing is None else self.items(rows, heads, self.group),
            self.folds,
            self._gathers(),
            _scalar(self.q.shape[2], i32) if queries else None,
            None if parts == 1 else _scalar(parts, i32),
        )

    def arguments(self, ready: ReadyAttention, out: Any, lse: Any) -> list[Any]:
        """The arguments of the tile program for the results, or their specs."""
        values = None if self.is_latent else self.v.value
        lengths = None if self.lengths is None else self.lengths.value
        table = None if self.block_table is None else self.block_table.value
        packing = self.packing
        offsets = () if packing is None else (packing.q_offsets.value, packing.k_offsets.value)
        arrays = self.q.value, self.k.value, values, out, lse, lengths, table
        return ready.arguments((*arrays, *self.given_scales, *offsets))

    def key_shape(self) -> tuple[int | None, ...]:
        """The shape of k without pages."""
        if self.block_table is None:
            return self.k.shape
        batch, pages = self.block_table.shape
        size = self.k.shape[2]
        keys = None if pages is None or size is None else pages * size
        return batch, self.k.shape[1], keys, self.k.shape[3]

    def rows_each(self) -> int | None:
        """Rows of a packed sequence, on average."""
        assert self.packing is not None
        total, count = self.q.shape[2], self.packing.q_offsets.shape[0]
        return None if total is None or count is None else -(-total // max(1, count - 1))

    def sequences(self, heads: int | None) -> int | None:
        """How many sequences of rows attend, with so many heads each."""
        batch = self.q.shape[0]
        if self.packing is not None:
            count = self.packing.q_offsets.shape[0]
            batch = None if count is None else count - 1
        return None if batch is None or heads is None else batch * heads

    @property
    def folds(self) -> bool:
        """Whether rows of heads that share keys are made the rows of one tile: where they are few,
        one stride leads from each to the next of the output, and one scale is that of them all.
        """
        heads, rows, out = self.heads or 1, self.q.shape[2], self.given.out
        if self.packing or self.scales.of_rows or not rows or self.q.shape[1] == heads:
            return False
        if rows > _MOST_FOLDED and rows * (self.q.shape[1] or 0) // heads > _MOST_TOGETHER:
            return False
        return out is None or follow_each_other(out, heads)

    def masks(self) -> Window:
        """The keys before and behind that a row sees; a single row sees all of those behind."""
        left, right = self.window
        return left, (None if self.q.shape[2] == 1 and not self.packing else right)

    def scalars(self) -> tuple[Any, ...]:
        """Scale, cap, the keys that a row sees, and v's scale, as the program takes them."""
        of_q, of_k, of_v = self.scales.numbers
        scale, cap = self.scale * of_q * of_k * _LOG2_E, None
        if self.softcap is not None:
            scale, cap = self.scale * of_q * of_k / self.softcap, self.softcap * _LOG2_E
        left, right = self.masks()
        return (
            *(_scalar(each, f32) for each in (scale, cap)),
            *(_scalar(each, i32) for each in (left, right)),
            None if of_v == 1 else _scalar(of_v, f32),
        )

    def items(self, rows: int, heads: int, group: int) -> tuple[int | None, ...]:
        """A shape that covers the work items of the packed sequences, which need not be known: each
        has one tile of `rows` more than whole ones in it at most.
        """
        assert self.packing is not None
        total, count = self.q.shape[2], self.packing.q_offsets.shape[0]
        number = None if total is None or count is None else total // rows + count - 1
        return (number, heads, group) if group > 1 else (number, heads)


def _kept(call: AttentionCall, of_program: SpacedCall) -> Schedule | None:
    """What tuning found for calls like this one."""
    from .attention_tuning import problem_class

    return of_program.tuned(problem_class(call))


def _scalar(value: float | None, dtype: DType) -> Any:
    """A number as a run-time argument of a type."""
    if value is None:
        return None
    return dtype.numpy.type(value)


def _look(
    given: dict[str, Any], arrays: tuple[Any, ...], options: tuple[object, ...]
) -> tuple[Any, tuple[Any, ...], bool]:
    """The key, and arrays without values that are columns of the keys."""
    columns = None
    while True:
        key, addresses = call_key(arrays, (*options, columns))
        v = arrays[2]
        # Columns of the keys begin where these do; host arrays are not known to begin elsewhere.
        if v is None or (addresses[1] != addresses[2] and not isinstance(v, int)):
            break
        v, columns = columns_of(arrays[1], v)
        if columns is None:
            break
        arrays = *arrays[:2], v, *arrays[3:]
        given["v"] = columns
    return key, arrays, columns is None


door: Door[AttentionCall, ReadyAttention] = Door(ATTENTION, AttentionCall, _look)

if TYPE_CHECKING:
    from .typed_calls import attention
else:
    attention = door.function(__name__, {"split_scales": split_scales})
