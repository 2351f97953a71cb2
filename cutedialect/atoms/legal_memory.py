"""Forms of loads, stores, atomics, address conversions and cache controls.
Source: PTX ISA 9.1, "Data Movement and Conversion" and "atom", "red", confirmed with ptxas 13.
"""

from __future__ import annotations

from cutedialect.atoms.forms import Form, parse_forms

_MACROS = {
    "t": "<b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64>",
    "scalar": "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64",
    "t32": "<b8|b16|b32|u8|u16|u32|s8|s16|s32|f32>",
    "w32": "<b32|u32|s32|f32>",
    "w64": "<b64|u64|s64|f64>",
    "tx": "mbarrier::complete_tx::bytes",
    "l1": (
        "[.<L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate>]"
    ),
    "l2": "[.<L2::evict_normal|L2::evict_first|L2::evict_last>]",
    "pre": "[.<L2::64B|L2::128B|L2::256B>]",
    "cta": "<shared|shared::cta>",
    "sem": "<relaxed|acquire|release|acq_rel>",
    "and": "<and|or|xor>",
    "primary": "<L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged>",
    "secondary": "[.<L2::evict_first|L2::evict_unchanged>]",
}

# Spaces of a plain load and store; `.shared::cluster` came with sm_90.
_LOAD_SPACES = "[.<const|global|local|param|param::entry|param::func|shared|shared::cta>]"
_STORE_SPACES = "[.<global|local|param|param::func|shared|shared::cta>]"
_STRONG_SPACES = "[.<global|shared|shared::cta>]"

# Vector width, types, operand.
_VECTORS = (
    ("", "<$scalar|b128>", "1"),
    (".v2", "$t", "2"),
    (".v4", "$t32", "4"),
)
# A store of one value takes a literal of its type.
_SCALARS = (
    ("", "<b8|b16|b32|b64>", "x"),
    ("", "<u8|u16|u32|u64|s8|s16|s32|s64>", "s"),
    ("", "<f32|f64>", "f"),
    ("", "b128", "r"),
)
_WIDE = ((".v8", "$w32", "8"), (".v4", "$w64", "4"))


def _loads() -> list[str]:
    lines: list[str] = []
    for vector, types, count in _VECTORS:
        d = "d" if count == "1" else f"v{count}"
        for space, requires in ((_LOAD_SPACES, "sm_70+"), (".shared::cluster", "sm_90+")):
            lines.append(f"ld[.weak]{space}{vector}.{types} ; {d} m ; {requires}")
            lines.append(f"ld[.weak]{space}.<ca|cg|cs|lu|cv>{vector}.{types} ; {d} m ; {requires}")
            strong = _STRONG_SPACES if requires == "sm_70+" else space
            lines.append(f"ld.volatile{strong}{vector}.{types} ; {d} m ; {requires}")
            scopes = "<cta|gpu|sys>"
            lines.append(
                f"ld.<relaxed|acquire>.{scopes}{strong}{vector}.{types} ; {d} m ; {requires}"
            )
        strong = "[.<global|shared|shared::cta|shared::cluster>]"
        lines.append(f"ld.<relaxed|acquire>.cluster{strong}{vector}.{types} ; {d} m ; sm_90+")
        # Hints for the two cache levels are for global and generic addresses.
        for prefetch, first in (
            ("", "sm_70+"),
            (".<L2::64B|L2::128B>", "sm_75+"),
            (".L2::256B", "sm_80+"),
        ):
            tail = f"{prefetch}{vector}.{types} ; {d} m"
            strong = "<relaxed|acquire>.<cta|gpu|sys>[.global]"
            lines.append(f"ld[.weak][.global]$l1{tail} ; {first}")
            lines.append(f"ld[.weak][.global].<ca|cg|cs|lu|cv>{tail} ; {first}")
            lines.append(f"ld.{strong}$l1{tail} ; {first}")
            lines.append(f"ld.global$l1.nc{tail} ; {first}")
            lines.append(f"ld.global.nc$l1{tail} ; {first}")
            lines.append(f"ld.global.<ca|cg|cs>.nc{tail} ; {first}")
            lines.append(f"ld[.weak][.global]$l1.L2::cache_hint{tail} e ; sm_80+")
            lines.append(f"ld[.weak][.global].<ca|cg|cs|lu|cv>.L2::cache_hint{tail} e ; sm_80+")
            lines.append(f"ld.{strong}$l1.L2::cache_hint{tail} e ; sm_80+")
            lines.append(f"ld.global.nc$l1.L2::cache_hint{tail} e ; sm_80+")
            lines.append(f"ld.global.<ca|cg|cs>.nc.L2::cache_hint{tail} e ; sm_80+")
        lines.append(f"ldu[.global]{vector}.{types} ; {d} m ; sm_70+")
    for vector, types, count in _WIDE:
        stem = "ld.global[.nc]$l1$l2"
        lines.append(f"{stem}$pre{vector}.{types} ; v{count} m ; sm_100+")
        lines.append(f"{stem}.L2::cache_hint$pre{vector}.{types} ; v{count} m e ; sm_100+")
        lines.append(f"ld.volatile.global{vector}.{types} ; v{count} m ; sm_100+")
        lines.append(
            f"ld.<relaxed|acquire>.<cta|cluster|gpu|sys>.global{vector}.{types} ; "
            f"v{count} m ; sm_100+"
        )
    lines.append("ld.mmio.relaxed.sys[.global].$t ; d m ; sm_70+")
    return lines


