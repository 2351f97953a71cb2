"""Logic, shifts and bit fields against Python's own integers."""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(7)
N = 160


def words(bits: int) -> np.ndarray:
    raw = RNG.integers(0, 1 << 63, N, dtype=np.uint64) * np.uint64(2)
    raw += RNG.integers(0, 2, N, dtype=np.uint64)
    raw[:6] = [0, 1, (1 << 64) - 1, 1 << 63, 0x80000000, 0x7FFFFFFF]
    return raw.astype(f"u{bits // 8}")


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_bitwise(elementwise, bits):
    a, b = words(bits), words(bits)
    outs = elementwise(
        f"and.b{bits} %d0, %a0, %a1; or.b{bits} %d1, %a0, %a1; xor.b{bits} %d2, %a0, %a1;"
        f"not.b{bits} %d3, %a0; cnot.b{bits} %d4, %a0;",
        [a, b], [a.dtype] * 5,
    )  # fmt: skip
    for found, expected in zip(
        outs, [a & b, a | b, a ^ b, ~a, (a == 0).astype(a.dtype)], strict=True
    ):
        assert (found == expected).all()


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_clamp(elementwise, bits):
    a = words(bits)
    n = RNG.integers(0, 80, N).astype(np.uint32)
    n[:3] = [0, bits, 0xFFFFFFFF]
    left, right, arithmetic = elementwise(
        f"shl.b{bits} %d0, %a0, %a1; shr.u{bits} %d1, %a0, %a1; shr.s{bits} %d2, %a0, %a1;",
        [a, n], [a.dtype] * 3,
    )  # fmt: skip
    mask = (1 << bits) - 1
    for i, (x, s) in enumerate(zip(a.tolist(), n.tolist(), strict=True)):
        assert int(left[i]) == (x << min(s, 200)) & mask
        assert int(right[i]) == x >> min(s, 200)
        assert int(arithmetic[i]) == (signed(x, bits) >> min(s, 200)) & mask


def test_shift_by_constant(elementwise):
    a = words(32)
    left, right, arithmetic, far = elementwise(
        "shl.b32 %d0, %a0, 5; shr.u32 %d1, %a0, 31; shr.s32 %d2, %a0, 40; shl.b32 %d3, %a0, 32;",
        [a], [np.uint32] * 4,
    )  # fmt: skip
    assert (left == a << 5).all()
    assert (right == a >> 31).all()
    assert (arithmetic == (a.view(np.int32) >> 31).view(np.uint32)).all()
    assert not far.any()


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shift(elementwise, mode):
    a, b = words(32), words(32)
    n = RNG.integers(0, 70, N).astype(np.uint32)
    left, right = elementwise(
        f"shf.l.{mode}.b32 %d0, %a0, %a1, %a2; shf.r.{mode}.b32 %d1, %a0, %a1, %a2;",
        [a, b, n], [np.uint32] * 2,
    )  # fmt: skip
    for i, (x, y, s) in enumerate(zip(a.tolist(), b.tolist(), n.tolist(), strict=True)):
        s = min(s, 32) if mode == "clamp" else s & 31
        both = y << 32 | x
        assert int(left[i]) == (both << s) >> 32 & 0xFFFFFFFF
        assert int(right[i]) == both >> s & 0xFFFFFFFF


@pytest.mark.parametrize("table", [0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x1B, 0])
def test_lop3(elementwise, table):
    a, b, c = words(32), words(32), words(32)
    (d,) = elementwise(f"lop3.b32 %d0, %a0, %a1, %a2, {table:#x};", [a, b, c], [np.uint32])
    for bit in (0, 7, 31):
        index = (a >> bit & 1) * 4 + (b >> bit & 1) * 2 + (c >> bit & 1)
        assert (d >> bit & 1 == table >> index & 1).all()


def test_prmt_modes(elementwise):
    a, b, c = words(32), words(32), words(32)
    modes = ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"]
    body = "".join(f"prmt.b32{m} %d{i}, %a0, %a1, %a2;" for i, m in enumerate(modes))
    outs = elementwise(body, [a, b, c], [np.uint32] * len(modes))
    for i in range(N):
        pool = list(int(a[i]).to_bytes(4, "little") + int(b[i]).to_bytes(4, "little"))
        k = int(c[i]) & 3
        expected = []
        for j in range(4):
            nibble = int(c[i]) >> 4 * j & 15
            byte = pool[nibble & 7]
            expected.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
        picks = [
            expected,
            [pool[k + j] for j in range(4)],
            [pool[(k - j) % 8] for j in range(4)],
            [pool[k]] * 4,
            [pool[max(j, k)] for j in range(4)],
            [pool[min(j, k)] for j in range(4)],
            [pool[2 * (k & 1) + (j & 1)] for j in range(4)],
        ]
        for mode, found, want in zip(modes, outs, picks, strict=True):
            assert list(int(found[i]).to_bytes(4, "little")) == want, mode


