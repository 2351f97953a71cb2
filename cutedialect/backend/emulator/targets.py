"""Which architecture and PTX version an instruction needs, as the emulator reads the PTX manual
("PTX ISA Notes" and "Target ISA Notes" of each instruction): a kernel may only use what its
`.target` and `.version` have, in code that never runs too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from .errors import EmulatorError
from .module import Function, Instruction, Special

# Regular expression over the whole opcode; what it needs: architectures (`80` is that one and later
# ones, `90a` that chip alone, `100f` its family); the PTX version. All rules that match count.
_RULES = r"""
(ldmatrix|movmatrix)\..*                                      75                    6.5
movmatrix\..*                                                 75                    7.8
ldmatrix\..*\.(m16n16|m8n16)\..*                              100f 110f 120f        8.6
stmatrix\..*                                                  90                    7.8
stmatrix\..*\.m16n8\..*                                       100f 110f 120f        8.6

mma\.sync\..*                                                 70                    6.4
mma\.sync\..*\.(m16n8k8|m8n8k16|m8n8k32|m8n8k128)\..*         75                    6.5
mma\.sync\..*\.b1\..*                                         75                    7.0
mma\.sync\..*\.and\.popc                                      80                    7.1
mma\.sync\..*\.m16n8k(4|16|32|64|128|256)\..*                 80                    7.0
mma\.sync\..*\.(bf16|tf32|f64)\..*                            80                    7.0
mma\.sync\..*\.m16n8k(4|8|16)\..*\.f64\..*                    90                    7.8
mma\.sync\..*\.(e4m3|e5m2)\..*                                89                    8.4
mma\.sync\..*\.f16\.(e4m3|e5m2)\..*                           89                    8.7
mma\.sync\..*\.m16n8k16\..*\.(e4m3|e5m2)\..*                  89                    8.7
mma\.sync\..*\.kind::f8f6f4\..*                               100f 110f 120f        8.7
mma\.sync\..*\.(e2m1|e2m3|e3m2)\..*                           120f                  8.7
mma\.sync\..*\.block_scale\..*                                120f                  8.7
mma\.sp.*                                                     80                    7.1
mma\.sp.*\.(e4m3|e5m2)\..*                                    89                    8.4
mma\.sp.*\.f16\.(e4m3|e5m2)\..*                               120f                  8.7
mma\.sp.*\.kind::f8f6f4\..*                                   100f 110f 120f        8.7
mma\.sp.*\.(e2m1|e2m3|e3m2)\..*                               120f                  8.7
mma\.sp.*\.kind::mxf8f6f4\..*                                 120f                  8.7
mma\.sp.*\.kind::mxf4(nvf4)?\..*                              120a 121a             8.7
wmma\..*                                                      70                    6.0
wmma\..*\.(s8|u8)\b.*                                         72                    6.3
wmma\..*\.(s4|u4|b1)\b.*                                      75                    6.3
wmma\..*\.(bf16|tf32|f64)\b.*                                 80                    7.0
wmma\..*\.and\.popc.*                                         80                    7.1
wgmma\..*                                                     90a                   8.0
wgmma\.mma_async\..*\.(s8\.u8|u8\.s8)                         90a                   8.4
tcgen05\..*                                                   100f 110f             8.6

cp\.async\.(ca|cg|commit_group|wait_group|wait_all|mbarrier)\b.*  80                7.0
cp\.async\.(ca|cg)\..*L2::.*                                  80                    7.4
cp(\.reduce)?\.async\.bulk\b.*                                90                    8.0
cp\.async\.bulk\.(tensor\..d\.)?shared::cta\.global\..*       90                    8.6
cp\.async\.bulk\..*\.cp_mask\b.*                              100                   8.6
cp\.async\.bulk\..*\.(tile::(gather4|scatter4)|im2col::w)\b.* 100                   8.6
cp\.async\.bulk\.(tensor\..d|prefetch)\b(?!\.shared::cta)\..*\.im2col::w\b.*      100f 110f  8.6
cp\.async\.bulk\.(tensor\..d|prefetch)\b(?!\.shared::cta)\..*\.tile::(ga|sca)t.*  100f 110f  8.6
cp\.async\.bulk\..*\.im2col::w::128\b.*                       100f 110f             8.6
cp\.async\.bulk\.tensor.*\.cta_group::.*                      100f 110f             8.6
tensormap\.cp_fenceproxy\..*                                  90                    8.3
tensormap\.replace\..*                                        90a 100f 110f 120f    8.3
tensormap\.replace\..*\.swizzle_atomicity\..*                 100f 110f 120f        8.6
prefetch\..*tensormap                                         90                    8.0
prefetch\..*L2::evict.*                                       80                    7.4
(createpolicy|applypriority|discard)\..*                      80                    7.4
(ld|st|atom|red)\..*\bL2::cache_hint.*                        80                    7.4
ld(\..*)?\.L2::(64B|128B)\b.*                                 75                    7.4
ld(\..*)?\.L2::256B\b.*                                       80                    7.4
(ld|st)\..*\.b128                                             70                    8.3
(ld|st)\..*\.(v8\..32|v4\..64)                                100                   8.8
.*\.shared::cta\b.*                                           70                    7.8
.*\.shared::cluster\b.*                                       90                    7.8
(ld|st|atom|red|fence)\b.*\.cluster\b.*                       90                    7.8
(mapa|getctarank)\b.*                                         90                    7.8
st\.async\b.*                                                 90                    8.1
red\.async\b.*                                                90                    8.1
(atom|red)\..*\.v[248]\..*                                    90                    8.1
atom\..*\.b128                                                90                    8.3
(atom|red)\..*\.(bf16|bf16x2)                                 90                    7.8
(atom|red)\..*\.noftz\.f16                                    70                    6.3

mbarrier\..*                                                  80                    7.0
mbarrier\.test_wait\.parity\b.*                               80                    7.1
mbarrier\.try_wait\b.*                                        90                    7.8
mbarrier\.(.*\.)?(expect_tx|complete_tx)\b.*                  90                    8.0
mbarrier\..*\.(relaxed|cluster)\b.*                           90                    8.0
barrier\.cluster\..*                                          90                    7.8
(bar|barrier)\.cta\..*                                        70                    7.8
elect\.sync                                                   90                    8.0
griddepcontrol\..*                                            90                    7.8
setmaxnreg\..*                                                90a 100f 110f 120f    8.0
clusterlaunchcontrol\..*                                      100                   8.6
clusterlaunchcontrol\..*\.multicast::cluster::all\b.*         100f 110f 120f        8.6
redux\.sync\..*                                               80                    7.0
redux\.sync\..*\.f32                                          100f                  8.6
match\.sync\..*                                               70                    6.0
nanosleep\..*                                                 70                    6.3
fence\.proxy\.alias                                           70                    7.5
fence\.proxy\.async\b.*                                       90                    8.0
fence\.proxy\.tensormap\b.*                                   90                    8.3
fence\.mbarrier_init\b.*                                      90                    8.0
fence\.(acquire|release)\..*                                  90                    8.6

cvt\..*\.(f16x2|bf16x2|bf16)\.f32                             80                    7.0
cvt\..*\.satfinite\.f16\.f32                                  75                    8.1
cvt\..*\.relu\b.*\.f16\.f32                                   80                    7.0
cvt\..*\.tf32\.f32                                            80                    7.0
cvt\.(rn|rz)\b.*\.tf32\.f32                                   90                    7.8
cvt\..*\.satfinite\b.*\.tf32\.f32                             80                    8.1
cvt\.(rn|rz)\..*\bsatfinite\b.*\.tf32\.f32                    100                   8.6
cvt\.f32\.bf16                                                80                    7.1
cvt\b.*\.(?!f32\b)\w{2,4}\.bf16                               90                    7.8
cvt\b.*\.bf16\.(?!f32\b)\w{2,4}                               90                    7.8
cvt\..*\.(e4m3x2|e5m2x2)\b.*                                  89                    8.1
cvt\..*\.(e2m1|e2m3|e3m2|ue8m0).*                             100f 110f 120f        8.6
cvt\.rs\..*                                                   100a 103a             8.7
cvt\.pack\..*                                                 72                    6.5
cvt\.pack\.sat\.(u4|s4|u2|s2)\..*                             75                    6.5

