"""Forms of arithmetic, logic, comparison, moves and control flow.
Source: PTX ISA 9.1, "Instructions", confirmed with ptxas 13.
"""

from __future__ import annotations

from cutedialect.atoms.forms import Form, parse_forms

_MACROS = {
    "i": "<u16|u32|u64|s16|s32|s64>",
    "i32": "<u32|s32>",
    "ic": "<u32|s32|u64|s64>",
    "s": "<s16|s32|s64>",
    "b": "<b16|b32|b64>",
    "r": "<rn|rz|rm|rp>",
    "h": "<f16|f16x2>",
    "bh": "<bf16|bf16x2>",
    "any": "<b16|b32|b64|u16|u32|u64|s16|s32|s64>",
    "icmp": "<eq|ne|lt|le|gt|ge|lo|ls|hi|hs>",
    "ucmp": "<eq|ne|lt|le|gt|ge|lo|ls|hi|hs>",
    "scmp": "<eq|ne|lt|le|gt|ge>",
    "fcmp": "<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>",
    "bool": "<and|or|xor>",
    "dt": "<u32|s32|f32|f16>",
}

_TABLE = """
<add|sub>.$i ; d s s ; sm_70+
<add|sub>.sat.s32 ; d s s ; sm_70+
add.<u16x2|s16x2> ; d r r ; sm_90+
<add|sub>[.$r][.ftz][.sat].f32 ; d f f ; sm_70+
<add|sub>[.$r].f64 ; d f f ; sm_70+
<add|sub>[.$r][.ftz].f32x2 ; d r r ; sm_100+
<add|sub>[.rn][.ftz][.sat].$h ; d r r ; sm_70+
<add|sub>[.rn].$bh ; d r r ; sm_90+
<add|sub>[.$r][.sat].f32.<f16|bf16> ; d r r ; sm_100+
<add|sub>.cc.$ic ; d s s ; sm_70+
<addc|subc>[.cc].$ic ; d s s ; sm_70+

mul.<lo|hi>.$i ; d s s ; sm_70+
mul.wide.<u16|s16|u32|s32> ; d s s ; sm_70+
mul[.$r][.ftz][.sat].f32 ; d f f ; sm_70+
mul[.$r].f64 ; d f f ; sm_70+
mul[.$r][.ftz].f32x2 ; d r r ; sm_100+
mul[.rn][.ftz][.sat].$h ; d r r ; sm_70+
mul[.rn].$bh ; d r r ; sm_90+
mad.<lo|hi>.$i ; d s s s ; sm_70+
mad.wide.<u16|s16|u32|s32> ; d s s s ; sm_70+
mad.hi.sat.s32 ; d s s s ; sm_70+
mad.$r[.ftz][.sat].f32 ; d f f f ; sm_70+
mad.$r.f64 ; d f f f ; sm_70+
mad.<lo|hi>.cc.$ic ; d s s s ; sm_70+
madc.<lo|hi>[.cc].$ic ; d s s s ; sm_70+
mul24.<lo|hi>.$i32 ; d s s ; sm_70+
mad24.<lo|hi>.$i32 ; d s s s ; sm_70+
mad24.hi.sat.s32 ; d s s s ; sm_70+
sad.$i ; d s s s ; sm_70+
<div|rem>.$i ; d s s ; sm_70+
div.<approx|full>[.ftz].f32 ; d f f ; sm_70+
div.$r[.ftz].f32 ; d f f ; sm_70+
div.$r.f64 ; d f f ; sm_70+
<abs|neg>.$s ; d s ; sm_70+
<abs|neg>[.ftz].f32 ; d f ; sm_70+
<abs|neg>.f64 ; d f ; sm_70+
<abs|neg>[.ftz].$h ; d r ; sm_70+
<abs|neg>.$bh ; d r ; sm_80+
<min|max>.$i ; d s s ; sm_70+
<min|max>[.relu].s32 ; d s s ; sm_90+
<min|max>.u16x2 ; d r r ; sm_90+
<min|max>[.relu].s16x2 ; d r r ; sm_90+
<min|max>[.ftz].f32 ; d f f ; sm_70+
<min|max>[.ftz].NaN.f32 ; d f f ; sm_80+
<min|max>[.ftz][.NaN].xorsign.abs.f32 ; d f f ; sm_86+
<min|max>[.ftz][.NaN][.abs].f32 ; d f f f ; sm_100+
<min|max>.f64 ; d f f ; sm_70+
<min|max>[.ftz][.NaN].$h ; d r r ; sm_80+
<min|max>[.ftz][.NaN].xorsign.abs.$h ; d r r ; sm_86+
<min|max>[.NaN].$bh ; d r r ; sm_80+
<min|max>[.NaN].xorsign.abs.$bh ; d r r ; sm_86+
fma.$r[.ftz][.sat].f32 ; d f f f ; sm_70+
fma.$r.f64 ; d f f f ; sm_70+
fma.$r[.ftz].f32x2 ; d r r r ; sm_100+
fma.rn[.ftz][.sat].$h ; d r r r ; sm_70+
fma.rn[.ftz].relu.$h ; d r r r ; sm_80+
fma.rn[.relu].$bh ; d r r r ; sm_80+
fma.rn.oob[.relu].<f16|f16x2|bf16|bf16x2> ; d r r r ; sm_90+
fma.$r[.sat].f32.<f16|bf16> ; d r r r ; sm_100+
rcp.approx[.ftz].f32 ; d f ; sm_70+
rcp.$r[.ftz].f32 ; d f ; sm_70+
rcp.$r.f64 ; d f ; sm_70+
rcp.approx.ftz.f64 ; d f ; sm_70+
sqrt.approx[.ftz].f32 ; d f ; sm_70+
sqrt.$r[.ftz].f32 ; d f ; sm_70+
sqrt.$r.f64 ; d f ; sm_70+
rsqrt.approx[.ftz].<f32|f64> ; d f ; sm_70+
<sin|cos|lg2|ex2>.approx[.ftz].f32 ; d f ; sm_70+
ex2.approx.$h ; d r ; sm_75+
ex2.approx.ftz.$bh ; d r ; sm_90+
tanh.approx.f32 ; d f ; sm_75+
tanh.approx.$h ; d r ; sm_75+
tanh.approx.$bh ; d r ; sm_90+
testp.<finite|infinite|number|notanumber|normal|subnormal>.<f32|f64> ; p f ; sm_70+
copysign.<f32|f64> ; d f f ; sm_70+

<and|or|xor>.$b ; d s s ; sm_70+
<and|or|xor>.pred ; p c c ; sm_70+
not.$b ; d s ; sm_70+
not.pred ; p c ; sm_70+
cnot.$b ; d s ; sm_70+
lop3.b32 ; d s s s i{0..255} ; sm_70+
lop3.<and|or>.b32 ; d_|p s s s i{0..255} c ; sm_70+
shl.$b ; d s k ; sm_70+
shr.$any ; d s k ; sm_70+
shf.<l|r>.<clamp|wrap>.b32 ; d s s s ; sm_70+
bfe.$ic ; d s k{0..255} k{0..255} ; sm_70+
bfi.<b32|b64> ; d s s k{0..255} k{0..255} ; sm_70+
bfind[.shiftamt].$ic ; d s ; sm_70+
<brev|clz|popc>.<b32|b64> ; d s ; sm_70+
fns.b32 ; d s s s ; sm_70+
szext.<clamp|wrap>.$i32 ; d s s ; sm_70+
bmsk.<clamp|wrap>.b32 ; d s s ; sm_70+
dp4a.$i32.$i32 ; d s s s ; sm_70+
dp2a.<lo|hi>.$i32.$i32 ; d s s s ; sm_70+

setp.<eq|ne>.$b ; p s s ; sm_70+
setp.<eq|ne>.$b ; p_|p_ s s ; sm_70+
setp.$ucmp.<u16|u32|u64> ; p s s ; sm_70+
setp.$ucmp.<u16|u32|u64> ; p_|p_ s s ; sm_70+
setp.$scmp.$s ; p s s ; sm_70+
setp.$scmp.$s ; p_|p_ s s ; sm_70+
setp.$fcmp[.ftz].f32 ; p f f ; sm_70+
setp.$fcmp[.ftz].f32 ; p_|p_ f f ; sm_70+
setp.$fcmp.f64 ; p f f ; sm_70+
setp.$fcmp.f64 ; p_|p_ f f ; sm_70+
setp.$fcmp[.ftz].f16 ; p r r ; sm_70+
setp.$fcmp[.ftz].f16x2 ; p|p r r ; sm_70+
setp.$fcmp.bf16 ; p r r ; sm_90+
setp.$fcmp.bf16x2 ; p|p r r ; sm_90+
setp.<eq|ne>.$bool.$b ; p s s c ; sm_70+
setp.<eq|ne>.$bool.$b ; p_|p_ s s c ; sm_70+
setp.$ucmp.$bool.<u16|u32|u64> ; p s s c ; sm_70+
setp.$ucmp.$bool.<u16|u32|u64> ; p_|p_ s s c ; sm_70+
setp.$scmp.$bool.$s ; p s s c ; sm_70+
setp.$scmp.$bool.$s ; p_|p_ s s c ; sm_70+
setp.$fcmp.$bool[.ftz].f32 ; p f f c ; sm_70+
setp.$fcmp.$bool[.ftz].f32 ; p_|p_ f f c ; sm_70+
setp.$fcmp.$bool.f64 ; p f f c ; sm_70+
setp.$fcmp.$bool.f64 ; p_|p_ f f c ; sm_70+
setp.$fcmp.$bool[.ftz].f16 ; p r r c ; sm_70+
setp.$fcmp.$bool[.ftz].f16x2 ; p|p r r c ; sm_70+
setp.$fcmp.$bool.bf16 ; p r r c ; sm_90+
setp.$fcmp.$bool.bf16x2 ; p|p r r c ; sm_90+
set.<eq|ne>.$dt.$b ; d s s ; sm_70+
set.$ucmp.$dt.<u16|u32|u64> ; d s s ; sm_70+
set.$scmp.$dt.$s ; d s s ; sm_70+
set.$fcmp[.ftz].$dt.f32 ; d f f ; sm_70+
set.$fcmp.$dt.f64 ; d f f ; sm_70+
set.<eq|ne>.$bool.$dt.$b ; d s s c ; sm_70+
set.$ucmp.$bool.$dt.<u16|u32|u64> ; d s s c ; sm_70+
set.$scmp.$bool.$dt.$s ; d s s c ; sm_70+
set.$fcmp.$bool[.ftz].$dt.f32 ; d f f c ; sm_70+
set.$fcmp.$bool.$dt.f64 ; d f f c ; sm_70+
set.<eq|ne>.bf16.$b ; d s s ; sm_90+
set.$ucmp.bf16.<u16|u32|u64> ; d s s ; sm_90+
set.$scmp.bf16.$s ; d s s ; sm_90+
set.$fcmp.bf16.<f32|f64> ; d f f ; sm_90+
set.<eq|ne>.$bool.bf16.$b ; d s s c ; sm_90+
set.$ucmp.$bool.bf16.<u16|u32|u64> ; d s s c ; sm_90+
set.$scmp.$bool.bf16.$s ; d s s c ; sm_90+
set.$fcmp.$bool.bf16.<f32|f64> ; d f f c ; sm_90+
set.$fcmp[.ftz].<f16|u16|s16|u32|s32>.f16 ; d r r ; sm_70+
set.$fcmp.$bool[.ftz].<f16|u16|s16|u32|s32>.f16 ; d r r c ; sm_70+
set.$fcmp[.ftz].<f16x2|u32|s32>.f16x2 ; d r r ; sm_70+
set.$fcmp.$bool[.ftz].<f16x2|u32|s32>.f16x2 ; d r r c ; sm_70+
set.$fcmp.<bf16|u16|s16|u32|s32>.bf16 ; d r r ; sm_90+
set.$fcmp.$bool.<bf16|u16|s16|u32|s32>.bf16 ; d r r c ; sm_90+
set.$fcmp.<bf16x2|u32|s32>.bf16x2 ; d r r ; sm_90+
set.$fcmp.$bool.<bf16x2|u32|s32>.bf16x2 ; d r r c ; sm_90+
selp.$any ; d s s c ; sm_70+
selp.<f32|f64> ; d f f c ; sm_70+
slct.$any.s32 ; d s s s ; sm_70+
slct.<f32|f64>.s32 ; d f f s ; sm_70+
slct[.ftz].$any.f32 ; d s s f ; sm_70+
slct[.ftz].<f32|f64>.f32 ; d f f f ; sm_70+

mov.$any ; d q ; sm_70+
mov.<b32|b64> ; d x ; sm_70+
mov.<b32|b64|u32|u64|s32|s64> ; d n ; sm_70+
mov.<f32|f64> ; d f ; sm_70+
mov.pred ; p c ; sm_70+
mov.b128 ; d r ; sm_70+
mov.<b16|b32|b64|b128> ; d v2 ; sm_70+
mov.<b32|b64|b128> ; d v4 ; sm_70+
mov.<b16|b32|b64|b128> ; v2 r ; sm_70+
mov.<b32|b64|b128> ; v4 r ; sm_70+
prmt.b32[.<f4e|b4e|rc8|ecl|ecr|rc16>] ; d s s s ; sm_70+

bra[.uni] ; y ; sm_70+
brx.idx[.uni] ; s y ; sm_70+
call[.uni] ; y ; sm_70+
call[.uni] ; y g ; sm_70+
call[.uni] ; g y g? ; sm_70+
call[.uni] ; r g y ; sm_70+
call[.uni] ; g r g y ; sm_70+
ret[.uni] ; ; sm_70+
exit ; ; sm_70+
trap ; ; sm_70+
brkpt ; ; sm_70+
pmevent ; i{0..15} ; sm_70+
pmevent.mask ; i{0..65535} ; sm_70+
"""


def forms() -> list[Form]:
    """Every form of scalar instructions."""
    return parse_forms(_TABLE, _MACROS)
