// RUN: cute-opt %s -p 'cute-tile{arch=sm_80}' | filecheck %s

// Four work items share a tile of 65,536 elements whose rows are reduced: 16 rows each.

// CHECK-LABEL: cute.kernel @largest
// CHECK: cute.local_tile %X, [16, 1024]
// CHECK: cute.reduce "max", {{.*}} : !cute.fragment<f32, "(16,1024)"> -> !cute.fragment<f32, "(16,1)">
// CHECK: cute.local_tile %Y, [16, 1]
cute.kernel @largest(%X: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %Y: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">) {
  %i, %j = cute.tile_index %Y, [64, 1] : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
  %zero = arith.constant 0 : i32
  %x = cute.local_tile %X, [64, 1024], (%i, %zero) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,1024):(?{i64 div=4},1)">
  %v = cute.load %x : !cute.memref<f32, gmem, align<16>, "(64,1024):(?{i64 div=4},1)"> -> !cute.fragment<f32, "(64,1024)">
  %s = cute.reduce "max", %v {mode = 1 : i64} : !cute.fragment<f32, "(64,1024)"> -> !cute.fragment<f32, "(64,1)">
  %y = cute.local_tile %Y, [64, 1], (%i, %j) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,1):(?{i64 div=4},1)">
  cute.copy %s, %y : !cute.fragment<f32, "(64,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,1):(?{i64 div=4},1)">
}
