"""Launchers in C against a driver that records calls: what they load, encode and launch is what
Python launches for the same arrays.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.__main__ import main
from cutedialect.backend.runtime import emulated
from cutedialect.backend.runtime.arguments import packers
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.description import described, read_description
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.expressions import evaluated
from cutedialect.backend.runtime.launchers import Image, c_header, cpp_header
from cutedialect.backend.runtime.launchers.c_header import call_arguments
from cutedialect.backend.runtime.tensor_maps import TensorMapArgument, checked_map
from cutedialect.backend.runtime.workspaces import Workspace
from cutedialect.frontend.described_calls import described_call
from cutedialect.frontend.library.conv2d import filter_gradients
from cutedialect.frontend.taps import Taps

HERE = Path(__file__).parent
CUDA = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "include"
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
STRICT = ("-pedantic", "-Wall", "-Wextra", "-Werror", "-isystem", str(CUDA), f"-I{HERE}")
WORKSPACE, STREAM = 1 << 20, 0x77

pytestmark = [
    pytest.mark.skipif(not COMPILERS, reason="neither gcc nor clang is installed"),
    pytest.mark.skipif(
        not (CUDA / "cuda.h").is_file(),
        reason="nvidia-cuda-runtime, which has cuda.h, is not there",
    ),
]


def run(command: list[str], **options: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def built(folder: Path, source: str, header: str = "", *, compiler: str = COMPILERS[0]) -> Path:
    """A program of a source text and the stand-in, from strict C99."""
    if header:
        (folder / "kernel.h").write_text(header)
    (folder / "main.c").write_text(source)
    out = folder / f"main-{compiler}"
    files = [str(folder / "main.c"), str(HERE / "stand_in_driver.c")]
    run([compiler, "-std=c99", *STRICT, f"-I{folder}", *files, "-o", str(out), "-lm"])
    return out


def views(description: dict[str, Any], given: list[Any]) -> list[Any]:
    """The arguments of the kernel for those of a call, as the description has them."""
    if description["call"] is None:
        return given
    names: dict[str, Any] = {}
    for argument, value in zip(description["call"]["arguments"], given, strict=True):
        names[argument["name"]] = value
        if isinstance(value, np.ndarray):
            steps = tuple(step // value.itemsize for step in value.strides)
            names[argument["name"]] = SimpleNamespace(shape=value.shape, stride=steps, array=value)
    made: list[Any] = []
    for view in (argument["from"] for argument in description["arguments"]):
        if "value" in view:
            made.append(evaluated(view["value"], names))
            continue
        shape, stride = ([evaluated(x, names) for x in view[key]] for key in ("shape", "stride"))
        array = names[view["array"]].array
        steps = [step * array.itemsize for step in stride]
        made.append(np.lib.stride_tricks.as_strided(array, shape, steps))  # pyright: ignore[reportCallIssue, reportArgumentType]
    return made


def bound(kernel: Any, arguments: list[Any], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the kernel's own launch makes of its arguments."""
    seen: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(
            emulated.EmulatedLauncher, "launch", lambda _, found, stream=None: seen.append(found)
        )
        kernel.launch(*arguments)
    (found,) = seen
    return found


