// RUN: cute-opt %s -p 'cute-tile{arch=sm_100a},cute-partition{arch=sm_100a}' | filecheck %s --check-prefix=BOUND
// RUN: cute-opt %s -p 'cute-to-ptx{arch=sm_100a}' -t ptx | filecheck %s --check-prefix=PTX
// RUN: cute-opt %s -p 'cute-to-ptx{arch=sm_103a}' -t ptx | filecheck %s --check-prefix=PTX
// RUN: cute-opt %s -p 'cute-tile{arch=sm_90a},cute-partition{arch=sm_90a}' | filecheck %s --check-prefix=ASYNC
// RUN: cute-opt %s -p 'cute-tile{arch=sm_120a},cute-partition{arch=sm_120a}' | filecheck %s --check-prefix=ASYNC

// Rows that a program numbers: TMA copies four at a time where a target has such copies, a lane of
// each warp those whose numbers the warp has, by a map with boxes of one row. Who loads the numbers
// is the role that copies. On other targets threads copy rows asynchronously.

// BOUND:      cute.kernel @gathered({{.*}}, %tX: !cute_nvgpu.tma_descriptor<f16, (1,64), S<3,4,3>>
// BOUND:      %rows = cute.load %column {numbers_rows, {{.*}}} : {{.*}} -> !cute.fragment<i32, "(128,1)", "((32,4),32):((0,32),1)">
// BOUND:      scf.for
// BOUND:      %x = cute.indexed_tile %X, [128, 64], (%zero, %k), %rows {numbers_rows, in_fours}
// BOUND:      cute.copy %x, %sx tma %tX : {{.*}} {atom = !cute_nvgpu.atom.tma_load<f16, rows>}

// PTX:        mbarrier.init.shared::cta.b64 {{.*}}, 1;
// PTX:        ld.global.v4.b32
// PTX:        mbarrier.try_wait.parity
// PTX:        mbarrier.arrive.expect_tx.shared::cta.b64 _, {{.*}}, 24576;
// PTX:        elect.sync _|%[[P:p[0-9]+]], 0xffffffff;
// PTX-NEXT:   @!%[[P]] bra
// PTX-COUNT-8: cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%r{{.*}}], [%rd{{[0-9]+}}, {%r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}}], [%r{{.*}}];
// PTX-NOT:    cp.async.c

// ASYNC:      cute.kernel @gathered
// ASYNC-NOT:  in_fours
// ASYNC:      cute.copy %x, %{{.*}} {atom = !cute_nvgpu.atom.simt_async_copy<f16, cache = global, 128 b>

cute.kernel @gathered(%X: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %W: !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, %N: !cute.memref<i32, gmem, align<16>, "(?):(1)">, %Y: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">) {
  %m, %n = cute.tile_index %Y, [128, 64] : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %row = cute.local_tile %N, [128], (%m) : !cute.memref<i32, gmem, align<16>, "(?):(1)"> -> !cute.memref<i32, gmem, align<16>, "(128):(1)">
  %t = cute.transpose %row : !cute.memref<i32, gmem, align<16>, "(128):(1)"> -> !cute.memref<i32, gmem, align<16>, "(1,128):(0,1)">
  %column = cute.transpose %t : !cute.memref<i32, gmem, align<16>, "(1,128):(0,1)"> -> !cute.memref<i32, gmem, align<16>, "(128,1):(1,0)">
  %rows = cute.load %column : !cute.memref<i32, gmem, align<16>, "(128,1):(1,0)"> -> !cute.fragment<i32, "(128,1)">
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,64)">
  %x0 = arith.constant 0.0 : f32
  cute.fill %acc, %x0 : !cute.fragment<f32, "(128,64)">
  %d = cute.dim %X, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %depth = arith.constant 64 : i32
  %trips = arith.ceildivsi %d, %depth : i32
  scf.for %k = %zero to %trips step %one : i32 {
    %x = cute.indexed_tile %X, [128, 64], (%zero, %k), %rows : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.fragment<i32, "(128,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
    %w = cute.local_tile %W, [64, 64], (%k, %n) : !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(1,?{i64 div=8})">
    %b = cute.transpose %w : !cute.memref<f16, gmem, align<16>, "(64,64):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
    cute.gemm %x, %b, %acc : !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">, !cute.fragment<f32, "(128,64)">
  }
  %y = cute.local_tile %Y, [128, 64], (%m, %n) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(128,64):(?{i64 div=4},1)">
  cute.copy %acc, %y : !cute.fragment<f32, "(128,64)"> -> !cute.memref<f32, gmem, align<16>, "(128,64):(?{i64 div=4},1)">
}
