"""Integer instructions against Python's own integers."""

from __future__ import annotations

import numpy as np
import pytest

BITS = {"u16": 16, "s16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64, "b32": 32, "b64": 64}


def wrap(value: int, type: str) -> int:
    bits = BITS[type]
    value &= (1 << bits) - 1
    return value - (1 << bits) if type[0] == "s" and value >> (bits - 1) else value


def dtype(type: str) -> np.dtype:
    return np.dtype(f"{'i' if type[0] == 's' else 'u'}{BITS[type] // 8}")


def vectors(type: str, seed: int, count: int = 96) -> np.ndarray:
    bits = BITS[type]
    edge = [0, 1, 2, 3, 7, (1 << bits) - 1, (1 << bits) - 2, 1 << (bits - 1), (1 << (bits - 1)) - 1,
            0xFF, 1 << (bits // 2), (1 << (bits // 2)) - 1]  # fmt: skip
    rng = np.random.default_rng(seed)
    raw = [int.from_bytes(rng.bytes(bits // 8), "little") >> int(rng.integers(0, bits)) for _ in
           range(count)]  # fmt: skip
    values = [wrap(v, type) for v in edge + raw]
    order = rng.permutation(len(values))
    return np.array([values[i] for i in order], dtype(type))


def truncated_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def saturate(value: int) -> int:
    return max(-(1 << 31), min((1 << 31) - 1, value))


BINARY = {
    "add": lambda a, b, t: a + b,
    "sub": lambda a, b, t: a - b,
    "mul.lo": lambda a, b, t: a * b,
    "mul.hi": lambda a, b, t: a * b >> BITS[t],
    "div": lambda a, b, t: truncated_div(a, b) if b else -1,
    "rem": lambda a, b, t: a - truncated_div(a, b) * b if b else -1,
    "min": lambda a, b, t: min(a, b),
    "max": lambda a, b, t: max(a, b),
}


@pytest.mark.parametrize("type", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", sorted(BINARY))
def test_binary(elementwise, op, type):
    a, b = vectors(type, 1), vectors(type, 2)
    (d,) = elementwise(f"{op}.{type} %d0, %a0, %a1;", [a, b], [dtype(type)])
    expected = [wrap(BINARY[op](int(x), int(y), type), type) for x, y in zip(a, b, strict=True)]
    assert d.tolist() == expected


@pytest.mark.parametrize("type", ["u16", "s16", "u32", "s32"])
def test_wide(elementwise, type):
    a, b = vectors(type, 3), vectors(type, 4)
    wide = f"{type[0]}{2 * BITS[type]}"
    c = vectors(wide, 5)
    (d, e) = elementwise(
        f"mul.wide.{type} %d0, %a0, %a1; mad.wide.{type} %d1, %a0, %a1, %a2;",
        [a, b, c], [dtype(wide)] * 2,
    )  # fmt: skip
    for x, y, z, p, q in zip(a, b, c, d, e, strict=True):
        assert int(p) == wrap(int(x) * int(y), wide)
        assert int(q) == wrap(int(x) * int(y) + int(z), wide)


@pytest.mark.parametrize("type", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_ternary(elementwise, type):
    a, b, c = (vectors(type, i) for i in (6, 7, 8))
    lo, hi, sad = elementwise(
        f"mad.lo.{type} %d0, %a0, %a1, %a2; mad.hi.{type} %d1, %a0, %a1, %a2;"
        f"sad.{type} %d2, %a0, %a1, %a2;",
        [a, b, c], [dtype(type)] * 3,
    )  # fmt: skip
    for i, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        assert int(lo[i]) == wrap(x * y + z, type)
        assert int(hi[i]) == wrap((x * y >> BITS[type]) + z, type)
        assert int(sad[i]) == wrap(z + abs(x - y), type)


def test_saturating_forms(elementwise):
    a, b, c = (vectors("s32", i) for i in (9, 10, 11))
    add, sub, mad = elementwise(
        "add.sat.s32 %d0, %a0, %a1; sub.sat.s32 %d1, %a0, %a1; mad.hi.sat.s32 %d2, %a0, %a1, %a2;",
        [a, b, c], [np.int32] * 3,
    )  # fmt: skip
    for i, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        assert add[i] == saturate(x + y)
        assert sub[i] == saturate(x - y)
        assert mad[i] == saturate((x * y >> 32) + z)


def test_carry_chains(elementwise):
    a, b = vectors("u64", 12), vectors("u64", 13)
    total, difference, product = elementwise(
        """
        mov.b64 {%r1, %r2}, %a0; mov.b64 {%r3, %r4}, %a1;
        add.cc.u32 %r5, %r1, %r3; addc.u32 %r6, %r2, %r4; mov.b64 %d0, {%r5, %r6};
        sub.cc.u32 %r5, %r1, %r3; subc.u32 %r6, %r2, %r4; mov.b64 %d1, {%r5, %r6};
        mul.lo.u32 %r5, %r1, %r3; mul.hi.u32 %r6, %r1, %r3;
        mad.lo.cc.u32 %r6, %r1, %r4, %r6; madc.hi.u32 %r7, %r1, %r4, 0;
        mad.lo.cc.u32 %r6, %r2, %r3, %r6;
        mov.b64 %d2, {%r5, %r6};
        """,
        [a, b], [np.uint64] * 3,
    )  # fmt: skip
    mask = (1 << 64) - 1
    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        assert int(total[i]) == (x + y) & mask
        assert int(difference[i]) == (x - y) & mask
        assert int(product[i]) == (x * y) & mask


def test_64_bit_carry_chain(elementwise):
    low, high, other = (vectors("u64", i) for i in (14, 15, 16))
    d0, d1 = elementwise(
        "add.cc.u64 %d0, %a0, %a2; addc.cc.u64 %d1, %a1, %a2;", [low, high, other], [np.uint64] * 2
    )
    for i, (x, y, z) in enumerate(zip(low.tolist(), high.tolist(), other.tolist(), strict=True)):
        total = (x | y << 64) + (z | z << 64)
        assert int(d0[i]) == total & (1 << 64) - 1
        assert int(d1[i]) == total >> 64 & (1 << 64) - 1


@pytest.mark.parametrize("type", ["u32", "s32"])
def test_24_bit(elementwise, type):
    a, b, c = (vectors(type, i) for i in (17, 18, 19))

    def low24(value: int) -> int:
        value &= 0xFFFFFF
        return value - (1 << 24) if type == "s32" and value >> 23 else value

    lo, hi, mad = elementwise(
        f"mul24.lo.{type} %d0, %a0, %a1; mul24.hi.{type} %d1, %a0, %a1;"
        f"mad24.lo.{type} %d2, %a0, %a1, %a2;",
        [a, b, c], [dtype(type)] * 3,
    )  # fmt: skip
    for i, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        product = low24(x) * low24(y)
        assert int(lo[i]) == wrap(product, type)
        assert int(hi[i]) == wrap(product >> 16, type)
        assert int(mad[i]) == wrap(product + z, type)


@pytest.mark.parametrize("op", ["abs", "neg"])
@pytest.mark.parametrize("type", ["s16", "s32", "s64"])
def test_unary(elementwise, op, type):
    a = vectors(type, 20)
    (d,) = elementwise(f"{op}.{type} %d0, %a0;", [a], [dtype(type)])
    assert d.tolist() == [wrap(abs(x) if op == "abs" else -x, type) for x in a.tolist()]


@pytest.mark.parametrize("a_type", ["u32", "s32"])
@pytest.mark.parametrize("b_type", ["u32", "s32"])
def test_dot_products(elementwise, a_type, b_type):
    a, b, c = (vectors("u32", i) for i in (21, 22, 23))
    d4, lo, hi = elementwise(
        f"dp4a.{a_type}.{b_type} %d0, %a0, %a1, %a2; dp2a.lo.{a_type}.{b_type} %d1, %a0, %a1, %a2;"
        f"dp2a.hi.{a_type}.{b_type} %d2, %a0, %a1, %a2;",
        [a, b, c], [np.uint32] * 3,
    )  # fmt: skip

    def part(value: int, index: int, bits: int, type: str) -> int:
        value = value >> index * bits & (1 << bits) - 1
        return value - (1 << bits) if type == "s32" and value >> (bits - 1) else value

    for i, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        total = sum(part(x, j, 8, a_type) * part(y, j, 8, b_type) for j in range(4))
        assert int(d4[i]) == (z + total) & 0xFFFFFFFF
        for found, base in ((lo, 0), (hi, 2)):
            total = sum(part(x, j, 16, a_type) * part(y, base + j, 8, b_type) for j in range(2))
            assert int(found[i]) == (z + total) & 0xFFFFFFFF


def test_packed_16_bit(elementwise):
    a, b = vectors("u32", 24), vectors("u32", 25)
    add, low, high = elementwise(
        "add.u16x2 %d0, %a0, %a1; min.s16x2 %d1, %a0, %a1; max.u16x2 %d2, %a0, %a1;",
        [a, b], [np.uint32] * 3,
    )  # fmt: skip

    def halves(v: int) -> list[int]:
        return [v & 0xFFFF, v >> 16]

    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        pairs = list(zip(halves(x), halves(y), strict=True))
        assert halves(int(add[i])) == [(p + q) & 0xFFFF for p, q in pairs]
        assert halves(int(high[i])) == [max(p, q) for p, q in pairs]
        signed = [min(wrap(p, "s16"), wrap(q, "s16")) & 0xFFFF for p, q in pairs]
        assert halves(int(low[i])) == signed
