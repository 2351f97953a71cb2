"""Several variants of a call in one launcher: which one takes some arguments, and what is said
where none does.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import cutedialect as cute
from cutedialect.__main__ import main
from cutedialect.backend.runtime.description import described
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.launchers import Alternative, c_dispatcher
from cutedialect.frontend.described_calls import described_call
from cutedialect.tools.kernel_arguments import argument, settings

HERE = Path(__file__).parent
CUDA = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "include"
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
STRICT = ("-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{HERE}", "-isystem", str(CUDA))
VARIANTS = (
    "half: ?x?:f16 ?x?:f16",
    "brain: ?x?:bf16 ?x?:bf16 --schedule 'tile = (64,32,32)'",
    "half_any: ?x?:f16@2 ?x?:f16@2 --set out=?x?:f32@4",
)
COMMAND = ["compile", "cute.gemm", "--set", "out_dtype=f32", "--schedule", "tile = (64,64,32)"]

needs_c = [
    pytest.mark.skipif(not COMPILERS, reason="neither gcc nor clang is installed"),
    pytest.mark.skipif(
        not (CUDA / "cuda.h").is_file(),
        reason="nvidia-cuda-runtime, which has cuda.h, is not there",
    ),
]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("variants")
    words = [word for text in VARIANTS for word in ("--variant", text)]
    targets = ["--arch", "sm_80", "--launcher", "cpp", "--embed"]
    assert main([*COMMAND, *words, *targets, "-o", str(out)]) == 0
    return out


def test_the_manifest_names_the_files_of_each_variant(folder: Path) -> None:
    told = json.loads((folder / "gemm.manifest.json").read_text())
    assert told["format"] == "cutedialect-manifest-1"
    assert [variant["name"] for variant in told["variants"]] == ["half", "brain", "half_any"]
    assert told["variants"][1]["schedule"] == "tile = (64,32,32)"
    assert told["variants"][2]["settings"] == ["out_dtype=f32", "out=?x?:f32@4"]
    for variant in told["variants"]:
        assert [target["arch"] for target in variant["targets"]] == ["sm_80"]
        for target in variant["targets"]:
            assert {Path(file).suffix for file in target["files"]} >= {".ptx", ".json"}
            assert all((folder / file).is_file() for file in target["files"])


PROGRAM = """\
#include "gemm.h"
#include "stand_in_driver.h"

const int *stand_in_sizes(const char *kernel) {
  static const int none[] = {0};
  (void)kernel;
  return none;
}

static gemm_kernel kernel;

static void ask(cute_dtype dtype, int64_t depth, CUdeviceptr a) {
  const int64_t of_a[] = {32, depth}, of_b[] = {depth, 48}, of_out[] = {32, 48};
  gemm_arguments given;
  cute_error error;
  size_t bytes = 7;
  int variant = -1;
  given.a = cute_packed(a, dtype, 2, of_a);
  given.b = cute_packed(8192, dtype, 2, of_b);
  given.out = cute_packed(16384, CUTE_FLOAT32, 2, of_out);
  given.alpha = 1;
  if (gemm_variant(&kernel, &given, &variant, &error) != CUTE_OK ||
      gemm_workspace(&kernel, &given, &bytes, &error) != CUTE_OK ||
      gemm_clear(&kernel, &given, 0, bytes, NULL, &error) != CUTE_OK ||
      gemm_launch(&kernel, &given, 0, bytes, NULL, &error) != CUTE_OK)
    printf("%d %s\\n", (int)error.status, error.text);
  else
    printf("%s %d\\n", gemm_variants[variant], (int)bytes);
}

