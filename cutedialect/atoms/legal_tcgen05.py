"""Forms of `tcgen05`. What the instruction descriptor says (M, N, operand types) is a matter of run
time and not judged. Source: PTX ISA 9.1, "TensorCore 5th Generation Instructions".
"""

from __future__ import annotations

from cutedialect.atoms.forms import Form, parse_forms

_ON = "sm_100f sm_110f"
# 8-bit integers and shift: exact chips only.
_ON_INTEGER = "sm_100a sm_110a"

_MACROS = {
    "cg": "cta_group::<1|2>",
    "ss": "[.shared::cta]",
    "on": _ON,
    "cp": "[.b8x16.<b6x16_p32|b4x16_p64>]",
}

_SIMPLE = """
tcgen05.alloc.$cg.sync.aligned$ss.b32 ; m s{32,64,128,256,512} ; $on
tcgen05.dealloc.$cg.sync.aligned.b32 ; r s{32,64,128,256,512} ; $on
tcgen05.relinquish_alloc_permit.$cg.sync.aligned ; ; $on
tcgen05.wait::<ld|st>.sync.aligned ; ; $on
tcgen05.fence::<before_thread_sync|after_thread_sync> ; ; $on
tcgen05.commit.$cg.mbarrier::arrive::one[.shared::cluster].b64 ; m ; $on
tcgen05.commit.$cg.mbarrier::arrive::one[.shared::cluster].multicast::cluster.b64 ; m h ; $on
tcgen05.shift.$cg.down ; a ; sm_100a sm_103a sm_110a
tcgen05.cp.$cg.<128x256b|4x256b|128x128b>$cp ; a e ; $on
tcgen05.cp.$cg.64x128b.<warpx2::02_13|warpx2::01_23>$cp ; a e ; $on
tcgen05.cp.$cg.32x128b.warpx4$cp ; a e ; $on
"""

# Shape of tcgen05.ld and st: registers of .x1, largest repetition.
_SHAPES = {
    "32x32b": (1, 128),
    "16x64b": (1, 128),
    "16x128b": (2, 64),
    "16x256b": (4, 32),
    "16x32bx2": (1, 128),
}

_A_COLLECTOR = "[.collector::a::<fill|use|lastuse|discard>]"
_A_COLLECTOR_SHIFTED = "[.collector::a::<lastuse|discard>]"
_B_COLLECTOR = "[.collector::<b0|b1|b2|b3>::<fill|use|lastuse|discard>]"


def _loads_and_stores() -> list[str]:
    lines: list[str] = []
    for shape, (registers, largest) in _SHAPES.items():
        half = "i" if shape == "16x32bx2" else ""
        repeat = 1
        while repeat <= largest:
            n = registers * repeat
            tail = f"sync.aligned.{shape}.x{repeat}"
            lines.append(f"tcgen05.ld.{tail}[.pack::16b].b32 ; v{n} a {half} ; {_ON}")
            lines.append(f"tcgen05.st.{tail}[.unpack::16b].b32 ; a {half} v{n} ; {_ON}")
            if registers == 1 and repeat >= 2 and shape != "16x64b":
                for kind in (".f32", ".<u32|s32>"):
                    how = "[.abs][.NaN]" if kind == ".f32" else ""
                    lines.append(
                        f"tcgen05.ld.red.{tail}.<min|max>{how}{kind} ; v{n} d a {half} ; "
                        "sm_103a sm_110a"
                    )
            repeat *= 2
    return lines


def _products() -> list[str]:
    """Dense and sparse products without block scales."""
    lines: list[str] = []
    for kinds, requires in (("<f16|tf32|f8f6f4>", _ON), ("i8", _ON_INTEGER)):
        for sparse, metadata in (("", ""), (".sp", "a")):
            for group, lanes in ((1, 4), (2, 8)):
                head = f"tcgen05.mma{sparse}.cta_group::{group}.kind::{kinds}"
                for mask in ("", f"v{lanes}"):
                    operands = f"e {metadata} s {mask} c".split()
                    descriptor = " ".join(["a", "e", *operands])
                    tmem = " ".join(["a", "a", *operands])
                    lines.append(f"{head}{_A_COLLECTOR} ; {descriptor} ; {requires}")
                    lines.append(f"{head}{_A_COLLECTOR} ; {tmem} ; {requires}")
                    lines.append(f"{head}.ashift{_A_COLLECTOR_SHIFTED} ; {tmem} ; {requires}")
                    if kinds == "i8":
                        continue
                    scaled = f"tcgen05.mma{sparse}.cta_group::{group}.kind::<f16|tf32>"
                    for how, a in (("", descriptor), ("", tmem), (".ashift", tmem)):
                        collector = _A_COLLECTOR_SHIFTED if how else _A_COLLECTOR
                        lines.append(f"{scaled}{how}{collector} ; {a} i{{0..15}} ; sm_100f")
            head = f"tcgen05.mma.ws{sparse}.cta_group::1.kind::{kinds}{_B_COLLECTOR}"
            for a in ("e", "a"):
                lines.append(f"{head} ; a {a} e {metadata} s c e? ; {requires}")
    return lines


def _scaled_products() -> list[str]:
    """Block-scaled products: `.scale_vec` is for exact chips, `.block` for families too."""
    lines: list[str] = []
    exact = "sm_100a sm_103a sm_110a"
    for kind, vectors, blocks in (
        ("mxf8f6f4", "scale_vec::1X", "[.block32]"),
        ("mxf4", "scale_vec::2X", "[.block32]"),
        ("mxf4nvf4", "<scale_vec::2X|scale_vec::4X>", ".<block16|block32>"),
    ):
        for sparse, metadata in (("", ""), (".sp", "a")):
            # Sparse 4-bit products are for exact chips too.
            family = exact if sparse and kind != "mxf8f6f4" else _ON
            head = f"tcgen05.mma{sparse}.$cg.kind::{kind}.block_scale"
            for a in ("e", "a"):
                operands = f"a {a} e {metadata} s a a c"
                lines.append(f"{head}.{vectors}{_A_COLLECTOR} ; {operands} ; {exact}")
                lines.append(f"{head}{blocks}{_A_COLLECTOR} ; {operands} ; {family}")
    return lines


def forms() -> list[Form]:
    """Every form of `tcgen05`."""
    lines = [*_loads_and_stores(), *_products(), *_scaled_products()]
    return parse_forms(_SIMPLE + "\n".join(lines), _MACROS)
