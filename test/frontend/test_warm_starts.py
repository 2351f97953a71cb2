"""A call whose kernel is on disk neither chooses, traces nor lowers anything anew, and imports
nothing that only others need.
"""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
before = set(sys.modules)
import cutedialect as cute

arch, expected = sys.argv[1:]
# What assembles, writes files, knows misspelled names, shows notebooks, and other calls.
LATE = {
    "subprocess", "tempfile", "difflib", "html", "numpy.random", "numpy.typing",
    "cutedialect.frontend.conv2d_operands", "cutedialect.frontend.attention_operands",
}
matrix = cute.TensorSpec((512, 512), "bf16")
heads, lse = cute.TensorSpec((2, 4, 512, 64), "bf16"), cute.TensorSpec((2, 4, 512), "f32")
cute.compile(cute.gemm, matrix, matrix, arch=arch, backend="emulator")
early = LATE & (set(sys.modules) - before)
assert expected == "cold" or not early, early
calls = (
    (cute.gemm, (matrix, matrix), {"schedule": "tile = (128,64,64)"}),
    (cute.grouped_gemm, ([matrix, matrix], [matrix, matrix]), {}),
    (cute.attention, (heads, heads, heads), {"causal": True}),
    (cute.attention_backward, (heads,) * 5 + (lse,), {}),
)
for call, arrays, options in calls:
    cute.compile(call, *arrays, arch=arch, backend="emulator", **options)
    if expected == "warm":
        assert "xdsl" not in sys.modules, (call.__name__, options)
"""


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80", "sm_100a"])
def test_calls_whose_kernels_are_on_disk_import_no_xdsl(arch, tmp_path):
    environment = os.environ | {"CUTEDIALECT_CACHE_DIR": str(tmp_path)}
    environment.pop("CUTEDIALECT_NO_CACHE", None)
    for expected in ("cold", "warm"):
        command = [sys.executable, "-c", SCRIPT, arch, expected]
        subprocess.run(command, env=environment, check=True, timeout=120)
