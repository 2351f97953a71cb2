"""Foreign kernels about arithmetic: wide integers, bits, halves, rounding, math libraries."""

import hashlib
import math

import ml_dtypes
import numpy as np


def signed(x: int, bits: int) -> int:
    return (x + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def test_wide_integers(launch, rng):
    n = 40
    a, b = rng.integers(0, 2**64, (2, n), dtype=np.uint64)
    a[:4], b[:4] = [0, 2**64 - 1, 2**63, 5], [2**64 - 1, 2**64 - 1, 3, 2**17]
    high, shigh = np.zeros(n, np.uint64), np.zeros(n, np.int64)
    wide, quotients = np.zeros((n, 2), np.uint64), np.zeros((n, 4), np.uint64)
    chain = np.zeros((n, 2), np.uint64)
    launch("wide_integers", 2, 32, a, b, high, shigh, wide, quotients, chain, np.int32(n))
    low32, low64 = 2**32 - 1, 2**64 - 1
    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        assert high[i] == x * y >> 64
        assert shigh[i] == signed(x, 64) * signed(y, 64) >> 64
        product = (x * y + (y << 61) - (1 << 100) - x) % 2**128
        top = (product >> 64) ^ (signed(product, 128) >> 77) & low64
        assert wide[i].tolist() == [product & low64, top]
        d = y >> 17 | 1
        sx, divisor = signed(x, 64), -(d & 0xFFFF)
        truncated = abs(sx) // d * (1 if sx >= 0 else -1)
        rest = math.copysign(1, sx) * (abs(sx) % abs(divisor))
        assert quotients[i].tolist() == [x // d, x % d, truncated & low64, int(rest) & low64]
        x0, x1, y0, y1 = x & low32, x >> 32, y & low32, y >> 32
        carry = x0 + y0 >> 32
        lo, mid, hi = x0 + y0 & low32, x1 + y1 + carry & low32, x1 + y1 + carry >> 32
        difference = lo - x1
        borrow = difference < 0
        lo = difference & low32
        difference = mid - x0 - borrow
        mid, top = difference & low32, -(difference < 0) & low32
        addend = hi + 0xFFFFFFFE & low32
        low = (lo * mid & low32) + addend
        phi = (lo * mid >> 32) + 1 + (low >> 32) & low32
        assert chain[i].tolist() == [(mid << 32 | lo) ^ (top << 7) ^ hi, phi << 32 | low & low32]


def test_bits(launch, rng):
    n = 64
    x, y, s = rng.integers(0, 2**32, (3, n), dtype=np.uint32)
    x[:4], y[:4], s[:4] = [0, 1, 2**31, 2**32 - 1], [0, 0, 7, 8], [0, 32, 0x1F20, 0x0C04]
    counts, words = np.zeros((n, 6), np.int32), np.zeros((n, 12), np.uint32)
    longs = np.zeros((n, 2), np.uint64)
    launch("bits", 2, 32, x, y, s, counts, words, longs, np.int32(n))
    mask, low64 = 2**32 - 1, 2**64 - 1

    def ffs(v: int) -> int:
        return (v & -v).bit_length()

    def permute(a: int, b: int, selector: int) -> int:
        source = (b << 32 | a).to_bytes(8, "little")
        # Bit 3 of a nibble repeats the sign of the byte; __byte_perm clears it first.
        return int.from_bytes(bytes(source[selector >> 4 * k & 7] for k in range(4)), "little")

    def extract(v: int, start: int, length: int, sign: bool) -> int:
        filler = 64 if sign and v >> 31 else 0
        wide = v | (mask << 32 if filler else 0)
        field = wide >> start & (1 << length) - 1
        top = min(start + length - 1, 31)
        return (field | -(1 << length) & mask if sign and length and v >> top & 1 else field) & mask

    for i, (a, b, c) in enumerate(zip(x.tolist(), y.tolist(), s.tolist(), strict=True)):
        w = a << 32 | b
        assert counts[i].tolist() == [
            a.bit_count(), 32 - a.bit_length(), ffs(a), w.bit_count(), 64 - w.bit_length(), ffs(w),
        ]  # fmt: skip
        swapped = b << 32 | a  # funnel shifts take the high word second
        wrapped, clamped = c & 31, min(c, 32)
        position, length = c & 255, c >> 8 & 255
        inserted = b & ~(((1 << (c >> 8 & 31)) - 1) << (c & 31))
        inserted |= (a & (1 << (c >> 8 & 31)) - 1) << (c & 31)
        found = (a ^ (mask if a >> 31 else 0)).bit_length() - 1
        assert words[i].tolist() == [
            int(f"{a:032b}"[::-1], 2),
            permute(a, b, c),
            swapped << wrapped >> 32 & mask,
            swapped >> wrapped & mask,
            swapped << clamped >> 32 & mask,
            swapped >> clamped & mask,
            (a & b) ^ (~c & mask | a >> 3),
            a >> position & (1 << length) - 1,
            extract(a, c & 31, c >> 8 & 31, sign=True),
            inserted & mask,
            found & mask,
            a & b | a & c | b & c,
        ], i
        shift = c & 63
        rotated = (w << shift & low64) | (signed(w, 64) >> shift & low64)
        assert longs[i].tolist() == [int(f"{w:064b}"[::-1], 2), rotated]


def test_packed_bytes(launch, rng):
    n = 50
    x, y = rng.integers(-(2**31), 2**31, (2, n)).astype(np.int32)
    dots, lanes = np.zeros((n, 4), np.int32), np.zeros((n, 6), np.uint32)
    launch("packed_bytes", 2, 32, x, y, dots, lanes, np.int32(n))
    a, b = x.view(np.int8).reshape(n, 4).astype(int), y.view(np.int8).reshape(n, 4).astype(int)
    ua, ub, ha = a & 255, b & 255, x.view(np.int16).reshape(n, 2).astype(int)
    hb = y.view(np.int16).reshape(n, 2).astype(int)
    uha, uhb = ha & 0xFFFF, hb & 0xFFFF
    ux, uy = (v.view(np.uint32).astype(np.int64) for v in (x, y))
    a24, b24 = (x << 8 >> 8).astype(np.int64), (y << 8 >> 8).astype(np.int64)
    np.testing.assert_array_equal(dots[:, 0], (a * b).sum(axis=1) + 100)
    np.testing.assert_array_equal(dots[:, 1], (ua * ub).sum(axis=1) + 7)
    np.testing.assert_array_equal(dots[:, 2], (ha * b[:, :2]).sum(axis=1) - 5)
    products = a24 * b24 + ha[:, 0] * hb[:, 0]
    np.testing.assert_array_equal(dots[:, 3], products.astype(np.int32))

    def pack(parts, dtype) -> np.ndarray:
        return np.ascontiguousarray(parts.astype(dtype)).view(np.uint32).ravel()

    expected = [
        pack(ua + ub, np.uint8),
        pack(np.maximum(a, b), np.int8),
        pack(abs(ua - ub), np.uint8),
        pack(np.where(uha > uhb, 0xFFFF, 0), np.uint16),
        pack((ua + ub + 1) // 2, np.uint8),
        abs(ux - uy) + abs(x.astype(np.int64) - y) + 14,
    ]
    np.testing.assert_array_equal(lanes.T, np.array(expected).astype(np.uint32))


def test_half_arithmetic(launch, rng):
    n = 64
    x, y = rng.standard_normal((2, n, 2)).astype(np.float16) * np.float16(100)
    x[0], y[0], x[1], y[2] = y[0], y[0], [np.nan, 1], [np.inf, -0.0]
    finite = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)
    total, fused = np.zeros((n, 2), np.float16), np.zeros((n, 2), np.float16)
    largest, order = np.zeros(n, np.float16), np.zeros(n, np.uint8)
    rounded = np.zeros(n, np.int32)
    launch("half_arithmetic", 2, 32, x, y, total, fused, largest, order, rounded, np.int32(n))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(total, (x + y) - x * y)
        exact = np.maximum((x.astype(np.float64) * y + 0.25).astype(np.float16), np.float16(0))
        np.testing.assert_array_equal(fused[finite], exact[finite])
        low = np.fmin(x[:, 0], y[:, 1])  # one NaN loses against a number
        np.testing.assert_array_equal(largest, np.fmax(low, -abs(x[:, 1])))
        less, equal = x[:, 0] < y[:, 0], (x == y).all(axis=1)
        codes = 1 * less + 2 * equal + 4 * (x[:, 1] >= y[:, 1]) + 8 * np.isnan(x[:, 0])
    np.testing.assert_array_equal(order, codes)
    numbers = ~np.isnan(x[:, 0])
    expected = np.rint(x[:, 0].astype(float)) * 1000 + np.trunc(x[:, 1].astype(float))
    np.testing.assert_array_equal(rounded[numbers], expected[numbers])


def test_bfloat_arithmetic(launch, rng):
    n, bf16 = 48, ml_dtypes.bfloat16
    x, y = rng.standard_normal((n, 2)).astype(bf16), rng.standard_normal(n).astype(np.float32)
    fused, down = np.zeros((n, 2), np.uint16), np.zeros(n, np.uint16)
    total = np.zeros(n, np.uint16)
    args = x.view(np.uint16), y, fused, down, total, np.int32(n)
    launch("half_arithmetic", 2, 32, *args, entry="bfloat_arithmetic")
    wide = x.astype(np.float64)
    expected = (wide * wide + y.astype(bf16).astype(np.float64)[:, None]).astype(bf16)
    np.testing.assert_array_equal(fused.view(bf16), expected)
    np.testing.assert_array_equal(down.view(bf16), (y * np.float32(1.001)).astype(bf16))
    np.testing.assert_array_equal(total.view(bf16), (wide[:, 0] + wide[:, 1] / 2).astype(bf16))


def test_random_numbers(launch):
    n, seed, low32, low64 = 64, 20260101, 2**32 - 1, 2**64 - 1
    philox, xorshift = np.zeros((n, 4), np.uint32), np.zeros(n, np.uint64)
    uniform = np.zeros(n, np.float32)
    launch("random_numbers", 2, 32, philox, xorshift, uniform, np.uint32(seed))
    for t in range(n):
        c, k0, k1 = (t, 0, seed, 7), seed, 0xCAFEF00D
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = (p1 >> 32) ^ c[1] ^ k0, p1 & low32, (p0 >> 32) ^ c[3] ^ k1, p0 & low32
            k0, k1 = k0 + 0x9E3779B9 & low32, k1 + 0xBB67AE85 & low32
        assert philox[t].tolist() == list(c)
        s = (t * 0x9E3779B97F4A7C15 + 1) & low64
        for _ in range(5):
            s ^= s >> 12
            s ^= s << 25 & low64
            s ^= s >> 27
        assert xorshift[t] == s * 0x2545F4914F6CDD1D & low64
        assert math.isclose(uniform[t], (c[3] >> 8) / 2**24 + c[0] / 2**32, rel_tol=3e-7)


def test_sha256(launch, rng):
    n = 32
    texts = [rng.integers(0, 256, rng.integers(0, 56)).astype(np.uint8).tobytes() for _ in range(n)]
    padded = [t + b"\x80" + bytes(55 - len(t)) + (8 * len(t)).to_bytes(8, "big") for t in texts]
    blocks = np.frombuffer(b"".join(padded), np.uint32).copy()
    digests = np.zeros(8 * n, np.uint32)
    launch("sha256", 1, n, blocks, digests)
    assert digests.tobytes() == b"".join(hashlib.sha256(t).digest() for t in texts)


def test_nbody(launch, rng):
    n, softening = 40, 0.01
    bodies = rng.standard_normal((n, 4))
    bodies[:, 3] = rng.random(n) + 0.1
    force = np.zeros((n, 3))
    launch("nbody", 2, 32, bodies, force, np.int32(n), np.float64(softening))
    d = bodies[None, :, :3] - bodies[:, None, :3]
    r2 = (d * d).sum(axis=2) + softening
    weight = bodies[None, :, 3] / (r2 * np.sqrt(r2))
    expected = (d * weight[..., None]).sum(axis=1) * bodies[:, 3:]
    np.testing.assert_allclose(force, expected, rtol=1e-11, atol=1e-11)


def test_fft(launch, rng):
    x = rng.standard_normal((2, 64)) + 1j * rng.standard_normal((2, 64))
    data = x.astype(np.complex64)
    launch("fft", 2, 32, data.view(np.float32).reshape(2, 64, 2))
    np.testing.assert_allclose(data, np.fft.fft(x, axis=1), atol=2e-5)


def arguments(rng: np.random.Generator, dtype: type) -> np.ndarray:
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-6, -3.25, math.pi / 2, 4.0]
    return np.concatenate([special, rng.uniform(-5, 5, 54)]).astype(dtype)


def close(got: np.ndarray, expected: np.ndarray, ulps: float, floor: float) -> None:
    """Within so many units in the last place of the expected value, of floor if it is less."""
    unit = ulps * float(np.finfo(got.dtype).eps)
    np.testing.assert_allclose(got, expected.astype(float), rtol=unit, atol=unit * floor)


def test_float_math(launch, rng):
    x = arguments(rng, np.float32)
    n = x.size
    y = np.zeros((n, 20), np.float32)
    launch("float_math", 2, 32, x, y, np.int32(n))
    v, p = x.astype(float), abs(x).astype(float) + 0.125
    erf = np.vectorize(math.erf)
    expected = [
        np.sin(v), np.cos(v), np.tan(v), np.exp(v), np.log(p),
        p ** (v * 0.5), np.tanh(v), 1 / np.sqrt(p), np.sqrt(p), np.cbrt(v),
        np.arctan2(v, p), np.arcsin(v / (p + 1)), erf(v), np.log2(p), np.exp2(v),
        np.fmod(v, float(np.float32(0.7))), np.sinh(v), np.hypot(v, p), np.expm1(v), np.log1p(p),
    ]  # fmt: skip
    regular = abs(np.cos(v)) > 1e-3  # tan is near a pole elsewhere
    for column, wanted in enumerate(expected):
        close(y[regular, column], wanted[regular], ulps=8, floor=1.0)


def test_fast_math(launch, rng):
    x = arguments(rng, np.float32)
    n = x.size
    y = np.zeros((n, 8), np.float32)
    launch("float_math", 2, 32, x, y, np.int32(n), entry="fast_math")
    v, p = x.astype(float), abs(x).astype(float) + 0.125
    expected = [np.sin(v), np.cos(v), np.exp(v), np.log(p), p**v, v / p, p**-0.5, np.tanh(v)]
    limits = [2e-6, 2e-6, 1e-6, 1e-6, 2e-5, 3e-7, 2e-7, 6e-4]
    for column, (wanted, limit) in enumerate(zip(expected, limits, strict=True)):
        np.testing.assert_allclose(y[:, column], wanted, rtol=limit, atol=limit)


def test_double_math(launch, rng):
    x = arguments(rng, np.float64)
    n = x.size
    y = np.zeros((n, 10))
    launch("double_math", 2, 32, x, y, np.int32(n))
    p = abs(x) + 0.125
    erf, lgamma = np.vectorize(math.erf), np.vectorize(math.lgamma)
    expected = [
        erf(x), np.exp(x), np.log(p), np.sin(x * 1e7), p ** (0.3 * x),
        np.cbrt(x), p**-0.5, lgamma(p), x / p, np.arctan(x),
    ]  # fmt: skip
    for column, wanted in enumerate(expected):
        close(y[:, column], wanted, ulps=8, floor=1.0)


def test_rounding(launch, rng):
    n = 64
    special = [0.5, 1.5, -0.5, -2.5, 300.0, -300.0, 0.1, 1e-8]
    x = np.concatenate([special, rng.uniform(-60, 60, n - 8)]).astype(np.float32)
    d = rng.uniform(-(2.0**30), 2.0**30, n)
    ints, floats = np.zeros((n, 10), np.int32), np.zeros((n, 14), np.float32)
    longs, halves = np.zeros((n, 3), np.int64), np.zeros((n, 3), np.uint16)
    launch("rounding", 2, 32, x, d, ints, floats, longs, halves, np.int32(n))
    v = x.astype(np.float64)
    wanted = [
        np.rint(v), np.trunc(v), np.ceil(v), np.floor(v), np.maximum(np.rint(v), 0),
        np.rint(d), np.trunc(abs(v)) % 256, np.clip(np.trunc(v), -128, 127),
        np.clip(np.rint(v), 0, 65535), np.clip(np.rint(v), 0, 255),
    ]  # fmt: skip
    np.testing.assert_array_equal(ints.T, wanted)

    def directed(exact: np.ndarray, toward: str) -> np.ndarray:
        """f32 of an f64 value that holds the exact result, or lies within f64 rounding of it."""
        near = exact.astype(np.float32)
        wide = near.astype(np.float64)
        up, down = np.float32(np.inf), np.float32(-np.inf)
        above = np.where(wide < exact, np.nextafter(near, up), near)
        below = np.where(wide > exact, np.nextafter(near, down), near)
        return {"up": above, "down": below, "zero": np.where(exact < 0, above, below)}[toward]

    f11, f03, f01 = (float(np.float32(c)) for c in (1.1, 0.3, 0.1))
    wanted = [
        directed(v + f11, "zero"), directed(v + f11, "up"), directed(v + f11, "down"),
        directed(v * v, "zero"), directed(v * f03, "up"), directed(v * f03 + f01, "down"),
        x / np.float32(3), np.float32(1) / x, np.sqrt(abs(x)), np.clip(x, 0, 1),
        directed((ints[:, 0] * np.int32(16777259)).astype(np.float64), "zero"), directed(d, "up"),
        np.rint(x), np.copysign(np.floor(abs(v) + 0.5), v),
    ]  # fmt: skip
    np.testing.assert_array_equal(floats.T, wanted)
    np.testing.assert_array_equal(longs[:, 0], np.floor(d * 1e9))
    np.testing.assert_array_equal(longs[:, 1], np.trunc((x * np.float32(1e12)).astype(np.float64)))
    scaled = (longs[:, 0] * np.int64(1000003)).astype(np.float64)
    np.testing.assert_array_equal(longs[:, 2].view(np.float64), scaled)
    nearest = x.astype(np.float16)
    nearer_zero = np.nextafter(nearest, np.float16(0))
    lower = np.where(abs(nearest.astype(float)) > abs(v), nearer_zero, nearest)
    whole = np.trunc(v).astype(np.float16)
    np.testing.assert_array_equal(halves.view(np.float16).T, [nearest, lower, whole])
