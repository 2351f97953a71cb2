"""What the schedule of the backward pass of attention depends on."""

from __future__ import annotations

from dataclasses import dataclass

from cutedialect.atoms import Target, target, usual_device

from .attention_problem import WARPGROUP_TARGETS


@dataclass(frozen=True)
class AttentionBackwardProblem:
    """The facts of a call; None is many, or not known.

    dims: head dimensions (of q and k, of v), as tiles have them. rows, keys: of a sequence, of
    packed ones the mean. sequences: those of keys. group: heads that share keys. is_masked: rows
    see part of the keys; has_window: from some on only. is_sliced: a sequence is a part of its
    tensors. is_capped: scores are. has_scales: arrays have factors of heads. loads_boxes: TMA loads
    the operands. adds: gradients of queries are added up in memory. processors: of the device, of
    the target `arch`.
    """

    dims: tuple[int, int]
    rows: int | None = None
    keys: int | None = None
    sequences: int | None = None
    group: int = 1
    is_masked: bool = False
    has_window: bool = False
    is_sliced: bool = False
    is_capped: bool = False
    has_scales: bool = False
    is_f16: bool = False
    loads_boxes: bool = True
    adds: bool = True
    processors: int = usual_device("sm_90a").processors
    arch: str = "sm_90a"

    @property
    def widest(self) -> int:
        """The columns of the wider heads."""
        return max(self.dims)

    @property
    def target(self) -> Target:
        return target(self.arch)

    @property
    def on_groups(self) -> bool:
        """Whether warpgroups multiply."""
        return self.arch in WARPGROUP_TARGETS

    @property
    def has_more(self) -> bool:
        """Whether threads hold more than a tile and a causal mask's bound."""
        return self.group != 1 or self.has_window or self.is_sliced or self.is_capped

    @property
    def kernel_class(self) -> str:
        """All of it that a kernel depends on beside its schedule, readable."""
        open_facts = ("rows", "keys", "sequences", "processors", "arch", "group")
        facts = {name: value for name, value in vars(self).items() if name not in open_facts}
        facts["shares"] = self.group != 1
        return ", ".join(
            name if value is True else f"{name} {value}" for name, value in facts.items() if value
        )
