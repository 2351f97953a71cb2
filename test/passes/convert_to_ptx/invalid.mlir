// RUN: cute-opt %s -p convert-to-ptx --split-input-file --verify-diagnostics

// expected-error @+1 {{expected the attribute threads (the block size), got none}}
cute.kernel @block_size() {
}

// -----

cute.kernel @shared_memory() attributes {threads = 32 : i32} {
  // expected-error-re @+1 {{expected at most 166912 bytes of shared memory on sm_80, got 262144, of which 262144 hold 256 x 256 elements; take tiles of 1/2 of the elements, such as 128 x 256 for these{{$}}}}
  %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(256,256):(256,1)">
}

// -----

cute.kernel @ring() attributes {threads = 32 : i32} {
  // expected-error @+1 {{got 262144, of which 262144 hold 4 stages of 128 x 128 elements; take tiles of 1/2 of the elements, such as 64 x 128 for these or fewer stages}}
  %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(128,128,4):(128,1,16384)">
}

// -----

cute.kernel @unbound() attributes {threads = 32 : i32} {
  // expected-error @+1 {{expected a thread-value layout (cute-partition)}}
  %f = cute.alloc_fragment : !cute.fragment<f32, "(8,8)">
}

// -----

cute.kernel @too_many_threads() attributes {threads = 32 : i32} {
  // expected-error @+1 {{expected at most the block's 32 threads, got 64}}
  %f = cute.alloc_fragment : !cute.fragment<f32, "(8,8)", "(64,1):(1,0)">
}

// -----

cute.kernel @not_together(%a: !cute.memref<f16, gmem, align<16>, "(32,32):(1,32)">) attributes {threads = 128 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<16>, "(32,32):(32,1)">
  // expected-error @+1 {{expected 8 values in a row of the source to lie together and be aligned to 16 bytes for cp.async of 16 bytes, got 1}}
  cute.copy %a, %s {atom = !cute_nvgpu.atom.simt_async_copy<f16, cache = global, 128 b>, tiled = #cute.tiled_copy<"((4,32),(8,1)):((256,1),(32,0))", tiler = "(32,32)">} : !cute.memref<f16, gmem, align<16>, "(32,32):(1,32)"> -> !cute.memref<f16, smem, align<16>, "(32,32):(32,1)">
}

// -----

cute.kernel @no_matrix_pattern() attributes {threads = 32 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<16>, "(16,16):(16,1)">
  %f = cute.alloc_fragment : !cute.fragment<f16, "(16,16)", "((16,2),8):((1,128),16)">
  // expected-error @+1 {{expected four neighboring lanes to hold 16 bytes in a row for ldmatrix}}
  cute.copy %s, %f {atom = !cute_nvgpu.atom.ldsm<val_type = f16, num_matrices = 4, n>} : !cute.memref<f16, smem, align<16>, "(16,16):(16,1)"> -> !cute.fragment<f16, "(16,16)", "((16,2),8):((1,128),16)">
}

// -----

cute.kernel @crossing_threads(%x: f32) attributes {threads = 32 : i32} {
  %f = cute.alloc_fragment : !cute.fragment<f32, "(8,8)", "(32,2):(1,32)">
  // expected-error @+1 {{expected each thread to hold what it reads}}
  %g = cute.convert %f : !cute.fragment<f32, "(8,8)", "(32,2):(1,32)"> -> !cute.fragment<f32, "(8,8)", "(32,2):(2,1)">
}

// -----

cute.kernel @work_items(%c: !cute.memref<f32, gmem, align<4>, "(?):(1)">) attributes {threads = 32 : i32} {
  // expected-error @+1 {{expected block indices, which cute-tile makes of tile indices}}
  %m = cute.tile_index %c, [32] : !cute.memref<f32, gmem, align<4>, "(?):(1)">
}

// -----

cute.kernel @atomic_type(%c: !cute.memref<f32, gmem, align<4>, "(32):(1)">) attributes {threads = 32 : i32} {
  %f = cute.alloc_fragment : !cute.fragment<f32, "(32)", "(32,1):(1,0)">
  // expected-error @+1 {{got max of f32}}
  cute.atomic "max", %f, %c : !cute.fragment<f32, "(32)", "(32,1):(1,0)">, !cute.memref<f32, gmem, align<4>, "(32):(1)">
}

// -----

cute.kernel @unknown_degree() attributes {threads = 32 : i32} {
  %f = cute.alloc_fragment : !cute.fragment<f32, "(32,16)", "(32,16):(1,32)">
  %y = cute.map (%x = %f : !cute.fragment<f32, "(32,16)", "(32,16):(1,32)">) -> !cute.fragment<f32, "(32,16)", "(32,16):(1,32)"> {
    // expected-error @+1 {{expected polynomials = array<i32: share, degree>, of 1 to 16 and 3 to 5, got array<i32: 4, 6>}}
    %p = math.exp2 %x {polynomials = array<i32: 4, 6>} : f32
    cute.yield %p : f32
  }
}
