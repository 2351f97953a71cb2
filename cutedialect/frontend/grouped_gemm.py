"""`cute.grouped_gemm`: matrix multiplies of different sizes in one kernel launch.

Every argument that is an array in `cute.gemm` is a list with one entry for each problem here; all
problems share types and options. The kernel is that of `cute.gemm`, traced on groups of tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cutedialect.atoms import target
from cutedialect.backend.runtime.aliasing import Named, check_aliases
from cutedialect.backend.runtime.arrays import call_key as argument_key
from cutedialect.backend.runtime.cuda import PreparedCall
from cutedialect.backend.runtime.jax_arrays import uses_jax
from cutedialect.backend.runtime.kept import Kept
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.torch_tensors import check_modes, mark_written, record_use
from cutedialect.backend.runtime.tracebacks import concise
from cutedialect.schedule import Schedule

from .doors import Door
from .dtypes import DType
from .gemm import ARRAYS, GemmCall, Product, ReadyCall, normalized
from .gemm_declaration import GROUPED_GEMM, LISTED_NAMES
from .gemm_operands import as_number, check_types
from .gemm_scales import fold_numbers, member_of, number_of, scales_on
from .kernel import GroupSpec, ScalarSpec, TensorSpec
from .launch import check_arch, compile_kernel, spec_of
from .packed import unpacked
from .ready_call import call_key
from .rules import as_operand

# What `cute.gemm` calls its arrays, to what they are here, in the order of `GemmCall`.
LISTS = {name: LISTED_NAMES.get(name, name) for name in ARRAYS}
_OUT = ARRAYS.index("out")
_CALLS_KEPT = 1024
# Calls on the same device arrays: each array is looked at once.
_repeated: Kept[object, PreparedCall] = Kept(_CALLS_KEPT)


def _equal_call(arguments: Sequence[Any], options: tuple[object, ...]) -> object:
    """What decides a launch on device arrays; None for others, and for options without a hash."""
    key = argument_key(arguments)
    try:
        hash(options)
    except TypeError:
        return None
    return None if key is None else (key, options)


def _again(prepared: PreparedCall, arrays: Sequence[Any], stream: Any) -> list[Any]:
    """A call on the same device arrays."""
    as_, bs, _, _, out, _, _, _, aux = arrays
    check_modes((as_, bs, out))
    prepared.repeat(stream)
    mark_written((out, aux))
    if stream is not None:
        record_use(arrays, stream)
    return list(out)


def _checked_lists(arrays: Sequence[Any]) -> dict[str, Sequence[Any] | None]:
    """The lists by their names, each as long as `as_` or None."""
    lists = dict(zip(LISTS.values(), arrays, strict=True))
    for name, values in lists.items():
        if values is None and name not in ("as_", "bs"):
            continue
        if not isinstance(values, list | tuple):
            raise TypeError(f"{name}: expected a list of arrays, got {type(values).__name__}")
        if len(values) != len(arrays[0]):
            raise ValueError(
                f"{name}: expected {len(arrays[0])} arrays as in as_, got {len(values)}"
            )
    return lists


def _call(number: int, problem: Sequence[Any], given: SimpleNamespace) -> GemmCall:
    """One problem, checked as `cute.gemm` would; an error names the entry of the list."""
    try:
        for name, value in zip(("a", "b"), problem, strict=False):
            operand = as_operand(value, name)
            if len(operand.shape) != 2:
                raise ValueError(f"{name}: expected 2 dimensions, got shape {operand.shape}")
        return GemmCall(SimpleNamespace(**vars(given), **dict(zip(LISTS, problem, strict=True))))
    except (TypeError, ValueError) as error:
        name, colon, rest = str(error).partition(":")
        if not colon or name not in LISTS:
            raise
        raise type(error)(f"{LISTS[name]}[{number}]:{rest}") from None


class GroupCall(Product):
    """The checked arguments of a call."""

    family = "grouped "

    def __init__(self, given: SimpleNamespace) -> None:
        self.given = given = SimpleNamespace(**vars(given), precision=None, a=None)
        given.bs, given.packed_b = unpacked(given.bs, given.packed_b)
        normalized(given)
        lists = _checked_lists([getattr(given, name) for name in LISTS.values()])
        options = SimpleNamespace(
            **{name: value for name, value in vars(given).items() if name not in {*lists, "a"}}
        )
        columns = [(None,) * len(given.as_) if x is None else x for x in lists.values()]
        problems = zip(*columns, strict=True)
        self.calls = [_call(number, each, options) for number, each in enumerate(problems)]
        if self.calls:
            _check_alike(self.calls)

    @property
    def out_dtype(self) -> DType:
        """The element type of all results."""
        return self.calls[0].out_dtype

    def lacks(self) -> str:
        """What is said of a call without results."""
        return "a problem whose output has elements, got none"

    @cached_property
    def taking(self) -> list[GemmCall]:  # type: ignore[override]
        """The problems with an output. The longest first: what is left at the end is then short."""
        taking = [call for call in self.calls if 0 not in call.out_shape]
        return sorted(taking, key=lambda call: -(call.k or 0))

    def known(self) -> list[TensorSpec]:
        """What is known of a and b of all problems."""
        operands = zip(*((call.a.value, call.b.value) for call in self.taking), strict=True)
        return [_member(list(arrays)) for arrays in operands]

    def prepared_with(self, given: Schedule | None, arch: str, backend: str) -> _ReadyGroup:
        """Compile (or find) the kernel; problems without an output take no part."""
        calls, taking = self.calls, self.taking
        if not taking:
            return _ReadyGroup(None, tuple(call.ready(None) for call in calls), ())
        check_arch(arch)
        first = taking[0]
        check_types(first.a, first.b, arch)
        if all(call.has_panels and call.k == 0 for call in taking) and target(arch).tmem_columns:
            raise ValueError(
                f"as_, bs: expected a product with K above 0 beside scales in panels on {arch}, "
                "got none, whose arrays say nothing of their layout"
            )
        for call in calls:
            call.swapped = given is not None and given.swap_ab == "yes"
            call.scales = scales_on(call.scales, arch) if call.has_panels else call.scales
        rows = [call.arguments(call.ready(None), member_of) for call in taking]
        columns = [
            column[0] if column[0] is None or isinstance(column[0], ScalarSpec) else list(column)
            for column in zip(*rows, strict=True)
        ]
        extents = [_largest([call.out_shape[mode] for call in taking]) for mode in (0, 1)]
        options = first.constants(given, arch, self.known(), (extents[0], extents[1]))
        options |= {"arch": arch, "schedule": given, "backend": backend}
        kernel = compile_kernel(first.program(), columns, options)
        numbers = {id(call): number for number, call in enumerate(calls)}
        parts = tuple(numbers[id(call)] for call in taking)
        return _ReadyGroup(kernel, tuple(call.ready(None) for call in calls), parts)


def _check_alike(calls: Sequence[GemmCall]) -> None:
    """Refuse problems that one kernel cannot compute: of other types, or other kinds of scales."""
    first = calls[0]
    for number, call in enumerate(calls):
        for name, one, other in (
            ("as_", first.a.dtype, call.a.dtype),
            ("bs", first.b.dtype, call.b.dtype),
            ("out", first.out_dtype, call.out_dtype),
        ):
            if one != other:
                raise TypeError(
                    f"{name}[{number}]: expected {one.name} as in {name}[0], got {other.name}"
                )
        names = "scale_a", "scale_b", "zero_b"
        ours, theirs = ((*each.scales, each.zero) for each in (first, call))
        for name, one, other in zip(names, ours, theirs, strict=True):
            if one is not None and other is not None and (one.spans, one.rank) != (
                other.spans, other.rank,
            ):  # fmt: skip
                raise ValueError(
                    f"{name}[{number}]: expected a scale of the same kind as {name}[0], whose "
                    f"entries hold for {one.spans} elements (0 for all), got one of {other.spans}"
                )


def _largest(extents: Sequence[int | None]) -> int | None:
    """The largest extent; None where one is a run-time value."""
    known = [extent for extent in extents if extent is not None]
    return max(known) if len(known) == len(extents) else None


def _member(arrays: list[Any]) -> TensorSpec:
    """What holds for every array of a list."""
    spec = spec_of(arrays, "as_")
    assert isinstance(spec, GroupSpec)
    return spec.member


@dataclass(frozen=True)
class _ReadyGroup:
    """What a warm call needs: the kernel, each problem's facts, and the problems that take part in
    the order in which the kernel computes them.
    """

    kernel: Kernel | None
    calls: tuple[ReadyCall, ...]
    parts: tuple[int, ...]

    def run(
        self, lists: dict[str, Sequence[Any] | None], alpha: float, beta: float, stream: Any
    ) -> tuple[list[Any], PreparedCall | None]:
        """Launch on arrays that look like those of `_prepare`; returns the outputs, and the launch
        to repeat while the same device arrays live.
        """
        given = lists["out"]
        if given is None:
            as_ = lists["as_"]
            assert as_ is not None
            results = [call.output(a, stream) for call, a in zip(self.calls, as_, strict=True)]
        else:
            results = list(given)
        if self.kernel is None:
            return results, None
        rows: list[list[Any]] = []
        for number in self.parts:
            arrays = _problem(lists, number)
            arrays[_OUT] = results[number]
            row = self.calls[number].arguments(arrays, (alpha, beta))
            rows.append([value for value in row if value is not None])
        # alpha and beta are the same in all rows.
        arguments = [
            column[0] if isinstance(column[0], float | int) else column
            for column in zip(*rows, strict=True)
        ]
        self.kernel.launch(
            *arguments,
            stream=stream,
            check=None if given is None and lists["aux"] is None else lambda: self._check(lists),
        )
        return results, self.kernel.prepared(*arguments) if given is not None else None

    def _check(self, lists: dict[str, Sequence[Any] | None]) -> None:
        """Refuse outputs on arrays of any problem."""
        found: list[Named] = []
        for number in self.parts:
            found += self.calls[number].named(
                _problem(lists, number), lambda name, number=number: f"{LISTS[name]}[{number}]"
            )
        check_aliases(found)


def _problem(lists: Mapping[str, Sequence[Any] | None], number: int) -> list[Any]:
    """The arrays of a problem, as `cute.gemm` takes them."""
    return [None if values is None else values[number] for values in lists.values()]


class _ListDoor(Door[GroupCall, _ReadyGroup]):
    """The function of lists: calls on the same device arrays are found by these, other ones by what
    the arrays look like.
    """

    lookup = """\
    shapes = None
    if out is not None:
        shapes = equal_call(({arrays}, *{numbers}), options)
        prepared = repeated.get(shapes)
        if prepared is not None:
            return again(prepared, ({arrays}), stream)
