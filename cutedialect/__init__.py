"""CuTe-style GPU kernels in Python: layouts, atoms and pipelines as readable IR, compiled to PTX
and run on a GPU or in an emulator. Public names are imported at their first use, so that `import
cutedialect` costs milliseconds and never imports xDSL.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

# Module to the public names that it defines; a name in Python's way has another spelling inside.
_PUBLIC = {
    "cutedialect.backend.emulator": ("EmulatorError",),
    "cutedialect.backend.runtime.errors": ("CompileError",),
    "cutedialect.frontend.dtypes": (
        "bf16",
        "f16",
        "f32",
        "f64",
        "i1",
        "i32",
        "i64",
        "i8",
        "u8",
    ),
    "cutedialect.frontend.functions": (
        "abs",
        "atomic_add",
        "column_max",
        "column_sum",
        "column_vector",
        "coord",
        "copy",
        "erf",
        "exp",
        "exp2",
        "full",
        "gelu",
        "inf",
        "load",
        "log",
        "log2",
        "map",
        "maximum",
        "minimum",
        "printf",
        "relu",
        "row_max",
        "row_sum",
        "row_vector",
        "rsqrt",
        "sigmoid",
        "silu",
        "sqrt",
        "tanh",
        "tile_index",
        "where",
        "zeros",
    ),
    "cutedialect.frontend.gemm": ("gemm",),
    "cutedialect.frontend.kernel": (
        "TensorSpec",
        "kernel",
    ),
    "cutedialect.frontend.launch": ("compile",),
    "cutedialect.frontend.loops": (
        "otherwise",
        "range",
        "when",
    ),
    "cutedialect.frontend.tile": ("local_tile",),
    "cutedialect.layout": (
        "Layout",
        "LayoutError",
        "Swizzle",
    ),
    "cutedialect.schedule": ("Schedule",),
}
_INSIDE = {"abs": "abs_", "map": "map_", "range": "range_"}
_EXPORTS = {name: module for module, names in _PUBLIC.items() for name in names}

_SUBMODULES = ("atoms", "backend", "dialects", "frontend", "layout", "passes", "tools")


def __getattr__(name: str) -> object:
    if name in _EXPORTS:
        value = getattr(import_module(_EXPORTS[name]), _INSIDE.get(name, name))
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*_EXPORTS, *_SUBMODULES, "__version__", "__doc__", "__name__"})
