"""What the schedule of the backward pass of attention depends on."""

from __future__ import annotations

from dataclasses import dataclass

from .attention_problem import AttentionFacts

# Dimensions of heads whose rows fill the registers of a warp: more than so many, up to so many.
_LESS, _FILLED = 80, 96


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
    def shares(self) -> bool:
        """Whether heads share keys, as many as a call tells when it runs."""
        return self.group != 1

    @property
    def keeps_more(self) -> bool:
        """Whether a loop holds more than a causal mask's bounds beside: a window's other side,
        those of a slice, a cap, the heads that share keys.
        """
        return self.has_window or self.is_sliced or self.is_capped or self.shares

    @property
    def lacks_boxes(self) -> bool:
        """Whether threads copy operands that TMA cannot load."""
        return not self.loads_boxes

    @property
    def fills_warps(self) -> bool:
        """Whether gradients of 16 keys, and the addresses of what is added, fill a warp's registers
        beside loads of two stages.
        """
        return _LESS < self.widest <= _FILLED

    @property
    def caps_shared(self) -> bool:
        """Whether scores are capped and heads share keys."""
        return self.is_capped and self.shares

    @property
    def slices_shared(self) -> bool:
        """Whether heads share the keys of a slice, of which a mask hides some."""
        return self.is_sliced and self.shares and self.is_masked

    @property
    def slices_more(self) -> bool:
        """Whether a loop holds more than a slice's bounds beside: a window's other side, the heads
        that share keys.
        """
        return self.is_sliced and (self.shares or self.has_window)

    @property
    def orders_more(self) -> bool:
        """Whether a pass over the keys holds more than a causal mask's bounds beside."""
        return self.keeps_more and not self.adds

    @property
    def is_odd(self) -> bool:
        """Whether four warps cannot share the columns of a gradient of queries."""
        return self.dims[0] % 32 != 0

    def _derived(self) -> dict[str, object]:
        # How many heads share keys is told at run time.
        return {"group": 0, "shares": self.shares}
