"""Programs whose multiplies feed each other in other ways than attention's: a state that runs along
a loop and is read by a multiply of it, and an epilogue that multiplies again, in a loop of its own.
"""

import importlib.util
import itertools
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas

TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a")
STAGES = 3
# Of a ring with so many stages: none, one, around a full ring, and around it twice.
TRIPS = (0, 1, 2, 3, 4, 7)


def example(name):
    """A module of `examples/`."""
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"multiplied_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LINEAR, ADAPTER = example("linear_attention"), example("adapter")


def normals(rng, *shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float16)


def schedule_for(arch):
    return "stages = 2" if arch == "sm_75" else f"stages = {STAGES}"


def linear_operands(rng, heads, length, d, dv):
    q, k, v = (normals(rng, 1, heads, length, width) for width in (d, d, dv))
    return q, k, v, rng.uniform(-0.2, 0, heads).astype(np.float32)


def check_linear(kernel, operands):
    out = np.full_like(operands[2], np.nan)
    kernel.launch(*operands, out)
    if out.size:
        exact = LINEAR.reference(*operands)
        assert np.abs(out - exact).max() <= 2e-3 * np.abs(exact).max()


def check_adapter(kernel, x, w, u):
    y = np.full((len(x), u.shape[1]), np.nan, np.float16)
    kernel.launch(x, w, u, y)
    exact = ADAPTER.reference(x, w, u)
    assert np.abs(y - exact).max() <= 1e-3 * np.abs(exact).max()


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", TARGETS)
def test_a_state_that_runs_along_the_loop(arch):
    """Every trip count around the stages of the ring, whole chunks and ragged ones."""
    rng = np.random.default_rng(0)
    specs = [cute.TensorSpec((1, None, None, 32), cute.f16)] * 3
    kernel = cute.compile(
        LINEAR.linear_attention, *specs, cute.TensorSpec((None,), cute.f32), specs[0],
        arch=arch, schedule=schedule_for(arch), tile=(64, 32, 32),
    )  # fmt: skip
    for trips in TRIPS:
        length = max(0, 64 * trips - int(rng.integers(0, 64)))
        check_linear(kernel, linear_operands(rng, 2, length, 32, 32))


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("seed", range(3))
def test_drawn_states(arch, seed):
    """Chunks, widths of keys and of values, and tiles of these, as they come."""
    rng = np.random.default_rng([seed, 5])
    bt, d, dv = 64 * int(rng.integers(1, 3)), *(16 * int(n) for n in rng.integers(1, 8, 2))
    operands = linear_operands(
        rng, 2, int(rng.integers(1, 3 * bt)), d, dv + 8 * int(rng.integers(3))
    )
    kernel = cute.compile(
        LINEAR.linear_attention, *operands, np.empty_like(operands[2]), arch=arch, tile=(bt, d, dv)
    )
    check_linear(kernel, operands)


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", TARGETS)
def test_an_epilogue_that_multiplies_again(arch):
    """Every trip count of the first loop; of the second one as many, or one more."""
    rng = np.random.default_rng(1)
    specs = [cute.TensorSpec(shape, cute.f16) for shape in ((None, None), (None, 32), (32, None))]
    kernel = cute.compile(
        ADAPTER.adapter, *specs, specs[0],
        arch=arch, schedule=schedule_for(arch), tile=(64, 32, 32), hidden=32,
    )  # fmt: skip
    for trips in TRIPS:
        rows, columns = int(rng.integers(1, 150)), 8 * max(1, 4 * trips - int(rng.integers(0, 3)))
        x, w = normals(rng, rows, columns), normals(rng, columns, 32, scale=0.2)
        check_adapter(kernel, x, w, normals(rng, 32, columns, scale=0.2))


@pytest.mark.some(1)
@pytest.mark.parametrize("schedule", ["roles = alternate", "roles = alternate, instances = 3"])
def test_the_second_loop_of_one_item_beside_the_first_of_another(schedule):
    rng = np.random.default_rng(2)
    x, w = normals(rng, 64 * 9 + 5, 104), normals(rng, 104, 32, scale=0.2)
    u = normals(rng, 32, 104, scale=0.2)
    kernel = cute.compile(
        ADAPTER.adapter, x, w, u, np.empty_like(x),
        arch="sm_90a", schedule=schedule, tile=(64, 32, 32), hidden=32,
    )  # fmt: skip
    assert "bar.arrive" in kernel.ptx
    check_adapter(kernel, x, w, u)


def linear_kernel():
    specs = [cute.TensorSpec((1, 2, None, 64), cute.bf16)] * 3
    return cute.compile(
        LINEAR.linear_attention, *specs, cute.TensorSpec((2,), cute.f32), specs[0], arch="sm_90a"
    )


def test_two_multiplies_work_at_a_time():
    """Those of a chunk's queries, and then those of its values: each pair has one wait behind it
    for the first of them, and what hangs on that goes on while the second one works.
    """
    kernel = linear_kernel()
    text = kernel.stages["cute-synchronize"].split('role "main"')[1]
    found = re.findall(r"cute\.gemm|wgmma_wait \{pending = \d|cute\.map|tma_store_commit", text)
    trip = [mark for mark, _ in itertools.groupby(found)]
    pair = ["cute.gemm", "wgmma_wait {pending = 1"]
    first = trip.index("cute.gemm")
    assert trip[first:][:4] == [*pair, "cute.map", "wgmma_wait {pending = 0"]
    second = trip.index("cute.gemm", first + 1)
    assert trip[second:] == [*pair, "cute.map", "tma_store_commit", "wgmma_wait {pending = 0"]
    (found,) = [each for each in kernel.remarks if "not overlapped" in each.message]
    assert "it reads what the last one adds to" in found.message
    line = int(str(found.location).split(":")[1])
    source = Path(LINEAR.__file__).read_text().split("\n")
    assert source[line - 1].strip() == "cute.gemm(q[j], state.to(V.dtype), y)"


def test_two_multiplies_work_at_a_time_in_machine_code(tmp_path):
    disassembler = ptxas.find("sm_90a").with_name("nvdisasm")
    if not disassembler.exists():
        pytest.skip("needs nvdisasm beside ptxas")
    kernel = linear_kernel()
    assert ptxas.assemble(kernel.ptx, "sm_90a").messages == ()
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(kernel.cubin)
    run = subprocess.run([disassembler, "-c", cubin], capture_output=True, text=True, check=True)
    marks = re.findall(r"HGMMA|WARPGROUP\.DEPBAR", run.stdout)
    pairs = [(mark, len(list(group))) for mark, group in itertools.groupby(marks)]
    assert pairs == [("HGMMA", 8), ("WARPGROUP.DEPBAR", 2)] * 2
