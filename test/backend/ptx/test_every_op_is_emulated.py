"""The emulator has a rule for every instruction that the dialect prints: the examples of all ops
run until they end, or until the machine finds what an example leaves out (values, memory).
"""

from __future__ import annotations

import contextlib
import inspect
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
from xdsl.ir import Operation

from cutedialect.backend.emulator import EmulatorError, UnsupportedInstruction, launch
from cutedialect.backend.ptx import ptx_text
from cutedialect.dialects.ptx import KernelOp, Ptx, RegType

ARGUMENTS = {
    "b16": np.int16(1),
    "b32": np.int32(1024),
    "b64": np.zeros(4096, np.uint8),
    "f32": np.float32(1),
    "f64": np.float64(1),
}

TENSOR_MAP = SimpleNamespace(
    array=np.zeros((8, 16), np.float32),
    dtype="f32",
    dims=(16, 8),
    strides=(64,),
    box=(16, 8),
    element_strides=(1, 1),
    swizzle="none",
    interleave="none",
    oob_fill="zero",
)


@pytest.mark.parametrize("op", list(Ptx.operations), ids=lambda op: op.name)
def test_its_example_runs(op: type[Operation], parse):
    doc = inspect.cleandoc(op.__doc__ or "")
    module = parse(textwrap.dedent(doc.split("Example:")[1].strip("\n")))
    kernel = next(one for one in module.ops if isinstance(one, KernelOp))
    args = []
    for arg in kernel.body.block.args:
        args.append(ARGUMENTS[arg.type.data] if isinstance(arg.type, RegType) else TENSOR_MAP)
    with contextlib.suppress(EmulatorError):
        try:
            launch(ptx_text(module), "k", 1, kernel.threads.value.data, args, dynamic_smem=4096)
        except UnsupportedInstruction as error:
            pytest.fail(str(error))
