"""A kernel as a module of TVM FFI, called by a program in C++ without Python, on the stand-in for
the driver. Where apache-tvm-ffi or a compiler is missing it says so.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from cutedialect.__main__ import main

HERE = Path(__file__).parent
CUDA = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "include"
FOUND = importlib.util.find_spec("tvm_ffi")
TVM = Path(FOUND.origin).parent if FOUND is not None and FOUND.origin is not None else None

COMMAND = ["compile", "cute.gemm", "--set", "out_dtype=f32", "--schedule", "tile = (64,64,32)"]


def test_a_module_is_written_for_a_call_of_tensors(tmp_path: Path, capsys) -> None:
    module = [*COMMAND[:2], "?x?:f16", "?x?:f16", *COMMAND[2:], "--launcher", "tvm-ffi"]
    assert main([*module, "-o", str(tmp_path / "module")]) == 0
    text = (tmp_path / "module" / "gemm_tvm_ffi.cc").read_text()
    assert "cuDevicePrimaryCtxRetain(&context, device)" in text
    assert "@" not in text
    lists = ["compile", "cute.grouped_gemm", "[?x?:f16]", "[?x?:f16]", *COMMAND[2:]]
    assert main([*lists, "--launcher", "tvm-ffi", "-o", str(tmp_path)]) == 1
    assert "got one of lists; --launcher c and cpp have them" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.cc"))


PROGRAM = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/module.h>

#include <cstdio>

static void ask(const tvm::ffi::Function &gemm, DLDataType type, int64_t depth, int device) {
  int64_t of_a[] = {32, depth}, of_b[] = {depth, 48}, of_out[] = {32, 48};
  int64_t by_a[] = {depth, 1}, by_b[] = {48, 1}, by_out[] = {48, 1};
  const DLDevice cuda{kDLCUDA, 0}, its{device == 0 ? kDLCUDA : kDLCPU, 0};
  const DLDataType f32{kDLFloat, 32, 1};
  DLTensor a{reinterpret_cast<void *>(4096), its, 2, type, of_a, by_a, 0};
  DLTensor b{reinterpret_cast<void *>(8192), cuda, 2, type, of_b, by_b, 16};
  DLTensor out{reinterpret_cast<void *>(16384), cuda, 2, f32, of_out, by_out, 0};
  try {
    gemm(tvm::ffi::TensorView(&a), tvm::ffi::TensorView(&b), tvm::ffi::TensorView(&out), 1.0);
    std::printf("done\\n");
  } catch (const tvm::ffi::Error &error) {
    std::printf("%s %s\\n", error.kind().c_str(), error.message().c_str());
  }
}

int main(int, char **words) {
  const tvm::ffi::Module module = tvm::ffi::Module::LoadFromFile(words[1]);
  const tvm::ffi::Function gemm = module->GetFunction("gemm").value();
  TVMFFIEnvSetStream(kDLCUDA, 0, reinterpret_cast<void *>(0x77), nullptr);
  ask(gemm, {kDLFloat, 16, 1}, 64, 0);
  ask(gemm, {kDLFloat, 16, 1}, 63, 0);
  ask(gemm, {kDLFloat, 16, 1}, 64, 1);
  ask(gemm, {kDLFloat, 32, 1}, 64, 0);
  ask(gemm, {kDLComplex, 64, 1}, 64, 0);
}
"""


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.skipif(TVM is None, reason="apache-tvm-ffi is not installed")
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.skipif(not (CUDA / "cuda.h").is_file(), reason="cuda.h is not there")
def test_a_program_in_cpp_calls_the_module(tmp_path: Path) -> None:
    assert TVM is not None
    variants = ["--variant", "half: ?x?:f16 ?x?:f16"]
    variants += ["--variant", "any: ?x?:f16@2 ?x?:f16@2 --set out=?x?:f32@4"]
    assert main([*COMMAND, *variants, "--launcher", "tvm-ffi", "-o", str(tmp_path)]) == 0
    (tmp_path / "main.cpp").write_text(PROGRAM)
    flags = ["-Wall", "-Wextra", "-Werror", "-fPIC", f"-I{HERE}", f"-I{tmp_path}"]
    flags += ["-isystem", str(CUDA), "-isystem", str(TVM / "include")]
    objects = []
    for source in (HERE / "stand_in_driver.c", HERE / "no_sizes.c"):
        objects.append(str(tmp_path / f"{source.stem}.o"))
        run("gcc", "-std=c99", *flags, "-c", str(source), "-o", objects[-1])
    link = [f"-L{TVM / 'lib'}", "-ltvm_ffi", f"-Wl,-rpath,{TVM / 'lib'}"]
    module, program = tmp_path / "gemm.so", tmp_path / "main"
    cpp = ["g++", "-std=c++17", *flags]
    run(*cpp, "-shared", str(tmp_path / "gemm_tvm_ffi.cc"), *objects, "-o", str(module), *link)
    run(*cpp, str(tmp_path / "main.cpp"), "-o", str(program), *link)
    told = run(str(program), str(module)).splitlines()
    lines = [line for line in told if not line.startswith(("load", "function", "attribute"))]
    assert lines[0].startswith("launch gemm_half grid 1 1 1 block ")
    assert lines[0].endswith(" stream 119")
    assert lines[1] == "done"
    assert lines[2].startswith("launch gemm_any grid 1 1 1 block ")
    assert lines[3:] == [
        "done",
        "ValueError a: expected memory of CUDA device 0, got that of device 0 of type 1",
        "ValueError gemm: expected elements of one of the variants half, any, got a float32, b "
        "float32, out float32",
        "TypeError a: expected elements of numbers, got DLPack's code 5 of 64 bits",
        *["unload"] * (len(lines) - 7),
    ]


def run(*command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout
