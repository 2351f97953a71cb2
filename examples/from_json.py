"""A matrix multiply and attention launched from files alone: PTX or machine code, and the JSON
beside it.

`python -m cutedialect compile` writes the files; from there on, everything that concerns the kernel
is read from the JSON by `Program` and `Gpu`, which know NumPy, CuPy and the CUDA driver, and no
part of this project. Without a GPU the emulator takes the driver's place.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np

M, N, K = 300, 264, 200
KEYS = 100
FOLDER = Path("build/from_json")


class Program:
    """A kernel's files; `call` launches it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.files = {kind: folder / f"{name}.{kind}" for kind in ("json", "ptx", "cubin")}
        self.described = json.loads(self.files["json"].read_text())
        # In the format before, expressions have more of Python.
        assert self.described["format"] in ("cutedialect-kernel-1", "cutedialect-kernel-2")
        self.functions = {"inf": float("inf"), "nan": float("nan")}
        for head, body in self.described["functions"].items():
            function, _, parameters = head.rstrip(")").partition("(")
            self.functions[function] = eval(f"lambda {parameters}: {body}", self.functions)

    def call(self, device, *arguments):
        """Evaluate the expressions of the JSON and launch on a device."""
        names = dict(self.functions, sm_count=device.sm_count)
        for wanted, given in zip(
            self.described["arguments"], self.views(device, arguments), strict=True
        ):
            if wanted["kind"] == "tensor":
                given.stride = [
                    fixed if fixed is not None else step if extent > 1 else 0
                    for fixed, step, extent in zip(
                        wanted["stride"], given.stride, given.shape, strict=True
                    )
                ]
            names[wanted["name"]] = given
        for value in self.described["values"]:
            names[value["name"]] = eval(value["value"], names)
        kept = []  # zeros are right for any workspace, and one may be used again
        for space in self.described["workspaces"]:
            kept.append(device.array(np.zeros(eval(space["elements"], names), space["dtype"])))
            names[space["name"]] = device.pointer(kept[-1])
        for launch in self.described["launches"]:
            grid = tuple(eval(extent, names) for extent in launch["grid"])
            if 0 not in grid:
                values = [self.parameter(device, each, names) for each in launch["parameters"]]
                device.launch(self.files, launch, grid, values)

    def views(self, device, arguments):
        """What the kernel takes: the arguments, or views of those of a call."""
        called = self.described["call"]
        expected = self.described["arguments"] if called is None else called["arguments"]
        shown = [
            SimpleNamespace(
                pointer=device.pointer(given),
                shape=given.shape,
                stride=[step // given.itemsize for step in given.strides],
            )
            if wanted["kind"] == "tensor"
            else given
            for wanted, given in zip(expected, arguments, strict=True)
        ]
        if called is None:
            return shown
        names = dict(self.functions)
        for wanted, given in zip(expected, shown, strict=True):
            names[wanted["name"]] = given
            for mode, extent in enumerate(wanted.get("shape", ())):
                assert extent is None or eval(str(extent), names) == given.shape[mode], wanted
        for fact in called["requires"]:
            assert eval(fact, names), fact
        views = []
        for view in (each["from"] for each in self.described["arguments"]):
            if "value" in view:
                views.append(eval(view["value"], names))
                continue
            shape, stride = (
                [eval(each, names) for each in view[key]] for key in ("shape", "stride")
            )
            pointer = names[view["array"]].pointer
            views.append(SimpleNamespace(pointer=pointer, shape=shape, stride=stride))
        return views

    @staticmethod
    def parameter(device, parameter, names):
        """A kernel parameter as a NumPy scalar of its size, an address, or a tensor map."""
        if "tensor_map" in parameter:
            encoded = {
                key: eval(value, names) if isinstance(value, str) else value
                for key, value in parameter["tensor_map"].items()
            }
            for key in ("dims", "strides"):
                encoded[key] = [eval(each, names) for each in encoded[key]]
            return device.tensor_map(encoded)
        value = eval(parameter["value"], names)
        if parameter["type"] == "ptr":
            return device.address(value)
        if parameter["type"] == "f32":
            return np.float32(value)
        return np.dtype(f"i{parameter['size']}").type(value)


class Gpu:
    """CuPy's current device."""

    def __init__(self, cupy) -> None:
        self.cupy = cupy
        self.sm_count = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self.is_hopper = cupy.cuda.Device().compute_capability == "90"
        encode = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
        u32, pointer = ctypes.c_uint32, ctypes.c_void_p
        encode.argtypes = (*(pointer, u32, u32), *(pointer,) * 5, *(u32,) * 4)
        self.encode = encode

    def array(self, host):
        return self.cupy.asarray(host)

    def host(self, array):
        return self.cupy.asnumpy(array)

    def pointer(self, array):
        return array.data.ptr

    def address(self, pointer):
        return np.uint64(pointer)

    def tensor_map(self, encoded):
        """128 bytes by value."""
        memory = np.zeros(256, np.uint8)
        start = -memory.ctypes.data % 128
        rank = encoded["rank"]
        status = self.encode(
            memory.ctypes.data + start,
            encoded["data_type"],
            rank,
            encoded["address"],
            (ctypes.c_uint64 * rank)(*encoded["dims"]),
            (ctypes.c_uint64 * rank)(*encoded["strides"]),
            (ctypes.c_uint32 * rank)(*encoded["box"]),
            (ctypes.c_uint32 * rank)(*encoded["element_strides"]),
            encoded["interleave"],
            encoded["swizzle"],
            encoded["l2_promotion"],
            encoded["oob_fill"],
        )
        assert status == 0, f"cuTensorMapEncodeTiled: {status}"
        return memory[start : start + 128].view([("opaque", "<u8", (16,))])

    def launch(self, files, launch, grid, values):
        # Machine code is for one architecture; the driver assembles PTX for any later one.
        kind = "cubin" if self.is_hopper and files["cubin"].exists() else "ptx"
        module = self.cupy.RawModule(path=str(files[kind]))
        function = module.get_function(launch["kernel"])
        wanted = launch["attributes"]["max_dynamic_shared_size_bytes"]
        if wanted is not None:
            function.max_dynamic_shared_size_bytes = wanted
        function(grid, tuple(launch["block"]), tuple(values), shared_mem=launch["dynamic_smem"])
        self.cupy.cuda.runtime.deviceSynchronize()


class Emulator:
    """The emulator: an array is its own address, a tensor map is its words."""

    sm_count = 4

    def array(self, host):
        return host

    host = pointer = address = array

    def tensor_map(self, encoded):
        words = encoded["names"]
        fields = ("dims", "strides", "box", "element_strides")
        return {
            "array": encoded["address"],
            "dtype": words["data_type"],
            **{field: encoded[field] for field in fields},
            **{field: words[field] for field in ("swizzle", "interleave", "oob_fill")},
        }

    def launch(self, files, launch, grid, values):
        from cutedialect.backend import emulator

        emulator.launch(
            files["ptx"].read_text(),
            launch["kernel"],
            grid,
            tuple(launch["block"]),
            values,
            launch["dynamic_smem"],
            tuple(launch["cluster"]),
        )


def find_device():
    """(the device, the target to compile for)"""
    if find_spec("cupy") is not None:
        import cupy

        if cupy.cuda.is_available():
            device = Gpu(cupy)
            return device, "sm_90a" if device.is_hopper else "sm_80"
    return Emulator(), "sm_90a"


def compiled(*words):
    """The files of a kernel that the command line names."""
    command = [sys.executable, "-m", "cutedialect", "compile", *words, "-o", str(FOLDER)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    print(done.stderr.strip())
    return Program(FOLDER, words[0].removeprefix("cute."))


def multiply(device, arch, rng):
    """Whether 0.5 A B + bias is exact."""
    specs = ["?x?:f16", "?x?:f16:1,?", "--set", "bias=?:f16"]
    program = compiled("cute.gemm", *specs, "--arch", arch)
    (launch,) = program.described["launches"]
    print(f"grid {', '.join(launch['grid'])}")
    for each in launch["parameters"]:
        said = each.get("value") or f"{each['tensor_map']['address']}, {each['tensor_map']['box']}"
        print(f"  {each['offset']:4} {each['type']:10} {said}")

    a = rng.integers(-3, 4, (M, K)).astype(np.float16)
    b = rng.integers(-3, 4, (N, K)).astype(np.float16).T
    bias = rng.integers(-3, 4, N).astype(np.float16)
    result = device.array(np.zeros((M, N), np.float16))
    program.call(device, device.array(a), device.array(b.T).T, device.array(bias), result, 0.5)
    wanted = 0.5 * (a.astype(float) @ b.astype(float)) + bias
    return np.array_equal(device.host(result), wanted)


def attend(device, arch, rng):
    """The largest error of attention with eight heads of queries on two of keys, a query each."""
    specs = ["?x8x1x64:f16", "?x2x?x64:f16", "?x2x?x64:f16"]
    program = compiled("cute.attention", *specs, "--arch", arch)
    for each in program.described["arguments"]:
        view = each["from"]
        said = view.get("value") or f"{view['array']} as ({', '.join(view['shape'])})"
        print(f"  {each['name']:6} {said}")

    q, k, v = (
        rng.standard_normal(shape).astype(np.float16)
        for shape in ((2, 8, 1, 64), (2, 2, KEYS, 64), (2, 2, KEYS, 64))
    )
    result = device.array(np.zeros(q.shape, np.float16))
    program.call(device, *map(device.array, (q, k, v)), result)
    scores = q.reshape(2, 2, 4, 64).astype(float) @ k.swapaxes(-1, -2).astype(float) / 8
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v.astype(float)
    return np.abs(device.host(result) - wanted.reshape(q.shape)).max()


def main() -> int:
    device, arch = find_device()
    rng = np.random.default_rng(0)
    exact, error = multiply(device, arch, rng), attend(device, arch, rng)
    print(f"on the {type(device).__name__.lower()}: {'exact' if exact else 'WRONG'}")
    print(f"attention: {'error' if error < 2e-3 else 'WRONG'} {error:.1e}")
    return 0 if exact and error < 2e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