def _stores() -> list[str]:
    lines: list[str] = []
    for vector, types, count in (*_SCALARS, *_VECTORS[1:]):
        s = count if count in ("x", "s", "f", "r") else f"w{count}"
        for space, requires in ((_STORE_SPACES, "sm_70+"), (".shared::cluster", "sm_90+")):
            lines.append(f"st[.weak]{space}{vector}.{types} ; m {s} ; {requires}")
            lines.append(f"st[.weak]{space}.<wb|cg|cs|wt>{vector}.{types} ; m {s} ; {requires}")
            strong = _STRONG_SPACES if requires == "sm_70+" else space
            lines.append(f"st.volatile{strong}{vector}.{types} ; m {s} ; {requires}")
            lines.append(
                f"st.<relaxed|release>.<cta|gpu|sys>{strong}{vector}.{types} ; m {s} ; {requires}"
            )
        strong = "[.<global|shared|shared::cta|shared::cluster>]"
        lines.append(f"st.<relaxed|release>.cluster{strong}{vector}.{types} ; m {s} ; sm_90+")
        lines.append(f"st[.weak][.global]$l1{vector}.{types} ; m {s} ; sm_70+")
        lines.append(f"st[.weak][.global]$l1.L2::cache_hint{vector}.{types} ; m {s} e ; sm_80+")
        lines.append(
            f"st.<relaxed|release>.<cta|gpu|sys>[.global]$l1{vector}.{types} ; m {s} ; sm_70+"
        )
        lines.append(
            f"st.<relaxed|release>.<cta|gpu|sys>[.global]$l1.L2::cache_hint{vector}.{types} ; "
            f"m {s} e ; sm_80+"
        )
    for vector, types, count in _WIDE:
        lines.append(f"st[.weak].global$l1$l2{vector}.{types} ; m w{count} ; sm_100+")
        lines.append(
            f"st[.weak].global$l1$l2.L2::cache_hint{vector}.{types} ; m w{count} e ; sm_100+"
        )
        lines.append(f"st.volatile.global{vector}.{types} ; m w{count} ; sm_100+")
        lines.append(
            f"st.<relaxed|release>.<cta|cluster|gpu|sys>.global{vector}.{types} ; "
            f"m w{count} ; sm_100+"
        )
    lines += [f"st.mmio.relaxed.sys[.global].{types} ; m {s} ; sm_70+" for _, types, s in _SCALARS]
    head = "st.async[.weak][.shared::cluster].$tx"
    lines.append(f"{head}.<b32|b64> ; m x m ; sm_90+")
    lines.append(f"{head}.<u32|u64|s32|s64> ; m s m ; sm_90+")
    lines.append(f"{head}.<f32|f64> ; m f m ; sm_90+")
    lines.append(f"{head}.v2.<b32|b64|u32|u64|s32|s64|f32|f64> ; m w2 m ; sm_90+")
    lines.append(f"{head}.v4.$w32 ; m w4 m ; sm_90+")
    return lines


# Operation and types of `atom` and `red`, operands after the address, first target, only in atom.
_OPERATIONS = (
    (".$and", "<b32|b64>", "s", "sm_70+", False),
    (".exch", "<b32|b64>", "x", "sm_70+", True),
    (".cas", "b16", "x x", "sm_70+", True),
    (".cas", "<b32|b64>", "x x", "sm_70+", True),
    (".exch", "b128", "r", "sm_90+", True),
    (".cas", "b128", "r r", "sm_90+", True),
    (".add", "<u32|s32|u64>", "s", "sm_70+", False),
    (".add", "<f32|f64>", "f", "sm_70+", False),
    (".add.noftz", "<f16|f16x2>", "r", "sm_70+", False),
    (".add.noftz", "<bf16|bf16x2>", "r", "sm_90+", False),
    (".<inc|dec>", "u32", "s", "sm_70+", False),
    (".<min|max>", "<u32|s32|u64|s64>", "s", "sm_70+", False),
)


