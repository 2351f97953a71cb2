"""Steps that are passed by where what they are anchored on is missing: kernels become the same as
where each step is entered.
"""

import random

import pytest
from xdsl.context import Context

import cutedialect as cute
from cutedialect.dialects import all_dialects
from cutedialect.passes.anchors import every_step
from cutedialect.passes.cute_to_ptx import pipeline
from cutedialect.tools.locating_parser import LocatingParser

TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a")
TILE = (64, 64)


def program(rng: random.Random):
    """A kernel of drawn steps: multiplies, rows that are reduced, branches on what tiles hold."""
    steps = rng.choices(("gemm", "again", "rows", "any", "sum", "scale"), k=rng.randint(1, 4))
    is_local = rng.random() < 0.5

    @cute.kernel
    def drawn(A, B, C):
        i, j = cute.tile_index(C, TILE)
        a, b = cute.local_tile(A, (64, 32), (i, None)), cute.local_tile(B, (64, 32), (j, None))
        acc = cute.zeros(TILE, cute.f32)
        acc.assign(cute.local_tile(A, TILE, (i, 0)).to(cute.f32))
        for step in steps:
            if step == "gemm":
                for k in cute.range(a.tiles):
                    cute.gemm(a[k], b[k].T, acc)
            elif step == "again":
                total = cute.zeros(TILE, cute.f32)
                cute.gemm(acc.to(cute.f16), cute.local_tile(B, TILE, (j, 0)), total)
                acc.assign(total)
            elif step == "rows":
                acc.assign(acc - cute.row_max(acc))
            elif step == "any":
                with cute.when(cute.any(acc > 3.0, local=is_local)):
                    acc.assign(acc * 0.5)
            elif step == "sum":
                parts = cute.zeros((64, 1), cute.f32)
                for k in cute.range(a.tiles):
                    parts.assign(parts + cute.row_sum(a[k].to(cute.f32)))
                acc.assign(acc + parts)
            else:
                acc.assign(acc * 2.0)
        cute.copy(acc.to(cute.f16), cute.local_tile(C, TILE, (i, j)))

    return drawn


def schedule(rng: random.Random, arch: str) -> str:
    chosen = [f"stages = {rng.randint(1, 3)}"]
    if arch in ("sm_90a", "sm_100a"):
        chosen.append(f"scheduler = {rng.choice(('single', 'persistent', 'dynamic'))}")
        chosen.append(f"overlap = {rng.choice(('yes', 'no', 'turns'))}")
    return ", ".join(chosen)


def stages_of(text: str, arch: str, chosen: str) -> list[str]:
    """What each pass makes of a module, up to the error that it ends with."""
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    module = LocatingParser(context, text, "drawn.mlir").parse_module()
    made: list[str] = []
    try:
        for step in pipeline(arch, chosen):
            step.apply(context, module)
            made.append(str(module))
    except Exception as error:
        made.append(f"{type(error).__name__}: {error}")
    return made


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("seed", range(6))
def test_a_step_without_its_anchors_changes_nothing(arch: str, seed: int) -> None:
    rng = random.Random(f"{arch} {seed}")
    specs = [cute.TensorSpec((None, None), "f16")] * 3
    kernel = cute.compile(program(rng), *specs, arch="sm_80")
    text, chosen = kernel.stages["trace"], schedule(rng, arch)
    skipping = stages_of(text, arch, chosen)
    with every_step():
        entering = stages_of(text, arch, chosen)
    assert skipping == entering
