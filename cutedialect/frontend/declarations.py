"""The functions of arrays, declared: `cute.gemm`, `cute.grouped_gemm` and `cute.attention`."""

from __future__ import annotations

from .signature import (
    ARCH,
    BACKEND,
    DTYPE,
    FLAG,
    OFFSETS,
    OPTIONAL,
    OUTPUT,
    REQUIRED,
    RESULT,
    SCALE,
    SCHEDULE,
    SOME_NUMBER,
    STREAM,
    TENSOR,
    WINDOW,
    Call,
    Parameter,
)

_RESULT = (
    Parameter("out", OUTPUT, "the array that gets the result; it overlaps no other array"),
    Parameter("out_dtype", DTYPE, "the element type of the result"),
)
_COMPILATION = (
    Parameter("arch", ARCH, 'the target, such as "sm_90a"; that of the device by default'),
    Parameter("schedule", SCHEDULE, "how it is computed, a `Schedule` or its text"),
    Parameter("backend", BACKEND, "what runs it", default="auto"),
)
_LAUNCH = (*_COMPILATION, Parameter("stream", STREAM, "the stream of the launch"))

ATTENTION = Call(
    "attention",
    """softmax(scale Q K^T) V for each head: q (B, H, Sq, D), k (B, Hk, Sk, D), v (B, Hk, Sk, Dv).

    Elements are f16, bf16, e4m3 or e5m2, those of k and v of q's type or of 8 bits beside 16 of q.
    The last dimension is contiguous, head dimensions are up to 256 (of 16 bits D up to 576 and Dv
    up to 512), and H is a multiple of Hk: neighboring heads of q share a head of k and v. A `v`
    that is a view of the first columns of k, or their number, is loaded once, as part of k. `scale`
    is 1/sqrt(D) by default, `softcap` c makes the scores c tanh(score / c). `scale_q`, `scale_k`
    and `scale_v` multiply the elements of q, k and v: positive numbers, or arrays of f32, one for
    each head (H,), (Hk,), or for each head of each batch entry (B, H), (B, Hk).

    Row i of q is aligned with key j = i + Sk - Sq. `causal` hides the keys behind j, `window=(left,
    right)` those more than `left` before or `right` behind it; -1 is unbounded. `lengths` (B,), of
    i32 or i64, says how many keys of each batch entry there are; the rest of k and v is padding,
    and Sk above is that number. `cu_seqlens=(q_offsets, k_offsets)` packs sequences: arrays are
    (1, H, total, D), and sequence s has the rows q_offsets[s] to q_offsets[s + 1] - 1 of q and
    those of k_offsets of k and v. Rows outside of all sequences are not written.
    `block_table` (B, pages) of i32 or i64 says where the keys are: k and v are (pages, Hk, page
    size, D), and key j of batch entry b is row j mod the page size, a power of two from 8 on, of
    page block_table[b, j // page size]. Without `lengths` all of its pages are full. Pages behind
    the length are not looked at.

    A row that sees no key gives 0. Padding, other sequences, and what a mask hides from a row may
    hold NaN or Inf; a tile in which some row sees such a value of v takes a slow way. Returns
    `out`, or a new array of `out_dtype` where q lives (q's type by default, bf16 where that has 8
    bits); with `return_lse` also
    the logarithms (natural, f32, (B, H, Sq)) of the sums of exponentials, -inf for a row that sees
    no key. Wrong arguments, such as an `out` that shares memory with another array, raise TypeError
    or ValueError naming the argument, and nothing is written.
    """,
    (
        Parameter("q", TENSOR, "queries (B, H, Sq, D)", default=REQUIRED),
        Parameter("k", TENSOR, "keys (B, Hk, Sk, D), or pages of them", default=REQUIRED),
        Parameter("v", TENSOR, "values (B, Hk, Sk, Dv), or a number of columns", default=REQUIRED),
        Parameter("causal", FLAG, "whether a row sees no key behind its own", default=False),
        Parameter("scale", SOME_NUMBER, "the factor of the scores, 1/sqrt(D) by default"),
        Parameter(
            "window", WINDOW, "how many keys (before, behind) its own a row sees, -1 for all"
        ),
        Parameter("softcap", SOME_NUMBER, "c of scores c tanh(score / c)"),
        Parameter("lengths", OPTIONAL, "how many keys a batch entry has (B,)"),
        Parameter(
            "cu_seqlens",
            OFFSETS,
            "where packed sequences begin, (q_offsets, k_offsets)",
            key="cu_seqlens is not None",
        ),
        Parameter("block_table", OPTIONAL, "where the pages of keys are (B, pages)"),
        Parameter("scale_q", SCALE, "what multiplies q, for all or each head", key="*factors"),
        Parameter("scale_k", SCALE, "what multiplies k"),
        Parameter("scale_v", SCALE, "what multiplies v"),
        Parameter("return_lse", RESULT, "whether sums are returned, too", default=False),
        *_RESULT,
        *_LAUNCH,
    ),
    prepared="q, k, v, out, None, lengths, block_table, *arrays, *offsets",
    before="""
offsets = cu_seqlens if isinstance(cu_seqlens, tuple | list) and len(cu_seqlens) == 2 else ()
arrays, factors = split_scales((scale_q, scale_k, scale_v))
""",
    results=("return_lse", {"False": "{tensor}", "True": "tuple[{tensor}, {tensor}]"}),
)

CALLS = (ATTENTION,)
