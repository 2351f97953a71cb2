// RUN: cute-opt %s | filecheck %s
// RUN: cute-opt --mlir-print-op-generic %s | cute-opt | filecheck %s

// CHECK: gpu.module @kernels attributes {a.b = 1 : i32} {
gpu.module @kernels attributes {a.b = 1 : i32} {
  // CHECK-NEXT: gpu.func @k(%n: i32, %to: !llvm.ptr) kernel attributes {known_block_size = array<i32: 64, 1, 1>, c.d} {
  gpu.func @k(%n: i32, %to: !llvm.ptr) kernel attributes {known_block_size = array<i32: 64, 1, 1>, c.d} {
    // CHECK-NEXT: %x = gpu.thread_id x
    %x = gpu.thread_id x
    // CHECK-NEXT: %y = gpu.block_id y
    %y = gpu.block_id y
    // CHECK-NEXT: %z = gpu.grid_dim z {e.f = 2 : i32}
    %z = gpu.grid_dim z {e.f = 2 : i32}
    // CHECK-NEXT: %b = gpu.block_dim x
    %b = gpu.block_dim x
    // CHECK-NEXT: gpu.printf "%d at %lld\0A", %n, %x : i32, index
    gpu.printf "%d at %lld\n", %n, %x : i32, index
    // CHECK-NEXT: gpu.printf "done"
    gpu.printf "done"
    // CHECK-NEXT: gpu.return
    gpu.return
  }
  // CHECK: gpu.func @two(%n: i32) -> (i32, i32) {
  gpu.func @two(%n: i32) -> (i32, i32) {
    // CHECK-NEXT: gpu.return %n, %n : i32, i32
    gpu.return %n, %n : i32, i32
  }
  // CHECK: gpu.func @one(%n: i32) -> i32 {
  gpu.func @one(%n: i32) -> i32 {
    gpu.return %n : i32
  }
}

// CHECK: func.func @host(%c: index, %s: i32) {
// CHECK-NEXT: gpu.launch blocks(%bx, %by, %bz) in (%gx = %c, %gy = %c, %gz = %c) threads(%tx, %ty, %tz) in (%sx = %c, %sy = %c, %sz = %c) dynamic_shared_memory_size %s {
func.func @host(%c: index, %s: i32) {
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c, %gy = %c, %gz = %c)
             threads(%tx, %ty, %tz) in (%sx = %c, %sy = %c, %sz = %c)
             dynamic_shared_memory_size %s {
    // CHECK-NEXT: gpu.printf "%lld", %tz : index
    gpu.printf "%lld", %tz : index
    // CHECK-NEXT: gpu.terminator
    gpu.terminator
  }
  // CHECK: func.return
  func.return
}
