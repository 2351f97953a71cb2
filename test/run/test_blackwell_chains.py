"""Programs of several multiplies for sm_100a: what one role computes from a product another one
multiplies, through tensor or shared memory; accumulators that change between multiplies are added
to in registers. What tensor memory or registers do not hold takes `mma.sync` and says so.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

BF16 = ml_dtypes.bfloat16
ARCH: Any = {"arch": "sm_100a", "backend": "emulator"}


def normal(*shape, dtype: Any = np.float16, seed=0, size=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * size).astype(dtype)


def integers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float16)


def attended(q, k, v, precision, causal=False, window=None, softcap=None):
    """Attention computed in `precision`, what is multiplied and stored in the type of q."""
    store = (lambda x: x) if precision is np.float64 else lambda x: x.astype(q.dtype)
    group = q.shape[1] // k.shape[1]
    q_, k_, v_ = (x.astype(precision) for x in (q, np.repeat(k, group, 1), np.repeat(v, group, 1)))
    s = q_ @ k_.swapaxes(-1, -2) / precision(np.sqrt(q.shape[-1]))
    if softcap:
        s = precision(softcap) * np.tanh(s / precision(softcap))
    left, right = window or (-1, -1)
    right = 0 if causal else right
    rows, keys = q.shape[2], k.shape[2]
    behind = np.arange(keys)[None] - np.arange(rows)[:, None] - (keys - rows)
    s = np.where(((right < 0) | (behind <= right)) & ((left < 0) | (behind >= -left)), s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isinf(top), precision(0), top))
    total = p.sum(-1, keepdims=True)
    return store(store(p).astype(precision) @ v_ / np.where(total == 0, precision(1), total))


# (batch, heads, heads of keys, rows, keys, head dimensions), element, what hides keys
CASES: dict[str, Any] = {
    "odd lengths": ((1, 2, 2, 113, 211, 64, 64), np.float16, {}),
    "shared heads": ((1, 4, 2, 90, 130, 32, 64), BF16, {"causal": True}),
    "more rows than keys": ((1, 1, 1, 200, 70, 64, 64), np.float16, {"causal": True}),
    "a window": ((1, 1, 1, 150, 300, 64, 64), np.float16, {"window": (60, 10)}),
    "wide": ((1, 1, 1, 130, 150, 128, 128), BF16, {"causal": True}),
    "other dimensions": ((1, 1, 1, 40, 100, 96, 48), np.float16, {"softcap": 5.0}),
    "widest": ((1, 1, 1, 40, 70, 256, 256), np.float16, {"causal": True}),
    "one key": ((1, 1, 1, 129, 1, 64, 64), np.float16, {}),
    "latent": ((1, 1, 1, 140, 70, 192, 128), BF16, {"causal": True}),
}
# Accumulators that change stay in tensor memory, where a role of their own corrects them.
PLAN = "roles = corrected, warps = (4,1)"
PLANS = {
    "specialized": "roles = specialized",
    "exact": f"{PLAN}, maxima = exact",
    "lazy": f"{PLAN}, maxima = lazy",
}


@pytest.mark.some(2)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("case", CASES)
def test_attention(case, plan):
    (b, h, hk, rows, keys, d, dv), dtype, masks = CASES[case]
    q = normal(b, h, rows, d, dtype=dtype, seed=1)
    k, v = (normal(b, hk, keys, x, dtype=dtype, seed=x) for x in (d, dv))
    got = cute.attention(q, k, v, **masks, schedule=PLANS[plan], **ARCH).astype(np.float64)
    exact = attended(q, k, v, np.float64, **masks)
    same = attended(q, k, v, np.float32, **masks).astype(np.float64)
    assert np.abs(got - exact).max() <= 2 * np.abs(same - exact).max() + 1e-7
    kernel = cute.compile(cute.attention, q, k, v, **masks, schedule=PLANS[plan], **ARCH)
    assert "tcgen05.mma" in kernel.ptx
    assert "mma.sync" not in kernel.ptx
    text = kernel.stages["cute-synchronize"]
    corrects = re.findall(
        r'role "(\w+)"(?:(?!pipeline\.role).)*?tmem_store<f32, 32x32b>', text, re.S
    )
    assert corrects == ([] if plan == "specialized" else ["correction"])


@cute.kernel
def normalized(A, B, X, Y):
    """Y = softmax(A B), with sums and products of rows beside."""
    x = cute.local_tile(X, (128, 64), (0, 0)).load()
    s = cute.zeros((128, 64))
    cute.gemm(cute.local_tile(A, (128, 64), (0, 0)), cute.local_tile(B, (64, 64), (0, 0)), s)
    s.assign(s + x)
    p = cute.exp2(s - cute.row_max(s))
    cute.copy(p / cute.row_sum(p), cute.local_tile(Y, (128, 64), (0, 0)))


def test_rows_of_products_are_reduced_by_a_thread_each():
    """By two additions at once, and the largest of three, without a shuffle."""
    a, b = normal(128, 64), normal(64, 64, seed=1)
    x, y = normal(128, 64, dtype=np.float32, seed=2), np.zeros((128, 64), np.float32)
    normalized(a, b, x, y, **ARCH)
    s = a.astype(np.float64) @ b.astype(np.float64) + x
    p = np.exp2(s - s.max(1, keepdims=True))
    np.testing.assert_allclose(y, p / p.sum(1, keepdims=True), rtol=2e-5, atol=1e-7)
    ptx = cute.compile(normalized, a, b, x, y, arch="sm_100a").ptx
    assert "tcgen05.ld.sync.aligned.32x32b.x64" in ptx
    assert "shfl.sync.bfly" not in ptx
    assert ptx.count("add.rn.f32x2") >= 30 + 32
    assert len(re.findall(r"max\.NaN\.f32 (%f\d+, ){3}%f\d+;", ptx)) >= 30


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", ["wide scores", "one key", "drift"])
def test_sums_before_rounding_are_as_accurate(kind):
    """A key that has almost all of the weight, and counts from a smaller one, has an exponential
    that is rounded in the product alone: by less than the results are.
    """
    q, k, v = (normal(1, 1, n, 64, dtype=BF16, seed=n) for n in (128, 320, 320))
    if kind == "wide scores":
        q = (q.astype(np.float32) * 8).astype(BF16)
    elif kind == "one key":
        k[0, 0, 200] = (q[0, 0, 5].astype(np.float32) * 1.5).astype(BF16)
    else:
        k = (k.astype(np.float32) + np.linspace(0, 4, 320)[:, None]).astype(BF16)
        q = np.abs(q)
    block = 128 if kind == "drift" else 64
    schedule = f"roles = split, warps = (4,1), tile = (256,{block}), maxima = lazy"
    got = cute.attention(q, k, v, schedule=schedule, **ARCH).astype(np.float64)
    exact, same = (attended(q, k, v, each).astype(np.float64) for each in (np.float64, np.float32))
    assert np.abs(got - exact).max() <= 2 * np.abs(same - exact).max()
    ptx = cute.compile(cute.attention, q, k, v, schedule=schedule, arch="sm_100a").ptx
    assert "vote.sync.any" in ptx
    assert "bar.red" not in ptx


@pytest.mark.some(1)
@pytest.mark.parametrize(("dim", "is_taken"), [(64, True), (128, False)])
def test_rows_that_tma_cannot_load(dim, is_taken):
    """Threads copy them: beside these, main has registers for narrow results only."""
    q, k, v = (normal(1, 1, 140, dim + 1, seed=seed)[..., :dim] for seed in range(3))
    got = cute.attention(q, k, v, **ARCH)
    assert np.abs(got - attended(q, k, v, np.float64)).max() < 2e-3
    kernel = cute.compile(cute.attention, q, k, v, **ARCH)
    assert ("tcgen05.mma" in kernel.ptx) == is_taken
    told = any("threads that copy leave it" in each.message for each in kernel.remarks)
    assert told != is_taken


@pytest.mark.some(1)
@pytest.mark.parametrize(("dim", "ahead"), [(192, "4"), (256, "3")])
def test_wide_heads_load_keys_ahead(dim, ahead):
    """Rather than the next tile's rows. The result leaves in fewer columns at once than a line has,
    where registers hold no more, which leaves room for a second stage.
    """
    spec = cute.TensorSpec((1, 16, 4096, dim), cute.f16)
    kernel = cute.compile(cute.attention, spec, spec, spec, **ARCH)
    text = kernel.stages["cute-synchronize"]
    rings = re.findall(r'%(s\w*) = cute.alloc_smem : .*?"\(.*,(\d)\):', text)
    assert {name: stages for name, stages in rings if name in ("sQ", "s", "s_1")} == {
        "sQ": "1",
        "s": ahead,
        "s_1": ahead,
    }
    assert all("one stage for what stays" in each.message for each in kernel.remarks)


def test_corrections_know_their_columns():
    """A correction takes some columns at a time: what it computes of coordinates counts from the
    tile's first one.
    """

    @cute.kernel
    def kernel(A, B, C, Y):
        a, b = cute.local_tile(A, (128, 64), (0, None)), cute.local_tile(B, (64, 64), (0, None))
        c = cute.local_tile(C, (64, 64), (None, 0))
        out = cute.zeros((128, 64), cute.f32)
        for j in cute.range(c.tiles):
            mid = cute.zeros((128, 64), cute.f32)
            cute.gemm(a[j], b[j], mid)
            out.assign(cute.where(cute.coord(out, 1) < 40, out * 0.5, out))
            cute.gemm(mid.to(A.dtype), c[j], out)
        cute.copy(out, cute.local_tile(Y, (128, 64), (0, 0)))

    a, b, c = (integers(*shape) for shape in ((128, 128), (64, 128), (128, 64)))
    y = np.zeros((128, 64), np.float32)
    kernel(a, b, c, y, schedule=f"stages = 2, {PLAN}", **ARCH)
    want = np.zeros((128, 64))
    for part in (slice(0, 64), slice(64, 128)):
        want = np.where(np.arange(64) < 40, want * 0.5, want)
        want = want + (a[:, part].astype(np.float64) @ b[:, part]) @ c[part]
    np.testing.assert_array_equal(y, want)


STORES = {
    "no wait": (r"tcgen05\.wait::st\.sync\.aligned;", "CD-D6"),
    "no fence before": (
        r"tcgen05\.fence::before_thread_sync;(?= // ir: \S*tcgen05_fence)",
        "CD-D7",
    ),
    "no fence after": (r"tcgen05\.fence::after_thread_sync;", "CD-D7"),
}


@pytest.mark.parametrize("fault", STORES)
def test_what_threads_store_to_tensor_memory_is_ordered(monkeypatch, fault):
    """P of attention is A of the next multiply there."""
    pattern, code = STORES[fault]
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    original, found = emulator.launch, set()

    def launch(ptx, *arguments):
        assert "tcgen05.st" in ptx
        changed, count = re.subn(pattern, "", ptx)
        assert count
        report = original(changed, *arguments)
        found.update(note.split()[0].strip("[]:") for note in report.notes)
        return report

    monkeypatch.setattr(emulator, "launch", launch)
    q = normal(1, 1, 130, 32)
    try:
        cute.attention(q, q, q, **ARCH)
    except emulator.EmulatorError as error:
        found.add(error.code)
    assert code in found


@pytest.mark.some(1)
@pytest.mark.parametrize(("keys", "is_over"), [(64, False), (128, True)])
def test_an_operand_lies_over_what_it_is_made_of_where_columns_are_few(keys, is_over):
    """With 128 keys a block, S and P V have two stages each, which are all columns."""
    q = normal(1, 1, 200, 128, seed=1)
    schedule = f"tile = (128,{keys}), stages = 2, roles = specialized"
    kernel = cute.compile(cute.attention, q, q, q, schedule=schedule, **ARCH)
    assert "tcgen05.st" in kernel.ptx
    assert ("alloc_tmem over" in kernel.stages["cute-synchronize"]) == is_over
    got = cute.attention(q, q, q, schedule=schedule, **ARCH)
    assert np.abs(got - attended(q, q, q, np.float64)).max() < 2e-3


def test_rows_of_two_products_lie_over_their_own_columns():
    """The second warpgroup's rows of P were written where the first one still read S."""
    q = normal(1, 1, 264, 128, seed=1)
    schedule = "tile = (256,64), stages = 2, roles = specialized"
    kernel = cute.compile(cute.attention, q, q, q, schedule=schedule, **ARCH)
    layouts = re.findall(
        r'alloc_tmem over.*?<f16, tmem.*?"(.*?)"', kernel.stages["cute-synchronize"]
    )
    assert layouts == ["((128,2),64,1):((131072,128),1,256)"]
    got = cute.attention(q, q, q, schedule=schedule, **ARCH)
    assert np.abs(got - attended(q, q, q, np.float64)).max() < 2e-3


