"""`python -m cutedialect compile FILE.py:NAME SPEC... -o DIR`: a kernel's PTX, machine code, host
part and the IR of every stage as files, without a GPU.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from cutedialect.backend.runtime.errors import PtxasNotFoundError

_ARGUMENTS = """arguments, in the order of the kernel's parameters:
  ?x?:f16          a tensor with run-time extents, last dimension contiguous
  1024x?:bf16      a given extent only steers the choice of the schedule
  ?x?:f16:1,?      strides in elements, ? for run-time ones
  0.5:f32 7:i32    a scalar
  none             an optional argument that is not given
"""
_TENSOR = re.compile(r"(?P<shape>(?:\?|\d+)(?:x(?:\?|\d+))*):(?P<dtype>\w+)(?::(?P<strides>.*))?")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect compile",
        description="Write a kernel's PTX, machine code, host part and stages.",
        epilog=_ARGUMENTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kernel", help="FILE.py:NAME of a @cute.kernel function, or cute.gemm")
    parser.add_argument("arguments", nargs="*", metavar="SPEC")
    parser.add_argument("-o", "--out", type=Path, default=Path(), help="folder to write to")
    parser.add_argument("--arch", default="sm_80", help="target, such as sm_80 (default)")
    parser.add_argument("--schedule", help="schedule text, such as 'stages = 3'")
    options = parser.parse_args(arguments)
    cute: Any = import_module("cutedialect")
    kernel = cute.compile(
        _kernel(options.kernel),
        *[_argument(text) for text in options.arguments],
        arch=options.arch,
        schedule=options.schedule,
    )
    folder: Path = options.out
    folder.mkdir(parents=True, exist_ok=True)
    written = {f"{kernel.name}.ptx": kernel.ptx.encode()}
    for number, (stage, text) in enumerate(kernel.stages.items()):
        written[f"{number:02}-{stage}.mlir"] = text.encode()
    try:
        written[f"{kernel.name}.cubin"] = kernel.cubin
        resources = kernel.resources
        said = (
            f"{resources.registers} registers, {resources.spills} bytes of spills, "
            f"{resources.smem} bytes of shared memory"
        )
    except PtxasNotFoundError as error:
        said = f"no cubin: {error.message}"
    for name, content in written.items():
        (folder / name).write_bytes(content)
        print(folder / name)
    print(f"{kernel.name} for {kernel.arch}: {said}", file=sys.stderr)
    return 0


def _kernel(text: str) -> Any:
    if text.startswith("cute."):
        return getattr(import_module("cutedialect"), text.removeprefix("cute."))
    file, colon, name = text.rpartition(":")
    if not colon:
        raise ValueError(f"expected FILE.py:NAME or cute.gemm, got '{text}'")
    path = Path(file)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"expected a Python file, got '{file}'")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    found = vars(module).get(name)
    if found is None:
        raise ValueError(f"expected a kernel '{name}' in {file}, got none of that name")
    return found


def _argument(text: str) -> Any:
    import numpy as np

    from cutedialect.frontend.kernel import TensorSpec

    if text == "none":
        return None
    match = _TENSOR.fullmatch(text)
    if match is not None and (match["dtype"] in _SCALARS) and match["shape"].isdigit():
        return np.dtype(_SCALARS[match["dtype"]]).type(int(match["shape"]))
    if match is not None:
        shape = tuple(None if e == "?" else int(e) for e in match["shape"].split("x"))
        strides = match["strides"]
        return TensorSpec(
            shape,
            match["dtype"],
            None
            if strides is None
            else tuple(None if s == "?" else int(s) for s in strides.split(",")),
        )
    value, colon, kind = text.rpartition(":")
    if colon and kind in _SCALARS:
        return np.dtype(_SCALARS[kind]).type(ast.literal_eval(value))
    raise ValueError(f"expected an argument such as ?x?:f16, 0.5:f32 or none, got '{text}'")


_SCALARS = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64"}
