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
  // expected-error @+1 {{expected the scales of A as words (i64) of shape (1, 64) or words (i32) of shape (1, 128) in memory, got !cute.memref}}
  cute.gemm %a, %a, %acc factors %s, %s {scaling = "ue8m0x32"} : !operand, !operand, !cute.fragment<f32, "(128,128)">, !panel, !panel
}

// -----

!operand = !cute.fragment<f8E4M3FN, "(128,32)">
!words = !cute.fragment<i32, "(1,128)">
cute.kernel @no_words(%s: !cute.memref<i32, gmem, align<16>, "(1,128):(128,1)">) {
  %a = cute.alloc_fragment : !operand
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  // expected-error @+1 {{expected the scales of A as words (i32) of shape (1, 128) in registers, got !cute.memref}}
  cute.gemm %a, %a, %acc factors %s, %s {atom = !cute_nvgpu.sm80.mma<16x8x32, elem_type = (f8E4M3FN, f8E4M3FN, f32), kind = mxf8f6f4>, scaling = "ue8m0x32"} : !operand, !operand, !cute.fragment<f32, "(128,128)">, !cute.memref<i32, gmem, align<16>, "(1,128):(128,1)">, !cute.memref<i32, gmem, align<16>, "(1,128):(128,1)">
}

// -----

!operand = !cute.fragment<i8, "(128,32)">
!words = !cute.fragment<i32, "(1,128)">
cute.kernel @odd_scale() {
  %a = cute.alloc_fragment : !operand
  %s = cute.alloc_fragment : !words
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  // expected-error @+1 {{expected first_scale to be a multiple of the 2 scales of a row that the atom takes of a word of 4, got 1}}
  cute.gemm %a, %a, %acc factors %s, %s {atom = !cute_nvgpu.sm80.mma<16x8x64, elem_type = (f4E2M1FN, f4E2M1FN, f32), kind = mxf4>, scaling = "ue8m0x32", first_scale = 1 : i32} : !operand, !operand, !cute.fragment<f32, "(128,128)">, !words, !words
}

// -----

!operand = !cute.fragment<f8E4M3FN, "(128,32)">
cute.kernel @scales_of_an_atom() {
  %a = cute.alloc_fragment : !operand
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  // expected-error @+1 {{expected the scales of the atom (ue8m0x32), and words for them, got none and 0 factors}}
  cute.gemm %a, %a, %acc {atom = !cute_nvgpu.sm80.mma<16x8x32, elem_type = (f8E4M3FN, f8E4M3FN, f32), kind = mxf8f6f4>} : !operand, !operand, !cute.fragment<f32, "(128,128)">
}
