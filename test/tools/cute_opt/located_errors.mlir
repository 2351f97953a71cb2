// RUN: not cute-opt %s --split-input-file 2>&1 | filecheck %s --match-full-lines

// CHECK: {{.*}}located_errors.mlir:[[# @LINE + 4]]:16: error: value %b is used but not defined
// CHECK-NEXT:   func.call @g(%b) : (i32) -> ()
// CHECK-NEXT:                ^~
func.func @undefined(%a: i32) {
  func.call @g(%b) : (i32) -> ()
}

// -----

// CHECK: {{.*}}located_errors.mlir:[[# @LINE + 2]]:3: error: unknown operation 'arith.addii'; did you mean 'arith.addi'?
func.func @misspelt(%a: i32) {
  %b = arith.addii %a, %a : i32
}
