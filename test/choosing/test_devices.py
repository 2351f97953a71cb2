"""One table of devices: prices of one that was timed are scaled for another, which is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

import cutedialect as cute
from cutedialect.atoms import DEVICES, H100, device_named, usual_device
from cutedialect.choosing.choose import choose
from cutedialect.choosing.gemm_price import cycles, gemm_price
from cutedialect.choosing.gemm_problem import Problem
from cutedialect.choosing.gemm_schedules import GEMM_SPACE
from cutedialect.choosing.price import load, nearest, remark_on
from cutedialect.frontend import gemm as gemm_module
from cutedialect.frontend.attention_splits import processors_of

H200, PCIE = (device_named(f"NVIDIA {name}", "sm_90a") for name in ("H200", "H100 PCIe"))


def test_names_of_the_driver_are_found_and_targets_have_a_usual_device():
    assert device_named("NVIDIA H100 80GB HBM3", "sm_90a") is H100
    assert (H200.name, PCIE.name) == ("H200", "H100 PCIe")
    assert device_named("NVIDIA GeForce RTX 5090", "sm_120a").processors == 170
    assert device_named("something new", "sm_100a").name == "B200"
    assert len({each.file for each in DEVICES}) == len(DEVICES)
    for arch in ("sm_80", "sm_90a", "sm_100f"):
        assert processors_of(arch, "emulator") == usual_device(arch).processors


def test_the_nearest_device_with_prices_stands_for_others():
    assert nearest("gemm", H100) == H100
    b200, b300 = (usual_device(arch) for arch in ("sm_100a", "sm_103a"))
    for device, of in ((H200, H100), (PCIE, H100), (b200, b200), (b300, b200)):
        assert nearest("gemm", device) == of
    assert remark_on("gemm", H100) is None
    text = str(remark_on("gemm", H200))
    assert "no timings of H200 are known" in text
    assert "those of H100, scaled to 132 multiprocessors and 4.8 TB/s" in text


def test_prices_are_scaled_by_the_numbers_of_both():
    known, wide, small = (gemm_price(device) for device in (H100, H200, PCIE))
    assert wide.memory_bytes / known.memory_bytes == pytest.approx(4.8 / 3.35)
    assert wide.resident == known.resident
    assert small.resident[1] == 114
    assert all(count % ctas == 0 for ctas, count in small.resident.items())
    # What waits for memory comes sooner, what multiplies does not.
    schedule = cute.Schedule.parse("tile = (64,16,128), cluster = (1,1), swap_ab = yes")
    thin = Problem(8, 8192, 8192, 1, 16, 16)
    assert cycles(schedule, replace(thin, device=H200)) < 0.9 * cycles(schedule, thin)
    schedule = cute.Schedule.parse("tile = (128,256,64), cluster = (2,1), swap_ab = no")
    square = Problem(8192, 8192, 8192, 1, 16, 16)
    assert cycles(schedule, replace(square, device=H200)) > 0.97 * cycles(schedule, square)
    assert cycles(schedule, replace(square, device=PCIE)) > 1.1 * cycles(schedule, square)


def test_a_smaller_device_has_other_waves():
    """Of 120 tiles 114 multiprocessors take two rounds."""
    problem = Problem(1920, 2048, 4096, 1, 16, 16)
    tiles = {device.name: choose(GEMM_SPACE, (replace(problem, device=device),)).tile
             for device in (H100, PCIE)}  # fmt: skip
    assert tiles["H100"] != tiles["H100 PCIe"]


def test_tensor_memory_is_priced_by_the_device_too():
    b200 = usual_device("sm_100a")
    problem = Problem(16, 8192, 8192, 1, 16, 16, device=b200)
    schedule = cute.Schedule(tile=(128, 16, 64), swap_ab="yes")
    slow = replace(b200, memory_bytes=b200.memory_bytes / 4)
    assert cycles(schedule, replace(problem, device=slow)) > 1.2 * cycles(schedule, problem)


def test_prices_of_a_device_that_was_not_timed_say_what_they_follow_from():
    """Pairs multiply large products, and choices follow from the file: with its constants alone,
    or with what trees add, some differ.
    """
    b200 = usual_device("sm_100a")
    data = load("gemm", b200.file)
    assert "the static model" in data.timings["of"]
    assert data.timings["longer_than_best"] < 1.03
    large = Problem(8192, 8192, 8192, 1, 16, 16, device=b200)
    assert choose(GEMM_SPACE, (large,)).cluster == (2, 1)
    assert choose(GEMM_SPACE, (large, replace(large, m=100))).cluster == (2, 1)
    assert choose(GEMM_SPACE, (large, replace(large, m=100))).split_k is None


def test_a_kernel_says_whose_timings_decided(monkeypatch):
    a, b = cute.TensorSpec((256, 512), "bf16"), cute.TensorSpec((512, 384), "bf16", (1, 512))

    def remarks(**options):
        cute.gemm.forget()
        kernel = cute.compile(cute.gemm, a, b, arch="sm_90a", **options)
        return [str(each) for each in kernel.remarks if each.pass_name == "choosing"]

    assert remarks() == []
    device_for = gemm_module.device_for
    monkeypatch.setattr(gemm_module, "device_for", lambda arch: H200)
    assert "no timings of H200" in remarks()[0]
    whole = "tile = (128,128,64), roles = specialized"
    assert device_for("sm_90a") == H100
    assert len(remarks(schedule=whole)) == 0
