"""The functions of arrays, declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from . import (
    attention_operands,
    conv2d_operands,
    gemm_operands,
    quantize_operands,
    routed_operands,
)
from . import signature as kinds
from .dtypes import f32
from .signature import BATCH, REQUIRED, Call, Output, Parameter, Part

_OF_THE_CALL = "that of the call of the kernel"
_LAUNCH = (
    Parameter("arch", kinds.ARCH, None,
              'the target, such as "sm_90a"; that of the device by default',
              _OF_THE_CALL),
    Parameter("schedule", kinds.SCHEDULE, None, "how it is computed, a `Schedule` or its text",
              "that of the call of the kernel, and tiled= for one multiply"),
    Parameter("backend", kinds.BACKEND, "auto", "what runs it", _OF_THE_CALL),
    Parameter("stream", kinds.STREAM, None, "the stream of the launch", _OF_THE_CALL),
)  # fmt: skip
_OUT = "the array that gets the result; it overlaps no other array"
_OUT_DTYPE = "the element type of the result"

_OF_GEMM = (
    Parameter("a", kinds.TENSOR, REQUIRED, "the left operand (..., M, K)", modes="... M K",
              rank="2 or more dimensions"),
    Parameter("b", kinds.TENSOR, REQUIRED, "the right operand (..., K, N)", modes="... K N",
              rank="2 or more dimensions"),
    Parameter("acc", kinds.TILE, None, "inside a kernel the tile that is added to",
              is_positional=True),
    Parameter("c", kinds.OPTIONAL, None, "what is added, times beta (..., M, N)",
              "acc to begin with what is added: acc.assign(c), or acc += c behind the multiply",
              modes="... M N"),
    Parameter("alpha", kinds.NUMBER, 1.0, "the factor of the product",
              "acc * alpha behind the multiply",
              key="factor != 1"),
    Parameter("beta", kinds.NUMBER, 0.0, "the factor of c", "acc *= beta in front of the multiply",
              key="beta != 0"),
    Parameter("bias", kinds.OPTIONAL, None, "what is added to each row (N,)",
              "acc + cute.row_vector(bias, n, bn) behind the multiply", modes="N"),
    Parameter("activation", kinds.ACTIVATION, None,
              "what the result goes through, a name or a function of the tile",
              "a function of the tile behind the multiply, such as cute.relu(acc)"),
    Parameter("scale_a", kinds.SCALE, None,
              "what multiplies a: one number, or one for each row or block",
              "acc * scale behind the multiply, a column of scales for the rows of a",
              key="is_scaled"),
    Parameter("scale_b", kinds.SCALE, None,
              "what multiplies b: one number, or one for each column or block",
              "acc * scale behind the multiply, a row of scales for the columns of b"),
    Parameter("zero_b", kinds.SCALE, None,
              "of weights b the number that stands for 0, one, or one for each column or group of "
              "rows",
              "w.load().to(dtype) - zero in front of the multiply", key="zero", is_late=True),
    Parameter("packed_b", kinds.PACKING, None,
              "how integers hold the elements of b: type, axis and order, as in 'u4 -2 2:1'",
              "cute.packed(W, dtype, axis, order), of which tiles are loaded", is_late=True),
    Parameter("packed_a", kinds.PACKING, None,
              "how bytes hold elements of 6 bits of a, as in 'e2m3 -1 4:1'; those of b are packed, "
              "too", "cute.scaled_gemm on tiles of bytes", is_late=True),
    Parameter("acc_dtype", kinds.DTYPE, None, "the type of sums",
              "the type of acc: cute.zeros(shape, dtype)"),
    Parameter("fast_accum", kinds.FLAG, True,
              "whether tensor cores may sum fp8 products over all of K",
              "an accumulator of its own for some trips of K, added to another one: total += acc"),
    Parameter("precision", kinds.PRECISION, None, "of f32 operands how exact products are",
              "None or 'tf32', as which tiles of f32 are multiplied (products of split operands "
              "are of arrays alone)", key="splits", is_late=True),
    Parameter("aux", kinds.OUTPUT, None, "the array that gets what stands before the activation",
              "cute.copy(acc, view) in front of the activation", modes="... M N"),
    Parameter("out", kinds.OUTPUT, None, _OUT, "cute.copy(acc, view) behind the multiply",
              modes="... M N"),
    Parameter("out_dtype", kinds.DTYPE, None, _OUT_DTYPE,
              "acc.to(dtype) behind the multiply"),
    *_LAUNCH,
    Parameter("tiled", kinds.TILED, None,
              "inside a kernel the TiledMMA: the atom, its warps over M, N and K, and the tile"),
    Parameter("atom", kinds.ATOM, None, "inside a kernel the MMA atom alone"),
    Parameter("negate", kinds.NEGATED, None,
              "inside a kernel the operands that count with the other sign"),
    Parameter("sums", kinds.SUMS, False, "inside a kernel whether rows of a are added up, too"),
)  # fmt: skip
_NUMBERS = """
if type(alpha) is not float or type(beta) is not float:
    alpha, beta = as_number("alpha", alpha), as_number("beta", beta)
