"""Gradients of attention in NumPy: exactly, and as a computation in the same precision has them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any
NAMES = ("dq", "dk", "dv")
ALLOWED = 2.0
"""How many times the error of the same precision an error may be."""


def visible(
    rows: int, keys: int, causal: bool = False, window: tuple[int, int] | None = None
) -> Array:
    """Which keys each row sees, (rows, keys)."""
    left, right = window or (-1, -1)
    right = 0 if causal else right
    behind = np.arange(keys)[None] - np.arange(rows)[:, None] - (keys - rows)
    return ((right < 0) | (behind <= right)) & ((left < 0) | (behind >= -left))


def gradients(
    do: Array,
    q: Array,
    k: Array,
    v: Array,
    precision: Any,
    *,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    dlse: Any = 0,
) -> tuple[Array, Array, tuple[Array, Array, Array]]:
    """(out, lse, (dq, dk, dv)) computed in `precision`, what is multiplied and stored in the type
    of q unless that is float64. q, do are (batch, heads, rows, D), k, v (batch, heads that are
    shared, keys, D).
    """
    store = (lambda x: x) if precision is np.float64 else lambda x: x.astype(q.dtype)

    def rounded(x: Array) -> Array:
        return store(x).astype(precision)

    group, heads = q.shape[1] // k.shape[1], k.shape[1]
    by = precision(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    do_, q_, k_, v_ = (
        x.astype(precision) for x in (do, q, np.repeat(k, group, 1), np.repeat(v, group, 1))
    )
    s = q_ @ k_.swapaxes(-1, -2) * by
    tangents = np.tanh(s / precision(softcap)) if softcap else np.zeros_like(s)
    s = precision(softcap) * tangents if softcap else s
    s = np.where(visible(q.shape[2], k.shape[2], causal, window), s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(np.isinf(top), precision(0), top))
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0]
    p = p / np.where(total == 0, precision(1), total)
    out = rounded(rounded(p) @ v_)
    delta = (do_ * out).sum(-1, keepdims=True) - dlse
    ds = rounded(p * (do_ @ v_.swapaxes(-1, -2) - delta) * (1 - tangents * tangents))

    def summed(x: Array) -> Array:
        return store(x.reshape(x.shape[0], heads, group, *x.shape[2:]).sum(2))

    dk, dv = ds.swapaxes(-1, -2) @ q_ * by, rounded(p).swapaxes(-1, -2) @ do_
    return store(out), lse, (store(ds @ k_ * by), summed(dk), summed(dv))


def shares(found: Any, do: Array, q: Array, k: Array, v: Array, **masks: Any) -> dict[str, float]:
    """The largest and the mean error of (dq, dk, dv) against float64, as shares of those of the
    same computation in float32 with products and results in the type of q, by name.
    """
    exact = gradients(do, q, k, v, np.float64, **masks)[2]
    same = gradients(do, q, k, v, np.float32, **masks)[2]
    figures: dict[str, float] = {}
    for name, mine, wanted, plain in zip(NAMES, found, exact, same, strict=True):
        error, allowed = (np.abs(x.astype(np.float64) - wanted) for x in (mine, plain))
        for kind in ("max", "mean"):
            one, other = (float(getattr(each, kind)()) for each in (error, allowed))
            figures[f"{name} {kind}"] = (one + 5e-8) / (other + 5e-8)
    return figures
