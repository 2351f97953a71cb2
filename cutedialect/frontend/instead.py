"""What to write in the place of names that other libraries have: of methods of tiles, views and
tensors, of functions of the module, and of arguments of those that take arrays. Data alone, so that
a misspelled name imports nothing.
"""

from __future__ import annotations

_LARGEST = "cute.max(tile, mode)"
_LEAST = "cute.min(tile, mode)"
_SUMS = "cute.sum(tile, mode)"
_WITHIN = "cute.clamp(x, low, high)"
_TAKEN = (
    "cute.take_along(tile, numbers, mode), or cute.local_tile(X, (rows, columns), (numbers, k)), "
    "whose rows a tile of numbers chooses"
)
_JOINED = "cute.concatenate(tiles, mode)"


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
    "reshape": "cute.reshape(tile, shape), or another tile extent in cute.local_tile",
    "view": "cute.reshape(tile, shape), or another tile extent in cute.local_tile",
    "cumsum": "cute.cumsum(tile, mode)",
    "sort": "cute.sort(tile, mode)",
    "argsort": "cute.argsort(tile, mode)",
    "flip": "cute.flip(tile, mode)",
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
    "associative_scan": "cute.scan(tile, mode, combine)",
    "topk": "cute.top_k(tile, k)",
    "bincount": "cute.histogram(tile, bins)",
    "scatter": "cute.put_along(tile, numbers, values, mode)",
    "rint": "cute.round(x)",
    "gather": _TAKEN,
    "take": _TAKEN,
    "index_select": _TAKEN,
    "atomic_cas": "cute.atomic_compare_and_swap(expected, tile, view)",
    "atomic_xchg": "cute.atomic_exchange(tile, view)",
    "clip": _WITHIN,
    "cat": _JOINED,
    "concat": _JOINED,
    "chunk": "cute.split(tile, parts, mode)",
    "arange": "cute.coord(tile, mode)",
    "ones": "cute.full(shape, 1.0)",
    "empty": "cute.zeros(shape)",
    "dot": "cute.gemm(a, b, acc)",
    "matmul": "cute.gemm(a, b, acc)",
    "mma": "cute.gemm(a, b, acc)",
    "transpose": "tile.T",
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
_ROUTED = "cute.routed_gemm(a, b, offsets, ...), whose offsets are numbers on the device"
ARGUMENTS = {
    "grouped_gemm": dict.fromkeys(
        ("offsets", "rows", "scatter", "weights", "lengths", "gated"), _ROUTED
    ),
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
