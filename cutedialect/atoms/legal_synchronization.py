"""Forms of barriers, mbarriers, fences, warp-wide votes and shuffles, and launch control.
Source: PTX ISA 9.1, "Parallel Synchronization and Communication", confirmed with ptxas 13.
"""

from __future__ import annotations

from cutedialect.atoms.forms import Form, parse_forms

_MACROS = {
    "cta": "[.<shared|shared::cta>]",
    "any": "[.<shared|shared::cta|shared::cluster>]",
    "id": "s{0..15}",
    "n": "s{0..1024:32}",
    "tx": "mbarrier::complete_tx::bytes",
    "a": "sm_90a sm_100f sm_110f sm_120f",
    "scope": "<cta|cluster>",
}

_TABLE = """
bar[.cta].sync ; $id $n? ; sm_70+
bar[.cta].arrive ; $id s{32..1024:32} ; sm_70+
bar[.cta].red.popc.u32 ; d $id c ; sm_70+
bar[.cta].red.popc.u32 ; d $id $n c ; sm_70+
bar[.cta].red.<and|or>.pred ; p $id c ; sm_70+
bar[.cta].red.<and|or>.pred ; p $id $n c ; sm_70+
bar.warp.sync ; s ; sm_70+
barrier[.cta].sync[.aligned] ; $id $n? ; sm_70+
barrier[.cta].arrive[.aligned] ; $id s{32..1024:32} ; sm_70+
barrier[.cta].red.popc[.aligned].u32 ; d $id c ; sm_70+
barrier[.cta].red.popc[.aligned].u32 ; d $id $n c ; sm_70+
barrier[.cta].red.<and|or>[.aligned].pred ; p $id c ; sm_70+
barrier[.cta].red.<and|or>[.aligned].pred ; p $id $n c ; sm_70+
barrier.cluster.arrive[.<release|relaxed>][.aligned] ; ; sm_90+
barrier.cluster.wait[.acquire][.aligned] ; ; sm_90+

mbarrier.init$cta.b64 ; m s{1..1048575} ; sm_80+
mbarrier.inval$cta.b64 ; m ; sm_80+
mbarrier.<arrive|arrive_drop>[.release.cta]$cta.b64 ; d_ m ; sm_80+
mbarrier.<arrive|arrive_drop>[.release.cta]$cta.b64 ; d_ m s{1..1048575} ; sm_90+
mbarrier.<arrive|arrive_drop>.<release|relaxed>.$scope$cta.b64 ; d_ m s{1..1048575}? ; sm_90+
mbarrier.<arrive|arrive_drop>[.<release|relaxed>.$scope].shared::cluster.b64 \
    ; _ m s{1..1048575}? ; sm_90+
mbarrier.<arrive|arrive_drop>.noComplete[.release.cta]$cta.b64 ; d_ m s{1..1048575} ; sm_80+
mbarrier.<arrive|arrive_drop>.expect_tx[.<release|relaxed>.$scope]$cta.b64 ; d_ m s ; sm_90+
mbarrier.<arrive|arrive_drop>.expect_tx[.<release|relaxed>.$scope].shared::cluster.b64 \
    ; _ m s ; sm_90+
mbarrier.<expect_tx|complete_tx>[.relaxed.$scope]$any.b64 ; m s ; sm_90+
mbarrier.test_wait[.acquire.cta]$cta.b64 ; p m s ; sm_80+
mbarrier.test_wait.parity[.acquire.cta]$cta.b64 ; p m s{0,1} ; sm_80+
mbarrier.test_wait.<acquire|relaxed>.$scope$cta.b64 ; p m s ; sm_90+
mbarrier.test_wait.parity.<acquire|relaxed>.$scope$cta.b64 ; p m s{0,1} ; sm_90+
mbarrier.try_wait[.<acquire|relaxed>.$scope]$cta.b64 ; p m s s? ; sm_90+
mbarrier.try_wait.parity[.<acquire|relaxed>.$scope]$cta.b64 ; p m s{0,1} s? ; sm_90+
mbarrier.pending_count.b64 ; d s ; sm_80+

fence[.<sc|acq_rel>].<cta|gpu|sys> ; ; sm_70+
fence[.<sc|acq_rel>].cluster ; ; sm_90+
fence.<acquire|release>.<cta|cluster|gpu|sys> ; ; sm_90+
fence.acquire.sync_restrict::shared::cluster.cluster ; ; sm_90+
fence.release.sync_restrict::shared::cta.cluster ; ; sm_90+
fence.mbarrier_init.release.cluster ; ; sm_90+
fence.proxy.alias ; ; sm_70+
fence.proxy.async[.<global|shared::cta|shared::cluster>] ; ; sm_90+
fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster ; ; sm_90+
fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster ; ; sm_90+
fence.proxy.tensormap::generic.release.<cta|cluster|gpu|sys> ; ; sm_90+
fence.proxy.tensormap::generic.acquire.<cta|cluster|gpu|sys> ; m i{128} ; sm_90+
membar.<cta|gl|sys> ; ; sm_70+
membar.proxy.alias ; ; sm_70+

elect.sync ; d_|p s ; sm_90+
griddepcontrol.<launch_dependents|wait> ; ; sm_90+
setmaxnreg.<inc|dec>.sync.aligned.u32 ; i{24..256:8} ; $a
activemask.b32 ; d ; sm_70+
nanosleep.u32 ; s ; sm_70+

shfl.sync.<up|down|bfly|idx>.b32 ; d s s s s ; sm_70+
shfl.sync.<up|down|bfly|idx>.b32 ; d|p s s s s ; sm_70+
vote.sync.<all|any|uni>.pred ; p c s ; sm_70+
vote.sync.ballot.b32 ; d c s ; sm_70+
match.sync.any.<b32|b64> ; d s s ; sm_70+
match.sync.all.<b32|b64> ; d s s ; sm_70+
match.sync.all.<b32|b64> ; d|p s s ; sm_70+
redux.sync.<add|min|max>.<u32|s32> ; d s s ; sm_80+
redux.sync.<and|or|xor>.b32 ; d s s ; sm_80+
redux.sync.<min|max>[.abs][.NaN].f32 ; d f s ; sm_100f

clusterlaunchcontrol.try_cancel.async[.shared::cta].$tx.b128 ; m m ; sm_100+
clusterlaunchcontrol.try_cancel.async[.shared::cta].$tx.multicast::cluster::all.b128 \
    ; m m ; sm_100f sm_110f sm_120f
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 ; p s ; sm_100+
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 ; v4 s ; sm_100+
clusterlaunchcontrol.query_cancel.get_first_ctaid::<x|y|z>.b32.b128 ; d s ; sm_100+
"""


def forms() -> list[Form]:
    """Every form of synchronization."""
    return parse_forms(_TABLE, _MACROS)
