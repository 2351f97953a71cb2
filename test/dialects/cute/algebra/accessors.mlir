// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// The shape of a layout, or those of the layouts of a tile.
// CHECK-LABEL: func.func @get_shape(%a: !cute.layout<"(4,8):(8,1)">) {
// CHECK-NEXT: %r = cute.get_shape(%a) : !cute.layout<"(4,8):(8,1)"> -> !cute.shape<"(4,8)">
func.func @get_shape(%a: !cute.layout<"(4,8):(8,1)">) {
  %r = cute.get_shape(%a) : !cute.layout<"(4,8):(8,1)"> -> !cute.shape<"(4,8)">
  func.return
}

// -----

// The strides of a layout.
// CHECK-LABEL: func.func @get_stride(%a: !cute.layout<"(4,8):(8,1)">) {
// CHECK-NEXT: %r = cute.get_stride(%a) : <"(4,8):(8,1)"> -> !cute.stride<"(8,1)">
func.func @get_stride(%a: !cute.layout<"(4,8):(8,1)">) {
  %r = cute.get_stride(%a) : !cute.layout<"(4,8):(8,1)"> -> !cute.stride<"(8,1)">
  func.return
}

// -----

// The layout or swizzle that a composed layout applies last.
// CHECK-LABEL: func.func @composed_get_inner(%a: !cute.composed_layout<"S<3,4,3> o 0 o 8:1">) {
// CHECK-NEXT: %r = cute.composed_get_inner(%a) : <"S<3,4,3> o 0 o 8:1"> -> !cute.swizzle<"S<3,4,3>">
func.func @composed_get_inner(%a: !cute.composed_layout<"S<3,4,3> o 0 o 8:1">) {
  %r = cute.composed_get_inner(%a) : !cute.composed_layout<"S<3,4,3> o 0 o 8:1"> -> !cute.swizzle<"S<3,4,3>">
  func.return
}

// -----

// The offset in a composed layout.
// CHECK-LABEL: func.func @composed_get_offset(%a: !cute.composed_layout<"S<3,4,3> o ? o 8:1">) {
// CHECK-NEXT: %r = cute.composed_get_offset(%a) : <"S<3,4,3> o ? o 8:1"> -> !cute.int_tuple<"?">
func.func @composed_get_offset(%a: !cute.composed_layout<"S<3,4,3> o ? o 8:1">) {
  %r = cute.composed_get_offset(%a) : !cute.composed_layout<"S<3,4,3> o ? o 8:1"> -> !cute.int_tuple<"?">
  func.return
}

// -----

// The layout that a composed layout applies first.
// CHECK-LABEL: func.func @composed_get_outer(%a: !cute.composed_layout<"S<3,4,3> o 0 o 8:1">) {
// CHECK-NEXT: %r = cute.composed_get_outer(%a) : <"S<3,4,3> o 0 o 8:1"> -> <"8:1">
func.func @composed_get_outer(%a: !cute.composed_layout<"S<3,4,3> o 0 o 8:1">) {
  %r = cute.composed_get_outer(%a) : !cute.composed_layout<"S<3,4,3> o 0 o 8:1"> -> !cute.layout<"8:1">
  func.return
}

// -----

// The leaves of a tuple, each as a value.
// CHECK-LABEL: func.func @get_leaves(%a: !cute.shape<"(4,(?,2))">) {
// CHECK-NEXT: %r:3 = cute.get_leaves(%a) : !cute.shape<"(4,(?,2))">
func.func @get_leaves(%a: !cute.shape<"(4,(?,2))">) {
  %r:3 = cute.get_leaves(%a) : !cute.shape<"(4,(?,2))">
  func.return
}

// -----

// The numbers in a value, or those that are known at run time only.
// CHECK-LABEL: func.func @get_scalars(%a: !cute.layout<"(4,?):(1,?{i64})">) {
// CHECK-NEXT: %r:4 = cute.get_scalars (%a) : !cute.layout<"(4,?):(1,?{i64})">
func.func @get_scalars(%a: !cute.layout<"(4,?):(1,?{i64})">) {
  %r:4 = cute.get_scalars (%a) : !cute.layout<"(4,?):(1,?{i64})">
  func.return
}

