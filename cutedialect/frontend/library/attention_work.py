"""What the schedule of attention depends on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AttentionWork:
    """What the choice depends on: head dimensions (of q and k, of v), rows and keys (None: many),
    bits of an element of k, whether TMA loads the operands as they are, whether tiles differ
    in the keys that they see, whether more than a causal mask's bounds stays in registers
    meanwhile (a window's other side, a slice, the logarithms), whether keys lie in pages,
    bits of an element of q, whether operands are slices, whether those are packed sequences,
    how many heads share keys, whether a row sees keys from some on only, whether TMA stores
    the result, bits of an element of that, whether scores are capped, how often the
    assembler found too few registers for less, whether q is of f16, which has little room
    for scores above those that were guessed, whether logarithms are returned, whether values
    are the first columns of keys, how many sequences of rows there are (None: many), the
    processors of the device, and how many keys a window lets a row see (None: as many as there
    are), whether tiles have more columns than heads, whether rows of an operand may begin at
    any element, and whether the exponentials of two blocks of keys take turns in registers. Of
    packed sequences rows are those of each, on average.
    """

    dims: tuple[int, int]
    rows: int | None = None
    keys: int | None = None
    bits: int = 16
    loads_boxes: bool = True
    is_uneven: bool = False
    keeps_more: bool = False
    is_paged: bool = False
    bits_q: int = 16
    is_sliced: bool = False
    is_packed: bool = False
    group: int = 1
    has_window: bool = False
    stores_boxes: bool = True
    bits_out: int = 16
    is_capped: bool = False
    spills: int = 0
    is_f16: bool = False
    returns_lse: bool = False
    is_latent: bool = False
    sequences: int | None = None
    processors: int = 132
    sees: int | None = None
    is_padded: bool = False
    is_shifted: bool = False
    takes_turns: bool = False
