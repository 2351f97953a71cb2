"""Attention as cases: cuDNN and flash through torch's scaled_dot_product_attention against
`cute.attention`; where they have no such kernel, ours against itself or against the memory.

Where a case does not say who is to be compared with, a window is measured against their whole
causal problem, or against ours, packed sequences against the same tokens in equal lengths, each in
proportion to the scores that have to be computed; decoding against the time in which the memory
delivers k and v.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .attention_peers import CUDNN_PACKED, FLASH_DIRECT, cudnn_packed, flash
from .attention_reference import deviations, exact, rounded, units
from .attention_values import NORMAL, shaped
from .case import Call, Case, Maker
from .inputs import TYPES, seeded

CUDNN, FLASH = "cuDNN", "flash"
_BACKENDS = {CUDNN: "CUDNN_ATTENTION", FLASH: "FLASH_ATTENTION"}
_REPEATED = ", heads repeated"
WHOLE, EQUAL = "full causal", "equal lengths"
_BITS = {"bf16": 16, "f16": 16, "e4m3": 8}


def repeated(name: str) -> str:
    """The library of that name on a head of k and v for each of q."""
    return name + _REPEATED


@dataclass
class Tensors:
    """q, k, v and out as `cute.attention` takes them, with keyword arguments of it. `wide` are q,
    k and v of 16 bits, scales included, where they have 8.
    """

    q: Any
    k: Any
    v: Any
    out: Any
    options: dict[str, Any]
    wide: tuple[Any, Any, Any] | None = None

    @property
    def outputs(self) -> tuple[Any, ...]:
        return (self.out,)

    @property
    def plain(self) -> tuple[Any, Any, Any]:
        """What torch multiplies."""
        return self.wide or (self.q, self.k, self.v)

    @cached_property
    def repeated(self) -> tuple[Any, Any, Any]:
        """The same with a head of k and v for each of q."""
        q, k, v = self.plain
        group = q.shape[1] // k.shape[1]
        return q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)


@dataclass(frozen=True)
class Attention(Case):
    """`heads` are those of q and those of k and v, `rows` and `keys` the lengths of the sequences,
    unless `packed` names them all; `depth` is the head dimension. A row sees `window` keys before
    its own; `of_ours` compares that with our own whole causal problem. Pages of `page` keys, if
    any, are in random order. `values` and `size` say how scores are distributed
    (`attention_values.py`), `against` who is compared with, where it is not the usual ones, and
    `label` is the end of the name. `ways` are `maxima` that are forced beside the default. With
    `draws` nothing is timed: errors of so many inputs are pooled. Values are the first `columns` of
    the keys, if any.
    """

    batch: int = 1
    heads: tuple[int, int] = (16, 16)
    rows: int = 0
    keys: int = 0
    depth: int = 128
    causal: bool = False
    window: int | None = None
    of_ours: bool = False
    packed: tuple[int, ...] = ()
    page: int = 0
    values: str = NORMAL
    size: float = 1.0
    against: tuple[str, ...] = ()
    label: str = ""
    ways: tuple[str, ...] = ()
    draws: int = 0
    columns: int = 0

    kind = "attention"

    @property
    def name(self) -> str:
        q, kv = self.heads
        size = f"{len(self.packed)} packed" if self.packed else _thousands(self.keys)
        mask = "causal" if self.causal else "decode" if self.starved else "full"
        if self.window is not None:
            mask = f"window {self.window}{' of ours' * self.of_ours}"
        pages = f" page {self.page}" if self.page else ""
        heads = f"{q}" if q == kv else f"{q}/{kv}"
        heads += f"x{self.depth}" if not self.columns else f"x{self.depth}/{self.columns}"
        label = f" {self.label}" if self.label else ""
        return f"{size} {heads} {mask}{pages} {self.dtype}{label}"

    @property
    def sequences(self) -> tuple[tuple[int, int], ...]:
        """(rows, keys) of each."""
        return tuple((n, n) for n in self.packed) or ((self.rows, self.keys),) * self.batch

    @property
    def flops(self) -> int:
        """Those of both multiplies for the scores that are seen; causal is half of all."""
        depths = self.depth + self.v_depth
        return 2 * self.heads[0] * depths * sum(map(self._scores, self.sequences))

    @property
    def bytes(self) -> int:
        """Everything once; k and v alone where there is one row."""
        size = _BITS[self.dtype] // 8
        rows, keys = (sum(each) for each in zip(*self.sequences, strict=True))
        depths = self.depth if self.columns else 2 * self.depth
        of_keys = self.heads[1] * keys * depths * size
        of_rows = self.heads[0] * rows * (self.depth * size + self.v_depth * 2)
        return of_keys if self.starved else of_keys + of_rows

    @property
    def starved(self) -> bool:
        return self.rows == 1 and not self.against

    @property
    def rivals(self) -> dict[str, str]:
        return {way: f"maxima = {way}" for way in self.ways}

    @property
    def yardsticks(self) -> tuple[str, ...]:
        if self.against:
            return self.against
        if self.starved:
            return ()
        if self.of_ours:
            return (WHOLE,)
        if self.packed:
            return (EQUAL,)
        if self.dtype == "e4m3":
            return (CUDNN,)
        direct = (CUDNN, FLASH)
        return direct if self.group == 1 else direct + tuple(map(repeated, direct))

    @property
    def v_depth(self) -> int:
        """The head dimension of v."""
        return self.columns or self.depth

    @property
    def group(self) -> int:
        """Heads of q that share one of k and v."""
        return self.heads[0] // self.heads[1]

    @property
    def companions(self) -> tuple[Attention, ...]:
        if self.against:
            return ()
        if self.window is not None:
            return (replace(self, window=None, of_ours=False),)
        if self.packed:
            count = len(self.packed)
            length = sum(self.packed) // count
            return (replace(self, packed=(), batch=count, rows=length, keys=length),)
        return ()

    @property
    def share(self) -> float:
        return self.flops / self.companions[0].flops if self.companions else 1.0

    def make_operands(self, torch: Any, seed: int) -> Tensors:
        """Normal values; where they have 8 bits with a scale for each head."""
        generator = seeded(torch, seed)
        kind, out_kind = (getattr(torch, name) for name in self.types)

        def normal(shape: Sequence[int]) -> Any:
            return torch.randn(shape, generator=generator, device="cuda")

        q_shape, k_shape = self.shapes
        q, k = normal(q_shape), normal(k_shape)
        v = None if self.columns else normal(k_shape).to(kind)
        if (self.values, self.size) != (NORMAL, 1):
            q, k = shaped(torch, generator, self.values, self.size, q, k)
        q, k = q.to(kind), k.to(kind)
        if self.columns:
            v = k[..., : self.columns]
        out_shape = (*q_shape[:-1], self.v_depth)
        made = Tensors(q, k, v, torch.empty(out_shape, dtype=out_kind, device="cuda"), {})
        if self.packed:
            offsets = torch.tensor(self._offsets(), dtype=torch.int32, device="cuda")
            made.options["cu_seqlens"] = (offsets, offsets)
        if self.page:
            order = torch.randperm(k_shape[0], generator=generator, device="cuda")
            made.options["block_table"] = order.to(torch.int32).reshape(self.batch, -1)
        if _BITS[self.dtype] == 8:
            scales = [
                torch.rand((heads,), generator=generator, device="cuda") + 0.5
                for heads in (self.heads[0], self.heads[1], self.heads[1])
            ]
            made.options |= zip(("scale_q", "scale_k", "scale_v"), scales, strict=True)
            made.wide = tuple(
                (each.float() * scale.reshape(1, -1, 1, 1)).to(out_kind)
                for each, scale in zip((q, k, v), scales, strict=True)
            )  # pyright: ignore[reportAttributeAccessIssue]
        return made

    def hides(self, torch: Any, row: Any, key: Any) -> Any:
        """Which keys (1, keys) rows (rows, 1) do not see; None if they see all. Rows have the
        number of the key that they are aligned with.
        """
        if self.window is not None:
            return (key > row) | (key < row - self.window)
        return key > row if self.causal else None

    def bias(self, torch: Any, heads: slice, row: Any, key: Any) -> Any:
        """What is added to the scores of some heads (heads, rows, keys), in float64, or None."""
        return None

    def exact(self, torch: Any, operands: Tensors) -> Sequence[Any]:
        return exact(torch, self, operands)

    def errors(self, torch: Any, operands: Tensors, exact: Sequence[Any]) -> tuple[float, ...]:
        found = deviations(torch, self, operands, exact)
        return (*found, units(torch, self, operands, exact)) if self.draws else found

    def allowance(self, torch: Any, operands: Tensors, exact: Sequence[Any]) -> tuple[float, ...]:
        return () if self.draws else rounded(torch, self, operands, exact)

    def theirs(self, torch: Any) -> dict[str, Maker]:
        makers: dict[str, Callable[[str], Call]] = {
            CUDNN: lambda name: self._torch(torch, name),
            FLASH: lambda name: self._torch(torch, name),
            repeated(CUDNN): lambda _: self._torch_repeated(torch, CUDNN),
            repeated(FLASH): lambda _: self._torch_repeated(torch, FLASH),
            WHOLE: lambda _: self.companions[0].ours(None),
            EQUAL: lambda _: self._equal(),
            FLASH_DIRECT: lambda _: flash(torch, self),
            CUDNN_PACKED: lambda _: cudnn_packed(torch, self),
        }
        return {name: lambda name=name: makers[name](name) for name in self.yardsticks}

    def ours(self, schedule: str | None) -> Call:
        import cutedialect as cute

        options = {"causal": self.causal, "window": self._window(), "schedule": schedule}
        attention: Any = cute.attention

        def call(operands: Tensors) -> None:
            q, k, v, out = operands.q, operands.k, operands.v, operands.out
            attention(q, k, v, out=out, **options, **operands.options)

        return call

    def compiled(self, schedule: str | None, arch: str | None = None) -> Any:
        import cutedialect as cute

        kind, out_kind = self.types
        q_shape, k_shape = self.shapes
        options: dict[str, Any] = {"arch": arch} if arch is not None else {}
        if self.packed:
            options["cu_seqlens"] = (cute.TensorSpec((len(self.packed) + 1,), "i32"),) * 2
        if self.page:
            options["block_table"] = cute.TensorSpec((self.batch, self.keys // self.page), "i32")
        if _BITS[self.dtype] == 8:
            of_q, of_k = (cute.TensorSpec((heads,), "f32") for heads in self.heads)
            options |= {"scale_q": of_q, "scale_k": of_k, "scale_v": of_k}
        return cute.compile(
            cute.attention,
            cute.TensorSpec(q_shape, kind),
            cute.TensorSpec(k_shape, kind),
            self.columns or cute.TensorSpec(k_shape, kind),
            out=cute.TensorSpec((*q_shape[:-1], self.v_depth), out_kind),
            causal=self.causal,
            window=self._window(),
            schedule=schedule,
            **options,
        )

    def _window(self) -> tuple[int, int] | None:
        return None if self.window is None else (self.window, 0)

    def _scores(self, sequence: tuple[int, int]) -> int:
        rows, keys = sequence
        if self.window is not None:
            return sum(min(row, self.window) + 1 for row in range(rows))
        return rows * keys // 2 if self.causal else rows * keys

    @property
    def types(self) -> tuple[str, str]:
        """torch's types of the inputs and of the output."""
        return TYPES[self.dtype]

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of q and of k and v."""
        if self.packed:
            total = sum(self.packed)
            return (1, self.heads[0], total, self.depth), (1, self.heads[1], total, self.depth)
        q = (self.batch, self.heads[0], self.rows, self.depth)
        if self.page:
            return q, (self.batch * self.keys // self.page, self.heads[1], self.page, self.depth)
        return q, (self.batch, self.heads[1], self.keys, self.depth)

    def _offsets(self) -> list[int]:
        return [sum(self.packed[:count]) for count in range(len(self.packed) + 1)]

    def _torch(self, torch: Any, name: str) -> Call:
        """torch's kernels of one library, on as many heads of k and v as there are."""
        sdpa = _sdpa(torch, name)

        def call(operands: Tensors) -> Any:
            return sdpa(*operands.plain, is_causal=self.causal, enable_gqa=self.group > 1)

        return call

    def _torch_repeated(self, torch: Any, name: str) -> Call:
        """The same on repeated heads, for a library that refuses to share them."""
        sdpa = _sdpa(torch, name)
        kind = getattr(torch, self.types[1])
        # Of its own shapes: what a library makes for those, it has made by now.
        q, k = (torch.ones(shape, dtype=kind, device="cuda") for shape in self.shapes)
        try:
            sdpa(q, k, k, is_causal=self.causal, enable_gqa=True)
        except RuntimeError:
            return lambda operands: sdpa(
                *operands.repeated, is_causal=self.causal, enable_gqa=False
            )
        raise NotImplementedError(f"{name} takes shared heads as they are")

    def _equal(self) -> Call:
        """Ours on the same tokens in equal lengths."""
        (other,) = self.companions
        call = other.ours(None)

        def split(tensor: Any) -> Any:
            heads, tokens, depth = tensor.shape[1:]
            apart = tensor.reshape(heads, other.batch, tokens // other.batch, depth)
            return apart.transpose(0, 1)

        def call_split(operands: Tensors) -> Any:
            q, k, v = map(split, (operands.q, operands.k, operands.v))
            return call(Tensors(q, k, v, split(operands.out), {}))

        return call_split


def _sdpa(torch: Any, name: str) -> Callable[..., Any]:
    """torch's attention, by one library only."""
    backend = getattr(torch.nn.attention.SDPBackend, _BACKENDS[name])

    def attention(q: Any, k: Any, v: Any, **options: Any) -> Any:
        with torch.nn.attention.sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    return attention


def _thousands(number: int) -> str:
    return f"{number}" if number % 1024 else f"{number // 1024}k"
