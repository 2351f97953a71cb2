"""`python -m benchmarks.ir_speed`: how long `cute-opt` takes for a small file, process and all, and
for a module of 500 operations of the layout algebra, parsed, verified and printed. Seconds of
processor time, since others may use the machine: the best of ten, and the first reading of the
module, when nothing is remembered yet. Exits 1 where one takes longer than it may.
"""

from __future__ import annotations

import io
import resource
import subprocess
import sys
import time
from collections.abc import Callable

from cutedialect.layout import Layout, coalesce, composition, logical_divide
from cutedialect.tools.cute_opt import CuteOpt

_START_SECONDS, _MODULE_SECONDS = 0.6, 0.3
_OPERATIONS, _ROUNDS = 500, 10
_SMALL = """
func.func @f(%a: !cute.layout<"(4,8):(8,1)">) -> !cute.layout<"(4,8):(8,1)"> {
  %b = cute.coalesce(%a) : (!cute.layout<"(4,8):(8,1)">) -> !cute.layout<"(4,8):(8,1)">
  return %b : !cute.layout<"(4,8):(8,1)">
}
"""


def module_text(operations: int) -> str:
    """A function of so many operations; no two of a kind have the same numbers."""
    lines: list[str] = []
    number = 0
    while len(lines) < operations - 1:
        number += 1
        layout, tile = Layout((4, 8 * number), (8 * number, 1)), Layout((2, 4), (1, 4))
        wide = f'!cute.layout<"{layout}">'
        part = f'!cute.layout<"{tile}">'
        flat = f'!cute.layout<"{coalesce(Layout((4, (1, number)), (1, (7, 4))))}">'
        nested = f'!cute.layout<"(4,(1,{number})):(1,(7,4))">'
        over = f'!cute.layout<"(?,{number}):(1,?)">'
        lines += [
            f"%l{number} = cute.static : {wide}",
            f"%t{number} = cute.static : {part}",
            f"%d{number} = cute.logical_divide(%l{number}, %t{number}) : ({wide}, {part}) -> "
            f'!cute.layout<"{logical_divide(layout, tile)}">',
            f"%c{number} = cute.composition(%l{number}, %t{number}) : ({wide}, {part}) -> "
            f'!cute.layout<"{composition(layout, tile)}">',
            f"%n{number} = cute.static : {nested}",
            f"%f{number} = cute.coalesce(%n{number}) : ({nested}) -> {flat}",
            f'%s{number} = cute.make_shape(%i) : (i32) -> !cute.shape<"(?,{number})">',
            f'%e{number} = cute.make_stride(%i) : (i32) -> !cute.stride<"(1,?)">',
            f"%o{number} = cute.make_layout(%s{number}, %e{number}) : "
            f'(!cute.shape<"(?,{number})">, !cute.stride<"(1,?)">) -> {over}',
            f'%z{number} = cute.size (%o{number}) : ({over}) -> !cute.int_tuple<"?">',
        ]
    body = "".join(f"  {line}\n" for line in lines[: operations - 1])
    return f"func.func @f(%i: i32) {{\n{body}  return\n}}\n"


def _read(text: str) -> float:
    """Seconds for `cute-opt` on a text in this process; the text must be right."""
    out, err = io.StringIO(), io.StringIO()
    start = time.process_time()
    code = CuteOpt([], io.StringIO(text), out, err).run()
    seconds = time.process_time() - start
    if code:
        raise SystemExit(f"expected a module that cute-opt reads, got\n{err.getvalue()}")
    return seconds


def _start() -> float:
    """Seconds of a process that reads a small file."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "cutedialect.tools.cute_opt"],
        input=_SMALL, capture_output=True, text=True, check=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(measured: Callable[[], float]) -> float:
    """The least of ten."""
    return min(measured() for _ in range(_ROUNDS))


def main() -> int:
    """Print both; returns the exit code."""
    text = module_text(_OPERATIONS)
    first, module, start = _read(text), best(lambda: _read(text)), best(_start)
    print(f"a small file, the whole process: {start:.2f} s (at most {_START_SECONDS})")
    print(
        f"a module of {_OPERATIONS} operations: {1e3 * module:.0f} ms (at most "
        f"{1e3 * _MODULE_SECONDS:.0f}), the first time {1e3 * first:.0f}"
    )
    return int(start > _START_SECONDS or module > _MODULE_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
