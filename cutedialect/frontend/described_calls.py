"""Calls of `cute.gemm` and `cute.attention` in words: which arrays they take, and how the arguments
of their kernels follow from them. What makes the arguments of a launch makes these of symbolic
arrays, so that a launcher without this project does as the call does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cutedialect.backend.runtime.description import DescribedCall
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.schedule import Schedule

from .attention import AttentionCall, attention
from .attention import door as attention_door
from .attention_scales import NAMES
from .dtypes import DType, f32
from .gemm import GemmCall, gemm
from .gemm import door as gemm_door
from .gemm_scales import BLOCK, Panels, Scale, fold_numbers
from .gemm_weights import is_packed
from .grouped_gemm import LISTS, grouped_gemm
from .grouped_gemm import door as grouped_door
from .rules import Operand, as_operand
from .symbolic_arrays import Extent, SymbolicArray

_PRODUCT = (
    "D = A B, with what --set asked for on top; A is (..., M, K), B (..., K, N), D (..., M, N)"
)
_LISTS = "for each entry of the lists: "
_SWAPPED = (
    "D = A B computed as the transposed product: A is the caller's b and B its a, each with its "
    "last two dimensions exchanged, and so is D; A is (..., N, K), B (..., K, M), D (..., N, M)"
)
_ATTENTION = (
    "out = softmax(scale q k^T) v for each head of each batch entry, of what cute.attention takes; "
    "q and out are (batch, heads, rows, head dimension), k and v (batch, heads, keys, head "
    "dimension), and neighboring heads of q share a head of k and v. The kernel's scale is that of "
    "the scores times log2(e), or with softcap = c divided by c, and its cap c log2(e); row r of S "
    "sees the keys from r + keys - S - left to r + keys - S + right"
)


def described_call(
    program: object, args: Sequence[object], options: Mapping[str, Any]
) -> DescribedCall | None:
    """How the arguments of the kernel follow from those of a call of `program`, for the arguments
    that `cute.compile` takes; None for a `@cute.kernel` function, whose arguments they are.

    Raises CompileError for views that have no words.
    """
    if program is gemm:
        return _described_gemm(*gemm_door.specified(*args, **options), options)
    if program is grouped_gemm:
        call, ready, kernel = grouped_door.specified(*args, **options)
        first = ready.parts[0]
        return _described_gemm(call.calls[first], ready.calls[first], kernel, options, LISTS)
    if program is attention:
        return _described_attention(*attention_door.specified(*args, **options))
    return None


class _Arguments:
    """The arguments of a call, as they are named; of lists with the names of these."""

    def __init__(self, lists: Mapping[str, str] | None = None) -> None:
        self.words: list[dict[str, Any]] = []
        self.lists = lists

    def tensor(self, name: str, dtype: DType, shape: Sequence[Extent | None]) -> SymbolicArray:
        """An array whose extents are fixed, those of arrays before, or any (None)."""
        kind = "tensor"
        if self.lists is not None:
            name, kind = self.lists[name], "tensors"
        self.words.append(
            {"name": name, "kind": kind, "dtype": dtype.numpy.name, "shape": list(shape)}
        )
        extents = tuple(
            f"{name}.shape[{mode}]" if extent is None else extent
            for mode, extent in enumerate(shape)
        )
        return SymbolicArray(name, extents, tuple(f"{name}.stride[{m}]" for m in range(len(shape))))

    def scalar(self, name: str, type_: str) -> str:
        """A number that the caller chooses."""
        self.words.append({"name": name, "kind": "scalar", "type": type_})
        return name

    def described(
        self,
        about: str,
        kernel: Kernel,
        given: Sequence[Any],
        members: dict[str, str] | None = None,
    ) -> DescribedCall:
        """The call whose kernel takes what is given, where it is not None."""
        taken = [value for value in given if value is not None]
        assert len(taken) == len(kernel.signature.parameters)
        requires = [
            text for value in taken if isinstance(value, SymbolicArray) for text in value.requires
        ]
        requires = tuple(dict.fromkeys(requires))
        views = tuple(map(_words, taken))
        return DescribedCall(about, tuple(self.words), views, requires, members)


def _words(value: Any) -> dict[str, Any]:
    """What an argument of a kernel is."""
    if isinstance(value, SymbolicArray):
        return {
            "array": value.name,
            "shape": [str(extent) for extent in value.shape],
            "stride": list(value.stride),
        }
    return {"value": value if isinstance(value, str) else repr(value.item())}


def _described_attention(call: AttentionCall, ready: Any, kernel: Kernel) -> DescribedCall:
    q, k, v = call.q, call.k, call.v
    arguments = _Arguments()
    is_packed, is_paged = call.packing is not None, call.block_table is not None
    # A kernel for so few rows that those of heads are joined, or for one that sees all keys.
    fixes_rows = ready.folds or call.masks() != call.window
    rows: Extent | None = q.shape[2] if fixes_rows else None
    symbols = [
        arguments.tensor("q", q.dtype, (1 if is_packed else None, q.shape[1], rows, q.shape[3]))
    ]
    batch, rows = symbols[0].shape[0], symbols[0].shape[2]
    page = k.shape[2] if is_paged else None
    symbols.append(
        arguments.tensor("k", k.dtype, (None if is_paged else batch, k.shape[1], page, k.shape[3]))
    )
    if not call.is_latent:
        shape = (*symbols[1].shape[:3], v.shape[3])
        symbols.append(arguments.tensor("v", v.dtype, shape))
    lengths = table = None
    if call.lengths is not None:
        lengths = arguments.tensor("lengths", call.lengths.dtype, (batch,))
    if call.block_table is not None:
        table = arguments.tensor("block_table", call.block_table.dtype, (batch, None))
    offsets: list[SymbolicArray] = []
    items = ready.items
    if call.packing is not None:
        tile = Schedule.parse(kernel.schedule).tile
        assert tile is not None
        first = arguments.tensor("q_offsets", call.packing.q_offsets.dtype, (None,))
        second = arguments.tensor("k_offsets", call.packing.k_offsets.dtype, first.shape)
        offsets = [first, second]
        items = (f"{rows} // {tile[0]} + {first.shape[0]} - 1", *ready.items[1:])
    heads = q.shape[1], k.shape[1], k.shape[1]
    scales = [
        arguments.tensor(name, f32, shape) if shape else None
        for name, shape in zip(
            NAMES, ready.scales.shapes(batch, heads, symbols[1].shape), strict=True
        )
    ]
    out = arguments.tensor("out", call.out_dtype, (*symbols[0].shape[:3], v.shape[3]))
    lse = arguments.tensor("lse", f32, out.shape[:3]) if ready.returns_lse else None
    ready = replace(ready, out_shape=out.shape, items=items)
    values = None if call.is_latent else symbols[2]
    given = ready.arguments(
        (symbols[0], symbols[1], values, out, lse, lengths, table, *scales, *offsets)
    )
    return arguments.described(_ATTENTION, kernel, given)


def _described_gemm(
    call: GemmCall,
    ready: Any,
    kernel: Kernel,
    options: Mapping[str, Any],
    lists: Mapping[str, str] | None = None,
) -> DescribedCall:
    if call.has_zero or is_packed(call):
        raise ValueError(
            "zero_b, packed_b: expected None of a call that is compiled to a file, got weights "
            "with a zero or packed ones; compile a tile program with cute.packed"
        )
    arguments = _Arguments(lists)
    batch = _batch(call)

    def tensor(operand: Operand, *last: Extent | None) -> SymbolicArray:
        modes = len(operand.shape) - len(last)
        return arguments.tensor(
            operand.name, operand.dtype, (*_broadcast(operand.shape[:modes], batch), *last)
        )

    a = arguments.tensor("a", call.a.dtype, _own(call.a, batch))
    m, k = a.shape[-2:]
    b = arguments.tensor("b", call.b.dtype, (*_own(call.b, batch)[:-2], k, None))
    n = b.shape[-1]
    c = tensor(call.c, m, n) if call.c is not None else None
    bias = tensor(call.bias, n) if call.bias is not None else None
    scales: list[SymbolicArray | None] = []
    wholes: list[Scale | None] = []
    for scale, value, name, extents in zip(
        call.scales, call.scale_values, ("scale_a", "scale_b"), ((m, k), (k, n)), strict=True
    ):
        symbol = whole = None
        if scale is not None:
            last = _scale_shape(scale, len(as_operand(value, name).shape), extents)
            symbol = tensor(as_operand(value, name), *last)
            whole = scale if scale.shape is None else replace(scale, shape=(*batch, *last))
        scales.append(symbol)
        wholes.append(whole)
    aux = None if call.aux is None else tensor(call.aux, m, n)
    out = arguments.tensor("out", call.out_dtype, (*batch, m, n))
    types = {parameter.name: parameter for parameter in kernel.signature.parameters}
    numbers = {
        name: arguments.scalar(name, types[name].type)  # type: ignore[union-attr]
        for name in ("alpha", "beta")
        if name in types
    }
    factor = fold_numbers(1.0, options.get("scale_a"), options.get("scale_b"))[0]
    if "alpha" in numbers and factor != 1:
        numbers["alpha"] = f"alpha * {factor!r}"
    broadcasts = tuple(
        (position, (*batch, *symbol.shape[-2:]))
        for position, symbol in enumerate((a, b, c))
        if symbol is not None and symbol.shape[:-2] != batch
    )
    ready = replace(
        ready, broadcasts=broadcasts, scales=tuple(wholes) if ready.scales is not None else None
    )
    alpha, beta = numbers.get("alpha"), numbers.get("beta")
    given = ready.arguments((a, b, c, bias, out, *scales, None, aux), (alpha, beta))
    about = _SWAPPED if ready.swapped else _PRODUCT
    if lists is None:
        return arguments.described(about, kernel, given)
    # As `GroupCall.taking` has them.
    members = {"where": f"min({out.shape[0]}, {out.shape[1]}) > 0", "order": f"-{k}"}
    return arguments.described(_LISTS + about, kernel, given, members)


def _batch(call: GemmCall) -> tuple[Extent, ...]:
    """The batch extents of the output: of each mode those of the first operand that has it."""
    batch: list[Extent] = []
    for mode in range(2 - len(call.out_shape), 0):
        extent: Extent = 1
        for operand in (call.b, call.a):
            place = len(operand.shape) - 2 + mode
            if place >= 0 and operand.shape[place] != 1:
                extent = f"{operand.name}.shape[{place}]"
        batch.append(extent)
    return tuple(batch)


def _broadcast(shape: Sequence[int | None], batch: Sequence[Extent]) -> tuple[Extent, ...]:
    """Batch extents of an array that broadcast to those of the output."""
    last = batch[len(batch) - len(shape) :]
    return tuple(1 if extent == 1 else wanted for extent, wanted in zip(shape, last, strict=True))


def _own(operand: Operand, batch: Sequence[Extent]) -> tuple[Extent | None, ...]:
    """The extents of a or b, None for one that the others follow."""
    extents = _broadcast(operand.shape[:-2], batch)
    names = [f"{operand.name}.shape[{mode}]" for mode in range(len(extents))]
    mine = zip(extents, names, strict=True)
    return (*(None if extent == name else extent for extent, name in mine), None, None)


def _scale_shape(scale: Scale, rank: int, extents: tuple[Extent, Extent]) -> tuple[Extent, ...]:
    """The last extents of an array of scales for an operand of these extents."""
    if isinstance(scale, Panels):
        raise ValueError(
            "scale_a, scale_b: expected f32 in the description of a product, got panels of ue8m0; "
            "call cute.gemm with arrays, or cute.compile"
        )
    shape: list[Extent] = []
    for span, extent in zip(scale.spans, extents, strict=True):
        shape.append(1 if span == 0 else f"ceildiv({extent}, {BLOCK})" if span == BLOCK else extent)
    if rank == 1:
        return (next((each for each in shape if each != 1), 1),)
    return tuple(shape[:rank])
