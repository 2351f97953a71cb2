// RUN: cute-opt %s -p cute-fuse | filecheck %s

// A transpose is a value: where the tile is written before all have read it, of a copy.
builtin.module {
  // CHECK-LABEL: cute.kernel @kept
  // CHECK: %[[M:.*]] = cute.alloc_fragment
  // CHECK: %[[COPY:.*]] = cute.map (%{{.*}} = %[[M]] :
  // CHECK: %[[T:.*]] = cute.transpose %[[COPY]]
  // CHECK: cute.fill %[[M]]
  // CHECK: cute.copy %[[T]], %B
  cute.kernel @kept(%B: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">, %x: f32) {
    %m = cute.alloc_fragment : !cute.fragment<f32, "(8,8)">
    cute.fill %m, %x : !cute.fragment<f32, "(8,8)">
    %t = cute.transpose %m : !cute.fragment<f32, "(8,8)"> -> !cute.fragment<f32, "(8,8)">
    cute.fill %m, %x : !cute.fragment<f32, "(8,8)">
    cute.copy %t, %B : !cute.fragment<f32, "(8,8)"> -> !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">
  }

  // What is written behind the last reader, or in a trip before the transpose, needs none.
  // CHECK-LABEL: cute.kernel @read_before
  // CHECK: %[[M:.*]] = cute.alloc_fragment
  // CHECK-NOT: cute.map
  // CHECK: cute.transpose %[[M]]
  cute.kernel @read_before(%B: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">, %x: f32, %n: i32) {
    %m = cute.alloc_fragment : !cute.fragment<f32, "(8,8)">
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %k = %zero to %n step %one : i32 {
      cute.fill %m, %x : !cute.fragment<f32, "(8,8)">
      %t = cute.transpose %m : !cute.fragment<f32, "(8,8)"> -> !cute.fragment<f32, "(8,8)">
      cute.copy %t, %B : !cute.fragment<f32, "(8,8)"> -> !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">
      cute.fill %m, %x : !cute.fragment<f32, "(8,8)">
    }
  }

  // A reader in a loop reads what the trip before has written.
  // CHECK-LABEL: cute.kernel @carried
  // CHECK: %[[M:.*]] = cute.alloc_fragment
  // CHECK: %[[COPY:.*]] = cute.map (%{{.*}} = %[[M]] :
  // CHECK: cute.transpose %[[COPY]]
  cute.kernel @carried(%B: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">, %x: f32, %n: i32) {
    %m = cute.alloc_fragment : !cute.fragment<f32, "(8,8)">
    cute.fill %m, %x : !cute.fragment<f32, "(8,8)">
    %t = cute.transpose %m : !cute.fragment<f32, "(8,8)"> -> !cute.fragment<f32, "(8,8)">
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %k = %zero to %n step %one : i32 {
      cute.copy %t, %B : !cute.fragment<f32, "(8,8)"> -> !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">
      cute.fill %m, %x : !cute.fragment<f32, "(8,8)">
    }
  }

  // A map of a transpose does not move behind what writes the tile.
  // CHECK-LABEL: cute.kernel @map_of_it
  // CHECK: cute.map
  // CHECK: cute.fill %m
  // CHECK: cute.map
  cute.kernel @map_of_it(%B: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">, %x: f32) {
    %m = cute.alloc_fragment : !cute.fragment<f32, "(8,8)">
    cute.fill %m, %x : !cute.fragment<f32, "(8,8)">
    %t = cute.transpose %m : !cute.fragment<f32, "(8,8)"> -> !cute.fragment<f32, "(8,8)">
    %a = cute.map (%e = %t : !cute.fragment<f32, "(8,8)">) -> !cute.fragment<f32, "(8,8)"> {
      %d = arith.addf %e, %e : f32
      cute.yield %d : f32
    }
    cute.fill %m, %x : !cute.fragment<f32, "(8,8)">
    %b = cute.map (%e = %a : !cute.fragment<f32, "(8,8)">) -> !cute.fragment<f32, "(8,8)"> {
      %d = arith.mulf %e, %e : f32
      cute.yield %d : f32
    }
    cute.copy %b, %B : !cute.fragment<f32, "(8,8)"> -> !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">
  }
}
