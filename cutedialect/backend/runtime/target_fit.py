"""Which devices run a kernel of which target: `sm_90a` runs on compute capability 9.0 alone,
`sm_100f` on its family, a plain `sm_80` on every later device once its PTX is assembled for it. And
which drivers read its PTX text.
"""

from __future__ import annotations

import re

from cutedialect.backend.runtime.driver import Driver
from cutedialect.backend.runtime.ptx_text import version

# The release of CUDA whose driver is the first to read a version of PTX (PTX ISA, release notes).
_RELEASES = {
    (6, 0): (9, 0), (6, 1): (9, 1), (6, 2): (9, 2), (6, 3): (10, 0), (6, 4): (10, 1),
    (6, 5): (10, 2), (7, 0): (11, 0), (7, 1): (11, 1), (7, 2): (11, 2), (7, 3): (11, 3),
    (7, 4): (11, 4), (7, 5): (11, 5), (7, 6): (11, 6), (7, 7): (11, 7), (7, 8): (11, 8),
    (8, 0): (12, 0), (8, 1): (12, 1), (8, 2): (12, 2), (8, 3): (12, 3), (8, 4): (12, 4),
    (8, 5): (12, 5), (8, 6): (12, 7), (8, 7): (12, 8), (8, 8): (12, 9), (9, 0): (13, 0),
}  # fmt: skip


def device_arch(capability: str, ptx_target: str) -> str | None:
    """The architecture to assemble `ptx_target` for on a device of `capability` ("90", "120"), or
    None when the device cannot run it.

    >>> device_arch("90", "sm_80"), device_arch("90", "sm_90a"), device_arch("100", "sm_90a")
    ('sm_90', 'sm_90a', None)
    """
    match = re.fullmatch(r"sm_(\d+)([af]?)", ptx_target)
    if match is None:
        raise ValueError(f"expected a target such as sm_80 or sm_90a, got '{ptx_target}'")
    asked, device = int(match[1]), int(capability)
    if match[2] == "a":
        return ptx_target if asked == device else None
    if device < asked:
        return None
    if match[2] == "f":
        return ptx_target if device // 10 == asked // 10 else None
    # A cubin runs on later devices of its own major version only.
    return ptx_target if device // 10 == asked // 10 else f"sm_{device}"


def default_arch(capability: str) -> str:
    """The target to compile for on a device: `sm_90` has `sm_90a`, which alone has wgmma."""
    number = int(capability)
    return f"sm_{number}a" if number >= 90 else f"sm_{number}"


def misfit(name: str, ptx_target: str, device: str, capability: str) -> str:
    """The sentence for a kernel that a device cannot run."""
    number = re.sub(r"\D", "", ptx_target)
    needs = f"{int(number) // 10}.{int(number) % 10}"
    exact = {"a": " exactly", "f": " or later of that family"}.get(ptx_target[-1], " or later")
    return (
        f"expected a device of compute capability {needs}{exact} for kernel '{name}' compiled for "
        f"{ptx_target}, got {device} of {int(capability) // 10}.{int(capability) % 10}; compile "
        f"it with arch='{default_arch(capability)}' or arch='sm_80', or run it with "
        "backend='emulator'"
    )


def fitting_arch(driver: Driver, device: int, name: str, ptx_target: str) -> str:
    """The architecture to assemble kernel `name` for on a device; raises RuntimeError where the
    device cannot run it.
    """
    capability = driver.capability(device)
    arch = device_arch(capability, ptx_target)
    if arch is None:
        described = f"device {device} ({driver.device_name(device)})"
        raise RuntimeError(misfit(name, ptx_target, described, capability))
    return arch


def check_driver(driver: Driver, name: str, ptx: str, remedy: str) -> None:
    """Refuse a driver that is too old for the PTX text of kernel `name`, of which it would say no
    more than that it does not know it (CUDA_ERROR_UNSUPPORTED_PTX_VERSION). Raises RuntimeError.
    """
    needed, got = _RELEASES.get(version(ptx)), driver.release()
    if needed is not None and got < needed:
        written = ".".join(map(str, version(ptx)))
        raise RuntimeError(
            f"expected a driver of CUDA {needed[0]}.{needed[1]} or later, which reads version "
            f"{written} of PTX, for kernel '{name}', got one of CUDA {got[0]}.{got[1]}; install a "
            f"later driver, or take an older target; {remedy}"
        )
