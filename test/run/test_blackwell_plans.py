"""Which plan attention takes on targets with tensor memory, and that none of them spills."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

import cutedialect as cute
from cutedialect.dialects import all_dialects
from cutedialect.plans import plan_of

BF16 = ml_dtypes.bfloat16
EMULATED: Any = {"arch": "sm_100a", "backend": "emulator"}
LENGTHS = np.full(2, 900, np.int32)
OFFSETS = np.array([0, 100, 2048], np.int32)
SHORT = tuple(np.array([0, count], np.int32) for count in (54, 2048))
# (head dimensions, rows, what else is given, the plan that is chosen)
FORMS: dict[str, Any] = {
    "wide heads": ((128, 128), 2048, {}, "split"),
    "causal": ((128, 128), 2048, {"causal": True}, "split"),
    "a window": ((64, 64), 2048, {"causal": True, "window": (300, 0)}, "split"),
    "logarithms": ((64, 64), 2048, {"window": (30, 60), "return_lse": True}, "split"),
    "capped": ((96, 96), 2048, {"causal": True, "softcap": 9.0}, "split"),
    "latent": ((192, 128), 2048, {"causal": True}, "split"),
    "narrow": ((32, 32), 2048, {}, "split"),
    "padded": ((128, 128), 2048, {"lengths": LENGTHS, "causal": True}, "split"),
    "packed": ((64, 64), 2048, {"cu_seqlens": (OFFSETS, OFFSETS), "causal": True}, "split"),
    "widest": ((256, 256), 2048, {"causal": True}, "corrected"),
    "one wave": ((128, 128), 512, {}, "corrected"),
    "decode": ((128, 128), 1, {}, "uniform"),
    "few rows of wide heads": ((256, 256), 13, {"causal": True}, "corrected"),
    # Results leave in an odd number of steps, and shared memory is full.
    "short sequences": ((192, 192), 54, {"cu_seqlens": SHORT, "causal": True}, "specialized"),
}


def compiled(form, dtype):
    (d, dv), rows, options, _ = FORMS[form]
    batch = 1 if "cu_seqlens" in options else 2
    q = np.zeros((batch, 16, rows, d), dtype)
    k, v = (np.zeros((batch, 4, 2048, each), dtype) for each in (d, dv))
    return cute.compile(cute.attention, q, k, v, arch="sm_100a", backend="emulator", **options)


@pytest.mark.some(1)
@pytest.mark.parametrize("form", FORMS)
def test_the_plan_that_fits_is_chosen(form):
    text = compiled(form, BF16).stages["cute-tile"]
    # Causal rows of many keys have the plan with other registers.
    (plan, *_) = re.findall(r"roles = (\w+|\(.*?\))", text)
    kinds = [(row.name, row.takes, row.parts) for row in plan_of(plan).rows]
    assert kinds == [(row.name, row.takes, row.parts) for row in plan_of(FORMS[form][3]).rows]


@pytest.mark.parametrize(("form", "keys"), [("wide heads", 128), ("causal", 128), ("a window", 64)])
def test_blocks_are_long_where_one_mask_at_most_takes_registers(form, keys):
    """Two stages of K and V beside the rows are all of shared memory."""
    schedule = cute.Schedule.parse(compiled(form, BF16).schedule)
    assert schedule.tile == (256, keys)
    assert schedule.stages is not None
    assert schedule.stages >= 2


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("form", FORMS)
def test_no_plan_spills(form, dtype, spills_of):
    kernel = compiled(form, dtype)
    assert spills_of(kernel) == 0


SPLIT = "tile = (256,64), roles = split, warps = (4,1), maxima = exact"


def normal(*shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def attended(q, k, v, causal):
    """Attention of one sequence, (heads, rows, head dimension), in float64."""
    s = q.astype(np.float64) @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    rows, keys = s.shape[-2:]
    if causal:
        s = np.where(np.tri(rows, keys, keys - rows, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)


@pytest.mark.some(1)
@pytest.mark.parametrize("causal", [False, True])
def test_sequences_of_one_tensor_by_two_halves(causal):
    """Tiles that reach beyond a sequence store nothing of the next one."""
    ends = np.array([0, 130, 137, 500], np.int32)
    q, k, v = (normal(1, 2, 500, 64, seed=seed) for seed in range(3))
    got = cute.attention(
        q, k, v, cu_seqlens=(ends, ends), causal=causal, schedule=SPLIT, **EMULATED
    )
    for first, last in pairwise(ends):
        part = slice(first, last)
        want = attended(q[0, :, part], k[0, :, part], v[0, :, part], causal)
        assert np.abs(got[0, :, part] - want).max() < 2e-3


@pytest.mark.long
def test_padded_and_paged_keys_by_two_halves():
    lengths = np.array([70, 192], np.int32)
    q, k, v = (normal(2, 1, 257, 64, seed=seed) for seed in range(3))
    got = cute.attention(
        q, k[:, :, :192], v[:, :, :192], lengths=lengths, schedule=SPLIT, **EMULATED
    )
    table = np.array([[2, 0, 1], [5, 3, 4]], np.int32)
    pages = [np.zeros((6, 1, 64, 64), np.float16) for _ in range(2)]
    for whole, paged in zip((k, v), pages, strict=True):
        for b in range(2):
            for page in range(3):
                paged[table[b, page], 0] = whole[b, 0, 64 * page : 64 * page + 64]
    same = cute.attention(q, *pages, lengths=lengths, block_table=table, schedule=SPLIT, **EMULATED)
    for b, length in enumerate(lengths):
        want = attended(q[b], k[b, :, :length], v[b, :, :length], False)
        assert np.abs(got[b] - want).max() < 2e-3
        assert np.abs(same[b] - want).max() < 2e-3


TURN_VERBS = ("producer_acquire", "producer_commit", "consumer_wait", "consumer_release")


def parsed(text):
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    return Parser(context, text).parse_module()


def test_exponentials_in_turns():
    """A ring of one stage without a buffer lets one half compute its exponentials at a time."""
    q, k, v = normal(1, 1, 256, 32, seed=1), *(normal(1, 1, 192, 32, seed=s) for s in (2, 3))
    schedule = f"{SPLIT}, overlap = turns"
    got = cute.attention(q, k, v, schedule=schedule, **EMULATED)
    assert np.abs(got[0] - attended(q[0], k[0], v[0], False)).max() < 2e-3
    texts = [
        cute.compile(cute.attention, q, k, v, schedule=each, **EMULATED).stages["cute-synchronize"]
        for each in (schedule, SPLIT)
    ]
    turns, free = (
        [part.split("pipeline.role")[0] for part in text.split('pipeline.role "main')[1:]]
        for text in texts
    )
    for before, behind, with_turn, without in zip(
        ("producer_acquire", "consumer_wait"),
        ("producer_commit", "consumer_release"),
        turns,
        free,
        strict=True,
    ):
        assert with_turn.count(before) == without.count(before) + 1
        assert with_turn.count(behind) == without.count(behind) + 1
    lines = texts[0].splitlines()
    (ring,) = {
        line.split()[0]
        for line in lines
        if "pipeline.create" in line
        and all(f"{verb} {line.split()[0]} " in "".join(turns) for verb in TURN_VERBS)
    }
    for verb in TURN_VERBS:
        (at,) = (number for number, line in enumerate(lines) if f"{verb} {ring} " in line)
        with pytest.raises(VerifyException):
            parsed("\n".join(lines[:at] + lines[at + 1 :])).verify()


def test_what_is_given_is_kept():
    """A tile, warps or another plan are a choice of the caller's."""
    q = np.zeros((2, 16, 2048, 64), np.float16)
    for given in ("tile = (128,64)", "roles = specialized"):
        kernel = cute.compile(
            cute.attention, q, q, q, arch="sm_100a", backend="emulator", schedule=given
        )
        assert "roles = specialized" in kernel.stages["cute-tile"]
