"""SIMD video instructions: four bytes or two halves of a register at a time."""

from __future__ import annotations

import numpy as np
import pytest

OPERATIONS = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}
COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
EDGES = [0, 0x80808080, 0x7F7F7F7F, 0xFFFFFFFF, 0x80007FFF, 0x0001FF80]


def words(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    edges = np.array(EDGES, np.uint32)
    return np.concatenate([np.repeat(edges, 6) if seed else np.tile(edges, 6),
                           rng.integers(0, 2**32, 60, dtype=np.uint32)])  # fmt: skip


def split(values: np.ndarray, kind: str, parts: int) -> np.ndarray:
    part = np.dtype(f"{'i' if kind == 's32' else 'u'}{4 // parts}")
    return values.view(part).reshape(-1, parts).astype(np.int64)


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("name", OPERATIONS)
def test_part_by_part(elementwise, name, parts):
    a, b, c = words(0), words(1), words(1)[::-1].copy()
    for kinds in ("u32.u32.u32", "s32.s32.s32", "s32.u32.u32", "u32.s32.s32"):
        d_kind, a_kind, b_kind = kinds.split(".")
        exact = OPERATIONS[name](split(a, a_kind, parts), split(b, b_kind, parts))
        part = np.dtype(f"{'i' if d_kind == 's32' else 'u'}{4 // parts}")
        limits = np.iinfo(part)
        body = f"{name}{parts}.{kinds}"
        wrapped, clamped, total = elementwise(
            f"{body} %d0, %a0, %a1, %a2; {body}.sat %d1, %a0, %a1, %a2; "
            f"{body}.add %d2, %a0, %a1, %a2;",
            [a, b, c],
            [np.uint32] * 3,
        )
        np.testing.assert_array_equal(split(wrapped, d_kind, parts), exact.astype(part))
        np.testing.assert_array_equal(
            split(clamped, d_kind, parts), exact.clip(limits.min, limits.max)
        )
        np.testing.assert_array_equal(total, (c + exact.sum(axis=1)).astype(np.uint32))


@pytest.mark.parametrize("parts", [2, 4])
def test_rounded_average(elementwise, parts):
    a, b = words(0), words(1)
    for kind in ("u32", "s32"):
        body = f"vavrg{parts}.{kind}.{kind}.{kind} %d0, %a0, %a1, %a1;"
        (average,) = elementwise(body, [a, b], [np.uint32])
        total = split(a, kind, parts) + split(b, kind, parts)
        np.testing.assert_array_equal(split(average, kind, parts), (total + (total >= 0)) >> 1)


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_set(elementwise, comparison, parts):
    a, b, c = words(0), words(1), words(1)[::-1].copy()
    for kind in ("u32", "s32"):
        body = f"vset{parts}.{kind}.{kind}.{comparison}"
        flags, count = elementwise(
            f"{body} %d0, %a0, %a1, %a2; {body}.add %d1, %a0, %a1, %a2;", [a, b, c], [np.uint32] * 2
        )
        true = COMPARISONS[comparison](split(a, kind, parts), split(b, kind, parts))
        np.testing.assert_array_equal(split(flags, "u32", parts), true)
        np.testing.assert_array_equal(count, (c + true.sum(axis=1)).astype(np.uint32))