@pytest.mark.parametrize("bits", [32, 64])
def test_counting(elementwise, bits):
    a = words(bits) >> RNG.integers(0, bits, N).astype(f"u{bits // 8}")
    a[:2] = [0, 1]
    pop, clz, unsigned, amount, sign = elementwise(
        f"popc.b{bits} %d0, %a0; clz.b{bits} %d1, %a0; bfind.u{bits} %d2, %a0;"
        f"bfind.shiftamt.u{bits} %d3, %a0; bfind.s{bits} %d4, %a0;",
        [a], [np.uint32] * 5,
    )  # fmt: skip
    none = 0xFFFFFFFF
    for i, x in enumerate(a.tolist()):
        assert int(pop[i]) == x.bit_count()
        assert int(clz[i]) == bits - x.bit_length()
        assert int(unsigned[i]) == (x.bit_length() - 1 if x else none)
        assert int(amount[i]) == (bits - x.bit_length() if x else none)
        y = signed(x, bits)
        y = ~y if y < 0 else y
        assert int(sign[i]) == (y.bit_length() - 1 if y else none)
    (rev,) = elementwise(f"brev.b{bits} %d0, %a0;", [a], [a.dtype])
    assert [int(f"{x:0{bits}b}"[::-1], 2) for x in a.tolist()] == rev.tolist()


@pytest.mark.parametrize("type", ["u32", "s32", "u64", "s64"])
def test_bit_field_extract(elementwise, type):
    bits = int(type[1:])
    a = words(bits)
    start = RNG.integers(0, bits + 8, N).astype(np.uint32)
    length = RNG.integers(0, bits + 8, N).astype(np.uint32)
    (d,) = elementwise(f"bfe.{type} %d0, %a0, %a1, %a2;", [a, start, length], [a.dtype])
    for x, p, n, found in zip(a.tolist(), start.tolist(), length.tolist(), d.tolist(), strict=True):
        # The ISA's pseudo code, bit by bit.
        msb = bits - 1
        sign = 0 if type[0] == "u" or n == 0 else x >> min(p + n - 1, msb) & 1
        want = sum((x >> (p + i) & 1 if i < n and p + i <= msb else sign) << i for i in range(bits))
        assert found == want, (x, p, n)


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_field_insert(elementwise, bits):
    a, b = words(bits), words(bits)
    start = RNG.integers(0, bits + 8, N).astype(np.uint32)
    length = RNG.integers(0, bits + 8, N).astype(np.uint32)
    (d,) = elementwise(f"bfi.b{bits} %d0, %a0, %a1, %a2, %a3;", [a, b, start, length], [a.dtype])
    for i in range(N):
        want = int(b[i])
        for j in range(int(length[i])):
            at = int(start[i]) + j
            if at < bits:
                want = want & ~(1 << at) | (int(a[i]) >> j & 1) << at
        assert int(d[i]) == want


def test_masks_and_find(elementwise):
    a = words(32)
    base = RNG.integers(0, 32, N).astype(np.uint32)
    offset = RNG.integers(-4, 5, N).astype(np.int32)
    (found,) = elementwise("fns.b32 %d0, %a0, %a1, %a2;", [a, base, offset], [np.uint32])
    for x, start, n, got in zip(
        a.tolist(), base.tolist(), offset.tolist(), found.tolist(), strict=True
    ):
        set_bits = [i for i in range(32) if x >> i & 1]
        if n > 0:
            ahead = [i for i in set_bits if i >= start]
            want = ahead[n - 1] if len(ahead) >= n else 0xFFFFFFFF
        elif n < 0:
            behind = [i for i in set_bits if i <= start][::-1]
            want = behind[-n - 1] if len(behind) >= -n else 0xFFFFFFFF
        else:
            want = start if x >> start & 1 else 0xFFFFFFFF
        assert got == want
    length = RNG.integers(0, 40, N).astype(np.uint32)
    clamp, wrap = elementwise(
        "bmsk.clamp.b32 %d0, %a0, %a1; bmsk.wrap.b32 %d1, %a0, %a1;",
        [base, length],
        [np.uint32] * 2,
    )
    for p, n, c, w in zip(
        base.tolist(), length.tolist(), clamp.tolist(), wrap.tolist(), strict=True
    ):
        assert c == ((1 << n) - 1) << p & 0xFFFFFFFF
        assert w == ((1 << (n & 31)) - 1) << p & 0xFFFFFFFF
