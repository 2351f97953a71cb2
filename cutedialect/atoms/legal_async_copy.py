"""Forms of `cp.async`, bulk and tensor copies, their reductions and prefetches, and `tensormap`.
Source: PTX ISA 9.1, "Data Movement and Conversion: Asynchronous copy", confirmed with ptxas 13.
"""

from __future__ import annotations

from cutedialect.atoms.forms import Form, parse_forms

_ARCH = "sm_100f sm_110f"

_MACROS = {
    "cta": "<shared|shared::cta>",
    "l2": "[.L2::<64B|128B|256B>]",
    "tx": "mbarrier::complete_tx::bytes",
    "arch": _ARCH,
}

_SIMPLE = """
cp.async.ca.$cta.global$l2 ; m m i{4} s{0..4}? ; sm_80+
cp.async.ca.$cta.global$l2 ; m m i{8} s{0..8}? ; sm_80+
cp.async.<ca|cg>.$cta.global$l2 ; m m i{16} s{0..16}? ; sm_80+
cp.async.ca.$cta.global.L2::cache_hint$l2 ; m m i{4} e ; sm_80+
cp.async.ca.$cta.global.L2::cache_hint$l2 ; m m i{4} s{0..4} e ; sm_80+
cp.async.ca.$cta.global.L2::cache_hint$l2 ; m m i{8} e ; sm_80+
cp.async.ca.$cta.global.L2::cache_hint$l2 ; m m i{8} s{0..8} e ; sm_80+
cp.async.<ca|cg>.$cta.global.L2::cache_hint$l2 ; m m i{16} e ; sm_80+
cp.async.<ca|cg>.$cta.global.L2::cache_hint$l2 ; m m i{16} s{0..16} e ; sm_80+
cp.async.commit_group ; ; sm_80+
cp.async.wait_group ; i ; sm_80+
cp.async.wait_all ; ; sm_80+
cp.async.mbarrier.arrive[.noinc][.$cta].b64 ; m ; sm_80+

cp.async.bulk.commit_group ; ; sm_90+
cp.async.bulk.wait_group[.read] ; i ; sm_90+

cp.async.bulk.<shared::cluster|shared::cta>.global.$tx ; m m s{0..1048560:16} m ; sm_90+
cp.async.bulk.<shared::cluster|shared::cta>.global.$tx.L2::cache_hint \
    ; m m s{0..1048560:16} m e ; sm_90+
cp.async.bulk.shared::cluster.global.$tx.multicast::cluster ; m m s{0..1048560:16} m h ; sm_90+
cp.async.bulk.shared::cluster.global.$tx.multicast::cluster.L2::cache_hint \
    ; m m s{0..1048560:16} m h e ; sm_90+
cp.async.bulk.shared::cluster.shared::cta.$tx ; m m s{0..1048560:16} m ; sm_90+
cp.async.bulk.global.shared::cta.bulk_group ; m m s{0..1048560:16} ; sm_90+
cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint ; m m s{0..1048560:16} e ; sm_90+
cp.async.bulk.global.shared::cta.bulk_group.cp_mask ; m m s{0..1048560:16} h ; sm_100+
cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.cp_mask \
    ; m m s{0..1048560:16} e h ; sm_100+
cp.async.bulk.prefetch.L2.global ; m s{0..1048560:16} ; sm_90+
cp.async.bulk.prefetch.L2.global.L2::cache_hint ; m s{0..1048560:16} e ; sm_90+

cp.reduce.async.bulk.shared::cluster.shared::cta.$tx.<add|inc|dec|min|max>.u32 \
    ; m m s{0..1048560:16} m ; sm_90+
cp.reduce.async.bulk.shared::cluster.shared::cta.$tx.<and|or|xor>.b32 \
    ; m m s{0..1048560:16} m ; sm_90+
cp.reduce.async.bulk.shared::cluster.shared::cta.$tx.<add|min|max>.s32 \
    ; m m s{0..1048560:16} m ; sm_90+
cp.reduce.async.bulk.shared::cluster.shared::cta.$tx.add.u64 ; m m s{0..1048560:16} m ; sm_90+
cp.reduce.async.bulk.global.shared::cta.bulk_group.<and|or|xor>.<b32|b64> \
    ; m m s{0..1048560:16} ; sm_90+
cp.reduce.async.bulk.global.shared::cta.bulk_group.<add|min|max>.<u32|s32|u64|s64> \
    ; m m s{0..1048560:16} ; sm_90+
cp.reduce.async.bulk.global.shared::cta.bulk_group.<inc|dec>.u32 ; m m s{0..1048560:16} ; sm_90+
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.<f32|f64> ; m m s{0..1048560:16} ; sm_90+
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.<f16|bf16> \
    ; m m s{0..1048560:16} ; sm_90+
cp.reduce.async.bulk.global.shared::cta.bulk_group.<min|max>.<f16|bf16> \
    ; m m s{0..1048560:16} ; sm_90+

tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic\
.release.<cta|cluster|gpu|sys>.sync.aligned \
    ; m m i{128} ; sm_90+
"""

