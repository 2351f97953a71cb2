"""Streaming programs drawn by lot: their two texts say the same, in the emulator against torch."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from benchmarks.streaming_case import Streaming
from benchmarks.streaming_programs import program_of

NARROW = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn}


def array(tensor):
    """The array that shares a tensor's memory, in NumPy's types."""
    import torch

    name = str(tensor.dtype).partition(".")[2]
    if name not in NARROW:
        return tensor.numpy()
    bits = {1: torch.int8, 2: torch.int16}[tensor.element_size()]
    return tensor.view(bits).numpy().view(NARROW[name])


def test_a_name_is_one_program_and_names_differ():
    names = [f"program 3.{number}" for number in range(30)]
    assert len({program_of(name).source for name in names}) == 30
    assert program_of.__wrapped__(names[0]) == program_of(names[0])
    kinds = {each.kind for name in names for each in program_of(name).inputs}
    assert kinds == {"bfloat16", "float16", "float32", "float8_e4m3fn", "int8"}
    case = Streaming("programs", "bf16", names[0], program_of(names[0]).shape, gate=1, goal=1)
    assert case.bytes > 2**26


@pytest.mark.parametrize(
    "number", [*range(3), *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 20))]
)
def test_a_program_is_its_formula(number):
    torch = pytest.importorskip("torch")
    torch.manual_seed(number)
    program = program_of(f"program 11.{number}")
    shape = 9, min(program.shape[1], 300)
    tile = (min(program.tile[0], 16), shape[1]) if program.tile[1] > 4096 else program.tile
    workload = replace(program, tile=tile).workload()
    made = []
    for extents, kind in workload.inputs(shape):
        name, _, pad = kind.partition(" +")
        wide = (*extents[:-1], extents[-1] + int(pad or 0))
        made.append(torch.randn(wide).to(getattr(torch, name))[..., : extents[-1]])
    outputs = [
        torch.zeros(extents, dtype=getattr(torch, kind))
        for extents, kind in workload.outputs(shape)
    ]
    options = workload.options(shape) | {"arch": "sm_90a", "backend": "emulator"}
    workload.ours()(*map(array, (*made, *outputs)), **options)
    exacts = workload.formula(torch, *[x.double() for x in made])
    for found, exact in zip(outputs, exacts, strict=True):
        found, exact = found.double().numpy(), exact.double().numpy()
        assert np.abs(found - exact).max() <= 0.05 * np.abs(exact).max()
