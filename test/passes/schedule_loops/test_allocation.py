"""Stages and registers: allocated behind the roles by functions of plain facts, which are the same
of operands that are still in global memory and of the copies that bring them.
"""

import pytest

import cutedialect as cute
from cutedialect import allocation
from cutedialect.allocation import Ring, RoleUse, SharedUse, registers_of_roles, stages_that_fit
from cutedialect.frontend import launch
from cutedialect.passes.bind import partition
from cutedialect.passes.roles import assign_warp_roles

KIB = 1024


def test_stages_are_as_many_as_fit():
    """A stage takes 24 KiB; barriers 16 bytes a stage and ring; at most what the ring has."""
    for capacity in range(60 * KIB, 200 * KIB, 5 * KIB):
        use = SharedUse(capacity, 8 * KIB, (Ring(16 * KIB), Ring(8 * KIB)), signaled=2)
        stages = stages_that_fit(use, 16)
        assert use.left(stages) >= 0 > use.left(stages + 1)
        assert use.buffer_bytes(stages) == 8 * KIB + stages * 24 * KIB
    assert stages_that_fit(use, 3) == 3
    assert stages_that_fit(SharedUse(64 * KIB, 0, (Ring(KIB, most=2),)), 16) == 16
    assert stages_that_fit(SharedUse(8 * KIB, 0, (Ring(KIB, most=2),)), 16) == 16
    assert stages_that_fit(SharedUse(8 * KIB, 16 * KIB, (Ring(KIB),)), 16) == 1


def test_what_stays_gets_its_second_stage_first():
    """Unless the loop is left with one; what a schedule asks for counts before it."""
    use = SharedUse(100 * KIB, 16 * KIB, (Ring(20 * KIB),), second_bytes=16 * KIB)
    assert stages_that_fit(use, 16) == 3
    assert stages_that_fit(use, 4, is_asked=True) == 4
    tight = SharedUse(60 * KIB, 16 * KIB, (Ring(20 * KIB),), second_bytes=16 * KIB)
    assert stages_that_fit(tight, 16) == 2


@pytest.mark.parametrize("loads", ["boxes", "copies", "shifts"])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_warpgroups_share_all_registers(loads, groups):
    """What they get is what they start with, but for what is left of a multiple of 8 each, and what
    one thread cannot name.
    """
    for multiplies in (1, 2, 3, 5):
        for prepares in (False, True):
            use = RoleUse(groups, multiplies, loads, prepares)
            narrow, wide = registers_of_roles(use)
            pool = (groups + 1) * allocation.registers_at_entry(128 * (groups + 1))
            assert narrow % 8 == wide % 8 == 0
            assert narrow + groups * wide <= pool
            assert wide + 8 > 255 or narrow + groups * (wide + 8) > pool


def test_ctas_of_a_processor_keep_what_they_start_with():
    assert registers_of_roles(RoleUse(2, 1, ctas=2)) is None
    assert registers_of_roles(RoleUse(1, 1, in_tensor_memory=True)) is None


F16, F32 = cute.f16, cute.f32
HEADS = cute.TensorSpec((1, 2, 256, 128), F16)
CALLS = {
    "boxes": (cute.gemm, [cute.TensorSpec((512, 512), F16)] * 2, {}),
    "turned tf32": (
        cute.gemm,
        [cute.TensorSpec((512, 512), F32), cute.TensorSpec((512, 512), F32)],
        {"precision": "tf32"},
    ),
    "any element": (cute.gemm, [cute.TensorSpec((511, 511), F16)] * 2, {}),
    "threads": (cute.gemm, [cute.TensorSpec((512, 512), F16)] * 2, {"schedule": "loads = threads"}),
    "attention": (cute.attention, [HEADS] * 3, {}),
    "short rows": (cute.attention, [cute.TensorSpec((1, 2, 256, 100), F16)] * 3, {}),
}


@pytest.mark.some(6)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("call", CALLS)
def test_operands_and_copies_give_the_same_registers(call, arch, monkeypatch):
    """Who binds results expects what roles get later."""
    seen = {}

    def recorded(module):
        def registers(use):
            seen[module] = use, registers_of_roles(use)
            return seen[module][1]

        monkeypatch.setattr(module, "registers_of_roles", registers)

    for module in (partition, assign_warp_roles):
        recorded(module)
    # Another test may have compiled the same.
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    monkeypatch.setattr(launch, "_kernels", {})
    function, specs, options = CALLS[call]
    kernel = cute.compile(function, *specs, arch=arch, **options)
    if assign_warp_roles not in seen:
        # Several roles of warpgroups have registers of their own.
        assert arch == "sm_100a"
        assert not cute.Schedule.parse(kernel.schedule).plan.is_specialized
        return
    (before, expected), (behind, allocated) = seen[partition], seen[assign_warp_roles]
    assert (before.loads == "boxes") == (behind.loads == "boxes")
    assert expected == allocated == cute.Schedule.parse(kernel.schedule).registers


def test_a_schedule_that_is_printed_says_what_was_allocated():
    halves = [cute.TensorSpec((512, 512), F16)] * 2
    kernel = cute.compile(cute.gemm, *halves, arch="sm_90a", schedule="stages = 16")
    fitting = cute.Schedule.parse(kernel.schedule).stages
    assert 1 < fitting < 16
    assert any(f"{fitting} stages instead of 16" in each.message for each in kernel.remarks)
    text = kernel.stages["cute-tile"]
    assert "registers" not in text.split("schedule<")[1].split(">")[0]


def test_one_stage_leaves_a_remark():
    @cute.kernel
    def product(A, B, Y, *, tile=(128, 256, 256)):
        bm, bn, bk = tile
        m, n = cute.tile_index(Y, (bm, bn))
        a = cute.local_tile(A, (bm, bk), (m, None))
        b = cute.local_tile(B, (bk, bn), (None, n))
        y = cute.zeros((bm, bn))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], y)
        cute.copy(y, cute.local_tile(Y, (bm, bn), (m, n)))

    specs = [cute.TensorSpec((512, 512), F16)] * 2 + [cute.TensorSpec((512, 512), F32)]
    kernel = cute.compile(product, *specs, arch="sm_90a")
    assert cute.Schedule.parse(kernel.schedule).stages == 1
    assert any(
        "one stage, so that nothing is loaded ahead" in each.message for each in kernel.remarks
    )
