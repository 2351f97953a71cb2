// RUN: cute-opt %s -p convert-to-ptx | filecheck %s

// One pointer, then extents, then strides; the interior of the tensor takes vectors, the ragged
// edge single elements; addresses are shared by both.

!whole = !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
!tile = !cute.memref<f32, gmem, align<16>, "(32,32):(?{i64 div=4},1)">
!regs = !cute.fragment<f32, "(32,32)", "((8,16),(4,2)):((128,1),(32,16))">

// CHECK:      ptx.kernel @copy(%{{.*}}: b64, %{{.*}}: b32, %{{.*}}: b32, %{{.*}}: b64)
// CHECK-SAME: target = "sm_80", threads = 128 : i32
cute.kernel @copy(%a: !whole) attributes {threads = 128 : i32} {
  %i = cute.block_idx x
  %j = cute.block_idx y
  // CHECK: ptx.special "ctaid.x"
  %t = cute.local_tile %a, [32, 32], (%i, %j) : !whole -> !tile
  // CHECK: [[DATA:%.*]] = ptx.regs
  %f = cute.load %t : !tile -> !regs
  // CHECK: ptx.if
  // CHECK: ptx.ld "global.v4.b32"
  // CHECK: ptx.fill
  // CHECK: ptx.ld "global.b32"
  cute.copy %f, %t : !regs -> !tile
  // CHECK: ptx.if
  // CHECK: ptx.st "global.v4.b32"
  // CHECK: ptx.st "global.b32"
}

// The host part learns the shared memory: 2 KiB of elements, then 1 KiB at a multiple of 1024.
// CHECK: ptx.kernel @shared
// CHECK-SAME: smem = 3072 : i32
cute.kernel @shared() attributes {threads = 32 : i32} {
  %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(32,9):(9,1)">
  %t = cute.alloc_smem : !cute.memref<i8, smem, align<1024>, "(32,32):(32,1)">
}

// CHECK: func.func @launch
func.func @launch() {
  %one = arith.constant 1 : i32
  // CHECK: cute.launch @shared
  // CHECK-SAME: smem = 3072 : i32
  cute.launch @shared grid(%one, %one, %one) args() {threads = 32 : i32}
  func.return
}
