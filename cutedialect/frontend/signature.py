"""A call of the library as data: its parameters, what decides a kernel, and what a kernel takes.
The functions of arrays, of `cute.compile`, of torch and of JAX are made of it.
"""

from __future__ import annotations

import inspect
import linecache
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from .dtypes import DType


# Rows are told apart by identity: to define comparisons of their fields takes time in each import.
@dataclass(frozen=True, eq=False)
class Kind:
    """What a parameter takes: its type, `{tensor}` for an array of the library that is called, and
    its types in a schema of torch, `{0}` for its name. An array is none of a key; what another
    argument is of it is `key`.
    """

    type: str
    schema: tuple[str, ...] = ()
    is_array: bool = False
    is_written: bool = False
    is_of_tiles: bool = False
    key: str = "{0}"

    @property
    def is_list(self) -> bool:
        """Whether it is a list of arrays."""
        return self.type.startswith("Sequence")


TENSOR = Kind("{tensor}", ("Tensor {0}",), is_array=True)
OPTIONAL = Kind("{tensor} | None", ("Tensor? {0}=None",), is_array=True)
TENSOR_OR_NONE = Kind("{tensor} | None", ("Tensor? {0}",), is_array=True)
SCALE = Kind("{tensor} | float | None", ("Tensor? {0}=None", "float? {0}=None"), is_array=True)
OFFSETS = Kind("tuple[{tensor}, {tensor}] | None", ("Tensor? {0}=None",) * 2, is_array=True)
OUTPUT = Kind("{tensor} | None", is_array=True, is_written=True)
TENSORS = Kind("Sequence[{tensor}]", ("Tensor[] {0}",), is_array=True)
SOME_TENSORS = Kind("Sequence[{tensor}] | None", ("Tensor[]? {0}=None",), is_array=True)
SCALES = Kind(
    "Sequence[{tensor}] | float | None", ("Tensor[]? {0}=None", "float? {0}=None"), is_array=True
)
SOME_TENSORS_WRITTEN = Kind("Sequence[{tensor}] | None", is_array=True, is_written=True)
NUMBER = Kind("float", ("float {0}={1}",))
SOME_NUMBER = Kind("float | None", ("float? {0}=None",))
COUNT = Kind("int | None", ("int? {0}=None",))
GROUPS = Kind("int", ("int {0}={1}",))
_HASHED = "tuple({0}) if isinstance({0}, list) else {0}"
PAIR = Kind("int | tuple[int, int]", ("int[2] {0}={1}",), key=_HASHED)
SIZE = Kind("int | tuple[int, int]", ("int[2] {0}",), key=_HASHED)
FLAG = Kind("bool", ("bool {0}={1}",))
WINDOW = Kind("tuple[int, int] | None", ("int[]? {0}=None",))
DTYPE = Kind("object", ("ScalarType? {0}=None",))
ACTIVATION = Kind(
    "Activation | Callable[..., Any] | None",
    ("str? {0}=None",),
    key="exact({0}) if callable({0}) else {0}",
)
PRECISION = Kind("Precision | None", ("str? {0}=None",))
BLOCK_FORMAT = Kind("BlockFormat", ("str {0}",))
ROUNDING = Kind("Rounding | None", ("str? {0}=None",))
PACKING = Kind("str | None", ("str? {0}=None",))
ARCH = Kind("Arch | None", ("str? {0}=None",))
SCHEDULE = Kind("Schedule | str | None", ("str? {0}=None",))
BACKEND = Kind("Backend", ("str {0}={1}",))
# What other calls ask of the result, what a launch takes, and what tiles of a kernel take.
RESULT = Kind("bool")
OPERANDS = Kind("str", ("str {0}={1}",))
STREAM = Kind("Any")
TILE = Kind("Tile", is_of_tiles=True)
ATOM = Kind("str | None", is_of_tiles=True)
TILED = Kind("TiledMma | str | None", is_of_tiles=True)
NEGATED = Kind('Literal["a", "b", "ab"] | None', is_of_tiles=True)
SUMS = Kind("bool", is_of_tiles=True)

