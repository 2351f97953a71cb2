"""The JSON description of a compiled kernel, read as a stranger would: `Reader` knows JSON, the
CUDA headers and nothing of this package, and launches from the description and the PTX text alone.
"""

from __future__ import annotations

import json
import re
import struct
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.__main__ import main
from cutedialect.backend import emulator
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.description import described
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.frontend.described_calls import described_call
from cutedialect.tools import kernel_arguments

# cuda.h: CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapInterleave, CUtensorMapFloatOOBfill.
DATA_TYPES = {
    0: "u8", 1: "u16", 2: "u32", 3: "s32", 4: "u64", 5: "s64", 6: "f16", 7: "f32", 8: "f64",
    9: "bf16", 11: "tf32",
}  # fmt: skip
SWIZZLES = ("none", "32B", "64B", "128B")
INTERLEAVES = ("none", "16B", "32B")
FILLS = ("zero", "nan")
FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}


class Reader:
    """A launcher in plain Python over the description and NumPy arrays in place of addresses."""

    def __init__(self, text: str) -> None:
        self.kernel = json.loads(text)
        self.scope: dict[str, Any] = {"__builtins__": {}}
        self.scope |= {"min": min, "max": max, "abs": abs, "int": int}
        for head, body in self.kernel["functions"].items():
            name, _, parameters = head.rstrip(")").partition("(")
            self.scope[name] = eval(f"lambda {parameters}: {body}", self.scope)

    def bind(self, *given: Any, sm_count: int) -> None:
        """Names of the expressions: the arguments, the device, the shared values."""
        assert len(given) == len(self.kernel["arguments"])
        self.scope["sm_count"] = sm_count
        for argument, value in zip(self.kernel["arguments"], given, strict=True):
            self.scope[argument["name"]] = (
                self.tensor(argument, value) if argument["kind"] == "tensor" else value
            )
        for shared in self.kernel["values"]:
            self.scope[shared["name"]] = self.evaluate(shared["value"])
        for space in self.kernel["workspaces"]:
            count = self.evaluate(space["elements"])
            fill = 0 if space["zeroed"] else 77  # what is in it before must not matter
            self.scope[space["name"]] = np.full(count, fill, space["dtype"])

    @staticmethod
    def tensor(argument: dict[str, Any], array: np.ndarray) -> SimpleNamespace:
        assert array.dtype.name == argument["dtype"]
        assert array.ndim == len(argument["shape"])
        assert array.ctypes.data % argument["alignment"] == 0
        strides = []
        leaves = zip(array.shape, array.strides, argument["stride"], strict=True)
        for mode, (extent, in_bytes, fixed) in enumerate(leaves):
            stride = in_bytes // array.itemsize
            if extent < 2:
                stride = fixed or 0
            assert fixed in (None, stride)
            assert argument["shape"][mode] in (None, extent)
            assert stride % argument["stride_divisor"][mode] == 0
            assert extent % argument["shape_divisor"][mode] == 0
            strides.append(stride)
        return SimpleNamespace(pointer=array, shape=array.shape, stride=tuple(strides))

    def views(self, *given: Any) -> list[Any]:
        """The arguments of the kernel for those of a call."""
        call = self.kernel["call"]
        names = dict(self.scope)
        for argument, value in zip(call["arguments"], given, strict=True):
            if argument["kind"] == "tensor":
                assert value.dtype.name == argument["dtype"]
                extents = [extent and eval(str(extent), names) for extent in argument["shape"]]
                assert len(extents) == value.ndim
                pairs = zip(extents, value.shape, strict=True)
                assert all(extent in (None, length) for extent, length in pairs)
                stride = [in_bytes // value.itemsize for in_bytes in value.strides]
                value = SimpleNamespace(array=value, shape=value.shape, stride=stride)
            names[argument["name"]] = value
        for fact in call["requires"]:
            assert eval(fact, names), fact
        result: list[Any] = []
        for view in (argument["from"] for argument in self.kernel["arguments"]):
            if "value" in view:
                result.append(eval(view["value"], names))
                continue
            shape, stride = ([eval(x, names) for x in view[key]] for key in ("shape", "stride"))
            array = names[view["array"]].array
            steps = [step * array.itemsize for step in stride]
            result.append(np.lib.stride_tricks.as_strided(array, shape, steps))
        return result

    def evaluate(self, expression: str) -> Any:
        return eval(expression, self.scope)

    def launches(self) -> list[dict[str, Any]]:
        """Kernel, grid, block, cluster, shared memory and the values of the parameters."""
        found = []
        for launch in self.kernel["launches"]:
            grid = tuple(self.evaluate(extent) for extent in launch["grid"])
            if 0 in grid:
                continue
            assert all(g % c == 0 for g, c in zip(grid, launch["cluster"], strict=True))
            found.append(
                {
                    "entry": launch["kernel"],
                    "grid": grid,
                    "block": tuple(launch["block"]),
                    "cluster": tuple(launch["cluster"]),
                    "dynamic_smem": launch["dynamic_smem"],
                    "args": [self.parameter(p) for p in launch["parameters"]],
                }
            )
        return found

    def parameter(self, parameter: dict[str, Any]) -> Any:
        if "tensor_map" in parameter:
            assert (parameter["size"], parameter["align"]) == (128, 64)
            return self.tensor_map(parameter["tensor_map"])
        value = self.evaluate(parameter["value"])
        if parameter["type"] == "ptr":
            assert parameter["size"] == 8
            return value
        size = parameter["size"]
        if parameter["type"] in FLOATS:
            raw = struct.pack(FLOATS[parameter["type"]], value)
        else:
            raw = (value % (1 << 8 * size)).to_bytes(size, "little")
        # The emulator converts a number to what the kernel declares, so a float has to be one here.
        kind = "f" if parameter["type"] in FLOATS and len(raw) == size else "u"
        return np.frombuffer(raw.ljust(size, b"\0"), f"<{kind}{size}")[0]

    def tensor_map(self, encoded: dict[str, Any]) -> dict[str, Any]:
        """What the twelve arguments of cuTensorMapEncodeTiled say, in words."""
        order = "data_type rank address dims strides box element_strides interleave swizzle"
        assert list(encoded)[:11] == [*order.split(), "l2_promotion", "oob_fill"]
        array = self.evaluate(encoded["address"])
        dims = tuple(self.evaluate(extent) for extent in encoded["dims"])
        strides = tuple(self.evaluate(stride) for stride in encoded["strides"])
        assert len(dims) == len(encoded["box"]) == encoded["rank"] == len(strides) + 1
        return {
            "array": array,
            "dtype": DATA_TYPES[encoded["data_type"]],
            "dims": dims,
            "strides": strides,
            "box": tuple(encoded["box"]),
            "element_strides": tuple(encoded["element_strides"]),
            "swizzle": SWIZZLES[encoded["swizzle"]],
            "interleave": INTERLEAVES[encoded["interleave"]],
            "oob_fill": FILLS[encoded["oob_fill"]],
        }


def run(folder: Path, name: str, *arguments: Any, sm_count: int = 4) -> dict[str, Any]:
    """Launch from the files that `compile` wrote; returns the description."""
    reader = Reader((folder / f"{name}.json").read_text())
    reader.bind(*arguments, sm_count=sm_count)
    for launch in reader.launches():
        emulator.launch((folder / f"{name}.ptx").read_text(), **launch)
    return reader.kernel


def small(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "schedule",
    [
        "tile = (128,64,64), cluster = (2,1)",
        "tile = (64,32,64), cluster = (1,1)",
        "tile = (128,64,64), cluster = (1,1), split_k = 3",
        "tile = (128,64,64), cluster = (1,1), scheduler = stream",
    ],
)
def test_a_hopper_gemm_from_its_description(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], schedule: str
) -> None:
    """Ragged sizes, tensor maps, a cluster, a persistent grid, a bias, a run-time factor, and
    workspaces where CTAs share a tile.
    """
    command = ["compile", "cute.gemm", "?x?:bf16", "?x?:bf16:1,?", "--arch", "sm_90a"]
    command += ["--schedule", schedule, "--set", "bias=?:f32", "--set", "out_dtype=f32"]
    assert main([*command, "-o", str(tmp_path)]) == 0
    assert str(tmp_path / "gemm.json") in capsys.readouterr().out.split()
    m, n, k = 200, 132, 136
    a, b = small((m, k), ml_dtypes.bfloat16, 1), small((n, k), ml_dtypes.bfloat16, 2)
    bias, d = small((n,), np.float32, 3), np.full((m, n), np.nan, np.float32)
    kernel = run(tmp_path, "gemm", a, b.T, bias, d, 0.5)
    want = 0.5 * (a.astype(np.float64) @ b.T.astype(np.float64)) + bias
    assert np.array_equal(d, want)
    (launch,) = kernel["launches"]
    maps = [
        parameter["tensor_map"] for parameter in launch["parameters"] if "tensor_map" in parameter
    ]
    assert {"A.pointer", "B.pointer"} <= {encoded["address"] for encoded in maps}
    assert kernel["arch"] == "sm_90a"
    is_shared = "split_k" in schedule or "stream" in schedule
    assert [space["zeroed"] for space in kernel["workspaces"]] == [True, False] * is_shared
    assert cute.Schedule.parse(kernel["schedule"]).merged(cute.Schedule.parse(schedule)) == (
        cute.Schedule.parse(kernel["schedule"])
    )
    if ptxas.candidates():
        assert (tmp_path / "gemm.cubin").read_bytes().startswith(b"\x7fELF")
        assert 0 < launch["resources"]["registers"] <= 255
        assert launch["resources"]["spill_stores"] == 0