def _atomics() -> list[str]:
    lines: list[str] = []
    for name, d in (("atom", "d"), ("red", "")):
        sems = "$sem" if name == "atom" else "<relaxed|release>"
        for operation, types, values, requires, only_atom in _OPERATIONS:
            if only_atom and name == "red":
                continue
            operands = f"{d} m {values}"
            newer = requires if requires == "sm_90+" else "sm_90+"
            near = "[.<global|shared|shared::cta>]"
            all_ = "[.<global|shared|shared::cta|shared::cluster>]"
            lines.append(
                f"{name}[.{sems}][.<cta|gpu|sys>]{near}{operation}.{types} ; "
                f"{operands} ; {requires}"
            )
            lines.append(
                f"{name}[.{sems}][.<cta|cluster|gpu|sys>]{all_}{operation}.{types} ; "
                f"{operands} ; {newer}"
            )
            if ".cas" in operation:
                continue
            hinted = "sm_80+" if requires == "sm_70+" else requires
            lines.append(
                f"{name}[.{sems}][.<cta|gpu|sys>][.global]{operation}.L2::cache_hint.{types} ; "
                f"{operands} e ; {hinted}"
            )
        for count, kind, operations in (
            (2, "f32", "add"),
            (4, "f32", "add"),
            (2, "<f16|bf16>", "<add|min|max>.noftz"),
            (4, "<f16|bf16>", "<add|min|max>.noftz"),
            (8, "<f16|bf16>", "<add|min|max>.noftz"),
            (2, "<f16x2|bf16x2>", "<add|min|max>.noftz"),
            (4, "<f16x2|bf16x2>", "<add|min|max>.noftz"),
        ):
            result = f"v{count}" if d else ""
            stem = f"{name}[.{sems}][.<cta|cluster|gpu|sys>][.global]"
            tail = f"v{count}.{kind} ; {result} m v{count}"
            lines.append(f"{stem}.{operations}.{tail} ; sm_90+")
            lines.append(f"{stem}.{operations}.L2::cache_hint.{tail} e ; sm_90+")
    return lines


_SIMPLE = """
red.async.relaxed.cluster[.shared::cluster].$tx.<inc|dec>.u32 ; m s m ; sm_90+
red.async.relaxed.cluster[.shared::cluster].$tx.<min|max>.<u32|s32> ; m s m ; sm_90+
red.async.relaxed.cluster[.shared::cluster].$tx.add.<u32|s32|u64> ; m s m ; sm_90+
red.async.relaxed.cluster[.shared::cluster].$tx.$and.b32 ; m s m ; sm_90+

cvta.<const|global|local|shared|shared::cta|param|param::entry>.<u32|u64> ; d n ; sm_70+
cvta.to.<const|global|local|shared|shared::cta|param|param::entry>.<u32|u64> ; d s ; sm_70+
cvta.shared::cluster.<u32|u64> ; d n ; sm_90+
cvta.to.shared::cluster.<u32|u64> ; d s ; sm_90+
isspacep.<const|global|local|shared|shared::cta|param|param::entry> ; p s ; sm_70+
isspacep.shared::cluster ; p s ; sm_90+
mapa[.shared::cluster].<u32|u64> ; d n s ; sm_90+
getctarank[.shared::cluster].<u32|u64> ; d n ; sm_90+

prefetch[.<global|local>].<L1|L2> ; m ; sm_70+
prefetch[.global].<L2::evict_last|L2::evict_normal> ; m ; sm_80+
prefetch[.<param|const>].tensormap ; m ; sm_90+
prefetchu.L1 ; m ; sm_70+
applypriority[.global].L2::evict_normal ; m i{128} ; sm_80+
discard[.global].L2 ; m i{128} ; sm_80+
createpolicy.fractional.$primary$secondary.b64 ; d f? ; sm_80+
createpolicy.range[.global].$primary$secondary.b64 ; d m s s ; sm_80+
createpolicy.cvt.L2.b64 ; d s ; sm_80+
"""


def forms() -> list[Form]:
    """Every form of memory access by ordinary threads."""
    lines = [*_loads(), *_stores(), *_atomics()]
    return parse_forms(_SIMPLE + "\n".join(lines), _MACROS)
