// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// The sum leaf by leaf.
// CHECK-LABEL: func.func @tuple_add(%a: !cute.int_tuple<"(1,2)">, %b: !cute.int_tuple<"(4,5)">) {
// CHECK-NEXT: %r = cute.tuple_add(%a, %b) : (!cute.int_tuple<"(1,2)">, !cute.int_tuple<"(4,5)">) -> !cute.int_tuple<"(5,7)">
func.func @tuple_add(%a: !cute.int_tuple<"(1,2)">, %b: !cute.int_tuple<"(4,5)">) {
  %r = cute.tuple_add(%a, %b) : (!cute.int_tuple<"(1,2)">, !cute.int_tuple<"(4,5)">) -> !cute.int_tuple<"(5,7)">
  func.return
}

// -----

// The difference leaf by leaf.
// CHECK-LABEL: func.func @tuple_sub(%a: !cute.int_tuple<"(4,5)">, %b: !cute.int_tuple<"(1,2)">) {
// CHECK-NEXT: %r = cute.tuple_sub(%a, %b) : (!cute.int_tuple<"(4,5)">, !cute.int_tuple<"(1,2)">) -> !cute.int_tuple<"(3,3)">
func.func @tuple_sub(%a: !cute.int_tuple<"(4,5)">, %b: !cute.int_tuple<"(1,2)">) {
  %r = cute.tuple_sub(%a, %b) : (!cute.int_tuple<"(4,5)">, !cute.int_tuple<"(1,2)">) -> !cute.int_tuple<"(3,3)">
  func.return
}

// -----

// The shape with runs of elements taken as one.
// CHECK-LABEL: func.func @shape_div(%a: !cute.shape<"(3,4)">, %b: !cute.shape<"6">) {
// CHECK-NEXT: %r = cute.shape_div(%a, %b) : (!cute.shape<"(3,4)">, !cute.shape<"6">) -> !cute.shape<"(1,2)">
func.func @shape_div(%a: !cute.shape<"(3,4)">, %b: !cute.shape<"6">) {
  %r = cute.shape_div(%a, %b) : (!cute.shape<"(3,4)">, !cute.shape<"6">) -> !cute.shape<"(1,2)">
  func.return
}

// -----

// The quotients rounded up.
// CHECK-LABEL: func.func @ceil_div(%a: !cute.shape<"(9,8)">, %b: !cute.shape<"(4,4)">) {
// CHECK-NEXT: %r = cute.ceil_div(%a, %b) : (!cute.shape<"(9,8)">, !cute.shape<"(4,4)">) -> !cute.shape<"(3,2)">
func.func @ceil_div(%a: !cute.shape<"(9,8)">, %b: !cute.shape<"(4,4)">) {
  %r = cute.ceil_div(%a, %b) : (!cute.shape<"(9,8)">, !cute.shape<"(4,4)">) -> !cute.shape<"(3,2)">
  func.return
}

// -----

// Whether each leaf is less than the other's.
// CHECK-LABEL: func.func @elem_less(%a: !cute.coord<"(1,?)">, %b: !cute.shape<"(4,8)">) {
// CHECK-NEXT: %r = cute.elem_less(%a, %b) : (!cute.coord<"(1,?)">, !cute.shape<"(4,8)">) -> i1
func.func @elem_less(%a: !cute.coord<"(1,?)">, %b: !cute.shape<"(4,8)">) {
  %r = cute.elem_less(%a, %b) : (!cute.coord<"(1,?)">, !cute.shape<"(4,8)">) -> i1
  func.return
}

// -----

// Whether two values of one kind are the same.
// CHECK-LABEL: func.func @equal(%a: !cute.shape<"(4,?)">, %b: !cute.shape<"(4,8)">) {
// CHECK-NEXT: %r = cute.equal(%a, %b) : (!cute.shape<"(4,?)">, !cute.shape<"(4,8)">) -> i1
func.func @equal(%a: !cute.shape<"(4,?)">, %b: !cute.shape<"(4,8)">) {
  %r = cute.equal(%a, %b) : (!cute.shape<"(4,?)">, !cute.shape<"(4,8)">) -> i1
  func.return
}
