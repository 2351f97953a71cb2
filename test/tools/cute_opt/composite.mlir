// RUN: cute-opt %s --cute-to-ptx='arch=sm_80' --print-ir-after-all 2>&1 | filecheck %s
// RUN: cute-opt %s --cute-to-ptx='arch=sm_80' --print-ir-before=cute-to-base --print-ir-after=cute-to-ptx --timing 2>&1 | filecheck %s --check-prefix=CHOSEN
// RUN: cute-opt %s -p 'cute-to-ptx{arch=sm_80},cse' --dump-pass-pipeline --verify-roundtrip --mlir-disable-threading 2>&1 | filecheck %s --check-prefix=PIPELINE

// A pass that stands for others is shown pass by pass; the layout algebra comes first
// CHECK: IR Dump After cute-fold-static
// CHECK: IR Dump After cute-expand-ops
// CHECK: IR Dump After cute-to-base
// CHECK: IR Dump After cute-tile
// CHECK: IR Dump After cute-synchronize
// CHECK: IR Dump After convert-to-ptx
// CHECK-NOT: IR Dump After cute-to-ptx
// CHOSEN: IR Dump Before cute-to-base
// CHOSEN-NOT: IR Dump {{.*}} cute-tile
// CHOSEN: IR Dump After cute-to-ptx
// CHOSEN: ptx.kernel @rows
// CHOSEN: cute-expand-ops
// PIPELINE: builtin.module(cute-to-ptx{arch="sm_80"},cse)
// PIPELINE: ptx.kernel @rows
gpu.module @kernels {
  gpu.func @rows(%n: i32, %to: !llvm.ptr) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %s = cute.make_shape(%n) : (i32) -> !cute.shape<"(?,8)">
    %z = cute.size(%s) : (!cute.shape<"(?,8)">) -> !cute.int_tuple<"?">
    %v = cute.get_scalars(%z) : !cute.int_tuple<"?">
    llvm.store %v, %to : i32, !llvm.ptr
    gpu.return
  }
}
