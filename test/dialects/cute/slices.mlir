// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// cute.slice
// CHECK: cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %b: i32, %e: i32) {
// CHECK-NEXT:   %rows = cute.slice %a, 0, (%b, %e) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:   %columns = cute.slice %a, 1, (%b, %e) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<2>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT: }
cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %b: i32, %e: i32) {
  %rows = cute.slice %a, 0, (%b, %e) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %columns = cute.slice %a, 1, (%b, %e) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<2>, "(?,?):(?{i64 div=8},1)">
}

// -----

// cute.read and cute.search
// CHECK: cute.kernel @k(%offsets: !cute.memref<i32, gmem, align<4>, "(?):(1)">, %count: i32, %row: i32) {
// CHECK-NEXT:   %s = cute.search %row below %count {
// CHECK-NEXT:   ^bb0(%i: i32):
// CHECK-NEXT:     %x = cute.read %offsets[%i] : !cute.memref<i32, gmem, align<4>, "(?):(1)">
// CHECK-NEXT:     cute.yield %x : i32
// CHECK-NEXT:   }
// CHECK-NEXT:   %first = cute.read %offsets[%s] : !cute.memref<i32, gmem, align<4>, "(?):(1)">
// CHECK-NEXT: }
cute.kernel @k(%offsets: !cute.memref<i32, gmem, align<4>, "(?):(1)">, %count: i32, %row: i32) {
  %s = cute.search %row below %count {
  ^bb0(%i: i32):
    %x = cute.read %offsets[%i] : !cute.memref<i32, gmem, align<4>, "(?):(1)">
    cute.yield %x : i32
  }
  %first = cute.read %offsets[%s] : !cute.memref<i32, gmem, align<4>, "(?):(1)">
}