REQUIRED = inspect.Parameter.empty
# The modes in front of those that have names.
BATCH = "..."


@dataclass(frozen=True, eq=False)
class Parameter:
    """An argument: what is `said` of it, and what to write for it `inside` a kernel. `key` is what
    it is of a key, in terms of the names of the function, where its kind does not say. In torch's
    operators, whose arguments keep their places, those that are `late` stand behind the others.
    `modes` are the names of an array's modes; those of one name have one extent, `...` are batches.
    `rank` is what is said of another number of modes; `dtypes` are its types, none for any.
    """

    name: str
    kind: Kind
    default: Any
    said: str
    inside: str | None = None
    key: str = ""
    is_positional: bool = False
    is_late: bool = False
    modes: str = ""
    rank: str = ""
    dtypes: tuple[str, ...] = ()


# What all calls take, and what is said of results.
_OF_THE_CALL = "that of the call of the kernel"
LAUNCH = (
    Parameter("arch", ARCH, None,
              'the target, such as "sm_90a"; that of the device by default',
              _OF_THE_CALL),
    Parameter("schedule", SCHEDULE, None, "how it is computed, a `Schedule` or its text",
              "that of the call of the kernel, and tiled= for one multiply"),
    Parameter("backend", BACKEND, "auto", "what runs it", _OF_THE_CALL),
    Parameter("stream", STREAM, None, "the stream of the launch", _OF_THE_CALL),
)  # fmt: skip
OF_OUT = "the array that gets the result; it overlaps no other array"
OF_DTYPE = "the element type of the result"
OF_ARRAYS = tuple(replace(each, inside=None) for each in LAUNCH)


@dataclass(frozen=True, eq=False)
class Output:
    """A result, its named modes, the argument that asks for it, if it is not always there, and its
    type, if that is not the `out_dtype` of the checked call.
    """

    name: str
    modes: str
    asked: str = ""
    dtype: DType | None = None


@dataclass(frozen=True, eq=False)
class Part:
    """Modes that devices may part: each computes its share of them, by the same call. Of several
    modes, such as heads of queries and of keys, each device has whole shares. Results that lack the
    modes are sums to be added. `holds` says of the arguments by name whether that is so.
    """

    modes: tuple[str, ...]
    holds: Callable[[Mapping[str, Any]], bool] = lambda given: True


def operator_names(row: Parameter) -> tuple[str, ...]:
    """What an argument is called in an operator of torch, and in a call of XLA."""
    if row.kind is OFFSETS:
        return "q_offsets", "k_offsets"
    if row.kind in (SCALE, SCALES):
        return row.name, row.name.replace("scale", "factor").replace("zero", "offset")
    return (row.name,)


def offsets(name: str, value: Any) -> tuple[Any, Any]:
    """The two arrays of packed sequences."""
    if value is None:
        return None, None
    if not isinstance(value, tuple | list) or len(value) != 2:
        kind = type(value).__name__
        raise TypeError(f"{name}: expected (q_offsets, k_offsets), got {kind}")
    return value[0], value[1]


def shown(default: object) -> str:
    """A default as a schema writes it."""
    return f"'{default}'" if isinstance(default, str) else repr(default)


def written(text: str, name: str, file: str, names: dict[str, Any], doc: str) -> Any:
    """The function of a name that a text defines, in a file of its own beside `file`."""
    path = os.path.join(os.path.dirname(os.path.abspath(file)), f"<{name}>")
    linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    exec(compile(text, path, "exec"), names)
    names[name].__doc__ = doc
    return names[name]


