// Tiles in tensor memory: buffers, multiplies into them, copies out of them. Every case prints what
// it parsed.
// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --print-op-generic | cute-opt --split-input-file | filecheck %s

// CHECK: cute.kernel @buffers() {
// CHECK-NEXT:   %t = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,256):(65536,1)">
// CHECK-NEXT:   %ring = cute.alloc_tmem : !cute.memref<i32, tmem, align<4>, "((128,2),64,2):((65536,64),1,128)">
// CHECK-NEXT:   %p = cute.alloc_tmem over %t : !cute.memref<f32, tmem, align<4>, "(128,256):(65536,1)"> : !cute.memref<f16, tmem, align<4>, "(128,64):(131072,1)">
// CHECK-NEXT:   %v = cute.subview %t, (0, 64) : !cute.memref<f32, tmem, align<4>, "(128,256):(65536,1)"> -> !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)">
// CHECK-NEXT: }
cute.kernel @buffers() {
  %t = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,256):(65536,1)">
  %ring = cute.alloc_tmem : !cute.memref<i32, tmem, align<4>, "((128,2),64,2):((65536,64),1,128)">
  %p = cute.alloc_tmem over %t : !cute.memref<f32, tmem, align<4>, "(128,256):(65536,1)"> : !cute.memref<f16, tmem, align<4>, "(128,64):(131072,1)">
  %v = cute.subview %t, (0, 64) : !cute.memref<f32, tmem, align<4>, "(128,256):(65536,1)"> -> !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)">
}

// -----

// CHECK: cute.kernel @multiply(%keeps: i1) {
// CHECK:        cute.gemm %a, %b, %t keeps %keeps {atom = !cute_nvgpu.sm100.mma<128x64x16, elem_type = (f16, f16, f32)>} :
// CHECK-NEXT:   cute.gemm %a, %b, %t {atom = !cute_nvgpu.sm100.mma<128x64x16, elem_type = (f16, f16, f32)>} :
cute.kernel @multiply(%keeps: i1) {
  %a = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
  %b = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
  %t = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)">
  cute.gemm %a, %b, %t keeps %keeps {atom = !cute_nvgpu.sm100.mma<128x64x16, elem_type = (f16, f16, f32)>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">, !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)">
  cute.gemm %a, %b, %t {atom = !cute_nvgpu.sm100.mma<128x64x16, elem_type = (f16, f16, f32)>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">, !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)">
}

// -----

// CHECK: cute.kernel @read() {
// CHECK:        cute.copy %t, %f {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "(128,8):(65536,1)"> -> !cute.fragment<f32, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))">
cute.kernel @read() {
  %t = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,8):(65536,1)">
  %f = cute.alloc_fragment : !cute.fragment<f32, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))">
  cute.copy %t, %f {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "(128,8):(65536,1)"> -> !cute.fragment<f32, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))">
}

// -----

// CHECK: cute.kernel @write() {
// CHECK:        cute.copy %f, %t {atom = !cute_nvgpu.atom.tmem_store<f16, 16x128b>} : !cute.fragment<f16, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))"> -> !cute.memref<f16, tmem, align<4>, "(128,8):(131072,1)">
cute.kernel @write() {
  %t = cute.alloc_tmem : !cute.memref<f16, tmem, align<4>, "(128,8):(131072,1)">
  %f = cute.alloc_fragment : !cute.fragment<f16, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))">
  cute.copy %f, %t {atom = !cute_nvgpu.atom.tmem_store<f16, 16x128b>} : !cute.fragment<f16, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))"> -> !cute.memref<f16, tmem, align<4>, "(128,8):(131072,1)">
}