def test_a_wrong_description_gives_a_wrong_product(tmp_path: Path) -> None:
    """The product above comes from the description: a box or an extent less, and it is wrong."""
    assert main([
        "compile", "cute.gemm", "?x?:f16", "?x?:f16:1,?", "--arch", "sm_90a",
        "--schedule", "tile = (64,32,64)", "-o", str(tmp_path),
    ]) == 0  # fmt: skip
    a, b = small((64, 64), np.float16, 1), small((64, 64), np.float16, 2)
    d = np.zeros((64, 64), np.float16)
    run(tmp_path, "gemm", a, b.T, d, 1.0)
    assert np.array_equal(d, a @ b.T)
    text = (tmp_path / "gemm.json").read_text()
    assert "max(1, A.shape[1])" in text
    (tmp_path / "gemm.json").write_text(text.replace("max(1, A.shape[1])", "A.shape[1] - 8"))
    run(tmp_path, "gemm", a, b.T, d, 1.0)
    assert not np.array_equal(d, a @ b.T)


def test_a_transposed_product_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compile", "cute.gemm", "16x?:f16", "?x4096:f16:1,?", "--arch", "sm_90a", "--json"]
    assert main([*command, "-o", str(tmp_path)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "transposed product" in told["kernel"]["about"]
    assert str(tmp_path / "gemm.cubin") in told["files"] or not ptxas.candidates()
    a, b, d = small((7, 72), np.float16, 1), small((96, 72), np.float16, 2), np.zeros((7, 96))
    d = d.astype(np.float16)
    run(tmp_path, "gemm", b, a.T, d.T, 1.0)
    assert np.array_equal(d, a @ b.T)


KERNEL = """\
import cutedialect as cute

@cute.kernel
def scaled(X, Y, factor, *, tile=(8, 64), shift=1):
    i, j = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, (i, j)))
    cute.copy(x * factor + shift, cute.local_tile(Y, tile, (i, j)))
"""


def test_a_kernel_of_a_user(tmp_path: Path) -> None:
    (tmp_path / "scaling.py").write_text(KERNEL)
    out = tmp_path / "out"
    command = ["compile", f"{tmp_path}/scaling.py:scaled", "?x?:f32", "?x?:f32", "1.0:f32"]
    assert main([*command, "--set", "shift=5", "--set", "tile=(4,32)", "-o", str(out)]) == 0
    x = small((10, 136), np.float32, 1)
    y = np.zeros_like(x)
    kernel = run(out, "scaled", x, y, 2.5)
    assert np.array_equal(y, x * np.float32(2.5) + 5)
    assert [argument["name"] for argument in kernel["arguments"]] == ["X", "Y", "factor"]
    assert [argument.get("written") for argument in kernel["arguments"]] == [False, True, None]
    assert kernel["about"] == ""


def test_attention_from_its_description(tmp_path: Path) -> None:
    """Four dimensions, and a factor that the caller gives: log2(e) / sqrt(16) here."""
    command = ["compile", "cute.attention", *["1x2x?x16:f16"] * 3, "-o", str(tmp_path)]
    assert main(command) == 0
    q, k, v = (small((1, 2, rows, 16), np.float16, rows) for rows in (5, 33, 33))
    v = np.ascontiguousarray(v[:, :, ::-1])
    out = np.zeros_like(q)
    factor = np.float32(np.log2(np.e) / 4)
    run(tmp_path, "attention", q, k, v, out, float(factor))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k, dtype=np.float64) / 4
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v)
    assert np.abs(out - want).max() < 1e-2


