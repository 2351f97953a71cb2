// RUN: cute-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expected a memory space (}}
func.func private @unknown_memory_space(!cute.memref<f16, attic, align<16>, "(4,8):(8,1)">)

// -----

// expected-error @+1 {{expected an alignment in bytes that is a power of two up to 1024, got 12}}
func.func private @alignment(!cute.memref<f16, gmem, align<12>, "(4,8):(8,1)">)

// -----

// expected-error @+1 {{not congruent}}
func.func private @stride_of_another_shape(!cute.memref<f16, gmem, align<16>, "((4,8),2):(16,8)">)

// -----

// expected-error-re @+1 {{expected {{.*}}got}}
func.func private @layout_text(!cute.memref<f16, gmem, align<16>, "(4,8):(8,">)

// -----

// expected-error @+1 {{expected an integer or float element type, got index}}
func.func private @element(!cute.memref<index, gmem, align<16>, "(4,8):(8,1)">)

// -----

// expected-error @+1 {{'cute.kernel': expected kernel tensors in gmem, got smem}}
cute.kernel @tensor_in_smem(%a: !cute.memref<f16, smem, align<16>, "(4,8):(8,1)">) {
}

// -----

// expected-error @+1 {{expected kernel arguments to be memrefs, tensor maps, groups or scalars, got index}}
cute.kernel @index_argument(%a: index) {
}

// -----

cute.kernel @mode_out_of_range(%a: !cute.memref<f16, gmem, align<16>, "(4,8):(8,1)">) {
  // expected-error @+1 {{'cute.dim': expected a mode in 0..1 of (4,8):(8,1), got 2}}
  %m = cute.dim %a, 2 : !cute.memref<f16, gmem, align<16>, "(4,8):(8,1)">
}

// -----

cute.kernel @tile_of_another_rank(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">) {
  // expected-error @+1 {{expected one tile extent for each of the 2 modes of (64,64):(64,1), got 1}}
  %m = cute.tile_index %a, [32] : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">
}

// -----

cute.kernel @tile_index_of_a_dropped_mode(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">) {
  // expected-error @+1 {{expected positive tile extents or '_', got [0, 32]}}
  %b, %m = cute.tile_index %a, [*, 32] : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">
}

// -----

!tensor = !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">
cute.kernel @local_tile_without_a_mode(%a: !tensor, %i: i32) {
  // expected-error @+1 {{expected a tile with at least one mode that is not '*'}}
  %t = cute.local_tile %a, [*, *], (%i, %i) : !tensor -> !tensor
}

// -----

!tensor = !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">
cute.kernel @local_tile_without_a_coordinate(%a: !tensor, %i: i32) {
  // expected-error @+1 {{expected one tile extent and one coordinate for each of the 2 modes of (64,64):(64,1), got 2 and 1}}
  %t = cute.local_tile %a, [32, 32], (%i) : !tensor -> !cute.memref<f16, gmem, align<16>, "(32,32):(64,1)">
}

// -----

!tensor = !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">
cute.kernel @local_tile_that_loses_an_extent_of_one(%a: !tensor, %i: i32) {
  // expected-error @+1 {{expected the tile's type !cute.memref<f16, gmem, align<16>, "(1,32):(64,1)">, got !cute.memref<f16, gmem, align<16>, "32:1">}}
  %t = cute.local_tile %a, [1, 32], (%i, %i) : !tensor -> !cute.memref<f16, gmem, align<16>, "32:1">
}

// -----

!tensor = !cute.memref<f16, gmem, align<16>, "(?,64):(64,1)">
cute.kernel @local_tile_of_a_whole_mode_of_run_time_extent(%a: !tensor, %i: i32) {
  // expected-error @+1 {{expected a mode of static extent for '_', got ? in (?,64):(64,1); give the tile's extent}}
  %t = cute.local_tile %a, [_, 64], (%i, %i) : !tensor -> !tensor
}

// -----