is_scaled = scale_a is not None or scale_b is not None
factor, array_a, array_b, zero, array_z = alpha, None, None, None, None
if is_scaled:
    factor, array_a, array_b = fold_numbers(alpha, scale_a, scale_b)
if zero_b is not None:
    zero = number_of(zero_b)
    if zero is None:
        array_z = zero_b
"""


def _has_whole_scales(given: Mapping[str, Any]) -> bool:
    """Whether no scale lies along rows, columns or blocks, and no mode is packed."""
    scales = (given.get(name) for name in ("scale_a", "scale_b", "zero_b"))
    if given.get("packed_b") or given.get("packed_a"):
        return False
    return all(prod(getattr(scale, "shape", ())) == 1 for scale in scales if scale is not None)


def _is_sum(given: Mapping[str, Any]) -> bool:
    """Whether a product is the sum of products of parts of K."""
    adds = given.get("bias") is not None or (given.get("c") is not None and given.get("beta"))
    return _has_whole_scales(given) and not adds and given.get("activation") is None


GEMM = Call(
    "gemm",
    """activation(alpha A B + beta C + bias) of a (..., M, K) and b (..., K, N), as numpy.matmul.

    Inside a kernel, `gemm(a, b, acc)` accumulates tiles instead, and refuses the arguments of
    arrays; there `tiled` names the TiledMMA, or `atom` its MMA atom alone
    (`cute.atoms.mma()` lists them), and `negate` the operands ("a", "b", "ab") that count with the
    other sign; with `sums` acc has 8 columns more than b, which add up the rows of a. Batch
    dimensions broadcast. bias is (N,). Types: f16, bf16, f32 (as tf32), f64, e4m3 and e5m2, and
    8-bit integers (into int32); beside f16 or bf16 of a, b may have 8-bit integers, weights that
    become such on their way to the tensor cores. Default `out_dtype` is a's type, bf16 for fp8 and
    for scaled integers, int32 for 8-bit integers; e4m3 and e5m2 outputs saturate and keep NaN.
    Integer results take no alpha, beta or gelu: only with an `out_dtype` of floats are sums of
    integers multiplied, in f32. K = 0 gives beta C + bias; an empty output launches nothing.

    `scale_a` multiplies a and `scale_b` multiplies b before the product: a host number, or an f32
    array where the operands live. Of one element it scales the whole operand. (M,) or (M, 1) scale
    the rows of a, (N,) or (1, N) the columns of b. (M, ceil(K / 128)) for a and (ceil(K / 128),
    ceil(N / 128)) for b scale blocks of 128: with b the transposed view of weights (N, K), that is
    the transposed view of DeepGEMM's (N / 128, K / 128). In all of them strides are free, 128 rows
    of a or single columns of b may have blocks too, and batch dimensions broadcast.

    On sm_100a, sm_120a and their families scales of ue8m0 make a product of mxfp8: each 32 elements
    along K of a row of a and of a column of b, of e4m3 or e5m2, count times a power of two, which
    the tensor cores multiply with (`tcgen05.mma` and `mma.sync` with block scaling).
    `cute.quantize(x, "mxfp8", swizzled=True)` gives elements and scales of a, and of the rows of
    b.T; what fills the panels up has to be numbers, as it is there. Both operands have them;
    batches of an operand stand in front of its panels. "mxfp4" and "nvfp4" (scales of e4m3 for 16
    elements each; global scales are factors of alpha) have a and b.T of u8, pairs of e2m1 along K.
    sm_120a multiplies e2m3 and e3m2 of a byte, too, with such scales ("mxfp6_e2m3") and without;
    sm_100a and its family of both operands four in three bytes, as `cute.pack` puts them.

    Weights b beside f16 or bf16 may have 8 bits, or 4: `cute.packed(w, "u4", axis, order)` of an
    array of integers, or those integers with `packed_b` "u4 axis order". What is multiplied is (b -
    zero_b) scale_b. `zero_b` is a number, or an array of integers or floats of one element, (N,) or
    (1, N), or (ceil(K / g), N) of groups of g = 32, 64 or 128 rows; `scale_b` may have such groups
    too, and be of a's type. Sums of a group are multiplied by its scales in f32, behind the tensor
    cores; differences from a zero of integers are exact, from one of floats rounded to a's type. An
    odd K ends within an integer, whose rest is not looked at. The tile's depth divides a group, and
    blocks of an order, of up to 64 elements, divide the tile.

    With fast_accum the tensor cores may sum fp8 products over all of K, on Hopper to some 13 bits;
    small tiles with K > 1024 add up every 128 or 256 of K in f32 registers all the same, since that
    costs no time there. With fast_accum=False every 128 of K always are, and with block scales.

    precision: of f32 operands "tf32", the default: they are rounded to 10 bits of mantissa and the
    products summed in f32, so that an element is off by up to 2^-10 of the sum of the magnitudes of
    its products. With "3xtf32" two more kernels split them into two numbers of tf32 each, in memory
    of the call, and three products are summed: off by up to some 2^-20 of that sum. "ieee" is
    refused; other types have None.

    `activation` is "relu", "gelu", "silu", "tanh", "sigmoid" or a function of the tile
    alpha A B + beta C + bias, written with the operators of tile programs. `aux` is an array
    (..., M, N) of any element type that gets that tile as it is before the activation.

    `out` and `aux` have memory of their own, which no other array of the call overlaps; one of them
    may be c itself. Wrong arguments raise TypeError or ValueError naming the argument, and nothing
    is written. Returns the output: `out`, or a new array where `a` lives.
    """,
    _OF_GEMM,
    prepared="a, b, c, bias, out, array_a, array_b, array_z, aux",
    inside="""