def spec(text: str) -> Any:
    """What the command line takes as `text`."""
    return kernel_arguments.argument(text)


def drawn(shape: tuple[int, ...], seed: int, dtype: Any = np.float16) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def attended(q: str, k: str, arrays: dict[str, Any], **options: Any) -> Any:
    """A case of attention: specs of q and k, arrays of a call, and what both are told."""
    return cute.attention, (spec(q), spec(k), spec(k)), arrays, options


def heads(rows: int, keys: int, batch: int = 1, of_k: int = 2) -> dict[str, Any]:
    """Arrays for four heads of queries."""
    shapes = {"q": (batch, 4, rows, 16), "k": (batch, of_k, keys, 16), "v": (batch, of_k, keys, 16)}
    return {name: drawn(shape, seed) for seed, (name, shape) in enumerate(shapes.items())}


def multiplied(a: str, b: str, arrays: dict[str, Any], **options: Any) -> Any:
    """A case of a product."""
    return cute.gemm, (spec(a), spec(b)), arrays, options


CALLS = {
    "one query of each head": attended(
        "?x4x1x16:f16", "?x2x?x16:f16", heads(1, 40, batch=2), causal=True
    ),
    "rows of heads as one's": attended(
        "?x4x3x16:f16", "?x2x?x16:f16", heads(3, 40), causal=True, return_lse=True
    ),
    "heads as a mode": attended("?x4x?x16:f16", "?x2x?x16:f16", heads(33, 20), return_lse=True),
    "rows that are gathered": attended(
        "?x4x3x16:f16:?,?,?,1", "?x2x?x16:f16",
        heads(3, 40) | {"q": drawn((1, 3, 4, 16), 5).swapaxes(1, 2)},
    ),
    "parts of keys": attended(
        "?x4x1x16:f16", "?x2x?x16:f16", heads(1, 150), schedule="tile = (64,64), split_k = 2"
    ),
    "first columns of the keys": (
        cute.attention, (spec("?x4x?x16:f16"), spec("?x1x?x16:f16"), 8),
        {"q": drawn((1, 4, 3, 16), 1), "k": drawn((1, 1, 20, 16), 2), "v": 8}, {},
    ),
    "packed sequences": attended(
        "1x4x?x16:f16", "1x2x?x16:f16",
        heads(70, 50) | {"q_offsets": np.array([0, 66, 70], np.int32),
                         "k_offsets": np.array([0, 20, 50], np.int32)},
        cu_seqlens=(spec("?:i32:1"), spec("?:i32:1")), schedule="tile = (64,64)",
    ),
    "pages": attended(
        "?x4x3x16:f16", "?x2x8x16:f16",
        heads(3, 8) | {name: drawn((5, 2, 8, 16), seed) for seed, name in enumerate("kv")}
        | {"lengths": np.array([13], np.int64), "block_table": np.array([[4, 1]], np.int32)},
        lengths=spec("?:i64:1"), block_table=spec("?x?:i32"),
    ),
    "scales of heads": attended(
        "?x4x?x16:f16", "?x2x?x16:f16",
        heads(33, 20) | {"scale_q": np.array([1, 2, 0.5, 1], np.float32),
                         "scale_v": np.array([[2, 3]], np.float32)},
        scale_q=spec("4:f32:1"), scale_k=0.5, scale_v=spec("?x2:f32"),
    ),
    "a product": multiplied(
        "?x?:f16", "?x?:f16:1,?",
        {"a": small((5, 24), np.float16, 1), "b": small((16, 24), np.float16, 2).T},
    ),
    "a transposed product": multiplied(
        "16x?:f16", "?x4096:f16:1,?",
        {"a": small((5, 24), np.float16, 1), "b": small((64, 24), np.float16, 2).T,
         "c": small((5, 64), np.float16, 3)},
        arch="sm_90a", c=spec("?x?:f16"), beta=1.0,
    ),
    "a batch": multiplied(
        "?x?x?:f16", "?x?:f16",
        {"a": small((3, 5, 24), np.float16, 1), "b": small((24, 8), np.float16, 2),
         "bias": small((8,), np.float16, 3)},
        bias=spec("?:f16:1"),
    ),
    "scales of blocks": multiplied(
        "?x?:e4m3", "?x?:e4m3:1,?",
        {"a": small((5, 512), ml_dtypes.float8_e4m3fn, 1),
         "b": small((16, 512), ml_dtypes.float8_e4m3fn, 2).T,
         "scale_a": small((5, 4), np.float32, 3), "scale_b": small((1, 4), np.float32, 4).T},
        arch="sm_90a", scale_a=spec("?x?:f32"), scale_b=spec("?x?:f32:1,?"),
    ),
    "split numbers": multiplied(
        "?x?:f32", "?x?:f32",
        {"a": drawn((5, 40), 1, np.float32), "b": drawn((40, 12), 2, np.float32)},
        precision="3xtf32",
    ),
}  # fmt: skip


