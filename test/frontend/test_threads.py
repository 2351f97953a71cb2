"""First uses by several threads at one time: in processes of their own, where nothing is imported
yet, no table is filled and nothing compiled. Threads take turns as often as Python can.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START = """
import sys, threading, traceback
import numpy as np
import cutedialect as cute
sys.setswitchinterval(1e-6)
A, B = np.ones((40, 24), np.float16), np.ones((24, 48), np.float16)

def together(*works):
    barrier, failures = threading.Barrier(len(works)), []
    def run(work):
        barrier.wait()
        try:
            work()
        except BaseException:
            failures.append(traceback.format_exc())
    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    sys.exit("\\n".join(failures) or 0)

def product(arch="sm_80", backend="emulator"):
    assert (cute.gemm(A, B, arch=arch, backend=backend) == 24).all()
"""


def run(code, folder):
    done = subprocess.run(
        [sys.executable, "-c", START + code],
        cwd=ROOT,
        env={"CUTEDIALECT_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_eight_first_products_in_the_emulator(tmp_path):
    run("together(*[product] * 8)", tmp_path)


@pytest.mark.some(1)
@pytest.mark.parametrize("first", range(3))
def test_first_uses_of_all_kinds(tmp_path, first):
    """Each comes into the package at a place of its own."""
    code = f"""
S = cute.TensorSpec((None, None), "f16")
Q = np.ones((1, 1, 16, 32), np.float16)
works = [
    product, lambda: product("sm_90a"), lambda: product(backend="interpreter"),
    lambda: cute.compile(cute.gemm, S, S, arch="sm_100a").ptx,
    lambda: cute.attention(Q, Q, Q, arch="sm_80", backend="emulator"),
    lambda: cute.grouped_gemm([A], [B], arch="sm_80", backend="emulator"),
    lambda: cute.layout.print_layout, lambda: cute.atoms.wgmma, lambda: cute.relu,
    lambda: __import__("cutedialect.backend.emulator"), lambda: __import__("cutedialect.model"),
]
together(*works[{first}:], *works[:{first}])
"""
    run(code, tmp_path)


def test_calls_of_a_kernel_whose_constants_change(tmp_path):
    """The versions of what a kernel reaches are looked through by all threads."""
    code = """
import itertools
sizes = itertools.cycle([1.0, 2.0, 3.0])
scale = 1.0
@cute.kernel
def scaled(X, Y):
    at = cute.tile_index(Y, (8, 8))
    cute.copy(cute.load(cute.local_tile(X, (8, 8), at)) * scale, cute.local_tile(Y, (8, 8), at))

def work():
    global scale
    x, y = np.ones((8, 8), np.float32), np.zeros((8, 8), np.float32)
    for _ in range(20):
        scale = next(sizes)
        scaled(x, y, backend="interpreter")
        assert y[0, 0] in (1, 2, 3)

together(*[work] * 4)
"""
    run(code, tmp_path)
