"""Forms of attention drawn at random, for each plan of sm_100a: heads that share keys, masks, soft
caps, padded, packed and paged keys, odd lengths and dimensions, 8 bits, split keys. What a row does
not see is NaN; rows that see nothing give 0.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime.errors import CompileError

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
PLANS = {
    "default": (),
    "specialized": ("roles = specialized",),
    "corrected": ("roles = corrected", "warps = (4,1)"),
    "split": ("roles = split", "warps = (4,1)"),
}
DIMS = (16, 24, 32, 40, 64, 64, 80, 96, 128, 128, 160, 192, 256)


@dataclass
class Form:
    """One problem: sizes of a sequence are those of its own where several are packed."""

    batch: int
    heads: tuple[int, int]
    rows: list[int]
    keys: list[int]
    dims: tuple[int, int]
    dtype: type
    kind: str
    causal: bool
    window: tuple[int, int] | None
    softcap: float | None
    page: int
    scales: tuple[float, float, float] | None
    lse: bool
    fields: list[str] = field(default_factory=list)


def drawn(seed: int, plan: str) -> Form:
    rng = random.Random(f"{seed} {plan}")
    kind = rng.choice(("plain", "plain", "padded", "packed", "paged", "decode", "paged decode"))
    dtype = rng.choice((np.float16, BF16, BF16, E4M3))
    group, shared = rng.choice((1, 1, 2, 4)), rng.choice((1, 1, 2))
    depth = rng.choice(DIMS)
    columns = depth if rng.random() < 0.6 else rng.choice(DIMS)
    if rng.random() < 0.1:
        depth, columns = 192, 128
    count = rng.randint(1, 3) if kind == "packed" else rng.choice((1, 1, 2))
    short = "decode" in kind
    rows = [rng.randint(1, 4) if short else rng.choice((1, 63, 129, rng.randint(1, 300)))]
    keys = [rng.choice((1, 64, 127, rng.randint(1, 330)))]
    if kind == "packed":
        rows = [rng.randint(0, 200) for _ in range(count)]
        keys = [rng.randint(0, 200) for _ in range(count)]
    elif kind != "plain":
        rows, keys = rows * count, [rng.randint(0, keys[0]) for _ in range(count - 1)] + keys
    else:
        rows, keys = rows * count, keys * count
    window = None
    if rng.random() < 0.25:
        window = rng.choice(((rng.randint(0, 200), rng.randint(0, 30)), (rng.randint(0, 99), -1)))
    softcap = rng.choice((None, None, None, 5.0))
    page = rng.choice((16, 64)) if "paged" in kind else 0
    scales = (0.5, 0.25, 2.0) if dtype is E4M3 else None
    fields = list(PLANS[plan])
    if rng.random() < 0.3:
        fields.append(f"maxima = {rng.choice(('exact', 'lazy', 'guessed'))}")
    if rng.random() < 0.3:
        fields.append(f"scheduler = {rng.choice(('single', 'persistent', 'dynamic', 'cancel'))}")
    if short and rng.random() < 0.6:
        fields.append("split_k = 3")
    causal, lse = rng.random() < 0.5, rng.random() < 0.3
    return Form(
        count, (group * shared, shared), rows, keys, (depth, columns), dtype, kind, causal, window,
        softcap, page, scales, lse, fields,
    )  # fmt: skip


def one(form: Form, q, k, v, precision):
    """(result, logarithms) of one sequence and head of keys, and which keys its rows see."""
    store = (lambda x: x) if precision is np.float64 else lambda x: x.astype(form.dtype)
    q, k, v = (np.asarray(x).astype(precision) for x in (q, k, v))
    rows, keys = q.shape[-2], k.shape[-2]
    behind = np.arange(keys)[None] - np.arange(rows)[:, None] - (keys - rows)
    left, right = form.window or (-1, -1)
    right = 0 if form.causal else right
    sees = ((right < 0) | (behind <= right)) & ((left < 0) | (behind >= -left))
    a, b, c = form.scales or (1, 1, 1)
    s = q @ np.where(sees.any(0)[:, None], k, 0).T * precision(a * b / np.sqrt(q.shape[-1]))
    if form.softcap:
        s = precision(form.softcap) * np.tanh(s / precision(form.softcap))
    s = np.where(sees, s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isinf(top), precision(0), top)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    shift = precision(256 if form.dtype is E4M3 else 1)
    seen = np.where(sees.any(0)[:, None], v, 0)
    out = store(p * shift).astype(precision) @ seen / np.where(total == 0, 1, total) / shift
    with np.errstate(divide="ignore"):
        return out * c, (np.log(total) + top)[..., 0], sees


def problem(form: Form, seed: int):
    """(arguments, results by f64 and by f32, logarithms) of a call."""
    rng = np.random.default_rng(seed)
    out_type = BF16 if form.dtype is E4M3 else form.dtype
    h, hk = form.heads
    d, dv = form.dims

    def normal(*shape):
        return rng.standard_normal(shape).astype(form.dtype)

    packed = form.kind == "packed"
    total = (sum(form.rows), sum(form.keys)) if packed else (form.rows[0], max(form.keys))
    batch = 1 if packed else form.batch
    shapes = (h, total[0], d), (hk, total[1], d), (hk, total[1], dv)
    q, k, v = (normal(batch, *shape) for shape in shapes)
    exact = np.zeros((batch, h, total[0], dv))
    same, logs = exact.astype(np.float32), np.zeros((batch, h, total[0]))
    row = key = 0
    for b in range(form.batch):
        at, rows = (0, slice(row, row + form.rows[b])) if packed else (b, slice(None))
        keys = slice(key, key + form.keys[b]) if packed else slice(0, form.keys[b])
        for head in range(h):
            one_k, one_v = k[at, head * hk // h, keys], v[at, head * hk // h, keys]
            given = q[at, head, rows], one_k, one_v
            exact[at, head, rows], logs[at, head, rows], sees = one(form, *given, np.float64)
            same[at, head, rows], _, _ = one(form, *given, np.float32)
        for head in range(hk):
            hidden = ~sees.any(0)
            k[at, head, keys][hidden] = np.nan
            v[at, head, keys][hidden] = np.nan
        if not packed:
            k[at, :, form.keys[b] :], v[at, :, form.keys[b] :] = np.nan, np.nan
        row, key = row + form.rows[b], key + form.keys[b]
    options = {"causal": form.causal, "window": form.window, "softcap": form.softcap}
    options |= {"return_lse": form.lse, "arch": "sm_100a", "backend": "emulator"}
    if form.scales is not None:
        options |= dict(zip(("scale_q", "scale_k", "scale_v"), form.scales, strict=True))
    if packed:
        options["cu_seqlens"] = tuple(
            np.cumsum([0, *each]).astype(np.int32) for each in (form.rows, form.keys)
        )
    elif form.kind != "plain":
        options["lengths"] = np.array(form.keys, np.int32)
    if form.page:
        k, v, options["block_table"] = paged(k, v, form.page, rng)
    if form.fields:
        options["schedule"] = ", ".join(form.fields)
    return (q, k, v), options, exact, same.astype(out_type), logs


def paged(k, v, page, rng):
    """Keys and values in pages in any order, of which one more holds NaN."""
    batch, heads, keys, _ = k.shape
    each = max(1, -(-keys // page))
    table = rng.permutation(batch * each).astype(np.int32).reshape(batch, each)
    pools = []
    for values in (k, v):
        pool = np.full((batch * each + 1, heads, page, values.shape[-1]), np.nan, values.dtype)
        for b in range(batch):
            for j in range(each):
                part = values[b, :, j * page : (j + 1) * page]
                pool[table[b, j], :, : part.shape[1]] = part
        pools.append(pool)
    return (*pools, table)


def check(form: Form, seed: int) -> None:
    given, options, exact, same, logs = problem(form, seed)
    got = cute.attention(*given, **options)
    if form.lse:
        got, lse = got
        np.testing.assert_allclose(lse, logs, rtol=1e-4, atol=2e-5 if form.scales is None else 2e-3)
    error = np.abs(got.astype(np.float64) - exact)
    # Few elements have no error as large as others may have: half a unit of the result more.
    unit = 2.0**-9 if got.dtype == BF16 else 2.0**-12
    limit = 2 * np.abs(same.astype(np.float64) - exact).max(initial=0) + 1e-7
    limit += unit * np.abs(exact).max(initial=0)
    assert error.max(initial=0) <= limit, (error.max(), limit)


# Two roles that compute have room for half of the columns each.
REFUSED = "expected 2 parts of what 'main'"
# Where tensor memory does not hold what they multiply, threads would add it up.
TOO_MANY = (
    r"expected accumulators that live at one time .*\n  note: the nearest schedule that compiles"
)


def refusal(form: Form, seed: int) -> str | None:
    """What the compiler says of a form that a plan has not; None where the result is right."""
    try:
        check(form, seed)
    except CompileError as error:
        return str(error)
    return None


@pytest.mark.some(1)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("seed", range(2, 13))
def test_a_drawn_form(plan, seed):
    form = drawn(seed, plan)
    told = refusal(form, seed)
    if told is not None and "scheduler = cancel" in form.fields and "which one loads" in told:
        # Few rows, whose warps all do the same.
        assert plan == "default"
    elif told is not None:
        assert (plan, form.dims[1] > 192) == ("split", True), told
        assert re.search(f"{REFUSED}|{TOO_MANY}", told), told


@pytest.mark.some(1)
@pytest.mark.parametrize("rows", [64, 512])
def test_8_bits_are_multiplied_by_tcgen05(rows):
    """P goes to shared memory, V is read as it is in memory; those beside 16 bits are converted."""
    q, k = np.zeros((1, 20, rows, 64), E4M3), np.zeros((1, 20, 512, 64), E4M3)
    text = cute.compile(cute.attention, q, k, k, arch="sm_100a").ptx
    assert "tcgen05.mma.cta_group::1.kind::f8f6f4" in text
    assert "mma.sync" not in text
    mixed = cute.compile(cute.attention, q.astype(BF16), k, k, arch="sm_100a")
    assert any("converted in shared memory" in each.message for each in mixed.remarks)


@pytest.mark.some(1)
@pytest.mark.parametrize("warps", ["(2,2)", "(1,4)"])
def test_warps_that_no_accumulator_takes_are_others(warps):
    q = np.ones((1, 1, 128, 64), np.float16)
    schedule = f"tile = (128,64), roles = corrected, warps = {warps}"
    kernel = cute.compile(cute.attention, q, q, q, arch="sm_100a", schedule=schedule)
    assert any("warps = (4,1) for this multiply" in each.message for each in kernel.remarks)
    o = cute.attention(q, q, q, arch="sm_100a", schedule=schedule, backend="emulator")
    assert (o == 1).all()


@pytest.mark.some(1)
@pytest.mark.parametrize("dim", [12, 36])
def test_one_warp_that_copies(dim):
    """Rows that TMA does not load, in the plan that has one warp for loads."""
    rng = np.random.default_rng(dim)
    q, k, v = (rng.standard_normal((1, 1, n, dim)).astype(np.float16) for n in (140, 70, 70))
    given: Any = {"arch": "sm_100a", "backend": "emulator"}
    found = cute.attention(q, k, v, schedule="roles = split, warps = (4,1)", **given)
    np.testing.assert_allclose(found, cute.attention(q, k, v, **given), atol=1e-3)


@pytest.mark.parametrize(("ctas", "columns"), [(1, 512), (2, 256), (3, 256)])
def test_ctas_of_one_sm_share_the_columns(ctas, columns):
    """Two accumulators of 256 columns where a CTA is alone, one of each of two CTAs."""
    a, b = np.ones((128, 64), np.float16), np.ones((64, 256), np.float16)
    schedule = f"tile = (128,256,64), ctas = {ctas}"
    kernel = cute.compile(cute.gemm, a, b, arch="sm_100a", backend="emulator", schedule=schedule)
    assert re.findall(r"tcgen05\.alloc.*, (\d+);", kernel.ptx) == [str(columns)]


@pytest.mark.some(2)
@pytest.mark.parametrize("tile", ["", "tile = (256,32), ", "tile = (128,64), "])
def test_a_plan_that_does_not_fit_names_one_that_does(tile):
    """Of V of 256 columns tensor memory has no room for the accumulators of two roles."""
    q, v = np.zeros((1, 1, 256, 64), BF16), np.zeros((1, 1, 256, 256), BF16)
    with pytest.raises(CompileError, match=REFUSED) as refused:
        _ = cute.compile(cute.attention, q, q, v, arch="sm_100a", schedule=f"{tile}roles = split")
    nearest = re.search(r"the nearest plan is (roles = corrected, .*)", str(refused.value))
    assert nearest is not None, refused.value
    kernel = cute.compile(cute.attention, q, q, v, arch="sm_100a", schedule=nearest[1])
    assert "tcgen05.st" in kernel.ptx