@pytest.mark.some(5)
@pytest.mark.parametrize("case", CALLS)
def test_a_call_from_its_description(case: str) -> None:
    """Views of plain arrays, as the file has them, and what the call itself computes."""
    program, specs, arrays, options = CALLS[case]
    options = {"arch": "sm_80"} | options
    kernel = cute.compile(program, *specs, **options)
    reader = Reader(
        json.dumps(described(kernel.program, None, described_call(program, specs, options)))
    )
    told = options | {name: value for name, value in arrays.items() if name in options}
    if "cu_seqlens" in told:
        told["cu_seqlens"] = arrays["q_offsets"], arrays["k_offsets"]
    inputs = [value for name, value in arrays.items() if name in ("q", "k", "v", "a", "b")]
    wanted = program(*inputs, **told, backend="emulator")
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    got = [np.zeros_like(each) for each in wanted]
    numbers = {"alpha": 1.0, "beta": 1.0, "out": got[0], "lse": got[-1]}
    names = [argument["name"] for argument in reader.kernel["call"]["arguments"]]
    reader.bind(*reader.views(*[(arrays | numbers)[name] for name in names]), sm_count=4)
    for launch in reader.launches():
        emulator.launch(kernel.ptx, **launch)
    for one, other in zip(got, wanted, strict=True):
        assert np.abs(one.astype(np.float64) - other.astype(np.float64)).max() < 2e-3
        assert np.abs(other.astype(np.float64)).max() > 0.1


