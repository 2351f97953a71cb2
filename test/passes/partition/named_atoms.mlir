// RUN: cute-opt %s --split-input-file -p 'cute-tile{arch=sm_80},cute-partition{arch=sm_80}' | filecheck %s

// A multiply takes the atom of its name, which another multiply beside it does not; where no form of
// mma.sync changes signs, A is negated in registers.

// CHECK-LABEL: cute.kernel @named
// CHECK:         cute.gemm {{.*}} {atom = !cute_nvgpu.sm80.mma<16x8x32, elem_type = (i8, i8, i32), kind = satfinite>}
// CHECK:         cute.gemm {{.*}} {atom = !cute_nvgpu.sm80.mma<16x8x32, elem_type = (i8, i8, i32)>}
cute.kernel @named(%A: !cute.memref<i8, gmem, align<16>, "(32,32):(32,1)">) {
  %acc = cute.alloc_fragment : !cute.fragment<i32, "(32,32)">
  %zero = arith.constant 0 : i32
  cute.fill %acc, %zero : !cute.fragment<i32, "(32,32)">
  cute.gemm %A, %A, %acc {atom = "mma_m16n8k32_s32_s8_satfinite"} : !cute.memref<i8, gmem, align<16>, "(32,32):(32,1)">, !cute.memref<i8, gmem, align<16>, "(32,32):(32,1)">, !cute.fragment<i32, "(32,32)">
  cute.gemm %A, %A, %acc : !cute.memref<i8, gmem, align<16>, "(32,32):(32,1)">, !cute.memref<i8, gmem, align<16>, "(32,32):(32,1)">, !cute.fragment<i32, "(32,32)">
}

// -----

// CHECK-LABEL: cute.kernel @negated
// CHECK:         arith.negf
// CHECK:         cute.gemm {{.*}} {atom = !cute_nvgpu.sm80.mma<16x8x16, elem_type = (f16, f16, f32)>}
// CHECK-NOT:     arith.negf
cute.kernel @negated(%A: !cute.memref<f16, gmem, align<16>, "(32,16):(16,1)">) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(32,32)">
  %zero = arith.constant 0.0 : f32
  cute.fill %acc, %zero : !cute.fragment<f32, "(32,32)">
  cute.gemm %A, %A, %acc {negate = "b"} : !cute.memref<f16, gmem, align<16>, "(32,16):(16,1)">, !cute.memref<f16, gmem, align<16>, "(32,16):(16,1)">, !cute.fragment<f32, "(32,32)">
  cute.gemm %A, %A, %acc {negate = "ab"} : !cute.memref<f16, gmem, align<16>, "(32,16):(16,1)">, !cute.memref<f16, gmem, align<16>, "(32,16):(16,1)">, !cute.fragment<f32, "(32,32)">
}
