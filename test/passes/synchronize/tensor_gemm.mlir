// On sm_100a three roles work on a tile: one thread loads, one multiplies into tensor memory, a
// warpgroup stores. Stages of operands are released by commits; accumulators are a ring of two.
// RUN: cute-opt %s -p 'cute-tile{arch=sm_100a},cute-partition{arch=sm_100a},cute-assign-warp-roles,cute-schedule-loops,cute-synchronize' | filecheck %s
// CHECK: roles = {load = array<i64: 0, 1, 0>, mma = array<i64: 1, 1, 0>, main = array<i64: 4, 4, 0>}
// CHECK: %[[ACC:.*]] = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,128,2):(65536,1,128)">
// CHECK-NEXT: %[[RING:.*]] = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 1 : i32, bytes = 32768 : i32} : !pipeline.ring<6>
// CHECK-NEXT: %[[FULL:.*]] = pipeline.create {kind = "tcgen05", producers = 1 : i32, consumers = 4 : i32} : !pipeline.ring<2>
// CHECK-NEXT: pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect}
// CHECK: pipeline.role "mma" attributes {first = 1 : i32, warps = 1 : i32, elect}
// CHECK-NEXT: %[[IN:.*]] = pipeline.state "consumer" %[[RING]]
// CHECK-NEXT: %[[OUT:.*]] = pipeline.state "producer" %[[FULL]]
// CHECK: pipeline.producer_acquire %[[FULL]] at %[[OUT]]
// CHECK-NEXT: %[[AT:.*]] = pipeline.index %[[OUT]]
// CHECK-NEXT: %[[T:.*]] = cute.stage %[[ACC]][%[[AT]]]
// CHECK: scf.for %[[K:.*]] = %[[FIRST:.*]] to
// CHECK: pipeline.consumer_wait %[[RING]] at %[[IN]]
// CHECK: cute.gemm %{{.*}}, %{{.*}}, %[[T]] keeps %{{.*}} {atom = !cute_nvgpu.sm100.mma<128x128x16, elem_type = (f16, f16, f32)>}
// CHECK-NEXT: pipeline.consumer_release %[[RING]] at %[[IN]] {commits}
// CHECK: pipeline.producer_commit %[[FULL]] at %[[OUT]]
// CHECK: pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32}
// CHECK: pipeline.consumer_wait %[[FULL]] at %[[MINE:.*]] :
// CHECK: scf.if %[[ANY:.*]] {
// CHECK-NEXT: cute.copy %{{.*}}, %{{.*}} {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>}
// CHECK-NEXT: } else {
// CHECK-NEXT: cute.fill
// CHECK: scf.if %[[ANY]] {
// CHECK: pipeline.consumer_release %[[FULL]] at %[[MINE]]
// CHECK: cute_nvgpu.tma_store_commit

cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {schedule = #cute.schedule<"tile = (128,128,64)">} {
  %0, %1 = cute.tile_index %D, [128, 128] : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %2 = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  %3 = arith.constant 0.000000e+00 : f32
  cute.fill %2, %3 : !cute.fragment<f32, "(128,128)">
  %4 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %5 = arith.constant 64 : i32
  %6 = arith.ceildivsi %4, %5 : i32
  %7 = arith.constant 0 : i32
  %8 = arith.constant 1 : i32
  scf.for %9 = %7 to %6 step %8 : i32 {
    %A_1 = cute.local_tile %A, [128, 64], (%0, %9) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
    %10 = arith.constant 128 : i32
    %11 = arith.muli %0, %10 : i32
    %12 = arith.constant 64 : i32
    %13 = arith.muli %9, %12 : i32
    %B_1 = cute.local_tile %B, [64, 128], (%9, %1) : !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(64,128):(1,?{i64 div=8})">
    %14 = arith.constant 64 : i32
    %15 = arith.muli %9, %14 : i32
    %16 = arith.constant 128 : i32
    %17 = arith.muli %1, %16 : i32
    %18 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(64,128):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
    cute.gemm %A_1, %18, %2 : !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">, !cute.fragment<f32, "(128,128)">
  }
  %19 = cute.map (%20 = %2 : !cute.fragment<f32, "(128,128)">) -> !cute.fragment<f16, "(128,128)"> {
    %21 = arith.mulf %20, %alpha : f32
    %22 = arith.truncf %21 : f32 to f16
    cute.yield %22 : f16
  }
  %D_1 = cute.local_tile %D, [128, 128], (%0, %1) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,128):(?{i64 div=8},1)">
  %23 = arith.constant 128 : i32
  %24 = arith.muli %0, %23 : i32
  %25 = arith.constant 128 : i32
  %26 = arith.muli %1, %25 : i32
  cute.copy %19, %D_1 : !cute.fragment<f16, "(128,128)"> -> !cute.memref<f16, gmem, align<16>, "(128,128):(?{i64 div=8},1)">
}
