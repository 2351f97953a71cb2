"""What `.target` and `.version` have: one fault for each class of instruction, beside the twin that
may stand, and the same reading of the manual as the compiler's tables.
"""

import random
import re

import pytest

from cutedialect import atoms
from cutedialect.atoms import legality
from cutedialect.backend.emulator import EmulatorError, launch
from cutedialect.backend.emulator.targets import refused

TEXT = """.version {version}
.target {target}
.address_size 64
.visible .entry k()
{{
.reg .pred %p<4>; .reg .b16 %rs<4>; .reg .b32 %r<16>; .reg .b64 %rd<4>; .reg .f32 %f<140>;
.shared .align 1024 .b8 sm[4096];
ret;
{statement}
}}
"""
MMA = "mma.sync.aligned."
FOUR_F, TWO_R = "{%f0, %f1, %f2, %f3}", "{%r0, %r1}"

# Statement, the oldest target that has it, one that has it not, and what the report says.
CLASSES = [
    ("cp.async.cg.shared.global [sm], [%rd0], 16;", "sm_80", "sm_75", "sm_80 or later"),
    ("cp.async.commit_group;", "sm_80", "sm_75", "sm_80 or later"),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [sm];", "sm_75", "sm_70", "sm_75 or later"),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [sm], {%r0};", "sm_90", "sm_89", "sm_90 or later"),
    ("movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;", "sm_75", "sm_72", "sm_75 or later"),
    ("mbarrier.init.shared.b64 [sm], 1;", "sm_80", "sm_75", "sm_80 or later"),
    ("mbarrier.try_wait.shared.b64 %p0, [sm], %rd0;", "sm_90", "sm_80", "sm_90 or later"),
    ("mbarrier.arrive.expect_tx.shared.b64 _, [sm], 16;", "sm_90", "sm_89", "sm_90 or later"),
    ("wgmma.fence.sync.aligned;", "sm_90a", "sm_90", "sm_90a"),
    ("wgmma.commit_group.sync.aligned;", "sm_90a", "sm_100a", "sm_90a"),
    ("setmaxnreg.inc.sync.aligned.u32 64;", "sm_90a", "sm_90", "sm_90a or the family sm_100f"),
    ("elect.sync _|%p0, -1;", "sm_90", "sm_80", "sm_90 or later"),
    ("barrier.cluster.arrive.aligned;", "sm_90", "sm_80", "sm_90 or later"),
    ("mov.u32 %r0, %cluster_ctarank;", "sm_90", "sm_80", "sm_90 or later"),
    ("mapa.shared::cluster.u32 %r0, %r1, 0;", "sm_90", "sm_86", "sm_90 or later"),
    ("fence.proxy.async;", "sm_90", "sm_80", "sm_90 or later"),
    ("griddepcontrol.wait;", "sm_90", "sm_89", "sm_90 or later"),
    ("cvt.rn.f16x2.f32 %r0, %f0, %f1;", "sm_80", "sm_75", "sm_80 or later"),
    ("cvt.rn.bf16.f32 %rs0, %f0;", "sm_80", "sm_75", "sm_80 or later"),
    ("cvt.rna.tf32.f32 %r0, %f0;", "sm_80", "sm_75", "sm_80 or later"),
    ("cvt.rn.satfinite.e4m3x2.f32 %rs0, %f0, %f1;", "sm_89", "sm_86", "sm_89 or later"),
    ("redux.sync.add.s32 %r0, %r1, -1;", "sm_80", "sm_75", "sm_80 or later"),
    ("max.f16x2 %r0, %r1, %r2;", "sm_80", "sm_75", "sm_80 or later"),
    ("tanh.approx.f32 %f0, %f1;", "sm_75", "sm_72", "sm_75 or later"),
    ("add.rn.bf16x2 %r0, %r1, %r2;", "sm_90", "sm_89", "sm_90 or later"),
    ("red.global.add.noftz.bf16x2 [%rd0], %r0;", "sm_90", "sm_89", "sm_90 or later"),
    (
        f"{MMA}m16n8k8.row.col.f32.f16.f16.f32 {FOUR_F}, {TWO_R}, {{%r2}}, {FOUR_F};",
        "sm_75",
        "sm_70",
        "sm_75 or later",
    ),
    (
        f"{MMA}m16n8k16.row.col.f32.f16.f16.f32 {FOUR_F}, {{%r0,%r1,%r2,%r3}}, {TWO_R}, {FOUR_F};",
        "sm_80",
        "sm_75",
        "sm_80 or later",
    ),
    (
        f"{MMA}m16n8k8.row.col.f32.bf16.bf16.f32 {FOUR_F}, {TWO_R}, {{%r2}}, {FOUR_F};",
        "sm_80",
        "sm_75",
        "sm_80 or later",
    ),
    (
        f"{MMA}m16n8k32.row.col.f32.e4m3.e4m3.f32 "
        f"{FOUR_F}, {{%r0,%r1,%r2,%r3}}, {TWO_R}, {FOUR_F};",
        "sm_89",
        "sm_86",
        "sm_89 or later",
    ),
]


