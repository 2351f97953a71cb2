"""What the scores of an attention problem look like: as trained models have them, and worse."""

from __future__ import annotations

from typing import Any

# Keys that begin a sequence and get much of the weight, and where a late one stands.
_SINKS, _LATE = 4, 0.9
NORMAL, DRIFT, RISE, SINK, LATE = "normal", "drift", "rise", "sink", "late"
VALUES = (NORMAL, DRIFT, RISE, SINK, LATE)


def shaped(torch: Any, generator: Any, values: str, size: float, q: Any, k: Any) -> tuple[Any, Any]:
    """q and k (..., rows, depth), normal, changed so that scores, divided by the root of the depth,
    are `values`: "normal" of a deviation `size`, or of 1 and with

    - "drift": a part in each row that grows along the keys to a deviation of `size`,
    - "rise": a deviation that grows along the keys from 1 to `size`,
    - "sink": about `size` more for the first keys,
    - "late": the same for one key near the end.
    """
    if values == NORMAL:
        return (q if size == 1 else q * size), k
    *_, keys, depth = k.shape
    number = torch.arange(keys, device=q.device).reshape(-1, 1)
    along = number.float() / keys
    if values == RISE:
        return q, k * (along * (size - 1) + 1)
    bits = torch.randint(0, 2, (depth,), generator=generator, device=q.device)
    direction = bits.float() * 2 - 1
    if values == DRIFT:
        return q, k + along * direction * size
    chosen = number < _SINKS if values == SINK else number == int(_LATE * keys)
    return q + direction, k + chosen.float() * direction * (size / depth**0.5)
