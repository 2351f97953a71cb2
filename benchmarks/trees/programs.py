"""The programs of a tree, and the kernels that they compile to for a target: cases of the tables,
streaming programs, and what examples and pages launch. It runs in a process of that tree and takes
of its modules only what older trees have as well.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

KINDS = ("tables", "streams", "examples", "pages")
LISTED = ("tables", "streams")
# Of streams: shapes that are drawn beside the listed ones, and shapes of programs of no example.
_SEED, _SHAPES, _OTHERS = 0, 3, 1
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CHECKS = ("assert_allclose", "assert_array_equal", "assert_equal", "assert_array_less")


class Compiled(NamedTuple):
    """A kernel, and what it was launched on where a script launched it."""

    kernel: Any
    arguments: tuple[Any, ...] = ()


def cases(kind: str) -> dict[str, Any]:
    """The cases of a kind by name; of scripts none."""
    if kind == "tables":
        tables = import_module("benchmarks.cases")
        listed = (*tables.CASES, *getattr(tables, "EXTRAS", ()))
    elif kind == "streams":
        streaming = import_module("benchmarks.streaming")
        listed = (*streaming.cases(_SEED, _SHAPES), *streaming.others(_SEED, _OTHERS))
    else:
        listed = ()
    return {case.name: case for case in listed}


def kernels(
    root: Path, kind: str, target: str, wanted: Callable[[str], bool]
) -> Iterator[tuple[str, Compiled | str]]:
    """Each kernel of a kind by name, or why it was not compiled, of cases and scripts that are
    wanted.
    """
    if kind in LISTED:
        for name, case in cases(kind).items():
            if wanted(name):
                yield name, compiled(case, target)
        return
    for path in scripts(root, kind):
        script = path.relative_to(root).as_posix()
        if wanted(script):
            yield from _launched(script, path, target)


def compiled(case: Any, target: str) -> Compiled | str:
    """The default kernel of a case."""
    try:
        kernel = case.compiled(None, target)
    except Exception as error:  # A tree may refuse in any way what another one takes.
        return reason(error)
    return "a call of several kernels" if kernel is None else Compiled(kernel)


def scripts(root: Path, kind: str) -> list[Path]:
    """The files of a tree that have programs of a kind."""
    if kind == "examples":
        return sorted((root / "examples").glob("*.py"))
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def reason(error: Exception) -> str:
    """An error as one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _launched(script: str, path: Path, target: str) -> Iterator[tuple[str, Compiled | str]]:
    """What a script launches on a target, by the names of kernels and their order; nothing runs,
    and what the script then checks is not checked.
    """
    launch = import_module("cutedialect.frontend.launch")
    kernel_class = import_module("cutedialect.backend.runtime.kernel").Kernel
    launches: dict[int, tuple[Any, ...]] = {}

    def note(kernel: Any, *args: Any, **options: Any) -> None:
        launches.setdefault(id(kernel), args)

    launch._kernels = {}
    with mock.patch.object(kernel_class, "launch", note), _aimed(launch, target):
        failures = _run(script, path)
    counts: dict[str, int] = {}
    for kernel in launch.known_kernels():
        if kernel.arch == target:
            count = counts[kernel.name] = counts.get(kernel.name, 0) + 1
            yield f"{script} {kernel.name} {count}", Compiled(kernel, launches.get(id(kernel), ()))
    for failure in failures:
        yield f"{script} behind {sum(counts.values())} kernels", failure


@contextmanager
def _aimed(launch: Any, target: str) -> Iterator[None]:
    """Calls that name no target get this one."""

    def default_arch(backend: str = "auto") -> str:
        return target

    first = launch.default_arch
    others = [
        module
        for name, module in sys.modules.items()
        if name.startswith("cutedialect.frontend.") and hasattr(module, "default_arch")
    ]
    for module in others:
        module.default_arch = default_arch
    try:
        yield
    finally:
        # Modules that were imported meanwhile have it, too.
        for module in list(sys.modules.values()):
            if getattr(module, "default_arch", None) is default_arch:
                module.default_arch = first


def _run(script: str, path: Path) -> list[str]:
    """Run the program of a file, or each of a page in one scope; what stopped them."""
    text = path.read_text(encoding="utf-8")
    parts = [text] if path.suffix == ".py" else [found[1] for found in _BLOCK.finditer(text)]
    scope: dict[str, Any] = {"__name__": "script", "__file__": str(path)}
    failures: list[str] = []
    testing = import_module("numpy").testing
    unchecked: Mapping[str, Any] = {name: lambda *args, **options: None for name in _CHECKS}
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(testing, **unchecked):
        os.chdir(folder)
        try:
            with redirect_stdout(StringIO()), mock.patch.object(sys, "argv", [str(path)]):
                for part in (*parts, "main()" if path.suffix == ".py" else ""):
                    try:
                        # Without assertions: results are not computed.
                        exec(compile(part, script, "exec", optimize=1), scope)
                    except (Exception, SystemExit) as error:
                        failures.append(reason(Exception(f"{type(error).__name__}: {error}")))
        finally:
            os.chdir(here)
    return failures


def modelled(found: Compiled, case: Any) -> tuple[str, list[Any]]:
    """The last stage of a kernel, and what the static model takes for its arguments: shapes with
    strides, and numbers.
    """
    arguments: list[Any] = []
    if case is not None:
        arguments = import_module("benchmarks.static_model").arguments_of(case, found.kernel)
    for argument in found.arguments:
        if hasattr(argument, "itemsize"):
            steps = tuple(step // argument.itemsize for step in argument.strides)
            arguments.append((argument.shape, steps))
        else:
            arguments.append(argument)
    return found.kernel.stages["convert-to-ptx"], arguments
