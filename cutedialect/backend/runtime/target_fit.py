"""Which devices run a kernel of which target: `sm_90a` runs on compute capability 9.0 alone,
`sm_100f` on its family, a plain `sm_80` on every later device once its PTX is assembled for it.
"""

from __future__ import annotations

import re


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
