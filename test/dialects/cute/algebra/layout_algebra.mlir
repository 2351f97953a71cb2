// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// The layout `lhs o rhs`: a coordinate goes to lhs(rhs(coordinate)).
// CHECK-LABEL: func.func @composition(%a: !cute.layout<"(6,2):(8,2)">, %b: !cute.layout<"(4,3):(3,1)">) {
// CHECK-NEXT: %r = cute.composition(%a, %b) : (!cute.layout<"(6,2):(8,2)">, !cute.layout<"(4,3):(3,1)">) -> !cute.layout<"((2,2),3):((24,2),8)">
func.func @composition(%a: !cute.layout<"(6,2):(8,2)">, %b: !cute.layout<"(4,3):(3,1)">) {
  %r = cute.composition(%a, %b) : (!cute.layout<"(6,2):(8,2)">, !cute.layout<"(4,3):(3,1)">) -> !cute.layout<"((2,2),3):((24,2),8)">
  func.return
}

// -----

// The same function of an index, with the fewest modes.
// CHECK-LABEL: func.func @coalesce(%a: !cute.layout<"(2,(1,6)):(1,(6,2))">) {
// CHECK-NEXT: %r = cute.coalesce(%a) : (!cute.layout<"(2,(1,6)):(1,(6,2))">) -> !cute.layout<"12:1">
func.func @coalesce(%a: !cute.layout<"(2,(1,6)):(1,(6,2))">) {
  %r = cute.coalesce(%a) : (!cute.layout<"(2,(1,6)):(1,(6,2))">) -> !cute.layout<"12:1">
  func.return
}

// -----

// The value without nesting.
// CHECK-LABEL: func.func @flatten(%a: !cute.shape<"(4,(2,3))">) {
// CHECK-NEXT: %r = cute.flatten(%a) : (!cute.shape<"(4,(2,3))">) -> !cute.shape<"(4,2,3)">
func.func @flatten(%a: !cute.shape<"(4,(2,3))">) {
  %r = cute.flatten(%a) : (!cute.shape<"(4,(2,3))">) -> !cute.shape<"(4,2,3)">
  func.return
}

// -----

// The layout of what a layout leaves out, up to a shape.
// CHECK-LABEL: func.func @complement(%a: !cute.layout<"4:2">, %b: !cute.shape<"16">) {
// CHECK-NEXT: %r = cute.complement(%a, %b) : (!cute.layout<"4:2">, !cute.shape<"16">) -> !cute.layout<"(2,2):(1,8)">
func.func @complement(%a: !cute.layout<"4:2">, %b: !cute.shape<"16">) {
  %r = cute.complement(%a, %b) : (!cute.layout<"4:2">, !cute.shape<"16">) -> !cute.layout<"(2,2):(1,8)">
  func.return
}

// -----

// Modes `begin` to `end` as one.
// CHECK-LABEL: func.func @group_modes(%a: !cute.layout<"(2,3,4):(1,2,6)">) {
// CHECK-NEXT: %r = cute.group_modes<0, 2> (%a) : (!cute.layout<"(2,3,4):(1,2,6)">) -> !cute.layout<"((2,3),4):((1,2),6)">
func.func @group_modes(%a: !cute.layout<"(2,3,4):(1,2,6)">) {
  %r = cute.group_modes<0, 2> (%a) : (!cute.layout<"(2,3,4):(1,2,6)">) -> !cute.layout<"((2,3),4):((1,2),6)">
  func.return
}

// -----

// The layout of the same bits in elements of another size.
// CHECK-LABEL: func.func @recast_layout(%a: !cute.layout<"(32,4):(1,32)">) {
// CHECK-NEXT: %r = cute.recast_layout<32, 8> (%a) : !cute.layout<"(32,4):(1,32)"> -> !cute.layout<"(8,4):(1,8)">
func.func @recast_layout(%a: !cute.layout<"(32,4):(1,32)">) {
  %r = cute.recast_layout<32, 8> (%a) : !cute.layout<"(32,4):(1,32)"> -> !cute.layout<"(8,4):(1,8)">
  func.return
}

// -----

// The modes of a value for which the coordinate has `_`.
// CHECK-LABEL: func.func @slice(%a: !cute.layout<"(2,3,4):(1,2,6)">, %b: !cute.coord<"(0,_,1)">) {
// CHECK-NEXT: %r = cute.slice(%a, %b) : !cute.layout<"(2,3,4):(1,2,6)">, !cute.coord<"(0,_,1)">
func.func @slice(%a: !cute.layout<"(2,3,4):(1,2,6)">, %b: !cute.coord<"(0,_,1)">) {
  %r = cute.slice(%a, %b) : !cute.layout<"(2,3,4):(1,2,6)">, !cute.coord<"(0,_,1)">
  func.return
}

// -----

// The modes of a value for which the coordinate has an int.
// CHECK-LABEL: func.func @dice(%a: !cute.layout<"(2,3,4):(1,2,6)">, %b: !cute.coord<"(0,_,1)">) {
// CHECK-NEXT: %r = cute.dice(%a, %b) : !cute.layout<"(2,3,4):(1,2,6)">, !cute.coord<"(0,_,1)">
func.func @dice(%a: !cute.layout<"(2,3,4):(1,2,6)">, %b: !cute.coord<"(0,_,1)">) {
  %r = cute.dice(%a, %b) : !cute.layout<"(2,3,4):(1,2,6)">, !cute.coord<"(0,_,1)">
  func.return
}

// -----

// R with input(R(i)) = i.
// CHECK-LABEL: func.func @right_inverse(%a: !cute.layout<"(4,3):(3,1)">) {
// CHECK-NEXT: %r = cute.right_inverse(%a) : (!cute.layout<"(4,3):(3,1)">) -> !cute.layout<"(3,4):(4,1)">
func.func @right_inverse(%a: !cute.layout<"(4,3):(3,1)">) {
  %r = cute.right_inverse(%a) : (!cute.layout<"(4,3):(3,1)">) -> !cute.layout<"(3,4):(4,1)">
  func.return
}

// -----

// L with L(input(i)) = i.
// CHECK-LABEL: func.func @left_inverse(%a: !cute.layout<"(4,8):(1,5)">) {
// CHECK-NEXT: %r = cute.left_inverse(%a) : (!cute.layout<"(4,8):(1,5)">) -> !cute.layout<"(5,8):(1,4)">
func.func @left_inverse(%a: !cute.layout<"(4,8):(1,5)">) {
  %r = cute.left_inverse(%a) : (!cute.layout<"(4,8):(1,5)">) -> !cute.layout<"(5,8):(1,4)">
  func.return
}
