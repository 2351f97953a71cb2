// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @counters_of_floats(%counters: !cute.memref<f32, gmem, align<16>, "(?):(1)">, %i: i32) {
  // expected-error @+1 {{expected counters of i32 in gmem, one behind the other, got !cute.memref<f32}}
  %last = cute.last_arrival %counters[%i] of %i : !cute.memref<f32, gmem, align<16>, "(?):(1)">
}

// -----

cute.kernel @sums_of_halves() {
  %acc = cute.alloc_fragment : !cute.fragment<f16, "(64,8)">
  // expected-error @+1 {{expected a tile with elements of 32 bits, got !cute.fragment<f16}}
  %first = cute.cluster_sum %acc of 2 : !cute.fragment<f16, "(64,8)">
}

// -----

cute.kernel @a_sum_of_one() {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,8)">
  // expected-error @+1 {{expected a count of 2 or more, got 1}}
  %first = cute.cluster_sum %acc of 1 : !cute.fragment<f32, "(64,8)">
}

// -----

cute.kernel @parts_of_halves() {
  %acc = cute.alloc_fragment : !cute.fragment<f16, "(64,16)">
  // expected-error @+1 {{expected a tile of rank 2 with elements of 32 bits, got !cute.fragment<f16}}
  %part = cute.cluster_scatter %acc of 2 : !cute.fragment<f16, "(64,16)"> -> !cute.fragment<f16, "(64,8)">
}

// -----

cute.kernel @a_part_of_one() {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,16)">
  // expected-error @+1 {{expected a count of 2 or more, got 1}}
  %part = cute.cluster_scatter %acc of 1 : !cute.fragment<f32, "(64,16)"> -> !cute.fragment<f32, "(64,16)">
}

// -----

cute.kernel @a_part_of_the_rows() {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,16)">
  // expected-error @+1 {{expected a result with one of 2 equal parts of the columns of !cute.fragment<f32, "(64,16)">, got !cute.fragment<f32, "(32,16)">}}
  %part = cute.cluster_scatter %acc of 2 : !cute.fragment<f32, "(64,16)"> -> !cute.fragment<f32, "(32,16)">
}

// -----

func.func @workspace_of_a_number(%n: i32) {
  // expected-error @+1 {{expected a memref, got i32}}
  %w = cute.workspace(%n) : i32
  func.return
}

// -----

func.func @workspace_in_shared_memory() {
  // expected-error @+1 {{expected a workspace in gmem, got smem}}
  %w = cute.workspace() : !cute.memref<f32, smem, align<16>, "(8):(1)">
  func.return
}

// -----

func.func @workspace_without_an_extent() {
  // expected-error @+1 {{expected 1 extents for (?):(1), got 0}}
  %w = cute.workspace() : !cute.memref<f32, gmem, align<16>, "(?):(1)">
  func.return
}

// -----

func.func @workspace_of_run_time_strides(%n: i32) {
  // expected-error @+1 {{expected run-time strides in front of run-time extents, got (?,4):(?{i64},1)}}
  %w = cute.workspace(%n) : !cute.memref<f32, gmem, align<16>, "(?,4):(?{i64},1)">
  func.return
}

// -----

cute.kernel @claims_of_floats(%claims: !cute.memref<f32, gmem, align<16>, "(1):(1)">, %n: i32) {
  // expected-error @+1 {{expected a counter of i32 in gmem, got !cute.memref<f32}}
  %next = cute.claim %claims of %n : !cute.memref<f32, gmem, align<16>, "(1):(1)">
}

// -----

cute.kernel @part_that_crosses_factors() {
  %s = cute.alloc_smem : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,9)):(64,(1,4096))">
  // expected-error @+1 {{to stay whole or a part that divides 64 or is a multiple of it, got 96}}
  %v = cute.subview %s, (0, 0) : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,9)):(64,(1,4096))"> -> !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,96):(64,1)">
}

// -----

cute.kernel @part_that_starts_between_factors() {
  %s = cute.alloc_smem : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,9)):(64,(1,4096))">
  // expected-error @+1 {{to start at a multiple of 64 and to carry nothing, got 128 at 32}}
  %v = cute.subview %s, (0, 32) : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,9)):(64,(1,4096))"> -> !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,2)):(64,(1,4096))">
}

// -----

cute.kernel @reduction_of_halves() {
  %x = cute.alloc_fragment : !cute.fragment<f16, "(1,1)">
  // expected-error @+1 {{expected a tile of one element of 32 bits, got !cute.fragment<f16, "(1,1)">}}
  %y = cute.cluster_reduce "add", %x of 2 : !cute.fragment<f16, "(1,1)"> -> !cute.fragment<f16, "(1,1)">
}

// -----

cute.kernel @reduction_of_many() {
  %x = cute.alloc_fragment : !cute.fragment<f32, "(2,1)">
  // expected-error @+1 {{expected a tile of one element of 32 bits, got !cute.fragment<f32, "(2,1)">}}
  %y = cute.cluster_reduce "add", %x of 2 : !cute.fragment<f32, "(2,1)"> -> !cute.fragment<f32, "(2,1)">
}

// -----

cute.kernel @unknown_reduction() {
  %x = cute.alloc_fragment : !cute.fragment<f32, "(1,1)">
  // expected-error @+1 {{expected a reduction (add, mul, max, min), got 'xor'}}
  %y = cute.cluster_reduce "xor", %x of 2 : !cute.fragment<f32, "(1,1)"> -> !cute.fragment<f32, "(1,1)">
}

// -----

cute.kernel @bound_of_another_kind(%n: i32) {
  // expected-error @+1 {{expected max or min, got 'add'}}
  %m = cute.cluster_bound "add", %n
}

// -----

cute.kernel @rank_of_one() {
  // expected-error @+1 {{expected a count of 2 or more, got 1}}
  %rank = cute.cluster_rank of 1
}
