// Words of 64 bits, which TMA brings, where threads read scales.
// RUN: cute-opt %s --verify-diagnostics -p 'cute-partition{arch=sm_120a}'

!operand = !cute.memref<i8, gmem, align<16>, "(128,128):(128,1)">
!words = !cute.memref<i64, gmem, align<16>, "(1,128):(128,1)">
cute.kernel @k(%a: !operand, %s: !words, %d: !cute.memref<f32, gmem, align<16>, "(128,128):(128,1)">) attributes {schedule = #cute.schedule<"warps = (2,2), roles = uniform">, threads = 128 : i32} {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  %zero = arith.constant 0.0 : f32
  cute.fill %acc, %zero : !cute.fragment<f32, "(128,128)">
  // expected-error @+1 {{got words of 64 bits where threads read those of 32}}
  cute.gemm %a, %a, %acc factors %s, %s {scaling = "ue8m0x32"} : !operand, !operand, !cute.fragment<f32, "(128,128)">, !words, !words
  cute.copy %acc, %d : !cute.fragment<f32, "(128,128)"> -> !cute.memref<f32, gmem, align<16>, "(128,128):(128,1)">
}
