// RUN: cute-opt %s -p 'cute-tile{arch=sm_80}' | filecheck %s

// 33 vectors of a row are padded to what 8 lanes share; a sum does not see the padding.

// CHECK-LABEL: cute.kernel @sums
// CHECK: cute.local_tile %X, [4, 320], ({{.*}}) of [4, 264]
// CHECK: cute.load {{.*}} -> !cute.fragment<bf16, "(4,320)">
// CHECK: cute.map ({{.*}}) -> !cute.fragment<f32, "(4,320)"> {
// CHECK: cute.coord 1
// CHECK-NEXT: arith.constant 264 : i32
// CHECK-NEXT: arith.cmpi slt
// CHECK-NEXT: arith.constant 0.000000e+00 : f32
// CHECK-NEXT: arith.select
// CHECK: cute.reduce "add", {{.*}} : !cute.fragment<f32, "(4,320)"> -> !cute.fragment<f32, "(4,1)">
cute.kernel @sums(%X: !cute.memref<bf16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %Y: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">) {
  %i, %j = cute.tile_index %Y, [4, 1] : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
  %zero = arith.constant 0 : i32
  %x = cute.local_tile %X, [4, 264], (%i, %zero) : !cute.memref<bf16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<bf16, gmem, align<16>, "(4,264):(?{i64 div=8},1)">
  %v = cute.load %x : !cute.memref<bf16, gmem, align<16>, "(4,264):(?{i64 div=8},1)"> -> !cute.fragment<bf16, "(4,264)">
  %w = cute.map (%e = %v : !cute.fragment<bf16, "(4,264)">) -> !cute.fragment<f32, "(4,264)"> {
    %f = arith.extf %e : bf16 to f32
    cute.yield %f : f32
  }
  %s = cute.reduce "add", %w {mode = 1 : i64} : !cute.fragment<f32, "(4,264)"> -> !cute.fragment<f32, "(4,1)">
  %y = cute.local_tile %Y, [4, 1], (%i, %j) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(4,1):(?{i64 div=4},1)">
  cute.copy %s, %y : !cute.fragment<f32, "(4,1)"> -> !cute.memref<f32, gmem, align<16>, "(4,1):(?{i64 div=4},1)">
}
