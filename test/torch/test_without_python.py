"""Operators of torch without Python: a package of AOTInductor that a program in C++ runs, on
the stand-in for the driver. Where a compiler or cuda.h is missing it says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import cutedialect.torch as ct  # noqa: E402
from cutedialect.__main__ import main  # noqa: E402
from cutedialect.frontend.declarations import CALLS  # noqa: E402
from cutedialect.tools.compiled_operators import operators_of  # noqa: E402

STAND_IN = Path(__file__).parents[1] / "backend" / "runtime" / "launchers"
PLACES = [
    Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "include",
    Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include",
]
CUDA = next((place for place in PLACES if (place / "cuda.h").is_file()), None)
TORCH = Path(torch.__file__).parent


def test_the_schemas_are_those_of_the_operators_in_python() -> None:
    compared = 0
    for call in CALLS:
        for operator in operators_of(call) if "torch" in call.libraries else ():
            registered = getattr(torch.ops.cutedialect, operator.name).default._schema
            ours = torch._C.parse_schema(f"cutedialect::{operator.name}{operator.schema}")
            assert str(ours) == str(registered)
            compared += 1
    assert compared >= 7


PROGRAM = """\
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>
#include <string>

// The first line of what is thrown.
template <class Call>
void shown(const Call &call) {
  try {
    call();
  } catch (const c10::Error &error) {
    std::printf("%s\\n", error.what_without_backtrace());
  } catch (const std::exception &error) {
    std::printf("%s\\n", std::string(error.what()).substr(0, 48).c_str());
  }
  std::fflush(stdout);
}

// An operator with its defaults behind two operands.
void gemm(const at::Tensor &a, const at::Tensor &b, const c10::IValue &activation) {
  const auto operator_ = c10::Dispatcher::singleton().findSchemaOrThrow("cutedialect::gemm", "");
  torch::jit::Stack stack;
  for (const auto &argument : operator_.schema().arguments()) {
    if (argument.name() == "a") stack.emplace_back(a);
    else if (argument.name() == "b") stack.emplace_back(b);
    else if (argument.name() == "activation") stack.push_back(activation);
    else stack.push_back(argument.default_value().value());
  }
  operator_.callBoxed(stack);
}

int main(int, char **words) {
  const auto load = [&] { torch::inductor::AOTIModelPackageLoader package(words[1]); };
  shown(load);
  if (dlopen(words[2], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::printf("%s\\n", dlerror());
    return 1;
  }
  shown([&] {
    torch::inductor::AOTIModelPackageLoader package(words[1]);
    for (int rows : {32, 100}) {
      const at::Tensor result = package.run({at::ones({rows, 64}, at::kHalf)}).at(0);
      std::printf("result %d %d %s\\n", static_cast<int>(result.size(0)),
                  static_cast<int>(result.size(1)), c10::toString(result.scalar_type()));
    }
  });
  const at::Tensor half = at::ones({64, 64}, at::kHalf);
  shown([&] { gemm(half, half, "silu"); });
  shown([&] { gemm(half, at::ones({64, 64}), c10::IValue()); });
  shown([&] { gemm(half, at::ones({48, 64}, at::kHalf), c10::IValue()); });
}
"""
PROGRAM_ON_A_GPU = """\
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>
#include <cstdlib>

int main(int, char **words) {
  if (dlopen(words[2], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "%s\\n", dlerror());
    return 1;
  }
  const int rows = std::atoi(words[3]);
  const at::Tensor x = at::arange(rows * 64).remainder(7).sub(3).div(8).view({rows, 64});
  torch::inductor::AOTIModelPackageLoader package(words[1]);
  const at::Tensor result = package.run({x.to(at::kHalf).to(at::kCUDA)}).at(0).cpu().contiguous();
  std::FILE *file = std::fopen(words[4], "wb");
  if (file == nullptr) return 1;
  std::fwrite(result.data_ptr(), result.element_size(), result.numel(), file);
  return std::fclose(file);
}
"""


class Layer(torch.nn.Module):
    """A product with a gradient, whose operator is `gemm_aux`, and one without."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.up, self.down = (
            torch.nn.Parameter((torch.randn(shape, generator=generator) / 8).half())
            for shape in ((64, 128), (128, 48))
        )

    def forward(self, x: Any) -> Any:
        return ct.gemm(ct.gemm(x, self.up, activation="gelu"), self.down)


def needs_compilers(test: Callable[..., None]) -> Callable[..., None]:
    """A test that compiles C++ on top of torch, for minutes."""
    is_there = shutil.which("g++") is not None and CUDA is not None
    test = pytest.mark.skipif(not is_there, reason="g++ or cuda.h is not installed")(test)
    return pytest.mark.long(pytest.mark.timeout(900)(test))