if acc is not None:
    return of_tiles({given})
if tiled is not None or atom is not None or negate is not None or sums:
    refuse_of_tiles(tiled, atom, negate)
""",
    unwraps="""
if type(b) is Packed: b, packed_b = b.array, b.text
if type(a) is Packed: a, packed_a = a.array, a.text
""",
    tunable="gemm_tuning:TunableGemm",
    before="splits = precision is not None and check_precision(precision, a)" + _NUMBERS,
    numbers="(factor, beta)",
    repeated="ready.numbers(factor, beta) if factor != 1 or beta != 0 else None",
    outputs=(Output("out", "... M N"),),
    rules=gemm_operands.RULES,
    fits=gemm_operands.FITS,
    not_jax=("zero_b", "packed_b", "packed_a"),
    parts=(
        Part(("M",), _has_whole_scales),
        Part(("N",), _has_whole_scales),
        Part((BATCH,), _has_whole_scales),
        Part(("K",), _is_sum),
    ),
)

# The arrays of `GEMM` as lists, and what one problem is not asked for.
_LISTS = {
    kinds.TENSOR: kinds.TENSORS,
    kinds.OPTIONAL: kinds.SOME_TENSORS,
    kinds.SCALE: kinds.SCALES,
    kinds.OUTPUT: kinds.SOME_TENSORS_WRITTEN,
}
LISTED_NAMES = {"a": "as_", "b": "bs"}
SINGLE_NAMES = {listed: name for name, listed in LISTED_NAMES.items()}
GROUPED_GEMM = Call(
    "grouped_gemm",
    """activation(alpha A B + beta C + bias) for each a (M, K) of `as_` and b (K, N) of `bs`.

    Sizes differ freely from problem to problem, and any of them may be 0; types are those of the
    first problem, and the scales of one operand are all of one kind. The arrays of `cute.gemm` are
    lists as long as `as_` or None; `scale_a` and `scale_b` may also be one number. The other
    options are those of `cute.gemm`. One kernel launch computes all problems; to be captured in a
    CUDA graph, it needs an earlier call with the same arrays. Wrong arguments raise TypeError or
    ValueError naming the argument, as in `bs[3]`. Returns the outputs in order: the arrays of
    `out`, or new ones where the `as_` live.
    """,
    tuple(
        replace(
            each,
            name=LISTED_NAMES.get(each.name, each.name),
            kind=_LISTS.get(each.kind, each.kind),
            said=f"{each.said}, of each problem" if each.kind in _LISTS else each.said,
            inside=None,
        )
        for each in _OF_GEMM
        if not each.kind.is_of_tiles
        and each.kind is not kinds.PRECISION
        and each.name != "packed_a"
    ),
    prepared="as_, bs, c, bias, out, array_a, array_b, array_z, aux",
    unwraps="bs, packed_b = unpacked(bs, packed_b)",
    before=_NUMBERS,
    numbers="(factor, beta)",
    outputs=GEMM.outputs,
    not_jax=("scale_a", "scale_b", "zero_b", "packed_b"),
)

_RANK = "4 dimensions (batch, heads, sequence, head dimension)"
_OF_ATTENTION = (
    Parameter("q", kinds.TENSOR, REQUIRED, "queries (B, H, Sq, D)", modes="B H S D", rank=_RANK,
              dtypes=attention_operands.ELEMENTS),
    Parameter("k", kinds.TENSOR, REQUIRED, "keys (B, Hk, Sk, D), or pages of them",
              modes="B Hk T D", rank=_RANK, dtypes=attention_operands.OF_KEYS),
    Parameter("v", kinds.TENSOR, REQUIRED, "values (B, Hk, Sk, Dv), or a number of columns",
              modes="B Hk T E", rank=_RANK, dtypes=attention_operands.OF_KEYS),
    Parameter("causal", kinds.FLAG, False, "whether a row sees no key behind its own"),
    Parameter("scale", kinds.SOME_NUMBER, None, "the factor of the scores, 1/sqrt(D) by default"),
    Parameter("window", kinds.WINDOW, None,
              "how many keys (before, behind) its own a row sees, -1 for all"),
    Parameter("softcap", kinds.SOME_NUMBER, None, "c of scores c tanh(score / c)"),
    Parameter("lengths", kinds.OPTIONAL, None, "how many keys a batch entry has (B,)", modes="B",
              rank="one dimension", dtypes=attention_operands.INTEGERS),
    Parameter("cu_seqlens", kinds.OFFSETS, None,
              "where packed sequences begin, (q_offsets, k_offsets)",
              key="cu_seqlens is not None"),
    Parameter("block_table", kinds.OPTIONAL, None, "where the pages of keys are (B, pages)",
              modes="B pages", rank="(batch, pages)", dtypes=attention_operands.INTEGERS),
    Parameter("scale_q", kinds.SCALE, None, "what multiplies q, for all or each head",
              key="*factors"),
    Parameter("scale_k", kinds.SCALE, None, "what multiplies k, or each key"),
    Parameter("scale_v", kinds.SCALE, None, "what multiplies v, or each value"),
    Parameter("return_lse", kinds.RESULT, False, "whether sums are returned, too"),
    Parameter("out", kinds.OUTPUT, None, _OUT, modes="B H S E"),
    Parameter("out_dtype", kinds.DTYPE, None, _OUT_DTYPE),
    *_LAUNCH,
)  # fmt: skip


_OFFSETS_AND_SCALES = """
offsets = cu_seqlens if isinstance(cu_seqlens, tuple | list) and len(cu_seqlens) == 2 else ()
arrays, factors = split_scales((scale_q, scale_k, scale_v))
"""


def _is_apart(given: Mapping[str, Any]) -> bool:
    """Whether batch entries and heads have nothing in common."""
    joint = ("q_offsets", "k_offsets", "block_table", "scale_q", "scale_k", "scale_v")
    return all(given.get(name) is None for name in joint)


def _is_unmasked(given: Mapping[str, Any]) -> bool:
    """Whether no mask counts the rows of queries."""
    return _is_apart(given) and not given.get("causal") and given.get("window") is None


_PARTS_OF_ATTENTION = (
    Part(("B",), _is_apart),
    Part(("H", "Hk"), _is_apart),
    Part(("S",), _is_unmasked),
)
ATTENTION = Call(
    "attention",
    """softmax(scale Q K^T) V for each head: q (B, H, Sq, D), k (B, Hk, Sk, D), v (B, Hk, Sk, Dv).

    Elements are f16, bf16, e4m3 or e5m2, those of k and v of q's type, or of 8 bits (i8, too)
    beside 16 of q.
    The last dimension is contiguous, head dimensions are up to 256 (of 16 bits D up to 576 and Dv
    up to 512), and H is a multiple of Hk: neighboring heads of q share a head of k and v. A `v`
    that is a view of the first columns of k, or their number, is loaded once, as part of k. `scale`
    is 1/sqrt(D) by default, `softcap` c makes the scores c tanh(score / c). `scale_q`, `scale_k`
    and `scale_v` multiply the elements of q, k and v: positive numbers, or arrays of f32, one for
    each head (H,), (Hk,), or for each head of each batch entry (B, H), (B, Hk). Beside 16 bits of q
    those of k and v may be one for each key (B, Hk, Sk), in pages (pages, Hk, page size), or with 1
    in the place of the keys one for all of a batch entry or page.

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
    _OF_ATTENTION,
    prepared="q, k, v, out, None, lengths, block_table, *arrays, *offsets",
    before=_OFFSETS_AND_SCALES,
    tunable="attention_tuning:TunableAttention",
    leads_with_arrays=False,
    outputs=(Output("out", "B H S E"), Output("lse", "B H S", "return_lse", f32)),
    rules=attention_operands.RULES,
    fits=attention_operands.FITS,
    parts=_PARTS_OF_ATTENTION,
)

