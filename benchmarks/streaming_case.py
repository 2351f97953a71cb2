"""A streaming case: one workload on one shape, against torch as it is and as it compiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .accuracy import double
from .case import Call, Case, Maker
from .inputs import seeded
from .streaming_others import OTHERS
from .streaming_programs import PREFIX, program_of
from .streaming_workloads import WORKLOADS, Workload

TORCH, COMPILED, TUNED = "torch", "torch.compile", "max-autotune"
_MODES = {COMPILED: None, TUNED: "max-autotune-no-cudagraphs"}
# Errors below this say nothing of a computation in f32.
_LEAST_ERROR = 1e-6
# Bytes of the widest access of a thread.
_LINE = 16
_INDICES = ("labels", "places")
_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "float8_e4m3fn": 1, "int8": 1, "int32": 4}


@dataclass
class Arrays:
    """Operands of one call; `args` is what our program takes."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Streaming(Case):
    """`workload` is a key of `WORKLOADS` or `OTHERS`, or names a drawn program; `shape` the rows
    and columns of the matrix, of which some workloads keep only the number of elements.
    """

    workload: str = "add"
    shape: tuple[int, int] = (8192, 8192)

    kind = "streaming"

    @property
    def name(self) -> str:
        rows, columns = self.whole
        return f"{self.workload} {rows}x{columns}"

    @property
    def whole(self) -> tuple[int, int]:
        """Rows and columns as the workload has them."""
        return self._of.shaped(self.shape)

    @property
    def flops(self) -> int:
        return math.prod(self.whole)

    @property
    def bytes(self) -> int:
        """Every operand once; of gathered rows those that are read."""
        arrays = [*self._of.inputs(self.whole), *self._of.outputs(self.whole)]
        return sum(math.prod(shape) * _size(kind) for shape, kind in arrays)

    @property
    def starved(self) -> bool:
        return True

    @property
    def yardsticks(self) -> tuple[str, ...]:
        return TORCH, COMPILED, TUNED

    @property
    def _of(self) -> Workload:
        if self.workload.startswith(PREFIX):
            return program_of(self.workload).workload()
        other = OTHERS.get(self.workload)
        return WORKLOADS[self.workload] if other is None else other.workload

    def make_operands(self, torch: Any, seed: int) -> Arrays:
        generator = seeded(torch, seed)

        def made(shape: tuple[int, ...], kind: str) -> Any:
            if kind == "labels":
                high = self.whole[1]
                return torch.randint(
                    high, shape, generator=generator, device="cuda", dtype=torch.int32
                )
            if kind == "places":
                order = torch.randperm(shape[0], generator=generator, device="cuda")
                return order.to(torch.int32)
            name, wide = _stored(shape, kind)
            values = torch.randn(wide, generator=generator, device="cuda")
            return values.to(getattr(torch, name))[..., : shape[-1]]

        inputs = tuple(made(*each) for each in self._of.inputs(self.whole))
        outputs = tuple(
            torch.empty(shape, dtype=getattr(torch, kind), device="cuda")
            for shape, kind in self._of.outputs(self.whole)
        )
        extra = self._of.extra(self.whole)
        return Arrays(inputs, outputs, (*self._of.arrange(inputs, outputs), *extra))

    def exact(self, torch: Any, operands: Arrays) -> Sequence[Any]:
        return self._of.formula(torch, *map(_doubled(torch), operands.inputs))

    def errors(self, torch: Any, operands: Arrays, exact: Sequence[Any]) -> tuple[float, ...]:
        return _deviations(torch, self.workload, operands, operands.outputs, exact)

    def allowance(self, torch: Any, operands: Arrays, exact: Sequence[Any]) -> tuple[float, ...]:
        """Of the formula in f32, rounded once."""
        single = [x.float() if x.is_floating_point() else x for x in operands.inputs]
        found = self._of.formula(torch, *single)
        rounded = [value.to(out.dtype) for value, out in zip(found, operands.outputs, strict=True)]
        return _deviations(torch, self.workload, operands, rounded, exact)

    def theirs(self, torch: Any) -> dict[str, Maker]:
        return {name: lambda name=name: self._torch(torch, name) for name in self.yardsticks}

    def _torch(self, torch: Any, name: str) -> Call:
        """torch's own functions, or what it compiles of the formula."""
        formula = self._of.formula
        kinds = [getattr(torch, kind) for _, kind in self._of.outputs(self.whole)]
        plain = name == TORCH and self.workload != "e4m3"

        def function(*inputs: Any) -> tuple[Any, ...]:
            wide = inputs if plain else [x.float() if x.is_floating_point() else x for x in inputs]
            found = formula(torch, *wide)
            return tuple(value.to(kind) for value, kind in zip(found, kinds, strict=True))

        if name in _MODES:
            torch._dynamo.reset()
            function = torch.compile(function, mode=_MODES[name], dynamic=False)
        return lambda operands: function(*operands.inputs)

    def ours(self, schedule: str | None) -> Call:
        import cutedialect as cute

        kernels: list[Any] = []
        program, options = self._of.ours(), self._of.options(self.whole)

        def call(operands: Arrays) -> None:
            if not kernels:
                kernels.append(cute.compile(program, *operands.args, schedule=schedule, **options))
            kernels[0].launch(*operands.args)

        return call

    def compiled(self, schedule: str | None, arch: str | None = None) -> Any:
        import cutedialect as cute

        program = self._of.ours()
        options: dict[str, Any] = dict(self._of.options(self.whole))
        if arch is not None:
            options["arch"] = arch
        return cute.compile(program, *self.specs(), schedule=schedule, **options)

    def specs(self) -> tuple[Any, ...]:
        """What `cute.compile` takes for the arguments: the shapes and strides of torch's tensors,
        made without memory.
        """
        import torch  # pyright: ignore[reportMissingImports]

        import cutedialect as cute

        def empty(shape: tuple[int, ...], kind: str) -> Any:
            name, wide = _stored(shape, kind)
            dtype = torch.int32 if name in _INDICES else getattr(torch, name)
            return torch.empty(wide, dtype=dtype, device="meta")[..., : shape[-1]]

        inputs = [empty(*each) for each in self._of.inputs(self.whole)]
        outputs = [empty(*each) for each in self._of.outputs(self.whole)]
        arrays = self._of.arrange(inputs, outputs)
        specs = (
            cute.TensorSpec(tuple(x.shape), x.dtype, tuple(x.stride()), *_alignment(x))
            for x in arrays
        )
        return (*specs, *self._of.extra(self.whole))


