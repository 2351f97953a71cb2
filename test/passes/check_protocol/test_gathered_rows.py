"""Copies of rows that a program numbers, which lanes of several warps start: the ring that they
fill is proved, and each edit that breaks it is refused.
"""

import pytest
from xdsl.context import Context
from xdsl.parser import Parser

import cutedialect as cute
from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute import KernelOp
from cutedialect.passes.protocol.check_protocol import verdict_of


@cute.kernel
def gathered(X, W, rows, Y):
    m, n = cute.tile_index(Y, (128, 64))
    x = cute.local_tile(X, (128, 64), (cute.local_tile(rows, (128,), (m,)), None))
    w = cute.local_tile(W, (64, 64), (None, n))
    acc = cute.zeros((128, 64))
    for k in cute.range(x.tiles):
        cute.gemm(x[k], w[k], acc)
    cute.copy(acc, cute.local_tile(Y, (128, 64), (m, n)))


@pytest.fixture(scope="module")
def text():
    spec = cute.TensorSpec
    specs = spec((None, None), "f16"), spec((None, None), "f16", (1, None)), spec((None,), "i32")
    y = spec((None, None), "f32")
    kernel = cute.compile(gathered, *specs, y, arch="sm_100a", schedule="stages = 3")
    assert "tma_load<f16, rows>" in kernel.stages["cute-expand-roles"]
    return kernel.stages["cute-expand-roles"]


def verdict(text):
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    module = Parser(context, text).parse_module()
    return verdict_of(next(op for op in module.ops if isinstance(op, KernelOp)))


def without(text, name, place):
    """The text without one of the lines that have a name."""
    lines = text.splitlines()
    found = [at for at, line in enumerate(lines) if line.strip().startswith(name)]
    del lines[found[place]]
    return "\n".join(lines)


def test_the_ring_is_proved(text):
    found = verdict(text)
    assert found.findings == ()
    assert found.cases >= 6


@pytest.mark.parametrize(
    ("edit", "finds"),
    [
        (lambda text: without(text, "pipeline.producer_acquire", 0), ("CD-R1", "cute.copy")),
        (lambda text: without(text, "pipeline.expect", 0), ("CD-R3", "cute.copy")),
        (lambda text: without(text, "pipeline.advance", 0), ("CD-R8", "pipeline.consumer_release")),
        (lambda text: text.replace("bytes = 24576", "bytes = 12288"), ("CD-R3", "cute.copy")),
        (
            lambda text: text.replace("bytes = 24576", "bytes = 28672"),
            ("CD-R5", "pipeline.consumer_wait"),
        ),
    ],
)
def test_an_edit_that_breaks_the_ring_is_found(text, edit, finds):
    assert edit(text) != text
    assert finds in {(found.code, found.op.name) for found in verdict(edit(text)).findings}