_NOT_OF_BACKWARD = ("q", "k", "v", "return_lse", "out", "out_dtype")
_GRADIENT = "the array that gets the gradient of {}; it overlaps no other array"
_OF_ATTENTION_BACKWARD = (
    Parameter("do", kinds.TENSOR_OR_NONE, REQUIRED, "slopes of the loss along out (B, H, Sq, Dv)",
              modes="B H S E"),
    *_OF_ATTENTION[:3],
    Parameter("out", kinds.TENSOR, REQUIRED, "what the forward pass gave (B, H, Sq, Dv)",
              modes="B H S E"),
    Parameter("lse", kinds.TENSOR, REQUIRED, "the logarithms that it gave (B, H, Sq)",
              modes="B H S"),
    *(each for each in _OF_ATTENTION if each.name not in _NOT_OF_BACKWARD
      and each not in _LAUNCH),
    Parameter("dlse", kinds.OPTIONAL, None, "slopes of the loss along lse (B, H, Sq)",
              modes="B H S"),
    Parameter("wanted", kinds.OPERANDS, "qkv", "the operands whose gradients are computed"),
    Parameter("deterministic", kinds.FLAG, False, "whether equal calls give equal bits"),
    *(Parameter(f"d{each.name}", kinds.OUTPUT, None, _GRADIENT.format(each.name), modes=each.modes)
      for each in _OF_ATTENTION[:3]),
    *_LAUNCH,
)  # fmt: skip
ATTENTION_BACKWARD = Call(
    "attention_backward",
    """Gradients (dq, dk, dv) of `attention` of q, k and v, from those of its results.

    `do` (B, H, Sq, Dv) are the slopes of a loss along `out`, of any strides, or None for zeros;
    `dlse` (B, H, Sq) of f32 are those along `lse`. `out` and `lse` are what `cute.attention(q, k,
    v, ..., return_lse=True)` gave, whose arguments the others are. Elements are f16 or bf16 (`do`
    and `out` may also have f32), head dimensions are up to 256, and H is a multiple of Hk: dk and
    dv are sums over the heads that share keys. There is no gradient through a `block_table`, of 8
    bits, or of scales.

    A row that sees no key, and padding behind `lengths`, get 0; rows outside of all packed
    sequences are not written. What a mask hides from a row may hold NaN or Inf. Of `wanted`, some
    of the letters "qkv", the others are None and take no time. dq is added up in f32, by adds in
    memory in the order in which they come; with `deterministic`, or above 128 dimensions, a second
    pass over the keys adds them in one order, and equal calls on one device give equal bits.

    Per head and 64 rows (rounded up) it takes 64 (8 + 4 D) bytes of memory beside, D rounded up to
    16 or 64; without dq by adds 512 bytes; and 2 Dv more for each row of a `do` that has to be
    copied. Returns `dq`, `dk` and `dv`, or new arrays of the types of q, k and v where q lives.
    Wrong arguments, such as a dk that shares memory with another array, raise TypeError or
    ValueError naming the argument, and nothing is written.
    """,
    _OF_ATTENTION_BACKWARD,
    prepared="q, k, v, out, lse, do, dlse, dq, dk, dv, *(None,) * 4, lengths, *arrays, *offsets",
    before=_OFFSETS_AND_SCALES,
    tunable="attention_backward_tuning:TunableAttentionBackward",
    outputs=(Output("dq", "B H S D"), Output("dk", "B Hk T D"), Output("dv", "B Hk T E")),
    leads_with_arrays=False,
    rules=attention_operands.BACKWARD_RULES,
    fits=attention_operands.BACKWARD_FITS,
    parts=_PARTS_OF_ATTENTION,
    libraries=(),
)

