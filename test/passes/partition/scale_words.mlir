// Scales of blocks in words of 32 bits: staged beside the operands, loaded once for the multiplies
// that take them, with words of their own for the last one of a trip; refused where no warp
// multiplies them.
// RUN: cute-opt %s --split-input-file -p 'cute-partition{arch=sm_120a}' | filecheck %s

!operand = !cute.memref<i8, gmem, align<16>, "(128,128):(128,1)">
!words = !cute.memref<i32, gmem, align<16>, "(1,256):(256,1)">

// CHECK: %scales_a = cute.alloc_smem : !cute.memref<i32, smem, align<128>, "(1,256):(256,1)">
// CHECK: cute.copy {{%.*}}, {{%.*}} {atom = !cute_nvgpu.atom.universal_copy<i32, 128 b>} : {{.*}} -> !cute.fragment<i32, "(1,128)", "((4,8,2,2),2):((32,4,2,0),1)">
// CHECK: cute.copy {{%.*}}, {{%.*}} {atom = !cute_nvgpu.atom.universal_copy<i32, 128 b>} : {{.*}} -> !cute.fragment<i32, "(1,128)", "((4,8,2,2),2):((32,4,0,2),1)">
// CHECK: cute.gemm {{.*}} factors [[A:%.*]], [[B:%.*]] {atom = !cute_nvgpu.sm80.mma<16x8x64, elem_type = (f4E2M1FN, f4E2M1FN, f32), kind = mxf4>, scaling = "ue8m0x32"} :
// CHECK: cute.gemm {{.*}} factors [[A]], [[B]] {atom = {{.*}}, scaling = "ue8m0x32", first_scale = 2 : i32}
// CHECK: subview %scales_a, (0, 128)
// CHECK: cute.gemm {{.*}} factors [[C:%.*]], [[D:%.*]] {atom = {{.*}}, scaling = "ue8m0x32"} :
// CHECK: subview %scales_a, (0, 128)
// CHECK: cute.gemm {{.*}} {atom = {{.*}}, scaling = "ue8m0x32", first_scale = 2 : i32}
cute.kernel @k(%a: !operand, %s: !words, %d: !cute.memref<f32, gmem, align<16>, "(128,128):(128,1)">) attributes {schedule = #cute.schedule<"warps = (2,2), roles = uniform">, threads = 128 : i32} {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  %zero = arith.constant 0.0 : f32
  cute.fill %acc, %zero : !cute.fragment<f32, "(128,128)">
  cute.gemm %a, %a, %acc factors %s, %s {scaling = "ue8m0x32"} : !operand, !operand, !cute.fragment<f32, "(128,128)">, !words, !words
  cute.copy %acc, %d : !cute.fragment<f32, "(128,128)"> -> !cute.memref<f32, gmem, align<16>, "(128,128):(128,1)">
}
