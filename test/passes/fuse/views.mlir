// RUN: cute-opt %s -p cute-fuse | filecheck %s

// Equal views of one block become one view; those of another tile, tensor or block stay.
builtin.module {
  cute.kernel @twice(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %k: i32, %n: i32) {
    %a = cute.local_tile %A, [64, 32], (%n, %k) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
    %b = cute.local_tile %A, [64, 32], (%n, %k) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
    %c = cute.local_tile %A, [64, 32], (%k, %n) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
    %d = cute.local_tile %B, [64, 32], (%n, %k) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
    %at = cute.transpose %a : !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(1,?{i64 div=8})">
    %bt = cute.transpose %b : !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(1,?{i64 div=8})">
    cute.copy %at, %bt : !cute.memref<f16, gmem, align<16>, "(32,64):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(1,?{i64 div=8})">
    cute.copy %c, %d : !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
  }
}

// CHECK-COUNT-3: cute.local_tile
// CHECK-NOT: cute.local_tile
// CHECK: %[[T:.*]] = cute.transpose
// CHECK-NOT: cute.transpose
// CHECK: cute.copy %[[T]], %[[T]] :
