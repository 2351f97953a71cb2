"""Which work item a CTA gets where all CTAs claim them."""

from __future__ import annotations


def claimed(turn: int, place: int, ctas: int, total: int | None) -> int:
    """The number of the item that the CTA at a place gets when it claims one for the so manieth
    time: of `total` items (None: not known), with so many CTAs. It may lie behind the last item.

    CTAs claim their second item while they work on the first one, in their order; from then on they
    come in turns, forward and backward, and those that were done first have what is left over.

    >>> [claimed(turn, place, 4, 10) for turn, place in ((0, 0), (1, 0), (2, 3), (2, 0))]
    [0, 7, 8, 11]
    """
    is_whole = total is None or (turn + 1) * ctas <= total
    is_back = turn % 2 == 1 if is_whole else turn > 0
    return turn * ctas + (ctas - 1 - place if is_back else place)
