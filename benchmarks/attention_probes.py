"""Small problems that together reach every way `cute.attention` can go on sm_90a.

Exponentials are approximated by an instruction whose last bit the hardware does not specify, so the
backends may differ where that bit decides how a probability rounds. Against float64 the rule of
FlashAttention holds: errors of at most twice those of the same computation in the same precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import cutedialect as cute

from .probe import Place, Probe

_TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
# Units in the last place of the largest result by which backends may differ.
_UNITS = 2.0
# By how much lse may be off: sums of 8-bit products are kept with fewer bits than f32 has.
_LSE, _SMALL_LSE = 2e-5, 1e-3
# Such units by which float64 may always be missed, where the same precision happens to be exact.
_SLACK = 0.5
# Rows before and behind all packed sequences.
_BESIDE = 3


@dataclass(frozen=True)
class Given:
    """Arguments of one call; the exact output, NaN where nothing is asked for, and lse; and the
    output of the same computation in the same precision.
    """

    q: Any
    k: Any
    v: Any
    out: Any
    options: dict[str, Any]
    exact: np.ndarray
    lse: np.ndarray
    rounded: np.ndarray


@dataclass(frozen=True)
class AttentionProbe(Probe):
    """`heads` are those of q and those of k and v, `sizes` the rows and keys of each sequence,
    `depths` the head dimensions of q and k, and of v. Sequences are entries of a batch, padded to
    the most keys with `form` "padded", or one array with "packed".

    `order` "bshd" has all heads of a row together, "odd" rows of an odd length. With `holes` one
    value of v, the padding, and what lies beside the sequences is NaN. `spread` is the deviation
    of q and k, `rise` by how much their product grows with each 64 keys. `split` is how many parts
    of the keys the schedule asks for.
    """

    dtype: str = "bf16"
    heads: tuple[int, int] = (2, 2)
    sizes: tuple[tuple[int, int], ...] = ((130, 200),)
    depths: tuple[int, int] = (64, 64)
    form: str = "equal"
    causal: bool = False
    window: tuple[int, int] | None = None
    softcap: float | None = None
    scale: float | None = None
    page: int = 0
    order: str = "bhsd"
    holes: bool = False
    spread: float = 1.0
    rise: float = 0.0
    schedule: str | None = None

    def make(self, place: Place, seed: int = 0) -> Given:
        rng = np.random.default_rng(seed)
        scales = [
            rng.uniform(0.5, 2, heads).astype(np.float32) if self._is_small else np.ones(heads)
            for heads in (self.heads[0], self.heads[1], self.heads[1])
        ]
        sequences = [self._sequence(rng, rows, keys) for rows, keys in self.sizes]
        exact = [self._attended(each, scales, np.float64) for each in sequences]
        rounded = [self._attended(each, scales, np.float32) for each in sequences]
        q, k, v = (self._joined([each[i] for each in sequences]) for i in range(3))
        out = self._joined([np.full(each[0].shape, np.nan, self._out_type) for each in exact])
        options: dict[str, Any] = {}
        if self.form == "packed":
            ends = np.cumsum([(_BESIDE, _BESIDE), *self.sizes], axis=0).astype(np.int32)
            options["cu_seqlens"] = tuple(place(ends[:, i].copy()) for i in range(2))
        if self.form == "padded":
            options["lengths"] = place(np.array([keys for _, keys in self.sizes], np.int32))
        if self.page:
            k, v, table = self._paged(k, v, rng)
            options["block_table"] = place(table)
        if self._is_small:
            names = ("scale_q", "scale_k", "scale_v")
            options |= {name: place(each) for name, each in zip(names, scales, strict=True)}
        return Given(
            *(place(self._stored(each)) for each in (q, k, v, out)),
            options=options,
            exact=self._joined([output for output, _ in exact]),
            lse=self._joined([lse[..., None] for _, lse in exact])[:, :, self._inside, 0],
            rounded=self._joined([output for output, _ in rounded]),
        )

    def run(self, given: Given, backend: str) -> list[Any]:
        """The output, with NaN where it was not written, and lse of the rows of sequences."""
        out, lse = cute.attention(
            given.q, given.k, given.v, out=given.out, return_lse=True, causal=self.causal,
            window=self.window, softcap=self.softcap, scale=self.scale, arch="sm_90a",
            backend=backend, schedule=self.schedule, **given.options,
        )  # fmt: skip
        return [out, lse[:, :, self._inside]]

    def wrong(self, given: Given, outputs: list[np.ndarray]) -> str | None:
        out, lse = outputs[0].astype(np.float64), outputs[1].astype(np.float64)
        if not np.array_equal(np.isnan(out), np.isnan(given.exact)):
            return "expected NaN where a row sees it and nowhere else, got it elsewhere"
        seen = np.isfinite(given.exact)
        if seen.any():
            error, allowed = (np.abs(x[seen] - given.exact[seen]) for x in (out, given.rounded))
            slack = _SLACK * self._unit(given.exact)
            for name, figure in (("largest", np.max), ("mean", np.mean)):
                most = 2 * figure(allowed) + slack
                if figure(error) > most:
                    return (
                        f"expected a {name} error of at most {most:.3g} against float64, got "
                        f"{figure(error):.3g}"
                    )
        return _logarithms_apart(given.lse, lse, _SMALL_LSE if self._is_small else _LSE)

    def apart(self, outputs: list[np.ndarray], others: list[np.ndarray]) -> str | None:
        one, other = (each[0].astype(np.float64) for each in (outputs, others))
        if not np.array_equal(np.isnan(one), np.isnan(other)):
            return "expected NaN where the emulator has it, got it elsewhere"
        most = np.abs(np.nan_to_num(one - other)).max(initial=0)
        if most > _UNITS * self._unit(other):
            return f"expected the emulator's result, got one {most:.3g} apart"
        return None

    @property
    def _is_small(self) -> bool:
        return np.dtype(_TYPES[self.dtype]).itemsize == 1

    @property
    def _out_type(self) -> Any:
        return ml_dtypes.bfloat16 if self._is_small else _TYPES[self.dtype]

    @property
    def _inside(self) -> slice:
        """Rows that belong to a sequence."""
        return slice(_BESIDE, -_BESIDE) if self.form == "packed" else slice(None)

    def _unit(self, values: np.ndarray) -> float:
        """A unit in the last place of the largest of them."""
        largest = np.abs(np.nan_to_num(values)).max(initial=0)
        return float(ml_dtypes.finfo(self._out_type).eps) * float(largest)

    def _sequence(self, rng: Any, rows: int, keys: int) -> tuple[Any, Any, Any]:
        (h, hk), (d, dv), kind = self.heads, self.depths, _TYPES[self.dtype]
        q, k, v = (
            rng.standard_normal(shape) for shape in ((h, rows, d), (hk, keys, d), (hk, keys, dv))
        )
        if self.holes:
            v[:, keys // 2 : keys // 2 + 1, 1] = np.nan
        if self.rise:
            q[..., 0], k[..., 0] = 1, np.arange(keys) // 64 * self.rise / self.spread**2
        return (self.spread * q).astype(kind), (self.spread * k).astype(kind), v.astype(kind)

    def _attended(
        self, sequence: tuple[Any, Any, Any], scales: Sequence[np.ndarray], precision: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """(output, lse) of one sequence in a precision; below float64 what the kernel keeps in the
        inputs' type, probabilities, and the output are rounded to theirs.
        """
        group = self.heads[0] // self.heads[1]
        q, k, v = (
            each.astype(precision) * scale.astype(precision)[:, None, None]
            for each, scale in zip(sequence, scales, strict=True)
        )
        k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
        factor = self.depths[0] ** -0.5 if self.scale is None else self.scale
        scores = q @ k.swapaxes(-1, -2) * precision(factor)
        if self.softcap is not None:
            scores = precision(self.softcap) * np.tanh(scores / precision(self.softcap))
        visible = self._visible(*scores.shape[-2:])
        scores = np.where(visible, scores, -np.inf)
        top = scores.max(-1, keepdims=True, initial=-np.inf)
        top = np.where(np.isinf(top), precision(0), top)
        weights = np.exp(scores - top)
        total = weights.sum(-1, keepdims=True)
        kept = weights if precision is np.float64 else weights.astype(_TYPES[self.dtype])
        out = kept.astype(precision) @ np.nan_to_num(v) / np.where(total == 0, 1, total)
        poisoned = visible.astype(np.float32) @ np.isnan(v).astype(np.float32) > 0
        out = np.where(poisoned, np.nan, out)
        with np.errstate(divide="ignore"):
            lse = (top + np.log(total))[..., 0]
        return out if precision is np.float64 else out.astype(self._out_type), lse

    def _visible(self, rows: int, keys: int) -> np.ndarray:
        apart = np.arange(keys)[None] - np.arange(rows)[:, None] - (keys - rows)
        left, right = self.window or (-1, -1)
        right = 0 if self.causal else right
        return ((right < 0) | (apart <= right)) & ((left < 0) | (apart >= -left))

    def _joined(self, parts: list[np.ndarray]) -> np.ndarray:
        """Arrays (heads, rows, ...) of all sequences as one (batch, heads, rows, ...)."""
        kind = parts[0].dtype
        # Results are nowhere but in the sequences.
        fill = np.nan if self.holes or kind == np.float64 else 0.0
        heads, _, depth = parts[0].shape
        if self.form == "packed":
            beside = np.full((heads, _BESIDE, depth), np.nan).astype(kind)
            return np.concatenate([beside, *parts, beside], axis=1)[None]
        most = max(part.shape[1] for part in parts)
        whole = np.full((len(parts), heads, most, depth), fill).astype(kind)
        for place, part in zip(whole, parts, strict=True):
            place[:, : part.shape[1]] = part
        return whole

    def _paged(self, k: np.ndarray, v: np.ndarray, rng: Any) -> tuple[Any, Any, np.ndarray]:
        """Pages of keys in random order with one that nobody uses, and where each is."""
        batch, _, keys, _ = k.shape
        count = -(-keys // self.page)
        order = rng.permutation(batch * count + 1)[: batch * count].reshape(batch, count)

        def pages(whole: np.ndarray) -> np.ndarray:
            heads, depth = whole.shape[1], whole.shape[3]
            pool = np.full((batch * count + 1, heads, self.page, depth), np.nan)
            pool = pool.astype(whole.dtype)
            for entry in range(batch):
                for number in range(count):
                    part = whole[entry, :, number * self.page : (number + 1) * self.page]
                    pool[order[entry, number], :, : part.shape[1]] = part
            return pool

        return pages(k), pages(v), order.astype(np.int32)

    def _stored(self, array: np.ndarray) -> np.ndarray:
        """The same values in the order of the probe."""
        if self.order == "bshd":
            return np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2)
        if self.order == "odd":
            longer = np.zeros((*array.shape[:-1], array.shape[-1] + 1), array.dtype)
            longer[..., :-1] = array
            return longer[..., :-1]
        return array


def _logarithms_apart(wanted: np.ndarray, got: np.ndarray, most: float) -> str | None:
    some = ~np.isneginf(wanted)
    if not np.array_equal(~np.isneginf(got), some):
        return "expected lse -inf where a row sees no key and nowhere else, got others"
    error = np.abs(got[some] - wanted[some]) / (1 + np.abs(wanted[some]))
    if not (error <= most).all():
        return f"expected lse within {most:g} of float64, got {error.max():.3g}"
    return None


_SCHEDULES = (
    *[
        f"tile = {tile}, overlap = {overlap}, split_loops = {split}"
        for tile in ("(64,64)", "(128,64)", "(128,128)", "(192,64)")
        for overlap, split in (("no", "no"), ("yes", "no"), ("turns", "no"), ("turns", "yes"))
        if overlap != "turns" or tile != "(64,64)"
    ],
    "tile = (64,64), overlap = no, split_loops = yes",
    "tile = (128,176), overlap = turns",
    "tile = (128,64), stages = 1",
    "tile = (128,64), stages = 4",
    "tile = (128,64), roles = uniform",
    "tile = (128,64), roles = alternate",
    "tile = (64,64), roles = alternate, instances = 3, warps = (4,1)",
    "tile = (128,64), scheduler = persistent",
    "tile = (128,64), scheduler = persistent, raster = 2",
    "tile = (128,64), scheduler = dynamic",
    "tile = (128,64), epilogue = direct",
    "tile = (128,64), epilogue = smem",
    "tile = (128,64), epilogue = tma",
    "tile = (128,64), registers = (24,240)",
)
_CLUSTERS = (
    "tile = (128,64), cluster = (2,1)",
    "tile = (64,64), cluster = (2,1), overlap = yes",
    "tile = (128,64), cluster = (4,1), overlap = turns",
)
_DEPTHS = (
    (32, 32), (64, 64), (96, 96), (128, 128), (192, 192), (256, 256),
    (8, 8), (40, 40), (72, 72), (120, 120), (128, 64), (64, 128), (192, 128), (64, 256), (33, 65),
)  # fmt: skip
_PADDED = ((130, 200), (130, 1), (130, 0), (130, 129), (130, 64))
_PACKED = ((5, 7), (130, 130), (0, 12), (64, 64), (1, 200), (33, 0), (70, 40))
_WINDOWS = ((0, 0), (17, 0), (50, 30), (-1, 5), (100, -1), (64, 64))


def attention_probes() -> list[Probe]:
    """All of them; the names are unique."""

    def probe(name: str, **more: Any) -> AttentionProbe:
        return AttentionProbe(f"attention {more.get('dtype', 'bf16')} {name}", **more)

    long, decoding = ((260, 330),), {"heads": (8, 2), "causal": True}
    found = [probe(schedule, schedule=schedule, sizes=long, causal=True) for schedule in _SCHEDULES]
    found += [probe(schedule, schedule=schedule, sizes=((520, 330),)) for schedule in _CLUSTERS]
    found += [
        probe(f"depths {d} {dv}{' causal' * causal}", dtype=dtype, depths=(d, dv), causal=causal)
        for dtype in ("bf16", "f16")
        for d, dv in _DEPTHS
        for causal in (False, True)
        if causal or dtype == "bf16"
    ]
    found += [
        probe(f"{rows}x{keys} causal", sizes=((rows, keys),) * 2, causal=True)
        for rows, keys in ((113, 211), (257, 513), (211, 113), (1, 1), (64, 0), (300, 300))
    ]
    found += [
        probe(f"{rows}x{keys}{' ' * causal}{'causal' * causal} decode", sizes=((rows, keys),) * 2,
              heads=(8, 2), causal=causal)
        for rows, keys in ((1, 333), (2, 128), (4, 77), (5, 260), (8, 520), (1, 4500))
        for causal in (False, True)
    ]  # fmt: skip
    found += [
        probe(f"{rows}x{keys}, {parts} parts", dtype="f16", sizes=((rows, keys),) * 2, heads=(4, 2),
              causal=True, schedule=f"tile = (64,64), split_k = {parts}")
        for rows, keys in ((1, 900), (7, 333), (1, 40), (130, 520))
        for parts in (2, 5)
    ]  # fmt: skip
    found += [
        probe(f"padded, {parts} parts", form="padded", sizes=_PADDED, window=(60, 20),
              schedule=f"tile = (64,64), split_k = {parts}")
        for parts in (2, 5)
    ]  # fmt: skip
    found += [
        probe(f"window {left} {right} {form}", window=(left, right), form=form, sizes=sizes)
        for left, right in _WINDOWS
        for form, sizes in (("equal", long), ("padded", _PADDED), ("packed", _PACKED))
    ]
    found += [
        probe(f"heads {h} {hk} {form}", dtype="f16", heads=(h, hk), form=form, sizes=sizes,
              causal=True)
        for h, hk in ((8, 2), (6, 1), (3, 3))
        for form, sizes in (("equal", long), ("padded", _PADDED), ("packed", _PACKED))
    ]  # fmt: skip
    found += [
        probe(f"{form} {name}", dtype=dtype, form=form, sizes=sizes, causal=name == "causal",
              order=order)
        for form, sizes in (("padded", _PADDED), ("packed", _PACKED))
        for name in ("full", "causal")
        for dtype, order in (("bf16", "bhsd"), ("f16", "bshd"))
    ]  # fmt: skip
    found += [
        probe(f"holes {form}", dtype=dtype, form=form, sizes=sizes, causal=True, holes=True,
              depths=(32, 32), heads=(2, 1), schedule="tile = (64,64)")
        # A value of v that is NaN takes a slow way: little of it.
        for form, sizes in (("equal", ((70, 90),) * 2), ("padded", ((70, 90), (70, 0), (70, 64))),
                            ("packed", ((5, 7), (70, 90), (0, 12), (33, 0), (64, 64))))
        for dtype in ("bf16", "f16")
    ]  # fmt: skip
    found += [
        probe(f"rows {order}", dtype=dtype, order=order, causal=True, heads=(4, 2))
        for order in ("bshd", "odd")
        for dtype in ("bf16", "f16")
    ]
    found += [
        probe("softcap", softcap=5.0, causal=True),
        probe("softcap window", softcap=2.0, window=(40, 10)),
        probe("scale", scale=0.5),
        probe("negative scale", scale=-0.1, causal=True),
        probe("large scores", spread=8.0, causal=True),
        probe("large scores", dtype="f16", spread=12.0),
    ]
    found += [
        probe(f"{rows} rows, pages of {page}", page=page, form="padded",
              sizes=tuple((rows, keys) for keys in (200, 64, 1, 133)), **decoding)
        for page in (16, 64, 128)
        for rows in (1, 4, 70)
    ]  # fmt: skip
    found += [
        probe(f"{rows} rows, pages of 16 and holes", page=16, form="padded", depths=(32, 32),
              sizes=tuple((rows, keys) for keys in (70, 1)), holes=True, **decoding)
        for rows in (1, 4)
    ]  # fmt: skip
    small = [
        {"depths": depths, "causal": causal}
        for depths in ((64, 64), (128, 128), (256, 256), (96, 96))
        for causal in (False, True)
    ]
    found += [
        probe(f"depths {more['depths'][0]}{' causal' * more['causal']}", dtype=dtype, **more)
        for dtype in ("e4m3", "e5m2")
        for more in small
    ]
    # What many rows get, on few.
    three = "tile = (192,96), warps = (12,1)"
    found += [
        probe(f"{name}, three warpgroups", dtype=dtype, depths=depths, schedule=three, **more)
        for name, dtype, depths, more in (
            ("full", "e4m3", (128, 128), {"sizes": long}),
            ("causal", "e4m3", (128, 128), {"sizes": long, "causal": True, "heads": (4, 2)}),
            ("causal", "e5m2", (96, 80), {"sizes": long, "causal": True}),
            ("window", "e4m3", (128, 128), {"sizes": long, "window": (50, 30)}),
            ("softcap", "e4m3", (128, 128), {"sizes": long, "softcap": 5.0, "causal": True}),
            ("padded", "e4m3", (128, 128), {"form": "padded", "sizes": _PADDED, "causal": True}),
            ("packed", "e4m3", (128, 128), {"form": "packed", "sizes": _PACKED, "heads": (4, 2)}),
        )
    ]
    found += [
        probe(f"rising by {rise}, depths {d}", dtype=dtype, sizes=((260, 520),), depths=(d, d),
              rise=rise, schedule=f"tile = {tile}", **more)
        for d, tile, more in ((128, "(128,128)", {}), (64, "(192,96)", {"causal": True}),
                              (112, "(192,80)", {"window": (200, 30)}))
        for dtype, rise in (("bf16", 60.0), ("f16", 400.0), ("bf16", 20000.0), ("f16", -900.0))
    ]  # fmt: skip
    found += [
        probe(f"window {left} {right} behind 1024 keys", depths=(128, 128), sizes=((260, 1500),),
              window=(left, right))
        for left, right in ((300, 0), (1024, 0), (130, 60))
    ]  # fmt: skip
    wide, broad = "tile = (192,80), overlap = ", {"depths": (128, 128)}
    found += [
        probe("many rows", dtype="e4m3", depths=(128, 128), sizes=((2100, 330),), causal=True),
        probe("many keys", dtype="e4m3", depths=(128, 128), sizes=((70, 2200),)),
        probe("many keys", sizes=((130, 2200),), causal=True),
        probe("many keys of shared heads", depths=(128, 128), sizes=((70, 2200),), heads=(2, 1)),
        probe("wide", sizes=((400, 2130),), schedule=f"{wide}turns", **broad),
        probe(
            "less wide",
            depths=(96, 96),
            sizes=((210, 2130),),
            causal=True,
            schedule="tile = (192,96), overlap = yes",
        ),
        *[
            probe(f"wide {name}", causal=True, schedule=f"{wide}yes", **broad, **more)
            for name, more in (
                ("causal", {"sizes": ((389, 2130),)}),
                ("shared", {"sizes": ((210, 2100),), "heads": (4, 2)}),
            )
        ],
        probe("window", dtype="e4m3", window=(50, 30)),
        probe("padded", dtype="e4m3", form="padded", sizes=_PADDED, causal=True),
        probe("packed", dtype="e4m3", form="packed", sizes=_PACKED, heads=(4, 2)),
        probe("decode", dtype="e4m3", sizes=((1, 333),) * 2, **decoding),
        probe("decode, pages of 64", dtype="e4m3", sizes=((1, 320),) * 2, page=64, **decoding),
    ]
    return list(found)
