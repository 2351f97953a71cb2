"""Launchers in C of kernels that take lists of tensors: tables and launches are those of Python."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import emulated
from cutedialect.backend.runtime.arguments import packers
from cutedialect.backend.runtime.description import described, read_description
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.expressions import evaluated
from cutedialect.backend.runtime.launchers import Image, c_header
from cutedialect.backend.runtime.tables import Table, packed
from cutedialect.backend.runtime.tensor_maps import TensorMapArgument, checked_map
from cutedialect.frontend.described_calls import described_call

HERE = Path(__file__).parent
CUDA = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "include"
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
STRICT = (
    "-std=c99",
    "-pedantic",
    "-Wall",
    "-Wextra",
    "-Werror",
    f"-I{HERE}",
    "-isystem",
    str(CUDA),
)
WORKSPACE, STREAM = 1 << 20, 0x77
PROBLEMS = 30

pytestmark = [
    pytest.mark.skipif(not COMPILERS, reason="neither gcc nor clang is installed"),
    pytest.mark.skipif(
        not (CUDA / "cuda.h").is_file(),
        reason="nvidia-cuda-runtime, which has cuda.h, is not there",
    ),
]

# What a program of these tests begins with: it reads lists, and launches them.
PROGRAM = """\
#include "kernel.h"
#include "stand_in_driver.h"

enum { MOST = 64 };

const int *stand_in_sizes(const char *kernel) {
  static const int sizes[] = {@sizes@, 0};
  (void)kernel;
  return sizes;
}

static long long number(void) {
  long long read = 0;
  if (scanf("%lld", &read) != 1) exit(3);
  return read;
}

static void list(cute_tensor *tensors, int64_t count, cute_dtype dtype, int rank) {
  int64_t i;
  int mode;
  for (i = 0; i < count; ++i) {
    memset(&tensors[i], 0, sizeof tensors[i]);
    tensors[i].dtype = dtype;
    tensors[i].rank = rank;
    tensors[i].pointer = (CUdeviceptr)number();
    for (mode = 0; mode < rank; ++mode) tensors[i].shape[mode] = number();
    for (mode = 0; mode < rank; ++mode) tensors[i].stride[mode] = number();
  }
}