@pytest.mark.some(1)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("trips", [1, 2, 3, 5])
def test_keys_around_the_stages_of_the_ring(trips, plan, every_stage):
    """Each stage before synchronization is interpreted, too."""
    q = normal(1, 1, 128, 32, seed=1)
    k, v = (normal(1, 1, 64 * trips, 32, seed=seed) for seed in (2, 3))
    schedule = ", ".join(filter(None, [PLANS[plan], "stages = 2"]))
    got = cute.attention(q, k, v, schedule=schedule, **ARCH)
    assert np.abs(got - attended(q, k, v, np.float64)).max() < 2e-3
    assert "cute-partition" in every_stage


# Two roles, each with half of a tile's rows: (shape, element, what hides keys, schedule).
HALVES: dict[str, Any] = {
    "odd lengths": ((1, 2, 2, 300, 211, 64, 64), np.float16, {}, "tile = (256,64), maxima = lazy"),
    "shared heads": (
        (1, 4, 2, 260, 130, 32, 64), BF16, {"causal": True}, "tile = (256,32), maxima = exact",
    ),
    "a window": (
        (1, 1, 1, 150, 300, 64, 64), np.float16, {"window": (60, 10)},
        "tile = (256,32), maxima = lazy",
    ),
    "wide": ((1, 1, 1, 257, 150, 128, 128), BF16, {}, "tile = (256,64), maxima = exact"),
    # Scores of one stage, and all columns in use.
    "long blocks": ((1, 1, 1, 257, 400, 128, 128), BF16, {}, "tile = (256,128), maxima = exact"),
    "fewer lanes": ((1, 1, 2, 130, 70, 64, 64), np.float16, {}, "tile = (128,64), maxima = exact"),
    "logarithms": (
        (1, 1, 1, 257, 90, 64, 64), np.float16, {"causal": True, "return_lse": True},
        "tile = (256,64), maxima = lazy",
    ),
}  # fmt: skip


def roles_in(text):
    """The names of a program's roles, and what each does."""
    _, *found = re.split(r'pipeline\.role "(\w+)"', text)
    return found[::2], found[1::2]


@pytest.mark.some(1)
@pytest.mark.parametrize("case", HALVES)
def test_two_roles_share_the_rows_of_a_tile(case):
    (b, h, hk, rows, keys, d, dv), dtype, masks, schedule = HALVES[case]
    h = max(h, hk)
    q = normal(b, h, rows, d, dtype=dtype, seed=1)
    k, v = (normal(b, hk, keys, x, dtype=dtype, seed=x) for x in (d, dv))
    schedule += ", roles = split, warps = (4,1)"
    got = cute.attention(q, k, v, **masks, schedule=schedule, **ARCH)
    shown = dict(masks)
    if shown.pop("return_lse", False):
        got, lse = got
        s = q.astype(np.float64) @ k.swapaxes(-1, -2) / np.sqrt(d)
        s = np.where(np.tri(rows, keys, keys - rows, dtype=bool), s, -np.inf)
        with np.errstate(divide="ignore"):
            assert np.allclose(lse, np.log(np.exp(s).sum(-1)), atol=1e-3)
    got = got.astype(np.float64)
    exact = attended(q, k, v, np.float64, **shown)
    same = attended(q, k, v, np.float32, **shown).astype(np.float64)
    assert np.abs(got - exact).max() <= 2 * np.abs(same - exact).max() + 1e-7
    text = cute.compile(cute.attention, q, k, v, **masks, schedule=schedule, **ARCH)
    names, parts = roles_in(text.stages["cute-synchronize"])
    assert names == ["load", "mma", "epilogue", "empty", "correction", "main", "main_1"]
    # Each half computes its own exponentials, and no other role does.
    of_role = dict(zip(names, parts, strict=True))
    assert [name for name in names if "math.exp2" in of_role[name]] == names[-2:]
    assert [name for name in names if "atom.tma_store" in of_role[name]] == ["epilogue"]
    assert re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32 (\d+)", text.ptx) == [
        "32", "96", "192", "192",
    ]  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.parametrize("trips", [1, 2, 3, 5])
