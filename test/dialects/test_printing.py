"""IR is printed as xDSL prints it."""

import pytest
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, UnitAttr, i32
from xdsl.printer import Printer

import cutedialect as cute
from cutedialect.dialects.printing import QuickPrinter, text_of
from cutedialect.frontend.launch import lower


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_each_stage_has_the_text_of_xdsl(arch):
    spec = cute.TensorSpec((1, 2, 130, 64), "float16")
    kernel = cute.compile(cute.attention, spec, spec, spec, arch=arch, causal=True)
    names = []

    def compare(name, module):
        assert text_of(module) == str(module)
        names.append(name)

    lower(kernel.traced(), kernel.name, arch, compare)
    assert names == list(kernel.stages)[1:]


@pytest.mark.parametrize("generic", [False, True])
def test_literals_and_attributes(generic, capsys):
    every_byte = StringAttr("".join(map(chr, range(256))) + "λ")
    twice = ArrayAttr([every_byte, i32, every_byte, i32, StringAttr('a "b" \\ c')])
    module = ModuleOp([], {"text": twice, "flag": UnitAttr(), "odd name": StringAttr("")})
    printer = QuickPrinter(print_generic_format=generic)
    printer.print_op(module)
    Printer(print_generic_format=generic).print_op(module)
    assert printer.text() == capsys.readouterr().out


def test_a_type_is_written_out_once(monkeypatch):
    spec = cute.TensorSpec((256, 256), "float16")
    module = cute.compile(cute.gemm, spec, spec, arch="sm_80").traced()
    shown = []
    write_out = Printer.print_attribute
    monkeypatch.setattr(
        Printer, "print_attribute", lambda self, it: shown.append(it) or write_out(self, it)
    )
    text_of(module)
    assert len({id(attribute) for attribute in shown}) == len(shown)
    quick = len(shown)
    assert str(module) == text_of(module)
    assert len(shown) - 2 * quick > 2 * quick
