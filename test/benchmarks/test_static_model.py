"""What the static model is told of a case's launch."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from benchmarks.gemm_case import Gemm
from benchmarks.static_model import Ticks, arguments_of


@pytest.mark.parametrize("swap", ["no", "yes"])
def test_a_product_that_is_computed_transposed_has_its_operands_turned(swap):
    case = Gemm("drawn", "bf16", (64, 1024, 512))
    kernel = case.compiled(f"swap_ab = {swap}", "sm_90a")
    found = dict(
        zip((each.name for each in kernel.signature.parameters), arguments_of(case, kernel),
            strict=True)
    )  # fmt: skip
    plain = {
        "A": ((64, 512), (512, 1)),
        "B": ((512, 1024), (1, 512)),
        "D": ((64, 1024), (1024, 1)),
    }
    turned = {
        "A": ((1024, 512), (512, 1)),
        "B": ((512, 64), (1, 512)),
        "D": ((1024, 64), (1, 1024)),
    }
    assert {name: found[name] for name in "ABD"} == (turned if swap == "yes" else plain)


def test_counters_are_read_on_the_stream_that_torch_works_on(monkeypatch):
    launches = []

    class Kernel:
        def __init__(self, source, name):
            self.name = name

        def __call__(self, grid, block, arguments, shared_mem, stream):
            launches.append((self.name, grid, arguments, stream))

    stream = SimpleNamespace(from_external=lambda other: other.__cuda_stream__())
    streams = SimpleNamespace(Stream=stream)
    cupy = SimpleNamespace(RawKernel=Kernel, uint64=int, cuda=streams)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", streams)
    torch = SimpleNamespace(
        int64="int64",
        zeros=lambda shape, dtype, device: SimpleNamespace(shape=shape, data_ptr=lambda: 4096),
        cuda=SimpleNamespace(
            get_device_properties=lambda device: SimpleNamespace(multi_processor_count=132),
            current_stream=lambda: SimpleNamespace(cuda_stream=77),
        ),
    )
    assert Ticks(torch).read().shape == (132, 2)
    assert launches == [("tick", (132,), (4096,), (0, 77))]
