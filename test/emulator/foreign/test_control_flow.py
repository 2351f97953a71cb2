"""Foreign kernels that diverge: loops, switches, local arrays, calls, recursion, printf."""

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError


def test_collatz(launch, rng):
    start = np.append(rng.integers(1, 200, 40), [1, 27]).astype(np.uint32)
    steps, peak = np.zeros(42, np.int32), np.zeros(42, np.uint64)

    def walk(value: int) -> tuple[int, int]:
        count, top = 0, value
        while value != 1:
            value = 3 * value + 1 if value % 2 else value // 2
            count, top = count + 1, max(top, value)
        return count, top

    launch("collatz", 2, 32, start, steps, peak, np.int32(42))
    assert list(zip(steps.tolist(), peak.tolist(), strict=True)) == [walk(int(v)) for v in start]


def test_mandelbrot(launch):
    width, height, limit, step = 21, 13, 40, np.float32(0.125)
    x0, y0 = np.float32(-2), np.float32(-0.75)
    image = np.zeros((height, width), np.uint8)
    sizes = np.int32(width), np.int32(height)
    launch("mandelbrot", (3, 4), (8, 4), image, *sizes, x0, y0, step, np.int32(limit))

    def fma(a, b, c):  # exact product of two f32 in f64; the sum is rounded once more, harmlessly
        return np.float32(np.float64(a) * np.float64(b) + np.float64(c))

    def escape(px: int, py: int) -> int:
        cx, cy = fma(px, step, x0), fma(py, step, y0)
        x = y = np.float32(0)
        for i in range(limit):
            xx, yy = x * x, y * y
            if xx + yy > 4:
                return i
            x, y = (xx - yy) + cx, fma(np.float32(2) * x, y, cy)
        return limit

    expected = [[escape(px, py) for px in range(width)] for py in range(height)]
    np.testing.assert_array_equal(image, expected)


# Opcodes of bytecode.cu that take two operands, with Python's meaning (C division truncates).
BINARY = {
    3: lambda a, b: a + b,
    4: lambda a, b: a - b,
    5: lambda a, b: a * b,
    6: lambda a, b: int(a / b) if b else 0,
    7: lambda a, b: a - b * int(a / b) if b else 0,
    10: lambda a, b: a & b,
    11: lambda a, b: a | b,
    12: lambda a, b: a ^ b,
    15: lambda a, b: a << (b & 31),
    16: lambda a, b: a >> (b & 31),
}
UNARY = {8: lambda a: -a, 9: lambda a: ~a, 19: lambda a: (a & 0xFFFFFFFF).bit_count()}


def interpret(code: list[int], value: int) -> int:
    def wrap(x: int) -> int:
        return (x + 2**31) % 2**32 - 2**31

    stack: list[int] = []
    pc = 0
    while pc < len(code):
        op, pc = code[pc], pc + 1
        if op == 0:
            return stack[-1] if stack else -1
        if op == 1:
            stack.append(value)
        elif op == 2:
            stack.append(code[pc] - 256 * (code[pc] > 127))
            pc += 1
        elif op in BINARY:
            b, a = stack.pop(), stack.pop()
            stack.append(wrap(BINARY[op](a, b)))
        elif op in UNARY:
            stack[-1] = wrap(UNARY[op](stack[-1]))
        elif op == 13:
            stack.append(stack[-1])
        elif op == 14:
            stack[-2:] = stack[:-3:-1]
        elif op == 17:
            stack.pop()
        elif op == 18:
            pc += code[pc] if stack.pop() > 0 else 1
        else:
            return -1000 - op
    return -2000


def test_bytecode(launch, rng):
    length = 20
    written = [
        [1, 2, 250, 3, 13, 5, 0],  # (x - 6)^2
        [1, 2, 7, 7, 2, 3, 6, 0],
        [1, 13, 8, 14, 4, 9, 0],
        [1, 18, 5, 2, 100, 0, 99, 2, 200, 0],
        [1, 2, 3, 15, 2, 1, 16, 19, 0],
        [1, 2, 90, 10, 2, 33, 11, 2, 85, 12, 0],
        [77],
        [0],
        [1, 13, 13, 17, 3] + [1, 17] * 9,  # runs off its end
    ]
    programs = [p + [0] * (length - len(p)) for p in written]
    programs[-1] = programs[-1][:length]
    chosen = [programs[i] for i in rng.integers(0, len(programs), 64)]
    inputs = rng.integers(-50, 50, 64).astype(np.int32)
    results = np.zeros(64, np.int32)
    launch("bytecode", 2, 32, np.array(chosen, np.uint8), inputs, results, np.int32(length))
    expected = [interpret(code, int(v)) for code, v in zip(chosen, inputs, strict=True)]
    assert results.tolist() == expected


