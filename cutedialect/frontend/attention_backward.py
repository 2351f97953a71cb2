"""`cute.attention_backward` on arrays: it checks its arguments, makes the outputs, and runs the
programs of `library/attention_backward.py`; it touches nothing that they do not.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cutedialect.choosing.attention_backward_problem import AttentionBackwardProblem
from cutedialect.choosing.attention_backward_space import ATTENTION_BACKWARD as SPACE
from cutedialect.choosing.attention_backward_space import streamed_keys
from cutedialect.choosing.attention_problem import WARPGROUP_TARGETS
from cutedialect.choosing.attention_space import tile_columns
from cutedialect.choosing.choose import choose
from cutedialect.schedule import Schedule

from .attention import AttentionCall
from .attention_facts import is_boxes
from .attention_operands import differ, last_stride
from .attention_scales import split_scales
from .attention_splits import processors_of
from .declarations import ATTENTION, ATTENTION_BACKWARD
from .doors import Door
from .dtypes import DType, bf16, f16, f32
from .fitting import Memory, allowed, searched
from .gemm_operands import check_types
from .kernel import TensorSpec
from .launch import Variants, as_schedule, check_arch, compile_kernel, default_arch
from .library.attention_backward import attention_backward as program
from .ready_attention_backward import MEMORY, ReadyAttentionBackward
from .rules import Operand, as_operand, shown

_ELEMENTS, _RESULTS = (f16, bf16), (f16, bf16, f32)
_MOST_DIMS = 256
# Heads up to which gradients of queries are added up beside those of keys and values.
_WIDEST_ADDED = 128
# Columns of two units of the narrowest swizzle, of 16 bits.
_UNIT = 32
_OPERANDS = "qkv"


class AttentionBackwardCall:
    """The checked arguments of one call. `forward` is the call whose gradients these are."""

    def __init__(self, given: SimpleNamespace) -> None:
        self.given = given
        if given.block_table is not None:
            raise ValueError(
                "block_table: expected None, got a table: pages of keys that sequences share have "
                "no gradients of their own; gather them and give k and v as they are"
            )
        if isinstance(given.v, int):
            raise TypeError("v: expected an array, got a number of columns of k")
        self.forward = _forward_of(given)
        q, k, v = self.forward.q, self.forward.k, as_operand(given.v, "v")
        for each in (q, k, v):
            _check_element(each, _ELEMENTS if each is q else (q.dtype,))
            if (each.shape[-1] or 0) > _MOST_DIMS:
                raise ValueError(
                    f"{each.name}: expected a head dimension of 1 to {_MOST_DIMS}, got "
                    f"{each.shape[-1]}"
                )
        self.q, self.k, self.v = q, k, v
        shape = self.forward.out_shape
        self.out = _operand(given.out, "out", shape, _RESULTS)
        self.lse = _operand(given.lse, "lse", shape[:-1], (f32,))
        self.do = None if given.do is None else _operand(given.do, "do", shape, _RESULTS)
        self.dlse = None
        if given.dlse is not None:
            self.dlse = _operand(given.dlse, "dlse", shape[:-1], (f32,))
        if not isinstance(given.deterministic, bool):
            raise TypeError(f"deterministic: expected True or False, got {given.deterministic!r}")
        self.gradients = self._gradients()

    def _gradients(self) -> dict[str, tuple[tuple[int | None, ...], DType]]:
        """The shapes and types of the results that are wanted."""
        wanted, operands = self.given.wanted, (self.q, self.k, self.v)
        if not isinstance(wanted, str) or not wanted or set(wanted) - set(_OPERANDS):
            raise ValueError(f"wanted: expected some of the letters 'qkv', got {wanted!r}")
        found: dict[str, tuple[tuple[int | None, ...], DType]] = {}
        for operand in operands:
            name = f"d{operand.name}"
            out = getattr(self.given, name)
            if operand.name not in wanted:
                if out is not None:
                    raise ValueError(
                        f"{name}: expected None without '{operand.name}' in wanted, got an array"
                    )
                continue
            dtype = operand.dtype
            if out is not None:
                dtype = _operand(out, name, operand.shape, _RESULTS).dtype
            found[name] = operand.shape, dtype
        return found

    @property
    def out_dtype(self) -> DType:
        """The type of gradients that are made for the call."""
        return self.q.dtype

    def lacks(self) -> str:
        """What is said of a call without results."""
        return f"rows and keys, got shapes {shown(self.q.shape)} and {shown(self.k.shape)}"

    def prepare(self) -> ReadyAttentionBackward:
        """Compile (or find) the kernels; of a call without a schedule, one that spills gives way to
        one with smaller tiles.
        """
        backend = self.given.backend
        target = self.given.arch or default_arch(backend)
        check_arch(target)
        check_types(self.q, self.q, target)
        problem = self.problem(target, backend)

        def found(given: Schedule | None) -> ReadyAttentionBackward:
            choice = partial(choose, SPACE, problem, given)
            prepared = partial(self._prepared_with, problem, given, backend)
            if given is not None and given.tile is not None:
                # What spills stays where its tile is given: the launch tells.
                return prepared(choice())
            memory = Memory(lambda: f"attention_backward {problem.kernel_class}", target)
            return searched(choice, prepared, backend, memory)

        schedule = as_schedule(self.given.schedule)
        if schedule is None:
            return found(None)
        if schedule.tile is not None and len(schedule.tile) != 2:
            raise ValueError(f"schedule: expected a tile (keys, rows), got {schedule.tile}")
        return allowed(found, schedule)

    def problem(self, target: str, backend: str) -> AttentionBackwardProblem:
        """What the choice of a schedule depends on."""
        forward = self.forward
        left, right = forward.window
        is_packed = forward.packing is not None
        is_sliced = is_packed or forward.lengths is not None
        return AttentionBackwardProblem(
            self._dims(target),
            rows=forward.rows_each() if is_packed else self.q.shape[2],
            keys=None if is_packed else self.k.shape[2],
            sequences=forward.sequences(self.k.shape[1]),
            group=forward.group,
            is_masked=(left, right) != (None, None),
            has_window=left is not None,
            is_sliced=is_sliced,
            is_capped=forward.softcap is not None,
            has_scales=any(forward.scales.ranks),
            is_f16=self.q.dtype == f16,
            loads_boxes=self._loads_boxes(),
            adds=self._adds,
            processors=processors_of(target, backend),
            arch=target,
        )

    def _dims(self, target: str) -> tuple[int, int]:
        """The head dimensions as tiles have them. Two warpgroups share the columns of what is
        added up, each whole units of the narrowest swizzle.
        """
        on_groups = target in WARPGROUP_TARGETS
        depths = [
            tile_columns(each.shape[-1] or 0, each.dtype.bits, on_groups)
            for each in (self.q, self.v)
        ]
        if on_groups:
            depths = [each if each <= _UNIT else -(-each // _UNIT) * _UNIT for each in depths]
        return depths[0], depths[1]

    @property
    def _adds(self) -> bool:
        """Whether gradients of queries are added up in memory: not those of wide heads, which would
        take the shared memory of a stage.
        """
        is_wide = max(self.q.shape[-1] or 0, self.v.shape[-1] or 0) > _WIDEST_ADDED
        adds = "dq" in self.gradients and len(self.gradients) > 1
        return adds and not (is_wide or self.given.deterministic)

    def _loads_boxes(self) -> bool:
        return all(map(is_boxes, (self.q, self.k, self.v)))

    @property
    def copies(self) -> bool:
        """Whether slopes along out are copied first, so that multiplies read them as they do q."""
        do = self.do
        if do is None:
            return True
        if do.dtype != self.q.dtype or last_stride(do) not in (1, None):
            return True
        return self._loads_boxes() and not is_boxes(do)

    def _prepared_with(
        self,
        problem: AttentionBackwardProblem,
        given: Schedule | None,
        backend: str,
        chosen: Schedule,
    ) -> ReadyAttentionBackward:
        """The call with what was chosen, where `given` is what it gives of that."""
        ready = self._ready(problem, chosen)
        if all(0 in shape for shape, _ in self.gradients.values()):
            return ready

        def options(of: Schedule) -> dict[str, Any]:
            return {"schedule": of, "tile": of.tile, "streamed": streamed_keys(problem, of)}

        fixed = {
            "dims": problem.dims,
            "arch": problem.arch,
            "backend": backend,
        }

        def near(other: Schedule) -> dict[str, Any]:
            return options(choose(SPACE, problem, other))

        args = self.arguments(ready)
        variants = Variants(given or Schedule(), near)
        kernel = compile_kernel(program, args, options(chosen) | fixed, variants)
        return replace(ready, kernel=kernel)

    def _ready(self, problem: AttentionBackwardProblem, chosen: Schedule) -> ReadyAttentionBackward:
        """What runs the call, without a kernel."""
        forward, (keys, rows) = self.forward, chosen.tile[:2] if chosen.tile else (1, 1)
        items = None
        if forward.packing is not None:
            total, count = self.k.shape[2], forward.packing.k_offsets.shape[0]
            number = None if total is None or count is None else total // keys + count - 1
            items = number, forward.heads
        scale, cap, left, right, factor_v = forward.scalars()
        of_q, of_k, _ = forward.scales.numbers
        factor = f32.numpy.type(forward.scale * of_q * of_k)
        return ReadyAttentionBackward(
            None,
            self.q.shape,
            self.q.dtype,
            self.gradients,
            forward.heads or 1,
            forward.group,
            self._memory(rows, problem.dims),
            (scale, factor, cap, left, right, factor_v),
            forward.scales,
            items,
        )

    def _memory(
        self, rows: int, dims: tuple[int, int]
    ) -> dict[str, tuple[tuple[int | None, ...], DType]]:
        """The shapes and types of what the call has for itself, with tiles of so many rows."""
        batch, heads, count = self.q.shape[:3]
        tiles = None if count is None else -(-count // rows)
        packing = self.forward.packing
        if packing is not None and count is not None:
            ends = packing.q_offsets.shape[0]
            tiles = None if ends is None else count // rows + ends - 1
        by_tiles = batch, heads, None if tiles is None else tiles * rows
        made: dict[str, tuple[tuple[int | None, ...], DType]] = {
            "logarithms": (by_tiles, f32),
            "delta": (by_tiles, f32),
        }
        if self._adds:
            made["sums"] = (*by_tiles, dims[0]), f32
        if self.copies:
            made["copied"] = self.forward.out_shape, self.q.dtype
        return made

    def arguments(self, ready: ReadyAttentionBackward) -> list[Any]:
        """The arguments of the program, with specs of new results."""
        given, packing = self.given, self.forward.packing
        outs = []
        for operand in (self.q, self.k, self.v):
            name = f"d{operand.name}"
            out = getattr(given, name)
            if out is None and name in self.gradients:
                out = _spec(*self.gradients[name])
            outs.append(out)
        memory = [_spec(*ready.memory[name]) if name in ready.memory else None for name in MEMORY]
        lengths = None if self.forward.lengths is None else self.forward.lengths.value
        offsets = () if packing is None else (packing.q_offsets.value, packing.k_offsets.value)
        arrays = given.q, given.k, given.v, given.out, given.lse, given.do, given.dlse
        scales = split_scales(self.forward.given_scales)[0]
        return ready.arguments((*arrays, *outs, *memory, lengths, *scales, *offsets))


def _forward_of(given: SimpleNamespace) -> AttentionCall:
    """The call of `cute.attention` with the arguments that both have."""
    named = {each.name: each.default for each in ATTENTION.parameters}
    named |= {name: value for name, value in vars(given).items() if name in named}
    return AttentionCall(SimpleNamespace(**(named | {"out": None, "return_lse": True})))


def _spec(shape: tuple[int | None, ...], dtype: DType) -> TensorSpec:
    """What an array that is made for the call looks like. Rows of unknown length are those of whole
    tiles.
    """
    row = (shape[-1] or 16) * dtype.bits // 8
    return TensorSpec(shape, dtype, align=min(16, row & -row))


def _operand(
    value: Any, name: str, shape: tuple[int | None, ...], dtypes: tuple[DType, ...]
) -> Operand:
    """An array of a shape and one of some types."""
    operand = as_operand(value, name)
    if len(operand.shape) != len(shape) or any(map(differ, operand.shape, shape)):
        raise ValueError(f"{name}: expected shape {shown(shape)}, got {shown(operand.shape)}")
    _check_element(operand, dtypes)
    return operand


def _check_element(operand: Operand, dtypes: tuple[DType, ...]) -> None:
    if operand.dtype not in dtypes:
        *most, last = (each.name for each in dtypes)
        names = f"{', '.join(most)} or {last}" if most else last
        raise TypeError(f"{operand.name}: expected {names}, got {operand.dtype.name}")


door: Door[AttentionBackwardCall, ReadyAttentionBackward] = Door(
    ATTENTION_BACKWARD, AttentionBackwardCall
)

if TYPE_CHECKING:
    from .typed_calls import attention_backward
else:
    attention_backward = door.function(__name__, {"split_scales": split_scales})
