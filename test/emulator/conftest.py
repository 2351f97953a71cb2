"""Fixtures of the emulator tests: small kernels around a few instructions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cutedialect.backend.emulator import Report, launch

_KIND = {1: "b8", 2: "b16", 4: "b32", 8: "b64"}


def kernel_text(body: str, params: str = "", target: str = "sm_90") -> str:
    """A module with the kernel ``k`` and a generous register file."""
    return f""".version 8.7
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


def elementwise_text(
    body: str, inputs: list[np.dtype], outputs: list[np.dtype], target: str = "sm_90"
) -> str:
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
    return kernel_text("\n".join([*lines, *loads, body, *stores]), ", ".join(params), target)


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


# The driver's enumerators of element types and swizzles.
_ELEMENT = {
    "u8": 0, "u16": 1, "u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7, "f64": 8,
    "bf16": 9, "f32ftz": 10, "tf32": 11, "tf32ftz": 12,
}  # fmt: skip
_SWIZZLE = {"none": 0, "32B": 1, "64B": 2, "128B": 3}


class Hardware:
    """One launch on a GPU, of which the emulator has made a prediction."""

    def __init__(self, cupy: Any, args: list[Any]) -> None:
        self._cupy = cupy
        self._held: dict[int, tuple[np.ndarray, Any]] = {}
        self._args = [self._argument(arg) for arg in args]

    def _address(self, array: np.ndarray) -> int:
        """Upload the array as it is before the launch."""
        if id(array) not in self._held:
            raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
            self._held[id(array)] = array, self._cupy.asarray(raw)
        return int(self._held[id(array)][1].data.ptr)

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, np.ndarray):
            return np.uint64(self._address(arg))
        if isinstance(arg, list):
            table = np.concatenate([self._encode(item) for item in arg])
            return np.uint64(self._address(table))
        if isinstance(arg, np.generic):
            return arg
        return self._encode(arg).view([("map", "u1", (128,))])[0]

    def _encode(self, described: Any) -> np.ndarray:
        get = described.get if isinstance(described, dict) else vars(described).get
        rank = len(get("dims"))
        room = np.zeros(256, np.uint8)
        start = -room.ctypes.data % 128
        encoded = room[start : start + 128]

        def numbers(kind: Any, values: Any) -> Any:
            return (kind * max(1, len(values)))(*values)

        status = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
            ctypes.c_void_p(encoded.ctypes.data), _ELEMENT[get("dtype")], rank,
            ctypes.c_void_p(self._address(get("array"))), numbers(ctypes.c_uint64, get("dims")),
            numbers(ctypes.c_uint64, get("strides")), numbers(ctypes.c_uint32, get("box")),
            numbers(ctypes.c_uint32, get("element_strides") or (1,) * rank), 0,
            _SWIZZLE[get("swizzle") or "none"], 0, int(get("oob_fill") == "nan"),
        )  # fmt: skip
        assert status == 0, f"cuTensorMapEncodeTiled: {status}"
        return encoded

    def check(self, text: str, grid: Any, block: Any, smem: int, cluster: Any) -> None:
        """Run the text and compare every array with the emulator's result."""

        def three(extent: Any) -> tuple[int, ...]:
            return (*(extent if isinstance(extent, tuple) else (extent,)), 1, 1)[:3]

        if cluster is not None:
            shape = ", ".join(map(str, three(cluster)))
            text = text.replace("\n{\n", f"\n.reqnctapercluster {shape}\n{{\n", 1)
        module = self._cupy.cuda.function.Module()
        module.load(text.encode() + b"\0")
        function = module.get_function("k")
        function(three(grid), three(block), tuple(self._args), shared_mem=smem)
        self._cupy.cuda.runtime.deviceSynchronize()
        for array, device in self._held.values():
            expected = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
            wrong = np.flatnonzero(device.get() != expected)
            assert not len(wrong), f"the hardware differs at bytes {wrong[:8]}"


def launch_and_check(
    text: str, grid: Any, block: Any, args: list[Any], gpu: bool = True, **options: Any
) -> Report:
    """Emulate; with a GPU, run there too and expect the same bytes. ``gpu`` False for kernels whose
    results depend on the order of events; views and seeds other than 0 stay in the emulator."""
    views = any(isinstance(a, np.ndarray) and a.base is not None for a in args)
    cupy = gpu_module() if gpu and not views and not options.get("seed") else None
    hardware = None if cupy is None else Hardware(cupy, args)
    report = launch(text, "k", grid, block, args, **options)
    if hardware is not None:
        hardware.check(text, grid, block, options.get("dynamic_smem", 0), options.get("cluster"))
    return report


@pytest.fixture(scope="session")
def elementwise() -> Callable[..., list[np.ndarray]]:
    """``elementwise(body, inputs, output dtypes) -> outputs``: one thread an element. With
    a GPU the same text runs on it too and must give the same bits, approximations and what
    needs another target excepted.
    """
    cupy = gpu_module()

    def run(
        body: str, inputs: list[Any], outputs: list[Any], target: str = "sm_90"
    ) -> list[np.ndarray]:
        arrays = [np.ascontiguousarray(a) for a in inputs]
        count = len(arrays[0]) if arrays else 32
        dtypes = [np.dtype(d) for d in outputs]
        text = elementwise_text(body, [a.dtype for a in arrays], dtypes, target)
        padded = -(-count // 64) * 64
        full = [np.concatenate([a, np.resize(a, padded - count)]) for a in arrays]
        results = [np.zeros(padded, d) for d in dtypes]
        launch(text, "k", padded // 64, 64, [*full, *results])
        if cupy is not None and "approx" not in body and target == "sm_90":
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
        return launch_and_check(text, grid, block, arrays, **options)

    return run


@pytest.fixture(scope="session")
def run_maps() -> Callable[..., Report]:
    """``run_maps(body, maps, arrays, ...)``: generic addresses of tensor maps are in ``%rd100``,
    ``%rd101``, ..., otherwise as ``run_kernel``; ``%p31`` is true in thread 0. ``notes`` are
    directives of the kernel, ``target`` is its own.
    """

    def run(
        body: str, maps: list[Any], arrays: list[Any], grid: Any = 1, block: Any = 32,
        notes: str = "", target: str = "sm_90a", **options: Any,
    ) -> Report:  # fmt: skip
        head = ["mov.u32 %r0, %tid.x;", "mov.u32 %r1, %laneid;", "setp.eq.u32 %p31, %r0, 0;"]
        head += [
            f"mov.b64 %rd{100 + i}, m{i}; cvta.param.u64 %rd{100 + i}, %rd{100 + i};"
            for i in range(len(maps))
        ]
        head += [f"ld.param.u64 %rd{i}, [p{i}];" for i in range(len(arrays))]
        params = [f".param .align 64 .b8 m{i}[128]" for i in range(len(maps))]
        params += [f".param .u64 p{i}" for i in range(len(arrays))]
        text = kernel_text("\n".join([*head, body]), ", ".join(params), target)
        text = text.replace("\n{\n", f"\n{notes}\n{{\n", 1)
        return launch_and_check(text, grid, block, [*maps, *arrays], **options)

    return run


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1234)
