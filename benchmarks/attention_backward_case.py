"""The backward pass of attention as cases: cuDNN and flash by torch's operators of their backward
passes, each on what its own forward pass saved, against `cute.attention_backward`.

A time is that of everything that one call launches: the row sums of do and out, zeros, sums, their
conversion. Errors are figures for dq, dk and dv, of the heads that share the first and the last
head of keys, in the first and the last sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any

from .accuracy import double
from .attention_case import CUDNN, FLASH, Attention, Tensors
from .attention_peers import FLASH_DIRECT
from .case import Call, Maker
from .inputs import seeded

# Of the products of queries and keys of an attention those of its backward pass, per multiply.
_MULTIPLIES_OF_SCORES, _MULTIPLIES_OF_VALUES = 3, 2
_OURS_IN_ORDER = "ours, fast"
# Rows of which scores are computed at once in float64.
_ROWS = 2048


@dataclass
class Slopes(Tensors):
    """The arrays of a call: do, what the forward pass gave, and the results. `saved` is what
    others' forward passes gave, by name.
    """

    do: Any = None
    lse: Any = None
    gradients: tuple[Any, ...] = ()
    saved: dict[str, Any] = field(default_factory=dict)

    @property
    def outputs(self) -> tuple[Any, ...]:
        return self.gradients


@dataclass(frozen=True)
class AttentionBackward(Attention):
    """The backward pass of the attention of these fields; `deterministic` asks ours for equal bits,
    compared with ours that adds in any order.
    """

    deterministic: bool = False

    kind = "attention_backward"

    @property
    def name(self) -> str:
        return f"{super().name} backward{' in order' * self.deterministic}"

    @property
    def flops(self) -> int:
        """Those of five multiplies for the scores that are seen; causal is half of all."""
        depths = _MULTIPLIES_OF_SCORES * self.depth + _MULTIPLIES_OF_VALUES * self.v_depth
        scores = sum(self._scores(each) for each in self.sequences)
        return 2 * self.heads[0] * depths * scores

    @property
    def bytes(self) -> int:
        return 2 * super().bytes

    @property
    def starved(self) -> bool:
        return False

    @property
    def yardsticks(self) -> tuple[str, ...]:
        if self.deterministic:
            return (_OURS_IN_ORDER,)
        if self.window is not None or self.packed:
            return (FLASH_DIRECT,)
        return CUDNN, FLASH

    @property
    def companions(self) -> tuple[Attention, ...]:
        return ()

    def make_operands(self, torch: Any, seed: int) -> Slopes:
        import cutedialect as cute

        made = super().make_operands(torch, seed)
        options = made.options | {"causal": self.causal, "window": self._window()}
        out, lse = cute.attention(made.q, made.k, made.v, return_lse=True, **options)
        generator = seeded(torch, seed + 1)
        do = torch.randn(out.shape, generator=generator, device="cuda").to(out.dtype)
        gradients = tuple(torch.empty_like(each) for each in (made.q, made.k, made.v))
        return Slopes(made.q, made.k, made.v, out, made.options, None, do, lse, gradients)

    def exact(self, torch: Any, operands: Any) -> Sequence[Any]:
        return [_gradients(torch, self, piece, double) for piece in _pieces(self, operands)]

    def errors(self, torch: Any, operands: Any, exact: Sequence[Any]) -> tuple[float, ...]:
        return _errors(exact, [piece[4:] for piece in _pieces(self, operands)])

    def allowance(self, torch: Any, operands: Any, exact: Sequence[Any]) -> tuple[float, ...]:
        plain = [
            _gradients(torch, self, piece, lambda each: each.float())
            for piece in _pieces(self, operands)
        ]
        return _errors(exact, plain)

    def theirs(self, torch: Any) -> dict[str, Maker]:
        makers: dict[str, Callable[[], Call]] = {
            CUDNN: lambda: _of_torch(torch, self, "cudnn"),
            FLASH: lambda: _of_torch(torch, self, "flash"),
            FLASH_DIRECT: lambda: _flash_direct(torch, self),
            _OURS_IN_ORDER: lambda: self._call(None, False),
        }
        return {name: makers[name] for name in self.yardsticks}

    def ours(self, schedule: str | None) -> Call:
        return self._call(schedule, self.deterministic)

    def _call(self, schedule: str | None, deterministic: bool) -> Call:
        import cutedialect as cute

        options = {"causal": self.causal, "window": self._window(), "schedule": schedule}
        backward: Any = cute.attention_backward

        def call(operands: Slopes) -> None:
            dq, dk, dv = operands.gradients
            backward(
                operands.do, operands.q, operands.k, operands.v, operands.out, operands.lse,
                dq=dq, dk=dk, dv=dv, deterministic=deterministic, **options, **operands.options,
            )  # fmt: skip

        return call

    def compiled(self, schedule: str | None, arch: str | None = None) -> Any:
        import cutedialect as cute

        kind, out_kind = self.types
        q, k = (cute.TensorSpec(shape, kind) for shape in self.shapes)
        out = cute.TensorSpec((*self.shapes[0][:-1], self.v_depth), out_kind)
        options: dict[str, Any] = {"arch": arch} if arch is not None else {}
        if self.packed:
            options["cu_seqlens"] = (cute.TensorSpec((len(self.packed) + 1,), "i32"),) * 2
        return cute.compile(
            cute.attention_backward, out, q, k, k, out, cute.TensorSpec(out.shape[:-1], "f32"),
            dq=q, dk=k, dv=k, causal=self.causal, window=self._window(), schedule=schedule,
            deterministic=self.deterministic, **options,
        )  # fmt: skip


def backward_of(case: Attention, **changes: Any) -> AttentionBackward:
    """The backward pass of a case."""
    given = {each.name: getattr(case, each.name) for each in fields(Attention)}
    return AttentionBackward(**(given | {"against": (), "ways": ()} | changes))


def _pieces(case: AttentionBackward, operands: Slopes) -> Iterator[tuple[Any, ...]]:
    """(q, k, v, do, dq, dk, dv) of the first and the last head of keys in the first and the last
    sequence; arrays of rows are (heads that share the keys, rows, depth).
    """
    batch, start = [], 0
    for number, (rows, _) in enumerate(case.sequences):
        entry = 0 if case.packed else number
        batch.append((entry, slice(start, start + rows) if case.packed else slice(None)))
        start += rows
    for entry, rows in dict.fromkeys([(e, (r.start, r.stop)) for e, r in (batch[0], batch[-1])]):
        some = slice(*rows)
        for head in sorted({0, case.heads[1] - 1}):
            mine = slice(head * case.group, (head + 1) * case.group)
            dq, dk, dv = operands.gradients
            yield (
                operands.q[entry, mine, some], operands.k[entry, head, some],
                operands.v[entry, head, some], operands.do[entry, mine, some],
                dq[entry, mine, some], dk[entry, head, some], dv[entry, head, some],
            )  # fmt: skip


def _gradients(
    torch: Any, case: AttentionBackward, piece: Sequence[Any], wide: Callable[[Any], Any]
) -> tuple[Any, ...]:
    """(dq, dk, dv) of a piece, rounded to its type where `wide` is not float64."""
    dtype = piece[0].dtype

    def rounded(values: Any) -> Any:
        return values if values.dtype == torch.float64 else values.to(dtype).float()

    q, k, v, do = (wide(each) for each in piece[:4])
    scale, shift = q.shape[-1] ** -0.5, k.shape[0] - q.shape[1]
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    key = torch.arange(k.shape[0], device=k.device).reshape(1, -1)
    for first in range(0, q.shape[1], _ROWS):
        some = slice(first, first + _ROWS)
        row = torch.arange(first, min(first + _ROWS, q.shape[1]), device=k.device).reshape(-1, 1)
        hidden = case.hides(torch, row + shift, key)
        for member in range(q.shape[0]):
            s = q[member, some] @ k.T * scale
            p = torch.softmax(s if hidden is None else s.masked_fill(hidden, -inf), -1)
            p = p.nan_to_num(0.0)
            out = rounded(rounded(p) @ v)
            delta = (do[member, some] * out).sum(-1, keepdim=True)
            ds = rounded(p * (do[member, some] @ v.T - delta))
            dq[member, some] = ds @ k * scale
            dk += ds.T @ q[member, some] * scale
            dv += rounded(p).T @ do[member, some]
    return rounded(dq), rounded(dk), rounded(dv)


def _errors(exact: Sequence[Any], found: Sequence[Any]) -> tuple[float, ...]:
    """(largest, mean) absolute error of dq, then those of dk and dv."""
    figures: list[float] = []
    for place in range(3):
        apart = [
            (double(mine[place]) - wanted[place]).abs()
            for mine, wanted in zip(found, exact, strict=True)
        ]
        figures.append(max(float(each.max().item()) for each in apart))
        total = sum(float(each.sum().item()) for each in apart)
        figures.append(total / sum(each.numel() for each in apart))
    return tuple(figures)


def _of_torch(torch: Any, case: AttentionBackward, library: str) -> Call:
    """torch's backward of one library, on what its forward pass saved."""
    name = f"_scaled_dot_product_{library}_attention"
    forward = getattr(torch.ops.aten, name).default
    backward = getattr(torch.ops.aten, f"{name}_backward").default
    options = {"dropout_p": 0.0, "is_causal": case.causal, "attn_bias": None}
    options |= {"compute_log_sumexp": True, "return_debug_mask": False}

    def call(operands: Slopes) -> Any:
        q, k, v = operands.plain
        if name not in operands.saved:
            known = options | {"query": q, "key": k, "value": v}
            found = forward(**_taken(forward, known))
            names = [each.name for each in forward._schema.returns]
            operands.saved[name] = known | dict(zip(names, found, strict=True))
        known = operands.saved[name] | {"grad_out": operands.do}
        known["out"] = known.get("out", known.get("output"))
        if "rng_state" in known:
            known |= {"philox_seed": known["rng_state"]}
        return backward(**_taken(backward, known))[:3]

    return call