def test_jump_table(launch, rng):
    n = 60
    op = np.append(np.arange(15), rng.integers(-1, 14, n - 15)).astype(np.int32)
    x = (8 * rng.standard_normal(n)).astype(np.float32)
    visits = np.zeros(20, np.int32)

    def halve(v):
        for k in range(5):
            v = np.float32(np.float64(v) * 0.5 + k)
        return np.floor(v)

    cases = {
        0: lambda v: v + np.float32(1),
        1: lambda v: v * np.float32(2),
        2: lambda v: np.sqrt(abs(v)),
        3: abs,
        4: halve,
        5: np.floor,
        6: np.ceil,
        7: lambda v: np.float32(v.view(np.int32)),
        8: lambda v: np.float32(1) / v,
        9: lambda v: max(v, np.float32(3)),
        10: lambda v: min(v, np.float32(-3)),
        11: lambda v: np.trunc(v * np.float32(10)),
    }
    zero = np.float32(-0.0)
    expected = [cases[k](v) if k in cases else zero for k, v in zip(op.tolist(), x, strict=True)]
    launch("jump_table", 2, 32, op, x, visits, np.int32(n))
    np.testing.assert_array_equal(x, np.array(expected, np.float32))
    last = max(i for i in range(n) if op[i] == 11)
    counted = {0: (op == 0).sum(), 1: 2 * (op == 1).sum(), 11: last, 16: 1, 17: 2, 18: 3}
    assert visits.tolist() == [counted.get(i, 0) for i in range(20)]


def test_local_heap(launch, rng):
    x = rng.random((32, 24)).astype(np.float32)
    out, probes = np.zeros_like(x), np.zeros(32, np.int32)
    launch("local_heap", 1, 32, x, out, probes)
    ordered = np.sort(x, axis=1)
    np.testing.assert_array_equal(out, ordered)

    def search(values) -> int:
        stack, count = [(0, 23)], 0
        while stack:
            first, last = stack.pop()
            count += 1
            if last - first < 2:
                continue
            middle = (first + last) // 2
            stack.append((middle + 1, last) if values[middle] < 0.5 else (first, middle - 1))
            if len(stack) == 1 and count % 3 == 0:
                stack.append((0, 1))
        return count

    assert probes.tolist() == [search(row) for row in ordered]


def test_n_queens(launch):
    n = 6
    solutions = np.full(32, -1, np.int32)

    def count(columns: tuple[int, ...]) -> int:
        row = len(columns)
        if row == n:
            return 1
        threats = {p + k for r, p in enumerate(columns) for k in (0, row - r, r - row)}
        return sum(count((*columns, c)) for c in range(n) if c not in threats)

    launch("n_queens", 1, 32, solutions, np.int32(n))
    assert solutions[:n].tolist() == [count((c,)) for c in range(n)]
    assert (solutions[n:] == -1).all()


def test_edit_distance(launch, rng):
    words = ["kitten", "sitting", "", "flaw", "lawn", "a", "abc", "abc", "levenshtein", "einstein"]
    words += ["".join(rng.choice(list("abc"), rng.integers(0, 12))) for _ in range(30)]
    pairs = len(words) // 2
    starts = np.cumsum([0] + [len(w) for w in words]).astype(np.int32)
    text = np.frombuffer("".join(words).encode(), np.int8).copy()
    distance = np.full(pairs, -1, np.int32)

    def levenshtein(a: str, b: str) -> int:
        row = list(range(len(b) + 1))
        for i, x in enumerate(a, 1):
            new = [i]
            for j, y in enumerate(b, 1):
                new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + (x != y)))
            row = new
        return row[-1]

    launch("edit_distance", 1, 32, text, starts, distance, np.int32(pairs))
    assert distance.tolist() == [levenshtein(*words[2 * t : 2 * t + 2]) for t in range(pairs)]


