// RUN: cute-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expected a group of memrefs in gmem, tensor maps or i32, got f32}}
cute.kernel @group_of_floats(%g: !cute.group<f32>) {}

// -----

// expected-error @+1 {{expected a group of memrefs in gmem, tensor maps or i32, got !cute.memref<f16, smem}}
cute.kernel @group_in_shared_memory(%g: !cute.group<!cute.memref<f16, smem, align<16>, "(8,8):(8,1)">>) {}

// -----

cute.kernel @member_of_a_tensor(%g: !cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">, %i: i32) {
  // expected-error @+1 {{expected a group, got !cute.memref}}
  %a = cute.member %g[%i] : !cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">
}

// -----

cute.kernel @member_of_another_type(%g: !cute.group<i32>, %i: i32) {
  // expected-error @+1 {{expected a result of type i32, got i64}}
  %a = "cute.member"(%g, %i) : (!cute.group<i32>, i32) -> i64
}

// -----

cute.kernel @search_of_tensors(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">>, %i: i32) {
  // expected-error @+1 {{expected a group of i32 to search, got !cute.group<!cute.memref}}
  %p = cute.find %i in %g : !cute.group<!cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">>
}

// -----

cute.kernel @tiles_of_numbers(%g: !cute.group<i32>) {
  // expected-error @+1 {{expected a group of tensors, got i32}}
  %p, %m = cute.tile_index %g, [128] : !cute.group<i32>
}

// -----

func.func @offsets_of_numbers(%g: !cute.group<i32>) {
  // expected-error @+1 {{expected a group of tensors, got i32}}
  %o = cute.tile_offsets %g, [128] cluster(1, 1) : !cute.group<i32>
  func.return
}

// -----

func.func @tile_of_another_rank(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">>) {
  // expected-error @+1 {{expected one tile extent for each of the 2 modes of (8,8):(8,1), got 1}}
  %o = cute.tile_offsets %g, [128] cluster(1, 1) : !cute.group<!cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">>
  func.return
}

// -----

func.func @tile_that_drops_a_mode(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">>) {
  // expected-error @+1 {{expected positive tile extents or '_', got [0, 8]}}
  %o = cute.tile_offsets %g, [*, 8] cluster(1, 1) : !cute.group<!cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">>
  func.return
}

// -----

func.func @cluster_of_one_extent(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">>) {
  // expected-error @+1 {{expected a cluster of 2 positive extents, got (1,)}}
  %o = cute.tile_offsets %g, [8, 8] cluster(1) : !cute.group<!cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">>
  func.return
}

// -----

func.func @map_of_a_group(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">>) {
  // expected-error @+1 {{expected a tensor in gmem, got !cute.group<}}
  %t = cute_nvgpu.make_tma_descriptor %g : !cute.group<!cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">> -> !cute_nvgpu.tma_descriptor<f16, (8,8)>
  func.return
}

// -----

func.func @numbers_for_a_group(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">>) {
  // expected-error @+1 {{expected a tensor map, or a group of them for a group of tensors, got i32}}
  %t = cute_nvgpu.make_tma_descriptor %g : !cute.group<!cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">> -> !cute.group<i32>
  func.return
}

// -----

cute.kernel @fence_of_numbers(%g: !cute.group<i32>) {
  // expected-error @+1 {{expected a group of tensor maps, got !cute.group<i32>}}
  cute_nvgpu.fence_tensor_maps %g : !cute.group<i32>
}