def test_trips_of_two_roles_that_share_rows(trips, every_stage):
    q = normal(1, 1, 256, 32, seed=1)
    k, v = (normal(1, 1, 64 * trips, 32, seed=seed) for seed in (2, 3))
    schedule = "tile = (256,64), roles = split, warps = (4,1), maxima = exact, stages = 2"
    got = cute.attention(q, k, v, schedule=schedule, **ARCH)
    assert np.abs(got - attended(q, k, v, np.float64)).max() < 2e-3
    assert "cute-partition" in every_stage


def test_rows_that_depend_on_each_other_are_not_split():
    @cute.kernel
    def centered(A, B, Y):
        m, n = cute.tile_index(Y, (128, 64))
        acc = cute.zeros((128, 64), cute.f32)
        cute.gemm(cute.local_tile(A, (128, 64), (m, 0)), cute.local_tile(B, (64, 64), (0, n)), acc)
        cute.copy(acc - cute.column_sum(acc), cute.local_tile(Y, (128, 64), (m, n)))

    a, y = np.ones((128, 64), np.float16), np.zeros((128, 64), np.float32)
    with pytest.raises(
        cute.CompileError, match="expected rows that 2 instances of a role can share"
    ):
        cute.compile(centered, a, a[:64], y, schedule="roles = split, warps = (4,1)", **ARCH)


