"""The module that `benchmarks.ir_speed` reads, and what `cute-opt` loads for one."""

import io
import subprocess
import sys

from benchmarks import ir_speed
from cutedialect.tools.cute_opt import CuteOpt


def test_the_module_has_as_many_operations_as_it_says():
    out, err = io.StringIO(), io.StringIO()
    assert CuteOpt([], io.StringIO(ir_speed.module_text(60)), out, err).run() == 0, err.getvalue()
    assert sum(" = cute." in line or "return" in line for line in out.getvalue().split("\n")) == 60


def test_what_reads_text_loads_no_numpy():
    program = (
        "import sys; from cutedialect.tools.cute_opt import CuteOpt; import io;"
        f"CuteOpt([], io.StringIO({ir_speed._SMALL!r}), io.StringIO(), sys.stderr).run();"
        "print([name for name in ('numpy', 'importlib.metadata') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
