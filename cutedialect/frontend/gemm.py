"""`cute.gemm`: on tiles inside a kernel, on arrays outside of one.

The array call checks its arguments, makes the output, and runs the tile program
`library/gemm.py`; it touches nothing that the program does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import Any

from cutedialect.backend.runtime.arrays import TensorArgument, tensor_argument
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.schedule import Schedule

from .dtypes import DType, as_dtype, bf16, e4m3, e5m2, f16, f32, f64, i8, i32, u8
from .kernel import ScalarSpec, TensorSpec
from .launch import as_schedule, check_arch, compile_kernel, default_arch, spec_of
from .library.gemm_schedules import Problem, choose_schedule

_ACCUMULATORS = {
    "f16": (f32, f16),
    "bf16": (f32,),
    "f32": (f32,),
    "f64": (f64,),
    "e4m3": (f32,),
    "e5m2": (f32,),
}
_INTEGER = (i8, u8)
_EIGHT_BIT_FLOATS = (e4m3, e5m2)


@dataclass(frozen=True)
class _Operand:
    """An array or spec with the facts that shapes are checked on."""

    value: Any
    name: str
    shape: tuple[int | None, ...]
    dtype: DType
    array: TensorArgument | None


def gemm(
    a: Any,
    b: Any,
    acc: Any = None,
    *,
    c: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Any = None,
    activation: str | Callable[..., Any] | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    acc_dtype: object = None,
    fast_accum: bool = True,
    out: Any = None,
    out_dtype: object = None,
    arch: str | None = None,
    schedule: Schedule | str | None = None,
    backend: str = "auto",
    stream: Any = None,
) -> Any:
    """activation(alpha A B + beta C + bias) of a (..., M, K) and b (..., K, N), as numpy.matmul.

    Inside a kernel, `gemm(a, b, acc)` accumulates tiles instead. Batch dimensions broadcast.
    bias is (N,). Types: f16, bf16, f32 (as tf32), f64, e4m3 and e5m2, and 8-bit integers (into
    int32). Default `out_dtype` is a's type, bf16 for fp8, int32 for 8-bit integers. K = 0 gives
    beta C + bias; an empty output launches nothing. Wrong arguments raise TypeError or ValueError
    naming the argument, and nothing is written. Returns the output: `out`, or a new array where
    `a` lives.
    """
    if acc is not None:
        from .functions import tile_gemm

        tile_gemm(a, b, acc)
        return None
    del fast_accum
    key = _call_key(
        (a, b, c, bias, out, scale_a, scale_b),
        (alpha != 1, beta != 0, activation, acc_dtype, out_dtype, arch, schedule, backend),
    )
    ready = _calls.get(key) if key is not None else None
    if ready is None:
        for name, value in (("scale_a", scale_a), ("scale_b", scale_b)):
            if value is not None:
                raise ValueError(f"{name}: expected None for types that are not fp8, got a scale")
        call = _Call(a, b, c, bias, out, acc_dtype, out_dtype, activation, beta)
        ready = call.prepare(alpha, beta, arch, schedule, backend)
        if key is not None:
            if len(_calls) >= _CALLS_KEPT:
                _calls.clear()
            _calls[key] = ready
    return ready.run(a, b, c, bias, out, alpha, beta, stream)


# Calls by what their arguments look like: a warm call checks nothing twice.
_CALLS_KEPT = 4096
_calls: dict[tuple[object, ...], _ReadyCall] = {}


def _call_key(arrays: Sequence[Any], options: tuple[object, ...]) -> tuple[object, ...] | None:
    """What of a call decides the kernel and its checks; None for arguments without a hash."""
    try:
        key = (*[_look(array) for array in arrays], *options)
        hash(key)
    except (TypeError, AttributeError):
        return None
    return key


def _look(array: Any) -> object:
    """Shape, strides, type, place and alignment of an array."""
    if array is None:
        return None
    kind = type(array)
    if hasattr(array, "data_ptr"):
        place = array.data_ptr() & 15, array.device
        return kind, array.shape, array.stride(), array.dtype, place
    if hasattr(array, "ctypes"):
        place = array.ctypes.data & 15, array.flags.writeable
        return kind, array.shape, array.strides, array.dtype, place
    return kind, array.shape, array.strides, array.dtype, array.data.ptr & 15, array.data.device_id


def compile_gemm(
    a: Any,
    b: Any,
    *,
    c: Any = None,
    bias: Any = None,
    activation: str | Callable[..., Any] | None = None,
    acc_dtype: object = None,
    out_dtype: object = None,
    out: Any = None,
    arch: str | None = None,
    schedule: Schedule | str | None = None,
    backend: str = "auto",
    alpha: float = 1.0,
    beta: float = 0.0,
) -> Kernel:
    """The kernel of `gemm` for arrays or `TensorSpec`s, without running it."""
    call = _Call(a, b, c, bias, out, acc_dtype, out_dtype, activation, beta)
    kernel = call.prepare(alpha, beta, arch, schedule, backend).kernel
    if kernel is None:
        raise ValueError(f"a: expected an output with elements, got shape {call.out_shape}")
    return kernel


gemm.compile = compile_gemm  # type: ignore[attr-defined]


def as_operand(value: Any, name: str) -> _Operand:
    """An array or spec as an operand; anything else raises TypeError."""
    if isinstance(value, TensorSpec):
        return _Operand(value, name, value.shape, value.dtype, None)
    array = tensor_argument(value)
    if array is None:
        raise TypeError(f"{name}: expected an array, got {type(value).__name__}")
    return _Operand(value, name, array.shape, as_dtype(array.dtype, name), array)


class _Call:
    """The checked arguments of one call."""

    def __init__(
        self,
        a: Any,
        b: Any,
        c: Any,
        bias: Any,
        out: Any,
        acc_dtype: object,
        out_dtype: object,
        activation: object,
        beta: float,
    ) -> None:
        self.a, self.b = as_operand(a, "a"), as_operand(b, "b")
        for operand in (self.a, self.b):
            if len(operand.shape) < 2:
                raise ValueError(
                    f"{operand.name}: expected 2 or more dimensions, got shape {operand.shape}"
                )
        k, kb = self.a.shape[-1], self.b.shape[-2]
        if None not in (k, kb) and k != kb:
            raise ValueError(
                f"b: expected {k} rows (a is {_shown(self.a.shape)}), got {kb} in shape "
                f"{_shown(self.b.shape)}"
            )
        self.k = k
        batch = _broadcast(self.a.shape[:-2], self.b.shape[:-2])
        self.out_shape = (*batch, self.a.shape[-2], self.b.shape[-1])
        self._check_types(acc_dtype, out_dtype, out)
        self.c = self._addend("c", c, self.out_shape) if c is not None and beta != 0 else None
        if c is None and beta != 0:
            raise ValueError(f"c: expected an array with beta = {beta}, got None")
        self.bias = self._addend("bias", bias, self.out_shape[-1:]) if bias is not None else None
        if activation is not None and not callable(activation) and activation not in _ACTIVATIONS:
            raise ValueError(
                f"activation: expected {', '.join(map(repr, _ACTIVATIONS))} or a function, "
                f"got {activation!r}"
            )
        self._check_out(out)
        self.out = out
        self.activation = activation

    def _check_types(self, acc_dtype: object, out_dtype: object, out: Any) -> None:
        a, b = self.a.dtype, self.b.dtype
        integer = a in _INTEGER and b in _INTEGER
        mixed = integer or (a in _EIGHT_BIT_FLOATS and b in _EIGHT_BIT_FLOATS)
        if a != b and not mixed:
            raise TypeError(f"b: expected {a.name} as in a, got {b.name}")
        allowed = (i32,) if integer else _ACCUMULATORS.get(a.name)
        if allowed is None:
            known = ", ".join([*_ACCUMULATORS, *(d.name for d in _INTEGER)])
            raise TypeError(f"a: expected one of {known}, got {a.name}")
        self.acc_dtype = allowed[0] if acc_dtype is None else as_dtype(acc_dtype, "acc_dtype")
        if self.acc_dtype not in allowed:
            shown = " or ".join(d.name for d in allowed)
            raise TypeError(f"acc_dtype: expected {shown} for {a.name}, got {self.acc_dtype.name}")
        default = i32 if integer else bf16 if a in _EIGHT_BIT_FLOATS else a
        if out is not None and out_dtype is None:
            default = as_operand(out, "out").dtype
        self.out_dtype = default if out_dtype is None else as_dtype(out_dtype, "out_dtype")

    def _addend(self, name: str, value: Any, shape: tuple[int | None, ...]) -> _Operand:
        operand = as_operand(value, name)
        ours, theirs = operand.shape, shape
        fits = len(ours) <= len(theirs) and all(
            x in (y, None) or y is None or (x == 1 and name == "c" and position < len(ours) - 2)
            for position, (x, y) in enumerate(
                zip(ours, theirs[len(theirs) - len(ours) :], strict=True)
            )
        )
        if not fits or (name == "bias" and len(ours) != 1):
            raise ValueError(f"{name}: expected shape {_shown(shape)}, got {_shown(ours)}")
        return operand

    def _check_out(self, out: Any) -> None:
        if out is None:
            return
        operand = as_operand(out, "out")
        if operand.shape != self.out_shape:
            raise ValueError(
                f"out: expected shape {_shown(self.out_shape)}, got {_shown(operand.shape)}"
            )
        if operand.dtype != self.out_dtype:
            raise TypeError(f"out: expected {self.out_dtype.name}, got {operand.dtype.name}")

    def prepare(
        self,
        alpha: float,
        beta: float,
        arch: str | None,
        schedule: Schedule | str | None,
        backend: str,
    ) -> _ReadyCall:
        """Compile (or find) the kernel; an empty output has none."""
        if 0 in self.out_shape:
            return _ReadyCall(None, self.out_shape, self.out_dtype)
        made = self.out if self.out is not None else self._new_output()
        target_name = arch or default_arch(backend)
        check_arch(target_name)
        chosen = self.schedule(as_schedule(schedule), target_name)
        self.swapped = chosen is not None and chosen.swap_ab == "yes"
        args = self.arguments(as_operand(made, "out"), alpha, beta)
        options = self.constants(chosen, target_name) | {
            "arch": target_name,
            "schedule": chosen,
            "backend": backend,
        }
        kernel = compile_kernel(_program(self.activation), args, options)
        batch = self.out_shape[:-2]
        broadcasts = tuple(
            (position, (*batch, *operand.shape[-2:]))
            for position, operand in enumerate((self.a, self.b, self.c))
            if operand is not None and operand.shape[:-2] != batch
        )
        return _ReadyCall(
            kernel,
            self.out_shape,
            self.out_dtype,
            broadcasts,
            swapped=self.swapped,
            takes_alpha=self.acc_dtype.kind == "f",
            takes_c=self.c is not None,
        )

    def _new_output(self) -> TensorSpec:
        """What is known of an output that `output` makes: row-major, from an aligned base."""
        row = (self.out_shape[-1] or 16) * self.out_dtype.bits // 8
        rows = self.out_shape[-2]
        single = rows == 1 and all(extent == 1 for extent in self.out_shape[:-2])
        align = 16 if single else min(16, row & -row)
        return TensorSpec(self.out_shape, self.out_dtype, align=align)

    def schedule(self, given: Schedule | None, arch: str) -> Schedule | None:
        """`given`, on top of what suits the problem where warpgroups multiply."""
        if not self.takes_wgmma(arch):
            return given
        if given is not None and (given.tile is not None or given.roles == "uniform"):
            return given
        m, n, k = (_LARGE if x is None else x for x in (*self.out_shape[-2:], self.k))
        batch = prod(1 if extent is None else extent for extent in self.out_shape[:-2])
        problem = Problem(m, n, k, batch, self.a.dtype.bits, self.out_dtype.bits)
        return choose_schedule(problem).merged(given)

    def takes_wgmma(self, arch: str) -> bool:
        """Whether the target has warpgroup multiplies for the operands, and TMA can load them."""
        from cutedialect.atoms.wgmma_atoms import find_wgmma

        names = [_MMA_NAMES.get(x.name, x.name) for x in (self.a.dtype, self.b.dtype)]
        acc = "s32" if self.acc_dtype == i32 else self.acc_dtype.name
        try:
            find_wgmma(names[0], names[1], acc, arch)
        except ValueError:
            return False
        # Elements of other than 16 bits have to be contiguous along K (PTX ISA 9.7.15.5.1).
        for operand, along_k in ((self.a, -1), (self.b, -2)):
            spec = spec_of(operand.value, operand.name)
            assert isinstance(spec, TensorSpec)
            if spec.align < 16 or spec.contiguous is None:
                return False
            if operand.dtype.bits != 16 and spec.contiguous != len(spec.shape) + along_k:
                return False
        return True

    def constants(self, schedule: Schedule | None, arch: str) -> dict[str, object]:
        """Compile-time parameters of the tile program."""
        from cutedialect.atoms import target

        tile = schedule.tile if schedule is not None else None
        if tile is not None and len(tile) != 3:
            raise ValueError(f"schedule: expected a tile (M, N, K), got {tile}")
        if tile is None:
            m, n = self.out_shape[-2:]
            specs = [spec_of(operand.value, operand.name) for operand in (self.a, self.b)]
            align = min(spec.align for spec in specs if isinstance(spec, TensorSpec))
            tile = default_tile(self.a.dtype, m, n, target(arch).smem_per_cta, align)
        return {"tile": tile, "acc_dtype": self.acc_dtype, "swapped": self.swapped}

    def arguments(self, d: _Operand, alpha: float, beta: float) -> list[Any]:
        """The program's arguments: batch dimensions broadcast to the output's."""
        batch = self.out_shape[:-2]
        scalar = alpha if self.acc_dtype.kind == "f" else None
        if scalar is None and (alpha != 1 or beta != 0):
            raise ValueError(f"alpha: expected 1 for integers, got alpha = {alpha}, beta = {beta}")
        kind = f64 if self.acc_dtype == f64 else f32

        def number(value: float | None) -> ScalarSpec | None:
            return None if value is None else ScalarSpec(kind)

        a, b, out = _batched(self.a, batch), _batched(self.b, batch), d.value
        c = None if self.c is None else _batched(self.c, batch)
        if self.swapped:
            a, b, out = _transposed(b), _transposed(a), _transposed(out)
            c = None if c is None else _transposed(c)
        return [
            a,
            b,
            c,
            None if self.bias is None else self.bias.value,
            out,
            number(scalar),
            number(beta if self.c is not None else None),
        ]


@dataclass(frozen=True)
class _ReadyCall:
    """What a warm call needs, and none of the arrays that it was made from.

    `broadcasts` are the operands (0 a, 1 b, 2 c) whose batch dimensions broadcast to a shape.
    """

    kernel: Kernel | None
    out_shape: tuple[int | None, ...]
    out_dtype: DType
    broadcasts: tuple[tuple[int, tuple[int | None, ...]], ...] = ()
    swapped: bool = False
    takes_alpha: bool = True
    takes_c: bool = False

    def run(
        self,
        a: Any,
        b: Any,
        c: Any,
        bias: Any,
        out: Any,
        alpha: float,
        beta: float,
        stream: Any,
    ) -> Any:
        """Launch on arrays that look like those of `prepare`."""
        result = out if out is not None else self.output(a)
        if self.kernel is None:
            return result
        given = [a, b, c if self.takes_c else None]
        for position, shape in self.broadcasts:
            given[position] = _expanded(given[position], shape)
        if self.swapped:
            given = [each if each is None else _transposed(each) for each in given]
            given[:2] = given[1::-1]
        given += [bias, _transposed(result) if self.swapped else result]
        if self.takes_alpha:
            given.append(alpha)
        if self.takes_c:
            given.append(beta)
        self.kernel.launch(*[value for value in given if value is not None], stream=stream)
        return result

    def output(self, a: Any) -> Any:
        """A new array of the library that `a` comes from."""
        library = type(a).__module__.partition(".")[0]
        shape = tuple(0 if extent is None else extent for extent in self.out_shape)
        if library == "torch":
            torch = import_module("torch")
            names = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
            name = names.get(self.out_dtype.name, "int32")
            return torch.empty(shape, dtype=getattr(torch, name), device=a.device)
        array = tensor_argument(a)
        if array is not None and array.device is not None:
            from cutedialect.backend.runtime.devices import empty

            return empty(shape, self.out_dtype.numpy, array.device)
        import numpy as np

        return np.empty(shape, self.out_dtype.numpy)


# What a run-time extent counts as.
_LARGE = 4096
_MMA_NAMES = {"f32": "tf32", "i8": "s8"}
# A device of this size has full waves of the largest tile from this many tiles on.
_WAVE = 132


def default_tile(
    dtype: DType, m: int | None, n: int | None, smem: int, align: int
) -> tuple[int, int, int]:
    """CTA tile for an element type and a problem, on a target with `smem` bytes for a CTA.

    The largest tile moves the fewest bytes for a product; it is taken where enough tiles remain to
    fill a device, and three stages of it fit. Run-time extents (None) count as large enough for
    the tile in the middle. Operands aligned to less than 16 bytes take as many more copies, whose
    addresses want registers: they get the small tile.
    """
    depth = {64: 16, 32: 32, 16: 32, 8: 64}[dtype.bits]
    if align < 16:
        return 64, 64, depth
    if dtype.bits == 16 and m is not None and n is not None:
        rows, columns = 128, 256
        tiles = -(-m // rows) * -(-n // columns)
        if tiles >= _WAVE and 3 * 2 * (rows + columns) * 64 <= smem:
            return rows, columns, 64
    largest = 64 if dtype.bits == 64 else 128
    return (
        largest if m is None or m > 64 else 64,
        largest if n is None or n > 64 else 64,
        depth,
    )


def _batched(operand: _Operand, batch: Sequence[int | None]) -> Any:
    """A view with all batch dimensions; those that broadcast get stride 0."""
    value = operand.value
    shape = (*batch, *operand.shape[-2:])
    if operand.shape == shape:
        return value
    if isinstance(value, TensorSpec):
        given = value.strides or (None,) * (len(operand.shape) - 1) + (1,)
        missing = len(shape) - len(given)
        return TensorSpec(shape, value.dtype, (None,) * missing + tuple(given), value.align)
    return _expanded(value, shape)


def _transposed(value: Any) -> Any:
    """A view with the last two dimensions exchanged."""
    if isinstance(value, TensorSpec):
        rank = len(value.shape)
        strides = value.strides or (None,) * (rank - 1) + (1,)
        return TensorSpec(
            (*value.shape[:-2], *value.shape[:-3:-1]),
            value.dtype,
            (*strides[:-2], *strides[:-3:-1]),
            value.align,
        )
    return value.swapaxes(-1, -2)


def _expanded(value: Any, shape: Sequence[int | None]) -> Any:
    """A broadcast view of an array."""
    if hasattr(value, "expand"):
        return value.expand(shape)
    array = tensor_argument(value)
    if array is not None and array.device is not None:
        from cutedialect.backend.runtime.devices import broadcast_to

        return broadcast_to(value, tuple(extent or 0 for extent in shape))
    import numpy as np

    return np.broadcast_to(value, tuple(extent or 0 for extent in shape))


def _broadcast(one: Sequence[int | None], other: Sequence[int | None]) -> tuple[int | None, ...]:
    rank = max(len(one), len(other))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in (one, other)]
    result: list[int | None] = []
    for x, y in zip(*padded, strict=True):
        if x != y and 1 not in (x, y) and None not in (x, y):
            raise ValueError(
                f"b: expected batch dimensions that broadcast with {_shown(tuple(one))} of a, "
                f"got {_shown(tuple(other))}"
            )
        result.append(y if x == 1 else x)
    return tuple(result)


def _shown(shape: Sequence[int | None]) -> str:
    return "(" + ", ".join("?" if extent is None else str(extent) for extent in shape) + ")"


_ACTIVATIONS = ("relu", "gelu", "silu")


def _program(activation: object) -> Any:
    from .library.gemm import program_for

    return program_for(activation)
