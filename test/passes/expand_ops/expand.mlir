// RUN: cute-opt %s --split-input-file -p cute-expand-ops | filecheck %s

// CHECK-LABEL: func.func @index
// CHECK-NEXT: %[[C:.*]]:2 = cute.get_scalars<{only_dynamic}> (%c) : !cute.coord<"(?,?)">
// CHECK-NEXT: %[[FOUR:.*]] = arith.constant 4 : i32
// CHECK-NEXT: %[[ROWS:.*]] = arith.muli %[[C]]#1, %[[FOUR]] overflow<nsw> : i32
// CHECK-NEXT: %[[SUM:.*]] = arith.addi %[[C]]#0, %[[ROWS]] overflow<nsw> : i32
// CHECK-NEXT: %{{.*}} = cute.make_int_tuple(%[[SUM]]) : (i32) -> !cute.int_tuple<"?">
func.func @index(%c: !cute.coord<"(?,?)">, %s: !cute.shape<"(4,8)">) -> !cute.int_tuple<"?"> {
  %r = cute.crd2idx(%c, %s) : (!cute.coord<"(?,?)">, !cute.shape<"(4,8)">) -> !cute.int_tuple<"?">
  func.return %r : !cute.int_tuple<"?">
}

// -----

// A quotient stands in front of the rest of the same division
// CHECK-LABEL: func.func @coordinate
// CHECK: arith.divsi
// CHECK-NEXT: arith.constant 4
// CHECK-NEXT: arith.remsi
// CHECK-NEXT: cute.make_coord
func.func @coordinate(%i: !cute.int_tuple<"?">, %s: !cute.shape<"(4,8)">) -> !cute.coord<"(?,?)"> {
  %r = cute.idx2crd(%i, %s) : (!cute.int_tuple<"?">, !cute.shape<"(4,8)">) -> !cute.coord<"(?,?)">
  func.return %r : !cute.coord<"(?,?)">
}

// -----

// A layout with run-time leaves is made of a shape and strides, a static part is a constant
// CHECK-LABEL: func.func @divided
// CHECK: %[[SHAPE:.*]] = cute.make_shape({{.*}}) : (i32, i32) -> !cute.shape<"((16,?),(8,?))">
// CHECK-NEXT: %[[STRIDE:.*]] = cute.make_stride
// CHECK-NEXT: cute.make_layout(%[[SHAPE]], %[[STRIDE]])
func.func @divided(%l: !cute.layout<"(?,?):(?,1)">, %t: !cute.shape<"(16,8)">) -> !cute.layout<"((16,?),(8,?)):((?,?),(1,8))"> {
  %r = cute.logical_divide(%l, %t) : (!cute.layout<"(?,?):(?,1)">, !cute.shape<"(16,8)">) -> !cute.layout<"((16,?),(8,?)):((?,?),(1,8))">
  func.return %r : !cute.layout<"((16,?),(8,?)):((?,?),(1,8))">
}

// -----

// Numbers of different widths are compared as the wider ones
// CHECK-LABEL: func.func @compared
// CHECK: %[[WIDE:.*]] = arith.extsi %{{.*}} : i32 to i64
// CHECK-NEXT: arith.cmpi slt, %[[WIDE]], %{{.*}} : i64
// CHECK-NEXT: func.return
func.func @compared(%a: !cute.coord<"(1,?)">, %b: !cute.shape<"(4,?{i64})">) -> i1 {
  %r = cute.elem_less(%a, %b) : (!cute.coord<"(1,?)">, !cute.shape<"(4,?{i64})">) -> i1
  func.return %r : i1
}

// -----

// Carries are choices
// CHECK-LABEL: func.func @next
// CHECK: %[[LESS:.*]] = arith.cmpi slt
// CHECK-NEXT: scf.if %[[LESS]] -> (i32)
func.func @next(%c: !cute.coord<"(?,?)">, %s: !cute.shape<"(4,8)">) -> !cute.coord<"(?,?)"> {
  %r = cute.increment_coord(%c, %s) : (!cute.coord<"(?,?)">, !cute.shape<"(4,8)">) -> !cute.coord<"(?,?)">
  func.return %r : !cute.coord<"(?,?)">
}

// -----

// The layout of a tensor is made of its extents and strides; one that is known is a constant
// CHECK-LABEL: func.func @tensors
// CHECK-NEXT: %[[M:.*]] = cute.dim %t, 0
// CHECK-NEXT: %[[LD:.*]] = cute.stride %t, 0
// CHECK-NEXT: %[[SHAPE:.*]] = cute.make_shape(%[[M]]) : (i32) -> !cute.shape<"(?,8)">
// CHECK-NEXT: %[[STRIDE:.*]] = cute.make_stride(%[[LD]]) : (i64) -> !cute.stride<"(?{i64},1)">
// CHECK-NEXT: cute.make_layout(%[[SHAPE]], %[[STRIDE]])
// CHECK-NEXT: cute.static : !cute.layout<"(4,8):(8,1)">
func.func @tensors(%t: !cute.memref<f32, gmem, align<4>, "(?,8):(?{i64},1)">, %s: !cute.memref<f32, gmem, align<4>, "(4,8):(8,1)">) -> (!cute.layout<"(?,8):(?{i64},1)">, !cute.layout<"(4,8):(8,1)">) {
  %l = cute.get_layout %t : !cute.memref<f32, gmem, align<4>, "(?,8):(?{i64},1)"> -> !cute.layout<"(?,8):(?{i64},1)">
  %k = cute.get_layout %s : !cute.memref<f32, gmem, align<4>, "(4,8):(8,1)"> -> !cute.layout<"(4,8):(8,1)">
  func.return %l, %k : !cute.layout<"(?,8):(?{i64},1)">, !cute.layout<"(4,8):(8,1)">
}