// -----

// The mode at the end of a path.
// CHECK-LABEL: func.func @get(%a: !cute.shape<"(4,(2,3))">) {
// CHECK-NEXT: %r = cute.get<[1, 0]> (%a) : !cute.shape<"(4,(2,3))"> -> !cute.shape<"2">
func.func @get(%a: !cute.shape<"(4,(2,3))">) {
  %r = cute.get<[1, 0]> (%a) : !cute.shape<"(4,(2,3))"> -> !cute.shape<"2">
  func.return
}

// -----

// Some modes, in some order.
// CHECK-LABEL: func.func @select(%a: !cute.shape<"(4,2,8)">) {
// CHECK-NEXT: %r = cute.select<[2, 0]> (%a) : !cute.shape<"(4,2,8)"> -> !cute.shape<"(8,4)">
func.func @select(%a: !cute.shape<"(4,2,8)">) {
  %r = cute.select<[2, 0]> (%a) : !cute.shape<"(4,2,8)"> -> !cute.shape<"(8,4)">
  func.return
}

// -----

// The same numbers as an int tuple.
// CHECK-LABEL: func.func @to_int_tuple(%a: !cute.shape<"(4,?)">) {
// CHECK-NEXT: %r = cute.to_int_tuple(%a) : !cute.shape<"(4,?)"> -> !cute.int_tuple<"(4,?)">
func.func @to_int_tuple(%a: !cute.shape<"(4,?)">) {
  %r = cute.to_int_tuple(%a) : !cute.shape<"(4,?)"> -> !cute.int_tuple<"(4,?)">
  func.return
}

// -----

// The same numbers as a shape.
// CHECK-LABEL: func.func @to_shape(%a: !cute.int_tuple<"(4,?)">) {
// CHECK-NEXT: %r = cute.to_shape(%a) : !cute.int_tuple<"(4,?)"> -> !cute.shape<"(4,?)">
func.func @to_shape(%a: !cute.int_tuple<"(4,?)">) {
  %r = cute.to_shape(%a) : !cute.int_tuple<"(4,?)"> -> !cute.shape<"(4,?)">
  func.return
}

// -----

// The same numbers as a stride.
// CHECK-LABEL: func.func @to_stride(%a: !cute.int_tuple<"(4,?)">) {
// CHECK-NEXT: %r = cute.to_stride(%a) : !cute.int_tuple<"(4,?)"> -> !cute.stride<"(4,?)">
func.func @to_stride(%a: !cute.int_tuple<"(4,?)">) {
  %r = cute.to_stride(%a) : !cute.int_tuple<"(4,?)"> -> !cute.stride<"(4,?)">
  func.return
}

// -----

// The same numbers as a coord.
// CHECK-LABEL: func.func @to_coord(%a: !cute.int_tuple<"(4,?)">) {
// CHECK-NEXT: %r = cute.to_coord(%a) : !cute.int_tuple<"(4,?)"> -> !cute.coord<"(4,?)">
func.func @to_coord(%a: !cute.int_tuple<"(4,?)">) {
  %r = cute.to_coord(%a) : !cute.int_tuple<"(4,?)"> -> !cute.coord<"(4,?)">
  func.return
}

// -----

// The layouts in a tile, without `_`.
// CHECK-LABEL: func.func @get_layouts_from_tile(%a: !cute.tile<"[4:1;_;8:2]">) {
// CHECK-NEXT: %r:2 = cute.get_layouts_from_tile(%a) : <"[4:1;_;8:2]">
func.func @get_layouts_from_tile(%a: !cute.tile<"[4:1;_;8:2]">) {
  %r:2 = cute.get_layouts_from_tile(%a) : !cute.tile<"[4:1;_;8:2]">
  func.return
}
