"""Which tile attention computes at once, and how CTAs share the work, by problem and target."""

from __future__ import annotations

from dataclasses import replace

from cutedialect.atoms import target
from cutedialect.choices import Overlap
from cutedialect.schedule import Schedule

from .attention_work import AttentionWork
from .resident_attention import are_short_packs, resident_schedule

_WARPGROUP_TARGETS = ("sm_90a",)
# Shared memory beside a tile of q and two stages of k and v, of 16-bit elements.
_MEETING_BYTES = 4096
# A warp multiplies 16 rows at once, a warpgroup 64.
_ROWS, _GROUP_ROWS = 16, 64
# The fewest keys of a block that are worth a loop.
_LEAST_KEYS = 16
# Keys and values of so many heads at a time that short problems, which wait for memory, read once.
_L2_BYTES = 8 << 20
# Heads whose tiles are computed together where they do not fit, and bytes of their keys and values,
# by warpgroups that share a tile: the more of them, the fewer tiles read the same.
_SOME_HEADS = 32
_MORE_BYTES = {3: 128 << 20, 2: 64 << 20, 1: 32 << 20}
# Half as many of the widest heads with so many keys at most (+ 1.4 %); and one thread loads these
# where each CTA has one tile (+ 5 %).
_SOME_KEYS = 1024
# From so many keys on, the largest score of a row grows in few of the blocks.
_LAZY_KEYS = 2048
# From so many rows on, tiles of three warpgroups do.
_MANY_ROWS = 2048
# Keys of a block of 8 bits for two warpgroups, and for three, which have fewer registers each.
_SMALL_KEYS, _FEWER_SMALL_KEYS = 192, 96
# Keys of a block of 16 bits for three warpgroups, by the widest heads, and where more than a causal
# mask's bounds stays in registers.
_KEYS = {64: (96, 96), 96: (96, 80), 112: (80, 64)}
# Registers of a thread beside the accumulators and both operands of two blocks of keys that take
# turns; and the narrowest and widest heads that gain by turns, and the widest of f16.
_BESIDE_TURNS, _MORE_BESIDE_TURNS = 32, 16
_NARROWEST_TURNS, _WIDEST_TURNS, _WIDEST_F16_TURNS = 33, 128, 192
# Windows that are worth turns.
_LONG_WINDOW = 1024
# Of other targets: warps that shift rows into place, and the most that share a tile; and the
# columns of a multiply, of which each warp has as many as the others.
_SHIFTING_WARPS, _MOST_WARPS, _ATOM_COLUMNS = 4, 8, 8
# Elements of a thread that the sums of rounded exponentials add in 16 bits first, by the widest
# heads: most where arithmetic takes longer than the multiplies, none where multiplies take longer.
_PACKED = {64: 8, 127: 2, 191: 4, 256: 1}
# Of tiles of so many rows, whose rows see few keys, none: two or three keys share a row's weight
# more often, and each addition in 16 bits shows. A window's, which see more of them, add pairs.
_FEW_ROWS, _PACKED_IN_WINDOWS = 64, 2
# Of f16 fewer, since what such sums lose is then as much as what the result loses by its rounding;
# and of unmasked rows, whose blocks all do the same.
_LESS_PACKED = 2
# Columns of 16 bits of one span of the widest swizzle, and how many CTAs of a warpgroup may share a
# processor where a multiply takes more than them.
_SPAN, _MOST_CTAS = 64, 3
# Up to so many keys, registers add up their exponentials sooner.
_LEAST_SUMMED = 128
# Above this dimension unmasked rows of f16, which look for largest scores or guess, take more.
_LOOKING_DIMS = 80
# Keys less where registers are few, and the fewest of a block: those of one multiply.
_LESS_KEYS, _LESS_SMALL_KEYS = 16, 32
# What a tile of so many rows takes for 64 keys, and for all that it does beside, compared with 64
# keys of one of 128 rows (measured on an H100).
_TIMES = {64: (0.66, 1.9), 128: (1.0, 3.0), 192: (1.3, 4.5)}
_UNIT_KEYS = 64
# The same of one of 64 masked rows of heads of 129 to 192 dimensions, whose larger tiles have two
# stages of keys alone; and what is saved where no tile is claimed.
_HALF_OF_WIDE, _CLAIM = (0.55, 1.6), 0.5
# Lanes of tensor memory, keys of a block there, and the rows of a tile of each plan with a role
# that corrects what is accumulated there.
_LANES, _CORRECTED_KEYS = 128, 64
_CORRECTING = {"split": 256, "corrected": 128}
_HALF_COLUMNS = 224
# Rows and keys of unmasked tiles that CTAs claim one by one, since each is over soon.
_SHORT = 512
# Up to so many keys, blocks of 64 compute less that no row sees, and the first one comes sooner.
_FEW_KEYS = 384
# Wider heads have results that several warps share by columns.
WIDE, _WIDE_STAGES = 256, 4
# Shared memory beside their keys, values, rows and exponentials, and of a vector.
_WIDE_BYTES, _VECTOR_BYTES = 2048, 16
# Blocks between those that tiles of a window begin with.
_MEETING_BLOCKS = 8
# CTAs start while the launch in front of theirs ends where all is over after so many seconds, if
# several share a processor or not: at these rates, and with what every launch takes.
_SOON, _SOON_ALONE = 60e-6, 120e-6
_RATE, _BANDWIDTH, _LAUNCH = 4e14, 2.5e12, 3e-6
# Bits of the columns that a multiply takes at once, and 16-bit columns of a row that half of the
# widest swizzle takes.
_COLUMN_BITS, _HALF_BOX = 256, 32
# Above this dimension unmasked rows have too few registers for guesses: the assembler spills some.
_WIDEST_UNMASKED = 192
# Up to this dimension 128 keys leave registers for the logarithms of packed heads that share keys.
_WIDE_LOGARITHMS = 112
# Those of threads beside two warpgroups that shift rows into place, and of these, by the bits of
# keys: as many as no head or block of keys was found to need more than.
_SHIFTING_REGISTERS = {16: (136, 184), 8: (120, 192)}
# Registers of a thread that multiplies, by warpgroups that share a tile, and how many it needs
# beside accumulators and operands, without and with more than a causal mask's bounds. A lone one
# has 248, but 160 keys of heads of 192 spilled where all of these were counted on.
_REGISTERS = {1: 232, 2: 232, 3: 160}
_BESIDE, _MORE_BESIDE = 10, 24


