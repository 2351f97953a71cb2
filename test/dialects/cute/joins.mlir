// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// cute.concat
// CHECK: cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(?,64,32):(?{i64 div=8},32,1)">, %i: i32) {
// CHECK-NEXT:   %0 = arith.constant 0 : i32
// CHECK-NEXT:   %x = cute.local_tile %a, [*, 16, 32], (%i, %0, %0) : !cute.memref<f16, gmem, align<16>, "(?,64,32):(?{i64 div=8},32,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">
// CHECK-NEXT:   %t = cute.concat (%x, %x, %x), 1 : !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,96):(32,1)">
// CHECK-NEXT: }
cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(?,64,32):(?{i64 div=8},32,1)">, %i: i32) {
  %0 = arith.constant 0 : i32
  %x = cute.local_tile %a, [*, 16, 32], (%i, %0, %0) : !cute.memref<f16, gmem, align<16>, "(?,64,32):(?{i64 div=8},32,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">
  %t = cute.concat (%x, %x, %x), 1 : !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,96):(32,1)">
}