def _taken(operator: Any, known: dict[str, Any]) -> dict[str, Any]:
    """What an operator takes of what is known, by the names of its schema."""
    names = [each.name for each in operator._schema.arguments]
    return {name: known[name] for name in names if name in known}


def _flash_direct(torch: Any, case: AttentionBackward) -> Call:
    """flash with a window, or on packed sequences."""
    forward = torch.ops.aten._flash_attention_forward
    backward = torch.ops.aten._flash_attention_backward
    window = {} if case.window is None else {"window_size_left": case.window}
    window |= {"window_size_right": 0} if window else {}
    causal = case.causal and not window

    def call(operands: Slopes) -> Any:
        packed = bool(case.packed)
        offsets = operands.options["cu_seqlens"] if packed else (None, None)
        longest = (max(case.packed),) * 2 if packed else (case.rows, case.keys)

        def rows_first(each: Any) -> Any:
            return each[0].transpose(0, 1) if packed else each.transpose(1, 2)

        q, k, v = map(rows_first, operands.plain)
        if FLASH_DIRECT not in operands.saved:
            operands.saved[FLASH_DIRECT] = forward(
                q, k, v, *offsets, *longest, 0.0, causal, False, **window
            )
        out, lse, seed, offset, *_ = operands.saved[FLASH_DIRECT]
        found = backward(
            rows_first(operands.do), q, k, v, out, lse, *offsets, *longest, 0.0, causal, seed,
            offset, **window,
        )  # fmt: skip
        if packed:
            return tuple(each.transpose(0, 1)[None] for each in found)
        return tuple(each.transpose(1, 2) for each in found)

    return call
