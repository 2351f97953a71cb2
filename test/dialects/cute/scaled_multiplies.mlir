// Multiplies with scales of blocks, before and after they are bound.
// RUN: cute-opt %s | cute-opt | filecheck %s

!operand = !cute.memref<f8E4M3FN, gmem, align<16>, "(128,128):(128,1)">
!panel = !cute.memref<i64, gmem, align<16>, "(1,64):(64,1)">
!staged = !cute.memref<f8E4M3FN, smem, align<1024>, S<3,4,3>, "(128,128):(128,1)">
!words = !cute.memref<i64, smem, align<512>, "(1,64):(64,1)">
!sums = !cute.memref<f32, tmem, align<4>, "(128,128):(65536,1)">
!columns = !cute.memref<i32, tmem, align<4>, "(128,8):(65536,1)">

// CHECK: cute.kernel @tiles
// CHECK: cute.gemm %a, %a, %acc factors %s, %s {scaling = "ue8m0x32"}
cute.kernel @tiles(%a: !operand, %s: !panel) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  cute.gemm %a, %a, %acc factors %s, %s {scaling = "ue8m0x32"} :
    !operand, !operand, !cute.fragment<f32, "(128,128)">, !panel, !panel
}

// CHECK: cute.kernel @bound
// CHECK: cute.gemm %a, %a, %acc keeps %p factors %s, %s, %t {atom = !cute_nvgpu.sm100.mma<128x128x32, elem_type = (f8E4M3FN, f8E4M3FN, f32), scaling = "ue8m0x32">, scaling = "ue8m0x32"}
cute.kernel @bound(%p: i1) {
  %a = cute.alloc_smem : !staged
  %s = cute.alloc_smem : !words
  %acc = cute.alloc_tmem : !sums
  %t = cute.alloc_tmem : !columns
  cute.gemm %a, %a, %acc keeps %p factors %s, %s, %t {
    atom = !cute_nvgpu.sm100.mma<128x128x32, elem_type = (f8E4M3FN, f8E4M3FN, f32), scaling = "ue8m0x32">,
    scaling = "ue8m0x32"
  } : !staged, !staged, !sums, !words, !words, !columns
}

!part = !cute.fragment<i8, "(128,32)", "((4,8,2,2),((4,2,2),4,1)):((512,1,64,0),((128,8,2048),16,0))">
!other = !cute.fragment<i8, "(128,32)", "((4,8,2,2),((4,2),8,1)):((512,1,0,64),((128,2048),8,0))">
!rows = !cute.fragment<i32, "(1,128)", "((4,8,2,2),2):((32,4,2,0),1)">
!columns_of_b = !cute.fragment<i32, "(1,128)", "((4,8,2,2),2):((32,4,0,2),1)">
!registers = !cute.fragment<f32, "(128,128)", "((4,8,2,2),((2,2),4,8)):((256,1,64,8192),((128,8),16,1024))">

// CHECK: cute.kernel @warps
// CHECK: cute.gemm %a, %b, %acc factors %s, %t {atom = !cute_nvgpu.sm80.mma<16x8x64, elem_type = (f4E2M1FN, f4E2M1FN, f32), kind = mxf4>, scaling = "ue8m0x32", first_scale = 2 : i32}
cute.kernel @warps() {
  %a = cute.alloc_fragment : !part
  %b = cute.alloc_fragment : !other
  %s = cute.alloc_fragment : !rows
  %t = cute.alloc_fragment : !columns_of_b
  %acc = cute.alloc_fragment : !registers
  cute.gemm %a, %b, %acc factors %s, %t {
    atom = !cute_nvgpu.sm80.mma<16x8x64, elem_type = (f4E2M1FN, f4E2M1FN, f32), kind = mxf4>,
    scaling = "ue8m0x32", first_scale = 2 : i32
  } : !part, !other, !registers, !rows, !columns_of_b
}