def run(statement, target, version="9.0"):
    launch(TEXT.format(version=version, target=target, statement=statement), "k", 1, 32, [])


@pytest.mark.parametrize(("statement", "oldest", "other", "needs"), CLASSES)
def test_an_instruction_that_the_target_has_not(statement, oldest, other, needs):
    run(statement, oldest)
    with pytest.raises(EmulatorError) as caught:
        run(statement, other)
    assert caught.value.code == "CD-T1"
    assert needs in caught.value.message
    assert caught.value.message.endswith(f"got .target {other}")
    assert caught.value.ptx_line == 9
    assert statement.split()[0].rstrip(";") in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "target", "since", "before"),
    [
        ("cp.async.cg.shared.global [sm], [%rd0], 16;", "sm_80", "7.0", "6.5"),
        ("mbarrier.init.shared::cta.b64 [sm], 1;", "sm_80", "7.8", "7.4"),
        ("wgmma.fence.sync.aligned;", "sm_90a", "8.0", "7.8"),
        ("createpolicy.fractional.L2::evict_last.b64 %rd0;", "sm_80", "7.4", "7.1"),
        (CLASSES[-1][0], "sm_89", "8.4", "8.1"),
    ],
)
def test_an_instruction_that_is_newer_than_the_version(statement, target, since, before):
    run(statement, target, since)
    with pytest.raises(EmulatorError) as caught:
        run(statement, target, before)
    assert caught.value.code == "CD-T2"
    assert f"needs .version {since} or later, got {before}" in caught.value.message


def test_a_cluster_directive():
    text = TEXT.format(version="8.0", target="sm_90", statement="")
    text = text.replace("k()\n", "k()\n.reqnctapercluster 2, 1, 1\n")
    launch(text, "k", 2, 32, [])
    with pytest.raises(EmulatorError, match="reqnctapercluster needs sm_90 or later") as caught:
        launch(text.replace("sm_90", "sm_80"), "k", 2, 32, [])
    assert (caught.value.code, caught.value.ptx_line) == ("CD-T1", 4)


def drawn(pattern, chooser):
    """One spelling of a form's pattern."""
    named = {}

    def choose(match):
        name, equals, choices = match[1].rpartition("=")
        if not equals and "|" not in choices:
            return named[choices]
        named[name] = value = chooser.choice(choices.split("|"))
        return value

    text = re.sub(r"<([^>]*)>", choose, pattern)
    while "[" in text:
        text = re.sub(r"\[([^\[\]]*)\]", lambda m: m[1] * (chooser.random() < 0.5), text)
    return text


@pytest.mark.some(42)
# What the compiler's tables say of tcgen05 hangs on kinds, which the emulator judges as it runs.
@pytest.mark.parametrize("family", sorted(set(legality.families()) - {"tcgen05"}))
def test_both_readings_of_the_manual_agree(family):
    chooser = random.Random(family)
    forms = legality.forms_of(family)
    differences = set()
    for form in forms:
        for opcode in {drawn(form.pattern, chooser) for _ in range(3)}:
            spelled = [each for each in forms if each.spells(opcode)]
            for name in atoms.targets():
                here = any(atoms.target(name).has(each.requires) for each in spelled)
                if here != (refused(opcode, name) is None):
                    differences.add((opcode, name, here))
    assert not differences, sorted(differences)[:12]
