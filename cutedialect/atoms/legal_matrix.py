"""Forms of `ldmatrix`, `stmatrix` and `movmatrix`. Source: PTX ISA 9.1, confirmed with ptxas 13,
save that `.x8`, which ptxas takes without the manual, is refused here.
"""

from __future__ import annotations

from cutedialect.atoms.forms import Form, parse_forms

# Targets of the 8-bit forms.
_B8 = "sm_100f sm_110f sm_120f"

_MACROS = {
    "s": "[.<shared|shared::cta>]",
    "b8": _B8,
    "unpack": "b8x16.<b6x16_p32|b4x16_p64>",
}

_TABLE = """
ldmatrix.sync.aligned.m8n8.x1[.trans]$s.b16 ; v1 m ; sm_75+
ldmatrix.sync.aligned.m8n8.x2[.trans]$s.b16 ; v2 m ; sm_75+
ldmatrix.sync.aligned.m8n8.x4[.trans]$s.b16 ; v4 m ; sm_75+
ldmatrix.sync.aligned.m16n16.x1.trans$s.b8 ; v2 m ; $b8
ldmatrix.sync.aligned.m16n16.x2.trans$s.b8 ; v4 m ; $b8
ldmatrix.sync.aligned.m16n16.x1.trans$s.$unpack ; v2 m ; $b8
ldmatrix.sync.aligned.m16n16.x2.trans$s.$unpack ; v4 m ; $b8
ldmatrix.sync.aligned.m8n16.x1$s.$unpack ; v1 m ; $b8
ldmatrix.sync.aligned.m8n16.x2$s.$unpack ; v2 m ; $b8
ldmatrix.sync.aligned.m8n16.x4$s.$unpack ; v4 m ; $b8

stmatrix.sync.aligned.m8n8.x1[.trans]$s.b16 ; m v1 ; sm_90+
stmatrix.sync.aligned.m8n8.x2[.trans]$s.b16 ; m v2 ; sm_90+
stmatrix.sync.aligned.m8n8.x4[.trans]$s.b16 ; m v4 ; sm_90+
stmatrix.sync.aligned.m16n8.x1.trans$s.b8 ; m v1 ; $b8
stmatrix.sync.aligned.m16n8.x2.trans$s.b8 ; m v2 ; $b8
stmatrix.sync.aligned.m16n8.x4.trans$s.b8 ; m v4 ; $b8

movmatrix.sync.aligned.m8n8.trans.b16 ; d r ; sm_75+
"""


def forms() -> list[Form]:
    """Every form of the matrix moves."""
    return parse_forms(_TABLE, _MACROS)
