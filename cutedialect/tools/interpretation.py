"""What `cute-opt` runs instead of writing: `--run`, a module on given or drawn arguments, and
`--validate`, each pass by what the module computes before and after it.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cutedialect.backend.runtime.written_files import write_whole
from cutedialect.passes.cute_to_ptx import CuteToPtxPass

if TYPE_CHECKING:
    from cutedialect.backend.interpreter import Validation

_SHAPE = re.compile(r"\d+(x\d+)*")
_LEAVES = re.compile(r"[-+]?\d+(x[-+]?\d+)*")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
# Elements of an array that is shown whole.
_SHOWN = 64
# Elements of an array that is drawn: 2 GiB while it is.
_LARGEST = 1 << 28


@dataclass(frozen=True)
class RunOptions:
    """The flags: `arguments` and `expected` are by name, the texts as they were given."""

    run: bool = False
    validate: bool = False
    seed: int = 0
    arguments: Mapping[str, str] | None = None
    expected: Mapping[str, str] | None = None
    save: str | None = None


def named_value(text: str) -> tuple[str, str]:
    """Name and value of `A=64x32`, `A=a.npy` or `alpha=0.5`; raises ValueError for others."""
    name, equals, value = text.partition("=")
    is_known = value.endswith(".npy") or _LEAVES.fullmatch(value) or _NUMBER.fullmatch(value)
    if not (name and equals and is_known):
        raise ValueError(f"expected NAME=64x32, NAME=FILE.npy or NAME=0.5, got '{text}'")
    return name, value


def named_file(text: str) -> tuple[str, str]:
    """Name and file of `D=d.npy`; raises ValueError for others."""
    name, equals, value = text.partition("=")
    if not (name and equals and value.endswith(".npy")):
        raise ValueError(f"expected NAME=FILE.npy, got '{text}'")
    return name, value


def steps_of(passes: Sequence[ModulePass], module: ModuleOp) -> list[ModulePass]:
    """The passes one by one: `cute-to-ptx` stands for all of them."""
    steps: list[ModulePass] = []
    for one in passes:
        steps += one.steps(module) if isinstance(one, CuteToPtxPass) else [one]
    return steps


def validations(module: ModuleOp, options: RunOptions) -> list[Validation]:
    """What a module computes of whole numbers, of which sums are exact, and of floats."""
    from cutedialect.backend.interpreter import Validation

    return [
        Validation(module, _arguments(module, options, kind)) for kind in ("integers", "floats")
    ]


def run(module: ModuleOp, options: RunOptions) -> str:
    """Run a module, and return as text what it left in the tensors that it changed; of a module
    without kernels run `@main`, or its one function, and return what it printed and its results.

    Raises ValueError for arguments that do not fit and for results other than those expected.
    """
    import numpy as np

    if _has_functions_only(module):
        return _run_function(module, options)

    from cutedialect.backend.interpreter import Program, copies

    program = Program(module)
    given = _arguments(module, options, "integers")
    before = copies(given)
    program.run(given)
    lines: list[str] = []
    expected = dict(options.expected or {})
    for name, old, new in _tensors(_names(program.arguments), before, given):
        if options.save is not None:
            folder = Path(options.save)
            folder.mkdir(parents=True, exist_ok=True)
            saved = io.BytesIO()
            np.save(saved, new)
            write_whole(folder / f"{name}.npy", saved.getvalue())
        wanted = expected.pop(name, None)
        if wanted is not None:
            _compare(name, _loaded(wanted, new.dtype), new)
        if not np.array_equal(_wide(old), _wide(new), equal_nan=new.dtype.kind not in "iub"):
            shown = np.array2string(_wide(new), threshold=_SHOWN, edgeitems=2, max_line_width=100)
            shape = "x".join(map(str, new.shape))
            lines.append(f"{name}: {shape} {new.dtype}\n{shown}\n")
    if expected:
        known = ", ".join(_names(program.arguments))
        raise ValueError(f"expected a tensor of the module ({known}), got '{next(iter(expected))}'")
    return "".join(lines) or "no tensor changed\n"


def _has_functions_only(module: ModuleOp) -> bool:
    """Whether a module has functions, and neither kernels of tiles nor their host part."""
    functions = [op for op in module.ops if op.name == "func.func"]
    return (
        bool(functions)
        and not any(op.name == "cute.kernel" for op in module.ops)
        and not any(getattr(op, "sym_name").data == "launch" for op in functions)  # noqa: B009
    )


def _run_function(module: ModuleOp, options: RunOptions) -> str:
    """What a function prints and returns. Arguments are `n=4`, and `l=4x8` for the run-time leaves
    of a value of the layout algebra.
    """
    from cutedialect.backend.interpreter.functions import Function, leaf_types

    function = Function(module)
    arguments, given = function.op.body.block.args, dict(options.arguments or {})
    values: list[Any] = []
    for name, argument in zip(_names(arguments), arguments, strict=True):
        leaves = leaf_types(argument.type)
        text = given.pop(name, "" if not leaves else None)
        if text is None or (text and not _LEAVES.fullmatch(text)):
            example = "x".join("4" for _ in leaves)
            got = "none" if text is None else f"'{text}'"
            raise ValueError(f"expected --arg {name}={example} ({', '.join(leaves)}), got {got}")
        numbers = [int(part) for part in text.split("x") if text]
        values.append(numbers if len(numbers) != 1 else numbers[0])
    if given:
        known = ", ".join(_names(arguments)) or "none"
        raise ValueError(f"expected an argument ({known}), got '{next(iter(given))}'")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        results = function(*values)
    return printed.getvalue() + function.text_of(results)


def _arguments(module: ModuleOp, options: RunOptions, kind: Any) -> list[Any]:
    """The arguments: files and numbers as given, the rest drawn."""
    from cutedialect.backend.interpreter import Program, draw

    arguments = Program(module).arguments
    names, given = _names(arguments), dict(options.arguments or {})
    for name in given:
        if name not in names:
            raise ValueError(f"expected an argument ({', '.join(names)}), got '{name}'")
    shapes = {
        name: tuple(map(int, text.split("x")))
        for name, text in given.items()
        if _SHAPE.fullmatch(text) and hasattr(arguments[names.index(name)].type, "data")
    }
    for name, shape in shapes.items():
        if prod(shape) > _LARGEST:
            raise ValueError(
                f"expected {name} of at most {_LARGEST:,} elements to draw, got {given[name]}"
            )
    values = draw(arguments, options.seed, kind, shapes)
    for position, name in enumerate(names):
        text = given.get(name)
        if text is None or name in shapes:
            continue
        if not text.endswith(".npy"):
            values[position] = type(values[position])(float(text) if "." in text else int(text))
        else:
            values[position] = _loaded(text, values[position].dtype)
    return values


def _names(arguments: Sequence[Any]) -> list[str]:
    return [each.name_hint or f"arg{number}" for number, each in enumerate(arguments)]


def _tensors(names: Sequence[str], before: Sequence[Any], after: Sequence[Any]) -> Any:
    """Name, old and new elements of each tensor; those of groups are named as `A[3]`."""
    for name, old, new in zip(names, before, after, strict=True):
        if isinstance(new, list):
            yield from _tensors([f"{name}[{n}]" for n in range(len(new))], old, new)
        elif getattr(new, "shape", ()) != ():
            yield name, old, new


def _loaded(path: str, dtype: Any) -> Any:
    """A file's array; NumPy writes the types of ml_dtypes as bytes without a name."""
    import numpy as np

    try:
        array = np.load(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {path}: {error}") from None
    is_nameless = array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize
    return array.view(dtype) if is_nameless else array


def _compare(name: str, wanted: Any, got: Any) -> None:
    """Refuse a result that is not the one in the file, up to the last places of its type."""
    import numpy as np

    if wanted.shape != got.shape:
        raise ValueError(f"{name}: expected shape {wanted.shape}, got {got.shape}")
    unit = {1: 0.25, 2: 4e-3}.get(got.dtype.itemsize, 1e-4)
    tolerance = 0 if got.dtype.kind in "iub" else unit
    one, other = _wide(wanted), _wide(got)
    most = np.nanmax(np.abs(one), initial=0, where=np.isfinite(one))
    close = np.isclose(other, one, rtol=tolerance, atol=tolerance * most, equal_nan=True)
    if not close.all():
        at = tuple(int(place) for place in np.argwhere(~close)[0])
        raise ValueError(
            f"{name}: expected {one[at]} at {list(at)}, got {other[at]}; {int((~close).sum())} of "
            f"{one.size} elements differ"
        )


def _wide(array: Any) -> Any:
    return array if array.dtype.kind in "iub" else array.astype("float64")
