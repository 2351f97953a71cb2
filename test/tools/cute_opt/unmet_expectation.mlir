// RUN: not cute-opt %s --verify-diagnostics 2>&1 | filecheck %s --match-full-lines

// CHECK: {{.*}}unmet_expectation.mlir:[[# @LINE + 3]]:3: error: unexpected error: 'func.return': {{.*}}
func.func @wrong_text(%a: i32) {
  // expected-error @+1 {{something else}}
  func.return %a : i32
}
// CHECK: {{.*}}unmet_expectation.mlir:[[# @LINE - 3]]:6: error: expected error "something else" on line [[# @LINE - 2]] was not produced
