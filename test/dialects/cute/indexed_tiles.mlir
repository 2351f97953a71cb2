// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --print-op-generic | cute-opt --split-input-file | filecheck %s

cute.kernel @rows(%x: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %r: !cute.memref<i32, gmem, align<16>, "(16,1):(1,0)">, %z: i32, %k: i32) {
  %rows = cute.load %r : !cute.memref<i32, gmem, align<16>, "(16,1):(1,0)"> -> !cute.fragment<i32, "(16,1)">
  %t = cute.indexed_tile %x, [16, 64], (%z, %k), %rows {guard = array<i64: 1>} : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.fragment<i32, "(16,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,64):(?{i64 div=8},1)">
}
// CHECK-LABEL: @rows
// CHECK: cute.indexed_tile %x, [16, 64], (%z, %k), %rows {guard = array<i64: 1>} : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.fragment<i32, "(16,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,64):(?{i64 div=8},1)">

// -----

cute.kernel @elements_of_a_batch(%x: !cute.memref<f32, gmem, align<4>, "(?,?):(?,2)">, %b: i32, %z: i32, %rows: !cute.memref<i32, gmem, align<4>, "(8,1):(1,0)">) {
  %at = cute.load %rows : !cute.memref<i32, gmem, align<4>, "(8,1):(1,0)"> -> !cute.fragment<i32, "(8,1)">
  %t = cute.indexed_tile %x, [*, 8], (%b, %z), %at : !cute.memref<f32, gmem, align<4>, "(?,?):(?,2)">, !cute.fragment<i32, "(8,1)"> -> !cute.memref<f32, gmem, align<4>, "(8,1):(2,0)">
}
// CHECK-LABEL: @elements_of_a_batch
// CHECK: cute.indexed_tile %x, [*, 8], (%b, %z), %at : {{.*}} -> !cute.memref<f32, gmem, align<4>, "(8,1):(2,0)">
