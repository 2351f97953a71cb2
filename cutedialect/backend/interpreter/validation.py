"""Passes checked by running: a module has sequential meaning until it is synchronized, so its
result may not change from pass to pass. The first pass that changes it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cutedialect.dialects.cute import GemmOp, element_of
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.dialects.walks import ops_of, walk

from .arrays import copies
from .cta import Choices
from .elements import dtype_of, held_as, is_float
from .program import Program

# Both extremes of what `local` leaves open, with CTAs in turns and in some other order.
EXTREMES = (Choices("whole"), Choices("own", seed=1))
_INEXACT = (
    arith.DivfOp, math.ExpOp, math.Exp2Op, math.LogOp, math.Log2Op, math.SqrtOp, math.RsqrtOp,
    math.SinOp, math.CosOp, math.TanhOp,
)  # fmt: skip
# Largest difference of two orders of summation, as a part of the largest result; and where what is
# summed was rounded to 8 bits, some of it to the other neighbor.
_TOLERANCE, _EIGHT_BIT_TOLERANCE = 2e-3, 3e-2


class ValidationError(Exception):
    """A pass changed what a program computes: `pass_name`, and in the message the argument with the
    element that differs most.
    """

    def __init__(self, pass_name: str, difference: str, choices: Choices) -> None:
        super().__init__(
            f"{pass_name} changed the result: {difference} (local = {choices.local}, "
            f"seed = {choices.seed})"
        )
        self.pass_name = pass_name


class Validation:
    """What a module computes of some arguments, to be compared after each pass.

    Raises InterpreterError for a module that does not run, ValueError for arguments that do not
    fit.
    """

    def __init__(
        self,
        module: ModuleOp,
        args: Sequence[Any],
        extremes: Sequence[Choices] = EXTREMES,
    ) -> None:
        self._args = args
        self._tolerance = _tolerance(module)
        # Tensor cores keep some 13 bits of the sums of 8-bit floats (PTX ISA 9.7.15.5).
        elements = [element_of(op.a.type) for op in ops_of(module, GemmOp)]
        has_bytes = any(is_float(each) and dtype_of(each).itemsize == 1 for each in elements)
        self._other_tolerance = _EIGHT_BIT_TOLERANCE if has_bytes else self._tolerance
        program = Program(module)
        self._names = [arg.name_hint or f"argument {n}" for n, arg in enumerate(program.arguments)]
        self._expected = [(choices, _results(program, args, choices)) for choices in extremes]

    def check(self, pass_name: str, module: ModuleOp) -> bool:
        """Raise ValidationError if `module` computes something else; False, with nothing compared,
        from the pass on that synchronizes.
        """
        if not is_sequential(module):
            return False
        program = Program(module)
        for choices, expected in self._expected:
            got = _results(program, self._args, choices)
            self._compare(pass_name, choices, expected, got, self._tolerance)
        return True

    def compare(self, name: str, results: Sequence[Any]) -> None:
        """Raise ValidationError in the name of whoever else ran the program if the arguments that
        it left differ.
        """
        choices, expected = self._expected[0]
        self._compare(name, choices, expected, results, self._other_tolerance)

    def _compare(
        self,
        pass_name: str,
        choices: Choices,
        expected: Sequence[Any],
        got: Sequence[Any],
        tolerance: float,
    ) -> None:
        for name, one, other in zip(self._names, expected, got, strict=True):
            text = _difference(name, one, other, tolerance)
            if text is not None:
                raise ValidationError(pass_name, text, choices)


def is_sequential(module: ModuleOp) -> bool:
    """Whether ops of a module, run in order, give its result: roles and rings are run by threads
    that wait for each other. (A kernel of one role is still in order when it is synchronized.)
    """
    names = (op.name for op in walk(module) if not isinstance(op, CompleteOp))
    return not any(name.startswith(("pipeline.", "ptx.")) for name in names)


def validate(
    module: ModuleOp,
    passes: Iterable[ModulePass],
    args: Sequence[Any],
    *,
    context: Context | None = None,
    extremes: Sequence[Choices] = EXTREMES,
    after: Callable[[str], None] | None = None,
) -> None:
    """Run passes on a module, and the module on copies of `args` before and after each up to the
    one that synchronizes; `after` is told the names of those that kept the result.

    Raises ValidationError that names the first pass after which the result is another.
    """
    validation = Validation(module, args, extremes)
    for step in passes:
        step.apply(context or Context(), module)
        if not validation.check(step.name, module):
            return
        if after is not None:
            after(step.name)


def _results(program: Program, args: Sequence[Any], choices: Choices) -> list[Any]:
    given = copies(args)
    program.run(given, choices)
    return given


def _tolerance(module: ModuleOp) -> float:
    """How far results may differ, as a part of the largest; 0 where the ops on whole numbers give
    whole numbers.
    """
    ops = list(walk(module))
    if not any(isinstance(op, _INEXACT) for op in ops):
        return 0
    casts = [op.results[0].type for op in ops if isinstance(op, arith.TruncFOp)]
    rounds_to_bytes = any(dtype_of(type_).itemsize == 1 for type_ in casts)
    return _EIGHT_BIT_TOLERANCE if rounds_to_bytes else _TOLERANCE


def _difference(name: str, one: Any, other: Any, tolerance: float) -> str | None:
    """How two values of an argument differ, or None."""
    if isinstance(one, list):
        pairs = zip(one, other, strict=True)
        texts = [_difference(f"{name}[{n}]", *pair, tolerance) for n, pair in enumerate(pairs)]
        return next((text for text in texts if text is not None), None)
    if not isinstance(one, np.ndarray):
        return None
    held = held_as(one.dtype)
    one, other, dtype = one.astype(held), other.astype(held), one.dtype
    equal = (one == other) | ((one != one) & (other != other))
    if equal.all():
        return None
    if held.kind == "f" and not (tolerance == 0 and _is_whole(one)):
        finite = np.abs(one[np.isfinite(one)])
        unit = float(ml_dtypes.finfo(dtype).eps)
        most = max(tolerance, _TOLERANCE, unit) * (finite.max() if finite.size else 0)
        with np.errstate(all="ignore"):
            equal = equal | (np.abs(one - other) <= most)
    if equal.all():
        return None
    at = tuple(int(place) for place in np.argwhere(~equal)[0])
    return (
        f"{name}{list(at)} was {one[at]} and is {other[at]}, {int((~equal).sum())} of {one.size} "
        "elements differ"
    )


def _is_whole(values: np.ndarray) -> bool:
    """Whether all elements are whole numbers, as sums and products of such are."""
    finite = values[np.isfinite(values)]
    return bool((finite == np.round(finite)).all())