@pytest.mark.long
def test_rows_without_keys_and_nothing_hidden_shows():
    """Causal rows in front of all keys; NaN in keys and values that no row sees."""
    q = normal(1, 1, 192, 64, seed=1)
    k, v = (normal(1, 1, 128, 64, seed=seed) for seed in (2, 3))
    k[:, :, -1] = v[:, :, -1] = np.nan
    got, lse = cute.attention(
        q, k, v, causal=True, return_lse=True, schedule=f"{PLAN}, maxima = lazy", **ARCH
    )
    want = attended(q[:, :, :191], k[:, :, :127], v[:, :, :127], np.float64, causal=True)
    assert np.abs(got[:, :, :191] - want).max() < 2e-3
    assert np.all(got[:, :, :64] == 0)
    assert np.all(np.isneginf(lse[:, :, :64]))


def test_what_no_role_can_correct_is_added_in_registers():
    """An accumulator that is changed by its own sums leaves tensor memory."""

    @cute.kernel
    def fading(A, B, Y):
        m, n = cute.tile_index(Y, (128, 64))
        a, b = cute.local_tile(A, (128, 64), (m, None)), cute.local_tile(B, (64, 64), (None, n))
        acc = cute.zeros((128, 64), cute.f32)
        for k in cute.range(a.tiles):
            acc.assign(acc * 0.5 - cute.row_sum(acc) * 0.125)
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc, cute.local_tile(Y, (128, 64), (m, n)))

    rng = np.random.default_rng(4)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((150, 192), (192, 64)))
    y, want = np.zeros((150, 64), np.float32), np.zeros((150, 64))
    fading(a, b, y, schedule=PLAN, **ARCH)
    for k in range(3):
        part = slice(64 * k, 64 * k + 64)
        want = want * 0.5 - want.sum(1, keepdims=True) * 0.125
        want = want + a[:, part].astype(np.float64) @ b[part]
    assert np.array_equal(y, want.astype(np.float32))
    text = cute.compile(fading, a, b, y, schedule=PLAN, **ARCH).stages["cute-partition"]
    assert "tmem_store" not in text


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ["sm_100a", "sm_100f", "sm_103a"])
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("has_masks", [False, True])
@pytest.mark.parametrize("name", ["lazy", "split"])
def test_it_assembles_without_spills(arch, dim, has_masks, name, spills_of):
    q = normal(1, 1, 256, dim)
    split = "roles = split, warps = (4,1), tile = (256,64), maxima = lazy"
    schedule, masks = {
        "lazy": (PLANS["lazy"], {"causal": True}),
        "split": (split, {"causal": True, "window": (100, 0), "return_lse": True}),
    }[name]
    masks = masks if has_masks else {}
    kernel = cute.compile(cute.attention, q, q, q, arch=arch, schedule=schedule, **masks)
    assert spills_of(kernel) == 0


