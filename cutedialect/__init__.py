"""CuTe-style GPU kernels in Python: layouts, atoms and pipelines as readable IR, compiled to PTX
and run on a GPU or in an emulator. Public names are imported at their first use, so that `import
cutedialect` costs milliseconds and never imports xDSL.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

# Public name to the module that defines it.
_EXPORTS = {
    "ComposedLayout": "cutedialect.layout",
    "Layout": "cutedialect.layout",
    "LayoutError": "cutedialect.layout",
    "Swizzle": "cutedialect.layout",
    "EmulatorError": "cutedialect.backend.emulator",
}

_SUBMODULES = ("atoms", "backend", "dialects", "frontend", "layout", "passes", "tools")

def __getattr__(name: str) -> object:
    if name in _EXPORTS:
        value = getattr(import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*_EXPORTS, *_SUBMODULES, "__version__", "__doc__", "__name__"})