def python_lines(program: Any, bound: list[Any], sm_count: int) -> list[str]:
    """What Python would launch, in the words of the stand-in; maps by what they are."""
    given = [
        (value.pointer, value.shape, value.strides) if isinstance(value, TensorArgument) else value
        for value in bound
    ]
    lines: list[str] = []
    launches = program.plan.run(given, sm_count)
    spaces = {
        value for launch in launches for value in launch.arguments if isinstance(value, Workspace)
    }
    places, size = {}, 0
    for space in sorted(spaces, key=lambda each: int(each.name[1:])):
        places[space] = WORKSPACE + size
        size += -(-space.size // 256) * 256
    for launch in launches:
        entry = program.entries[launch.kernel]
        shown: list[str] = []
        packed = packers(program.plan.types[launch.kernel], entry.sizes)
        for value, pack in zip(launch.arguments, packed, strict=True):
            if isinstance(value, TensorMapArgument):
                shown.append(map_words(value))
            else:
                number = places[value] if isinstance(value, Workspace) else value
                shown.append(np.asarray(pack(number)).tobytes().hex())
        early = " attribute 6 1" if entry.is_early else ""
        grid = " ".join(map(str, launch.grid))
        lines.append(
            f"launch {launch.kernel} grid {grid} block {launch.block} 1 1 smem {launch.smem} "
            f"stream {STREAM}{early} {' '.join(shown)}"
        )
    return lines


def map_words(value: TensorMapArgument) -> str:
    address = value.pointer if 0 not in value.shape else 4096
    found = checked_map(value, address)
    dtype, *rest = found.codes
    numbers = (*found.dims, *found.strides, *found.box, *found.element_strides, *rest)
    return f"[type {dtype} rank {found.rank} address {address} {' '.join(map(str, numbers))}]"


def c_lines(text: str) -> list[str]:
    """The launches that the stand-in recorded, with maps in the place of their numbers."""
    maps = {
        int(number): words for number, words in re.findall(r"^map (\d+) (.*)$", text, re.MULTILINE)
    }

    def replaced(found: re.Match[str]) -> str:
        number = int.from_bytes(bytes.fromhex(found[0])[:4], "little")
        return f"[{maps[number]}]"

    return [
        re.sub(r"\b[0-9a-f]{256}\b", replaced, line)
        for line in text.splitlines()
        if line.startswith("launch ")
    ]


def program_of(description: dict[str, Any], name: str) -> str:
    """A program that reads problems and launches each: the numbers of each argument in order."""
    reads: list[str] = []
    for each in call_arguments(description):
        target = f"arguments.{each['name']}"
        if each["kind"] == "tensor":
            rank = len(each["shape"])
            reads += [
                f"{target} = tensor(CUTE_{each['dtype'].upper()}, {rank});",
            ]
        elif each["type"] in ("f32", "f64"):
            reads.append(f"{target} = ({'float' if each['type'] == 'f32' else 'double'})real();")
        else:
            reads.append(f"{target} = (int32_t)number();")
    cases = ""
    for launch in description["launches"]:
        sizes = ", ".join(str(parameter["size"]) for parameter in launch["parameters"])
        cases += f'  if (strcmp(kernel, "{launch["kernel"]}") == 0) {{\n'
        cases += f"    static const int sizes[] = {{{sizes}, 0}};\n    return sizes;\n  }}\n"
    body = "\n    ".join(reads)
    return f"""\
#include "kernel.h"
#include "stand_in_driver.h"

const int *stand_in_sizes(const char *kernel) {{
{cases}
  return NULL;
}}

static long long number(void) {{
  long long read = 0;
  if (scanf("%lld", &read) != 1) exit(3);
  return read;
}}

static CUTE_UNUSED double real(void) {{
  double read = 0;
  if (scanf("%lf", &read) != 1) exit(3);
  return read;
}}

static CUTE_UNUSED cute_tensor tensor(cute_dtype dtype, int rank) {{
  cute_tensor read;
  int mode;
  memset(&read, 0, sizeof read);
  read.dtype = dtype;
  read.rank = rank;
  read.pointer = (CUdeviceptr)number();
  for (mode = 0; mode < rank; ++mode) read.shape[mode] = number();
  for (mode = 0; mode < rank; ++mode) read.stride[mode] = number();
  return read;
}}

int main(void) {{
  static {name}_kernel kernel;
  cute_error error;
  cute_image image = {{"{description["arch"]}", "image"}};
  CUstream stream = (CUstream){STREAM};
  int problems = (int)number();
  stand_in_device({re.sub(r"[^0-9]", "", description["arch"])}, 132);
  if ({name}_load(&kernel, &image, 1, &error) != CUTE_OK) return 2;
  while (problems-- > 0) {{
    {name}_arguments arguments;
    size_t bytes = 0;
    kernel.sm_count = (int)number();
    {body}
    printf("problem\\n");
    if ({name}_workspace(&kernel, &arguments, &bytes, &error) != CUTE_OK ||
        {name}_clear(&kernel, &arguments, {WORKSPACE}, bytes, stream, &error) != CUTE_OK ||
        {name}_launch(&kernel, &arguments, {WORKSPACE}, bytes, stream, &error) != CUTE_OK)
      printf("status %d: %s\\n", (int)error.status, error.text);
    else
      printf("workspace %llu\\n", (unsigned long long)bytes);
  }}
  {name}_unload(&kernel);
  printf("encodings %d\\n", stand_in_encodings());
  return 0;
}}
"""


def words(value: Any) -> list[Any]:
    """An argument as the program reads it."""
    if isinstance(value, np.ndarray):
        steps = [step // value.itemsize for step in value.strides]
        return [value.ctypes.data, *value.shape, *steps]
    return [value]


@cute.kernel
def scaled(X, Y, factor: cute.f32, shift: cute.i32, *, tile=(8, 64)):  # pyright: ignore[reportInvalidTypeForm]
    i, j = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, (i, j)))
    cute.copy(x * factor + shift.to(cute.f32), cute.local_tile(Y, tile, (i, j)))


