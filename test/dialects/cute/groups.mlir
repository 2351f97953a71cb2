// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// cute.group_size, cute.member, cute.find
// CHECK: cute.kernel @k(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>, %maps: !cute.group<!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>>, %offsets: !cute.group<i32>) {
// CHECK-NEXT:   %n = cute.group_size %offsets : !cute.group<i32>
// CHECK-NEXT:   %i = cute.find %n in %offsets : !cute.group<i32>
// CHECK-NEXT:   %first = cute.member %offsets[%i] : !cute.group<i32>
// CHECK-NEXT:   %a = cute.member %g[%i] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
// CHECK-NEXT:   %t = cute.member %maps[%i] : !cute.group<!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>>
// CHECK-NEXT:   %m = cute.dim %a, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT: }
cute.kernel @k(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>,
               %maps: !cute.group<!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>>,
               %offsets: !cute.group<i32>) {
  %n = cute.group_size %offsets : !cute.group<i32>
  %i = cute.find %n in %offsets : !cute.group<i32>
  %first = cute.member %offsets[%i] : !cute.group<i32>
  %a = cute.member %g[%i] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
  %t = cute.member %maps[%i] : !cute.group<!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>>
  %m = cute.dim %a, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
}

// -----

// cute.tile_index of a group gives the tensor's number first
// CHECK: cute.kernel @k(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>) {
// CHECK-NEXT:   %p, %m, %n = cute.tile_index %g, [128, 64] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
// CHECK-NEXT: }
cute.kernel @k(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>) {
  %p, %m, %n = cute.tile_index %g, [128, 64] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
}

// -----

// cute.tile_offsets
// CHECK: func.func @launch(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)">>) {
// CHECK-NEXT:   %o = cute.tile_offsets %g, [1, 128, _] cluster(2, 1) : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)">>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
func.func @launch(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)">>) {
  %o = cute.tile_offsets %g, [1, 128, _] cluster(2, 1) : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)">>
  func.return
}