_REPLACE = "sm_90a sm_100f sm_110f sm_120f"
# Field of the tensor map, operands after the address, type of the new value.
_FIELDS = (
    ("global_address", "s", "b64"),
    ("rank", "s", "b32"),
    ("box_dim", "i{0..4} s", "b32"),
    ("global_dim", "i{0..4} s", "b32"),
    ("global_stride", "i{0..4} s", "b64"),
    ("element_stride", "i{0..4} s", "b32"),
    ("elemtype", "i{0..12}", "b32"),
    ("interleave_layout", "i{0..2}", "b32"),
    ("swizzle_mode", "i{0..3}", "b32"),
    ("fill_mode", "i{0..1}", "b32"),
)


def _tensor_loads() -> list[str]:
    """Loads: an optional multicast mask and policy follow in that order, offsets before them."""
    lines: list[str] = []
    for rank in range(1, 6):
        head = f"cp.async.bulk.tensor.{rank}d"
        # (mode, operand of the mode, first requirement to cluster, to the own CTA)
        modes = [("[.tile]", "", "sm_90+", "sm_90+")]
        if rank >= 3:
            modes.append((".im2col", f"w{rank - 2}", "sm_90+", "sm_90+"))
            modes.append((".im2col::w", "w2", _ARCH, "sm_100+"))
            modes.append((".im2col::w::128", "w2", _ARCH, _ARCH))
        if rank == 2:
            modes.append((".tile::gather4", "", _ARCH, "sm_100+"))
        for mode, offsets, to_cluster, to_cta in modes:
            coordinates = 5 if mode == ".tile::gather4" else rank
            for hint, policy in (("", ""), (".L2::cache_hint", "e")):
                base = f"m m{coordinates} m {offsets}"
                lines.append(
                    f"{head}.shared::cta.global{mode}.$tx{hint} ; {base} {policy} ; {to_cta}"
                )
                for cast, mask in (("", ""), (".multicast::cluster", "h")):
                    stem = f"{head}.shared::cluster.global{mode}.$tx{cast}"
                    lines.append(f"{stem}{hint} ; {base} {mask} {policy} ; {to_cluster}")
                    lines.append(
                        f"{stem}.cta_group::<1|2>{hint} ; {base} {mask} {policy} ; {_ARCH}"
                    )
                    if not cast:
                        lines.append(
                            f"{head}.shared::cta.global{mode}.$tx.cta_group::<1|2>{hint}"
                            f" ; {base} {policy} ; {_ARCH}"
                        )
    return lines


def _tensor_stores() -> list[str]:
    lines: list[str] = []
    for rank in range(1, 6):
        modes = [("[.tile]", rank, "sm_90+")]
        if rank >= 3:
            modes.append((".im2col_no_offs", rank, "sm_90+"))
        store_modes = modes + ([(".tile::scatter4", 5, _ARCH)] if rank == 2 else [])
        for hint, policy in (("", ""), (".L2::cache_hint", "e")):
            for mode, coordinates, requires in store_modes:
                lines.append(
                    f"cp.async.bulk.tensor.{rank}d.global.shared::cta{mode}.bulk_group{hint}"
                    f" ; m{coordinates} m {policy} ; {requires}"
                )
            for mode, coordinates, requires in modes:
                lines.append(
                    f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta."
                    f"<add|min|max|inc|dec|and|or|xor>{mode}.bulk_group{hint}"
                    f" ; m{coordinates} m {policy} ; {requires}"
                )
    return lines


def _tensor_prefetches() -> list[str]:
    lines: list[str] = []
    for rank in range(1, 6):
        modes = [("[.tile]", f"m{rank}", "sm_90+")]
        if rank >= 3:
            modes.append((".im2col", f"m{rank} w{rank - 2}", "sm_90+"))
            modes.append((".im2col::w", f"m{rank} w2", _ARCH))
            modes.append((".im2col::w::128", f"m{rank} w2", _ARCH))
        if rank == 2:
            modes.append((".tile::gather4", "m5", _ARCH))
        for mode, operands, requires in modes:
            for hint, policy in (("", ""), (".L2::cache_hint", "e")):
                lines.append(
                    f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global{mode}{hint}"
                    f" ; {operands} {policy} ; {requires}"
                )
    return lines


def _replacements() -> list[str]:
    head = "tensormap.replace.tile"
    tail = "[.<global|shared::cta>].b1024"
    lines = [
        f"{head}.{name}{tail}.{kind} ; m {values} ; {_REPLACE}" for name, values, kind in _FIELDS
    ]
    # Values that came with Blackwell: 4- and 6-bit elements, the 96-byte swizzle, wider atoms.
    lines.append(f"{head}.elemtype{tail}.b32 ; m i{{13..15}} ; sm_100f sm_110f sm_120f")
    lines.append(f"{head}.swizzle_mode{tail}.b32 ; m i{{4}} ; sm_103a")
    lines.append(f"{head}.swizzle_atomicity{tail}.b32 ; m i{{0..3}} ; sm_100f sm_110f sm_120f")
    return lines


def forms() -> list[Form]:
    """Every form of the asynchronous copies."""
    lines = [*_tensor_loads(), *_tensor_stores(), *_tensor_prefetches(), *_replacements()]
    return parse_forms(_SIMPLE + "\n".join(lines), _MACROS)
