"""`cute.gemm`: on tiles inside a kernel, on arrays outside of one.

The array call checks its arguments, makes the output, and runs the tile program
`library/gemm.py`; it touches nothing that the program does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from cutedialect.allocation import multiplying_warps, reading_warps
from cutedialect.atoms import target
from cutedialect.backend.runtime.aliasing import Named
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.tracebacks import explained
from cutedialect.choosing.choose import Rejection, choose
from cutedialect.choosing.gemm_problem import VECTOR, Problem, warpgroups
from cutedialect.choosing.gemm_schedules import GEMM_SPACE
from cutedialect.schedule import Schedule, replace_set

from .doors import Door
from .dtypes import DType, f16, f32, f64, i32
from .fitting import Memory, fitted, note_prices
from .gemm_declaration import GEMM
from .gemm_operands import (
    EIGHT_BIT_FLOATS,
    MOST_BLOCK,
    PITCH,
    as_number,
    check_precision,
    check_types,
    expanded,
    has_tcgen05,
    has_wgmma,
    is_widened,
    pitch_of,
    refuse_array,
    transposed,
)
from .gemm_scales import (
    BLOCK,
    Panels,
    Scale,
    argument_of,
    check_tile,
    fold_numbers,
    number_of,
    panel_facts,
    panel_tile,
    scale_constants,
    scales_on,
    view_of,
)
from .gemm_tile import default_tile
from .gemm_weights import split_texts, unwrap, weights_of
from .kernel import ScalarSpec, TensorSpec
from .launch import (
    as_schedule,
    check_arch,
    compile_kernel,
    default_arch,
    device_for,
    spec_of,
)
from .library.split_gemm import DEPTH
from .packed import Packed
from .ready_call import Ready
from .rules import Checked, Operand, tile_of

# The arrays of a call, and their places.
ARRAYS = ("a", "b", "c", "bias", "out", "scale_a", "scale_b", "zero_b", "aux")
_A, _B, _C, _BIAS, _OUT, _SCALE_A, _SCALE_B, _ZERO, _AUX = range(9)


@dataclass
class ReadyCall(Ready):
    """A call of `cute.gemm` after its checks.

    `broadcasts` are the operands (0 a, 1 b, 2 c) whose batch dimensions broadcast to a shape.
    With `turns_b` the kernel takes B^T.
    """

    OUT = _OUT
    WRITTEN = (_OUT, _AUX)

    broadcasts: tuple[tuple[int, tuple[int | None, ...]], ...] = ()
    swapped: bool = False
    takes_alpha: bool = True
    takes_c: bool = False
    scales: tuple[Scale | None, Scale | None] | None = None
    zero: Scale | None = None
    turns_b: bool = False

    def numbers(self, *given: float) -> tuple[float, ...]:
        alpha, beta = given
        if self.takes_c:
            return (alpha, beta) if self.takes_alpha else (beta,)
        return (alpha,) if self.takes_alpha else ()

    def named(self, arrays: Sequence[Any], shown: Callable[[str], str] = str) -> list[Named]:
        """Both outputs may be c: of a tile it is read before either is written."""
        given = dict(zip(ARRAYS, arrays, strict=True))
        if not self.takes_c:
            given["c"] = None
        c = None if given["c"] is None else shown("c")
        written = {"out": c, "aux": c}
        return [
            Named(shown(name), x, name in written, written.get(name)) for name, x in given.items()
        ]

    def about(self, arrays: Sequence[Any]) -> dict[str, Any]:
        return {"updated": _C if self.takes_c else None}

    def places(self, arrays: Sequence[Any]) -> list[int]:
        places = [_A, _B] if not self.swapped else [_B, _A]
        if self.takes_c:
            places.append(_C)
        places += [_BIAS, _OUT]
        if self.scales is not None:
            places += [_SCALE_B, _SCALE_A] if self.swapped else [_SCALE_A, _SCALE_B]
        return [*places, *([_ZERO] if self.zero is not None else []), _AUX]

    def arguments(
        self,
        arrays: Sequence[Any],
        numbers: tuple[Any, ...],
        viewed: Callable[[Scale, Any, bool], Any] = view_of,
    ) -> list[Any]:
        a, b, c, bias, result, scale_a, scale_b, zero, aux = arrays
        alpha, beta = numbers
        given = [a, b, c if self.takes_c else None]
        for position, shape in self.broadcasts:
            given[position] = expanded(given[position], shape)
        if self.swapped:
            given = [each if each is None else transposed(each) for each in given]
            given[:2] = given[1::-1]
        if self.turns_b:
            given[1] = transposed(given[1])
        given += [bias, transposed(result) if self.swapped else result]
        given += [alpha if self.takes_alpha else None, beta if self.takes_c else None]
        pairs = zip(self.scales or (None, None), (scale_a, scale_b), strict=True)
        scales = [None if each is None else viewed(each, x, self.swapped) for each, x in pairs]
        given += scales[::-1] if self.swapped else scales
        given.append(None if self.zero is None else viewed(self.zero, zero, self.swapped))
        return [*given, transposed(aux) if self.swapped and aux is not None else aux]


class Product:
    """What one product and several in a launch have alike: how a schedule is chosen for them."""

    given: SimpleNamespace
    # What spilled is remembered of, beside the class of the first problem.
    family = ""

    @property
    def taking(self) -> list[GemmCall]:
        """The problems with an output, that which decides types first."""
        raise NotImplementedError

    def known(self) -> Sequence[TensorSpec] | None:
        """What holds for a and b of all problems, where that is less than what each one tells."""
        return None

    def prepared_with(self, given: Schedule | None, arch: str, backend: str) -> Any:
        """Compile (or find) the kernel with a schedule as it is; none without an output."""
        raise NotImplementedError

    def scheduled(
        self, given: Schedule | None, arch: str, rejected: Sequence[Rejection]
    ) -> Schedule | None:
        """What suits the problems, on top of what is given, although some were rejected."""
        space = self.space(given, arch)
        return given if space is None else choose(*space, given, rejected)

    def kept(self, arch: str) -> Schedule | None:
        """What tuning found."""
        return None

    def prepare(self) -> Any:
        """Compile (or find) the kernel; what a schedule leaves open is chosen."""
        asked, backend = as_schedule(self.given.schedule), self.given.backend
        arch = self.given.arch or default_arch(backend)

        def prepared(given: Schedule | None, chosen: Schedule | None) -> Any:
            return self.prepared_with(chosen or self.scheduled(given, arch, ()), arch, backend)

        def choice(given: Schedule | None) -> Any:
            return self.space(given, arch) and partial(self.scheduled, given, arch)

        def problem() -> str:
            from .gemm_tuning import kernel_class

            return f"{self.family}{kernel_class(self.taking[0])}"

        memory = Memory(problem, arch)
        ready = fitted(prepared, choice, asked, backend, memory, partial(self.kept, arch))
        if (space := self.space(asked, arch)) and not space[1][0].in_tensor_memory:
            note_prices(ready.kernel, device_for(arch))
        return ready

    def space(
        self, given: Schedule | None, arch: str
    ) -> tuple[Space[Any, Schedule], tuple[Problem, ...]] | None:
        """Where the schedule is chosen, and what for; None where it stays as it is given."""
        taking, specs = self.taking, self.known()
        if not taking or (given is not None and (given.tile is not None or given.is_uniform)):
            return None
        first = taking[0]
        check_arch(arch)
        check_types(first.a, first.b, arch)
        in_registers = first.takes_wgmma(arch, specs)
        if not (in_registers or first.takes_tcgen05(arch)):
            return None
        problems = tuple(call.problem(specs, arch) for call in taking)
        # Schedules in tensor memory are of operands that TMA brings, and say how they multiply.
        leaves = problems[0].align >= VECTOR and (given is None or given.leaves_multiplies)
        return (GEMM_SPACE, problems) if in_registers or leaves else None


class GemmCall(Checked, Product):
    """The checked arguments of one call."""

    call = GEMM
    a: Operand
    b: Operand
    c: Operand | None
    bias: Operand | None
    out: Operand | None
    aux: Operand | None
    acc_dtype: DType
    scales: tuple[Scale | None, Scale | None]
    zero: Scale | None
    promotes: bool

    def __init__(self, given: SimpleNamespace) -> None:
        """`given` are the arguments of a declared call, as `normalized` leaves them."""
        self.is_scaled, self.splits = given.is_scaled, given.splits
        self.scale_values = given.scale_a, given.scale_b
        self.zero_value, self.zero_number = given.zero_b, given.zero_number
        texts = getattr(given, "packed_a", None), given.packed_b
        self.packing_text, self.six_texts = split_texts(texts) if any(texts) else (None, texts)
        # Where a result of integers takes no factor, the epilogue computes in its type.
        self.activation = given.activation
        self.swapped = False
        super().__init__(given)

    @property
    def k(self) -> int | None:
        """The depth."""
        return self.extents["K"]

    @property
    def has_zero(self) -> bool:
        """Whether something else than 0 stands for 0 in b."""
        return self.zero_value is not None or self.zero_number != 0

    @classmethod
    def of(cls, given: SimpleNamespace) -> GemmCall:
        """The call with the arguments of `cute.gemm`, scales that are numbers among them."""
        return cls(normalized(given))

    @property
    def taking(self) -> list[GemmCall]:
        return [] if 0 in self.out_shape else [self]

    def scheduled(
        self, given: Schedule | None, arch: str, rejected: Sequence[Rejection]
    ) -> Schedule | None:
        return schedule_of(self, given, arch, rejected)

    def kept(self, arch: str) -> Schedule | None:
        """What tuning found for such a call."""
        from .gemm_tuning import kept_schedule

        return kept_schedule(self, arch)

    def prepared_with(self, given: Schedule | None, arch: str, backend: str) -> ReadyCall:
        """Compile (or find) the kernel with a schedule as it is; an empty output has none."""
        if 0 in self.out_shape:
            return ReadyCall(None, self.out_shape, self.out_dtype)
        check_arch(arch)
        check_types(self.a, self.b, arch)
        if self.has_panels:
            self.scales = scales_on(self.scales, arch)
        self.swapped = given is not None and given.swap_ab == "yes"
        ready = self.ready(None)
        options = self.constants(given, arch)
        options |= {"arch": arch, "schedule": given, "backend": backend}
        kernel = compile_kernel(self.program(), self.arguments(ready), options)
        return replace(ready, kernel=kernel)

    def program(self) -> Any:
        """The tile program that computes the call."""
        if not self.splits:
            from .library.gemm import program_for

            return program_for(self.activation)
        from .library.split_gemm import split_program_for

        return split_program_for(self.activation)

    def ready(self, kernel: Kernel | None) -> ReadyCall:
        """What a warm call needs to run a kernel."""
        batch = self.out_shape[:-2]
        broadcasts = tuple(
            (position, (*batch, *operand.held[-2:]))
            for position, operand in enumerate((self.a, self.b, self.c))
            if operand is not None and operand.shape[:-2] != batch
        )
        return ReadyCall(
            kernel,
            self.out_shape,
            self.out_dtype,
            broadcasts,
            swapped=self.swapped,
            takes_alpha=self.takes_alpha,
            takes_c=self.c is not None,
            scales=self.scales if self.is_scaled else None,
            zero=self.zero,
            turns_b=self.splits,
        )

    @property
    def takes_alpha(self) -> bool:
        """Whether the kernel multiplies by a run-time number: not where results are integers."""
        return self.acc_dtype.kind == "f" or self.is_scaled or self.out_dtype.kind == "f"

    @property
    def epilogue_dtype(self) -> DType:
        """The type in which the epilogue computes."""
        if self.acc_dtype == f16 or (self.takes_alpha and self.acc_dtype == i32):
            return f32
        return self.acc_dtype

    def new_output(self) -> TensorSpec:
        """What is known of an output that `output` makes: row-major, from an aligned base."""
        row = (self.out_shape[-1] or 16) * self.out_dtype.bits // 8
        rows = self.out_shape[-2]
        single = rows == 1 and all(extent == 1 for extent in self.out_shape[:-2])
        align = 16 if single else min(16, row & -row)
        # Other rows than a single one are no whole number of 16 bytes where they are not aligned.
        has_tail = single and (self.out_shape[-1] is None or row % 16 != 0)
        return TensorSpec(self.out_shape, self.out_dtype, align=align, has_tail=has_tail)

    @property
    def result(self) -> Any:
        """The output, or its spec."""
        return self.new_output() if self.out is None else self.out.value

    def takes_tcgen05(self, arch: str) -> bool:
        """Whether accumulators are in tensor memory, with the schedules chosen for that."""
        types = self.a.dtype, self.b.dtype, self.acc_dtype
        if self.has_panels:
            return target(arch).tmem_columns > 0
        return not (self.promotes or self.splits) and has_tcgen05(*types, arch)

    @property
    def has_panels(self) -> bool:
        """Whether tensor cores multiply blocks by their scales."""
        return any(isinstance(scale, Panels) for scale in self.scales)

    def problem(self, specs: Sequence[TensorSpec] | None = None, arch: str = "sm_90a") -> Problem:
        """What a schedule is chosen for; specs as in `takes_wgmma`."""
        m, n, k = (_LARGE if x is None else x for x in (*self.out_shape[-2:], self.k))
        batch = prod(1 if extent is None else extent for extent in self.out_shape[:-2])
        out = spec_of(self.result, "out")
        assert isinstance(out, TensorSpec)
        a, b = specs or self.specs()
        problem = Problem(
            m, n, k, batch, self.a.dtype.bits, self.out_dtype.bits,
            transposed=self._transposed(specs), across=self._across_k(specs),
            align=min(a.align, b.align), out_align=out.align,
            pitches=(pitch_of(self.a, a), pitch_of(self.b, b)),
            takes_clusters=self.acc_dtype.bits == _SUMMED_BITS,
            is_plain=self.c is self.bias is self.aux is None
            and not (self.is_scaled or self.zero) and self.activation in (None, "relu"),
            weight_bits=self.b.dtype.bits if is_widened(self.a.dtype, self.b.dtype) else 0,
            packed=self.packing_text is not None, device=device_for(arch),
        )  # fmt: skip
        if self.splits:
            # Panels of both parts of either operand, with lines of their own.
            problem = replace(
                problem, k=3 * k, most_values=_MOST_SPLIT, blocks=(0, 0, DEPTH), align=16,
                pitches=(PITCH, PITCH), across=(False, False), transposed=(False, False),
                takes_clusters=False,
            )  # fmt: skip
        elif self.has_panels:
            problem = replace(problem, **panel_facts(self.a.dtype, self.scales))
        elif self.promotes:
            problem = replace(
                problem,
                most_values=_MOST_OF_WEIGHTS if problem.widens else _MOST_PROMOTED,
                blocks=self._blocks(),
                may_shift=False,
                promotes=not problem.widens,
            )
        return problem

    def specs(self) -> tuple[TensorSpec, TensorSpec]:
        """What is known of a and b."""
        a, b = (spec_of(operand.value, operand.name) for operand in (self.a, self.b))
        assert isinstance(a, TensorSpec)
        assert isinstance(b, TensorSpec)
        return a, b

    def takes_wgmma(self, arch: str, specs: Sequence[TensorSpec] | None = None) -> bool:
        """Whether warpgroups multiply the operands with the schedules of the list.

        specs: what is known of a and b, where it is less than what the arrays tell.
        """
        if not has_wgmma(self.a.dtype, self.b.dtype, self.acc_dtype, arch):
            return False
        if self.splits:
            return True
        if 0 < self._group < MOST_BLOCK:
            # A line of 128 bytes has elements of several groups.
            return False
        if is_widened(self.a.dtype, self.b.dtype) and self.k in (0, 1):
            # The transposed product takes b from registers; one row may count as a column.
            return False
        # Elements of other than 16 bits have to be contiguous along K (PTX ISA 9.7.15.5.1). They
        # become so in shared memory, or words of A in registers; bytes that begin at less than 4,
        # and f32 that TMA does not round, leave few registers on their way there.
        if self.a.dtype.bits == 16 or not any(self._across_k(specs)):
            return True
        align = min(spec.align for spec in specs or self.specs())
        return align >= _LEAST_TRANSPOSED_ALIGN[self.a.dtype.bits]

    def _across_k(self, specs: Sequence[TensorSpec] | None) -> tuple[bool, bool]:
        """Whether a and b are contiguous along another dimension than K."""
        a, b = (
            spec.contiguous not in (None, len(spec.shape) + along_k)
            for spec, along_k in zip(specs or self.specs(), (-1, -2), strict=True)
        )
        return a, b

    def _transposed(self, specs: Sequence[TensorSpec] | None) -> tuple[bool, bool]:
        """Whether tiles of a and b are transposed in shared memory for multiplies of warpgroups."""
        return self._across_k(specs) if self.a.dtype.bits != 16 else (False, False)

    def constants(
        self,
        schedule: Schedule | None,
        arch: str,
        specs: Sequence[TensorSpec] | None = None,
        extents: tuple[int | None, int | None] | None = None,
    ) -> dict[str, object]:
        """Compile-time parameters of the tile program, for given specs and (M, N) if not this
        problem's.
        """
        tile = tile_of(schedule)
        if tile is None:
            adds = self.c is not None or (schedule is not None and schedule.adds_in_order)
            tile = self._default_tile(arch, specs, extents or self.out_shape[-2:], adds)
        spans = [(0, 0) if x is None else x.spans for x in (*self.scales, self.zero)]
        if self.swapped:
            spans = [spans[1][::-1], spans[0][::-1], spans[2][::-1]]
        if self.splits and tile[2] != DEPTH:
            raise ValueError(f"schedule: expected depth {DEPTH} for precision='3xtf32', got {tile}")
        if self._shares_scales():
            check_tile(tile, (spans[0][0], spans[1][1], self._group))
        scales = tile, self.scales, schedule, arch, self.a.dtype.bits
        return {
            "tile": tile,
            "acc_dtype": self.acc_dtype,
            "epilogue_dtype": self.epilogue_dtype,
            "swapped": self.swapped,
            "promotes": self.promotes or self._promotes_freely(tile, schedule, arch, specs),
            "spans": tuple(spans),
            **(scale_constants(*scales) if any(self.scales) else {}),
            **(weights_of(self, tile) if self._packs() else {}),
        }

    def _packs(self) -> bool:
        return any((self.packing_text, self.zero_number, *self.six_texts))

    def _shares_scales(self) -> bool:
        return not self.has_panels and (self.is_scaled or self.promotes or self.zero is not None)

    @property
    def _group(self) -> int:
        """Elements of K that share scales and zeros, and whose products are summed apart; 0 for
        all.
        """
        spans = [
            x.spans[mode] for x, mode in zip((*self.scales, self.zero), (1, 0, 0), strict=True) if x
        ]
        return min([each for each in spans if each > 1] or [BLOCK if self.promotes else 0])

    def _default_tile(
        self,
        arch: str,
        specs: Sequence[TensorSpec] | None,
        extents: Sequence[int | None],
        adds: bool,
    ) -> tuple[int, int, int]:
        """The tile of a call whose schedule has none; `adds` says that another one is added."""
        align = 16 if self.splits else min(spec.align for spec in specs or self.specs())
        chip = target(arch)
        has_tensor_memory = chip.tmem_columns > 0
        m, n = extents
        if self.has_panels:
            return panel_tile(self.a.dtype, arch)
        tile = default_tile(self.a.dtype, m, n, chip.smem_per_cta, align, adds, has_tensor_memory)
        if not (self.promotes or self.splits):
            if self.packing_text is None:
                return tile
            # Whole blocks of packed elements, of groups that share zeros.
            return tile[0], max(tile[1], MOST_BLOCK), min(self._group or MOST_BLOCK, MOST_BLOCK)
        rows = 64 if self.splits and not has_tensor_memory else 128
        # Weights that become wider take registers, as many as a step is deep.
        is_weight = is_widened(self.a.dtype, self.b.dtype)
        group = min(self._group, MOST_BLOCK) if is_weight else self._group
        return min(tile[0], rows), min(tile[1], 64), DEPTH if self.splits else group

    def _promotes_freely(
        self,
        tile: tuple[int, ...],
        schedule: Schedule | None,
        arch: str,
        specs: Sequence[TensorSpec] | None,
    ) -> bool:
        """Whether fp8 sums leave the tensor cores after each trip, though they need not: where the
        depth is long, and a thread has so few that it adds them while memory is waited for.
        """
        if (
            self.a.dtype not in EIGHT_BIT_FLOATS
            or schedule is None
            or schedule.tile is None
            or (self.k is not None and self.k <= _LONG_SUM)
            or not self.takes_wgmma(arch, specs)
        ):
            return False
        return tile[0] * tile[1] <= _FREELY_PROMOTED * 128 * warpgroups(schedule)

    def _blocks(self) -> tuple[int, int, int]:
        """What the extents of a tile whose products are promoted have to divide, 0 for any."""
        spans = [(0, 0) if scale is None else scale.spans for scale in self.scales]
        rows, columns = spans[0][0], spans[1][1]
        return rows if rows == BLOCK else 0, columns if columns == BLOCK else 0, self._group

    def arguments(self, ready: ReadyCall, viewed: Callable[..., Any] = argument_of) -> list[Any]:
        """What the program is compiled for; scales as they are `viewed`."""
        number = ScalarSpec(f64 if self.acc_dtype == f64 else f32)
        a, b, c, bias, aux = (x and x.value for x in (self.a, self.b, self.c, self.bias, self.aux))
        arrays = a, b, c, bias, self.result, *self.scale_values, self.zero_value, aux
        return ready.arguments(arrays, (number, number), viewed)


def schedule_of(
    call: GemmCall, given: Schedule | None, arch: str, rejected: Sequence[Rejection] = ()
) -> Schedule | None:
    """`given`, on top of what suits the problem where warpgroups or tcgen05 multiply, although some
    schedules were rejected.
    """
    left = _without_defaults(call, given, arch)
    space = call.space(left, arch)
    if space is None:
        return given
    chosen = choose(*space, left, rejected)
    return chosen if left is given else chosen.merged(given)


# How a product is cut, shared and multiplied: what decides of a schedule in a space.
_DECIDING = (
    "tile", "warps", "cluster", "split_k", "reduction", "swap_ab", "roles", "scheduler", "mma",
    "atom", "loads",
)  # fmt: skip


def _without_defaults(call: GemmCall, given: Schedule | None, arch: str) -> Schedule | None:
    """What is left of a schedule without the fields that say what the default is anyway, where it
    says nothing else of how the product is cut and multiplied; else all of it.
    """
    if given is None or all(getattr(given, name) is None for name in _DECIDING):
        return given
    space = call.space(None, arch)
    if space is None:
        return given
    default = _with_roles(choose(*space), call.takes_wgmma(arch))
    same = {name: None for name in _DECIDING if given.agrees(default, name)}
    left = replace_set(given, same)
    return left if all(getattr(left, name) is None for name in _DECIDING) else given


def _with_roles(schedule: Schedule, by_warpgroups: bool) -> Schedule:
    """A schedule that is chosen with what passes add of how the product is cut and multiplied."""
    assert schedule.tile is not None
    teams = schedule.plan.teams
    warps = (
        multiplying_warps(schedule.tile, teams) if by_warpgroups else reading_warps(schedule.tile)
    )
    return Schedule(warps=warps, roles="specialized", scheduler="persistent").merged(schedule)


# Accumulators of a thread that leave room for as many that are promoted (64 x 192 a warpgroup), and
# those that are without being asked, of sums that are longer: up to there tensor cores lose no more
# than rounding the result to bf16 does.
_MOST_PROMOTED = 96
# The same beside weights that become wider in registers (64 x 128).
_MOST_OF_WEIGHTS = 64
# The same for as many stages of four tiles as hide their loads.
_MOST_SPLIT = 64
_FREELY_PROMOTED = 32
_LONG_SUM = 1024
_LEAST_TRANSPOSED_ALIGN = {8: 4, 32: 16}
_SUMMED_BITS = 32  # of the sums that the CTAs of a cluster add up
_LARGE = 4096  # what a run-time extent counts as


def normalized(given: SimpleNamespace) -> SimpleNamespace:
    """The arguments with scales that are numbers as factors of alpha, and what is asked of them."""
    precision = given.precision
    given.splits = precision is not None and check_precision(precision, given.a)
    return with_numbers(given)


def with_numbers(given: SimpleNamespace) -> SimpleNamespace:
    """The same without a look at operands, which may have no memory: a derivative's factors."""
    if Packed in (type(getattr(given, name, None)) for name in "ab"):
        unwrap(given)
    given.zero_number = 0.0
    if given.zero_b is not None and (zero := number_of(given.zero_b)) is not None:
        given.zero_number, given.zero_b = zero, None
    given.alpha, given.beta = as_number("alpha", given.alpha), as_number("beta", given.beta)
    given.is_scaled = given.scale_a is not None or given.scale_b is not None
    if given.is_scaled:
        folded = fold_numbers(given.alpha, given.scale_a, given.scale_b)
        given.alpha, given.scale_a, given.scale_b = folded
    return given