!tensor = !cute.memref<f16, gmem, align<16>, "((8,8),64):((64,512),1)">
cute.kernel @local_tile_of_part_of_a_nested_mode(%a: !tensor, %i: i32) {
  // expected-error @+1 {{expected '_' for the nested mode (8, 8) of ((8,8),64):((64,512),1), got 32}}
  %t = cute.local_tile %a, [32, 64], (%i, %i) : !tensor -> !tensor
}

// -----

cute.kernel @copy_between_shapes(%a: !cute.memref<f32, gmem, align<16>, "(32,32):(32,1)">) {
  %r = cute.alloc_fragment : !cute.fragment<f32, "(32,16)">
  // expected-error @+1 {{expected tiles of one shape, got (32, 32) and (32, 16)}}
  cute.copy %a, %r : !cute.memref<f32, gmem, align<16>, "(32,32):(32,1)"> -> !cute.fragment<f32, "(32,16)">
}

// -----

cute.kernel @copy_between_types(%a: !cute.memref<f16, gmem, align<16>, "(32,32):(32,1)">) {
  %r = cute.alloc_fragment : !cute.fragment<f32, "(32,32)">
  // expected-error @+1 {{expected one element type, got f16 and f32}}
  cute.copy %a, %r : !cute.memref<f16, gmem, align<16>, "(32,32):(32,1)"> -> !cute.fragment<f32, "(32,32)">
}

// -----

!operand = !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">
cute.kernel @gemm_of_slices_that_do_not_fit(%a: !operand) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64,3)">
  // expected-error @+1 {{expected K to be a multiple of the accumulator's 3 slices, got 32}}
  cute.gemm %a, %a, %acc : !operand, !operand, !cute.fragment<f32, "(64,64,3)">
}

// -----

!operand = !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">
cute.kernel @gemm_of_too_many_modes(%a: !operand) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64,2,2)">
  // expected-error @+1 {{expected tiles of rank 2 (an accumulator in registers may have slices as a third mode), got shapes (64, 32), (64, 32) and (64, 64, 2, 2)}}
  cute.gemm %a, %a, %acc : !operand, !operand, !cute.fragment<f32, "(64,64,2,2)">
}

// -----

!operand = !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">
cute.kernel @gemm_of_shapes_that_do_not_fit(%a: !operand) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,128)">
  // expected-error @+1 {{expected a (M,K), b (N,K) and acc (M,N), got (64, 32), (64, 32) and (64, 128)}}
  cute.gemm %a, %a, %acc : !operand, !operand, !cute.fragment<f32, "(64,128)">
}

// -----

cute.kernel @gemm_of_conditions() {
  %a = cute.alloc_fragment : !cute.fragment<i1, "(64,128)">
  %acc = cute.alloc_fragment : !cute.fragment<i32, "(64,64)">
  // expected-error @+1 {{expected operands of numbers, got !cute.fragment<i1, "(64,128)">, whose conditions are predicates}}
  cute.gemm %a, %a, %acc : !cute.fragment<i1, "(64,128)">, !cute.fragment<i1, "(64,128)">, !cute.fragment<i32, "(64,64)">
}

// -----

!operand = !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">
cute.kernel @sums_without_columns_of_their_own(%a: !operand) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
  // expected-error @+1 {{expected a (M,K), b (N,K) and acc (M,N + 8), got (64, 32), (64, 32) and (64, 64)}}
  cute.gemm %a, %a, %acc {sums} : !operand, !operand, !cute.fragment<f32, "(64,64)">
}

// -----

!operand = !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">
cute.kernel @sums_of_negated_operands(%a: !operand) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,72)">
  // expected-error @+1 {{expected sums of operands that count as they are, got negate = a}}
  cute.gemm %a, %a, %acc {negate = "a", sums} : !operand, !operand, !cute.fragment<f32, "(64,72)">
}

// -----

!operand = !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">
!result = !cute.memref<f32, gmem, align<16>, "(64,72):(72,1)">
cute.kernel @sums_of_a_whole_problem(%a: !operand, %c: !result) {
  // expected-error @+1 {{expected an accumulator in registers with sums, got !cute.memref<f32, gmem}}
  cute.gemm %a, %a, %c {sums} : !operand, !operand, !result
}

