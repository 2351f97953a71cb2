// Words of 32 bits on a target whose warps multiply no scales of blocks.
// RUN: cute-opt %s --verify-diagnostics -p 'cute-partition{arch=sm_100a}'

!operand = !cute.memref<i8, gmem, align<16>, "(128,128):(128,1)">
!words = !cute.memref<i32, gmem, align<16>, "(1,256):(256,1)">
cute.kernel @k(%a: !operand, %s: !words, %d: !cute.memref<f32, gmem, align<16>, "(128,128):(128,1)">) attributes {schedule = #cute.schedule<"warps = (2,2), roles = uniform">, threads = 128 : i32} {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  %zero = arith.constant 0.0 : f32
  cute.fill %acc, %zero : !cute.fragment<f32, "(128,128)">
  // expected-error @+1 {{scales of blocks (ue8m0x32): expected a multiply of tcgen05 (sm_100a and its family, tiles of 128 rows and columns or multiples), got words of 32 bits, which sm_120a and its family read}}
  cute.gemm %a, %a, %acc factors %s, %s {scaling = "ue8m0x32"} : !operand, !operand, !cute.fragment<f32, "(128,128)">, !words, !words
  cute.copy %acc, %d : !cute.fragment<f32, "(128,128)"> -> !cute.memref<f32, gmem, align<16>, "(128,128):(128,1)">
}
