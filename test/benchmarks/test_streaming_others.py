"""Programs of the benchmark that no example has, in the emulator at small shapes against torch."""

import ml_dtypes
import numpy as np
import pytest

from benchmarks.streaming_others import OTHERS
from benchmarks.streaming_workloads import WORKLOADS

NARROW = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn}
# What the rest of the suite computes in other forms, or takes seconds.
ALWAYS = ("argmax", "RoPE 96", "pooled rows", "tiny rows")
NAMES = [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.long) for name in OTHERS]


def array(tensor):
    """The array that shares a tensor's memory, in NumPy's types."""
    name = str(tensor.dtype).partition(".")[2]
    if name not in NARROW:
        return tensor.numpy()
    import torch

    bits = {1: torch.int8, 2: torch.int16}[tensor.element_size()]
    return tensor.view(bits).numpy().view(NARROW[name])


def test_a_name_says_one_workload():
    """A case finds its workload by its name, in either table."""
    assert not OTHERS.keys() & WORKLOADS.keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_program_is_its_formula(name):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    other = OTHERS[name]
    columns = max(round(other.least) + 1, 11)
    rows = {"causal softmax": columns, "RoPE 96": 31, "sums of the middle": 103}.get(name, 13)
    shape, workload = (rows, columns), other.workload
    inputs = [
        torch.randint(columns, extents, dtype=torch.int32)
        if kind == "labels"
        else torch.randn(extents).to(getattr(torch, kind))
        for extents, kind in workload.inputs(shape)
    ]
    outputs = [
        torch.zeros(extents, dtype=getattr(torch, kind))
        for extents, kind in workload.outputs(shape)
    ]
    arrays = workload.arrange(tuple(inputs), tuple(outputs))
    options = workload.options(shape) | {"arch": "sm_90a", "backend": "emulator"}
    workload.ours()(*map(array, arrays), *workload.extra(shape), **options)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    exacts = workload.formula(torch, *wide)
    for found, exact in zip(outputs, exacts, strict=True):
        found, exact = found.double().numpy(), exact.double().numpy()
        assert np.abs(found - exact).max() <= 0.05 * np.abs(exact).max()
