// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @other_count(%x: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %z: i32) {
  %rows = cute.alloc_fragment : !cute.fragment<i32, "(8,1)">
  // expected-error @+1 {{expected i32 numbers of 16 rows, as a column, got !cute.fragment<i32, "(8,1)">}}
  %t = cute.indexed_tile %x, [16, 32], (%z, %z), %rows : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute.fragment<i32, "(8,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,32):(64,1)">
}

// -----

cute.kernel @whole_rows(%x: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %z: i32) {
  %rows = cute.alloc_fragment : !cute.fragment<i32, "(64,1)">
  // expected-error @+1 {{expected a tile of one or two modes, the first of them of a static extent, got (-1, 32)}}
  %t = cute.indexed_tile %x, [_, 32], (%z, %z), %rows : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute.fragment<i32, "(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(64,1)">
}

// -----

cute.kernel @other_type(%x: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %z: i32) {
  %rows = cute.alloc_fragment : !cute.fragment<i32, "(16,1)">
  // expected-error @+1 {{expected the tile's type !cute.memref<f16, gmem, align<16>, "(16,32):(64,1)">, got !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">}}
  %t = cute.indexed_tile %x, [16, 32], (%z, %z), %rows : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute.fragment<i32, "(16,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">
}

// -----

cute.kernel @shared(%z: i32) {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<16>, "(64,64):(64,1)">
  %rows = cute.alloc_fragment : !cute.fragment<i32, "(16,1)">
  // expected-error @+1 {{expected a tensor in global memory, got smem}}
  %t = cute.indexed_tile %s, [16, 32], (%z, %z), %rows : !cute.memref<f16, smem, align<16>, "(64,64):(64,1)">, !cute.fragment<i32, "(16,1)"> -> !cute.memref<f16, smem, align<16>, "(16,32):(64,1)">
}