def packaged(folder: Path, device: str) -> tuple[Any, Path]:
    """A layer, and its package for any number of rows."""
    layer, rows = Layer().to(device), torch.export.Dim("rows", min=2, max=1024)
    x = torch.ones(32, 64, dtype=torch.float16, device=device)
    exported = torch.export.export(layer, (x,), dynamic_shapes=({0: rows},))
    assert "cutedialect.gemm_aux" in str(exported.graph)
    file = str(folder / "layer.pt2")
    return layer, Path(torch._inductor.aoti_compile_and_package(exported, package_path=file))


def built(folder: Path, arch: str, source: str, stand_in: bool) -> tuple[Path, Path]:
    """A program, and the library of operators that it opens."""
    command = ["compile", "cute.gemm", "--schedule", "tile = (64,64,32)", "--launcher", "torch"]
    command += ["--arch", arch]
    command += ["--variant", "up: ?x?:f16 ?x?:f16 --set activation=gelu --set aux=?x?:f16"]
    command += ["--variant", "down: ?x?:f16 ?x?:f16"]
    assert main([*command, "-o", str(folder)]) == 0
    library, program = folder / "gemm_torch.so", folder / "main"
    (folder / "main.cpp").write_text(source)
    sources, flags = [str(folder / "gemm_torch.cc")], ["-std=c++17", "-fPIC"]
    libraries = [f"-L{TORCH / 'lib'}", f"-Wl,-rpath,{TORCH / 'lib'},--no-as-needed", "-ltorch"]
    if stand_in:
        for file in (STAND_IN / "stand_in_driver.c", STAND_IN / "no_sizes.c"):
            sources.append(str(folder / f"{file.stem}.o"))
            words = ["-fPIC", f"-I{STAND_IN}", "-isystem", str(CUDA), "-c", str(file)]
            run("gcc", "-std=c99", *words, "-o", sources[-1])
        # What CUDA's devices have, on the CPU of this machine.
        flags += ["-Wall", "-Wextra", "-Werror", "-DCUTE_TORCH_KEY=CPU"]
    else:
        libraries += ["-ltorch_cuda", "-lc10_cuda", f"-L{CUDA}/../lib64/stubs", "-lcuda"]
    libraries += ["-ltorch_cpu", "-lc10", "-ldl"]
    for place in (TORCH / "include", TORCH / "include/torch/csrc/api/include", CUDA):
        flags += ["-isystem", str(place)]
    run("g++", *flags, "-shared", *sources, "-o", str(library), *libraries)
    run("g++", *flags, str(folder / "main.cpp"), "-o", str(program), *libraries)
    return program, library


@needs_compilers
def test_the_kernels_are_launched_and_wrong_calls_are_refused(tmp_path: Path) -> None:
    _, package = packaged(tmp_path, "cpu")
    program, library = built(tmp_path, "sm_80", PROGRAM, stand_in=True)
    lines = run(str(program), str(package), str(library)).splitlines()
    assert lines[0].startswith("Could not find schema for cutedialect::gemm")
    assert [line for line in lines[1:] if line.startswith(("launch", "result"))] == [
        "launch gemm_up grid 2 1 1 block 128 1 1 smem 32768 stream 0",
        "launch gemm_down grid 1 1 1 block 128 1 1 smem 32768 stream 0",
        "result 32 48 Half",
        "launch gemm_up grid 4 1 1 block 128 1 1 smem 32768 stream 0",
        "launch gemm_down grid 2 1 1 block 128 1 1 smem 32768 stream 0",
        "result 100 48 Half",
    ]
    refused = [line for line in lines if line.startswith("cutedialect::gemm: ")]
    expected = "cutedialect::gemm: expected what a variant was compiled for. "
    expected += "up: expected another operator, for its results; down: "
    assert [line.removeprefix(expected) for line in refused] == [
        "expected activation None",
        "b: expected dtype float16, got float32",
        "b: expected extent 64 in dimension 0, got 48",
    ]


@needs_compilers
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch sees")
def test_a_gpu_computes_what_python_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUTEDIALECT_BACKEND")
    layer, package = packaged(tmp_path, "cuda")
    major, minor = torch.cuda.get_device_capability()
    arch = "sm_90a" if (major, minor) == (9, 0) else f"sm_{major}{minor}"
    program, library = built(tmp_path, arch, PROGRAM_ON_A_GPU, stand_in=False)
    for rows in (32, 100):
        result = tmp_path / "result"
        run(str(program), str(package), str(library), str(rows), str(result))
        values = torch.frombuffer(bytearray(result.read_bytes()), dtype=torch.float16)
        x = torch.arange(rows * 64).remainder(7).sub(3).div(8).view(rows, 64).half()
        with torch.no_grad():
            wanted = layer(x.cuda()).cpu()
        torch.testing.assert_close(values.view(rows, 48), wanted, rtol=2e-3, atol=2e-3)


def run(*command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout
