// RUN: cute-opt %s -p verify-dominance --split-input-file --verify-diagnostics | filecheck %s

func.func @use_before_definition(%a: i32) {
  // expected-error @+1 {{'arith.addi': operand #1 (%b) is used before its definition}}
  %c = arith.addi %a, %b : i32
  %b = arith.addi %a, %a : i32
  func.return
}

// -----

func.func @use_of_itself(%a: i32) {
  // expected-error @below {{operand #1 (%b) is used by the operation that defines it}}
  %b = arith.addi %a, %b : i32
  func.return
}

// -----

func.func @use_outside_of_the_region(%c: i1, %a: i32) {
  scf.if %c {
    %inner = arith.addi %a, %a : i32
  }
  // expected-error @below {{value %inner is used but not defined}}
  %b = arith.addi %inner, %a : i32
  func.return
}

// -----

func.func @use_in_the_other_branch(%c: i1, %a: i32) {
  scf.if %c {
    %inner = arith.addi %a, %a : i32
  } else {
    // expected-error @below {{value %inner is used but not defined}}
    %b = arith.addi %inner, %a : i32
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @outer_value_in_a_region
// CHECK: arith.addi %a, %b : i32
func.func @outer_value_in_a_region(%c: i1, %a: i32) {
  %b = arith.addi %a, %a : i32
  scf.if %c {
    %d = arith.addi %a, %b : i32
  }
  func.return
}