def gemm_case(rng: np.random.Generator, with_bias: bool = False) -> list[Any]:
    """Arrays of a product: K and N multiples of 8, some with gaps, M anything, 0 and 1 too."""
    m = int(rng.choice([0, 1, 7, 64, 200, 513]))
    n, k = (8 * int(extent) for extent in rng.choice([1, 3, 17, 25, 64], 2))
    gaps = rng.choice([0, 8, 64], 3)
    a = np.zeros((m, k + gaps[0]), np.float16)[:, :k]
    b = np.zeros((n, k + gaps[1]), np.float16)[:, :k].T
    out = np.zeros((m, n + gaps[2]), np.float16)[:, :n]
    bias = [np.zeros(n, np.float32)] * with_bias
    return [a, b, *bias, out, float(np.float32(rng.standard_normal()))]


def biased_case(rng: np.random.Generator) -> list[Any]:
    return gemm_case(rng, True)


def attention_case(rng: np.random.Generator) -> list[Any]:
    batch, rows, keys = (int(rng.choice(each)) for each in ((1, 2), (1, 5, 70), (3, 64, 130)))
    q = np.zeros((batch, 4, rows, 16), np.float16)
    k, v = (np.zeros((batch, keys, 2, 16), np.float16).swapaxes(1, 2) for _ in range(2))
    return [q, k, v, np.zeros_like(q)]


def kernel_case(rng: np.random.Generator) -> list[Any]:
    m, n = int(rng.choice([0, 1, 7, 300])), 4 * int(rng.choice([0, 1, 16, 75]))
    x, y = (np.zeros((m, n), np.float32) for _ in range(2))
    return [x, y, float(np.float32(rng.standard_normal())), int(rng.integers(-(1 << 31), 1 << 31))]


def pixel_case(rng: np.random.Generator) -> list[Any]:
    """Images and slopes as matrices of pixels, and the gradient of a filter of 3 x 3."""
    images, height, width, channels, filters = (
        int(rng.choice(each)) for each in ((0, 1, 3), (4, 9), (5, 8), (8, 72), (8, 136))
    )
    count = images * height * width
    x, slopes = np.zeros((count, channels), np.float16), np.zeros((count, filters), np.float16)
    out = np.zeros((9, filters, channels), np.float16)
    return [x, slopes, out, height, width, height, width]


def spec(text: str, dtype: Any = cute.f16) -> Any:
    from cutedialect.tools.kernel_arguments import argument

    return argument(text)