@dataclass(frozen=True, eq=False)
class Call:
    """A function of arrays.

    prepared: the arrays in the order in which a prepared call takes them, as expressions, where
    that is not the declared one with the result behind the others. inside: the lines for tiles of a
    kernel, `{given}` for all arguments by name. unwraps: those that take arrays out of packed ones.
    before: the lines that normalize arguments in front of the key. numbers: those that the kernel
    may take, as an expression, and repeated: what a call of the same look is given of them.
    """

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    prepared: str = ""
    inside: str = ""
    unwraps: str = ""
    before: str = ""
    numbers: str = "()"
    repeated: str = "None"
    outputs: tuple[Output, ...] = ()
    # What has to hold, row by row, and what is expected of a mode that has another extent: with the
    # extent it should have, {want} as in {of}, an array of {of_shape}, and {got} in {shape}.
    rules: tuple[Any, ...] = field(default=(), repr=False)
    fits: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Extents of modes of the result that arrays do not have, of the arguments by name.
    sizes: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    # The array of places to which results are added as they come, where these have one mode.
    added: str = ""
    # The tile program, as "module:name", of a call whose kernel takes its arrays as they are.
    program: str = ""
    # The class of the call as `cute.autotune` takes it, as "module:name" beside the declarations.
    tunable: str = ""
    not_jax: tuple[str, ...] = ()
    # Whether arrays come first in torch's operators.
    leads_with_arrays: bool = True
    # The libraries that have a function of their own for it.
    libraries: tuple[str, ...] = ("torch", "jax")
    # What several devices may part.
    parts: tuple[Part, ...] = field(default=(), repr=False)

    @cached_property
    def by_name(self) -> dict[str, Parameter]:
        return {each.name: each for each in self.parameters}

    @cached_property
    def arrays(self) -> tuple[Parameter, ...]:
        return tuple(each for each in self.parameters if each.kind.is_array)

    @cached_property
    def placed(self) -> tuple[str, ...]:
        """The names of the arrays, the first result behind the others."""
        names = (each.name for each in self.arrays)
        return tuple(sorted(names, key=lambda name: name == self.outputs[0].name))

    @cached_property
    def is_single(self) -> bool:
        """Whether there is one result, beside those that are asked for."""
        return not self.is_of_lists and sum(not each.asked for each in self.outputs) == 1

    @cached_property
    def is_of_lists(self) -> bool:
        """Whether arrays and results are lists."""
        return any(each.kind.is_list for each in self.arrays)

    def results(self) -> Iterator[tuple[dict[str, bool], str]]:
        """The types of what the function returns, by the arguments that ask for results."""
        asking = dict.fromkeys(each.asked for each in self.outputs if each.asked)
        for is_asked in (False, True) if asking else (False,):
            values = dict.fromkeys(asking, is_asked)
            count = len([each for each in self.outputs if values.get(each.asked, True)])
            one = "list[{tensor}]" if self.is_of_lists else "{tensor}"
            yield values, one if count == 1 else f"tuple[{', '.join([one] * count)}]"

    def result_shapes(
        self, shapes: Mapping[str, Sequence[Any]], given: Mapping[str, Any] | None = None
    ) -> dict[str, tuple[Any, ...]]:
        """The shapes of all results of arrays of these shapes, which fit each other, in a call of
        some arguments.
        """
        extents: dict[str, Any] = {}
        batch: tuple[Any, ...] = ()
        for row in self.arrays:
            shape, modes = shapes.get(row.name), row.modes.split()
            if shape is None or not modes:
                continue
            if modes[0] == BATCH:
                modes = modes[1:]
                batch = _broadcast(batch, tuple(shape[: len(shape) - len(modes)]))
            for mode, extent in zip(modes, shape[len(shape) - len(modes) :], strict=True):
                extents.setdefault(mode, extent)
        if self.sizes is not None:
            extents |= self.sizes(given or {})
        return {
            each.name: tuple(
                extent
                for mode in each.modes.split()
                for extent in (batch if mode == BATCH else (extents[mode],))
            )
            for each in self.outputs
        }

    def operator(self) -> Iterator[tuple[str, str]]:
        """The arguments of torch's operator: (name, its text in a schema). A scale that is a number
        stands behind all scales, and the two arrays of offsets are arguments of their own.
        """
        rows = [x for x in self.taken("torch") if x.kind.schema]
        rows.sort(key=lambda x: (x.is_late, self.leads_with_arrays and not x.kind.is_array))
        factors: list[tuple[str, str]] = []
        for each in rows:
            names = operator_names(each)
            if factors and len(names) == 1:
                yield from factors
                factors = []
            texts = each.kind.schema
            named = [
                (name, text.format(name, shown(each.default)))
                for name, text in zip(names, texts, strict=True)
            ]
            yield from named if each.kind is OFFSETS else named[:1]
            factors += [] if each.kind is OFFSETS else named[1:]

    @cached_property
    def written(self) -> tuple[str, ...]:
        """The arrays that a call may write, that of the first result in front."""
        names = (each.name for each in self.arrays if each.kind.is_written)
        return tuple(sorted(names, key=lambda name: name != self.outputs[0].name))

    @cached_property
    def asked(self) -> dict[str, str]:
        """The further results that an argument asks for, with its name."""
        return {each.name: each.asked for each in self.outputs if each.asked}

    @cached_property
    def further(self) -> tuple[str, ...]:
        """The further results that operators of torch of their own have, `gemm_aux` for aux."""
        return (*self.written[1:], *self.asked) if self.is_single else ()

    def operators(self) -> Iterator[tuple[str, str]]:
        """The operators of torch that return their results: the further result, "" for none, and
        the schema behind the name.
        """
        arguments = ", ".join(text for _, text in self.operator())
        one = "Tensor[]" if self.is_of_lists else "Tensor"
        many = ", ".join(one for each in self.outputs if not each.asked)
        yield "", f"({arguments}) -> {f'({many})' if ',' in many else one}"
        for name in self.further:
            yield name, f"({arguments}) -> (Tensor, Tensor)"

    @cached_property
    def of_arrays(self) -> tuple[Parameter, ...]:
        """The parameters that tiles of a kernel do not have."""
        return tuple(each for each in self.parameters if each.inside is not None)

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The arrays that have to be given."""
        return tuple(each.name for each in self.parameters if each.default is REQUIRED)

    def taken(self, place: str) -> tuple[Parameter, ...]:
        """The parameters of the function of a "frontend", of what "compiles" without running, and
        of those of "torch" and "jax".
        """
        taken = self.parameters
        if place != "frontend":
            taken = tuple(x for x in taken if x.kind is not STREAM and not x.kind.is_of_tiles)
        if place == "jax":
            taken = tuple(x for x in taken if not x.kind.is_written and x.name not in self.not_jax)
        return taken

    def signature(self, place: str = "frontend", collects: bool = False) -> inspect.Signature:
        """The signature of a function; with `collects` it takes any names."""
        kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        made = [
            inspect.Parameter(
                each.name,
                kinds[each.is_positional or each.default is REQUIRED],
                default=each.default,
            )
            for each in self.taken(place)
        ]
        if collects:
            made.append(inspect.Parameter("unknown", inspect.Parameter.VAR_KEYWORD))
        return inspect.Signature(made)

    def given(self, *args: Any, **options: Any) -> SimpleNamespace:
        """The arguments of a call by name, with defaults; names that there are not are refused."""
        from .gemm_operands import refuse_unknown

        unknown = [name for name in options if name not in self.by_name]
        if unknown:
            refuse_unknown(self.name, unknown)
        bound = self.signature().bind(*args, **options)
        bound.apply_defaults()
        return SimpleNamespace(**bound.arguments)

    def key(self) -> Iterator[str]:
        """What decides the kernel and its checks beside the looks of the arrays, as expressions."""
        for each in self.parameters:
            is_part = not (each.kind.is_array or each.kind.is_of_tiles or each.kind is STREAM)
            if each.key or is_part:
                yield each.key or each.kind.key.format(each.name)


def _broadcast(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """What two shapes broadcast to."""
    short, long = sorted((one, other), key=len)
    rest = zip(short, long[len(long) - len(short) :], strict=True)
    return (*long[: len(long) - len(short)], *(y if x == 1 else x for x, y in rest))