@cute.kernel
def gated(X, G, U, W, Y):
    """Y = (silu(X G) * (X U)) W, columns of the hidden layer in blocks."""
    m, n = cute.tile_index(Y, (128, 64))
    x = cute.local_tile(X, (128, 64), (m, None))
    out = cute.zeros((128, 64), cute.f32)
    for j in cute.range(cute.local_tile(W, (64, 64), (None, n)).tiles):
        gate, up = cute.zeros((128, 64), cute.f32), cute.zeros((128, 64), cute.f32)
        for k in cute.range(x.tiles):
            cute.gemm(x[k], cute.local_tile(G, (64, 64), (k, j)), gate)
            cute.gemm(x[k], cute.local_tile(U, (64, 64), (k, j)), up)
        hidden = (cute.silu(gate) * up).to(X.dtype)
        cute.gemm(hidden, cute.local_tile(W, (64, 64), (j, n)), out)
    cute.copy(out.to(Y.dtype), cute.local_tile(Y, (128, 64), (m, n)))


@cute.kernel
def twice(A, B, C, Y):
    """Y = A B C, and the product in the middle is B of its own square: (A B)^T (A B) C."""
    m, n = cute.tile_index(Y, (64, 64))
    first = cute.zeros((64, 64), cute.f32)
    cute.gemm(cute.local_tile(A, (64, 64), (m, 0)), cute.local_tile(B, (64, 64), (0, 0)), first)
    p = first.to(A.dtype)
    square = cute.zeros((64, 64), cute.f32)
    cute.gemm(p.T, p, square)
    last = cute.zeros((64, 64), cute.f32)
    cute.gemm(square.to(A.dtype), cute.local_tile(C, (64, 64), (0, n)), last)
    cute.copy(last, cute.local_tile(Y, (64, 64), (m, n)))


def test_gated_layer():
    x, g, u = normal(200, 130, seed=1), *(normal(130, 136, seed=s, size=0.1) for s in (2, 3))
    w, y = normal(136, 64, seed=4, size=0.1), np.zeros((200, 64), np.float16)
    gated(x, g, u, w, y, **ARCH)
    gate, up = (x.astype(np.float64) @ each for each in (g, u))
    hidden = (gate / (1 + np.exp(-gate)) * up).astype(np.float16)
    assert np.abs(y - hidden.astype(np.float64) @ w).max() < 5e-3
    assert "mma.sync" not in cute.compile(gated, x, g, u, w, y, **ARCH).ptx


def test_operands_of_registers_on_either_side():
    a, b, c = integers(64, 64, seed=1) // 2, np.eye(64, dtype=np.float16), integers(64, 64, seed=3)
    y = np.zeros((64, 64), np.float32)
    twice(a, b, c, y, **ARCH)
    assert np.array_equal(y, a.astype(np.float64).T @ a @ c)
    assert "mma.sync" not in cute.compile(twice, a, b, c, y, **ARCH).ptx


@cute.kernel
def fading(A, B, Y):
    """An accumulator that is halved, and reduced by its own columns, between multiplies."""
    m, n = cute.tile_index(Y, (128, 64))
    a, b = cute.local_tile(A, (128, 64), (m, None)), cute.local_tile(B, (64, 64), (None, n))
    acc = cute.zeros((128, 64), cute.f32)
    for k in cute.range(a.tiles):
        with cute.when(k % 2 == 1):
            acc.assign(acc * 0.5)
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc, cute.local_tile(Y, (128, 64), (m, n)))


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 6])
def test_an_accumulator_that_changes_between_multiplies(trips):
    a, b = integers(256, 64 * trips, seed=1), integers(64 * trips, 128, seed=2)
    y = np.zeros((256, 128), np.float32)
    fading(a, b, y, **ARCH)
    want = np.zeros((256, 128))
    for k in range(trips):
        part = slice(64 * k, 64 * k + 64)
        want = want * (0.5 if k % 2 else 1.0) + a[:, part].astype(np.float64) @ b[part]
    assert np.array_equal(y, want)


