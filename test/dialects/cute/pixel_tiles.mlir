// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --print-op-generic | cute-opt --split-input-file | filecheck %s

cute.kernel @images(%x: !cute.memref<f16, gmem, align<16>, "(?,?,?,?):(?{i64 div=8},?{i64 div=8},?{i64 div=8},1)">, %m: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %n: i32, %h: i32, %w: i32, %k: i32, %r: i32, %s: i32) {
  %p = cute.pixel_tile %x, [128, 64], (%n, %h, %w, %k) + (%r, %s), pixels (-1,-2) (-1,0) (1,2) : !cute.memref<f16, gmem, align<16>, "(?,?,?,?):(?{i64 div=8},?{i64 div=8},?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
  %rows = cute.alloc_fragment : !cute.fragment<i32, "(128,1)">
  %t = cute.indexed_tile %m, [128, 64], (%n, %k), %rows or %p : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.fragment<i32, "(128,1)">, !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
}
// CHECK-LABEL: @images
// CHECK: cute.pixel_tile %x, [128, 64], (%n, %h, %w, %k) + (%r, %s), pixels (-1,-2) (-1,0) (1,2) : {{.*}} -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// CHECK: cute.indexed_tile %m, [128, 64], (%n, %k), %rows or %p : {{.*}}, !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)"> ->

// -----

func.func @launch(%x: !cute.memref<f16, gmem, align<16>, "(?,?,?,?):(?{i64 div=8},?{i64 div=8},?{i64 div=8},1)">) {
  %t = cute_nvgpu.make_tma_descriptor %x : !cute.memref<f16, gmem, align<16>, "(?,?,?,?):(?{i64 div=8},?{i64 div=8},?{i64 div=8},1)"> -> !cute_nvgpu.tma_descriptor<f16, (1,1,128,64), S<3,4,3>, pixels (-1,-2) (-1,0) (1,2)>
  func.return
}
// CHECK-LABEL: @launch
// CHECK: !cute_nvgpu.tma_descriptor<f16, (1,1,128,64), S<3,4,3>, pixels (-1,-2) (-1,0) (1,2)>