QUANTIZE = Call(
    "quantize",
    """x (M, K) in a narrow format: elements and scales, of which products are about x.

    | format | elements | scales | block | rounding of scales |
    | --- | --- | --- | --- | --- |
    | mxfp8, mxfp8_e5m2 | e4m3, e5m2 | ue8m0 | 1 x 32 | up, down |
    | mxfp6_e2m3, mxfp6_e3m2 | e2m3, e3m2, a byte each | ue8m0 | 1 x 32 | up, down |
    | mxfp4 | e2m1, two in a byte of u8 | ue8m0 | 1 x 32 | up, down |
    | nvfp4 | e2m1, two in a byte of u8 | e4m3 | 1 x 16 | nearest |
    | fp8_block | e4m3 | f32 | 1 x 128 | nearest, up |
    | fp8_square | e4m3 | f32 | 128 x 128 | nearest, up |

    The first rounding is the default. With "up" a scale is the least power of two by which no
    element of the block is larger than the format's largest number; "down" is the power of two
    below it, or it, by which elements may saturate (OCP's MX). "nearest" is the largest magnitude
    of the block times f32(1 / largest number), rounded to the scale's type; elements are then
    multiplied by the rounded quotient 1 / scale. Elements are rounded to the nearest, ties to even,
    and saturate. All of it is f32 arithmetic with one rounding an operation, so that every target
    gives the bits that NumPy gives. A block with NaN or infinity has the scale NaN, a block of
    zeros the least scale and zeros.

    Of two elements in a byte the first is in the low half. nvfp4 takes `global_scale` g, a number
    or an f32 array of one element: magnitudes are multiplied by 1 / g first, and x is elements
    times scales times g; max |x| / (448 * 6) uses the whole range. K is a multiple of the block's
    columns, M of any size.

    `scales` are (M, K / block), or with `swizzled` panels of 128 rows and 4 columns as tensor cores
    read them, (ceil(M / 128), ceil(K / block / 4), 32, 4, 4): row r and column c are at
    [r // 128, c // 4, r % 32, r % 128 // 32, c % 4], and those that there are not are 0. Inside a
    kernel take `cute.quantized`. Wrong arguments raise TypeError or ValueError naming the argument,
    and nothing is written.
    """,
    (
        Parameter("x", kinds.TENSOR, REQUIRED, "the array (M, K)", modes="M K",
                  rank="2 dimensions (rows, columns)", dtypes=("f32", "f16", "bf16")),
        Parameter("format", kinds.BLOCK_FORMAT, REQUIRED, 'the format, such as "mxfp8"'),
        Parameter("global_scale", kinds.SCALE, None,
                  "of nvfp4 the factor of all elements, a number or an array of one element",
                  key="number is None"),
        Parameter("rounding", kinds.ROUNDING, None,
                  "how scales are rounded; by default the first of the format"),
        Parameter("swizzled", kinds.FLAG, False,
                  "whether scales lie in panels of 128 rows and 4 columns"),
        Parameter("out", kinds.OUTPUT, None, "the array that gets the elements"),
        Parameter("scales", kinds.OUTPUT, None, "the array that gets the scales"),
        *_LAUNCH,
    ),
    prepared="x, factor, out, scales",
    before="""
refuse_tile(x)
number = number_of(global_scale)
factor = global_scale if number is None else None
""",
    numbers="() if number is None else (number,)",
    repeated="() if number is None else ready.numbers(number)",
    outputs=(Output("out", "M K"), Output("scales", "M K")),
    leads_with_arrays=False,
    rules=quantize_operands.RULES,
    fits={},
    libraries=("torch",),
)  # fmt: skip

