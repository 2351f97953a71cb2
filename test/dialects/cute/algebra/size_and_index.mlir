// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// The number of coordinates of a value or a mode of it.
// CHECK-LABEL: func.func @size(%a: !cute.shape<"(1,(2,4),9)">) {
// CHECK-NEXT: %r = cute.size<[1]> (%a) : (!cute.shape<"(1,(2,4),9)">) -> !cute.int_tuple<"8">
func.func @size(%a: !cute.shape<"(1,(2,4),9)">) {
  %r = cute.size<[1]> (%a) : (!cute.shape<"(1,(2,4),9)">) -> !cute.int_tuple<"8">
  func.return
}

// -----

// One more than the last offset of a layout or a mode of it.
// CHECK-LABEL: func.func @cosize(%a: !cute.layout<"(4,8):(1,5)">) {
// CHECK-NEXT: %r = cute.cosize (%a) : (!cute.layout<"(4,8):(1,5)">) -> !cute.int_tuple<"39">
func.func @cosize(%a: !cute.layout<"(4,8):(1,5)">) {
  %r = cute.cosize (%a) : (!cute.layout<"(4,8):(1,5)">) -> !cute.int_tuple<"39">
  func.return
}

// -----

// The product of all leaves.
// CHECK-LABEL: func.func @tuple_product(%a: !cute.shape<"(2,(3,4))">) {
// CHECK-NEXT: %r = cute.tuple_product(%a) : (!cute.shape<"(2,(3,4))">) -> !cute.shape<"24">
func.func @tuple_product(%a: !cute.shape<"(2,(3,4))">) {
  %r = cute.tuple_product(%a) : (!cute.shape<"(2,(3,4))">) -> !cute.shape<"24">
  func.return
}

// -----

// The product of the leaves of each mode.
// CHECK-LABEL: func.func @tuple_product_each(%a: !cute.shape<"(2,(3,4))">) {
// CHECK-NEXT: %r = cute.tuple_product_each(%a) : (!cute.shape<"(2,(3,4))">) -> !cute.shape<"(2,12)">
func.func @tuple_product_each(%a: !cute.shape<"(2,(3,4))">) {
  %r = cute.tuple_product_each(%a) : (!cute.shape<"(2,(3,4))">) -> !cute.shape<"(2,12)">
  func.return
}

// -----

// The offset of a coordinate.
// CHECK-LABEL: func.func @layout_eval(%a: !cute.coord<"(1,2)">, %b: !cute.layout<"(4,8):(8,1)">) {
// CHECK-NEXT: %r = cute.layout_eval(%a, %b) : (!cute.coord<"(1,2)">, !cute.layout<"(4,8):(8,1)">) -> !cute.int_tuple<"10">
func.func @layout_eval(%a: !cute.coord<"(1,2)">, %b: !cute.layout<"(4,8):(8,1)">) {
  %r = cute.layout_eval(%a, %b) : (!cute.coord<"(1,2)">, !cute.layout<"(4,8):(8,1)">) -> !cute.int_tuple<"10">
  func.return
}

// -----

// The column-major index of a coordinate of a shape.
// CHECK-LABEL: func.func @crd2idx(%a: !cute.coord<"(1,2)">, %b: !cute.shape<"(4,8)">) {
// CHECK-NEXT: %r = cute.crd2idx(%a, %b) : (!cute.coord<"(1,2)">, !cute.shape<"(4,8)">) -> !cute.int_tuple<"9">
func.func @crd2idx(%a: !cute.coord<"(1,2)">, %b: !cute.shape<"(4,8)">) {
  %r = cute.crd2idx(%a, %b) : (!cute.coord<"(1,2)">, !cute.shape<"(4,8)">) -> !cute.int_tuple<"9">
  func.return
}

// -----

// The coordinate of a column-major index of a shape.
// CHECK-LABEL: func.func @idx2crd(%a: !cute.int_tuple<"9">, %b: !cute.shape<"(4,8)">) {
// CHECK-NEXT: %r = cute.idx2crd(%a, %b) : (!cute.int_tuple<"9">, !cute.shape<"(4,8)">) -> !cute.coord<"(1,2)">
func.func @idx2crd(%a: !cute.int_tuple<"9">, %b: !cute.shape<"(4,8)">) {
  %r = cute.idx2crd(%a, %b) : (!cute.int_tuple<"9">, !cute.shape<"(4,8)">) -> !cute.coord<"(1,2)">
  func.return
}

// -----

// The next coordinate of a shape, the first mode fastest.
// CHECK-LABEL: func.func @increment_coord(%a: !cute.coord<"(3,1)">, %b: !cute.shape<"(4,8)">) {
// CHECK-NEXT: %r = cute.increment_coord(%a, %b) : (!cute.coord<"(3,1)">, !cute.shape<"(4,8)">) -> !cute.coord<"(0,2)">
func.func @increment_coord(%a: !cute.coord<"(3,1)">, %b: !cute.shape<"(4,8)">) {
  %r = cute.increment_coord(%a, %b) : (!cute.coord<"(3,1)">, !cute.shape<"(4,8)">) -> !cute.coord<"(0,2)">
  func.return
}

// -----

// The value with an element as last modes, up to a rank.
// CHECK-LABEL: func.func @append_to_rank(%a: !cute.shape<"(4,8)">, %b: !cute.shape<"1">) {
// CHECK-NEXT: %r = cute.append_to_rank<3> (%a, %b) : !cute.shape<"(4,8)">, !cute.shape<"1">
func.func @append_to_rank(%a: !cute.shape<"(4,8)">, %b: !cute.shape<"1">) {
  %r = cute.append_to_rank<3> (%a, %b) : !cute.shape<"(4,8)">, !cute.shape<"1">
  func.return
}

// -----

// The value with an element as first modes, up to a rank.
// CHECK-LABEL: func.func @prepend_to_rank(%a: !cute.shape<"(4,8)">, %b: !cute.shape<"1">) {
// CHECK-NEXT: %r = cute.prepend_to_rank<3> (%a, %b) : !cute.shape<"(4,8)">, !cute.shape<"1">
func.func @prepend_to_rank(%a: !cute.shape<"(4,8)">, %b: !cute.shape<"1">) {
  %r = cute.prepend_to_rank<3> (%a, %b) : !cute.shape<"(4,8)">, !cute.shape<"1">
  func.return
}
