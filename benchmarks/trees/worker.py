"""The process of a tree: it compiles the tree's kernels, times that, and launches them. JSON lines
both ways, as `benchmarks.supervisor` asks.

PACKAGE is the root of the tree whose compiler it has, PROGRAMS that of the tree whose benchmarks,
examples and pages it compiles, and CACHE the folder of its disk cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

from .programs import LISTED, Compiled, cases, compiled, kernels, modelled, reason

_FOLDER = Path(__file__).parents[1]
_START = "import sys; sys.path.insert(0, {folder!r}); from trees.worker import main; main()"
_COMMENT = re.compile(r"//.*$", re.MULTILINE)
_LOCATED = re.compile(r"^\s*\.(?:loc|file)\b.*$", re.MULTILINE)
Say = Callable[[Mapping[str, object]], None]


def command(package: Path, programs: Path, cache: Path) -> tuple[str, ...]:
    """What starts a process of a tree; no installed package comes before the tree's."""
    start = _START.format(folder=str(_FOLDER))
    folders = (str(folder.resolve()) for folder in (package, programs, cache))
    return (sys.executable, "-P", "-c", start, *folders)


def bare(ptx: str) -> str:
    """PTX without comments, lines of the source and blank lines.

    >>> bare("\\t.loc 1 2 3\\n\\n  ret; // done\\n")
    'ret;'
    """
    lines = (line.strip() for line in _LOCATED.sub("", _COMMENT.sub("", ptx)).splitlines())
    return "\n".join(line for line in lines if line)


def replace(file: Path, content: bytes) -> None:
    """Write a file at once: processes that come to the same content have the same file, and one
    reads it while another one writes.
    """
    own = file.with_suffix(f"{file.suffix}.{os.getpid()}")
    own.write_bytes(content)
    own.replace(file)


def take(package: Path, programs: Path) -> str:
    """Import the package of one tree and the benchmarks of another; what is wrong with them."""
    sys.path[:] = [path for path in sys.path if path != str(_FOLDER)]
    for name, root in (("cutedialect", package), ("benchmarks", programs)):
        sys.path.insert(0, str(root))
        module = import_module(name)
        if not Path(str(module.__file__)).is_relative_to(root):
            return f"'{name}' of {root}, got {module.__file__}"
        sys.path.remove(str(root))
    sys.path[:0] = [str(package), str(programs)]
    return ""


def _is_lost() -> bool:
    """Whether a launch has broken the process's context of the device, so that all others fail."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def main() -> None:
    """Answer requests until there are no more."""
    package, programs, cache = map(Path, sys.argv[1:])
    os.environ["CUTEDIALECT_CACHE_DIR"] = str(cache)
    answers = os.fdopen(os.dup(1), "w")
    # Whatever a library prints must not end up between the answers.
    os.dup2(2, 1)

    def say(message: Mapping[str, object]) -> None:
        print(json.dumps(message), file=answers, flush=True)

    if wrong := take(package, programs):
        say({"missing": wrong})
        return
    say({"machine": {"package": str(package)}})
    worker = Worker(programs, say)
    for line in sys.stdin:
        request = json.loads(line)
        say(worker.answer(request))


class Worker:
    """Keeps the kernels of scripts that it compiled, since a script is compiled as a whole."""

    def __init__(self, programs: Path, say: Say) -> None:
        self._programs, self._say = programs, say
        self._kept: dict[tuple[str, str, str], Compiled] = {}
        self._call: Any = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """By what is asked; a failure is an answer. `lost` says that the device takes no more."""
        do = getattr(self, f"_{request['do']}")
        try:
            return do(**{name: value for name, value in request.items() if name != "do"})
        except Exception as error:
            return {"failure": reason(error), "lost": _is_lost()}

    def _compile(
        self,
        kind: str,
        target: str,
        only: str,
        share: list[int],
        names: list[str] | None,
        folder: str,
    ) -> dict[str, Any]:
        """Kernels by name: the file of the bare PTX, named by what is in it, or a failure. `only`
        is a pattern of cases and scripts, which are shared out by their names; `names` are those of
        kernels, or None for all.
        """
        rows: dict[str, dict[str, str]] = {}
        pattern = re.compile(only)
        known = None if names is None else {*names, *(name.split()[0] for name in names)}

        def wanted(name: str) -> bool:
            is_mine = crc32(name.encode()) % share[1] == share[0]
            return bool(is_mine and pattern.search(name)) and (known is None or name in known)

        for name, found in kernels(self._programs, kind, target, wanted):
            self._say({"doing": f"compiling {name} for {target}"})
            if isinstance(found, str):
                rows[name] = {"failure": found}
                continue
            if kind not in LISTED:
                self._kept[kind, target, name] = found
            text = bare(found.kernel.ptx)
            file = Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.ptx"
            replace(file, text.encode())
            rows[name] = {"ptx": str(file), "schedule": found.kernel.schedule}
        return {"kernels": rows}

    def _found(self, kind: str, target: str, name: str) -> Compiled:
        """A kernel by its name; raises KeyError where there is none."""
        if kind in LISTED:
            found = compiled(cases(kind)[name], target)
        else:
            if (kind, target, name) not in self._kept:
                script = name.split(maxsplit=1)[0]
                for one, other in kernels(self._programs, kind, target, script.__eq__):
                    if isinstance(other, Compiled):
                        self._kept[kind, target, one] = other
            found = self._kept[kind, target, name]
        if isinstance(found, str):
            raise RuntimeError(found)
        return found

    def _predict(self, kind: str, target: str, name: str) -> dict[str, Any]:
        """The seconds of a launch by the tree's own static model: no other tree reads its IR."""
        stage, arguments = modelled(self._found(kind, target, name), cases(kind).get(name))
        parsed = import_module("cutedialect.tools.model_command").parsed
        predict = import_module("cutedialect.model").predict
        return {"seconds": predict(parsed(stage), arguments).seconds}

    def _assemble(self, kind: str, target: str, name: str, folder: str) -> dict[str, Any]:
        """The file of a kernel's machine code, which the disk cache has as well from then on, and
        what it takes.
        """
        kernel = self._found(kind, target, name).kernel
        cubin, taken = kernel.cubin, kernel.assembly
        file = Path(folder) / f"{hashlib.sha256(cubin).hexdigest()[:24]}.cubin"
        replace(file, cubin)
        spills = taken.spill_stores + taken.spill_loads
        return {"cubin": str(file), "registers": taken.registers, "spills": spills}

    def _time(self, kind: str, target: str, name: str) -> dict[str, Any]:
        """Milliseconds of this process for one compilation, program to PTX, and those of the
        protocol's check among them.
        """
        from .compilation import milliseconds

        return milliseconds(cases(kind)[name], target)

    def _prepare(self, kind: str, target: str, name: str, folder: str) -> dict[str, Any]:
        """Make a batch of launches on the device; a sample of the result, and a digest of it."""
        from .launches import Launches

        self._call = None
        if kind in LISTED:
            self._call = Launches.of_case(cases(kind)[name])
        else:
            self._call = Launches.of_script(*self._found(kind, target, name))
        return self._call.result(Path(folder))

    def _round(self) -> dict[str, Any]:
        """Milliseconds of a launch in the batch that was made last."""
        return {"ms": self._call.ms()}
