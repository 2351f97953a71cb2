// RUN: cute-opt %s --split-input-file -p 'cute-tile{arch=sm_80}' | filecheck %s

// Eight rows of 256 bytes are one work item; the coordinate of a row counts eight at a time.

// CHECK-LABEL: cute.kernel @numbered
// CHECK: %one = arith.constant 1 : i32
// CHECK-NEXT: %[[EIGHT:[0-9]+]] = arith.constant 8 : i32
// CHECK-NEXT: %first = arith.muli %i, %[[EIGHT]] : i32
// CHECK-NEXT: cute.local_tile %X, [8, 64], (%i, %zero)
// CHECK: cute.reduce "max", {{.*}} : !cute.fragment<f32, "(8,64)"> -> !cute.fragment<f32, "(8,1)">
// CHECK: cute.local_tile %Y, [8, 1]
cute.kernel @numbered(%X: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %Y: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">) {
  %i, %j = cute.tile_index %Y, [1, 1] : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %first = arith.muli %i, %one : i32
  %x = cute.local_tile %X, [1, 64], (%i, %zero) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(1,64):(?{i64 div=4},1)">
  %v = cute.load %x : !cute.memref<f32, gmem, align<16>, "(1,64):(?{i64 div=4},1)"> -> !cute.fragment<f32, "(1,64)">
  %s = cute.reduce "max", %v {mode = 1 : i64} : !cute.fragment<f32, "(1,64)"> -> !cute.fragment<f32, "(1,1)">
  %t = cute.map (%e = %s : !cute.fragment<f32, "(1,1)">) -> !cute.fragment<f32, "(1,1)"> {
    %c = cute.coord 0
    %row = arith.addi %c, %first : i32
    %r = arith.sitofp %row : i32 to f32
    %sum = arith.addf %e, %r : f32
    cute.yield %sum : f32
  }
  %y = cute.local_tile %Y, [1, 1], (%i, %zero) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(1,1):(?{i64 div=4},1)">
  cute.copy %t, %y : !cute.fragment<f32, "(1,1)"> -> !cute.memref<f32, gmem, align<16>, "(1,1):(?{i64 div=4},1)">
}

// -----

// A row's own number is more than a place: its work items stay.

// CHECK-LABEL: cute.kernel @weighted
// CHECK: cute.local_tile %X, [1, 64]
cute.kernel @weighted(%X: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %Y: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">) {
  %i, %j = cute.tile_index %Y, [1, 64] : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
  %zero = arith.constant 0 : i32
  %x = cute.local_tile %X, [1, 64], (%i, %zero) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(1,64):(?{i64 div=4},1)">
  %v = cute.load %x : !cute.memref<f32, gmem, align<16>, "(1,64):(?{i64 div=4},1)"> -> !cute.fragment<f32, "(1,64)">
  %t = cute.map (%e = %v : !cute.fragment<f32, "(1,64)">) -> !cute.fragment<f32, "(1,64)"> {
    %r = arith.sitofp %i : i32 to f32
    %product = arith.mulf %e, %r : f32
    cute.yield %product : f32
  }
  %y = cute.local_tile %Y, [1, 64], (%i, %zero) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(1,64):(?{i64 div=4},1)">
  cute.copy %t, %y : !cute.fragment<f32, "(1,64)"> -> !cute.memref<f32, gmem, align<16>, "(1,64):(?{i64 div=4},1)">
}
