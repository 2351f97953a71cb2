"""`cute.gemm` and `cute.grouped_gemm`, declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from . import gemm_operands
from . import signature as kinds
from .signature import BATCH, LAUNCH, OF_DTYPE, OF_OUT, REQUIRED, Call, Output, Parameter, Part

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
    Parameter("out", kinds.OUTPUT, None, OF_OUT, "cute.copy(acc, view) behind the multiply",
              modes="... M N"),
    Parameter("out_dtype", kinds.DTYPE, None, OF_DTYPE,
              "acc.to(dtype) behind the multiply"),
    *LAUNCH,
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