@cute.kernel
def weighted(Q, K, V, G, Y, Z):
    """Two products of a trip; the second one's columns take the last multiply's operand."""
    q, k, v, g = (cute.local_tile(X, (64, 64), (None, 0)) for X in (Q, K, V, G))
    y, z = cute.zeros((64, 64)), cute.zeros((64, 64))
    for j in cute.range(q.tiles):
        s, d = cute.zeros((64, 64)), cute.zeros((64, 64))
        cute.gemm(q[j], k[0].T, s)
        cute.gemm(g[j], v[0].T, d)
        cute.gemm((s * 0.25).to(Q.dtype).T, g[j], y)
        e = (s * d * 0.0625).to(Q.dtype)
        cute.gemm(e.T, q[j], z)
        x = cute.zeros((64, 64))
        cute.gemm(e, k[0], x)
        z += x
    cute.copy(y, cute.local_tile(Y, (64, 64), (0, 0)))
    cute.copy(z, cute.local_tile(Z, (64, 64), (0, 0)))


@pytest.mark.parametrize("trips", [1, 4])
def test_a_product_waits_for_what_lies_over_its_columns(trips):
    q, k, v, g = (integers(n, 64, seed=n + 1) for n in (64 * trips, 64, 64, 64 * trips))
    y, z = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    weighted(q, k, v, g, y, z, arch="sm_100a", backend="emulator")
    s, d = q.astype(float) @ k.T, g.astype(float) @ v.T
    e = (s * d / 16).astype(np.float16).astype(float)
    blocks = e.reshape(trips, 64, 64)
    exact = e.T @ q.astype(float) + (blocks @ k.astype(float)).sum(0)
    assert np.array_equal(y, (s / 4).T @ g.astype(float))
    assert np.abs(z - exact).max() <= 1e-3 * np.abs(exact).max()


@cute.kernel
def parted(A, B, Y):
    """A multiply that is not done where the rows of A are all below 0."""
    m, n = cute.tile_index(Y, (128, 64))
    a, b = cute.local_tile(A, (128, 64), (m, 0)), cute.local_tile(B, (64, 64), (0, n))
    acc = cute.zeros((128, 64), cute.f32)
    with cute.when(cute.any(a.load() >= 0.0)):
        cute.gemm(a, b, acc)
    cute.copy(acc, cute.local_tile(Y, (128, 64), (m, n)))


@cute.kernel
def large(A, B, Y):
    """An accumulator that changes between multiplies, of more than a CTA's registers hold."""
    m, n = cute.tile_index(Y, (256, 256))
    a, b = cute.local_tile(A, (256, 64), (m, None)), cute.local_tile(B, (64, 256), (None, n))
    acc = cute.zeros((256, 256), cute.f32)
    for k in cute.range(a.tiles):
        acc.assign(acc * 0.5)
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc, cute.local_tile(Y, (256, 256), (m, n)))


