"""What has to hold for the arguments of a call, as rows that are checked in their order. What the
declaration says of an array, its named modes and its types, is checked alike for all calls, of
arrays and of `TensorSpec`s that are compiled for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, get_args

from cutedialect.backend.runtime.arrays import TensorArgument, tensor_argument
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.choices import Activation

from .dtypes import DType, as_dtype
from .kernel import TensorSpec
from .signature import BATCH

if TYPE_CHECKING:
    from cutedialect.schedule import Schedule

    from .signature import Call, Parameter

Extents = tuple[int | None, ...]


def differ(one: int | None, other: int | None) -> bool:
    """Whether two extents that may be unknown are known to differ."""
    return None not in (one, other) and one != other


def shapes_differ(one: Sequence[int | None], other: Sequence[int | None]) -> bool:
    """Whether two shapes are known to differ."""
    return len(one) != len(other) or any(map(differ, one, other))


def is_dense(shape: Sequence[int | None], strides: Sequence[int | None]) -> bool:
    """Whether strides may be those of a row-major array without gaps."""
    if 0 in shape:
        return True
    step: int | None = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and None not in (step, stride) and stride != step:
            return False
        step = None if extent is None or step is None else step * extent
    return True


@dataclass(frozen=True, eq=False)
class Operand:
    """An array or spec with the facts that shapes are checked on."""

    value: Any
    name: str
    shape: tuple[int | None, ...]
    dtype: DType
    array: TensorArgument | None

    @property
    def held(self) -> tuple[int | None, ...]:
        """The extents in memory, where integers may hold several elements."""
        return self.value.shape if self.array is None else self.array.shape


def as_operand(value: Any, name: str) -> Operand:
    """An array or spec as an operand; anything else raises TypeError."""
    if isinstance(value, TensorSpec):
        return Operand(value, name, value.shape, value.dtype, None)
    refuse_traced(value, name)
    try:
        array = tensor_argument(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
    if array is None:
        raise TypeError(f"{name}: expected an array, got {type(value).__name__}")
    return Operand(value, name, array.shape, as_dtype(array.dtype, name), array)


def refuse_traced(value: Any, name: str) -> None:
    """Refuse what only exists while a kernel is traced: an array call cannot run inside of one."""
    if not is_traced(value):
        return
    from .trace import error

    raise error(
        f"expected {name} to be an array, got a {type(value).__name__} of the kernel that is "
        "traced; inside a kernel tiles are multiplied by cute.gemm(a, b, acc) with an accumulator "
        "like cute.zeros((M, N), cute.f32), and code that kernels share is a plain Python function",
        code="CD-P11",
    )


def is_traced(value: object) -> bool:
    """Whether a value only exists while a kernel is traced."""
    return type(value).__module__.startswith(__package__ or "") and hasattr(value, "value")


def broadcast(one: Sequence[int | None], other: Sequence[int | None]) -> tuple[int | None, ...]:
    rank = max(len(one), len(other))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in (one, other)]
    result: list[int | None] = []
    for x, y in zip(*padded, strict=True):
        if x != y and 1 not in (x, y) and None not in (x, y):
            raise ValueError(
                f"b: expected batch dimensions that broadcast with {shown(tuple(one))} of a, "
                f"got {shown(tuple(other))}"
            )
        result.append(y if x == 1 else x)
    return tuple(result)


def shown(shape: Sequence[int | None]) -> str:
    """A shape as Python writes a tuple, `?` for a run-time extent."""
    inside = ", ".join("?" if extent is None else str(extent) for extent in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


class Checked:
    """The arguments of a call, checked: arrays as operands by their names, None where there is
    none, and what its rows find.
    """

    call: Call
    out_dtype: DType

    def __init__(self, given: SimpleNamespace) -> None:
        self.given = given
        self.extents: dict[str, int | None] = {}
        self.batch: Extents = ()
        # The first array that has a mode.
        self.first: dict[str, Operand] = {}
        for row in self.call.arrays:
            setattr(self, row.name, None)
        for rule in self.call.rules or default_rules(self.call):
            rule.check(self)

    def shape_of(self, modes: str) -> Extents:
        """The shape of an array with these modes."""
        return tuple(
            extent
            for mode in modes.split()
            for extent in (self.batch if mode == BATCH else (self.extents.get(mode),))
        )

    @property
    def out_shape(self) -> Extents:
        """The shape of the result."""
        return self.shape_of(self.call.outputs[0].modes)

    def lacks(self) -> str:
        """What is said of a call without results."""
        return f"an output with elements, got shape {shown(self.out_shape)}"


@dataclass(frozen=True, eq=False)
class Rule:
    """An argument, what must not be, and what is expected instead of what there is."""

    name: str
    is_broken: Callable[[Any], object]
    message: Callable[[Any], str]
    error: type[Exception] = ValueError

    def check(self, call: Any) -> None:
        if self.is_broken(call):
            raise self.error(f"{self.name}: expected {self.message(call)}")


@dataclass(frozen=True, eq=False)
class Fact:
    """What follows from arguments that are checked; `make` may refuse them."""

    name: str
    make: Callable[[Any], Any]

    def check(self, call: Any) -> None:
        setattr(call, self.name, self.make(call))


@dataclass(frozen=True, eq=False)
class Array:
    """An argument that is an array, of the rank and of a type that is declared; `of` makes the
    operand of a call, and `matters` says whether it is looked at.
    """

    name: str
    of: Callable[[Any], Operand] | None = None
    matters: Callable[[Any], bool] = lambda call: True

    def check(self, call: Any) -> None:
        row: Parameter = call.call.by_name[self.name]
        value = getattr(call.given, self.name)
        may_lack = self.of is None and row.kind.type.endswith("None")
        if (value is None and may_lack) or not self.matters(call):
            return
        operand = as_operand(value, self.name) if self.of is None else self.of(call)
        setattr(call, self.name, operand)
        modes = row.modes.split()
        has_batch = BATCH in modes
        check_array(operand, row.rank, len(modes) - has_batch, row.dtypes, has_batch)


def check_array(
    operand: Operand, words: str, rank: int, dtypes: tuple[str, ...], has_batch: bool = False
) -> None:
    """Refuse an array of another rank, in `words`, or of other types, if there are such."""
    count = len(operand.shape)
    if words and not (count >= rank if has_batch else count == rank):
        raise ValueError(f"{operand.name}: expected {words}, got shape {shown(operand.shape)}")
    if dtypes and operand.dtype.name not in dtypes:
        *most, last = dtypes
        types = f"{', '.join(most)} or {last}" if most else last
        raise TypeError(f"{operand.name}: expected {types}, got {operand.dtype.name}")


def counted(count: int | None) -> str:
    """So many numbers."""
    return "1 number" if count == 1 else f"{count} numbers"


@dataclass(frozen=True, eq=False)
class Fits:
    """An array whose modes have the extents of those of other arrays with their names. Batches of
    operands broadcast with each other, those of arrays that may be missing to what these have.
    """

    name: str
    modes: Callable[[Any], str] | None = None

    def check(self, call: Any) -> None:
        operand: Operand | None = getattr(call, self.name)
        if operand is None:
            return
        row: Parameter = call.call.by_name[self.name]
        names = (row.modes if self.modes is None else self.modes(call)).split()
        shape = operand.shape
        has_batch = BATCH in names
        if has_batch:
            names.remove(BATCH)
        if len(shape) < len(names) or (not has_batch and len(shape) > len(names)):
            self._refuse(call, row, operand)
        rest = len(shape) - len(names)
        for mode, extent in zip(names, shape[rest:], strict=True):
            if mode not in call.extents:
                call.extents[mode], call.first[mode] = extent, operand
            elif differ(extent, call.extents[mode]):
                self._refuse(call, row, operand, mode, extent)
        if has_batch and row.default is not None:
            call.batch = broadcast(call.batch, shape[:rest])
        elif has_batch and not self._broadcasts(shape[:rest], call.batch, row.kind.is_written):
            self._refuse(call, row, operand)

    @staticmethod
    def _broadcasts(batch: Extents, whole: Extents, is_written: bool) -> bool:
        """Whether batches broadcast to those of the operands; those that are written are these."""
        pairs = zip(batch[::-1], whole[::-1], strict=False)
        differs = any(differ(*pair) and (pair[0] != 1 or is_written) for pair in pairs)
        fits = len(batch) == len(whole) if is_written else len(batch) <= len(whole)
        return fits and not differs

    def _refuse(
        self, call: Any, row: Parameter, operand: Operand, mode: str = "", extent: int | None = None
    ) -> None:
        words = call.call.fits
        text = words.get(f"{self.name}.{mode}", words.get(mode, "")) if mode else ""
        if not text or (row.kind.is_written and mode):
            whole = shown(call.shape_of(row.modes))
            raise ValueError(f"{self.name}: expected shape {whole}, got {shown(operand.shape)}")
        want, first = call.extents[mode], call.first[mode]
        expected = text.format(
            want=want, count=counted(want), got=extent, shape=shown(operand.shape), of=first.name,
            of_shape=shown(first.shape),
        )  # fmt: skip
        raise ValueError(f"{self.name}: expected {expected}")


@dataclass(frozen=True, eq=False)
class Typed:
    """An array, where there is one, of one of some types."""

    name: str
    dtypes: Callable[[Any], Sequence[DType]] = lambda call: ()

    def check(self, call: Any) -> None:
        operand: Operand | None = getattr(call, self.name)
        if operand is not None:
            check_array(operand, "", 0, tuple(each.name for each in self.dtypes(call)))


@dataclass(frozen=True, eq=False)
class Shaped(Typed):
    """An array of the modes that are declared, and then of one of some types; one that is written
    is writable.
    """

    def check(self, call: Any) -> None:
        Array(self.name).check(call)
        Fits(self.name).check(call)
        super().check(call)
        array = getattr(getattr(call, self.name), "array", None)
        if array and call.call.by_name[self.name].kind.is_written and not array.writeable:
            raise ValueError(f"{self.name}: expected a writable array, got a read-only one")


def new_spec(shape: Extents, dtype: DType) -> TensorSpec:
    """What an array that is made for a call looks like: row-major, from an aligned base. Rows of
    unknown length are those of whole tiles.
    """
    row = (shape[-1] or 16) * dtype.bits // 8
    return TensorSpec(shape, dtype, align=min(16, row & -row))


def _is_unknown(call: Any) -> bool:
    activation = call.given.activation
    return not (activation is None or callable(activation) or activation in get_args(Activation))


ACTIVATIONS = ", ".join(map(repr, get_args(Activation)))
KNOWN_ACTIVATION = Rule(
    "activation",
    _is_unknown,
    lambda x: f"{ACTIVATIONS} or a function, got {x.given.activation!r}",
)


def result_type(default: Callable[[Any], DType]) -> Fact:
    """The element type of results: what is asked for, that of the array to write, or a default."""

    def out_dtype(call: Any) -> DType:
        asked, out = getattr(call.given, "out_dtype", None), getattr(call.given, "out", None)
        if asked is not None:
            return as_dtype(asked, "out_dtype")
        return default(call) if out is None else as_operand(out, "out").dtype

    return Fact("out_dtype", out_dtype)


def result_types(call: Any) -> tuple[DType]:
    """The type of results."""
    return (call.out_dtype,)


def default_rules(call: Call) -> tuple[Any, ...]:
    """The rows of a call of which no other ones are declared: its arrays fit each other, and the
    type of the result is that of the first of them where nothing else asks for one.
    """
    arrays = [each.name for each in call.arrays if not each.kind.is_written]
    return (
        *map(Array, arrays),
        *map(Fits, arrays),
        result_type(lambda x: getattr(x, call.operands[0]).dtype),
        *(Shaped(x.name, result_types) for x in call.arrays if x.kind.is_written),
    )


def tile_of(schedule: Schedule | None, extents: str = "M, N, K") -> tuple[int, ...] | None:
    """The tile of a schedule, if it has one, of a call whose tiles have these extents."""
    tile = None if schedule is None else schedule.tile
    if tile is not None and len(tile) != len(extents.split(",")):
        raise ValueError(f"schedule: expected a tile ({extents}), got {tile}")
    return tile


class Preparing(Protocol):
    """The checked arguments of a call."""

    @property
    def out_dtype(self) -> DType:
        """The element type of results."""
        ...

    def prepare(self) -> Any:
        """What runs the call, with its kernel."""
        ...

    def lacks(self) -> str:
        """What is expected, and what is there, of a call without a kernel."""
        ...


_C = TypeVar("_C", bound=Preparing)
_R = TypeVar("_R")


class Specified(Generic[_C, _R]):
    """A declared call whose arguments `check` checks, and what is compiled without running it."""

    def __init__(self, call: Call, check: Callable[[SimpleNamespace], _C]) -> None:
        self.call = call
        self.check = check
        self._defaults = {each.name: each.default for each in call.parameters}
        self._compiled = call.signature("compiles")

    def checked(self, *args: Any, **options: Any) -> _C:
        """The call with arrays or `TensorSpec`s."""
        try:
            bound = self._compiled.bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"{self.call.name}.compile(): {error}") from None
        bound.apply_defaults()
        return self.check(SimpleNamespace(**(self._defaults | bound.arguments)))

    def specified(self, *args: Any, **options: Any) -> tuple[_C, _R, Kernel]:
        """The same, what runs it, and its kernel."""
        checked = self.checked(*args, **options)
        ready: Any = checked.prepare()
        if ready.kernel is None:
            raise ValueError(f"{self.call.operands[0]}: expected {checked.lacks()}")
        return checked, ready, ready.kernel

    def compiled(self) -> Callable[..., Kernel]:
        """What gives the kernel alone of the same arguments, without running it."""

        def kernel_of(*args: Any, **options: Any) -> Kernel:
            """The kernel of a call, without running it."""
            return self.specified(*args, **options)[2]

        kernel_of.__signature__ = self._compiled  # type: ignore[attr-defined]
        return kernel_of