def test_tail_loop(launch, rng):
    x = np.append([0, 1, 2, 3, 4], rng.integers(0, 2**32, 59)).astype(np.uint32)
    y = np.zeros(64, np.uint32)

    def leave(v: int) -> int:
        if v == 0:
            return 0
        acc, count, step, mask = 0, (v % 23 + 3) // 4, v % 4, 0xFFFFFFFF
        while True:
            if step == 0:
                acc = (acc * 3 + 1) & mask
            if step in (0, 3):
                acc ^= v
            if step in (0, 3, 2):
                acc = (acc + count) & mask
            step = 0
            acc = (acc << 1 | acc >> 31) & mask
            if acc % 97 == 13:
                return ~acc & mask
            count -= 1
            if count <= 0:
                return (acc + 1000000) & mask

    launch("tail_loop", 2, 32, x, y, np.int32(64))
    assert y.tolist() == [leave(int(v)) for v in x]


def test_calls(launch, rng):
    n = 40
    v = rng.standard_normal((n, 6)).astype(np.float32)
    x = rng.integers(-1000, 1000, (n, 4)).astype(np.int32)
    crossed, weights = np.zeros((n, 3), np.float32), np.zeros(n)
    sums, ordered = np.zeros(n, np.int64), np.zeros((n, 4), np.int32)
    launch("calls", 2, 20, v, x, crossed, weights, sums, ordered)
    a, b = v[:, :3].astype(np.float64), v[:, 3:].astype(np.float64)
    np.testing.assert_allclose(crossed, np.cross(a, np.cross(b, a)), atol=1e-4)
    t = np.arange(n)
    tags, halves = x[:, 0].astype(np.int8), x[:, 1]
    weight = tags + 10.0 * halves + 1000.0 * x[:, 2] + v[:, 0].astype(np.float64)
    np.testing.assert_allclose(weights, np.where(t % 2, -1, 1) * weight * (60000 + t), rtol=1e-15)
    up = np.sort(x, axis=1)
    descending = t % 3 == 0
    up[descending] = up[descending, ::-1]
    np.testing.assert_array_equal(ordered, up)

    def checksum(values) -> int:
        total = 0
        for value in values:
            total = total * 31 + int(value)
        return total

    assert sums.tolist() == [checksum(up[i] if i & 4 else x[i, : i % 5]) for i in range(n)]


def test_recursion(launch):
    values, moves = np.zeros(32, np.int32), np.zeros(32, np.int32)
    logs, even = np.zeros(32, np.uint32), np.zeros(32, np.uint8)
    launch("recursion", 1, 32, values, moves, logs, even)

    def hanoi(disks: int, source: int, target: int, log: int) -> int:
        if disks == 0:
            return log
        via = 3 - source - target
        log = hanoi(disks - 1, source, via, log)
        return hanoi(disks - 1, via, target, (9 * log + 3 * source + target) % 2**32)

    t = np.arange(32)
    n = t // 3 % 4
    np.testing.assert_array_equal(values, np.choose(t % 3, [n + 1, n + 2, 2 * n + 3]))
    np.testing.assert_array_equal(moves, 2 ** (t % 5) - 1)
    assert logs.tolist() == [hanoi(i % 5, 0, 2, i) for i in range(32)]
    np.testing.assert_array_equal(even, t % 7 % 2 == 0)


def test_function_pointers(launch, rng):
    x, which = rng.integers(-4, 5, 32).astype(np.float32), rng.integers(0, 4, 32).astype(np.int32)
    y = np.zeros(32, np.float32)
    launch("function_pointers", 1, 32, x, which, y)
    n = np.arange(32) % 4
    first = np.choose(which, [x + n, x * n, x**n, x * x])
    np.testing.assert_array_equal(y, first + np.where(np.arange(32) % 2, x * x, x * 3))


def test_printing(launch, request):
    if "gpu" in request.node.name:
        pytest.skip("the GPU prints to the process's standard output")
    x = np.array([3, -1, 12, 0, 7], np.int32)
    report = launch("printing", 1, 64, x, np.int32(5))
    said = sorted(report.output.splitlines())
    assert said == sorted(
        [
            "x[0] =     3|-3    |00000003 small",
            "x[2] =    12|-12   |0000000c big",
            "x[4] =     7|-7    |00000007 small",
            "ok 4.500 1.000000e-03 -5000000000 18446744073709551615 % 2.5",
            "done",
        ]
    )


def test_assertion_fails(launch, request):
    if "gpu" in request.node.name:
        pytest.skip("a failed assertion ends the process's CUDA context")
    y = np.zeros(32, np.int32)
    x = np.arange(32, dtype=np.int32)
    launch("assertion", 1, 32, x, y)
    np.testing.assert_array_equal(y, x + 1)
    for bad, name in ((100, "assert"), (55, "trap")):
        x[9] = bad
        with pytest.raises(EmulatorError, match=name) as caught:
            launch("assertion", 1, 32, x, y)
        assert caught.value.ptx_line
