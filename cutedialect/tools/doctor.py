"""`python -m cutedialect doctor`: what is installed, what was found, and whether a small kernel
assembles and runs, as text to paste into an issue. A missing GPU is no fault; a part that is there
and does not work is, and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import cutedialect
from cutedialect import environment

if TYPE_CHECKING:
    from cutedialect.backend.runtime.kernel import Kernel
    from cutedialect.choices import Backend

_PACKAGES = ("xdsl", "numpy", "ml_dtypes", "cupy-cuda12x", "cupy-cuda13x", "torch", "jax")
_EXTENT, _ARCH = 64, "sm_80"


@dataclass(frozen=True)
class Finding:
    """One line of the report; `status` is "ok", "missing" (not an error) or "failed"."""

    name: str
    status: str
    detail: str


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, or 1 when something that is installed does not work."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect doctor",
        description="What is installed and works, to paste into an issue.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    findings = examine()
    if options.json:
        print(json.dumps({f.name: {"status": f.status, "detail": f.detail} for f in findings}))
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            print(f"{finding.name:{width}}  {finding.status:7}  {finding.detail}")
    return int(any(finding.status == "failed" for finding in findings))


def examine() -> list[Finding]:
    """Every finding, in the order of the report. No check lets an exception out."""
    checks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("cutedialect", _package),
        ("python", _python),
        *((name, lambda name=name: _installed(name)) for name in _PACKAGES),
        ("environment", _environment),
        ("cache", _cache),
        ("driver", _driver),
        ("gpu", _gpu),
        ("ptxas", _ptxas),
        ("emulator", _emulator),
        ("launch", _launch),
        ("launch by cupy", _launch_by_cupy),
    )
    findings = []
    for name, check in checks:
        try:
            findings.append(check())
        except Exception as error:  # the doctor reports what is broken, however it breaks
            lines = str(error).splitlines()
            said = lines[0] if lines else ""
            findings.append(Finding(name, "failed", f"{type(error).__name__}: {said}"))
    return findings


def _package() -> Finding:
    return Finding("cutedialect", "ok", cutedialect.__version__)


def _python() -> Finding:
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Finding("python", "ok" if sys.version_info >= (3, 11) else "failed", detail)


def _installed(name: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        required = name in ("xdsl", "numpy", "ml_dtypes")
        return Finding(name, "failed" if required else "missing", "not installed")


def _environment() -> Finding:
    import os

    chosen = [f"{name}={os.environ[name]}" for name in environment.VARIABLES if name in os.environ]
    misspelled = environment.check()
    if misspelled:
        return Finding("environment", "failed", "; ".join(misspelled))
    return Finding("environment", "ok", " ".join(chosen) or "no CUTEDIALECT_* variable is set")


def _cache() -> Finding:
    from cutedialect.backend.runtime import cache

    place = str(environment.cache_dir())
    if not environment.cache_enabled():
        return Finding("cache", "missing", f"{place} switched off by CUTEDIALECT_NO_CACHE")
    key = cache.key("doctor")
    if not cache.write("tool", key, b"doctor") or cache.read("tool", key) != b"doctor":
        return Finding("cache", "failed", f"{place} cannot be written")
    entries = list(cache.entries())
    total = sum(entry.size for entry in entries)
    return Finding("cache", "ok", f"{place}: {len(entries)} entries, {total:,} bytes")


def _driver() -> Finding:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        return Finding("driver", "missing", f"no {name}")
    release = ctypes.c_int()
    status = library.cuDriverGetVersion(ctypes.byref(release))
    if status:
        return Finding("driver", "failed", f"cuDriverGetVersion returned {status}")
    number = release.value
    return Finding("driver", "ok", f"CUDA {number // 1000}.{number % 1000 // 10}")


def _gpu() -> Finding:
    from cutedialect.backend.runtime.driver import find_driver

    driver = find_driver()
    if driver is None:
        return Finding("gpu", "missing", "the driver sees no device; kernels run in the emulator")
    devices = []
    for index in range(driver.device_count()):
        capability = driver.capability(index)
        memory = driver.device_memory(index) >> 30
        devices.append(
            f"{index}: {driver.device_name(index)}, compute capability "
            f"{capability[:-1]}.{capability[-1]}, {memory} GiB"
        )
    return Finding("gpu", "ok", "; ".join(devices))


def _ptxas() -> Finding:
    from cutedialect.backend.runtime import ptxas
    from cutedialect.backend.runtime.errors import PtxasNotFoundError

    try:
        path = ptxas.find()
    except PtxasNotFoundError as error:
        chosen = environment.ptxas() is not None
        return Finding("ptxas", "failed" if chosen else "missing", error.message)
    assembly = ptxas.assemble(_self_check().ptx, _ARCH, strict=True)
    return Finding(
        "ptxas",
        "ok",
        f"{ptxas.version(path)} at {path}; self-check: {len(assembly.cubin):,} bytes of sm_80, "
        f"{assembly.registers} registers",
    )


def _self_check(backend: Backend = "emulator") -> Kernel:
    """x = a x + i, of 64 floats."""
    import cutedialect as cute

    @cute.kernel
    def self_check(x: Any, a: Any) -> None:
        mine = cute.local_tile(x, (_EXTENT,), (0,))
        scaled = mine.load() * a
        cute.copy(scaled + cute.coord(scaled, 0).to(cute.f32), mine)

    spec = cute.TensorSpec((_EXTENT,), cute.f32)
    return cute.compile(self_check, spec, 3.0, arch=_ARCH, backend=backend)


def _emulator() -> Finding:
    import numpy as np

    x = 2 * np.arange(_EXTENT, dtype=np.float32)
    kernel = _self_check()
    kernel.launch(x, 3.0)
    if not (x == 7 * np.arange(_EXTENT)).all():
        return Finding("emulator", "failed", "self-check: wrong result")
    return Finding("emulator", "ok", f"self-check: {sum(kernel.program.ops.values())} ops of PTX")


def _launch() -> Finding:
    return _launched("launch", "cuda")


def _launch_by_cupy() -> Finding:
    from importlib.util import find_spec

    name = "launch by cupy"
    return (
        Finding(name, "missing", "no CuPy")
        if find_spec("cupy") is None
        else _launched(name, "cupy")
    )


def _launched(name: str, backend: Backend) -> Finding:
    """The self-check on the current device."""
    import numpy as np

    from cutedialect.backend.runtime.driver import find_driver
    from cutedialect.backend.runtime.target_fit import device_arch

    driver = find_driver()
    if driver is None:
        return Finding(name, "missing", "no GPU to launch on")
    capability = driver.capability(driver.current_device())
    arch = device_arch(capability, _ARCH)
    if arch is None:
        return Finding(name, "missing", f"compute capability {capability} is below 8.0")
    x = 2 * np.arange(_EXTENT, dtype=np.float32)
    _self_check(backend).launch(x, 3.0)
    if not (x == 7 * np.arange(_EXTENT)).all():
        return Finding(name, "failed", "self-check: wrong result")
    return Finding(name, "ok", f"self-check on {arch}")
