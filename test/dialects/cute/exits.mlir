// RUN: cute-opt %s --split-input-file | filecheck %s

// cute.break_if
// CHECK: cute.break_if %c
cute.kernel @k(%n: i32, %c: i1) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    scf.if %c {
      cute.break_if %c
    }
  }
}

// -----

// cute.return_if
// CHECK: cute.return_if %c
cute.kernel @k(%c: i1) {
  cute.return_if %c
}
