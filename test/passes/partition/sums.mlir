// RUN: cute-opt %s -p "cute-tile{arch=sm_80},cute-partition{arch=sm_80}" | filecheck %s

// No multiply of sm_80 adds up the rows of A beside the product: the accumulator, and what is computed from
// it element by element, become two tiles, and threads add up the rows.

builtin.module {
  // CHECK-LABEL: @program
  cute.kernel @program(%a: !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, %b: !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, %c: !cute.memref<f32, gmem, align<16>, "(64,64):(64,1)">, %s: !cute.memref<f32, gmem, align<16>, "(64,8):(8,1)">) {
    %zero = arith.constant 0.0 : f32
    %half = arith.constant 0.5 : f32
    // CHECK-DAG: %[[T:.*]] = cute.alloc_fragment : !cute.fragment<f32, "(64,64)"
    // CHECK-DAG: %[[U:.*]] = cute.alloc_fragment : !cute.fragment<f32, "(64,8)"
    // CHECK:     cute.fill %[[T]]
    // CHECK:     cute.fill %[[U]]
    %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,72)">
    cute.fill %acc, %zero : !cute.fragment<f32, "(64,72)">
    // CHECK:     cute.map (%{{.*}} = %[[T]]
    // CHECK:     cute.map (%{{.*}} = %[[U]]
    %less = cute.map (%x = %acc : !cute.fragment<f32, "(64,72)">) -> !cute.fragment<f32, "(64,72)"> {
      %y = arith.mulf %x, %half : f32
      cute.yield %y : f32
    }
    cute.copy %less, %acc : !cute.fragment<f32, "(64,72)"> -> !cute.fragment<f32, "(64,72)">
    // CHECK-NOT: sums
    // CHECK:     cute.gemm %{{.*}}, %{{.*}}, %[[T]]
    // CHECK:     cute.reduce "add"
    // CHECK:     cute.copy %{{.*}}, %[[U]]
    %left = cute.load %a : !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<f16, "(64,32)">
    cute.gemm %left, %b, %acc {sums} : !cute.fragment<f16, "(64,32)">, !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, !cute.fragment<f32, "(64,72)">
    %product = cute.extract %acc, (0, 0) : !cute.fragment<f32, "(64,72)"> -> !cute.fragment<f32, "(64,64)">
    %sums = cute.extract %acc, (0, 64) : !cute.fragment<f32, "(64,72)"> -> !cute.fragment<f32, "(64,8)">
    cute.copy %product, %c : !cute.fragment<f32, "(64,64)"> -> !cute.memref<f32, gmem, align<16>, "(64,64):(64,1)">
    cute.copy %sums, %s : !cute.fragment<f32, "(64,8)"> -> !cute.memref<f32, gmem, align<16>, "(64,8):(8,1)">
  }
}