// -----

cute.kernel @fill_of_another_type(%x: f16) {
  %r = cute.alloc_fragment : !cute.fragment<f32, "(32,32)">
  // expected-error @+1 {{f16}}
  cute.fill %r, %x : !cute.fragment<f32, "(32,32)">
}

// -----

cute.kernel @map_that_yields_another_type() {
  %r = cute.alloc_fragment : !cute.fragment<f32, "(8,8)">
  // expected-error @+1 {{expected to yield f32, got f16}}
  %s = cute.map (%x = %r : !cute.fragment<f32, "(8,8)">) -> !cute.fragment<f32, "(8,8)"> {
    %y = arith.truncf %x : f32 to f16
    cute.yield %y : f16
  }
}

// -----

cute.kernel @use_before_definition() {
  // expected-error @+1 {{'cute.fill': operand #0 (%r) is used before its definition}}
  cute.fill %r, %x : !cute.fragment<f32, "(8,8)">
  %x = arith.constant 0.0 : f32
  %r = cute.alloc_fragment : !cute.fragment<f32, "(8,8)">
}

// -----

func.func @a_grid_of_two_extents() {
  %one = arith.constant 1 : i32
  // expected-error @+1 {{expected a grid of 3 extents, or none for cute-tile to fill in, got 2}}
  cute.launch @k grid(%one, %one) args() {threads = 128 : i32}
  func.return
}

// -----

func.func @a_cluster_of_two_extents() {
  %one = arith.constant 1 : i32
  // expected-error @+1 {{expected a cluster of 3 positive extents and at most 16 CTAs, got (2, 1)}}
  cute.launch @k grid(%one, %one, %one) cluster(2, 1) args() {threads = 128 : i32}
  func.return
}

// -----

func.func @a_cluster_of_too_many_ctas() {
  %one = arith.constant 1 : i32
  // expected-error @+1 {{expected a cluster of 3 positive extents and at most 16 CTAs, got (8, 4, 1)}}
  cute.launch @k grid(%one, %one, %one) cluster(8, 4, 1) args() {threads = 128 : i32}
  func.return
}

// -----

cute.kernel @any_of_numbers() {
  %t = cute.alloc_fragment : !cute.fragment<i32, "(4,1)">
  // expected-error @+1 {{expected a tile of conditions, got one of i32}}
  %s = cute.any %t : !cute.fragment<i32, "(4,1)">
}

// -----

cute.kernel @any_of_some_warps() {
  %t = cute.alloc_fragment : !cute.fragment<i1, "(4,1)">
  // expected-error @+1 {{expected a local condition where only some warps decide together, got another}}
  %s = cute.any %t {warps = 4 : i32} : !cute.fragment<i1, "(4,1)">
}

// -----

cute.kernel @share_with_nobody(%c: i1) {
  // expected-error @+1 {{expected other roles than 'main' to take a condition, got none}}
  %s = cute.share %c {number = 0 : i32, maker = "main", takers = []}
}

// -----

cute.kernel @share_with_itself(%c: i1) {
  // expected-error @+1 {{expected other roles than 'main' to take a condition, got load, main}}
  %s = cute.share %c {number = 0 : i32, maker = "main", takers = ["load", "main"]}
}

// -----

cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(32,16):(16,1)">) {
  %r = cute.alloc_fragment : !cute.fragment<f32, "(32,16)">
  %c = cute.alloc_fragment : !cute.fragment<i1, "(32,1)">
  // expected-error @+1 {{expected a mask of i1 with the shape and layout of !cute.fragment<f32, "(32,16)">, got !cute.fragment<i1, "(32,1)">}}
  cute.copy %r, %a mask %c : !cute.fragment<i1, "(32,1)"> : !cute.fragment<f32, "(32,16)"> -> !cute.memref<f32, gmem, align<16>, "(32,16):(16,1)">
}

// -----

cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(32,16):(16,1)">) {
  %r = cute.alloc_fragment : !cute.fragment<f32, "(32,16)">
  %c = cute.alloc_fragment : !cute.fragment<i1, "(32,16)">
  // expected-error @+1 {{expected a mask on a store of a register tile, got}}
  cute.copy %a, %r mask %c : !cute.fragment<i1, "(32,16)"> : !cute.memref<f32, gmem, align<16>, "(32,16):(16,1)"> -> !cute.fragment<f32, "(32,16)">
}

// -----

cute.kernel @gemm_asks_for_an_unknown_atom(%a: !cute.memref<f16, gmem, align<16>, "(16,16):(16,1)">) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(16,16)">
  // expected-error @+1 {{expected the name of an MMA atom, got 'mma_m16n8k8_f32_f61'; did you mean mma_m16n8k8_f32_f16}}
  cute.gemm %a, %a, %acc {atom = "mma_m16n8k8_f32_f61"} : !cute.memref<f16, gmem, align<16>, "(16,16):(16,1)">, !cute.memref<f16, gmem, align<16>, "(16,16):(16,1)">, !cute.fragment<f32, "(16,16)">
}

// -----

cute.kernel @gemm_negates_what_it_has_not(%a: !cute.memref<f16, gmem, align<16>, "(16,16):(16,1)">) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(16,16)">
  // expected-error @+1 {{expected negate = a or b or ab before an atom is bound, got c}}
  cute.gemm %a, %a, %acc {negate = "c"} : !cute.memref<f16, gmem, align<16>, "(16,16):(16,1)">, !cute.memref<f16, gmem, align<16>, "(16,16):(16,1)">, !cute.fragment<f32, "(16,16)">
}

// -----

cute.kernel @a_quarter_for_each_cta_of_a_pair(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (16,64), S<3,4,3>>) {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(16,64):(64,1)">
  // expected-error @+1 {{expected a tile or half of its rows in shared memory, got (64, 64) -> (16, 64)}}
  cute.copy %a, %s tma %t : !cute_nvgpu.tma_descriptor<f16, (16,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_load<f16, pair>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(16,64):(64,1)">
}

// -----

cute.kernel @a_place_that_is_not_aligned() {
  // expected-error @+1 {{expected an offset that is a multiple of the alignment (128 bytes), got 64}}
  %s = cute.alloc_smem {offset = 64 : i64} : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
}

// -----

cute.kernel @packed_sum_of_f32() {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(64,32)">
  // expected-error @+1 {{expected packed with sums of f16 or bf16, got add of f32}}
  %s = cute.reduce "add", %t {mode = 1 : i64, packed = 4 : i64} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,1)">
}

// -----

cute.kernel @extent_of_a_sum() {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(64,32)">
  // expected-error @+1 {{expected an extent in 1..32 with 'fold', got 27}}
  %s = cute.reduce "add", %t {mode = 1 : i64, extent = 27 : i64} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,1)">
}

// -----

cute.kernel @packed_sum_of_none() {
  %t = cute.alloc_fragment : !cute.fragment<bf16, "(64,32)">
  // expected-error @+1 {{expected packed to be 1 or more, got 0}}
  %s = cute.reduce "add", %t {mode = 1 : i64, packed = 0 : i64} : !cute.fragment<bf16, "(64,32)"> -> !cute.fragment<f32, "(64,1)">
}

// -----

cute.kernel @misspelled_attribute(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
  %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(64,32):(32,1)">
  // expected-error @+1 {{unknown attribute 'tild' of 'cute.copy', which has atom, tiled, fills, position, reads, reads_earlier, reads_early, reduce, role, stage; did you mean 'tiled'?}}
  cute.copy %a, %s {tild = 1 : i32} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.memref<f32, smem, align<16>, "(64,32):(32,1)">
}

// -----

cute.kernel @attribute_of_another_op(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
  // expected-error @+1 {{unknown attribute 'in_bounds' of 'cute.load', which has tiled, atom,}}
  %x = cute.load %a {in_bounds} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<f32, "(64,32)">
}

// -----

