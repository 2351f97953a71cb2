"""`cute.attention_backward` on arrays: it checks its arguments, makes the outputs, and runs the
programs of `library/attention_backward.py`; it touches nothing that they do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from cutedialect.atoms import target as target_of
from cutedialect.choosing.attention_backward_space import ATTENTION_BACKWARD as SPACE
from cutedialect.choosing.attention_backward_space import open_parameters, streamed
from cutedialect.choosing.attention_problem import WARPGROUP_TARGETS, AttentionBackwardProblem
from cutedialect.choosing.choose import choose
from cutedialect.schedule import Schedule

from .attention import AttentionCall
from .attention_facts import is_boxes, kernel_class, tile_columns
from .attention_operands import ATTENTION_BACKWARD, last_stride
from .attention_scales import split_scales
from .attention_splits import processors_of
from .doors import Door
from .dtypes import DType, f16, f32
from .fitting import Memory, fitted
from .gemm_operands import check_types
from .launch import Variants, as_schedule, check_arch, compile_kernel, default_arch
from .library.attention_backward import attention_backward as program
from .ready_attention_backward import MEMORY, ReadyAttentionBackward
from .rules import Extents, Operand, new_spec, shown, tile_of

# Heads up to which gradients of queries are added up beside those of keys and values.
_WIDEST_ADDED = 128
# Columns of two units of the narrowest swizzle, of 16 bits.
_UNIT = 32


class AttentionBackwardCall(AttentionCall):
    """The checked arguments of one call: those of the call whose gradients these are, and more."""

    call = ATTENTION_BACKWARD
    do: Operand | None
    lse: Operand
    dlse: Operand | None

    @property
    def scaled_keys(self) -> None:
        """No key has a scale of its own where gradients are taken."""

    @cached_property
    def gradients(self) -> dict[str, tuple[Extents, DType]]:
        """The shapes and types of the results that are wanted."""
        found: dict[str, tuple[Extents, DType]] = {}
        for operand in (self.q, self.k, self.v):
            if operand.name in self.given.wanted:
                out = getattr(self, f"d{operand.name}")
                found[f"d{operand.name}"] = operand.shape, (out or operand).dtype
        return found

    def lacks(self) -> str:
        """What is said of a call without results."""
        return f"rows and keys, got shapes {shown(self.q.shape)} and {shown(self.k.shape)}"

    def prepare(self) -> ReadyAttentionBackward:
        """Compile (or find) the kernels; of a call without a schedule, one that spills gives way to
        one with smaller tiles.
        """
        backend, schedule = self.given.backend, as_schedule(self.given.schedule)
        target = self.given.arch or default_arch(backend)
        check_arch(target)
        check_types(self.q, self.q, target)
        problem = self.backward_problem(target, backend)
        tile_of(schedule, "keys, rows")

        def choice(given: Schedule | None) -> Any:
            # What spills stays where its tile is given: the launch tells.
            stays = given is not None and given.tile is not None
            return None if stays else partial(choose, SPACE, problem, given)

        memory = Memory(lambda: f"attention_backward {kernel_class(problem)}", target)
        prepared = partial(self._made_with, problem, backend)
        return fitted(prepared, choice, schedule, backend, memory, partial(_kept, self, target))

    def prepared_with(self, given: Schedule | None, target: str) -> ReadyAttentionBackward:
        """The call with the choice that has the fields of a schedule."""
        return self._made_with(self.backward_problem(target, "auto"), "auto", given, None)

    def backward_problem(self, target: str, backend: str) -> AttentionBackwardProblem:
        """What the choice of a schedule depends on."""
        left, right = self.window
        is_packed = self.packing is not None
        return AttentionBackwardProblem(
            self._dims(target),
            rows=self.rows_each() if is_packed else self.q.shape[2],
            keys=None if is_packed else self.k.shape[2],
            sequences=self.sequences(self.k.shape[1]),
            group=self.group,
            is_masked=(left, right) != (None, None),
            has_window=left is not None,
            is_sliced=is_packed or self.lengths is not None,
            is_capped=self.softcap is not None,
            has_scales=any(self.scales.ranks),
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

    def _made_with(
        self,
        problem: AttentionBackwardProblem,
        backend: str,
        given: Schedule | None,
        best: Schedule | None,
    ) -> ReadyAttentionBackward:
        chosen = choose(SPACE, problem, given) if best is None else best
        ready = self._made(problem, chosen)
        if all(0 in shape for shape, _ in self.gradients.values()):
            return ready

        def options(of: Schedule) -> dict[str, Any]:
            made = open_parameters(problem, of, "dk" in self.gradients)
            has_rings = given is not None and given.ring_stages is not None
            return made | ({"schedule": of} if has_rings else {})

        def near(other: Schedule) -> dict[str, Any]:
            return options(choose(SPACE, problem, other))

        vector = target_of(problem.arch).reduced_floats
        fixed = {"dims": problem.dims, "vector": vector, "arch": problem.arch, "backend": backend}
        variants = Variants(given or Schedule(), near)
        args = self.program_arguments(ready)
        kernel = compile_kernel(program, args, options(chosen) | fixed, variants)
        return replace(ready, kernel=kernel)

    def _made(self, problem: AttentionBackwardProblem, chosen: Schedule) -> ReadyAttentionBackward:
        """What runs the call, without a kernel."""
        keys, rows = chosen.tile[:2] if chosen.tile else (1, 1)
        over_keys = streamed(problem, chosen).tile
        if over_keys is not None and "dq" in self.gradients and not self._adds:
            rows = over_keys[1]
        items = None
        if self.packing is not None:
            total, count = self.k.shape[2], self.packing.k_offsets.shape[0]
            number = None if total is None or count is None else total // keys + count - 1
            items = number, self.heads
        scale, cap, left, right, factor_v = self.scalars()
        of_q, of_k, _ = self.scales.numbers
        factor = f32.numpy.type(self.scale * of_q * of_k)
        return ReadyAttentionBackward(
            None,
            self.q.shape,
            self.q.dtype,
            self.gradients,
            self.heads or 1,
            self.group,
            self._memory(rows, problem.dims),
            (scale, factor, cap, left, right, factor_v),
            self.scales,
            items,
        )

    def _memory(self, rows: int, dims: tuple[int, int]) -> dict[str, tuple[Extents, DType]]:
        """The shapes and types of what the call has for itself, with tiles of so many rows."""
        batch, heads, count = self.q.shape[:3]
        tiles = None if count is None else -(-count // rows)
        packing = self.packing
        if packing is not None and count is not None:
            ends = packing.q_offsets.shape[0]
            tiles = None if ends is None else count // rows + ends - 1
        by_tiles = batch, heads, None if tiles is None else tiles * rows
        made: dict[str, tuple[Extents, DType]] = {
            "logarithms": (by_tiles, f32),
            "delta": (by_tiles, f32),
        }
        if self._adds:
            made["sums"] = (*by_tiles, dims[0]), f32
        if self.copies:
            made["copied"] = self.shape_of("B H S E"), self.q.dtype
        return made

    def program_arguments(
        self, ready: ReadyAttentionBackward, made: Callable[[Extents, DType], Any] = new_spec
    ) -> list[Any]:
        """The arguments of the program, with specs of new results; `made` gives what the call has
        for itself.
        """
        given, packing = self.given, self.packing
        outs = [
            new_spec(*self.gradients[name]) if name in self.gradients and out is None else out
            for name, out in (("dq", given.dq), ("dk", given.dk), ("dv", given.dv))
        ]
        memory = [made(*ready.memory[name]) if name in ready.memory else None for name in MEMORY]
        lengths = None if self.lengths is None else self.lengths.value
        offsets = () if packing is None else (packing.q_offsets.value, packing.k_offsets.value)
        arrays = given.q, given.k, given.v, given.out, given.lse, given.do, given.dlse
        scales = split_scales(self.given_scales)[0]
        return ready.arguments((*arrays, *outs, *memory, lengths, *scales, *offsets))


def _kept(call: AttentionBackwardCall, target: str) -> Schedule | None:
    """What tuning found for calls like this one."""
    from .attention_backward_tuning import kept_schedule

    return kept_schedule(call, target)


door: Door[AttentionBackwardCall, ReadyAttentionBackward] = Door(
    ATTENTION_BACKWARD, AttentionBackwardCall
)

if TYPE_CHECKING:
    from .typed_calls import attention_backward
else:
    attention_backward = door.function(__name__, {"split_scales": split_scales})
