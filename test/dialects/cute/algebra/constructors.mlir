// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// A value that its type says all of.
// CHECK-LABEL: func.func @static() {
// CHECK-NEXT: %r = cute.static : !cute.layout<"(2,3):(1,2)">
func.func @static() {
  %r = cute.static : !cute.layout<"(2,3):(1,2)">
  func.return
}

// -----

// Print a value when the program runs.
// CHECK-LABEL: func.func @print(%a: !cute.shape<"(4,?)">) {
// CHECK-NEXT: cute.print(%a) : !cute.shape<"(4,?)">
func.func @print(%a: !cute.shape<"(4,?)">) {
  cute.print(%a) : !cute.shape<"(4,?)">
  func.return
}

// -----

// Int tuple with the operands for its run-time leaves, in their order.
// CHECK-LABEL: func.func @make_int_tuple(%a: i32) {
// CHECK-NEXT: %r = cute.make_int_tuple(%a) : (i32) -> !cute.int_tuple<"(?,4)">
func.func @make_int_tuple(%a: i32) {
  %r = cute.make_int_tuple(%a) : (i32) -> !cute.int_tuple<"(?,4)">
  func.return
}

// -----

// Shape with the operands for its run-time leaves, in their order.
// CHECK-LABEL: func.func @make_shape(%a: i32, %b: i64) {
// CHECK-NEXT: %r = cute.make_shape(%a, %b) : (i32, i64) -> !cute.shape<"(?,(4,?{i64}))">
func.func @make_shape(%a: i32, %b: i64) {
  %r = cute.make_shape(%a, %b) : (i32, i64) -> !cute.shape<"(?,(4,?{i64}))">
  func.return
}

// -----

// Stride with the operands for its run-time leaves, in their order.
// CHECK-LABEL: func.func @make_stride(%a: i32) {
// CHECK-NEXT: %r = cute.make_stride(%a) : (i32) -> !cute.stride<"(?@0,1@1)">
func.func @make_stride(%a: i32) {
  %r = cute.make_stride(%a) : (i32) -> !cute.stride<"(?@0,1@1)">
  func.return
}

// -----

// Coord with the operands for its run-time leaves, in their order.
// CHECK-LABEL: func.func @make_coord(%a: i32) {
// CHECK-NEXT: %r = cute.make_coord(%a) : (i32) -> !cute.coord<"(?,_)">
func.func @make_coord(%a: i32) {
  %r = cute.make_coord(%a) : (i32) -> !cute.coord<"(?,_)">
  func.return
}

// -----

// Tile with the operands for its run-time leaves, in their order.
// CHECK-LABEL: func.func @make_tile(%a: i32) {
// CHECK-NEXT: %r = cute.make_tile(%a) : (i32) -> !cute.tile<"[?:1;_]">
func.func @make_tile(%a: i32) {
  %r = cute.make_tile(%a) : (i32) -> !cute.tile<"[?:1;_]">
  func.return
}

// -----

// The layout of a shape and strides.
// CHECK-LABEL: func.func @make_layout(%a: !cute.shape<"(?,2)">, %b: !cute.stride<"(1,?)">) {
// CHECK-NEXT: %r = cute.make_layout(%a, %b) : (!cute.shape<"(?,2)">, !cute.stride<"(1,?)">) -> !cute.layout<"(?,2):(1,?)">
func.func @make_layout(%a: !cute.shape<"(?,2)">, %b: !cute.stride<"(1,?)">) {
  %r = cute.make_layout(%a, %b) : (!cute.shape<"(?,2)">, !cute.stride<"(1,?)">) -> !cute.layout<"(?,2):(1,?)">
  func.return
}

// -----

// `inner o offset o outer`: a coordinate goes to inner(offset + outer(coordinate)).
// CHECK-LABEL: func.func @make_composed_layout(%a: !cute.swizzle<"S<3,4,3>">, %b: !cute.int_tuple<"0">, %c: !cute.layout<"(8,64):(64,1)">) {
// CHECK-NEXT: %r = cute.make_composed_layout(%a, %b, %c) : (!cute.swizzle<"S<3,4,3>">, <"0">, <"(8,64):(64,1)">) -> <"S<3,4,3> o 0 o (8,64):(64,1)">
func.func @make_composed_layout(%a: !cute.swizzle<"S<3,4,3>">, %b: !cute.int_tuple<"0">, %c: !cute.layout<"(8,64):(64,1)">) {
  %r = cute.make_composed_layout(%a, %b, %c) : (!cute.swizzle<"S<3,4,3>">, !cute.int_tuple<"0">, !cute.layout<"(8,64):(64,1)">) -> !cute.composed_layout<"S<3,4,3> o 0 o (8,64):(64,1)">
  func.return
}

// -----

// The compact layout of the same shape and order of strides.
// CHECK-LABEL: func.func @make_layout_like(%a: !cute.layout<"(4,2):(4,1)">) {
// CHECK-NEXT: %r = cute.make_layout_like(%a) : !cute.layout<"(4,2):(4,1)"> -> !cute.layout<"(4,2):(2,1)">
func.func @make_layout_like(%a: !cute.layout<"(4,2):(4,1)">) {
  %r = cute.make_layout_like(%a) : !cute.layout<"(4,2):(4,1)"> -> !cute.layout<"(4,2):(2,1)">
  func.return
}

// -----

// The compact layout whose strides grow as `order` says.
// CHECK-LABEL: func.func @make_ordered_layout(%a: !cute.shape<"(4,2)">, %b: !cute.int_tuple<"(1,0)">) {
// CHECK-NEXT: %r = cute.make_ordered_layout(%a, %b) : (!cute.shape<"(4,2)">, !cute.int_tuple<"(1,0)">) -> !cute.layout<"(4,2):(2,1)">
func.func @make_ordered_layout(%a: !cute.shape<"(4,2)">, %b: !cute.int_tuple<"(1,0)">) {
  %r = cute.make_ordered_layout(%a, %b) : (!cute.shape<"(4,2)">, !cute.int_tuple<"(1,0)">) -> !cute.layout<"(4,2):(2,1)">
  func.return
}

// -----

// The layout that gives each coordinate itself.
// CHECK-LABEL: func.func @make_identity_layout(%a: !cute.shape<"(4,2)">) {
// CHECK-NEXT: %r = cute.make_identity_layout(%a) : !cute.shape<"(4,2)"> -> !cute.layout<"(4,2):(1@0,1@1)">
func.func @make_identity_layout(%a: !cute.shape<"(4,2)">) {
  %r = cute.make_identity_layout(%a) : !cute.shape<"(4,2)"> -> !cute.layout<"(4,2):(1@0,1@1)">
  func.return
}
