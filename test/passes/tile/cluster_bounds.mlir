// RUN: cute-opt %s -p 'cute-tile{arch=sm_100a schedule="cluster = (2,1), scheduler = single"}' | filecheck %s
// RUN: cute-opt %s -p 'cute-tile{arch=sm_100a schedule="cluster = (1,1), scheduler = single"}' | filecheck %s --check-prefix=ALONE

// The rows of a lower triangle: each CTA computes what both need from where the cluster is, without the one that has no
// tile. So a bound does not depend on the CTA's place in the cluster. A CTA by itself has its own.

builtin.module {
  // CHECK-LABEL: @lower
  // ALONE-LABEL: @lower
  cute.kernel @lower(%a: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %b: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %c: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) {
    // CHECK:      %n = arith.select
    // CHECK-NEXT: arith.addi
    // CHECK-NEXT: arith.constant 2 : i32
    // CHECK-NEXT: %[[FIRST:.*]] = arith.muli %[[BLOCK:.*]], %{{.*}} overflow<nsw> : i32
    // CHECK-NEXT: arith.constant 1 : i32
    // CHECK-NEXT: %[[SECOND:.*]] = arith.addi %[[FIRST]], %{{.*}} overflow<nsw> : i32
    // CHECK:      %[[THERE:.*]] = arith.cmpi slt, %[[SECOND]], %{{.*}} : i32
    // CHECK:      %[[OWN:.*]] = arith.addi %{{.*}}, %{{.*}} overflow<nsw> {cluster_mode = 0 : i32} : i32
    // CHECK:      %[[ONE:.*]] = arith.muli %[[FIRST]], %{{.*}} : i32
    // CHECK-NEXT: %[[OTHER:.*]] = arith.muli %[[SECOND]], %{{.*}} : i32
    // CHECK-NEXT: %[[IF:.*]] = arith.select %[[THERE]], %[[OTHER]], %[[ONE]] : i32
    // CHECK-NEXT: %[[END:.*]] = arith.maxsi %[[ONE]], %[[IF]] : i32
    // CHECK:      scf.for %{{.*}} = %{{.*}} to %[[END]] step
    // ALONE:      %mine = arith.muli %m, %two : i32
    // ALONE-NEXT: scf.for %{{.*}} = %zero to %mine step
    %m, %n = cute.tile_index %c, [128, 64] : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
    %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,64)">
    %none = arith.constant 0.0 : f32
    cute.fill %acc, %none : !cute.fragment<f32, "(128,64)">
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %mine = arith.muli %m, %two : i32
    %end = cute.cluster_bound "max", %mine
    scf.for %k = %zero to %end step %one : i32 {
      %x = cute.local_tile %a, [128, 64], (%m, %k) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
      %y = cute.local_tile %b, [64, 64], (%n, %k) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
      cute.gemm %x, %y, %acc : !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">, !cute.fragment<f32, "(128,64)">
    }
    %out = cute.local_tile %c, [128, 64], (%m, %n) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f32, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
    cute.copy %acc, %out : !cute.fragment<f32, "(128,64)"> -> !cute.memref<f32, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
  }
}
