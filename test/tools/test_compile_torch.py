"""Operators of torch that `compile --launcher torch` writes, as text; `test/torch` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutedialect.__main__ import main

COMPILE = ["compile", "cute.gemm", "--launcher", "torch", "--schedule", "tile = (64,64,32)"]


@pytest.mark.long
def test_options_of_each_variant_are_compared(tmp_path: Path) -> None:
    words = ["--variant", "half: ?x?:f16 ?x?:f16 --set activation=relu --set out_dtype=f32"]
    words += ["--variant", "scaled: --set scale_a=0.5 ?x?:f16 ?x?:f16 --set bias=?:f32"]
    assert main([*COMPILE, *words, "-o", str(tmp_path)]) == 0
    text = (tmp_path / "gemm_torch.cc").read_text()
    half, scaled = text.split("const char *differs_")[1:]
    assert 'same(values.at("activation"), "relu")' in half
    assert 'same(values.at("out_dtype"), at::kFloat)' in half
    assert 'same(values.at("bias"), nullptr)' in half
    assert 'same(values.at("factor_a"), 0.5)' in scaled
    assert 'same(values.at("bias")' not in scaled
    assert 'values.at("bias").isTensor()' in scaled
    assert 'values.at("alpha").toScalar()' in half
    assert "at::empty({given.a.shape[0], given.b.shape[1]}, " in half
    assert (tmp_path / "gemm_half.h").is_file()
    assert not (tmp_path / "gemm.h").exists()


def test_a_library_defines_all_operators_of_its_call(tmp_path: Path) -> None:
    words = [*COMPILE, "?x?:f16", "?x?:f16", "-o", str(tmp_path)]
    assert main(words) == 0
    text = (tmp_path / "gemm_torch.cc").read_text()
    assert text.count("library.def(") == 2
    assert 'library.def("gemm(Tensor a, Tensor b, Tensor? c=None' in text
    assert 'library.impl("gemm_aux"' in text
    assert '{"gemm", {"out"}, differs_gemm, run_gemm}' in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cute.grouped_gemm", "[?x?:f16]", "[?x?:f16]"], "got one of lists; --launcher c and cpp"),
        (["kernels.py:softmax", "?x?:f16"], "expected cute.gemm or cute.attention"),
    ],
)
def test_what_is_no_operator_is_refused(tmp_path: Path, capsys, words, said) -> None:
    assert main(["compile", *words, "--launcher", "torch", "-o", str(tmp_path)]) == 1
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("*.cc"))
