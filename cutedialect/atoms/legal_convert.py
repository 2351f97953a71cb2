"""Forms of `cvt`. Source: PTX ISA 9.1, "cvt" and "cvt.pack", confirmed with ptxas 13."""

from __future__ import annotations

from cutedialect.atoms.forms import Form, parse_forms

_MACROS = {
    "i": "<u8|u16|u32|u64|s8|s16|s32|s64>",
    "wide": "<u16|u32|u64|s16|s32|s64>",
    "ir": "<rni|rzi|rmi|rpi>",
    "r": "<rn|rz|rm|rp>",
    "f": "<f16|f32|f64>",
    "f8": "<e4m3x2|e5m2x2>",
    "f6": "<e2m3x2|e3m2x2>",
    "small": "sm_100f sm_110f sm_120f",
    "rs": "sm_100a sm_103a",
}

_TABLE = """
cvt.$i.$i ; d s ; sm_70+
cvt.$ir[.sat].$i.f16 ; d r ; sm_70+
cvt.$ir[.ftz][.sat].$i.f32 ; d f ; sm_70+
cvt.$ir[.sat].$i.f64 ; d f ; sm_70+
cvt.$r[.sat].$f.$i ; d s ; sm_70+
cvt.$r.ftz[.sat].f32.$i ; d s ; sm_70+

cvt[.$ir][.sat].f16.f16 ; d r ; sm_70+
cvt[.$ir][.ftz][.sat].f32.f32 ; d f ; sm_70+
cvt[.$ir][.sat].f64.f64 ; d f ; sm_70+
cvt[.ftz][.sat].f32.f16 ; d r ; sm_70+
cvt[.sat].f64.f16 ; d r ; sm_70+
cvt[.ftz][.sat].f64.f32 ; d f ; sm_70+
cvt.$r[.ftz][.sat].f16.f32 ; d f ; sm_70+
cvt.$r[.sat].f16.f64 ; d f ; sm_70+
cvt.$r[.ftz][.sat].f32.f64 ; d f ; sm_70+

cvt.<rn|rz>[.relu].<f16|bf16>.f32 ; d f ; sm_80+
cvt.<rn|rz>[.relu].satfinite.<f16|bf16>.f32 ; d f ; sm_80+
cvt.<rn|rz>.satfinite.f16.f32 ; d f ; sm_75+
cvt.<rn|rz>[.relu].<f16x2|bf16x2>.f32 ; d f f ; sm_80+
cvt.<rn|rz>[.relu].satfinite.<f16x2|bf16x2>.f32 ; d f f ; sm_80+
cvt.rs[.relu][.satfinite].<f16x2|bf16x2>.f32 ; d f f r ; $rs
cvt.rna[.satfinite].tf32.f32 ; d f ; sm_80+
cvt.<rn|rz>[.relu].tf32.f32 ; d f ; sm_90+
cvt.<rn|rz>[.satfinite][.relu].tf32.f32 ; d f ; sm_100+

cvt.$r.bf16.<f16|f64> ; d r ; sm_90+
cvt.$r.bf16.$wide ; d s ; sm_90+
cvt.$ir.$wide.bf16 ; d r ; sm_90+
cvt.f32.bf16 ; d r ; sm_80+
cvt.f64.bf16 ; d r ; sm_90+
cvt[.$r].f16.bf16 ; d r ; sm_90+
cvt[.$ir].bf16.bf16 ; d r ; sm_90+

cvt.rn.satfinite[.relu].$f8.f32 ; d f f ; sm_89+
cvt.rn.satfinite[.relu].$f8.f16x2 ; d r ; sm_89+
cvt.rn[.relu].f16x2.$f8 ; d r ; sm_89+
cvt.rn.satfinite[.relu].<e2m1x2|e2m3x2|e3m2x2>.f32 ; d f f ; $small
cvt.rn[.relu].f16x2.<e2m1x2|e2m3x2|e3m2x2> ; d r ; $small
cvt.<rz|rp>[.satfinite].ue8m0x2.f32 ; d f f ; $small
cvt.<rz|rp>[.satfinite].ue8m0x2.bf16x2 ; d r ; $small
cvt.rn.bf16x2.ue8m0x2 ; d r ; $small
cvt.rs[.relu].satfinite.<e4m3x4|e5m2x4|e2m3x4|e3m2x4|e2m1x4>.f32 ; d v4 r ; $rs

cvt.pack.sat.<u16|s16>.s32 ; d s s ; sm_72+
cvt.pack.sat.<u8|s8>.s32.b32 ; d s s s ; sm_72+
cvt.pack.sat.<u4|s4|u2|s2>.s32.b32 ; d s s s ; sm_75+
"""


def _saturating() -> list[str]:
    """`.sat` between integers: only where the result cannot hold every value of the source."""
    widths = (8, 16, 32, 64)
    lines: list[str] = []
    for to in ("u", "s"):
        for of in ("u", "s"):
            for wide in widths:
                for narrow in widths:
                    fits = narrow > wide or (narrow == wide and to == of)
                    if not (fits and (to, of) != ("u", "s")):
                        lines.append(f"cvt.sat.{to}{narrow}.{of}{wide} ; d s ; sm_70+")
    return lines


def forms() -> list[Form]:
    """Every form of `cvt`."""
    return parse_forms(_TABLE + "\n".join(_saturating()), _MACROS)
