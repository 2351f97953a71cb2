"""The launcher of the foreign corpus. A test that takes `launch` runs in the emulator in its own
order of threads and in a random one, and on the GPU where there is one, so that its expected
numbers are known to be the hardware's.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parent


def in_emulator(text: str, entry: str, grid: Any, block: Any, args: tuple[Any, ...], smem: int):
    from cutedialect.backend.emulator import launch

    return launch(text, entry, grid, block, args, smem)


def in_random_order(text: str, entry: str, grid: Any, block: Any, args: tuple[Any, ...], smem: int):
    from cutedialect.backend.emulator import launch

    return launch(text, entry, grid, block, args, smem, seed=1)


def on_gpu(text: str, entry: str, grid: Any, block: Any, args: tuple[Any, ...], smem: int) -> None:
    import cupy

    module = cupy.cuda.function.Module()
    module.load(text.encode() + b"\0")
    held = [cupy.asarray(a) if isinstance(a, np.ndarray) and a.ndim else a for a in args]
    shapes = [dims if isinstance(dims, tuple) else (dims,) for dims in (grid, block)]
    grid, block = ((*dims, 1, 1)[:3] for dims in shapes)
    module.get_function(entry)(grid, block, tuple(held), shared_mem=smem)
    for host, device in zip(args, held, strict=True):
        if isinstance(device, cupy.ndarray):
            host[...] = device.get()


def has_gpu() -> bool:
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:
        return False


@pytest.fixture(params=["emulator", "random", pytest.param("gpu", marks=pytest.mark.gpu)])
def launch(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`launch(name, grid, block, *args, smem=0, entry=name)` runs an entry of `<name>.ptx` and
    updates the arrays among args in place."""
    if request.param == "gpu" and not has_gpu():
        pytest.skip("needs a GPU and CuPy")
    run = {"emulator": in_emulator, "random": in_random_order, "gpu": on_gpu}[request.param]

    def launch_file(name: str, grid: Any, block: Any, *args: Any, smem: int = 0, entry: str = ""):
        text = (FOLDER / f"{name}.ptx").read_text()
        return run(text, entry or name, grid, block, args, smem)

    return launch_file


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