def test_attention_of_plain_arrays_from_files(tmp_path: Path) -> None:
    """Heads that share keys are views; whoever cannot have such a view is told."""
    command = ["compile", "cute.attention", "?x4x2x16:f16", "?x2x?x16:f16", "?x2x?x16:f16"]
    assert main([*command, "-o", str(tmp_path)]) == 0
    reader = Reader((tmp_path / "attention.json").read_text())
    assert "neighboring heads of q share a head of k and v" in reader.kernel["about"]
    arrays = [*heads(2, 40).values(), np.zeros((1, 4, 2, 16), np.float16)]
    reader.bind(*reader.views(*arrays), sm_count=4)
    for launch in reader.launches():
        emulator.launch((tmp_path / "attention.ptx").read_text(), **launch)
    wanted = cute.attention(*arrays[:3], backend="emulator")
    assert np.abs(arrays[3].astype(np.float32) - wanted).max() < 2e-3
    with pytest.raises(AssertionError, match=r"q.stride\[1\] == 2 \* q.stride\[2\]"):
        reader.views(drawn((1, 2, 4, 16), 1).swapaxes(1, 2), *arrays[1:])


def test_maps_of_slices_from_the_description() -> None:
    """Rows of other slices are NaN, which would show."""

    @cute.kernel
    def part(A, B, C, bounds):
        rows = A.slice(1, bounds[0], bounds[1]), C.slice(1, bounds[0], bounds[1])
        batch, i = cute.tile_index(C, (1, 64))
        acc = cute.zeros((64, 64))
        a = cute.local_tile(rows[0], (64, 64), (batch, i, 0))
        cute.gemm(a, cute.local_tile(B, (64, 64), (0, 0)), acc)
        cute.copy(acc.to(C.dtype), cute.local_tile(rows[1], (64, 64), (batch, i, 0)))

    a, b = small((2, 100, 64), np.float16, 1), small((64, 64), np.float16, 2)
    bounds = np.array([3, 90], np.int32)
    kernel = cute.compile(part, a, b, a, bounds, arch="sm_90a")
    text = json.dumps(described(kernel.program, None))
    a[:, :3], a[:, 90:] = np.nan, np.nan
    c = np.full_like(a, 7)
    reader = Reader(text)
    reader.bind(a, b, c, bounds, sm_count=2)
    for launch in reader.launches():
        emulator.launch(kernel.ptx, **launch)
    expected = np.full_like(a, 7)
    expected[:, 3:90] = a[:, 3:90] @ b
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_parameters_lie_where_the_ptx_has_them(arch: str) -> None:
    """Offsets by the rule of PTX ISA 7.1: each parameter at the next multiple of its alignment."""
    spec = cute.TensorSpec((None, None), "f16")
    kernel = cute.compile(cute.gemm, spec, spec, arch=arch)
    declared = re.findall(r"\.param (?:\.align (\d+) )?\.(\w)(\d+) \w+(?:\[(\d+)\])?", kernel.ptx)
    wanted, offset = [], 0
    for align, _, bits, count in declared:
        size = int(bits) // 8 * int(count or 1)
        step = int(align or size)
        offset = -(-offset // step) * step
        wanted.append((offset, size))
        offset += size
    (launch,) = described(kernel.program, None)["launches"]
    assert [(p["offset"], p["size"]) for p in launch["parameters"]] == wanted
    assert launch["resources"] is None
    assert launch["dynamic_smem"] == kernel.program.dynamic_smem


def test_grids_agree_with_the_host_part() -> None:
    spec = cute.TensorSpec((None, None), "f16")
    kernel = cute.compile(cute.gemm, spec, cute.TensorSpec((None, None), "f16", (1, None)),
                          arch="sm_90a")  # fmt: skip
    text = json.dumps(described(kernel.program, None))
    for m, n, k, processors in [(1, 8, 8, 1), (129, 1000, 64, 7), (4096, 8192, 72, 132)]:
        a = np.lib.stride_tricks.as_strided(np.zeros(8, np.float16), (m, k), (16 * k, 2))
        b = np.lib.stride_tricks.as_strided(np.zeros(8, np.float16), (k, n), (2, 16 * k))
        d = np.lib.stride_tricks.as_strided(np.zeros(8, np.float16), (m, n), (16 * n, 2))
        reader = Reader(text.replace('"alignment": 16', '"alignment": 1'))
        reader.bind(a, b, d, 1.0, sm_count=processors)
        given = [(x, x.shape, tuple(s // 2 for s in x.strides)) for x in (a, b, d)]
        plan = kernel.program.plan.run([*given, 1.0], processors)
        assert [x["grid"] for x in reader.launches()] == [x.grid for x in plan]
        assert prod(plan[0].grid) <= processors or processors < prod(plan[0].cluster)


def test_arithmetic_of_the_host_part_survives() -> None:
    """Division toward zero, remainders, wrapping and a tensor's own name, all by evaluation."""
    source = (
        "TYPES = {'k': ('i32', 'i32', 'i32')}\nSMEM = {'k': 0}\nCLUSTERS = {'k': (1, 1, 1)}\n"
        "def plan(arguments, sm_count):\n"
        "    (a0, a1,) = arguments\n"
        "    v1 = (((abs(a0) // abs(a1)) * (-1 if (a0 < 0) != (a1 < 0) else 1)) + 2147483648"
        " & 4294967295) - 2147483648\n"
        "    v2 = (abs(a0) % abs(a1)) * (-1 if a0 < 0 else 1)\n"
        "    v3 = ((a0 * a1) + 2147483648 & 4294967295) - 2147483648\n"
        "    v4 = ((-(-v3 // a1)) + 2147483648 & 4294967295) - 2147483648\n"
        "    return (\n        Launch('k', (v4, v4, 1,), 32, 0, (v1, v2, v3,)),\n    )\n"
    )
    ptx = ".entry k(.param .b32 a, .param .b32 b, .param .b32 c) .reqntid 32 { ret; }"
    signature = cute_signature("min", "min")
    program = CompiledProgram("k", "sm_80", ptx, source, signature)
    reader = Reader(json.dumps(described(program, None)))
    assert [argument["name"] for argument in reader.kernel["arguments"]] == [
        "argument0",
        "argument1",
    ]
    assert any("quotient" in p["value"] for p in reader.kernel["launches"][0]["parameters"])
    for left, right in [(7, 2), (-7, 2), (7, -2), (1 << 30, 6), (-(1 << 31), 3)]:
        reader.bind(left, right, sm_count=1)
        (launch,) = program.plan.run((left, right), 1)
        got = [self_signed(reader.parameter(p)) for p in reader.kernel["launches"][0]["parameters"]]
        assert tuple(got) == launch.arguments
        assert [reader.evaluate(x) for x in reader.kernel["launches"][0]["grid"]] == [*launch.grid]


def cute_signature(*names: str) -> Any:
    from cutedialect.backend.runtime.signature import ScalarParameter, Signature

    return Signature(tuple(ScalarParameter(name, "i32") for name in names))


def self_signed(value: np.unsignedinteger) -> int:
    return int(value.view(np.int32))


def test_the_other_files_are_written_where_there_are_no_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*arguments: object) -> None:
        raise CompileError("expected tensors, got a group")

    monkeypatch.setattr("cutedialect.tools.compile_command.described", refuses)
    command = ["compile", "cute.gemm", "?x?:f16", "?x?:f16", "-o", str(tmp_path), "--json"]
    assert main(command) == 0
    said = capsys.readouterr()
    assert "; no description: expected tensors, got a group" in said.err
    assert json.loads(said.out)["kernel"] is None
    assert (tmp_path / "gemm.ptx").exists()
    assert not (tmp_path / "gemm.json").exists()


def test_the_document_names_every_key() -> None:
    document = (Path(__file__).parents[3] / "docs" / "compiled-files.md").read_text()
    spec = cute.TensorSpec((None, None), "f16")
    call = described_call(cute.gemm, (spec, spec), {"arch": "sm_90a"})
    found = described(cute.compile(cute.gemm, spec, spec, arch="sm_90a").program, None, call)
    (launch,) = found["launches"]
    keys = {*found, *launch, *launch["parameters"][0], *launch["parameters"][-1]}
    keys |= {*found["call"], *found["arguments"][0]["from"], *found["arguments"][-1]["from"]}
    assert {key for key in keys if f"`{key}`" not in document} == set()


def test_what_has_no_words_is_refused() -> None:
    source = (
        "TYPES = {'k': ('i32',)}\nSMEM = {'k': 0}\nCLUSTERS = {'k': (1, 1, 1)}\n"
        "def plan(arguments, sm_count):\n"
        "    (a0,) = arguments\n"
        "    v1 = table(a0)\n"
        "    return (\n        Launch('k', (1, 1, 1,), 32, 0, (v1,)),\n    )\n"
    )
    ptx = ".entry k(.param .b32 a) .reqntid 32 { ret; }"
    program = CompiledProgram("k", "sm_80", ptx, source, cute_signature("n"))
    with pytest.raises(CompileError, match=r"integer expressions.*got table\(n\)"):
        described(program, None)