cute.kernel @attribute_of_a_loop(%n: i32) {
  scf.for %i = %n to %n step %n : i32 {
  // expected-error @+1 {{unknown attribute 'turn' of 'scf.for', which has crowded, few_trips, fills, position, reads, reads_earlier, reads_early, role, stage, turns, work_items; did you mean 'turns'?}}
  } {turn}
}

// -----

cute.kernel @bits_of_a_condition(%c: i1) {
  // expected-error @+1 {{'cute.brev': expected an integer of 8 to 64 bits, got i1}}
  %r = cute.brev %c : i1
}

// -----

cute.kernel @scope_of_an_atomic(%a: !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">) {
  %t = cute.alloc_fragment : !cute.fragment<i32, "(64,1)">
  // expected-error @+1 {{'cute.atomic': expected a scope (cta, cluster, gpu, sys), got 'block'}}
  cute.atomic "or", %t, %a {scope = "block"} : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">
}

// -----

cute.kernel @order_of_an_atomic(%a: !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">) {
  %t = cute.alloc_fragment : !cute.fragment<i32, "(64,1)">
  // expected-error @+1 {{'cute.atomic': expected an order (release), got 'acquire'}}
  cute.atomic "or", %t, %a {order = "acquire"} : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">
}

// -----

cute.kernel @inline_0(%a: i32) {
  // expected-error @+1 {{'cute.inline_ptx': expected instructions that compute numbers, without predicates, vectors, addresses and labels, got 'ld.global.b32 $0, [$1]'}}
  %r = cute.inline_ptx "ld.global.b32 $0, [$1]" (%a) : (i32) -> i32
}

// -----

cute.kernel @inline_1(%a: i32) {
  // expected-error @+1 {{'cute.inline_ptx': expected an instruction, got none}}
  %r = cute.inline_ptx "" (%a) : (i32) -> i32
}

// -----

cute.kernel @inline_2(%a: i32) {
  // expected-error @+1 {{'cute.inline_ptx': expected what 'add.s32 $0, $1, $2' reads to be an operand ($1 to $1) or given before, got $2}}
  %r = cute.inline_ptx "add.s32 $0, $1, $2" (%a) : (i32) -> i32
}

// -----

cute.kernel @inline_3(%a: i32) {
  // expected-error @+1 {{'cute.inline_ptx': expected a result ($0 to $0) or a name in front of 'add.s32 $1, $1, 1', got $1}}
  %r = cute.inline_ptx "add.s32 $1, $1, 1" (%a) : (i32) -> i32
}

// -----

cute.kernel @inline_4(%a: i32) {
  // expected-error @+1 {{'cute.inline_ptx': expected a value for $0, got none}}
  %r = cute.inline_ptx "add.s32 t, $1, 1" (%a) : (i32) -> i32
}

// -----

cute.kernel @inline_5(%a: i32) {
  // expected-error @+1 {{'cute.inline_ptx': expected a result in front, got 'add.s32 1, $1, 1'}}
  %r = cute.inline_ptx "add.s32 1, $1, 1" (%a) : (i32) -> i32
}

// -----

cute.kernel @inline_6(%a: i32) {
  // expected-error @+1 {{'cute.inline_ptx': expected a number, a name or a placeholder such as $0, got '1$'}}
  %r = cute.inline_ptx "add.s32 $0, $1, 1$" (%a) : (i32) -> i32
}

// -----

cute.kernel @inline_7(%a: i32) {
  // expected-error @+1 {{'cute.inline_ptx': expected a number, a name or a placeholder such as $0, got '0d3F80'}}
  %r = cute.inline_ptx "add.f64 $0, $1, 0d3F80" (%a) : (i32) -> i32
}

// -----

cute.kernel @inline_8(%a: i32) {
  // expected-error @+1 {{'cute.inline_ptx': expected the bits of a float, got 0f3FF0000000000000}}
  %r = cute.inline_ptx "add.f32 $0, $1, 0f3FF0000000000000" (%a) : (i32) -> i32
}

// -----

cute.kernel @barrier_of_two_kinds() {
  // expected-error @+1 {{expected one of warps, roles and cluster, got warps and cluster}}
  cute.barrier {warps = 4 : i32, cluster}
}
