// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// CHECK: cute.kernel @k(%x: f32, %n: i32) {
// CHECK-NEXT:   %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
// CHECK-NEXT:   %i = cute.alloc_fragment : !cute.fragment<i32, "(4,8)">
// CHECK-NEXT:   %s = cute.scan %t {mode = 1 : i64, reverse} : !cute.fragment<f32, "(4,8)"> -> !cute.fragment<f32, "(4,8)"> {
// CHECK-NEXT:   ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:     cute.yield %b : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %p, %q = cute.scan %t, %i from %x, %n : f32, i32 {mode = 0 : i64} : !cute.fragment<f32, "(4,8)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<f32, "(4,8)">, !cute.fragment<i32, "(4,8)"> {
// CHECK-NEXT:   ^bb{{.*}}(%{{.*}}: f32, %{{.*}}: i32, %c: f32, %d: i32):
// CHECK-NEXT:     cute.yield %c, %d : f32, i32
// CHECK-NEXT:   }
// CHECK-NEXT:   %o = cute.sort %i {mode = 1 : i64} : !cute.fragment<i32, "(4,8)"> -> !cute.fragment<i32, "(4,8)">
// CHECK-NEXT:   %l = cute.sort %i {mode = 1 : i64, leading = 3 : i64} : !cute.fragment<i32, "(4,8)"> -> !cute.fragment<i32, "(4,8)">
// CHECK-NEXT:   %e = cute.take %t, %i {mode = 1 : i64, extent = 7 : i64} : !cute.fragment<f32, "(4,8)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<f32, "(4,8)">
// CHECK-NEXT:   %f = cute.put %t, %i, %t {kind = "add"} : !cute.fragment<f32, "(4,8)">, !cute.fragment<i32, "(4,8)">, !cute.fragment<f32, "(4,8)"> -> !cute.fragment<f32, "(4,8)">
// CHECK-NEXT: }
cute.kernel @k(%x: f32, %n: i32) {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
  %i = cute.alloc_fragment : !cute.fragment<i32, "(4,8)">
  %s = cute.scan %t {mode = 1 : i64, reverse} : !cute.fragment<f32, "(4,8)"> -> !cute.fragment<f32, "(4,8)"> {
  ^bb0(%a: f32, %b: f32):
    cute.yield %b : f32
  }
  %p, %q = cute.scan %t, %i from %x, %n : f32, i32 {mode = 0 : i64} : !cute.fragment<f32, "(4,8)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<f32, "(4,8)">, !cute.fragment<i32, "(4,8)"> {
  ^bb0(%g: f32, %h: i32, %c: f32, %d: i32):
    cute.yield %c, %d : f32, i32
  }
  %o = cute.sort %i {mode = 1 : i64} : !cute.fragment<i32, "(4,8)"> -> !cute.fragment<i32, "(4,8)">
  %l = cute.sort %i {mode = 1 : i64, leading = 3 : i64} : !cute.fragment<i32, "(4,8)"> -> !cute.fragment<i32, "(4,8)">
  %e = cute.take %t, %i {mode = 1 : i64, extent = 7 : i64} : !cute.fragment<f32, "(4,8)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<f32, "(4,8)">
  %f = cute.put %t, %i, %t {kind = "add"} : !cute.fragment<f32, "(4,8)">, !cute.fragment<i32, "(4,8)">, !cute.fragment<f32, "(4,8)"> -> !cute.fragment<f32, "(4,8)">
}

// -----

// CHECK: cute.kernel @fetched(%a: !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">) {
// CHECK-NEXT:   %t = cute.alloc_fragment : !cute.fragment<i32, "(64,1)">
// CHECK-NEXT:   %o = cute.fetch "add", %t, %a : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)"> -> !cute.fragment<i32, "(64,1)">
// CHECK-NEXT:   %p = cute.fetch "compare", %t, %a if %o : !cute.fragment<i32, "(64,1)"> {scope = "sys"} : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)"> -> !cute.fragment<i32, "(64,1)">
// CHECK-NEXT: }
cute.kernel @fetched(%a: !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">) {
  %t = cute.alloc_fragment : !cute.fragment<i32, "(64,1)">
  %o = cute.fetch "add", %t, %a : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)"> -> !cute.fragment<i32, "(64,1)">
  %p = cute.fetch "compare", %t, %a if %o : !cute.fragment<i32, "(64,1)"> {scope = "sys"} : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)"> -> !cute.fragment<i32, "(64,1)">
}
