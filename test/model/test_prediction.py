"""The static model: what it predicts follows the work of a kernel, and it knows its roles. How near
it is to an H100 is what `benchmarks.static_model` measures.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import cutedialect as cute
from cutedialect import __main__
from cutedialect.model import B200, H100, predict
from cutedialect.tools.model_command import argument, described, packed, parsed


def gemm(m, n, k, arch, dtype="bf16", **options):
    shapes = (m, k), (k, n), (m, n)
    specs = cute.TensorSpec((m, k), dtype), cute.TensorSpec((k, n), dtype, (1, None))
    kernel = cute.compile(cute.gemm, *specs, arch=arch, out_dtype="bf16", **options)
    arguments = [(shape, packed(shape)) for shape in shapes]
    arguments[1] = (k, n), (1, k)
    arguments += [1.0] * (len(kernel.signature.parameters) - 3)
    return predict(parsed(kernel.stages["convert-to-ptx"]), arguments)


def attention(rows, arch, heads=16, depth=128, device=None, **options):
    shape = (1, heads, rows, depth)
    spec = cute.TensorSpec(shape, "bf16")
    kernel = cute.compile(cute.attention, spec, spec, spec, arch=arch, **options)
    arguments = [
        (shape, packed(shape)) if hasattr(each, "rank") else {"right": 0}.get(each.name, 1.0)
        for each in kernel.signature.parameters
    ]
    return predict(parsed(kernel.stages["convert-to-ptx"]), arguments, device)


@pytest.mark.some(1)
@pytest.mark.parametrize(("arch", "device"), [("sm_90a", H100), ("sm_100a", B200)])
def test_a_product_takes_its_multiplies_and_little_more(arch, device):
    """No unit is busier than the work that it is given: the tensor cores of an SM multiply its
    share, and twice the depth takes as much again.
    """
    once, twice = (gemm(2048, 2048, k, arch) for k in (2048, 4096))
    least = 2048 * 2048 * 2048 / device.processors / device.tensor
    assert least < once.cycles < 2.2 * least
    assert 0.99 * least < twice.cycles - once.cycles < 1.6 * least
    assert once.seconds == once.cycles / device.clock


def test_pairs_take_over_launches_that_are_canceled():
    """Warps of both CTAs release a response in the first one. Items of one length are over as soon
    as where CTAs walk over them.
    """
    walked, taken = (
        gemm(4096, 4096, 512, "sm_100a", schedule=f"tile = (128,256,64), scheduler = {each}")
        for each in ("persistent", "cancel")
    )
    assert 0.85 < walked.cycles / taken.cycles < 1.05


def test_pairs_of_many_roles_multiply_most_of_the_time():
    """Four warps of one role arrive for those of the other CTA as well, beside two other roles of
    as many: each phase took two trips.
    """
    schedule = "tile = (128,96), roles = corrected, cluster = (2,1)"
    prediction = attention(4096, "sm_100a", depth=256, schedule=schedule)
    (kernel,) = prediction.kernels
    assert kernel.units["tensor"] > 0.6 * kernel.cycles


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("arch", "names"),
    [("sm_90a", {"load", "main"}), ("sm_100a", {"load", "mma", "main"})],
)
def test_roles_and_where_the_time_goes(arch, names):
    prediction = attention(1024, arch)
    (kernel,) = prediction.kernels
    assert {role.name for role in kernel.roles} == names
    multiplying = next(role for role in kernel.roles if "tensor" in role.busy)
    softmax = next(role for role in kernel.roles if "sfu" in role.busy)
    loading = next(role for role in kernel.roles if role.name == "load")
    assert loading.bytes["l2"] > 0
    # An exponential for each score, 16 in a cycle of an SM; a warp has one of 4 quarters.
    work = 16 * 1024 * 1024 / prediction.device.processors
    scores = len(softmax.warps) * softmax.busy["sfu"] * 4
    assert scores / 4 > 0.9 * work / 16 * 0.9
    assert multiplying.busy["tensor"] > 0
    assert "phases" in loading.waited
    text = described(prediction)
    assert "@attention" in text
    assert all(name in text for name in names)


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_100a", "sm_90a"])
def test_masks_leave_out_work(arch):
    full, causal = (attention(2048, arch, heads=32, causal=each) for each in (False, True))
    assert 0.45 < causal.cycles / full.cycles < 0.85


def test_a_long_item_behind_short_ones_is_waited_for():
    """Tiles of 8 heads come first, the longest in front; those of one more head come behind them,
    and the longest one of these begins when the others are nearly done.
    """
    device = replace(H100, processors=16)
    schedule = "tile = (128,128), warps = (8,1), scheduler = dynamic, order = sections, raster = 8"
    few, more = (
        attention(512, "sm_90a", each, causal=True, schedule=schedule, device=device).kernels[0]
        for each in (8, 9)
    )
    # One item more for a sixteenth of the CTAs, all of which have 9/8 to do.
    assert 1.2 < more.cycles / few.cycles < 1.6


def test_streams_take_as_long_as_memory():
    @cute.kernel
    def add(X, Y, Z):
        i, j = cute.tile_index(Z, (4, 1024))
        x, y = (cute.local_tile(T, (4, 1024), (i, j)).load() for T in (X, Y))
        cute.copy(x + y, cute.local_tile(Z, (4, 1024), (i, j)))

    specs = [cute.TensorSpec((None, None), "f32")] * 3
    kernel = cute.compile(add, *specs, arch="sm_90a")
    shape = (8192, 8192)
    module = parsed(kernel.stages["convert-to-ptx"])
    prediction = predict(module, [(shape, packed(shape))] * 3)
    seconds = 3 * 4 * 8192**2 / H100.memory_bytes
    assert seconds < prediction.seconds < 1.15 * seconds
    assert prediction.kernels[0].bound.startswith("memory")


@pytest.mark.some(2)
@pytest.mark.parametrize("seed", range(12))
def test_drawn_schedules_have_an_end(seed):
    """Whatever the stages, tiles and clusters: each wait of a warp ends in the model too."""
    rng = random.Random(seed)
    arch = rng.choice(("sm_90a", "sm_100a"))
    tile = rng.choice(("(128,128,64)", "(128,256,64)", "(128,64,64)"))
    schedule = f"tile = {tile}, cluster = {rng.choice(('(1,1)', '(2,1)', '(1,2)'))}"
    schedule += rng.choice(("", ", stages = 3", ", scheduler = persistent"))
    m, n, k = (64 * rng.randint(2, 20) for _ in range(3))
    prediction = gemm(m, n, k, arch, schedule=schedule)
    device = prediction.device
    assert prediction.cycles > device.launch + m * n * k / device.processors / device.tensor


@pytest.mark.some(2)
@pytest.mark.parametrize("how", ["cluster", "ordered", "atomic"])
def test_parts_of_a_product_that_meet(how):
    """What other CTAs of a cluster send, and what they leave in memory, is there in time."""
    schedule = f"tile = (128,64,64), split_k = 4, reduction = {how}"
    parts, whole = (gemm(256, 256, 4096, "sm_90a", schedule=each)
                    for each in (schedule, "tile = (128,64,64)"))  # fmt: skip
    assert parts.cycles < whole.cycles


def test_the_command(tmp_path, capsys):
    kernel = cute.compile(
        cute.gemm, *[cute.TensorSpec((None, None), "f16")] * 2, arch="sm_90a", schedule="stages = 3"
    )
    names = [each.name for each in kernel.signature.parameters]
    path = tmp_path / "gemm.mlir"
    path.write_text(kernel.stages["convert-to-ptx"])
    shapes = ["1024x2048", "2048x512", "1024x512", *["1.0"] * (len(names) - 3)]
    assert __main__.main(["model", str(path), *shapes]) == 0
    text = capsys.readouterr().out
    assert "cycles on H100 SXM" in text
    assert "tensor" in text
    assert __main__.main(["model", str(path), *shapes[:2]]) == 1
    assert f"expected {len(names)} arguments (A, B, D" in capsys.readouterr().err
    assert __main__.main(["model", str(path), "1024xx"]) == 1
    assert "expected extents such as" in capsys.readouterr().err
    path.write_text("module {")
    assert __main__.main(["model", str(path), *shapes]) == 1
    assert "expected IR of a kernel" in capsys.readouterr().err
    path.write_text(kernel.stages["cute-synchronize"])
    assert __main__.main(["model", str(path), *shapes]) == 1
    assert "expected IR of the stage convert-to-ptx" in capsys.readouterr().err


def test_arguments():
    assert argument("4x6:1,4") == ((4, 6), (1, 4))
    assert argument("-3") == -3
    with pytest.raises(ValueError, match="expected 2 strides"):
        argument("4x6:1,4,2")
