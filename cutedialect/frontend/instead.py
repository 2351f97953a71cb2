"""What to write in the place of names that other libraries have: of methods of tiles, views and
tensors, of functions of the module, and of arguments of those that take arrays. Data alone, so that
a misspelled name imports nothing.
"""

from __future__ import annotations

_LARGEST = "cute.max(tile, mode)"
_LEAST = "cute.min(tile, mode)"
_SUMS = "cute.sum(tile, mode)"
_WITHIN = "cute.clamp(x, low, high)"
_PARTS = "a cute.copy to each part of the result, cute.local_tile(Y.slice(mode, first, end), ...)"
_SCANNED = (
    "sums = cute.where(cute.coord(sums, 1) == k, cute.reduce(cute.where(cute.coord(x, 1) <= k, x, "
    "{neutral}), 1, {kind}), sums) for each k of Python's range(columns), from sums = "
    "cute.zeros(x.shape, x.dtype) on"
)
_TAKEN = "cute.local_tile(X, (rows, columns), (numbers, k)), whose rows a tile of numbers chooses"


class UnknownNameError(AttributeError):
    """A name of another library, in an AttributeError so that `hasattr` goes on working; of a
    kernel it becomes an error at the line.
    """


METHODS = {
    "sum": _SUMS,
    "max": _LARGEST,
    "min": _LEAST,
    "mean": "cute.mean(tile, mode)",
    "astype": ".to(dtype)",
    "cast": ".to(dtype)",
    "float": ".to(cute.f32)",
    "half": ".to(cute.f16)",
    "reshape": "another tile extent in cute.local_tile",
    "view": "another tile extent in cute.local_tile",
    "transpose": ".T",
    "store": "cute.copy(tile, view)",
    "copy_": "cute.copy(tile, view)",
    "write": "cute.copy(tile, view)",
    "item": "an element of a tensor of i32 or f32, X[i, j]",
    "ndim": "len(x.shape)",
    "size": ".shape",
    "gather": _TAKEN,
    "any": "cute.any(condition, mode)",
    "all": "cute.all(condition, mode)",
    "clip": _WITHIN,
    "clamp": _WITHIN,
    "view_as": ".bitcast(dtype)",
}
FUNCTIONS = {
    "amax": _LARGEST,
    "amin": _LEAST,
    "std": "cute.sqrt(cute.var(tile, mode))",
    "cumsum": (
        "cute.gemm(x, (cute.coord(ones, 0) <= cute.coord(ones, 1)).to(x.dtype), acc) with ones = "
        "cute.zeros((n, n)) for n columns at a time, and a carry of cute.row_sum(x), of 16-bit "
        "floats (acc of f32) and 8-bit integers (acc of i32); of f32, which a multiply rounds, "
        "three times: p = x.to(cute.bf16), x = x - p.to(cute.f32), with p in the place of x; of "
        "other types " + _SCANNED.format(neutral=0, kind='"add"')
    ),
    "cumprod": _SCANNED.format(neutral=1, kind='"mul"'),
    "associative_scan": _SCANNED.format(neutral="neutral", kind="combine")
    + ", of a combine that is commutative",
    "topk": "cute.top_k(tile, k), of floats",
    "sort": "cute.top_k(tile, k), of floats: the k largest of each row in falling order",
    "argsort": (
        "cute.top_k(tile, k), of floats, whose second result are the places of the k largest in "
        "falling order"
    ),
    "rint": "cute.round(x)",
    "flip": (
        "cute.copy(x.columns(n, 1), cute.local_tile(Y, (rows, 1), (m, columns - 1 - n))) for each "
        "n of Python's range(columns)"
    ),
    "gather": _TAKEN,
    "take": _TAKEN,
    "index_select": _TAKEN,
    "atomic_cas": "one work item for each result, or a second kernel on a cute.workspace",
    "atomic_xchg": "one work item for each result, or a second kernel on a cute.workspace",
    "clip": _WITHIN,
    "cat": _PARTS,
    "concat": _PARTS,
    "concatenate": _PARTS,
    "stack": _PARTS,
    "split": "cute.local_tile(X.slice(mode, first, end), ...) for each part",
    "chunk": "cute.local_tile(X.slice(mode, first, end), ...) for each part",
    "arange": "cute.coord(tile, mode)",
    "ones": "cute.full(shape, 1.0)",
    "empty": "cute.zeros(shape)",
    "dot": "cute.gemm(a, b, acc)",
    "matmul": "cute.gemm(a, b, acc)",
    "mma": "cute.gemm(a, b, acc)",
    "transpose": "tile.T",
    "reshape": METHODS["reshape"],
    "store": METHODS["store"],
    "program_id": "cute.tile_index(Y, tile)",
    "cdiv": "-(-a // b), of signed integers",
    "square": "x * x",
}

_MASKS = "causal=, window=(left, right), lengths= or cu_seqlens=, since masks are no arrays here"
_NO_DROPOUT = "no dropout, which attention here does not have"
_GROUPED = "nothing: heads of q share those of k and v where there are fewer"
_PACKED = "cu_seqlens=(q_offsets, k_offsets)"
_VIEW = "the transposed view (.T, .mT), which costs nothing"
ARGUMENTS = {
    "attention": {
        "is_causal": "causal=",
        "attn_mask": _MASKS,
        "attn_bias": _MASKS,
        "mask": _MASKS,
        "bias": _MASKS,
        "dropout_p": _NO_DROPOUT,
        "dropout": _NO_DROPOUT,
        "enable_gqa": _GROUPED,
        "sm_scale": "scale=",
        "softmax_scale": "scale=",
        "window_size": "window=(left, right)",
        "logits_soft_cap": "softcap=",
        "cu_seqlens_q": _PACKED,
        "cu_seqlens_k": _PACKED,
        "seqlens_k": "lengths=",
        "cache_seqlens": "lengths=",
        "page_table": "block_table=",
        "return_attn_probs": "return_lse=True",
        "dtype": "out_dtype=",
    },
    "gemm": {
        "dtype": "out_dtype=",
        "preferred_element_type": "out_dtype=",
        "transpose_a": _VIEW,
        "transpose_b": _VIEW,
        "trans_a": _VIEW,
        "trans_b": _VIEW,
        "transa": _VIEW,
        "transb": _VIEW,
        "epilogue": "activation=",
        "act": "activation=",
        "residual": "c=..., with beta=1.0",
        "input_precision": "precision=",
        "use_fast_accum": "fast_accum=",
        "scale_result": "alpha=",
    },
}