int main(void) {
  static gemm_kernel kernel;
  static cute_tensor lists[8][MOST];
  cute_error error;
  cute_image image = {"@arch@", "image"};
  int problems = (int)number();
  stand_in_device(@capability@, 132);
  if (gemm_load(&kernel, &image, 1, &error) != CUTE_OK) return 2;
  while (problems-- > 0) {
    gemm_arguments arguments;
    size_t bytes = 0;
    CUdeviceptr workspace;
    CUstream stream;
    int clears, launches;
    kernel.sm_count = (int)number();
    workspace = (CUdeviceptr)number();
    stream = (CUstream)(uintptr_t)number();
    clears = (int)number();
    launches = (int)number();
    memset(&arguments, 0, sizeof arguments);
    arguments.count = number();
    @lists@
    arguments.alpha = (float)number();
    printf("problem\\n");
    if (gemm_workspace(&kernel, &arguments, &bytes, &error) != CUTE_OK ||
        (clears && gemm_clear(&kernel, &arguments, workspace, bytes, stream, &error) != CUTE_OK) ||
        (launches && gemm_launch(&kernel, &arguments, workspace, bytes, stream, &error) != CUTE_OK))
      printf("status %d: %s\\n", (int)error.status, error.text);
    else
      printf("workspace %llu\\n", (unsigned long long)bytes);
  }
  gemm_unload(&kernel);
  return 0;
}
"""

CASES = {
    "sm_90a": {"arch": "sm_90a", "schedule": "tile = (64,64,64), cluster = (2,1)"},
    "sm_80": {
        "arch": "sm_80",
        "schedule": "tile = (64,64,32)",
        "bias": [cute.TensorSpec((None,), cute.f32)],
    },
}


def run(command: list[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


class Launched:
    """The kernel of a case, its description and a program of C."""

    def __init__(self, case: str, folder: Path) -> None:
        self.options = CASES[case]
        specs = [[cute.TensorSpec((None, None), cute.f16)]] * 2
        kernel = cute.compile(cute.grouped_gemm, *specs, **self.options, backend="emulator")
        call = described_call(cute.grouped_gemm, specs, self.options)
        self.description = json.loads(json.dumps(described(kernel.program, None, call)))
        self.lists = [each for each in self.description["call"]["arguments"] if "shape" in each]
        self.arch = case
        self.programs = {
            compiler: self._built(folder / compiler, compiler) for compiler in COMPILERS
        }

    def _built(self, folder: Path, compiler: str) -> Path:
        folder.mkdir()
        images = [Image(self.arch, "gemm.ptx", b"")]
        (folder / "kernel.h").write_text(c_header([self.description], images))
        (launch,) = self.description["launches"]
        reads = [
            f"list(lists[{number}], arguments.count, CUTE_{each['dtype'].upper()}, "
            f"{len(each['shape'])});\n    arguments.{each['name']} = lists[{number}];"
            for number, each in enumerate(self.lists)
        ]
        words = {
            "sizes": ", ".join(str(each["size"]) for each in launch["parameters"]),
            "arch": self.arch,
            "capability": re.sub("[^0-9]", "", self.arch),
            "lists": "\n    ".join(reads),
        }
        text = re.sub("@([a-z]+)@", lambda found: words[found[1]], PROGRAM)
        (folder / "main.c").write_text(text)
        out = folder / "main"
        files = [str(folder / "main.c"), str(HERE / "stand_in_driver.c")]
        run([compiler, *STRICT, f"-I{folder}", *files, "-o", str(out), "-lm"])
        return out

    def told(self, problems: list[list[Any]], compiler: str = COMPILERS[0]) -> str:
        """What the program says of problems, each as (processors, workspace, stream, whether it
        clears and launches, lists, alpha).
        """
        numbers: list[Any] = [len(problems)]
        for *first, lists, alpha in problems:
            numbers += [*first, len(lists[0])]
            for array in (array for values in lists for array in values):
                steps = [step // array.itemsize for step in array.strides]
                numbers += [array.ctypes.data, *array.shape, *steps]
            numbers.append(alpha)
        return run([str(self.programs[compiler])], " ".join(map(str, numbers)))


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Launched]:
    return {case: Launched(case, tmp_path_factory.mktemp(case)) for case in CASES}


def drawn(rng: np.random.Generator, has_bias: bool) -> list[list[np.ndarray]]:
    """Lists of a, b, perhaps bias, and out: some without elements, some with gaps."""
    lists: list[list[np.ndarray]] = [[], [], [], []]
    for _ in range(int(rng.choice([0, 1, 2, 5, 12]))):
        m = int(rng.choice([0, 1, 7, 64, 200, 513]))
        n, k = 8 * int(rng.choice([0, 1, 17, 64])), 8 * int(rng.choice([0, 1, 9, 40]))
        gaps = rng.choice([0, 8, 64], 2)
        lists[0].append(np.zeros((m, k + gaps[0]), np.float16)[:, :k])
        lists[1].append(np.zeros((k, n), np.float16))
        lists[2].append(np.zeros(n, np.float32))
        lists[3].append(np.zeros((m, n + gaps[1]), np.float16)[:, :n])
    return lists if has_bias else [*lists[:2], lists[3]]


def map_words(value: TensorMapArgument) -> str:
    address = value.pointer if 0 not in value.shape else 4096
    found = checked_map(value, address)
    dtype, *rest = found.codes
    numbers = (*found.dims, *found.strides, *found.box, *found.element_strides, *rest)
    return f"[type {dtype} rank {found.rank} address {address} {' '.join(map(str, numbers))}]"


def python_line(program: Any, bound: list[Any], sm_count: int) -> str | None:
    """What Python launches, tables by their content."""
    given = [
        [(x.pointer, x.shape, x.strides) for x in value] if isinstance(value, list) else value
        for value in bound
    ]
    launches = program.plan.run(given, sm_count)
    if not launches:
        return None
    (launch,) = launches
    sizes = program.entries[launch.kernel].sizes
    shown: list[str] = []
    for value, pack in zip(
        launch.arguments, packers(program.plan.types[launch.kernel], sizes), strict=True
    ):
        if not isinstance(value, Table):
            shown.append(np.asarray(pack(value)).tobytes().hex())
        elif value.kind == "tensor_map":
            shown.append("".join(map(map_words, value.entries)))
        else:
            shown.append(packed(value).hex())
    grid = " ".join(map(str, launch.grid))
    return (
        f"launch {launch.kernel} grid {grid} block {launch.block} 1 1 smem {launch.smem} stream "
        f"{STREAM} {' '.join(shown)}"
    )


def c_line(told: str, description: dict[str, Any]) -> str | None:
    """What the program launched, with the tables that it copied before in their places."""
    match = re.search(r"^(launch .*?smem \d+ stream \d+) (.*)$", told, re.MULTILINE)
    if match is None:
        return None
    copy = re.search(rf"^copy (\d+) stream {STREAM} (\w+)$", told, re.MULTILINE)
    assert copy is not None
    maps = dict(re.findall(r"^map (\d+) (.*)$", told, re.MULTILINE))
    (launch,) = description["launches"]
    shown = match[2].split(" ")
    tables = {table["name"]: table for table in description["tables"]}
    for place, parameter in enumerate(launch["parameters"]):
        if "table" not in parameter:
            continue
        table = tables[parameter["table"]]
        count = int.from_bytes(bytes.fromhex(shown[place + 1]), "little")
        address = int.from_bytes(bytes.fromhex(shown[place]), "little")
        assert address % 128 == 0
        entry = table.get("entry", {})
        size = 4
        if table["kind"] == "tensor_map":
            size = 128
        elif table["kind"] == "tensors":
            size = 8 + 8 * len(entry["strides"]) + (4 * len(entry["extents"]) + 7) // 8 * 8
        first = 2 * (address - int(copy[1]))
        data = copy[2][first : first + 2 * size * count]
        assert len(data) == 2 * size * count
        if table["kind"] == "tensor_map":
            numbers = [int.from_bytes(bytes.fromhex(x), "little") for x in _cut(data, 256)]
            data = "".join(f"[{maps[str(number % (1 << 32))]}]" for number in numbers)
        shown[place] = data
    return f"{match[1]} {' '.join(shown)}"


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@pytest.mark.parametrize("case", CASES)
def test_drawn_lists_are_launched_as_python_does(
    case: str, launched: dict[str, Launched], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = launched[case]
    rng = np.random.default_rng(len(case))
    problems: list[list[Any]] = []
    wanted: list[str | None] = []
    for _ in range(PROBLEMS):
        lists, sm_count = drawn(rng, "bias" in one.options), int(rng.choice([1, 78, 132]))
        seen: list[Any] = []
        as_, bs, *bias, out = lists
        given = one.options | ({"bias": bias[0]} if bias else {}) | {"out": out, "alpha": 3.0}
        with monkeypatch.context() as patch:
            patch.setattr(
                emulated.EmulatedLauncher,
                "launch",
                lambda self, bound, stream=None, seen=seen: seen.append((self._program, bound)),
            )
            cute.grouped_gemm(as_, bs, **given, backend="emulator")
        problems.append([sm_count, WORKSPACE, STREAM, 1, 1, lists, 3])
        wanted.append(python_line(*seen[0], sm_count) if seen else None)
    told = one.told(problems).split("problem\n")[1:]
    assert not [text for text in told if "status" in text]
    assert [c_line(text, one.description) for text in told] == wanted
    assert len(list(filter(None, wanted))) > PROBLEMS // 2


def lists_of(m: int = 64, count: int = 2) -> list[list[np.ndarray]]:
    shapes = (m, 64), (64, 72), (m, 72)
    return [[np.zeros(shape, np.float16) for _ in range(count)] for shape in shapes]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_tables_are_made_before_a_launch_of_other_tensors(
    launched: dict[str, Launched], compiler: str
) -> None:
    good, other = lists_of(), lists_of(128)
    bad_extent, bad_stride = lists_of(), lists_of()
    bad_extent[1][1] = bad_extent[1][1][:56]
    bad_stride[0][1] = np.zeros((64, 65), np.float16)[:, :64]
    told = launched["sm_90a"].told(
        [
            [132, WORKSPACE, STREAM, 0, 1, good, 1],  # never cleared
            [132, WORKSPACE, STREAM, 1, 1, good, 1],
            [132, WORKSPACE, STREAM, 0, 1, good, 2],  # only alpha is another one
            [132, WORKSPACE, STREAM, 0, 1, other, 1],
            [78, WORKSPACE, STREAM, 0, 1, good, 1],  # shares of other takers
            [132, 2 * WORKSPACE, STREAM, 0, 1, good, 1],
            [132, 2 * WORKSPACE, STREAM, 1, 0, other, 1],
            [132, WORKSPACE, STREAM, 0, 1, good, 1],  # another workspace was cleared
            [132, 2 * WORKSPACE, STREAM, 1, 0, good, 1],
            [132, 2 * WORKSPACE, STREAM, 0, 1, other, 1],  # others took its place
            [132, WORKSPACE, 0x99, 1, 0, other, 1],  # while a graph is captured
            [132, WORKSPACE + 4, STREAM, 1, 0, good, 1],
            [132, WORKSPACE, STREAM, 0, 0, bad_extent, 1],
            [132, WORKSPACE, STREAM, 0, 0, bad_stride, 1],
        ],
        compiler,
    )
    lines = [re.sub(r"\d{4,}", "N", each) for each in re.findall("^(?:status|work).*", told, re.M)]
    cleared = "status 2: gemm: expected gemm_clear of this workspace for these tensors before they"
    assert [line.replace(" are launched", "") for line in lines] == [
        cleared, "workspace N", "workspace N", cleared, cleared, cleared, "workspace N",
        "workspace N", "workspace N", cleared,
        "status 2: gemm: tables: expected a workspace that is cleared before a graph is captured",
        "status 2: gemm: expected a workspace aligned to 256 bytes, got address 0xN",
        "status 1: bs[1]: expected extent 64 in dimension 0, got 56",
        "status 1: A[1]: expected a stride divisible by 8 elements in dimension 0, got 65",
    ]  # fmt: skip
    assert told.count("\nlaunch gemm") == 3
    assert told.count("\ncopy ") == 3


def test_the_description_says_the_tables_that_python_makes(launched: dict[str, Launched]) -> None:
    """A reader of the JSON, by its own conventions."""
    description = launched["sm_90a"].description
    assert description["format"] == "cutedialect-kernel-3"
    assert read_description(json.dumps(description)) == description
    members = description["call"]["members"]
    shapes = [(64, 64), (0, 64), (64, 128)]
    entries = [
        {name: np.zeros(shape) for name, shape in (("as_", x), ("bs", x[::-1]), ("out", x))}
        for x in shapes
    ]
    taken = [number for number, names in enumerate(entries) if evaluated(members["where"], names)]
    assert sorted(taken, key=lambda number: evaluated(members["order"], entries[number])) == [2, 0]
    value = 'name "[" expression "]"'
    assert value in " ".join(description["grammar"])
    assert value not in " ".join(c_free(launched)["grammar"])
    assert evaluated("table0[table0.size - 1]", {"table0": np.array([0, 3, 7])}) == 7


def c_free(launched: dict[str, Launched]) -> dict[str, Any]:
    """The description of a plain product, which needs no words for lists."""
    del launched
    specs = [cute.TensorSpec((None, None), cute.f16)] * 2
    options = {"arch": "sm_80"}
    kernel = cute.compile(cute.gemm, *specs, **options, backend="emulator")
    return described(kernel.program, None, described_call(cute.gemm, specs, options))


def test_a_program_of_lists_of_a_user_has_no_description(launched: dict[str, Launched]) -> None:
    del launched
    specs = [[cute.TensorSpec((None, None), cute.f16)]] * 2
    kernel = cute.compile(cute.grouped_gemm, *specs, arch="sm_80", backend="emulator")
    with pytest.raises(CompileError, match="got a kernel of lists"):
        described(kernel.program, None)