"""

    def first(
        self,
        named: dict[str, Any],
        arrays: tuple[Any, ...],
        options: tuple[object, ...],
        shapes: Any,
        numbers: tuple[float, ...],
    ) -> list[Any]:
        try:
            lists = _checked_lists(arrays)
        except (TypeError, ValueError) as error:
            raise concise(error)  # noqa: B904
        if not named["as_"]:
            return []
        flat = [array for values in lists.values() if values is not None for array in values]
        is_there = tuple(values is not None for values in lists.values())
        key, _ = call_key(flat, (len(named["as_"]), is_there, *options))
        ready = self.calls.known(key)
        if ready is None:
            if uses_jax(flat):
                return self.on_views(named)
            ready = self.prepared(named, named["as_"])
            if key is not None:
                self.calls.keep(key, ready)
        alpha, beta = numbers
        results, prepared = ready.run(lists, alpha, beta, named["stream"])
        if shapes is not None and prepared is not None:
            _repeated.keep(shapes, prepared)
        return results


door = _ListDoor(GROUPED_GEMM, GroupCall)

if TYPE_CHECKING:
    from .typed_calls import grouped_gemm
else:
    grouped_gemm = door.function(
        __name__,
        {
            "as_number": as_number,
            "fold_numbers": fold_numbers,
            "number_of": number_of,
            "unpacked": unpacked,
            "equal_call": _equal_call,
            "repeated": _repeated,
            "again": _again,
        },
    )
