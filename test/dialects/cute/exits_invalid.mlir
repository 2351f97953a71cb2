// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @left_outside_of_a_loop(%c: i1) {
  // expected-error @+1 {{expected scf.for around cute.break_if, got none}}
  cute.break_if %c
}

// -----

cute.kernel @left_from_a_branch_with_a_result(%c: i1, %n: i32) {
  %r = scf.if %c -> (i32) {
    // expected-error @+1 {{expected scf.for and scf.if without results around cute.return_if, got scf.if}}
    cute.return_if %c
    scf.yield %n : i32
  } else {
    scf.yield %n : i32
  }
}