_OF_ROUTED = (
    Parameter("a", kinds.TENSOR, REQUIRED, "the rows (T, K)", modes="T K",
              rank="2 dimensions (rows, K)", dtypes=routed_operands.ELEMENTS),
    Parameter("b", kinds.TENSOR, REQUIRED, "the matrix of each group (E, K, N)", modes="E K N",
              rank="3 dimensions (groups, K, N)"),
    Parameter("offsets", kinds.TENSOR, REQUIRED,
              "where each group begins, and the end of the last one (E + 1,)", modes="F",
              rank="1 dimension", dtypes=routed_operands.INTEGERS),
    Parameter("lengths", kinds.OPTIONAL, None,
              "how many rows each group has, the rest being padding (E,)", modes="E",
              rank="1 dimension", dtypes=routed_operands.INTEGERS),
    Parameter("rows", kinds.OPTIONAL, None, "which row of a each row of the groups is (R,)",
              modes="R", rank="1 dimension", dtypes=routed_operands.INTEGERS),
    Parameter("scatter", kinds.OPTIONAL, None,
              "the row that each product is added to (R,), or the products of each row (S, k)",
              dtypes=routed_operands.INTEGERS),
    Parameter("weights", kinds.OPTIONAL, None,
              "what multiplies the products: (R,), or as scatter"),
    Parameter("gated", kinds.OPTIONAL, None,
              "matrices like b, whose products multiply the activation (E, K, N)", modes="E K N"),
    Parameter("bias", kinds.OPTIONAL, None, "what is added to each row of a group (E, N)",
              modes="E N"),
    Parameter("scale_b", kinds.OPTIONAL, None, "what multiplies the columns of b (E, N)",
              modes="E N", dtypes=("f32",)),
    Parameter("activation", kinds.ACTIVATION, None,
              "what the result goes through, a name or a function of the tile"),
    Parameter("count", kinds.COUNT, None, "how many rows a scatter (R,) adds to, without out"),
    Parameter("out", kinds.OUTPUT, None, _OUT, modes="S N"),
    Parameter("out_dtype", kinds.DTYPE, None, _OUT_DTYPE),
    *(replace(each, inside=None) for each in _LAUNCH),
)  # fmt: skip
ROUTED_GEMM = Call(
    "routed_gemm",
    """The products of groups of rows and a matrix for each group, as layers of experts have them.

    Group e is the rows offsets[e] to offsets[e + 1] - 1, of which it has the first `lengths[e]`, if
    given; any may be empty. Row r of the groups is row rows[r] of a, or row r of a without `rows`;
    its product is activation(a b_e + bias_e), times a gated_e with `gated`, times weights[r]. The
    numbers of `offsets`, `lengths`, `rows` and `scatter` are looked at by the device alone: a call
    needs no synchronization, and is captured in a CUDA graph after an earlier one like it.

    Without `scatter` the result is (R, N), and rows that are in no group are not written. With
    `scatter` (R,) the product of row r is added to row scatter[r] of the result, which has `count`
    rows or is `out`, and is 0 before: by atomics, in any order. With `scatter` (S, k) row t of the
    result is the sum of weights[t, j] times the product of row scatter[t, j] over j, in this order:
    equal calls give equal bits. -1 is the number of no row, which is 0, and to which nothing is
    added.

    Elements are f16, bf16, f32 (as tf32), e4m3 or e5m2; beside f16 and bf16 of a, b may have 8-bit
    integers, whose columns `scale_b` multiplies. Default `out_dtype` is a's type, bf16 for fp8, and
    f32 for a scatter (R,), which also takes f16 and bf16, added in that type. Products that are
    added in order are rounded to a's type first, in memory of the call.

    Offsets that fall, and numbers of rows that are not there, are refused where the arrays lie in
    memory of the host. Elsewhere they compute something else, without an access outside of the
    arrays: such a row is that of -1, and groups end with the rows that there are. Wrong arguments
    raise TypeError or ValueError naming the argument, and nothing is written. Returns `out`, or a
    new array where `a` lives.
    """,
    _OF_ROUTED,
    outputs=(Output("out", "S N"),),
    sizes=routed_operands.sizes,
    added="scatter",
    rules=routed_operands.RULES,
    fits=routed_operands.FITS,
    libraries=("torch",),
)

