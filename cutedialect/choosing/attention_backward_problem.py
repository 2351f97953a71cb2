"""What the schedule of the backward pass of attention depends on."""

from __future__ import annotations

from dataclasses import dataclass

from .attention_problem import GROUP_ROWS, AttentionFacts


@dataclass(frozen=True)
class AttentionBackwardProblem(AttentionFacts):
    """The facts of a call.

    is_masked: rows see part of the keys. has_scales: arrays have factors of heads. adds: gradients
    of queries are added up in memory.
    """

    is_masked: bool = False
    has_scales: bool = False
    adds: bool = True

    @property
    def keeps_more(self) -> bool:
        """Whether a loop holds more than a causal mask's bounds beside: a window's other side,
        those of a slice, a cap, the heads that share keys.
        """
        return self.has_window or self.is_sliced or self.is_capped or self.shares

    @property
    def is_odd(self) -> bool:
        """Whether four warps cannot share the columns of a gradient of queries."""
        return self.dims[0] % 32 != 0

    @property
    def may_turn(self) -> bool:
        """Whether columns of a gradient of queries are whole blocks of rows of a warpgroup, so that
        it can be multiplied transposed.
        """
        return self.dims[0] % GROUP_ROWS == 0

    @property
    def fits_tensor_memory(self) -> bool:
        """Whether tensor memory can have what is multiplied of tiles that one thread loads."""
        return self.target.tmem_columns > 0 and self.loads_boxes

    def _derived(self) -> dict[str, object]:
        # How many heads share keys is told at run time.
        return {"group": 0, "shares": self.shares}