def choose_schedule(work: AttentionWork, arch: str, given: Schedule | None = None) -> Schedule:
    """The default, with what is given on top and what does not go with that left open."""
    # Nothing gives way to what is given of registers.
    if given is not None and given.is_complete:
        return given
    named = ("tile", "warps", "registers", "ctas")
    is_open = given is None or all(getattr(given, name) is None for name in named)
    is_asked = given is None or given.unroll != 1
    if arch in _WARPGROUP_TARGETS and is_open and is_asked:
        turns = _choose(replace(work, takes_turns=True, spills=0), arch, given)
        if _takes_turns(work, turns):
            if not work.spills:
                return turns.merged(Schedule(unroll=2)).merged(given)
            # The first default that spilled was that one.
            work = replace(work, spills=work.spills - 1)
    return _choose(work, arch, given)


def _choose(work: AttentionWork, arch: str, given: Schedule | None) -> Schedule:
    """The default for loops of one block. Where TMA does not load the operands, the threads that do
    take registers from those that multiply.

    Rows are few where the sequence is short. Keys are as many as leave the accumulators (the
    output's columns and the scores) and the operand made of them in a thread's registers.
    """
    on_groups = arch in _WARPGROUP_TARGETS
    if max(work.dims) > WIDE:
        registers = _shifting_registers(work, given) if on_groups else None
        return _wide(work, arch).merged(Schedule(registers=registers)).merged(given)
    is_open = _may_share_processor(work, arch, given)
    resident = resident_schedule(work, _is_over_after(work, _SOON)) if is_open else None
    if resident is not None:
        if not work.spills:
            return resident.merged(_order(work, 2 * _GROUP_ROWS)).merged(given)
        # The first default that spilled was that one.
        work = replace(work, spills=work.spills - 1)
    keys = _group_keys(work) if on_groups else 64 if max(work.dims) <= 128 else 32
    less = _LESS_SMALL_KEYS if 8 in (work.bits, work.bits_q) else _LESS_KEYS
    # Pages have a power of two of keys.
    keys = max(less, keys >> work.spills if work.is_paged else keys - less * work.spills)
    is_whole = _is_plain(work) and not (work.is_sliced or work.is_paged)
    if on_groups and is_whole and work.keys is not None:
        # No more than there are of the least keys.
        keys = min(keys, max(_LESS_KEYS, -(-work.keys // _LESS_KEYS) * _LESS_KEYS))
    if work.is_paged:
        # Whole pages, or a part of one.
        keys = 1 << keys.bit_length() - 1
    while not on_groups and keys > _LEAST_KEYS and not _fits(work, arch, _ROWS, keys):
        keys //= 2
    corrected = _corrected(work, arch, given)
    if corrected is not None:
        assert corrected.tile is not None
        rows = corrected.tile[0]
        if work.is_uneven and not _fills_one_wave(work, rows):
            # Whoever is done with a short tile takes over the longest that has not begun.
            corrected = corrected.merged(Schedule(scheduler="cancel"))
        return corrected.merged(_order(work, rows)).merged(given)
    bq = _rows(work, arch, keys)
    is_half = on_groups and bq == _GROUP_ROWS and _is_plain(work) and not work.is_paged
    if is_half and _is_wide_and_short(work):
        # More stages than of larger blocks.
        keys = min(keys, _GROUP_ROWS)
    if given is not None and target(arch).tmem_columns and given.plan.taking("tensor_multiplies"):
        bq = _LANES * given.plan.parts
    if not on_groups:
        is_named = given is not None and (given.tile, given.warps, given.roles) != (None,) * 3
        warps = None if is_named else _sharing_warps(work, bq, keys)
        return Schedule(tile=(bq, keys), warps=warps).merged(_order(work, bq)).merged(given)
    registers = splits = None
    has_more = work.has_window or (work.is_sliced and _is_plain(work))
    if bq == 2 * _GROUP_ROWS and max(work.dims) > 192 and has_more:
        # Beside a window's other side, or the places in a slice, those that compute have no
        # registers for the bounds of several loops.
        splits = "no"
    warps = (12, 1) if bq == 3 * _GROUP_ROWS else None
    overlap = _overlap(work, bq)
    if given is not None and given.tile is not None:
        warps, overlap = None, _overlap(work, given.tile[0])
    # Of 8 bits, where tiles are over soon, claims even out what the last ones leave (+ 1 %).
    is_soon = work.bits_q == 8 and bq == 3 * _GROUP_ROWS
    # Guesses of f16 take as long as they fail (+ 1 to + 7 %).
    guess = Schedule(tile=(bq, keys), overlap=overlap).merged(given)
    is_uneven = work.is_uneven or (work.is_f16 and _guesses(work, guess))
    scheduler = "dynamic" if (is_uneven or is_soon) and work.loads_boxes else None
    if _fills_one_wave(work, bq):
        scheduler = "single"
    elif _is_short(work):
        scheduler = "dynamic"
    is_clustered = given is not None and given.cluster not in (None, (1, 1))
    if is_clustered or (given is not None and not given.may_specialize):
        scheduler = None
    is_default = given is None or given.tile in (None, (bq, keys))
    # Tiles of little work are over before several threads have told each other which comes next.
    is_short = scheduler == "dynamic" and max(work.dims) <= 64 and bq == 2 * _GROUP_ROWS
    is_short = is_short and not (work.has_window and work.is_paged)
    is_single = scheduler == "single" and not work.is_paged and max(work.dims) > _SPAN
    is_short |= is_single and work.keys is not None and work.keys <= _SOME_KEYS
    is_short |= is_half and (are_short_packs(work) or _is_wide_and_short(work))
    if bq == 2 * _GROUP_ROWS:
        registers = _shifting_registers(work, given)
    if bq == 2 * _GROUP_ROWS and work.is_paged and not work.is_shifted:
        # Threads that load a box for each page need more, one that loads all of them most.
        registers = (104, 200) if is_short else (72, 216)
    if is_default and bq == 3 * _GROUP_ROWS and (work.spills or _caps_slices(work)):
        # Those that load slices may need what fewer keys leave to those that multiply.
        registers = (40, 152)
    default = Schedule(
        tile=(bq, keys),
        early_launch="yes" if _is_over_after(work, _SOON_ALONE) else None,
        warps=warps,
        overlap=overlap,
        scheduler=scheduler,
        registers=registers,
        split_loops=splits,
        split_loads="no" if is_short else None,
        # Shifting results into aligned words takes registers that a tile's next trips have.
        epilogue=None if work.stores_boxes else "direct",
    )
    return default.merged(_order(work, bq)).merged(given)


def _may_share_processor(work: AttentionWork, arch: str, given: Schedule | None) -> bool:
    """Whether nothing is against CTAs that share a processor."""
    if given is not None:
        chosen = given.tile, given.warps, given.roles, given.atom, given.ctas, given.registers
        if any(each is not None for each in chosen) or given.cluster not in (None, (1, 1)):
            return False
    if arch not in _WARPGROUP_TARGETS or not _is_plain(work) or not work.stores_boxes:
        return False
    # Rows of other lengths take CTAs that share a processor twice as long.
    if work.is_padded or work.is_paged or work.is_capped:
        return False
    return not work.is_sliced or work.is_packed


def _shifting_registers(work: AttentionWork, given: Schedule | None) -> tuple[int, int] | None:
    """The registers of threads where some shift rows into place, if it is open what warps do."""
    chosen = () if given is None else (given.tile, given.warps, given.roles, given.loads)
    is_open = all(each is None for each in chosen)
    return _SHIFTING_REGISTERS[work.bits] if work.is_shifted and is_open else None


def _sharing_warps(work: AttentionWork, bq: int, keys: int) -> tuple[int, int] | None:
    """The warps of a tile where several share its rows by columns; None where each has its own.

    A thread of few warps has many elements of a block at once where threads shift rows into place,
    and 16 rows of a result in one warp leave no registers for these. Each time that the assembler
    finds too few, twice as many warps share the rows.
    """
    rows = bq // _ROWS
    columns = max(1, _SHIFTING_WARPS // rows) if work.is_shifted else 1
    columns = min(columns << work.spills, max(1, _MOST_WARPS // rows))
    while columns > 1 and any(each % (columns * _ATOM_COLUMNS) for each in (keys, work.dims[1])):
        columns //= 2
    return (rows, columns) if columns > 1 else None


def _corrected(work: AttentionWork, arch: str, given: Schedule | None) -> Schedule | None:
    """The plans that keep the output in tensor memory, where a role of its own rescales it: tiles
    of 256 rows, of which two roles compute half each, where there are as many rows and the columns
    of both halves fit, else tiles of 128. None where a target has no tensor memory, for few rows,
    where threads load or convert operands, where the assembler found too few registers, and where
    what is given is about tiles, warps or roles.
    """
    chip = target(arch)
    chosen = () if given is None else (given.tile, given.warps, given.roles, given.atom)
    is_open = all(each is None for each in chosen)
    # Operands of 8 bits beside others of 16 are converted by threads.
    if not chip.tmem_columns or work.bits != work.bits_q or work.spills or not is_open:
        return None
    # Half of the lanes hold few rows, of which registers hold results of so many columns at most.
    few = _LANES // 2 if work.dims[1] <= _HALF_COLUMNS else _ROWS
    if not work.loads_boxes or (work.rows is not None and work.rows <= few):
        return None
    for roles, rows in _CORRECTING.items():
        halves = rows // _LANES
        columns = halves * (work.dims[1] + _CORRECTED_KEYS)
        if columns > chip.tmem_columns or not _fits(work, arch, rows, _CORRECTED_KEYS):
            continue
        if halves > 1 and (_has_few_rows(work) or _fills_one_wave(work, _LANES)):
            # Half of the processors would have nothing to do, or half of the roles.
            continue
        return Schedule(tile=(rows, _CORRECTED_KEYS), warps=(4, 1), roles=roles)
    return None


def _has_few_rows(work: AttentionWork) -> bool:
    """Whether a tile of as many rows as tensor memory has lanes is all there is."""
    return work.rows is not None and work.rows <= _LANES


def _wide(work: AttentionWork, arch: str) -> Schedule:
    """Tiles of heads so wide that no warp holds a result of 16 rows: warps share the columns of
    one. Two warpgroups have 64 rows each half of them, and compute half of the scores.
    """
    on_groups = arch in _WARPGROUP_TARGETS
    bq, keys = (_GROUP_ROWS, _GROUP_ROWS) if on_groups else (2 * _ROWS, 2 * _ROWS)
    keys = max(_LEAST_KEYS, keys >> work.spills)
    element = work.bits_q // 8
    row, value = (element * each for each in work.dims)
    key = row + (0 if work.is_latent else value)
    if on_groups and work.is_shifted:
        # Each row comes with the words around it, and is shifted to where a multiply reads it: no
        # part of a key is a value there.
        row, key = 2 * row + _VECTOR_BYTES, 2 * (row + value + _VECTOR_BYTES)
    free = target(arch).smem_per_cta - _WIDE_BYTES - bq * row
    while keys > _LEAST_KEYS and keys * (key + element * bq) > free:
        keys //= 2
    stages = max(1, min(_WIDE_STAGES, (free - element * bq * keys) // (keys * key)))
    if on_groups:
        wide = Schedule(tile=(bq, keys), warps=(4, 2), stages=stages)
        return wide.merged(Schedule(scheduler="single", overlap="no", epilogue="direct"))
    # Each of four warps has a column of atoms of the scores.
    columns = 4 if work.dims[1] % WIDE == 0 and keys >= 2 * _LEAST_KEYS else 2
    return Schedule(tile=(bq, keys), warps=(2, columns), stages=stages)


def tile_columns(depth: int, bits: int, arch: str, loads_boxes: bool) -> int:
    """The columns of a tile for a head dimension, a multiple of what a multiply takes: boxes of 64
    columns of 16 bits come faster than those of 48, zeros included.
    """
    unit = _COLUMN_BITS // bits
    found = -(-depth // unit) * unit
    is_narrow = bits == 16 and _HALF_BOX < found < 2 * _HALF_BOX
    return 2 * _HALF_BOX if is_narrow and loads_boxes and arch in _WARPGROUP_TARGETS else found


def maxima(work: AttentionWork, chosen: Schedule) -> str:
    """How a kernel keeps the score that a row's exponentials count from."""
    if chosen.maxima is not None:
        return chosen.maxima
    if _guesses(work, chosen):
        return "guessed"
    return "lazy" if _scales_rarely(work, chosen) else "exact"


def _guesses(work: AttentionWork, chosen: Schedule) -> bool:
    """Whether it pays to count exponentials from the largest score of the blocks before and to look
    for a larger one only where they add up to too much: where warpgroups multiply meanwhile, and
    registers hold the scores until that is known, beside what is made of them.
    """
    if not chosen.overlaps_multiplies or chosen.tile is None or max(work.dims) > WIDE:
        return False
    if max(work.dims) > _WIDEST_UNMASKED and (work.spills or not work.is_uneven):
        return False
    if not _is_plain(work) or work.is_paged:
        return False
    if (max(work.dims) > 128 and work.keeps_more) or (work.has_window and work.is_sliced):
        return False
    rows, keys = chosen.tile
    held = work.dims[1] // 2 + keys + max(work.dims) // 16
    beside = _MORE_BESIDE if work.keeps_more else _BESIDE
    groups = -(-rows // _GROUP_ROWS)
    registers = chosen.registers[1] if chosen.registers is not None else _REGISTERS.get(groups, 0)
    return held + beside <= registers


def _takes_turns(work: AttentionWork, chosen: Schedule) -> bool:
    """Whether a loop of two blocks of keys pays, of which each has registers for its exponentials:
    where rows see many of them, and registers suffice for both.
    """
    if chosen.tile is None or maxima(work, chosen) != "guessed" or work.bits_q != 16:
        return False
    if chosen.scheduler == "single":
        # Problems of one wave, of which there would be more kinds of kernels.
        return False
    if not _has_many_keys(work) or (work.has_window and (work.sees or 0) < _LONG_WINDOW):
        return False
    widest = max(work.dims)
    least, most = (0, _WIDEST_F16_TURNS) if work.is_f16 else (_NARROWEST_TURNS, _WIDEST_TURNS)
    rows, keys = chosen.tile
    groups = -(-rows // _GROUP_ROWS)
    registers = chosen.registers[1] if chosen.registers is not None else _REGISTERS.get(groups, 0)
    beside = _BESIDE_TURNS
    if work.is_capped or (work.group != 1 and work.keeps_more):
        # Which head shares the keys takes a few more.
        beside += _MORE_BESIDE_TURNS
    return least <= widest <= most and widest // 2 + keys + beside <= registers


def _has_many_keys(work: AttentionWork) -> bool:
    """Whether there are many blocks of keys; packed sequences have about as many as rows."""
    keys = work.rows if work.is_packed else work.keys
    return keys is None or keys >= _LAZY_KEYS


def _scales_rarely(work: AttentionWork, chosen: Schedule) -> bool:
    """Whether it pays to ask in each trip if what was added up has to be scaled: where rows see
    many blocks of keys (their largest scores grow in the first few), and warpgroups multiply
    meanwhile, results are wide, or another role scales them.
    """
    is_partial = work.has_window or work.is_packed
    is_apart = max(work.dims) > WIDE or chosen.plan.corrects is not None
    return _has_many_keys(work) and not is_partial and (chosen.overlaps_multiplies or is_apart)


def summed_by(work: AttentionWork, chosen: Schedule, arch: str) -> str:
    """What adds up a row's rounded exponentials: the "multiply" by V, where one span of a swizzle
    holds the columns of V and more of them in a multiply of warpgroups cost less than the
    arithmetic, or else "registers".
    """
    rows, block = chosen.tile or (_GROUP_ROWS, _UNIT_KEYS)
    groups = chosen.warps is None or (chosen.warps[0] % 4 == 0 and chosen.warps[1] == 1)
    groups = groups and rows % _GROUP_ROWS == 0 and block % _LEAST_KEYS == 0
    is_open = chosen.atom is None and chosen.may_specialize
    is_plain = _is_plain(work) and work.bits_q == 16 and not work.is_latent
    columns = work.dims[1]
    is_span = columns <= _SPAN and columns & (columns - 1) == 0
    takes = arch in _WARPGROUP_TARGETS and groups and is_open and is_plain and is_span
    # What ptxas gives all threads at first has to hold what one instruction takes, and three
    # warpgroups have no registers for more beside places in a slice, or addresses of results.
    is_tight = (chosen.ctas or 1) > _MOST_CTAS and columns == _SPAN
    is_tight |= rows == 3 * _GROUP_ROWS and (work.is_sliced or not work.stores_boxes)
    # Ones have to be written first.
    keys = work.rows if work.is_packed else work.keys
    takes = takes and not is_tight and (keys is None or keys > _LEAST_SUMMED)
    return "multiply" if takes and maxima(work, chosen) != "exact" else "registers"


def packed(work: AttentionWork, chosen: Schedule, arch: str) -> tuple[int, int]:
    """How many elements of a thread the sums of rounded exponentials add in 16 bits, and how many
    those of a block that a mask cuts, whose rows may see few keys. They add these in f32 alone
    where such blocks have a loop of their own, so that no other block asks which it is. Rows of
    f16 that return logarithms have no registers for that beside both sums.
    """
    most = next((each for widest, each in _PACKED.items() if max(work.dims) <= widest), 1)
    if chosen.tile is not None and chosen.tile[0] <= _FEW_ROWS:
        most = min(most, _PACKED_IN_WINDOWS if work.has_window else 1)
    if work.is_f16 or (max(work.dims) > _SPAN and not work.is_uneven):
        most = min(most, _LESS_PACKED)
    is_split = arch in _WARPGROUP_TARGETS and chosen.split_loops != "no" and not work.has_window
    return most, 1 if is_split and not (work.is_f16 and work.returns_lse) else most


def meets_at(work: AttentionWork, chosen: Schedule) -> int:
    """With which blocks the tiles of a window begin: with multiples of this, 0 for the first one
    that they see. Those that are computed at a time then read the same keys first.
    """
    if chosen.scheduler != "dynamic" or chosen.tile is None:
        return 0
    return _MEETING_BLOCKS if _begin_together(work, chosen.tile[0]) else 0


def _overlap(work: AttentionWork, bq: int) -> Overlap:
    """How tiles of so many rows overlap the second multiply, if registers suffice for an operand
    that waits for the next trip: an output of 256 columns takes half of them, threads that load
    take others.
    """
    widest = max(work.dims)
    if widest > 192:
        is_tight = work.keeps_more or not _is_plain(work)
        return "no" if is_tight or (work.is_paged and bq == 2 * _GROUP_ROWS) else "yes"
    if widest <= 128 and not work.loads_boxes:
        return "no"
    # Warpgroups find a rhythm by themselves.
    return "yes"


def _begin_together(work: AttentionWork, bq: int) -> bool:
    """Whether tiles of so many rows are worth the numbers that let them begin with the same keys: a
    window's tiles have few blocks each, which those beside them read too.
    """
    if work.is_paged or (work.is_packed and work.group != 1):
        # Pages, or sequences and shared heads together, leave too few registers.
        return False
    return work.has_window and max(work.dims) <= 128 and bq == 2 * _GROUP_ROWS and _is_plain(work)


def _order(work: AttentionWork, bq: int) -> Schedule:
    """The order of tiles of so many rows that take unequal time: the longest of some heads first;
    or those of a packed sequence, head by head. Many heads at a time end together better than few,
    and what L2 does not hold of their keys and values costs less than that, up to a point.
    """
    if not work.is_uneven or (work.rows is not None and work.rows <= _GROUP_ROWS):
        return Schedule()
    if work.is_packed:
        return Schedule(raster=1)
    raster = _SOME_HEADS
    if work.keys is not None:
        size = max(1, work.keys * sum(work.dims) * work.bits // 8)
        limit = _MORE_BYTES[min(max(_MORE_BYTES), max(1, bq // _GROUP_ROWS))]
        raster = min(_SOME_HEADS, max(1, work.group * limit // size))
        if 2 * _SOME_HEADS * size <= _L2_BYTES:
            raster = 2 * _SOME_HEADS
        elif max(work.dims) > _WIDEST_UNMASKED and work.keys <= _SOME_KEYS:
            raster = min(raster, _SOME_HEADS // 2)
        # A power of two, so that few lengths need a kernel of their own.
        raster = 1 << raster.bit_length() - 1
    return Schedule(order="sections", raster=raster)


def _is_plain(work: AttentionWork) -> bool:
    """Whether one thread loads every operand as it is multiplied."""
    return work.loads_boxes and work.bits == 16


def _caps_slices(work: AttentionWork) -> bool:
    """Whether scores of slices are capped: either takes registers of those that multiply."""
    return work.is_capped and work.is_sliced and _is_plain(work) and not work.is_paged


def _is_mixed(work: AttentionWork) -> bool:
    """Whether keys and values are converted to the type of q."""
    return work.bits < work.bits_q


def _is_for_three_groups(work: AttentionWork) -> bool:
    """Whether three warpgroups share a tile: two of them hide the exponentials of the third, if
    registers suffice and rows are many.
    """
    is_small = work.bits_q == 8
    if work.is_paged or not (_is_plain(work) or (is_small and work.loads_boxes)):
        return False
    if work.is_uneven and not work.stores_boxes:
        # Few columns of masked rows are stored at once, which so many threads do not share evenly.
        return False
    least = _MANY_ROWS if work.is_uneven or is_small else 3 * _GROUP_ROWS
    if work.rows is not None and work.rows < least:
        return False
    widest = max(work.dims)
    if not is_small and _time(work, 3 * _GROUP_ROWS) > _time(work, 2 * _GROUP_ROWS):
        return False
    if is_small:
        # Sequences, shared heads and their scales together leave too few registers.
        return 64 < widest <= 128 and not (work.is_packed and work.group != 1)
    if work.has_window and widest <= 96:
        # Two compute less that no row sees.
        return False
    if widest > 64 and (work.is_sliced or not work.stores_boxes or work.bits_out != 16):
        return False
    return widest <= max(_KEYS)


def _keys_of_three(work: AttentionWork) -> int:
    """Keys of a block of 16 bits for three warpgroups. Of wide heads, rows that share keys with
    others have registers for fewer, if they are masked or the scores capped.
    """
    most, keys = next(each for each in _KEYS.items() if max(work.dims) <= each[0])
    takes_more = work.is_uneven if most == max(_KEYS) else work.is_capped
    is_wide = max(work.dims) > _SPAN and (not work.is_uneven or most == max(_KEYS))
    looks_often = work.is_f16 and not work.is_uneven and max(work.dims) > _LOOKING_DIMS
    takes_more = (work.group != 1 and takes_more) or (is_wide and work.takes_turns) or looks_often
    return keys[work.keeps_more or takes_more]


def _group_keys(work: AttentionWork) -> int:
    """Keys of a block for warpgroups."""
    keys = _most_keys(work)
    # Both sums, of exponentials before and behind rounding.
    takes_more = not work.stores_boxes if not work.is_uneven else work.has_window and work.is_capped
    # Of heads that share keys, where the rows of one in a sequence have their logarithms.
    takes_more |= (
        work.is_packed
        and work.group != 1
        and not work.has_window
        and min(work.dims) > _WIDE_LOGARITHMS
    )
    is_tight = work.returns_lse and takes_more and 64 < max(work.dims) <= 128 and _is_plain(work)
    return keys - _LESS_KEYS if _caps_slices(work) or is_tight else keys


def _most_keys(work: AttentionWork) -> int:
    """Those of scores that nothing is done to."""
    widest = max(work.dims)
    if work.bits_q == 8 and widest <= 128 and not work.is_paged:
        return _FEWER_SMALL_KEYS if _is_for_three_groups(work) else _SMALL_KEYS
    if _is_for_three_groups(work):
        return _keys_of_three(work)
    if widest > 192:
        if not work.loads_boxes or _is_mixed(work) or work.is_paged:
            return 32
        # Of 16 bits, which head shares the keys takes a few registers more, beside those of masks.
        return 48 if _is_plain(work) and work.keeps_more and work.group != 1 else 64
    if widest > 128:
        # A multiply takes 32 keys of 8 bits at once.
        return 96 if _is_plain(work) or work.dims[0] == work.dims[1] or work.bits_q == 8 else 80
    if not work.loads_boxes or (_is_plain(work) and _sees_few(work)):
        return 64
    return 128


def _sees_few(work: AttentionWork) -> bool:
    """Whether no row sees many keys; packed sequences have about as many as rows."""
    keys = work.rows if work.is_packed else work.keys
    if work.has_window and work.sees is not None and keys is not None:
        keys = min(keys, work.sees + 2 * _GROUP_ROWS)
    elif work.has_window:
        return False
    return keys is not None and keys <= _FEW_KEYS and not work.is_paged


def _time(work: AttentionWork, bq: int) -> float:
    """What tiles of so many rows take on all processors together, in units of 64 keys of a tile of
    128 rows; 0 where that is not known.
    """
    keys = work.rows if work.is_packed else work.keys
    if work.sequences is None or work.rows is None or keys is None:
        return 0.0
    if (work.has_window and work.sees is None) or (work.is_sliced and not work.is_packed):
        return 0.0
    ends = range(bq, work.rows + bq, bq)
    seen = [min(keys, end + keys - work.rows) if work.is_uneven else keys for end in ends]
    if work.has_window:
        assert work.sees is not None
        seen = [min(each, work.sees + bq - 1) for each in seen]
    is_half = bq == _GROUP_ROWS and work.is_uneven and _is_wide_and_short(work)
    unit, beside = _HALF_OF_WIDE if is_half else _TIMES[bq]
    times = [unit * -(-max(each, 0) // _UNIT_KEYS) + beside for each in seen]
    if not times:
        return 0.0
    tiles = work.sequences * len(times)
    if not work.is_uneven:
        return -(-tiles // work.processors) * times[0]
    if tiles <= work.processors:
        return max(times) - _CLAIM
    mean = sum(times) / len(times)
    return max(*times, work.sequences * sum(times) / work.processors + mean / 2, 0.0)


def _is_over_after(work: AttentionWork, seconds: float) -> bool:
    """Whether a launch takes no longer, so that what lies between it and the next counts."""
    keys = work.rows if work.is_packed else work.keys
    if work.sequences is None or work.rows is None or keys is None or not _is_plain(work):
        return False
    seen = min(keys, work.sees or keys)
    scores = work.rows * seen / (2 if work.is_uneven and not work.has_window else 1)
    flops = 2 * sum(work.dims) * work.sequences * scores
    size = work.bits_q // 8 * sum(work.dims) * work.sequences * (work.rows + keys)
    return _LAUNCH + max(flops / _RATE, size / _BANDWIDTH) <= seconds


def _is_short(work: AttentionWork) -> bool:
    """Whether few rows attend to few keys."""
    is_known = work.sequences is not None and work.rows is not None and work.keys is not None
    return is_known and max(work.rows or 0, work.keys or 0) <= _SHORT and _is_plain(work)


def _is_wide_and_short(work: AttentionWork) -> bool:
    """Whether few rows of wide heads, though not of the widest, attend to few keys."""
    return 2 * _SPAN < max(work.dims) <= _WIDEST_UNMASKED and _is_short(work)


def _fills_one_wave(work: AttentionWork, bq: int) -> bool:
    """Whether each processor has a tile of so many rows at most."""
    if work.sequences is None or work.rows is None or work.is_packed or not _is_plain(work):
        return False
    return work.sequences * -(-work.rows // bq) <= work.processors


def _rows(work: AttentionWork, arch: str, keys: int) -> int:
    """Rows of a tile: those of three warpgroups, or a power of two of what a warp or warpgroup
    multiplies.
    """
    widest = max(work.dims)
    most, unit = 128, _ROWS
    if arch in _WARPGROUP_TARGETS:
        few_registers = (not work.loads_boxes and widest > 192) or (
            _is_mixed(work) and widest > 128
        )
        most, unit = (64 if few_registers else 128), _GROUP_ROWS
        if _is_for_three_groups(work):
            return 3 * unit
    needed = most if work.rows is None else -(-max(work.rows, 1) // unit) * unit
    if _is_mixed(work):
        # The threads that multiply may have to convert keys and values: more of them than few rows.
        unit = _GROUP_ROWS
    bq = unit
    while bq < min(most, needed):
        bq *= 2
    while bq > unit and not _fits(work, arch, bq, keys):
        bq //= 2
    if unit == _GROUP_ROWS and bq == 2 * unit and _is_plain(work) and not work.is_paged:
        if are_short_packs(work) and widest > _WIDEST_UNMASKED:
            # On average half of a tile is empty.
            return unit
        # Tiles of half as many rows fill more processors.
        return unit if _time(work, unit) < _time(work, bq) else bq
    return bq


def _fits(work: AttentionWork, arch: str, rows: int, keys: int) -> bool:
    """Whether shared memory holds the rows of a tile and two stages of keys and values."""
    free = target(arch).smem_per_cta - _MEETING_BYTES
    dims, element = work.dims, work.bits_q // 8
    key = element * sum(dims)
    if arch in _WARPGROUP_TARGETS and work.bits == 8:
        # What takes a second step in shared memory is there as it was loaded too.
        key += dims[1] if element == 1 else sum(dims)
    return element * rows * dims[0] + 2 * keys * key <= free
