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

import cutedialect
from cutedialect import environment

_PACKAGES = ("xdsl", "numpy", "ml_dtypes", "cupy-cuda12x", "cupy-cuda13x", "torch", "jax")
_LANES = 64

# x[i] = a * x[i] + i, one CTA of 64 threads.
_PTX = """\
.version 7.0
.target sm_80
.address_size 64
.visible .entry self_check(.param .b64 x, .param .f32 a)
.reqntid 64,1,1
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  .reg .f32 %f<4>;
  ld.param.b64 %rd0, [x];
  ld.param.f32 %f0, [a];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd1, %r0, 4;
  add.s64 %rd2, %rd0, %rd1;
  ld.global.f32 %f1, [%rd2];
  cvt.rn.f32.u32 %f2, %r0;
  fma.rn.f32 %f3, %f0, %f1, %f2;
  st.global.f32 [%rd2], %f3;
  ret;
}
"""


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
    environment.backend()
    environment.cache_enabled()
    environment.verify_each()
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
    from importlib import import_module
    from importlib.util import find_spec

    from cutedialect.backend.runtime.cupy import gpu_available

    if find_spec("cupy") is None:
        return Finding("gpu", "missing", "CuPy is not installed; kernels run in the emulator")
    if not gpu_available():
        return Finding("gpu", "missing", "CuPy sees no device; kernels run in the emulator")
    runtime = import_module("cupy.cuda").runtime
    devices = []
    for index in range(runtime.getDeviceCount()):
        properties = runtime.getDeviceProperties(index)
        name = properties["name"].decode()
        capability = f"{properties['major']}.{properties['minor']}"
        memory = properties["totalGlobalMem"] >> 30
        devices.append(f"{index}: {name}, compute capability {capability}, {memory} GiB")
    return Finding("gpu", "ok", "; ".join(devices))


def _ptxas() -> Finding:
    from cutedialect.backend.runtime import ptxas
    from cutedialect.backend.runtime.errors import PtxasNotFoundError

    try:
        path = ptxas.find()
    except PtxasNotFoundError as error:
        chosen = environment.ptxas() is not None
        return Finding("ptxas", "failed" if chosen else "missing", error.message)
    assembly = ptxas.assemble(_PTX, "sm_80", strict=True)
    return Finding(
        "ptxas",
        "ok",
        f"{ptxas.version(path)} at {path}; self-check: {len(assembly.cubin):,} bytes of sm_80, "
        f"{assembly.registers} registers",
    )


def _emulator() -> Finding:
    import numpy as np

    from cutedialect.backend.emulator import launch

    x = 2 * np.arange(_LANES, dtype=np.float32)
    report = launch(_PTX, "self_check", 1, _LANES, [x, np.float32(3)])
    if not (x == 7 * np.arange(_LANES)).all():
        return Finding("emulator", "failed", "self-check: wrong result")
    return Finding("emulator", "ok", f"self-check: {report.steps} instructions")


def _launch() -> Finding:
    from importlib import import_module

    from cutedialect.backend.runtime.cupy import gpu_available
    from cutedialect.backend.runtime.program import assembled
    from cutedialect.backend.runtime.target_fit import device_arch

    if not gpu_available():
        return Finding("launch", "missing", "no GPU to launch on")
    cupy = import_module("cupy")
    capability = cupy.cuda.Device().compute_capability
    arch = device_arch(capability, "sm_80")
    if arch is None:
        return Finding("launch", "missing", f"compute capability {capability} is below 8.0")
    import numpy as np

    module = cupy.cuda.function.Module()
    module.load(assembled(_PTX, arch).cubin)
    x = 2 * cupy.arange(_LANES, dtype=cupy.float32)
    module.get_function("self_check")((1,), (_LANES,), (np.uint64(x.data.ptr), np.float32(3)))
    if not bool((x == 7 * cupy.arange(_LANES)).all()):
        return Finding("launch", "failed", "self-check: wrong result")
    return Finding("launch", "ok", f"self-check on {arch}")