TAPS = Taps((3, 3), (1, 1), (1, 1), (-1, -1), ends=(-1, -1))
GEMM = (cute.gemm, ("?x?:f16", "?x?:f16:1,?"))
CASES = {
    "a product": (*GEMM, gemm_case, {"arch": "sm_90a", "schedule": "tile = (64,64,64)"}, 50),
    "a cluster": (
        *GEMM, biased_case,
        {"arch": "sm_90a", "schedule": "tile = (128,64,64), cluster = (2,1)", "bias": "?:f32"}, 40,
    ),
    "parts of K": (
        *GEMM, gemm_case,
        {"arch": "sm_90a",
         "schedule": "tile = (128,64,64), cluster = (1,1), split_k = 3, early_launch = yes"}, 40,
    ),
    "sm_80": (*GEMM, gemm_case, {"arch": "sm_80", "schedule": "tile = (64,64,32)"}, 20),
    "attention": (
        cute.attention, ("?x4x?x16:f16", "?x2x?x16:f16", "?x2x?x16:f16"), attention_case,
        {"arch": "sm_80"}, 30,
    ),
    "a kernel of a user": (
        scaled, ("?x?:f32", "?x?:f32", "1.0:f32", "1:i32"), kernel_case, {"arch": "sm_80"}, 20,
    ),
    "pixels": (
        filter_gradients, ("?x?:f16", "?x?:f16", "9x?x?:f16", *("1:i32",) * 4), pixel_case,
        {"arch": "sm_90a", "schedule": "split_k = 2", "tile": (64, 64, 64), "taps": TAPS}, 20,
    ),
}  # fmt: skip


def compiled(case: str) -> tuple[Any, dict[str, Any]]:
    """The kernel of a case and its description, as JSON has it."""
    program, specs, _, options, _ = CASES[case]
    given = [spec(text) for text in specs]
    told = {name: spec(value) if name == "bias" else value for name, value in options.items()}
    kernel = cute.compile(program, *given, **told, backend="emulator")
    description = described(kernel.program, None, described_call(program, given, told))
    return kernel, json.loads(json.dumps(description))