def _of_tiles(given: dict[str, Any]) -> None:
    """`gemm` inside a kernel."""
    from .functions import tile_gemm

    acc = given["acc"]
    refuse_array("acc", acc, "an array that is added is c=..., with beta=1.0")
    of_arrays = {each.name: given[each.name] for each in GEMM.of_arrays}
    of_tiles = {name: given[name] for name in ("tiled", "atom", "negate", "sums")}
    tile_gemm(given["a"], given["b"], acc, **of_tiles, of_arrays=of_arrays)


_INSTEAD = {
    "tiled": "schedule=cute.Schedule(mma=...)",
    "atom": "schedule='atom = ...'",
    "negate": "alpha=-1",
    "sums": "a.sum(-1)",
}
"""What arrays take in the place of what tiles do."""


def _refuse_of_tiles(*named: object) -> NoReturn:
    names = (name for name, value in zip(_INSTEAD, named, strict=False) if value is not None)
    name = next(names, "sums")
    instead = _INSTEAD[name]
    with explained():
        raise TypeError(f"{name}: expected it inside a kernel only; here take {instead}")


door: Door[GemmCall, ReadyCall] = Door(GEMM, GemmCall.of)

if TYPE_CHECKING:
    from cutedialect.choosing.space import Space

    from .typed_calls import gemm
else:
    gemm = door.function(
        __name__,
        {
            "as_number": as_number,
            "check_precision": check_precision,
            "fold_numbers": fold_numbers,
            "number_of": number_of,
            "Packed": Packed,
            "of_tiles": _of_tiles,
            "refuse_of_tiles": _refuse_of_tiles,
        },
    )