def _alignment(x: Any) -> tuple[int, bool]:
    """What divides the bytes between rows, up to 16, and whether rows end within so many."""
    size = x.element_size()
    steps = [x.stride(mode) * size for mode in range(x.dim()) if x.stride(mode) != 1]
    align = math.gcd(_LINE, *steps)
    tails = any(x.stride(mode) == 1 and x.shape[mode] * size % _LINE for mode in range(x.dim()))
    return align, align == _LINE and tails


def _stored(shape: tuple[int, ...], kind: str) -> tuple[str, tuple[int, ...]]:
    """The type of what `kind` says, and the shape of the array of which it is the first columns:
    twice as wide for "bfloat16 strided", three elements wider for "bfloat16 +3".
    """
    name, _, more = kind.partition(" ")
    wider = {"": 0, "strided": shape[-1]}.get(more)
    return name, (*shape[:-1], shape[-1] + (int(more) if wider is None else wider))


def _size(kind: str) -> int:
    return _BYTES.get(kind.partition(" ")[0], 4)


def _doubled(torch: Any) -> Any:
    return lambda x: double(x) if x.is_floating_point() else x


def _deviations(
    torch: Any, workload: str, operands: Arrays, found: Sequence[Any], exact: Sequence[Any]
) -> tuple[float, ...]:
    """The largest deviation of each output, over the largest finite element of the exact one. An
    infinity or a NaN that both have is no deviation: among 2^26 normal numbers of f32 a few are 0,
    where the logarithm of the gamma function is infinite.
    """
    errors: list[float] = []
    for value, true in zip(found, exact, strict=True):
        if not value.is_floating_point():
            # Places: what stands there is what should be there, whichever of equal ones it is.
            places = value.long().reshape(len(value), -1)
            value = operands.inputs[0].gather(1, places).reshape(value.shape)
            true = exact[0]
        value, true = double(value), true.double()
        largest = torch.where(true.isfinite(), true.abs(), 0.0).max().item() or 1.0
        is_equal = (value == true) | (value.isnan() & true.isnan())
        errors.append(torch.where(is_equal, 0.0, (value - true).abs()).max().item() / largest)
    return tuple(max(error, _LEAST_ERROR) for error in errors)