@cute.kernel
def applied(A, B, C, Y, *, tile=(128, 64)):
    """(A B^T) C of elements of one type."""
    rows, block = tile
    m, n = cute.tile_index(Y, (rows, 64))
    a, b = cute.local_tile(A, (rows, 64), (m, 0)), cute.local_tile(B, (block, 64), (None, 0))
    c = cute.local_tile(C, (block, 64), (None, n))
    acc = cute.zeros((rows, 64), cute.f32)
    for j in cute.range(c.tiles):
        mid = cute.zeros((rows, block), cute.f32)
        cute.gemm(a, b[j].T, mid)
        cute.gemm(mid.to(A.dtype), c[j], acc)
    cute.copy(acc, cute.local_tile(Y, (rows, 64), (m, n)))


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("tile", [(128, 64), (128, 32), (64, 64), (256, 128)])
@pytest.mark.some(2)
def test_register_tiles_of_8_bits_are_multiplied_in_shared_memory(tile, dtype):
    """C is contiguous along the other mode than the depth, as V of attention is."""
    rng = np.random.default_rng(3)
    a, b, c = (rng.integers(-1, 2, (n, 64)).astype(dtype) for n in (300, 256, 256))
    y = np.zeros((300, 64), np.float32)
    applied(a, b, c, y, tile=tile, **ARCH)
    mid = (a.astype(np.float64) @ b.astype(np.float64).T).astype(dtype).astype(np.float64)
    assert np.array_equal(y, mid @ c.astype(np.float64))
    text = cute.compile(applied, a, b, c, y, tile=tile, **ARCH).ptx
    assert "tcgen05.mma" in text
    assert "mma.sync" not in text


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: (parted, integers(256, 64), integers(64, 64), np.zeros((256, 64), np.float32)),
         "expected no branch around it that values of tiles decide"),
        (lambda: (large, integers(256, 64), integers(64, 256), np.zeros((256, 256), np.float32)),
         "a thread adds to at most 128 elements of accumulators"),
        (lambda: (applied, *(normal(128, 64, dtype=np.float32) for _ in "abcd")),
         "elements of 8 or 16 bits here, got 32"),
    ],
)  # fmt: skip
def test_what_is_out_of_reach_takes_another_way_and_says_so(make, why):
    function, *args = make()
    kernel = cute.compile(function, *args, **ARCH)
    assert "tcgen05" not in kernel.ptx
    assert any(why in each.message for each in kernel.remarks), kernel.remarks


def test_a_product_that_nothing_reads():
    @cute.kernel
    def unread(A, B, Y):
        m, n = cute.tile_index(Y, (128, 64))
        a, b = cute.local_tile(A, (128, 64), (m, 0)), cute.local_tile(B, (64, 64), (0, n))
        acc, other = cute.zeros((128, 64), cute.f32), cute.zeros((128, 64), cute.f32)
        cute.gemm(a, b, acc)
        cute.gemm(a, b, other)
        cute.copy(acc, cute.local_tile(Y, (128, 64), (m, n)))

    a, b, y = integers(128, 64, seed=1), integers(64, 64, seed=2), np.zeros((128, 64), np.float32)
    unread(a, b, y, **ARCH)
    assert np.array_equal(y, a.astype(np.float64) @ b)


def test_more_columns_than_tensor_memory_has():
    @cute.kernel
    def wide(A, B, Y):
        m, _ = cute.tile_index(Y, (128, None))
        a = cute.local_tile(A, (128, 64), (m, 0))
        for n in range(5):
            acc = cute.zeros((128, 128), cute.f32)
            cute.gemm(a, cute.local_tile(B, (64, 128), (0, n)), acc)
            cute.copy(acc, cute.local_tile(Y, (128, 128), (m, n)))

    a, b, y = integers(256, 64, seed=1), integers(64, 640, seed=2), np.zeros((256, 640), np.float32)
    wide(a, b, y, **ARCH)
    assert np.array_equal(y, a.astype(np.float64) @ b)
    remarks = cute.compile(wide, a, b, y, **ARCH).remarks
    assert any("512 columns of tensor memory" in each.message for each in remarks)


@pytest.mark.some(1)
@pytest.mark.parametrize("overlap", ["yes", "no"])
def test_the_next_product_is_issued_before_what_is_computed_from_this_one(overlap):
    q = normal(1, 1, 128, 64)
    kernel = cute.compile(cute.attention, q, q, q, schedule=f"overlap = {overlap}", **ARCH)
    marked = re.findall(r"cute\.gemm.*stage = (\d) : i32", kernel.stages["cute-schedule-loops"])
    assert marked == (["0", "1"] if overlap == "yes" else [])
    role = (
        kernel.stages["cute-synchronize"].split('pipeline.role "mma"')[1].split("pipeline.role")[0]
    )
    # One in front of the loop, two in it, one behind it.
    assert role.count("cute.gemm") == (4 if overlap == "yes" else 2)


def test_nothing_is_left_to_note(monkeypatch):
    original, notes = emulator.launch, []

    def launch(*arguments):
        report = original(*arguments)
        notes.extend(report.notes)
        return report

    monkeypatch.setattr(emulator, "launch", launch)
    cute.attention(*(normal(1, 2, 200, 64, seed=s) for s in range(3)), causal=True, **ARCH)
    assert notes == []
