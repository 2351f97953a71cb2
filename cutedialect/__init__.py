"""CuTe-style GPU kernels in Python: layouts, atoms and pipelines as readable IR, compiled to PTX
and run on a GPU or in an emulator. Public names are imported at their first use, so that `import
cutedialect` costs milliseconds and never imports xDSL.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the same names for type checkers; a test compares the three lists
    from cutedialect import atoms as atoms
    from cutedialect import layout as layout
    from cutedialect.atoms.tiled_mma import TiledMma as TiledMma
    from cutedialect.backend.emulator import EmulatorError as EmulatorError
    from cutedialect.backend.emulator import Report as Report
    from cutedialect.backend.runtime.cuda import synchronize as synchronize
    from cutedialect.backend.runtime.errors import CompileError as CompileError
    from cutedialect.backend.runtime.errors import KernelAssertionError as KernelAssertionError
    from cutedialect.backend.runtime.kernel import Kernel as Kernel
    from cutedialect.choices import Activation as Activation
    from cutedialect.choices import Arch as Arch
    from cutedialect.choices import Backend as Backend
    from cutedialect.choices import Roles as Roles
    from cutedialect.frontend import exact as exact
    from cutedialect.frontend import fast as fast
    from cutedialect.frontend.atomics import atomic_add as atomic_add
    from cutedialect.frontend.atomics import atomic_and as atomic_and
    from cutedialect.frontend.atomics import atomic_compare_and_swap as atomic_compare_and_swap
    from cutedialect.frontend.atomics import atomic_exchange as atomic_exchange
    from cutedialect.frontend.atomics import atomic_max as atomic_max
    from cutedialect.frontend.atomics import atomic_min as atomic_min
    from cutedialect.frontend.atomics import atomic_or as atomic_or
    from cutedialect.frontend.atomics import atomic_xor as atomic_xor
    from cutedialect.frontend.attention import attention as attention
    from cutedialect.frontend.attention_backward import attention_backward as attention_backward
    from cutedialect.frontend.autotune import autotune as autotune
    from cutedialect.frontend.autotuned import autotuned as autotuned
    from cutedialect.frontend.conv2d import conv2d as conv2d
    from cutedialect.frontend.conv2d import conv2d_dgrad as conv2d_dgrad
    from cutedialect.frontend.conv2d import conv2d_wgrad as conv2d_wgrad
    from cutedialect.frontend.dtypes import DType as DType
    from cutedialect.frontend.dtypes import bf16 as bf16
    from cutedialect.frontend.dtypes import e2m1 as e2m1
    from cutedialect.frontend.dtypes import e2m3 as e2m3
    from cutedialect.frontend.dtypes import e3m2 as e3m2
    from cutedialect.frontend.dtypes import e4m3 as e4m3
    from cutedialect.frontend.dtypes import e5m2 as e5m2
    from cutedialect.frontend.dtypes import f16 as f16
    from cutedialect.frontend.dtypes import f32 as f32
    from cutedialect.frontend.dtypes import f64 as f64
    from cutedialect.frontend.dtypes import i1 as i1
    from cutedialect.frontend.dtypes import i4 as i4
    from cutedialect.frontend.dtypes import i8 as i8
    from cutedialect.frontend.dtypes import i16 as i16
    from cutedialect.frontend.dtypes import i32 as i32
    from cutedialect.frontend.dtypes import i64 as i64
    from cutedialect.frontend.dtypes import u4 as u4
    from cutedialect.frontend.dtypes import u8 as u8
    from cutedialect.frontend.dtypes import u16 as u16
    from cutedialect.frontend.dtypes import u32 as u32
    from cutedialect.frontend.dtypes import u64 as u64
    from cutedialect.frontend.dtypes import ue4m3 as ue4m3
    from cutedialect.frontend.dtypes import ue8m0 as ue8m0
    from cutedialect.frontend.dumps import dump as dump
    from cutedialect.frontend.elementary import acos as acos
    from cutedialect.frontend.elementary import acosh as acosh
    from cutedialect.frontend.elementary import asin as asin
    from cutedialect.frontend.elementary import asinh as asinh
    from cutedialect.frontend.elementary import atan as atan
    from cutedialect.frontend.elementary import atan2 as atan2
    from cutedialect.frontend.elementary import atanh as atanh
    from cutedialect.frontend.elementary import cbrt as cbrt
    from cutedialect.frontend.elementary import cos as cos
    from cutedialect.frontend.elementary import cosh as cosh
    from cutedialect.frontend.elementary import exp10 as exp10
    from cutedialect.frontend.elementary import expm1 as expm1
    from cutedialect.frontend.elementary import hypot as hypot
    from cutedialect.frontend.elementary import lgamma as lgamma
    from cutedialect.frontend.elementary import log1p as log1p
    from cutedialect.frontend.elementary import log10 as log10
    from cutedialect.frontend.elementary import pow_ as pow
    from cutedialect.frontend.elementary import sin as sin
    from cutedialect.frontend.elementary import sinh as sinh
    from cutedialect.frontend.elementary import tan as tan
    from cutedialect.frontend.elementwise import abs_ as abs
    from cutedialect.frontend.elementwise import bitcast as bitcast
    from cutedialect.frontend.elementwise import brev as brev
    from cutedialect.frontend.elementwise import ceil as ceil
    from cutedialect.frontend.elementwise import clz as clz
    from cutedialect.frontend.elementwise import copysign as copysign
    from cutedialect.frontend.elementwise import exp as exp
    from cutedialect.frontend.elementwise import exp2 as exp2
    from cutedialect.frontend.elementwise import floor as floor
    from cutedialect.frontend.elementwise import fma as fma
    from cutedialect.frontend.elementwise import isfinite as isfinite
    from cutedialect.frontend.elementwise import isinf as isinf
    from cutedialect.frontend.elementwise import isnan as isnan
    from cutedialect.frontend.elementwise import log as log
    from cutedialect.frontend.elementwise import log2 as log2
    from cutedialect.frontend.elementwise import maximum as maximum
    from cutedialect.frontend.elementwise import minimum as minimum
    from cutedialect.frontend.elementwise import mulhi as mulhi
    from cutedialect.frontend.elementwise import popc as popc
    from cutedialect.frontend.elementwise import round_ as round
    from cutedialect.frontend.elementwise import rsqrt as rsqrt
    from cutedialect.frontend.elementwise import sqrt as sqrt
    from cutedialect.frontend.elementwise import tanh as tanh
    from cutedialect.frontend.elementwise import trunc as trunc
    from cutedialect.frontend.functions import clamp as clamp
    from cutedialect.frontend.functions import cluster_max as cluster_max
    from cutedialect.frontend.functions import cluster_min as cluster_min
    from cutedialect.frontend.functions import column_vector as column_vector
    from cutedialect.frontend.functions import coord as coord
    from cutedialect.frontend.functions import copy as copy
    from cutedialect.frontend.functions import erf as erf
    from cutedialect.frontend.functions import full as full
    from cutedialect.frontend.functions import gelu as gelu
    from cutedialect.frontend.functions import inf as inf
    from cutedialect.frontend.functions import load as load
    from cutedialect.frontend.functions import map_ as map
    from cutedialect.frontend.functions import reciprocal as reciprocal
    from cutedialect.frontend.functions import relu as relu
    from cutedialect.frontend.functions import row_vector as row_vector
    from cutedialect.frontend.functions import search as search
    from cutedialect.frontend.functions import sigmoid as sigmoid
    from cutedialect.frontend.functions import sign as sign
    from cutedialect.frontend.functions import silu as silu
    from cutedialect.frontend.functions import tile_index as tile_index
    from cutedialect.frontend.functions import where as where
    from cutedialect.frontend.functions import zeros as zeros
    from cutedialect.frontend.gemm import gemm as gemm
    from cutedialect.frontend.group import Group as Group
    from cutedialect.frontend.grouped_gemm import grouped_gemm as grouped_gemm
    from cutedialect.frontend.host import host as host
    from cutedialect.frontend.host import launch as launch
    from cutedialect.frontend.host import workspace as workspace
    from cutedialect.frontend.inline_ptx import inline_ptx as inline_ptx
    from cutedialect.frontend.kernel import KernelFunction as KernelFunction
    from cutedialect.frontend.kernel import TensorSpec as TensorSpec
    from cutedialect.frontend.kernel import kernel as kernel
    from cutedialect.frontend.kernel import one_of as one_of
    from cutedialect.frontend.launch import compile as compile
    from cutedialect.frontend.local_tiles import local_tile as local_tile
    from cutedialect.frontend.loops import break_if as break_if
    from cutedialect.frontend.loops import otherwise as otherwise
    from cutedialect.frontend.loops import range_ as range
    from cutedialect.frontend.loops import return_if as return_if
    from cutedialect.frontend.loops import when as when
    from cutedialect.frontend.loops import while_ as while_
    from cutedialect.frontend.pack import pack as pack
    from cutedialect.frontend.packed import packed as packed
    from cutedialect.frontend.parts import broadcast_to as broadcast_to
    from cutedialect.frontend.parts import permute as permute
    from cutedialect.frontend.pixels import Pixels as Pixels
    from cutedialect.frontend.places import concatenate as concatenate
    from cutedialect.frontend.places import flip as flip
    from cutedialect.frontend.places import histogram as histogram
    from cutedialect.frontend.places import put_along as put_along
    from cutedialect.frontend.places import reshape as reshape
    from cutedialect.frontend.places import split as split
    from cutedialect.frontend.places import stack as stack
    from cutedialect.frontend.places import take_along as take_along
    from cutedialect.frontend.printing import assert_ as assert_
    from cutedialect.frontend.printing import printf as printf
    from cutedialect.frontend.quantize import quantize as quantize
    from cutedialect.frontend.quantize import quantized as quantized
    from cutedialect.frontend.quantized_weights import from_awq as from_awq
    from cutedialect.frontend.quantized_weights import (
        from_compressed_tensors as from_compressed_tensors,
    )
    from cutedialect.frontend.quantized_weights import from_gptq as from_gptq
    from cutedialect.frontend.random import rand as rand
    from cutedialect.frontend.reductions import all_ as all
    from cutedialect.frontend.reductions import any_ as any
    from cutedialect.frontend.reductions import column_max as column_max
    from cutedialect.frontend.reductions import column_sum as column_sum
    from cutedialect.frontend.reductions import max_ as max
    from cutedialect.frontend.reductions import min_ as min
    from cutedialect.frontend.reductions import prod as prod
    from cutedialect.frontend.reductions import reduce as reduce
    from cutedialect.frontend.reductions import row_max as row_max
    from cutedialect.frontend.reductions import row_sum as row_sum
    from cutedialect.frontend.reductions import sum_ as sum
    from cutedialect.frontend.routed_gemm import routed_gemm as routed_gemm
    from cutedialect.frontend.scalar import Scalar as Scalar
    from cutedialect.frontend.scaled_tiles import scale_words as scale_words
    from cutedialect.frontend.scaled_tiles import scaled_gemm as scaled_gemm
    from cutedialect.frontend.scans import cummax as cummax
    from cutedialect.frontend.scans import cummin as cummin
    from cutedialect.frontend.scans import cumprod as cumprod
    from cutedialect.frontend.scans import cumsum as cumsum
    from cutedialect.frontend.scans import scan as scan
    from cutedialect.frontend.selection import argmax as argmax
    from cutedialect.frontend.selection import argmin as argmin
    from cutedialect.frontend.selection import top_k as top_k
    from cutedialect.frontend.sorting import argsort as argsort
    from cutedialect.frontend.sorting import sort as sort
    from cutedialect.frontend.statistics import logsumexp as logsumexp
    from cutedialect.frontend.statistics import mean as mean
    from cutedialect.frontend.statistics import softmax as softmax
    from cutedialect.frontend.statistics import var as var
    from cutedialect.frontend.taps import Taps as Taps
    from cutedialect.frontend.tensor_layouts import LayoutValue as LayoutValue
    from cutedialect.frontend.tensor_layouts import composition as composition
    from cutedialect.frontend.tensor_layouts import make_layout as make_layout
    from cutedialect.frontend.tensor_layouts import make_tensor as make_tensor
    from cutedialect.frontend.tile import Tensor as Tensor
    from cutedialect.frontend.tile import Tile as Tile
    from cutedialect.frontend.tile import View as View
    from cutedialect.frontend.tile import Views as Views
    from cutedialect.layout import ComposedLayout as ComposedLayout
    from cutedialect.layout import Layout as Layout
    from cutedialect.layout import LayoutError as LayoutError
    from cutedialect.layout import Swizzle as Swizzle
    from cutedialect.layout import TiledCopy as TiledCopy
    from cutedialect.remarks import Remark as Remark
    from cutedialect.schedule import Schedule as Schedule
    from cutedialect.schedule import ScheduleError as ScheduleError
    from cutedialect.tools.timeline import Timeline as Timeline
    from cutedialect.tools.timeline import timeline as timeline

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "Arch",
    "Backend",
    "CompileError",
    "ComposedLayout",
    "DType",
    "EmulatorError",
    "Group",
    "Kernel",
    "KernelAssertionError",
    "KernelFunction",
    "Layout",
    "LayoutError",
    "LayoutValue",
    "Pixels",
    "Remark",
    "Report",
    "Roles",
    "Scalar",
    "Schedule",
    "ScheduleError",
    "Swizzle",
    "Taps",
    "Tensor",
    "TensorSpec",
    "Tile",
    "TiledCopy",
    "TiledMma",
    "Timeline",
    "View",
    "Views",
    "abs",
    "acos",
    "acosh",
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "asin",
    "asinh",
    "assert_",
    "atan",
    "atan2",
    "atanh",
    "atomic_add",
    "atomic_and",
    "atomic_compare_and_swap",
    "atomic_exchange",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xor",
    "attention",
    "attention_backward",
    "autotune",
    "autotuned",
    "bf16",
    "bitcast",
    "break_if",
    "brev",
    "broadcast_to",
    "cbrt",
    "ceil",
    "clamp",
    "cluster_max",
    "cluster_min",
    "clz",
    "column_max",
    "column_sum",
    "column_vector",
    "compile",
    "composition",
    "concatenate",
    "conv2d",
    "conv2d_dgrad",
    "conv2d_wgrad",
    "coord",
    "copy",
    "copysign",
    "cos",
    "cosh",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "dump",
    "e2m1",
    "e2m3",
    "e3m2",
    "e4m3",
    "e5m2",
    "erf",
    "exact",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "f16",
    "f32",
    "f64",
    "fast",
    "flip",
    "floor",
    "fma",
    "from_awq",
    "from_compressed_tensors",
    "from_gptq",
    "full",
    "gelu",
    "gemm",
    "grouped_gemm",
    "histogram",
    "host",
    "hypot",
    "i1",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "inf",
    "inline_ptx",
    "isfinite",
    "isinf",
    "isnan",
    "kernel",
    "launch",
    "lgamma",
    "load",
    "local_tile",
    "log",
    "log1p",
    "log2",
    "log10",
    "logsumexp",
    "make_layout",
    "make_tensor",
    "map",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mulhi",
    "one_of",
    "otherwise",
    "pack",
    "packed",
    "permute",
    "popc",
    "pow",
    "printf",
    "prod",
    "put_along",
    "quantize",
    "quantized",
    "rand",
    "range",
    "reciprocal",
    "reduce",
    "relu",
    "reshape",
    "return_if",
    "round",
    "routed_gemm",
    "row_max",
    "row_sum",
    "row_vector",
    "rsqrt",
    "scale_words",
    "scaled_gemm",
    "scan",
    "search",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "stack",
    "sum",
    "synchronize",
    "take_along",
    "tan",
    "tanh",
    "tile_index",
    "timeline",
    "top_k",
    "trunc",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "ue4m3",
    "ue8m0",
    "var",
    "when",
    "where",
    "while_",
    "workspace",
    "zeros",
]

# Module to the public names that it defines; a name in Python's way has another spelling inside.
_PUBLIC = {
    "cutedialect.backend.emulator": ("EmulatorError", "Report"),
    "cutedialect.backend.runtime.cuda": ("synchronize",),
    "cutedialect.backend.runtime.errors": ("CompileError", "KernelAssertionError"),
    "cutedialect.backend.runtime.kernel": ("Kernel",),
    "cutedialect.choices": ("Activation", "Arch", "Backend", "Roles"),
    "cutedialect.frontend": ("exact", "fast"),
    "cutedialect.frontend.attention": ("attention",),
    "cutedialect.frontend.attention_backward": ("attention_backward",),
    "cutedialect.frontend.autotune": ("autotune",),
    "cutedialect.frontend.autotuned": ("autotuned",),
    "cutedialect.frontend.dtypes": (
        "DType",
        "bf16",
        "e2m1",
        "e2m3",
        "e3m2",
        "e4m3",
        "e5m2",
        "f16",
        "f32",
        "f64",
        "i1",
        "i16",
        "i32",
        "i64",
        "i4",
        "i8",
        "u16",
        "u32",
        "u64",
        "u4",
        "u8",
        "ue4m3",
        "ue8m0",
    ),
    "cutedialect.frontend.functions": (
        "clamp",
        "cluster_max",
        "cluster_min",
        "column_vector",
        "coord",
        "copy",
        "erf",
        "full",
        "gelu",
        "inf",
        "load",
        "map",
        "reciprocal",
        "relu",
        "row_vector",
        "search",
        "sigmoid",
        "sign",
        "silu",
        "tile_index",
        "where",
        "zeros",
    ),
    "cutedialect.frontend.conv2d": ("conv2d", "conv2d_dgrad", "conv2d_wgrad"),
    "cutedialect.frontend.gemm": ("gemm",),
    "cutedialect.frontend.group": ("Group",),
    "cutedialect.frontend.grouped_gemm": ("grouped_gemm",),
    "cutedialect.frontend.quantize": ("quantize", "quantized"),
    "cutedialect.frontend.routed_gemm": ("routed_gemm",),
    "cutedialect.frontend.host": ("host", "launch", "workspace"),
    "cutedialect.frontend.kernel": ("KernelFunction", "TensorSpec", "kernel", "one_of"),
    "cutedialect.frontend.dumps": ("dump",),
    "cutedialect.frontend.launch": ("compile",),
    "cutedialect.frontend.loops": ("break_if", "otherwise", "range", "return_if", "when", "while_"),
    "cutedialect.frontend.printing": ("assert_", "printf"),
    "cutedialect.frontend.random": ("rand",),
    "cutedialect.frontend.reductions": (
        "all",
        "any",
        "column_max",
        "column_sum",
        "max",
        "min",
        "prod",
        "reduce",
        "row_max",
        "row_sum",
        "sum",
    ),
    "cutedialect.frontend.scaled_tiles": ("scale_words", "scaled_gemm"),
    "cutedialect.frontend.scans": ("cummax", "cummin", "cumprod", "cumsum", "scan"),
    "cutedialect.frontend.places": (
        "concatenate",
        "flip",
        "histogram",
        "put_along",
        "reshape",
        "split",
        "stack",
        "take_along",
    ),
    "cutedialect.frontend.sorting": ("argsort", "sort"),
    "cutedialect.frontend.local_tiles": ("local_tile",),
    "cutedialect.frontend.pixels": ("Pixels",),
    "cutedialect.frontend.taps": ("Taps",),
    "cutedialect.frontend.pack": ("pack",),
    "cutedialect.frontend.packed": ("packed",),
    "cutedialect.frontend.quantized_weights": ("from_awq", "from_compressed_tensors", "from_gptq"),
    "cutedialect.frontend.scalar": ("Scalar",),
    "cutedialect.frontend.selection": ("argmax", "argmin", "top_k"),
    "cutedialect.frontend.tensor_layouts": (
        "LayoutValue",
        "composition",
        "make_layout",
        "make_tensor",
    ),
    "cutedialect.frontend.tile": ("Tensor", "Tile", "View", "Views"),
    "cutedialect.layout": ("ComposedLayout", "Layout", "LayoutError", "Swizzle", "TiledCopy"),
    "cutedialect.remarks": ("Remark",),
    "cutedialect.schedule": ("Schedule", "ScheduleError"),
    "cutedialect.atoms.tiled_mma": ("TiledMma",),
    "cutedialect.frontend.elementwise": (
        "abs",
        "bitcast",
        "brev",
        "ceil",
        "clz",
        "copysign",
        "exp",
        "exp2",
        "floor",
        "fma",
        "isfinite",
        "isinf",
        "isnan",
        "log",
        "log2",
        "maximum",
        "minimum",
        "mulhi",
        "popc",
        "round",
        "rsqrt",
        "sqrt",
        "tanh",
        "trunc",
    ),
    "cutedialect.frontend.elementary": (
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "cos",
        "cosh",
        "exp10",
        "expm1",
        "hypot",
        "lgamma",
        "log10",
        "log1p",
        "pow",
        "sin",
        "sinh",
        "tan",
    ),
    "cutedialect.tools.timeline": ("Timeline", "timeline"),
    "cutedialect.frontend.statistics": ("logsumexp", "mean", "softmax", "var"),
    "cutedialect.frontend.atomics": (
        "atomic_add",
        "atomic_and",
        "atomic_compare_and_swap",
        "atomic_exchange",
        "atomic_max",
        "atomic_min",
        "atomic_or",
        "atomic_xor",
    ),
    "cutedialect.frontend.inline_ptx": ("inline_ptx",),
    "cutedialect.frontend.parts": ("broadcast_to", "permute"),
}
_INSIDE = {
    "abs": "abs_",
    "all": "all_",
    "any": "any_",
    "map": "map_",
    "max": "max_",
    "min": "min_",
    "pow": "pow_",
    "range": "range_",
    "round": "round_",
    "sum": "sum_",
}
_EXPORTS = {name: module for module, names in _PUBLIC.items() for name in names}

_SUBMODULES = ("atoms", "backend", "dialects", "frontend", "layout", "passes", "tools")


if not TYPE_CHECKING:
    # Type checkers know every name from above, and should refuse one that is misspelled.

    def __getattr__(name: str) -> object:
        if name in _EXPORTS:
            module, inside = import_module(_EXPORTS[name]), _INSIDE.get(name, name)
            if not hasattr(module, inside):  # a module of functions
                import_module(f"{module.__name__}.{inside}")
            value = getattr(module, inside)
            globals()[name] = value
            return value
        # `from cutedialect import environment` asks here first, within the package.
        if name in (*_SUBMODULES, "environment"):
            return import_module(f"{__name__}.{name}")
        from difflib import get_close_matches

        from cutedialect.frontend.instead import FUNCTIONS, UnknownNameError

        if name in FUNCTIONS:
            raise UnknownNameError(f"expected {FUNCTIONS[name]}, got cute.{name}", name=name)
        near = get_close_matches(name, [*_EXPORTS, *_SUBMODULES], 1)
        hint = f"; did you mean {near[0]}?" if near and not name.startswith("_") else ""
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'{hint}", name=name)


def __dir__() -> list[str]:
    return sorted({*_EXPORTS, *_SUBMODULES, "__version__", "__doc__", "__name__"})