_STEPS = (
    Parameter("stride", kinds.PAIR, 1, "pixels between places of the filter"),
    Parameter("padding", kinds.PAIR, 0, "zeros around the image, at each side"),
    Parameter("dilation", kinds.PAIR, 1, "pixels between taps"),
)
_IMAGE, _FILTER = "4 dimensions (images, height, width, channels)", "4 dimensions (F, R, S, C)"
_OF_ARRAYS = tuple(replace(each, inside=None) for each in _LAUNCH)
_TYPE_OF_RESULT = Parameter("out_dtype", kinds.DTYPE, None, _OUT_DTYPE)


def _image(name: str, modes: str, said: str) -> Parameter:
    return Parameter(name, kinds.TENSOR, REQUIRED, said, modes=modes, rank=_IMAGE,
                     dtypes=conv2d_operands.ELEMENTS)  # fmt: skip


def _size(said: str) -> Parameter:
    return Parameter("size", kinds.SIZE, REQUIRED, said)


CONV2D = Call(
    "conv2d",
    """activation(x * w + bias): the cross-correlation of images x (N, H, W, C) and filters w (F, R,
    S, C), or a filter for each channel w (C, R, S, 1).

    The result is (N, P, Q, F), P = (H + 2 padding - dilation (R - 1) - 1) // stride + 1 and Q
    alike; `stride`, `padding` and `dilation` are a number, or two for height and width. Its pixel
    (p, q) is the sum over taps (r, s) and channels of w times pixel (p stride + r dilation -
    padding, q stride + s dilation - padding) of x, which is 0 outside of the image. Arrays are
    contiguous: of a torch tensor in channels_last take x.permute(0, 2, 3, 1). Elements are f16,
    bf16, or f32 (as tf32), sums are of f32; f32 filters for each channel are multiplied as they
    are. Default `out_dtype` is x's type. An empty result launches nothing. Wrong arguments raise
    TypeError or ValueError naming the argument, and nothing is written. Returns `out`, or a new
    array where `x` lives.
    """,
    (
        _image("x", "N H W C", "images (N, H, W, C)"),
        Parameter("w", kinds.TENSOR, REQUIRED, "filters (F, R, S, C), or (C, R, S, 1)",
                  modes="F R S D", rank=_FILTER),
        Parameter("bias", kinds.OPTIONAL, None, "what is added to each pixel (F,)", modes="F",
                  rank="1 dimension"),
        *_STEPS,
        Parameter("activation", kinds.ACTIVATION, None,
                  "what the result goes through, a name or a function of the tile"),
        Parameter("out", kinds.OUTPUT, None, _OUT, modes="N P Q F"),
        _TYPE_OF_RESULT,
        *_OF_ARRAYS,
    ),
    outputs=(Output("out", "N P Q F"),),
    sizes=conv2d_operands.forward_sizes,
    rules=conv2d_operands.RULES,
    fits=conv2d_operands.FITS,
    libraries=("torch",),
)  # fmt: skip
CONV2D_DGRAD = Call(
    "conv2d_dgrad",
    """The gradient of x of `conv2d`: from slopes dy (N, P, Q, F) along the result and filters w (F,
    R, S, C) that of images (N, H, W, C) of a `size` (H, W).

    `stride`, `padding` and `dilation` are those of the convolution, and types and arrays as there.
    Wrong arguments raise TypeError or ValueError naming the argument, and nothing is written.
    Returns `out`, or a new array of `out_dtype` where `dy` lives.
    """,
    (
        _image("dy", "N P Q F", "slopes of a loss along the result (N, P, Q, F)"),
        Parameter("w", kinds.TENSOR, REQUIRED, "filters (F, R, S, C)", modes="F R S C",
                  rank=_FILTER),
        _size("the height and width of x"),
        *_STEPS,
        Parameter("out", kinds.OUTPUT, None, _OUT, modes="N H W C"),
        _TYPE_OF_RESULT,
        *_OF_ARRAYS,
    ),
    outputs=(Output("out", "N H W C"),),
    sizes=conv2d_operands.sizes_of_image,
    rules=conv2d_operands.DGRAD_RULES,
    fits=conv2d_operands.FITS,
    libraries=("torch",),
)  # fmt: skip
CONV2D_WGRAD = Call(
    "conv2d_wgrad",
    """The gradient of w of `conv2d`: from images x (N, H, W, C) and slopes dy (N, P, Q, F) along
    the result that of filters (F, R, S, C) with `size` (R, S) taps.

    `stride`, `padding` and `dilation` are those of the convolution, and types and arrays as there.
    Pixels are added up in one order: equal calls give equal bits. Wrong arguments raise TypeError
    or ValueError naming the argument, and nothing is written. Returns `out`, or a new array of
    `out_dtype` where `x` lives.
    """,
    (
        _image("x", "N H W C", "images (N, H, W, C)"),
        _image("dy", "N P Q F", "slopes of a loss along the result (N, P, Q, F)"),
        _size("how many taps w has, (R, S)"),
        *_STEPS,
        Parameter("out", kinds.OUTPUT, None, _OUT, modes="F R S C"),
        _TYPE_OF_RESULT,
        *_OF_ARRAYS,
    ),
    outputs=(Output("out", "F R S C"),),
    sizes=conv2d_operands.sizes_of_filter,
    rules=conv2d_operands.WGRAD_RULES,
    fits=conv2d_operands.FITS,
    libraries=("torch",),
)

CALLS = (
    GEMM,
    GROUPED_GEMM,
    ROUTED_GEMM,
    ATTENTION,
    ATTENTION_BACKWARD,
    QUANTIZE,
    CONV2D,
    CONV2D_DGRAD,
    CONV2D_WGRAD,
)
