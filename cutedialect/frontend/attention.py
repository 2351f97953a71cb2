"""`cute.attention` on arrays: it checks its arguments, makes the outputs, and runs the tile program
`library/attention.py`; it touches nothing that the program does not.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cutedialect.choosing.attention_parameters import open_parameters
from cutedialect.choosing.attention_problem import WARPGROUP_TARGETS, WIDE, AttentionProblem
from cutedialect.choosing.attention_space import ATTENTION as SPACE
from cutedialect.choosing.attention_space import tile_columns
from cutedialect.choosing.choose import choose
from cutedialect.schedule import Schedule

from .attention_operands import Packing, Window, columns_of
from .attention_scales import HeadScales, split_scales
from .attention_splits import Work, parts_of, processors_of, without_parts
from .attention_views import (
    follow_each_other,
)
from .declarations import ATTENTION
from .doors import Door
from .dtypes import DType, f16, f32, i32
from .fitting import Memory, fitted
from .gemm_operands import check_types
from .kernel import TensorSpec
from .launch import Variants, as_schedule, check_arch, compile_kernel, default_arch, spec_of
from .library.attention import attention as program
from .library.split_attention import split_attention
from .ready_attention import ReadyAttention
from .ready_call import call_key
from .rules import Checked, Operand

_LOG2_E = math.log2(math.e)
# Rows of heads that share keys are those of one tile where they are so many of a head, or so many
# of all heads: then one tile holds them.
_MOST_FOLDED, _MOST_TOGETHER = 8, 64
# Columns that two warpgroups share, each whole lines of shared memory.
_WIDE_UNIT = 128
# Bytes that divide the strides of what TMA copies, and of what asynchronous copies do.
_BOX_ALIGN, _WORD_BYTES = 16, 4


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

    def __init__(self, given: SimpleNamespace) -> None:
        self.given_scales = given.scale_q, given.scale_k, given.scale_v
        self.returns_lse = given.return_lse
        super().__init__(given)

    @property
    def is_latent(self) -> bool:
        """Whether values are columns of k."""
        return self.columns is not None

    @property
    def heads(self) -> int | None:
        """The heads of k and v."""
        return self.extents["Hk"]

    def prepare(self) -> ReadyAttention:
        """Compile (or find) the kernel; an empty output has none. Of a call without a schedule, one
        that spills gives way to one with fewer keys in a block.
        """
        backend, schedule = self.given.backend, as_schedule(self.given.schedule)
        target = self.given.arch or default_arch(backend)
        check_arch(target)
        check_types(self.q, self.q, target)
        problem = self.problem(target, backend)
        if schedule is not None and schedule.tile is not None and len(schedule.tile) != 2:
            raise ValueError(f"schedule: expected a tile (rows, keys), got {schedule.tile}")

        def choice(given: Schedule | None) -> Any:
            # What spills stays where its keys are given: the launch tells.
            stays = given is not None and given.tile is not None
            return None if stays else partial(choose, SPACE, problem, given)

        memory = Memory(lambda: f"attention {problem.kernel_class}", target)
        prepared = partial(self._prepared_with, problem, backend)
        return fitted(prepared, choice, schedule, backend, memory, partial(_kept, self, target))

    def prepared_with(self, given: Schedule | None, target: str, backend: str) -> ReadyAttention:
        """The call with the choice that has the fields of a schedule."""
        return self._prepared_with(self.problem(target, backend), backend, given, None)

    def _prepared_with(
        self, problem: AttentionProblem, backend: str, given: Schedule | None, best: Schedule | None
    ) -> ReadyAttention:
        """The call with what was chosen, where `given` is what it gives of that."""
        chosen = choose(SPACE, problem, given) if best is None else best
        out, target = self.given.out, problem.arch
        folds = self.folds(out)
        parts = self._parts(chosen, folds, target, backend)
        chosen = without_parts(chosen)
        ready = self._ready(chosen, folds, parts)
        if 0 in self.out_shape:
            return ready
        options = _options(problem, chosen) | {
            "dims": problem.dims,
            "page_size": 0 if self.block_table is None else self.k.shape[2],
            # The largest score is that of the largest product only with a positive factor.
            "is_scaled_first": self.softcap is not None or self.scale <= 0,
            "arch": target,
            "backend": backend,
        }

        def near(other: Schedule) -> dict[str, Any]:
            return _options(problem, without_parts(choose(SPACE, problem, other)))

        lse = TensorSpec(self.out_shape[:-1], f32, align=4) if self.returns_lse else None
        args = self.arguments(ready, self._result, lse)
        taken = split_attention if parts > 1 or ready.gathers else program
        kernel = compile_kernel(taken, args, options, Variants(given or Schedule(), near))
        return replace(ready, kernel=kernel)

    @property
    def group(self) -> int:
        """Heads of q that share one of k and v."""
        return (self.q.shape[1] or 0) // (self.heads or 1)

    def new_result(self) -> TensorSpec:
        """What an output that is made for the call looks like."""
        return TensorSpec(self.out_shape, self.out_dtype, align=self._new_alignment())

    @property
    def _result(self) -> Any:
        """The output, or its spec."""
        return self.new_result() if self.given.out is None else self.given.out

    def problem(self, target: str, backend: str) -> AttentionProblem:
        """What the choice of a schedule depends on."""
        folds = self.folds(self.given.out)
        dims, sliced = self.dims(target), self._is_sliced
        left, right = self.masks()
        is_packed = self.packing is not None
        return AttentionProblem(
            dims,
            rows=self.rows_each() if is_packed else self._rows_of_tiles(folds),
            keys=None if is_packed else self.key_shape()[2],
            bits=self.k.dtype.bits,
            loads_boxes=self.loads_boxes() and not self._gathers(folds),
            is_uneven=(left, right) != (None, None) or sliced,
            keeps_more=left is not None or sliced or self.returns_lse,
            is_paged=self.block_table is not None,
            bits_q=self.q.dtype.bits,
            is_sliced=sliced,
            is_packed=is_packed,
            group=self.group,
            has_window=left is not None,
            stores_boxes=is_boxes(self._result, "out"),
            bits_out=self.out_dtype.bits,
            is_capped=self.softcap is not None,
            is_f16=self.q.dtype == f16,
            returns_lse=self.returns_lse,
            is_latent=self.is_latent,
            sequences=self.sequences((self.heads or 1) if folds else self.q.shape[1]),
            processors=processors_of(target, backend),
            is_padded=dims != (self.q.shape[-1], self.v.shape[-1]),
            sees=None if left is None or right is None else left + right + 1,
            is_shifted=self.is_shifted(),
            arch=target,
        )

    @property
    def _is_sliced(self) -> bool:
        """Whether a sequence is a slice of k and v, or scattered over them."""
        return (self.lengths, self.packing, self.block_table) != (None, None, None)

    def _rows_of_tiles(self, folds: bool) -> int | None:
        """The rows that tiles are made of."""
        queries = self.q.shape[2]
        return self.group * queries if folds and queries is not None else queries

    def _gathers(self, folds: bool) -> bool:
        """Whether rows of heads that share keys are brought together first."""
        return folds and not follow_each_other(self.q.value, self.heads or 1)

    def _parts(self, chosen: Schedule, folds: bool, target: str, backend: str) -> int:
        """Into how many parts keys are split."""
        rows, times = self._rows_of_tiles(folds), 1 if folds else self.group
        work = Work(self.key_shape(), rows, times, self.masks(), self.packing is not None)
        return parts_of(work, chosen, target, backend)

    def _ready(self, chosen: Schedule, folds: bool, parts: int) -> ReadyAttention:
        """What runs the call, without a kernel."""
        heads, rows = self.heads or 1, chosen.tile[0] if chosen.tile else 1
        queries = folds and self.masks() != (None, None)
        return ReadyAttention(
            None,
            self.out_shape,
            self.out_dtype,
            self.returns_lse,
            heads,
            self.group,
            self.scalars(),
            self.scales,
            None if self.packing is None else self.items(rows, heads, self.group),
            folds,
            self._gathers(folds),
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

    def dims(self, arch: str) -> tuple[int, int]:
        """The head dimensions as tiles have them."""
        bits = self.q.dtype.bits
        takes_boxes = arch in WARPGROUP_TARGETS and self.loads_boxes()
        depth, width = (
            tile_columns(each.shape[-1] or 0, bits, takes_boxes) for each in (self.q, self.v)
        )
        if max(depth, width) <= WIDE:
            return depth, width
        width = -(-width // _WIDE_UNIT) * _WIDE_UNIT
        # So wide that they hold values which are columns of keys.
        least = width if self.is_latent else 0
        return max(least, -(-depth // (_WIDE_UNIT // 2)) * (_WIDE_UNIT // 2)), width

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

    def folds(self, out: Any) -> bool:
        """Whether rows of heads that share keys are made the rows of one tile: where they are few,
        one stride leads from each to the next of the output, and one scale is that of them all.
        """
        heads, rows = self.heads or 1, self.q.shape[2]
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

    def _new_alignment(self) -> int:
        """Bytes that divide the rows of an output that is made for the call."""
        row = (self.out_shape[-1] or 16) * self.out_dtype.bits // 8
        return min(16, row & -row)

    def loads_boxes(self) -> bool:
        """Whether all of q, k and v are tensors that TMA loads as they are."""
        return all(is_boxes(each.value, each.name) for each in (self.q, self.k, self.v))

    def is_shifted(self) -> bool:
        """Whether rows of q, k or v may begin at any element, not at words."""
        specs = [spec_of(each.value, each.name) for each in (self.q, self.k, self.v)]
        return any(isinstance(each, TensorSpec) and each.align < _WORD_BYTES for each in specs)

    def items(self, rows: int, heads: int, group: int) -> tuple[int | None, ...]:
        """A shape that covers the work items of the packed sequences, which need not be known: each
        has one tile of `rows` more than whole ones in it at most.
        """
        assert self.packing is not None
        total, count = self.q.shape[2], self.packing.q_offsets.shape[0]
        number = None if total is None or count is None else total // rows + count - 1
        return (number, heads, group) if group > 1 else (number, heads)


def _kept(call: AttentionCall, target: str) -> Schedule | None:
    """What tuning found for calls like this one."""
    from .attention_tuning import kept_schedule

    return kept_schedule(call, target)


def _options(problem: AttentionProblem, chosen: Schedule) -> dict[str, Any]:
    """The schedule, and the parameters of the program that go with it."""
    return open_parameters(problem, chosen) | {"schedule": chosen}


def is_boxes(value: object, name: str) -> bool:
    """Whether TMA takes boxes of an argument; an array without elements may have any strides."""
    spec = spec_of(value, name)
    return isinstance(spec, TensorSpec) and spec.align == _BOX_ALIGN and spec.contiguous == 3


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


def tunable_attention(args: tuple[Any, ...], options: dict[str, Any], timer: Any) -> Any:
    """The call as `cute.autotune` takes it."""
    from .attention_tuning import TunableAttention

    return TunableAttention(args, options, timer)


door: Door[AttentionCall, ReadyAttention] = Door(ATTENTION, AttentionCall, _look)

if TYPE_CHECKING:
    from .typed_calls import attention
else:
    attention = door.function(__name__, {"split_scales": split_scales})
    attention.tunable = tunable_attention
