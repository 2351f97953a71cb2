// RUN: cute-opt %s -p 'cute-tile{arch=sm_90a}' | filecheck %s
// RUN: cute-opt %s -p 'cute-tile{arch=sm_80}' | filecheck %s --check-prefix=ALONE

// Clusters of eight CTAs share rows of 40,004 elements, of which the last one has 4,164 and hides
// what lies behind them. The largest element crosses the cluster, and all of them store it.

// CHECK-LABEL: cute.kernel @shifted
// CHECK-SAME: cluster = 8 : i32
// CHECK: %[[RANK:.*]] = cute.cluster_rank of 8
// CHECK: %[[START:.*]] = arith.muli %[[RANK]]
// CHECK: arith.divsi %{{.*}}, %{{.*}} : i32
// CHECK: %[[ROW:.*]] = cute.slice %X, 1, (%{{.*}}, %{{.*}})
// CHECK: cute.local_tile %[[ROW]], [1, 5120], (%{{.*}}, %[[RANK]])
// CHECK: arith.constant 40004 : i32
// CHECK: arith.addi %{{.*}}, %[[START]]
// CHECK-NEXT: arith.cmpi slt
// CHECK: cute.reduce "max", %{{.*}} : !cute.fragment<f32, "(1,5120)"> -> !cute.fragment<f32, "(1,1)">
// CHECK-NEXT: %[[TOP:.*]] = cute.cluster_reduce "max", %{{.*}} of 8
// CHECK: cute.map ({{.*}} = %[[TOP]] : {{.*}})
// CHECK: cute.coord 1
// CHECK-NEXT: arith.addi %{{.*}}, %[[START]]
// CHECK: cute.local_tile %{{.*}}, [1, 5120], (%{{.*}}, %[[RANK]])
// CHECK: cute.copy %[[TOP]]
// CHECK: cute.launch @shifted
// CHECK-SAME: cluster

// ALONE-LABEL: cute.kernel @shifted
// ALONE-NOT: cluster
cute.kernel @shifted(%X: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %Y: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %Z: !cute.memref<f32, gmem, align<4>, "(?,?):(?,1)">) {
  %i, %j = cute.tile_index %Y, [1, 40004] : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
  %zero = arith.constant 0 : i32
  %x = cute.local_tile %X, [1, 40004], (%i, %zero) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(1,40004):(?{i64 div=4},1)">
  %v = cute.load %x : !cute.memref<f32, gmem, align<16>, "(1,40004):(?{i64 div=4},1)"> -> !cute.fragment<f32, "(1,40004)">
  %s = cute.reduce "max", %v {mode = 1 : i64} : !cute.fragment<f32, "(1,40004)"> -> !cute.fragment<f32, "(1,1)">
  %w = cute.map (%a = %v : !cute.fragment<f32, "(1,40004)">, %b = %s : !cute.fragment<f32, "(1,1)">) -> !cute.fragment<f32, "(1,40004)"> {
    %c = cute.coord 1
    %f = arith.sitofp %c : i32 to f32
    %d = arith.subf %a, %b : f32
    %e = arith.addf %d, %f : f32
    cute.yield %e : f32
  }
  %y = cute.local_tile %Y, [1, 40004], (%i, %zero) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(1,40004):(?{i64 div=4},1)">
  cute.copy %w, %y : !cute.fragment<f32, "(1,40004)"> -> !cute.memref<f32, gmem, align<16>, "(1,40004):(?{i64 div=4},1)">
  %z = cute.local_tile %Z, [1, 1], (%i, %zero) : !cute.memref<f32, gmem, align<4>, "(?,?):(?,1)"> -> !cute.memref<f32, gmem, align<4>, "(1,1):(?,1)">
  cute.copy %s, %z : !cute.fragment<f32, "(1,1)"> -> !cute.memref<f32, gmem, align<4>, "(1,1):(?,1)">
}
