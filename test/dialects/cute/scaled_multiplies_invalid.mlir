// What multiplies with scales of blocks refuse.
// RUN: cute-opt %s --split-input-file --verify-diagnostics

!operand = !cute.memref<f8E4M3FN, gmem, align<16>, "(128,128):(128,1)">
!panel = !cute.memref<i64, gmem, align<16>, "(1,64):(64,1)">
cute.kernel @factors_without_scaling(%a: !operand, %s: !panel) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  // expected-error @+1 {{expected two factors (and columns of tensor memory) with scaling, none without, got 2}}
  cute.gemm %a, %a, %acc factors %s, %s : !operand, !operand, !cute.fragment<f32, "(128,128)">, !panel, !panel
}

// -----

!operand = !cute.memref<f8E4M3FN, gmem, align<16>, "(128,128):(128,1)">
cute.kernel @scaling_without_factors(%a: !operand) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  // expected-error @+1 {{expected two factors (and columns of tensor memory) with scaling, none without, got 0}}
  cute.gemm %a, %a, %acc {scaling = "ue8m0x32"} : !operand, !operand, !cute.fragment<f32, "(128,128)">
}

// -----

!operand = !cute.memref<f8E4M3FN, gmem, align<16>, "(128,128):(128,1)">
!panel = !cute.memref<i64, gmem, align<16>, "(1,64):(64,1)">
cute.kernel @unknown_scaling(%a: !operand, %s: !panel) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  // expected-error @+1 {{expected a scaling (ue8m0x32, ue4m3x16), got ue8m0x64}}
  cute.gemm %a, %a, %acc factors %s, %s {scaling = "ue8m0x64"} : !operand, !operand, !cute.fragment<f32, "(128,128)">, !panel, !panel
}

// -----

!operand = !cute.memref<f8E4M3FN, gmem, align<16>, "(128,128):(128,1)">
!panel = !cute.memref<i64, gmem, align<16>, "(1,64):(64,1)">
cute.kernel @signs(%a: !operand, %s: !panel) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  // expected-error @+1 {{expected scales of blocks without negate, sums and slices}}
  cute.gemm %a, %a, %acc factors %s, %s {negate = "a", scaling = "ue8m0x32"} : !operand, !operand, !cute.fragment<f32, "(128,128)">, !panel, !panel
}

// -----

!operand = !cute.memref<f8E4M3FN, gmem, align<16>, "(128,64):(64,1)">
!panel = !cute.memref<i64, gmem, align<16>, "(1,64):(64,1)">
cute.kernel @part_of_a_panel(%a: !operand, %s: !panel) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  // expected-error @+1 {{expected A of multiples of (128, 128), whose scales are a panel, got (128, 64)}}
  cute.gemm %a, %a, %acc factors %s, %s {scaling = "ue8m0x32"} : !operand, !operand, !cute.fragment<f32, "(128,128)">, !panel, !panel
}

// -----

!operand = !cute.memref<f8E4M3FN, gmem, align<16>, "(128,128):(128,1)">
!panel = !cute.memref<i64, gmem, align<16>, "(1,128):(128,1)">
cute.kernel @two_panels(%a: !operand, %s: !panel) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  // expected-error @+1 {{expected the scales of A as words (i64) of shape (1, 64), got !cute.memref}}
  cute.gemm %a, %a, %acc factors %s, %s {scaling = "ue8m0x32"} : !operand, !operand, !cute.fragment<f32, "(128,128)">, !panel, !panel
}
