"""What the schedule of an attention depends on: facts of a call. What follows from them alone, and
other facts by name, are rows of `prices/attention-rules.json`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutedialect.atoms import Target, target, usual_device

from .price import load
from .rules import load_rules

# Rows that a warpgroup multiplies at once. Wider heads have results that several warps share by
# columns.
GROUP_ROWS, WIDE = 64, 256
WARPGROUP_TARGETS = ("sm_90a",)
PRICE = load("attention", "h100")
"""Numbers by their names (`prices/README.md`); no other device was timed."""


@dataclass(frozen=True)
class AttentionFacts:
    """What both passes of an attention depend on; None is many, or not known.

    dims: head dimensions (of q and k, of v), as tiles have them. rows, keys: of a sequence; of
    packed ones the mean. sequences: of rows, and those of keys in the backward pass. group: heads
    that share keys. has_window: rows see keys from some on only. is_sliced: a sequence is a part of
    its tensors. is_capped: scores are. is_f16: q is. loads_boxes: TMA loads the operands as they
    are. processors: of the device, of the target `arch`.
    """

    dims: tuple[int, int]
    rows: int | None = None
    keys: int | None = None
    sequences: int | None = None
    group: int = 1
    has_window: bool = False
    is_sliced: bool = False
    is_capped: bool = False
    is_f16: bool = False
    loads_boxes: bool = True
    processors: int = usual_device("sm_90a").processors
    arch: str = "sm_90a"

    @property
    def widest(self) -> int:
        """The columns of the wider heads."""
        return max(self.dims)

    @property
    def narrowest(self) -> int:
        """The columns of the narrower heads."""
        return min(self.dims)

    @property
    def columns(self) -> int:
        """Those of a result."""
        return self.dims[1]

    @property
    def shares(self) -> bool:
        """Whether heads share keys; in the backward pass as many as a call tells when it runs."""
        return self.group != 1

    @property
    def target(self) -> Target:
        return target(self.arch)

    @property
    def on_groups(self) -> bool:
        """Whether warpgroups multiply."""
        return self.arch in WARPGROUP_TARGETS

    @property
    def has_tensor_memory(self) -> bool:
        return self.target.tmem_columns > 0

    def rounds(self, rows: int, ctas: int = 1) -> float | None:
        """How many tiles of so many rows each of `ctas` of a processor has; None is not known."""
        if self.rows is None or self.sequences is None:
            return None
        return self.sequences * -(-self.rows // rows) / (ctas * self.processors)


@dataclass(frozen=True)
class AttentionProblem(AttentionFacts):
    """The facts of a call.

    is_padded: tiles have more columns than heads. bits_q, bits, bits_out: of an element of q, of k,
    and of the result. stores_boxes: TMA stores the result. is_uneven: tiles differ in the keys that
    they see; of a window rows see `sees` of them. keeps_more: more than a causal mask's bounds
    stays in registers meanwhile (a window's other side, a slice, the logarithms). is_paged,
    is_packed: keys lie in pages, sequences are packed. returns_lse: logarithms are asked for.
    is_latent: values are the first columns of keys. is_shifted: rows of an operand may begin at any
    element. is_integer: keys and values are integers. scales_keys: each key has scales.
    """

    bits: int = 16
    bits_q: int = 16
    bits_out: int = 16
    is_uneven: bool = False
    keeps_more: bool = False
    is_paged: bool = False
    is_packed: bool = False
    stores_boxes: bool = True
    returns_lse: bool = False
    is_latent: bool = False
    sees: int | None = None
    is_padded: bool = False
    is_shifted: bool = False
    is_integer: bool = False
    scales_keys: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether one thread loads every operand as it is multiplied."""
        return self.loads_boxes and self.bits == 16

    @property
    def all_keys(self) -> int | None:
        """The keys of a sequence: packed ones have about as many as rows."""
        return self.rows if self.is_packed else self.keys

    @property
    def seconds(self) -> float | None:
        """What a launch takes about, None where that is not known."""
        keys = self.all_keys
        if self.sequences is None or self.rows is None or keys is None or not self.is_plain:
            return None
        scores = self.rows * min(keys, self.sees or keys)
        scores /= 2 if self.is_uneven and not self.has_window else 1
        flops = 2 * sum(self.dims) * self.sequences * scores
        size = self.bits_q // 8 * sum(self.dims) * self.sequences * (self.rows + keys)
        busy = max(flops / PRICE.multiplies_per_second, size / PRICE.bytes_per_second)
        return PRICE.launch_seconds + busy

    def fills_one_wave(self, rows: int) -> bool:
        """Whether each processor has a tile of so many rows at most."""
        rounds = self.rounds(rows)
        return rounds is not None and rounds <= 1 and self.is_plain and not self.is_packed


@dataclass(frozen=True)
class AttentionBackwardProblem(AttentionFacts):
    """The facts of a call of the backward pass.

    is_masked: rows see part of the keys. has_scales: arrays have factors of heads. adds: gradients
    of queries are added up in memory.
    """

    is_masked: bool = False
    has_scales: bool = False
    adds: bool = True


RULES = load_rules("attention")
BACKWARD_RULES = load_rules("attention_backward")
"""What follows from facts alone, of either pass."""
