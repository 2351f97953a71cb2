"""Problems of `cute.attention` whose options are drawn by lot, each from its number alone: those
that nobody thought of combining. Schedules are the defaults.
"""

from __future__ import annotations

from random import Random

from .attention_probes import AttentionProbe

_DEPTHS = (32, 40, 64, 72, 80, 96, 104, 112, 128, 128, 128, 160, 192, 256)
_SHARING = ((1, 1), (2, 2), (2, 1), (4, 2), (6, 1))
_ROWS, _KEYS = (1, 5, 64, 130, 260), (1, 63, 128, 257, 400, 700)
# Beside the widest heads, which take the emulator longest.
_FEW_ROWS, _FEW_KEYS = (1, 5, 64, 130), (1, 63, 128, 257)
_FORMS = ("equal", "equal", "packed", "padded")
_MASKS = ("none", "causal", "left", "right", "both")
_LEFT, _RIGHT = (0, 7, 64, 100, 300), (0, 5, 70, 200)


def random_probes(count: int) -> list[AttentionProbe]:
    """The first `count` of them."""
    return [_random_probe(number) for number in range(count)]


def _random_probe(number: int) -> AttentionProbe:
    lot = Random(number)
    depth = lot.choice(_DEPTHS)
    depths = depth, lot.choice((depth, depth, depth, lot.choice(_DEPTHS)))
    is_wide = depths[0] * depths[1] > 128 * 128
    of_rows, of_keys = (_FEW_ROWS, _FEW_KEYS) if is_wide else (_ROWS, _KEYS)
    form, rows = lot.choice(_FORMS), lot.choice(of_rows)
    count = {"equal": 1, "padded": 2, "packed": 3}[form]
    # Sequences of a batch are as long as each other, but for their keys.
    sizes = tuple(
        (lot.choice(of_rows) if form == "packed" else rows, lot.choice(of_keys))
        for _ in range(count)
    )
    mask = lot.choice(_MASKS)
    left = lot.choice(_LEFT) if mask in ("left", "both") else -1
    right = lot.choice(_RIGHT) if mask in ("right", "both") else -1
    is_window = (left, right) != (-1, -1)
    rise = lot.choice((0.0, 0.0, 0.0, 60.0, -400.0))
    return AttentionProbe(
        f"attention random {number}",
        dtype=lot.choice(("bf16", "f16")),
        heads=lot.choice(_SHARING),
        sizes=sizes,
        depths=depths,
        form=form,
        causal=mask == "causal",
        window=(left, right) if is_window else None,
        softcap=lot.choice((None, None, None, 2.0, 20.0)),
        scale=lot.choice((None, None, 0.3, -0.2)),
        spread=1.0 if rise else lot.choice((1.0, 1.0, 4.0)),
        rise=rise,
    )