int main(int count, char **words) {
  cute_error error;
  (void)count;
  stand_in_device(75, 7);
  printf("%d\\n", (int)gemm_load_files(&kernel, words[1], &error));
  printf("%d\\n", (int)gemm_load_files(&kernel, "/nowhere", &error));
  ask(CUTE_FLOAT16, 64, 4096);
  stand_in_device(86, 7);
  printf("%d\\n", (int)gemm_load_files(&kernel, words[1], &error));
  ask(CUTE_FLOAT16, 64, 4096);
  ask(CUTE_FLOAT16, 63, 4096);
  ask(CUTE_FLOAT16, 64, 4098);
  ask(CUTE_FLOAT16, 64, 4097);
  ask(CUTE_BFLOAT16, 64, 4096);
  ask(CUTE_BFLOAT16, 63, 4096);
  ask(CUTE_FLOAT32, 64, 4096);
  gemm_unload(&kernel);
  printf("%d\\n", (int)gemm_load_embedded(&kernel, &error));
  ask(CUTE_FLOAT16, 64, 4096);
  gemm_unload(&kernel);
  return 0;
}
"""


@pytest.mark.some(1)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_first_variant_that_fits_is_launched(
    folder: Path, tmp_path: Path, compiler: str
) -> None:
    for mark in needs_c:
        if mark.args[0]:
            pytest.skip(mark.kwargs["reason"])
    (tmp_path / "main.c").write_text(PROGRAM)
    out = tmp_path / "main"
    files = [str(tmp_path / "main.c"), str(HERE / "stand_in_driver.c")]
    run([compiler, "-std=c99", *STRICT, f"-I{folder}", *files, "-o", str(out), "-lm"])
    lines = [
        line
        for line in run([str(out), str(folder)]).splitlines()
        if not line.startswith(("load", "unload", "function", "attribute"))
    ]
    assert lines == [
        "3",
        "4",
        "3 gemm: expected a variant of these types that is loaded, got none",
        "0",
        launched("gemm_half"),
        "half 0",
        launched("gemm_half_any"),
        "half_any 0",
        launched("gemm_half_any"),
        "half_any 0",
        "1 A: expected memory aligned to 2 bytes, got address 0x1001",
        launched("gemm_brain", 2),
        "brain 0",
        "1 A: expected a stride divisible by 8 elements in dimension 0, got 63",
        "1 gemm: expected elements of one of the variants half, brain, half_any, got a float32, "
        "b float32, out float32",
        "0",
        launched("gemm_half"),
        "half 0",
    ]


class launched(str):  # noqa: N801
    """A line of a launch, however many threads there are."""

    def __new__(cls, kernel: str, grid: int = 1) -> launched:
        return super().__new__(cls, f"launch {kernel} grid {grid} 1 1 ")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.startswith(str(self))

    __hash__ = str.__hash__


CPP = """\
#include "gemm.hpp"

#include <cstdio>
extern "C" {
#include "stand_in_driver.h"
const int *stand_in_sizes(const char *) {
  static const int none[] = {0};
  return none;
}
}

int main() {
  stand_in_device(89, 132);
  cutedialect::gemm kernel;
  cutedialect::gemm::arguments given{};
  given.a = cutedialect::tensor(4096, CUTE_FLOAT16, {32, 63});
  given.b = cutedialect::tensor(4096, CUTE_FLOAT16, {63, 48});
  given.out = cutedialect::tensor(4096, CUTE_FLOAT32, {32, 48});
  given.alpha = 1;
  std::printf("%s\\n", kernel.variant(given));
  kernel(given);
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.skipif(not (CUDA / "cuda.h").is_file(), reason="cuda.h is not there")
def test_variants_for_cpp(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(CPP)
    driver = tmp_path / "driver.o"
    run(["gcc", "-std=c99", *STRICT, "-c", str(HERE / "stand_in_driver.c"), "-o", str(driver)])
    files = [str(tmp_path / "main.cpp"), str(driver), "-o", str(tmp_path / "main")]
    run(["g++", "-std=c++17", *STRICT, f"-I{folder}", *files])
    told = run([str(tmp_path / "main")])
    assert "half_any\n" in told
    assert "launch gemm_half_any grid 1 1 1" in told


def alternative(name: str, *specs: str, **options: Any) -> Alternative:
    given = [argument(text) for text in specs]
    keywords = settings([f"{key}={value}" for key, value in options.items()]) | {"arch": "sm_80"}
    kernel = cute.compile(cute.gemm, *given, **keywords, backend="emulator")
    call = described_call(cute.gemm, given, keywords)
    return Alternative(name, described(kernel.program, None, call))


def test_variants_of_other_calls_are_refused() -> None:
    plain = alternative("plain", "?x?:f16", "?x?:f16")
    biased = alternative("biased", "?x?:f16", "?x?:f16", bias="?:f32")
    with pytest.raises(CompileError, match=r"take the same arguments, a \(2 dimensions\)") as told:
        c_dispatcher("gemm", [plain, biased])
    assert "bias (1 dimensions)" in str(told.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["?x?:f16", "--variant", "one: ?x?:f16"], "got ?x?:f16 beside them"),
        (["--variant", "?x?:f16 ?x?:f16"], "expected 'NAME: SPEC ...'"),
        (["--variant", "a: ?:f16 --arch sm_80"], "unrecognized arguments: --arch sm_80"),
        (["--variant", "a: ?x?:f16", "--variant", "a: ?x?:f16"], "names that differ, got a twice"),
    ],
)
def test_variants_that_are_none_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", "cute.gemm", *words]) == 1
    assert said in capsys.readouterr().err
