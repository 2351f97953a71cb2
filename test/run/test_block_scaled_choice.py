"""The schedules that products with scales of blocks get on sm_100a, and batches of them: tiles of
whole panels by CTAs alone or in pairs, against NumPy and the static model.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from benchmarks.schedule_worker import NoMemory
from cutedialect.atoms import usual_device
from cutedialect.choosing.choose import choose
from cutedialect.choosing.gemm_problem import Problem
from cutedialect.choosing.gemm_schedules import GEMM_SPACE
from cutedialect.choosing.need import NONE
from cutedialect.model import predict
from cutedialect.schedule import Schedule
from cutedialect.tools.model_command import parsed

# Element, scale, elements that share one, and elements of a byte.
FORMATS: dict[str, tuple[str, str, int, int]] = {
    "mxfp8": ("e4m3", "ue8m0", 32, 1),
    "mxfp4": ("u8", "ue8m0", 32, 2),
    "nvfp4": ("u8", "e4m3", 16, 2),
}


def problem(format, m, n, k):
    _, _, block, packed = FORMATS[format]
    device = usual_device("sm_100a")
    return Problem(m, n, k, 1, 8 // packed, 16, scaled=block, device=device)


def arguments(format, m, n, k):
    """Operands and scales without memory."""
    element, scale, block, packed = FORMATS[format]
    columns = -(-k // (4 * block))
    scales = [cute.TensorSpec((-(-rows // 128), columns, 32, 4, 4), scale) for rows in (m, n)]
    a = cute.TensorSpec((m, k // packed), element)
    b = cute.TensorSpec((k // packed, n), element, (1, k // packed))
    return (a, b), {"scale_a": scales[0], "scale_b": scales[1]}


def compiled(format, m, n, k, **options):
    """The kernel of such a product."""
    specs, scales = arguments(format, m, n, k)
    given: dict[str, Any] = {"arch": "sm_100a", "backend": "emulator"} | scales | options
    return cute.compile(cute.gemm, *specs, **given)


EARLY = ", early_launch = yes"
CHOSEN = {
    "mxfp8 8192 8192 8192": "tile = (128,256,128), cluster = (2,1), swap_ab = no",
    "mxfp4 8192 8192 8192": "tile = (128,256,256), cluster = (2,1), swap_ab = no",
    "nvfp4 2048 7168 2048": "tile = (128,256,256), cluster = (2,1), swap_ab = no",
    "mxfp8 1024 1536 512": "tile = (128,128,128), cluster = (2,1), swap_ab = no" + EARLY,
    "nvfp4 16 4096 4096": "tile = (128,128,256), cluster = (2,1), swap_ab = yes" + EARLY,
}


@pytest.mark.parametrize("which", CHOSEN)
def test_choice(which):
    """Pairs share what they read of large products; few rows become columns."""
    format, *sizes = which.split()
    assert choose(GEMM_SPACE, (problem(format, *map(int, sizes)),)).text() == CHOSEN[which]


def test_tiles_are_whole_panels():
    for format in FORMATS:
        each = problem(format, 1000, 1000, 4096)
        tiles = {schedule.tile for schedule in GEMM_SPACE.ranked((each,), None, NONE)}
        depth = 128 * FORMATS[format][3]
        assert tiles == {(128, 256, depth), (128, 128, depth)}


def test_calls_take_the_choice_and_keep_fields():
    chosen = Schedule.parse(compiled("nvfp4", 8192, 8192, 8192).schedule)
    assert (chosen.tile, chosen.cluster) == ((128, 256, 256), (2, 1))
    kernel = compiled("nvfp4", 8192, 8192, 8192, schedule="cluster = (1,1), stages = 3")
    given = Schedule.parse(kernel.schedule)
    assert (given.tile, given.cluster, given.stages) == ((128, 256, 256), (1, 1), 3)
    assert "cta_group::2" not in kernel.ptx


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("format", "sizes"),
    [("nvfp4", (4096, 512, 2048)), ("mxfp8", (2048, 4096, 4096)), ("mxfp4", (64, 2112, 7168))],
)
def test_choice_by_the_static_model(format, sizes):
    """Of all whole tiles the chosen one takes at most 1.1 of the cycles of the best."""
    m, n, k = sizes
    each = problem(format, m, n, k)
    found: list[float] = []
    for schedule in GEMM_SPACE.ranked((each,), None, NONE):
        if schedule.split_k is not None:
            continue
        kernel = compiled(format, m, n, k, schedule=schedule)
        module = parsed(kernel.stages["convert-to-ptx"])
        found.append(predict(module, _arguments(kernel, format, m, n, k)).cycles)
    assert found[0] <= 1.1 * min(found)


@pytest.mark.some(1)
@pytest.mark.parametrize("format", FORMATS)
def test_what_tuning_compares_on_sm_120a(format):
    """Tiles of whole panels whose stages fit, all of which compile."""
    specs, options = arguments(format, 512, 512, 512)
    tuned = cute.gemm.tunable(specs, options | {"arch": "sm_120a"}, NoMemory())
    default, *others = tuned.candidates()
    assert default is None
    assert 6 <= len(others) == len(set(others))
    for schedule in others[:: len(others) - 1]:
        assert "block_scale" in tuned.compiled(schedule).ptx


def _arguments(kernel, format, m, n, k):
    """Shapes and strides of what a launch takes."""
    _, _, block, packed = FORMATS[format]
    held, words = k // packed, -(-k // (4 * block)) * 64
    laid = {
        "A": ((m, held), (held, 1)),
        "B": ((held, n), (1, held)),
        "D": ((m, n), (n, 1)),
        "scale_a": ((-(-m // 128), words), (words, 1)),
        "scale_b": ((-(-n // 128), words), (words, 1)),
    }
    if Schedule.parse(kernel.schedule).swap_ab == "yes":
        a, b, d = (tuple(part[::-1] for part in laid[name]) for name in "ABD")
        laid |= {"A": b, "B": a, "D": d, "scale_a": laid["scale_b"], "scale_b": laid["scale_a"]}
    return [laid.get(parameter.name, 0) for parameter in kernel.signature.parameters]


def _drawn(format, shape, seed):
    """Elements (..., rows, depth), their panels, and what both stand for: powers of two."""
    draw = np.random.default_rng(seed)
    _, scale, block, packed = FORMATS[format]
    *batch, rows, depth = shape
    element = ml_dtypes.float8_e4m3fn if packed == 1 else ml_dtypes.float4_e2m1fn
    values = draw.integers(-2, 3, shape).astype(element)
    count, panels = -(-depth // block), -(-depth // (4 * block))
    padded = np.ones((*batch, -(-rows // 128) * 128, 4 * panels))
    padded[..., :rows, :count] = np.exp2(draw.integers(-2, 3, (*batch, rows, count)))
    laid = padded.reshape(*batch, -1, 4, 32, panels, 4)
    order = [*range(len(batch)), *(len(batch) + mode for mode in (0, 3, 2, 1, 4))]
    kind = ml_dtypes.float8_e8m0fnu if scale == "ue8m0" else ml_dtypes.float8_e4m3fn
    scales = np.ascontiguousarray(laid.transpose(order)).astype(kind)
    spread = padded[..., :rows, :count].repeat(block, -1)[..., :depth]
    wide = values.astype(np.float64) * spread
    if packed == 2:
        codes = values.view(np.uint8)
        return codes[..., ::2] | codes[..., 1::2] << 4, scales, wide
    return values, scales, wide


@pytest.mark.some(2)
@pytest.mark.parametrize("schedule", [None, "cluster = (2,1)", "swap_ab = yes", "split_k = 2"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("shares_b", [False, True], ids=["each", "one b"])
def test_batches(format, schedule, shares_b):
    batch_b = () if shares_b else (2,)
    a, scale_a, left = _drawn(format, (2, 140, 288), 0)
    b, scale_b, right = _drawn(format, (*batch_b, 150, 288), 1)
    options: dict[str, Any] = {"arch": "sm_100a", "backend": "emulator", "out_dtype": "f32"}
    got = cute.gemm(
        *(a, b.swapaxes(-1, -2)),
        scale_a=scale_a,
        scale_b=scale_b,
        schedule=schedule,
        **options,
    )
    assert np.array_equal(got, (left @ right.swapaxes(-1, -2)).astype(np.float32))
