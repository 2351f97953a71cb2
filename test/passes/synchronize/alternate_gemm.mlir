// Instances skip each other's items in the ring, wait for their turns, and stage results apart.
// RUN: cute-opt %s -p 'cute-tile{arch=sm_90a},cute-partition{arch=sm_90a},cute-assign-warp-roles,cute-schedule-loops,cute-synchronize' | filecheck %s
// CHECK: %sD = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,2,2):(64,1,8192,16384)">
// CHECK: %[[RING:.*]] = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 32768 : i32, peers = array<i64: 2, 1>} : !pipeline.ring<5>
// CHECK: pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, registers = 40 : i32, elect}
// CHECK-NOT: pipeline.turn
// CHECK: pipeline.role "main" attributes {first = 4 : i32, warps = 8 : i32, registers = 232 : i32, instances = 2 : i32}
// CHECK-NEXT: %[[I:.*]] = pipeline.instance
// CHECK-NEXT: %[[MINE:.*]] = cute.stage %sD[%[[I]]]
// CHECK-NEXT: %[[PLACE:.*]] = pipeline.state "consumer" %[[RING]]
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[I]] step
// CHECK: pipeline.advance %[[PLACE]] by %{{.*}} : !pipeline.state<5>
// CHECK: scf.for %[[ITEM:.*]] = %{{.*}} to %{{.*}} step
// CHECK: %[[LATER:.*]] = arith.cmpi ne, %[[ITEM]]
// CHECK-NEXT: pipeline.turn_wait if %[[LATER]]
// CHECK-NEXT: scf.for
// CHECK-NEXT: pipeline.consumer_wait %[[RING]] at %[[PLACE]]
// CHECK: pipeline.advance %[[PLACE]] : !pipeline.state<5>
// CHECK: %[[MORE:.*]] = arith.cmpi slt
// CHECK-NEXT: pipeline.turn_pass if %[[MORE]]
// CHECK-NEXT: cute_nvgpu.wgmma_wait {pending = 0 : i32}
// CHECK: cute.stage %[[MINE]]
// CHECK: pipeline.advance %[[PLACE]] by %{{.*}} : !pipeline.state<5>

cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {schedule = #cute.schedule<"tile = (128,128,64), cluster = (2,1), roles = alternate">} {
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