(add|sub|mul)\b.*\.(bf16|bf16x2)                              90                    7.8
(abs|neg|fma|min|max)\b.*\.(bf16|bf16x2)                      80                    7.0
(min|max)\b.*\.(f16|f16x2)                                    80                    7.0
(min|max)\b.*\.NaN\b.*                                        80                    7.0
(min|max)(?!.*\.xorsign)(\..*)?\.abs\..*                      100                   8.8
(min|max)\b.*\.xorsign\b.*                                    86                    7.2
(min|max)\.relu\..*                                           90                    8.0
(add|min|max)\b.*\.(u16x2|s16x2)                              90                    8.0
(add|sub|mul|fma)\b.*\.f32x2                                  100                   8.6
(add|sub|fma)\b.*\.f32\.(f16|bf16)                            100                   8.6
fma\..*\.relu\..*                                             80                    7.0
fma\..*\.oob\b.*                                              90                    8.1
ex2\.approx(\.ftz)?\.(f16|f16x2)                              75                    7.0
ex2\.approx(\.ftz)?\.(bf16|bf16x2)                            90                    7.8
tanh\.approx\..*                                              75                    7.0
tanh\.approx\.(bf16|bf16x2)                                   90                    7.8
(set|setp)\..*\b(bf16|bf16x2)\b.*                             90                    7.8
(bmsk|szext)\..*                                              70                    7.6
"""
# Special registers and directives of clusters (PTX ISA, "Special Registers", "Cluster Dimension
# Directives").
_CLUSTER = re.compile(r"%(n?clusterid|cluster_n?cta(id|rank)|is_explicit_cluster)(\..)?")
_CLUSTER_DIRECTIVES = ("reqnctapercluster", "maxclusterrank", "explicitcluster")
_FAMILIES = {103: 100, 121: 120}


def _parsed(line: str) -> tuple[re.Pattern[str], tuple[str, ...], tuple[int, ...]]:
    pattern, *needed, version = line.split()
    return re.compile(pattern), tuple(needed), _numbers(version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


_TABLE = tuple(_parsed(line) for line in _RULES.splitlines() if line.strip())


def check_instructions(
    target: str, version: str, code: Iterable[Instruction], functions: Iterable[Function]
) -> None:
    """Raise `CD-T1` for what the architecture `target` has not, `CD-T2` for what is newer than the
    PTX `version`.
    """
    for ins in code:
        refusal = refused(ins.opcode, target, version)
        if refusal is None:
            for operand in ins.operands:
                if isinstance(operand, Special) and _CLUSTER.fullmatch(operand.name):
                    refusal = _lacking(operand.name, (("90",), (7, 8)), target, version)
        if refusal is not None:
            raise ins.error(*refusal)
    for function in functions:
        for directive in _CLUSTER_DIRECTIVES:
            if directive in function.tuning:
                refusal = _lacking(directive, (("90",), (7, 8)), target, version)
                if refusal is not None:
                    code_, message = refusal
                    raise EmulatorError(message, code=code_, ptx_line=function.line)


@lru_cache(maxsize=4096)
def refused(opcode: str, target: str, version: str = "99.0") -> tuple[str, str] | None:
    """The code and the reason why an opcode may not stand for a target and a version, or None."""
    for pattern, needed, introduced in _TABLE:
        if pattern.fullmatch(opcode):
            refusal = _lacking(opcode, (needed, introduced), target, version)
            if refusal is not None:
                return refusal
    return None


def _lacking(
    what: str, needs: tuple[tuple[str, ...], tuple[int, ...]], target: str, version: str
) -> tuple[str, str] | None:
    needed, introduced = needs
    if not any(_has(word, target) for word in needed):
        shown = " or ".join(_shown(word) for word in needed)
        return "CD-T1", f"{what} needs {shown}, got .target {target}"
    if _numbers(version) < introduced:
        major, minor = introduced
        return "CD-T2", f"{what} needs .version {major}.{minor} or later, got {version}"
    return None


def _has(word: str, target: str) -> bool:
    match = re.fullmatch(r"sm_(\d+)([af]?)", target)
    if match is None:
        return True  # text of another kind of target, such as texmode, is for ptxas to judge
    number, suffix = int(match[1]), match[2]
    if word.endswith("a"):
        return suffix == "a" and number == int(word[:-1])
    if word.endswith("f"):
        return suffix != "" and _FAMILIES.get(number, number) == int(word[:-1])
    return number >= int(word)


def _shown(word: str) -> str:
    if word.endswith("a"):
        return f"sm_{word}"
    return f"the family sm_{word}" if word.endswith("f") else f"sm_{word} or later"
