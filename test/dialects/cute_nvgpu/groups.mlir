// RUN: cute-opt %s | cute-opt | filecheck %s
// RUN: cute-opt %s --mlir-print-op-generic | cute-opt | filecheck %s

// cute_nvgpu.make_tma_descriptor of a group
// CHECK: func.func @launch(%a: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>) {
// CHECK-NEXT:   %t = cute_nvgpu.make_tma_descriptor %a : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">> -> !cute.group<!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
func.func @launch(%a: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>) {
  %t = cute_nvgpu.make_tma_descriptor %a : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">> -> !cute.group<!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>>
  func.return
}

// cute_nvgpu.fence_tensor_maps
// CHECK: cute.kernel @k(%maps: !cute.group<!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>>) {
// CHECK-NEXT:   cute_nvgpu.fence_tensor_maps %maps : !cute.group<!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>>
// CHECK-NEXT: }
cute.kernel @k(%maps: !cute.group<!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>>) {
  cute_nvgpu.fence_tensor_maps %maps : !cute.group<!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>>
}
