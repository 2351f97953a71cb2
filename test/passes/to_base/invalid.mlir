// RUN: cute-opt %s -p cute-to-base --verify-diagnostics

func.func @not_expanded(%s: !cute.shape<"(?,4)">) {
  // expected-error @+1 {{expected an operation that cute-expand-ops leaves}}
  %r = cute.size (%s) : (!cute.shape<"(?,4)">) -> !cute.int_tuple<"?">
  func.return
}
