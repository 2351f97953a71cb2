// RUN: cute-opt %s --verify-diagnostics --split-input-file -p 'cute-tile{arch=sm_80},cute-partition{arch=sm_80}'

!a = !cute.memref<f16, gmem, align<16>, "(32,32):(32,1)">
!acc = !cute.fragment<f32, "(32,32)">
cute.kernel @multiplies_of_two_tiled_mmas(%A: !a) {
  %acc = cute.alloc_fragment : !acc
  %zero = arith.constant 0.0 : f32
  cute.fill %acc, %zero : !acc
  // expected-error @+1 {{expected the multiplies of an accumulator to name one TiledMMA where warps share K, got (mma_m16n8k16_f32_f16; (2,1,2):(1,0,2); (_,_,_)) and (mma_m16n8k16_f32_f16; (1,2,2):(0,1,2); (_,_,_))}}
  cute.gemm %A, %A, %acc {atom = "(mma_m16n8k16_f32_f16; (2,1,2))"} : !a, !a, !acc
  cute.gemm %A, %A, %acc {atom = "(mma_m16n8k16_f32_f16; (1,2,2))"} : !a, !a, !acc
}

// -----

!a = !cute.memref<f16, gmem, align<16>, "(32,32):(32,1)">
!acc = !cute.fragment<f32, "(32,32)">
cute.kernel @a_multiply_that_names_none(%A: !a) {
  %acc = cute.alloc_fragment : !acc
  %zero = arith.constant 0.0 : f32
  cute.fill %acc, %zero : !acc
  cute.gemm %A, %A, %acc {atom = "(mma_m16n8k16_f32_f16; (2,1,2))"} : !a, !a, !acc
  // expected-error @+1 {{expected all multiplies of an accumulator to name the TiledMMA whose warps share K, got one that names none}}
  cute.gemm %A, %A, %acc : !a, !a, !acc
}

// -----

!a = !cute.memref<i8, gmem, align<16>, "(32,64):(64,1)">
!acc = !cute.fragment<i32, "(32,32)">
cute.kernel @sums_that_saturate(%A: !a) {
  %acc = cute.alloc_fragment : !acc
  %zero = arith.constant 0 : i32
  cute.fill %acc, %zero : !acc
  // expected-error @+1 {{expected one warp along K where sums saturate, got several: what saturates in parts is another sum}}
  cute.gemm %A, %A, %acc {atom = "(mma_m16n8k32_s32_s8_satfinite; (2,1,2))"} : !a, !a, !acc
}
