// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @joined_in_shared_memory() {
  %x = cute.alloc_smem : !cute.memref<f16, smem, align<16>, "(16,32):(32,1)">
  // expected-error @+1 {{expected tiles in gmem, got smem}}
  %t = cute.concat (%x, %x), 0 : !cute.memref<f16, smem, align<16>, "(16,32):(32,1)"> -> !cute.memref<f16, smem, align<16>, "(32,32):(32,1)">
}

// -----

cute.kernel @joined_along_no_mode(%x: !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">) {
  // expected-error @+1 {{expected a mode in 0..1, got 2}}
  %t = cute.concat (%x, %x), 2 : !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)"> -> !cute.memref<f16, gmem, align<16>, "(32,32):(32,1)">
}

// -----

cute.kernel @joined_of_run_time_extent(%x: !cute.memref<f16, gmem, align<16>, "(?,32):(32,1)">) {
  // expected-error @+1 {{expected a static mode without nesting to join, got ?}}
  %t = cute.concat (%x, %x), 0 : !cute.memref<f16, gmem, align<16>, "(?,32):(32,1)"> -> !cute.memref<f16, gmem, align<16>, "(?,32):(32,1)">
}

// -----

cute.kernel @joined_to_too_few(%x: !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">) {
  // expected-error @+1 {{expected the joined type !cute.memref<f16, gmem, align<16>, "(32,32):(32,1)">, got !cute.memref<f16, gmem, align<16>, "(48,32):(32,1)">}}
  %t = cute.concat (%x, %x), 0 : !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)"> -> !cute.memref<f16, gmem, align<16>, "(48,32):(32,1)">
}

// -----

cute.kernel @joined_of_two_types(%x: !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">, %y: !cute.memref<f16, gmem, align<16>, "(8,32):(32,1)">) {
  // expected-error @+1 {{expected parts of one type !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">, got !cute.memref<f16, gmem, align<16>, "(8,32):(32,1)">}}
  %t = "cute.concat"(%x, %y) <{mode = 0 : i64}> : (!cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">, !cute.memref<f16, gmem, align<16>, "(8,32):(32,1)">) -> !cute.memref<f16, gmem, align<16>, "(32,32):(32,1)">
}

// -----

cute.kernel @joined_of_nothing() {
  // expected-error @+1 {{expected one tile or more to join, got none}}
  %t = "cute.concat"() <{mode = 0 : i64}> : () -> !cute.memref<f16, gmem, align<16>, "(32,32):(32,1)">
}
