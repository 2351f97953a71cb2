"""Fixtures of the emulator tests: small kernels around a few instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cutedialect.backend.emulator import Report, launch

_KIND = {1: "b8", 2: "b16", 4: "b32", 8: "b64"}


def kernel_text(body: str, params: str = "", target: str = "sm_90") -> str:
    """A module with the kernel ``k`` and a generous register file."""
    return f""".version 8.6
.target {target}
.address_size 64
.visible .entry k({params})
{{
.reg .pred %p<32>; .reg .b16 %h<64>; .reg .b32 %r<256>; .reg .b64 %rd<300>;
.reg .f32 %f<256>; .reg .f64 %fd<64>; .reg .b16 %rs<64>;
{body}
ret;
}}
"""


def elementwise_text(body: str, inputs: list[np.dtype], outputs: list[np.dtype]) -> str:
    """Thread i loads ``%a0``, ``%a1``, ... from element i of the inputs and stores ``%d0``, ..."""
    lines = ["mov.u32 %r255, %tid.x;", "mov.u32 %r254, %ctaid.x;", "mov.u32 %r253, %ntid.x;",
             "mad.lo.s32 %r255, %r254, %r253, %r255;"]  # fmt: skip
    params = []
    arrays = [("a", d) for d in inputs] + [("d", d) for d in outputs]
    for slot, (_, dtype) in enumerate(arrays):
        params.append(f".param .u64 p{slot}")
        lines.append(f"ld.param.u64 %rd{100 + slot}, [p{slot}];")
        lines.append(f"mul.wide.u32 %rd127, %r255, {dtype.itemsize};")
        lines.append(f"add.s64 %rd{100 + slot}, %rd{100 + slot}, %rd127;")
    counters = {"a": 0, "d": 0}
    loads, stores = [], []
    for slot, (letter, dtype) in enumerate(arrays):
        number = counters[letter]
        counters[letter] += 1
        kind = _KIND[dtype.itemsize]
        lines.append(f".reg .{'b16' if kind == 'b8' else kind} %{letter}{number};")
        if letter == "a":
            loads.append(f"ld.global.{kind} %a{number}, [%rd{100 + slot}];")
        else:
            stores.append(f"st.global.{kind} [%rd{100 + slot}], %d{number};")
    return kernel_text("\n".join([*lines, *loads, body, *stores]), ", ".join(params))


def gpu_module() -> Any:
    """CuPy where there is a GPU, else None."""
    try:
        import cupy

        return cupy if cupy.cuda.runtime.getDeviceCount() > 0 else None
    except Exception:
        return None


def check_on_gpu(cupy: Any, text: str, grid: int, inputs: list[Any], outputs: list[Any]) -> None:
    """The hardware gives the same bits."""
    module = cupy.cuda.function.Module()
    module.load(text.encode() + b"\0")
    held = [cupy.asarray(a) for a in [*inputs, *(np.zeros_like(o) for o in outputs)]]
    module.get_function("k")((grid, 1, 1), (64, 1, 1), tuple(held))
    for i, found in enumerate(outputs):
        hardware = held[len(inputs) + i].get()
        kind = np.dtype(f"u{found.itemsize}")
        wrong = np.flatnonzero(hardware.view(kind) != found.view(kind))
        assert not len(wrong), (i, wrong[:4], hardware[wrong[:4]], found[wrong[:4]])


@pytest.fixture(scope="session")
def elementwise() -> Callable[..., list[np.ndarray]]:
    """``elementwise(body, inputs, output dtypes) -> outputs``: one thread an element. With
    a GPU the same text runs on it too and must give the same bits, approximations excepted.
    """
    cupy = gpu_module()

    def run(body: str, inputs: list[Any], outputs: list[Any]) -> list[np.ndarray]:
        arrays = [np.ascontiguousarray(a) for a in inputs]
        count = len(arrays[0]) if arrays else 32
        dtypes = [np.dtype(d) for d in outputs]
        text = elementwise_text(body, [a.dtype for a in arrays], dtypes)
        padded = -(-count // 64) * 64
        full = [np.concatenate([a, np.resize(a, padded - count)]) for a in arrays]
        results = [np.zeros(padded, d) for d in dtypes]
        launch(text, "k", padded // 64, 64, [*full, *results])
        if cupy is not None and "approx" not in body:
            raw = [a.view(f"u{a.itemsize}") for a in full]
            check_on_gpu(cupy, text, padded // 64, raw, results)
        return [r[:count] for r in results]

    return run


@pytest.fixture(scope="session")
def run_kernel() -> Callable[..., Report]:
    """``run_kernel(body, arrays, ...)``: the arrays' addresses are in ``%rd0``, ``%rd1``, ..., the
    thread index in ``%r0`` and the lane index in ``%r1``.
    """

    def run(body: str, arrays: list[Any], grid: Any = 1, block: Any = 32, **options: Any) -> Report:
        head = ["mov.u32 %r0, %tid.x;", "mov.u32 %r1, %laneid;"]
        head += [f"ld.param.u64 %rd{i}, [p{i}];" for i in range(len(arrays))]
        params = ", ".join(f".param .u64 p{i}" for i in range(len(arrays)))
        text = kernel_text("\n".join([*head, body]), params)
        return launch(text, "k", grid, block, arrays, **options)

    return run


@pytest.fixture(scope="session")
def run_maps() -> Callable[..., Report]:
    """``run_maps(body, maps, arrays, ...)``: generic addresses of tensor maps are in ``%rd100``,
    ``%rd101``, ..., otherwise as ``run_kernel``; ``%p31`` is true in thread 0. ``notes`` are
    directives of the kernel.
    """

    def run(
        body: str, maps: list[Any], arrays: list[Any], grid: Any = 1, block: Any = 32,
        notes: str = "", **options: Any,
    ) -> Report:  # fmt: skip
        head = ["mov.u32 %r0, %tid.x;", "mov.u32 %r1, %laneid;", "setp.eq.u32 %p31, %r0, 0;"]
        head += [
            f"mov.b64 %rd{100 + i}, m{i}; cvta.param.u64 %rd{100 + i}, %rd{100 + i};"
            for i in range(len(maps))
        ]
        head += [f"ld.param.u64 %rd{i}, [p{i}];" for i in range(len(arrays))]
        params = [f".param .align 64 .b8 m{i}[128]" for i in range(len(maps))]
        params += [f".param .u64 p{i}" for i in range(len(arrays))]
        text = kernel_text("\n".join([*head, body]), ", ".join(params), "sm_90a")
        text = text.replace("\n{\n", f"\n{notes}\n{{\n", 1)
        return launch(text, "k", grid, block, [*maps, *arrays], **options)

    return run


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1234)
