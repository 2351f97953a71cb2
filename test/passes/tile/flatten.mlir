// RUN: cute-opt %s --split-input-file -p 'cute-tile{arch=sm_90a}' | filecheck %s

// An elementwise program goes through a matrix as one row: a work item is a run of vectors, whose
// rows and places in them are numbered. What is the same for a row or for a column is gathered, too.

// CHECK-LABEL: cute.kernel @scaled
// CHECK: cute.map () -> !cute.fragment<i32, "(256,1)">
// CHECK: arith.mului_extended
// CHECK: %row = cute.map
// CHECK: %place = cute.map
// CHECK: %x = cute.indexed_tile %X, [256, 8], {{.*}}, %row at %place
// CHECK: %s = cute.indexed_tile %S, [256], {{.*}}, %row : {{.*}} -> !cute.memref<f16, gmem, align<16>, "(256,1):(1,0)">
// CHECK: cute.transpose %B : {{.*}} -> !cute.memref<f16, gmem, align<16>, "(1,?):(0,1)">
// CHECK: %b = cute.indexed_tile {{.*}}, [256, 8], {{.*}} at %place
// CHECK: cute.map ({{.*}}"(256,8)">{{.*}}"(256,1)">{{.*}}"(256,8)">) -> !cute.fragment<f16, "(256,8)">
// CHECK: %y = cute.indexed_tile %Y, [256, 8], {{.*}}, %row at %place
// CHECK-NOT: cute.local_tile
cute.kernel @scaled(%X: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %S: !cute.memref<f16, gmem, align<16>, "(?):(1)">, %B: !cute.memref<f16, gmem, align<16>, "(?):(1)">, %Y: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) {
  %i, %j = cute.tile_index %Y, [4, 1024] : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %x = cute.local_tile %X, [4, 1024], (%i, %j) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(4,1024):(?{i64 div=8},1)">
  %v = cute.load %x : !cute.memref<f16, gmem, align<16>, "(4,1024):(?{i64 div=8},1)"> -> !cute.fragment<f16, "(4,1024)">
  %s = cute.local_tile %S, [4], (%i) : !cute.memref<f16, gmem, align<16>, "(?):(1)"> -> !cute.memref<f16, gmem, align<16>, "(4):(1)">
  %st = cute.transpose %s : !cute.memref<f16, gmem, align<16>, "(4):(1)"> -> !cute.memref<f16, gmem, align<16>, "(1,4):(0,1)">
  %sc = cute.transpose %st : !cute.memref<f16, gmem, align<16>, "(1,4):(0,1)"> -> !cute.memref<f16, gmem, align<16>, "(4,1):(1,0)">
  %r = cute.load %sc : !cute.memref<f16, gmem, align<16>, "(4,1):(1,0)"> -> !cute.fragment<f16, "(4,1)">
  %b = cute.local_tile %B, [1024], (%j) : !cute.memref<f16, gmem, align<16>, "(?):(1)"> -> !cute.memref<f16, gmem, align<16>, "(1024):(1)">
  %bt = cute.transpose %b : !cute.memref<f16, gmem, align<16>, "(1024):(1)"> -> !cute.memref<f16, gmem, align<16>, "(1,1024):(0,1)">
  %c = cute.load %bt : !cute.memref<f16, gmem, align<16>, "(1,1024):(0,1)"> -> !cute.fragment<f16, "(1,1024)">
  %w = cute.map (%e = %v : !cute.fragment<f16, "(4,1024)">, %f = %r : !cute.fragment<f16, "(4,1)">, %g = %c : !cute.fragment<f16, "(1,1024)">) -> !cute.fragment<f16, "(4,1024)"> {
    %t = arith.mulf %e, %f : f16
    %u = arith.addf %t, %g : f16
    cute.yield %u : f16
  }
  %y = cute.local_tile %Y, [4, 1024], (%i, %j) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(4,1024):(?{i64 div=8},1)">
  cute.copy %w, %y : !cute.fragment<f16, "(4,1024)"> -> !cute.memref<f16, gmem, align<16>, "(4,1024):(?{i64 div=8},1)">
}

// -----

// What stores a tile and loads it again keeps its tiles: others may have what it wants.

// CHECK-LABEL: cute.kernel @again
// CHECK-NOT: cute.indexed_tile
// CHECK: cute.copy
cute.kernel @again(%X: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %Y: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) {
  %i, %j = cute.tile_index %Y, [1, 512] : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %x = cute.local_tile %X, [1, 512], (%i, %j) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(1,512):(?{i64 div=8},1)">
  %v = cute.load %x : !cute.memref<f16, gmem, align<16>, "(1,512):(?{i64 div=8},1)"> -> !cute.fragment<f16, "(1,512)">
  %y = cute.local_tile %Y, [1, 512], (%i, %j) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(1,512):(?{i64 div=8},1)">
  cute.copy %v, %y : !cute.fragment<f16, "(1,512)"> -> !cute.memref<f16, gmem, align<16>, "(1,512):(?{i64 div=8},1)">
  %w = cute.load %y : !cute.memref<f16, gmem, align<16>, "(1,512):(?{i64 div=8},1)"> -> !cute.fragment<f16, "(1,512)">
  cute.copy %w, %x : !cute.fragment<f16, "(1,512)"> -> !cute.memref<f16, gmem, align<16>, "(1,512):(?{i64 div=8},1)">
}

// -----

// A schedule that names an order of the tiles has tiles.

// CHECK-LABEL: cute.kernel @ordered
// CHECK: cute.local_tile %X
cute.kernel @ordered(%X: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %Y: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) attributes {schedule = #cute.schedule<"raster = 8">} {
  %i, %j = cute.tile_index %Y, [1, 512] : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %x = cute.local_tile %X, [1, 512], (%i, %j) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(1,512):(?{i64 div=8},1)">
  %v = cute.load %x : !cute.memref<f16, gmem, align<16>, "(1,512):(?{i64 div=8},1)"> -> !cute.fragment<f16, "(1,512)">
  %y = cute.local_tile %Y, [1, 512], (%i, %j) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(1,512):(?{i64 div=8},1)">
  cute.copy %v, %y : !cute.fragment<f16, "(1,512)"> -> !cute.memref<f16, gmem, align<16>, "(1,512):(?{i64 div=8},1)">
}