@pytest.mark.some(3)
@pytest.mark.parametrize("case", CASES)
def test_drawn_problems_are_launched_as_python_does(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, draw, _, count = CASES[case]
    kernel, description = compiled(case)
    name = description["name"]
    header = c_header([description], [Image(description["arch"], f"{name}.ptx", b"")])
    program = built(tmp_path, program_of(description, name), header)
    rng = np.random.default_rng(len(case))
    wanted, numbers, kept = [], [count], []
    for _ in range(count):
        arguments = draw(rng)
        kept.append(arguments)  # so that no two have one address
        sm_count = int(rng.choice([1, 78, 132]))
        found = bound(kernel, views(description, arguments), monkeypatch)
        wanted += python_lines(kernel.program, found, sm_count)
        numbers.append(sm_count)
        for value in arguments:
            numbers += words(value)
    told = run([str(program)], input=" ".join(map(str, numbers)))
    assert told.count("problem\n") == count
    assert "status" not in told
    assert c_lines(told) == wanted
    assert len(wanted) >= count // 3
    assert ("pixels -1 -1 -1 -1\n" in told) == (case == "pixels")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command writes for two targets, images in the header."""
    out = tmp_path_factory.mktemp("compiled")
    command = ["compile", "cute.gemm", "?x?:f16", "?x?:f16:1,?", "--set", "bias=?:f32"]
    command += ["--schedule", "tile = (64,64,32)", "--launcher", "cpp", "--embed", "-o", str(out)]
    assert main([*command, "--arch", "sm_90a", "--arch", "sm_80", "--name", "product"]) == 0
    return out


def test_the_command_writes_headers_and_the_files_of_each_target(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {"product.h", "product.hpp", "product.sm_90a.ptx", "product.sm_80.json"} <= names
    assert any(name.startswith("product.sm_80-") and name.endswith(".mlir") for name in names)


SERVER = """\
#include "product.h"
#include "stand_in_driver.h"

const int *stand_in_sizes(const char *kernel) {
  static const int none[] = {0};
  (void)kernel;
  return none;
}

static product_kernel kernel;
static product_arguments good;
static cute_error error;

static void tell(cute_status status) {
  printf("%d %s\\n", (int)status, status == CUTE_OK ? "" : error.text);
}

static void launch(const product_arguments *given) {
  tell(product_launch(&kernel, given, 0, 0, NULL, &error));
}

int main(int count, char **words) {
  const int64_t a[] = {32, 64}, bias[] = {48}, out[] = {32, 48};
  product_arguments given;
  int i;
  cute_image images[2] = {{"sm_80", "bad"}, {"sm_80", "text of sm_80"}};
  launch(&good);
  for (i = 2; i < count; ++i) {
    stand_in_device(atoi(words[i]), 7);
    tell(product_load_embedded(&kernel, &error));
    product_unload(&kernel);
  }
  stand_in_device(86, 7);
  tell(product_load_files(&kernel, words[1], &error));
  product_unload(&kernel);
  tell(product_load_files(&kernel, "/nowhere", &error));
  tell(product_load(&kernel, images, 1, &error));
  tell(product_load(&kernel, images, 2, &error));
  stand_in_device(90, 7);
  tell(product_load_embedded(&kernel, &error));
  good.a = cute_packed(4096, CUTE_FLOAT16, 2, a);
  good.b = good.a;
  good.b.shape[0] = 64;
  good.b.shape[1] = 48;
  good.b.stride[0] = 1;
  good.b.stride[1] = 64;
  good.bias = cute_packed(8192, CUTE_FLOAT32, 1, bias);
  good.out = cute_packed(16384, CUTE_FLOAT16, 2, out);
  good.alpha = 1;
  launch(&good);
  printf("encodings %d\\n", stand_in_encodings());
  launch(&good);
  printf("encodings %d\\n", stand_in_encodings());
  given = good, given.a.dtype = CUTE_BFLOAT16, launch(&given);
  given = good, given.a.rank = 3, launch(&given);
  given = good, given.b.shape[0] = 56, launch(&given);
  given = good, given.out.pointer += 2, launch(&given);
  given = good, given.a.pointer = 0, launch(&given);
  given = good, given.a.stride[0] = 65, launch(&given);
  given = good, given.a.stride[1] = 2, launch(&given);
  given = good, given.out.stride[0] = -48, launch(&given);
  given = good, given.a.shape[0] = given.out.shape[0] = INT64_C(1) << 31, launch(&given);
  printf("encodings %d\\n", stand_in_encodings());
  product_unload(&kernel);
  return 0;
}
"""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_server_is_told_what_is_wrong(folder: Path, tmp_path: Path, compiler: str) -> None:
    (folder / "kernel.h").write_text("")
    (tmp_path / "main.c").write_text(SERVER)
    out = tmp_path / "server"
    files = [str(tmp_path / "main.c"), str(HERE / "stand_in_driver.c")]
    run([compiler, "-std=c99", *STRICT, f"-I{folder}", *files, "-o", str(out), "-lm"])
    told = run([str(out), str(folder), "90", "100", "75"]).splitlines()
    lines = [line for line in told if re.match(r"\d |encodings", line)]
    assert lines == [
        "3 product: expected a kernel that is loaded",
        "0 ",  # sm_90a
        "0 ",  # sm_80 on a later device
        "3 product: expected an image that compute capability 7.5 runs, got "
        f"{len(list(folder.glob('*.ptx')) + list(folder.glob('*.cubin')))} of sm_90a, sm_80",
        "0 ",  # files
        "4 product: expected product.sm_90a.cubin in /nowhere"
        if list(folder.glob("*.cubin"))
        else "4 product: expected product.sm_90a.ptx in /nowhere",
        "5 product: cuModuleLoadData: expected CUDA_SUCCESS, got CUDA_ERROR_NO_BINARY_FOR_GPU "
        "(209)",
        "0 ",  # the second image
        "0 ",
        "0 ",
        "encodings 3",
        "0 ",
        "encodings 3",
        "1 a: expected dtype float16, got bfloat16",
        "1 a: expected 2 dimensions, got 3",
        "1 b: expected extent 64 in dimension 0, got 56",
        "1 D: expected memory aligned to 16 bytes, got address 0x4002",
        "1 A: expected memory of the device, got address 0",
        "1 A: expected a stride divisible by 8 elements in dimension 0, got 65",
        "1 A: expected stride 1 in dimension 1, got 2",
        "1 D: expected strides of zero or more, as the kernel copies its tiles by TMA, got -48",
        "1 A: expected extents below 2^31, got 2147483648 in dimension 0",
        "encodings 3",
    ]


CPP = """\
#include "product.hpp"

#include <cstdio>
extern "C" {
#include "stand_in_driver.h"
const int *stand_in_sizes(const char *) {
  static const int none[] = {0};
  return none;
}
}

struct half_bits { std::uint16_t bits; };
template <> struct cutedialect::dtype_of<half_bits> {
  static constexpr cute_dtype value = CUTE_FLOAT16;
};

int main() {
  stand_in_device(90, 132);
  cutedialect::product first, kernel(std::move(first));
  auto *memory = reinterpret_cast<half_bits *>(4096);
  cutedialect::product::arguments given{};
  given.a = cutedialect::tensor(memory, {32, 64});
  given.b = cutedialect::tensor(memory, {64, 48}, {1, 64});
  given.bias = cutedialect::tensor(reinterpret_cast<float *>(8192), {48});
  given.out = cutedialect::tensor(memory, {32, 48});
  given.alpha = 1;
  std::printf("%s %zu\\n", kernel.target(), kernel.workspace(given));
  kernel(given);
  given.bias = cutedialect::tensor(memory, {48});
  try {
    kernel(given);
  } catch (const cutedialect::error &error) {
    std::printf("%d %s\\n", static_cast<int>(error.status), error.what());
  }
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_a_launcher_for_cpp(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(CPP)
    driver = tmp_path / "driver.o"
    run(["gcc", "-std=c99", *STRICT, "-c", str(HERE / "stand_in_driver.c"), "-o", str(driver)])
    files = [str(tmp_path / "main.cpp"), str(driver), "-o", str(tmp_path / "server")]
    run(["g++", "-std=c++17", *STRICT, f"-I{folder}", *files])
    told = run([str(tmp_path / "server")])
    assert "sm_90a 0\n" in told
    assert "launch product grid 1 1 1 block " in told
    assert "1 bias: expected dtype float32, got float16\n" in told
    assert told.count("unload") == 1


def test_maps_that_are_not_aligned_are_refused_by_the_stand_in(tmp_path: Path) -> None:
    source = """\
#include "stand_in_driver.h"
#include <stdint.h>
const int *stand_in_sizes(const char *kernel) { (void)kernel; return 0; }
int main(void) {
  unsigned char memory[256], *place = memory + (64 - (uintptr_t)memory % 64) % 64;
  const cuuint64_t dims[2] = {64, 64}, strides[1] = {128};
  const cuuint32_t box[2] = {64, 64}, steps[2] = {1, 1};
  int good = 0, i;
  for (i = 0; i < 64; i += 16)
    good += cuTensorMapEncodeTiled((CUtensorMap *)(void *)(place + i),
                                   CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)4096, dims, strides,
                                   box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                   CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
  return good != 1;
}
"""
    run([str(built(tmp_path, source))])


def test_targets_whose_calls_differ_are_refused() -> None:
    _, one = compiled("a product")
    _, other = compiled("a cluster")
    with pytest.raises(CompileError, match="expected one call for all targets"):
        c_header([one, other], [])


def test_numbers_that_c_has_no_type_for_are_refused() -> None:
    _, description = compiled("a kernel of a user")
    description["arguments"][2]["type"] = "bf16"
    with pytest.raises(CompileError, match="factor: expected a number of f32, f64"):
        c_header([description], [Image("sm_80", "scaled.ptx", b"")])


def test_a_description_of_the_format_before_has_a_launcher() -> None:
    old = read_description((HERE / "gemm.format-1.json").read_text())
    (grid, *_) = old["launches"][0]["grid"]
    assert "//" not in grid
    header = c_header([old], [Image("sm_90a", "gemm.ptx", b"")])
    assert "cute_ceildiv" in header
    assert "gemm_launch" in cpp_header([old]) + header
    with pytest.raises(ValueError, match="expected a description of format cutedialect-kernel-2, "):
        read_description('{"format": "cutedialect-kernel-9"}')


@pytest.mark.timeout(300)  # two kernels are assembled
def test_the_server_launches_what_it_is_asked_for_and_sees_wrong_results(tmp_path: Path) -> None:
    """The stand-in computes nothing: what is copied back are zeros."""
    server = Path(__file__).parents[4] / "examples" / "server"
    targets = ["--arch", "sm_90a", "--launcher", "c", "-o", str(tmp_path)]
    heads = ["?x8x?x64:f16"] * 3
    other = '?x?:f16@2 ?x?:f16@2 --set out=?x?:f32@4 --schedule "tile = (64,64,32)"'
    variants = ["--variant", "aligned: ?x?:f16 ?x?:f16", "--variant", f"any: {other}"]
    product = ["cute.gemm", "--set", "out_dtype=f32", *variants]
    lists = ["cute.grouped_gemm", *["[?x?:f16]"] * 2, "--set", "out_dtype=f32", "--name", "grouped"]
    for kernel in (product, lists, ["cute.attention", *heads, "--set", "causal=True"]):
        assert all(word in (server / "Makefile").read_text() for word in kernel)
        # Small products, which are assembled sooner.
        small = ["--schedule", "tile = (64,64,64)"] if "cute.attention" not in kernel else []
        assert main(["compile", *kernel, *small, *targets]) == 0
    sizes = "#include <cuda.h>\nconst int *stand_in_sizes(const char *kernel);\n"
    sizes += "const int *stand_in_sizes(const char *kernel) { static const int none[] = {0};\n"
    sizes += "(void)kernel; return none; }\n"
    (tmp_path / "sizes.c").write_text(sizes)
    out = tmp_path / "server"
    files = [str(server / "server.c"), str(HERE / "stand_in_driver.c"), str(tmp_path / "sizes.c")]
    run([COMPILERS[0], "-std=c99", *STRICT, f"-I{tmp_path}", *files, "-o", str(out), "-lm"])
    done = subprocess.run(
        [str(out), str(tmp_path)],
        input="gemm 64 48 32\ngrouped 2 64 48 32\nattention 1 20\ngemm 64 50 30\nsum 3\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    told = [
        line
        for line in done.stdout.splitlines()
        if not line.startswith(("launch", "map", "mem", "copy"))
    ]
    assert "ready: sm_90a" in told
    assert told[-9:-4] == [
        "gemm 64 48 32: WRONG (aligned), 0.0500 ms, 0.0 TFLOP/s",
        "grouped 2 64 48 32: WRONG, 0.0500 ms, 0.0 TFLOP/s",
        next(line for line in told if line.startswith("attention 1 20: WRONG ")),
        "gemm 64 50 30: WRONG (any), 0.0500 ms, 0.0 TFLOP/s",
        "expected 'gemm M N K', 'grouped G M N K' or 'attention B S', got sum 3",
    ]
    assert done.stdout.count("\nlaunch gemm_aligned ") == 21
    assert done.stdout.count("\nlaunch gemm_any ") == 21
    assert done.stdout.count("\nlaunch grouped ") == 21
    assert done.stdout.count("\nlaunch attention ") == 21
