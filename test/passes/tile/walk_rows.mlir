// RUN: cute-opt %s -p 'cute-tile{arch=sm_80}' | filecheck %s

// A row that no CTA's registers hold is walked in parts: once for what is reduced of it, and again
// for what is stored. The last part ends where the tile does.

// CHECK-LABEL: cute.kernel @normed
// CHECK: cute.local_tile %X, [1, 204800], {{.*}} of [1, 200000]
// CHECK: scf.for [[K:%[0-9]+]] = {{.*}} {
// CHECK: cute.local_tile {{.*}}, [_, 8192], ({{.*}}, [[K]])
// CHECK: cute.load {{.*}} -> !cute.fragment<f32, "(1,8192)">
// CHECK: arith.select
// CHECK: cute.reduce "max"
// CHECK: arith.maximumf
// CHECK: scf.for
// CHECK: cute.load {{.*}} -> !cute.fragment<f32, "(1,8192)">
// CHECK: cute.copy {{.*}} -> !cute.memref<f32, gmem, align<16>, "(1,8192)
// CHECK-NOT: "(1,200000)">
cute.kernel @normed(%X: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %Y: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">) {
  %i, %j = cute.tile_index %Y, [1, 200000] : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
  %zero = arith.constant 0 : i32
  %x = cute.local_tile %X, [1, 200000], (%i, %zero) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(1,200000):(?{i64 div=4},1)">
  %v = cute.load %x : !cute.memref<f32, gmem, align<16>, "(1,200000):(?{i64 div=4},1)"> -> !cute.fragment<f32, "(1,200000)">
  %m = cute.reduce "max", %v {mode = 1 : i64} : !cute.fragment<f32, "(1,200000)"> -> !cute.fragment<f32, "(1,1)">
  %w = cute.map (%e = %v : !cute.fragment<f32, "(1,200000)">, %f = %m : !cute.fragment<f32, "(1,1)">) -> !cute.fragment<f32, "(1,200000)"> {
    %t = arith.subf %e, %f : f32
    cute.yield %t : f32
  }
  %y = cute.local_tile %Y, [1, 200000], (%i, %zero) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(1,200000):(?{i64 div=4},1)">
  cute.copy %w, %y : !cute.fragment<f32, "(1,200000)"> -> !cute.memref<f32, gmem, align<16>, "(1,200000):(?{i64 div=4},1)">
}
