// RUN: cute-opt %s --split-input-file -p cute-structure-exits | filecheck %s

// A loop that is left early counts in a scf.while, and what stands behind an exit in a branch.
builtin.module {
  cute.kernel @left(%n: i32, %c: i1) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {
      cute.break_if %c
      cute.printf "%d\n", %i : i32
    }
    cute.printf "end\n"
  }
}

// CHECK:      cute.kernel @left
// CHECK:        %[[END:.*]] = scf.while (%[[N:.*]] = %{{.*}}) : (i32) -> i32 {
// CHECK-NEXT:     %[[MORE:.*]] = arith.cmpi slt, %[[N]], %{{.*}} : i32
// CHECK-NEXT:     scf.condition(%[[MORE]]) %[[N]] : i32
// CHECK-NEXT:   } do {
// CHECK:          %[[WAY:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : i32
// CHECK:          %[[LEFT:.*]] = scf.if %{{.*}} -> (i32) {
// CHECK-NEXT:       cute.printf "%d\0A"
// CHECK:          } else {
// CHECK-NEXT:       scf.yield %[[WAY]] : i32
// CHECK:          arith.cmpi eq, %[[LEFT]]
// CHECK:          scf.yield
// CHECK:        cute.printf "end

// -----

// A work item that ends in a loop carries that out of the loop.
builtin.module {
  cute.kernel @ended(%n: i32, %c: i1) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {
      scf.if %c {
        cute.return_if %c
        cute.printf "%d\n", %i : i32
      }
    }
    cute.printf "end\n"
  }
}

// CHECK:      cute.kernel @ended
// CHECK:        scf.while (%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : (i32, i32) -> (i32, i32) {
// CHECK:        scf.yield %{{.*}}, %{{.*}} : i32, i32
// CHECK:        %[[GOES:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : i32
// CHECK-NEXT:   scf.if %[[GOES]] {
// CHECK-NEXT:     cute.printf "end

// -----

// A loop inside of which another one is left stays as it is.
builtin.module {
  cute.kernel @inner(%n: i32, %c: i1) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {
      scf.for %j = %zero to %n step %one : i32 {
        cute.break_if %c
      }
      cute.printf "%d\n", %i : i32
    }
  }
}

// CHECK:      cute.kernel @inner
// CHECK:        scf.for
// CHECK-NEXT:     scf.while
// CHECK:          cute.printf
