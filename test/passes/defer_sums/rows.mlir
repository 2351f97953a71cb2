// RUN: cute-opt %s -p cute-defer-sums | filecheck %s --check-prefix=SUMS

// Four lanes have a row: the loop keeps a column of the parts for each, adds up its own elements
// and scales by what the lanes have in common. The lanes' parts are added behind the loop.
cute.kernel @scaled(%n: i32, %x: f32) {
  %p = cute.alloc_fragment : !cute.fragment<f32, "(16,8)", "((4,8),(2,2)):((32,1),(16,8))">
  cute.fill %p, %x : !cute.fragment<f32, "(16,8)", "((4,8),(2,2)):((32,1),(16,8))">
  %r = cute.alloc_fragment : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">
  cute.fill %r, %x : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">
  %total = cute.alloc_fragment : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">
  %zero = arith.constant 0.0 : f32
  cute.fill %total, %zero : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %j = %c0 to %n step %c1 : i32 {
    %s = cute.reduce "add", %p {mode = 1 : i64} : !cute.fragment<f32, "(16,8)", "((4,8),(2,2)):((32,1),(16,8))"> -> !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">
    %t = cute.map (%a = %total : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">, %b = %r : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">, %c = %s : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">) -> !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)"> {
      %d = math.fma %a, %b, %c : f32
      cute.yield %d : f32
    }
    cute.copy %t, %total : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)"> -> !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">
  }
  %any = cute.map (%a = %total : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">) -> !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)"> {
    cute.yield %a : f32
  }
}

// A sum that starts from something else: the first lane has that. Here threads have parts of a
// column, two of a warp and two warps.
cute.kernel @columns(%n: i32, %x: i32) {
  %p = cute.alloc_fragment : !cute.fragment<i32, "(8,32)", "((2,16,2),(2,2)):((1,8,4),(2,128))">
  cute.fill %p, %x : !cute.fragment<i32, "(8,32)", "((2,16,2),(2,2)):((1,8,4),(2,128))">
  %total = cute.alloc_fragment : !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)">
  cute.fill %total, %x : !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)">
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %j = %c0 to %n step %c1 : i32 {
    %s = cute.reduce "add", %p {mode = 0 : i64} : !cute.fragment<i32, "(8,32)", "((2,16,2),(2,2)):((1,8,4),(2,128))"> -> !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)">
    %t = cute.map (%a = %total : !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)">, %c = %s : !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)">) -> !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)"> {
      %d = arith.addi %a, %c : i32
      cute.yield %d : i32
    }
    cute.copy %t, %total : !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)"> -> !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)">
  }
}

// BLESSED SUMS
// SUMS: builtin.module {
// SUMS-NEXT:   cute.kernel @scaled(%n: i32, %x: f32) {
// SUMS-NEXT:     %p = cute.alloc_fragment : !cute.fragment<f32, "(16,8)", "((4,8),(2,2)):((32,1),(16,8))">
// SUMS-NEXT:     cute.fill %p, %x : !cute.fragment<f32, "(16,8)", "((4,8),(2,2)):((32,1),(16,8))">
// SUMS-NEXT:     %r = cute.alloc_fragment : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">
// SUMS-NEXT:     cute.fill %r, %x : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">
// SUMS-NEXT:     %total = cute.alloc_fragment : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">
// SUMS-NEXT:     %zero = arith.constant 0.000000e+00 : f32
// SUMS-NEXT:     %0 = cute.alloc_fragment : !cute.fragment<f32, "(16,4)", "((4,8),2):((16,1),8)">
// SUMS-NEXT:     cute.fill %0, %zero : !cute.fragment<f32, "(16,4)", "((4,8),2):((16,1),8)">
// SUMS-NEXT:     %c0 = arith.constant 0 : i32
// SUMS-NEXT:     %c1 = arith.constant 1 : i32
// SUMS-NEXT:     scf.for %j = %c0 to %n step %c1 : i32 {
// SUMS-NEXT:       %s = cute.reduce "add", %p {mode = 1 : i64, local} : !cute.fragment<f32, "(16,8)", "((4,8),(2,2)):((32,1),(16,8))"> -> !cute.fragment<f32, "(16,4)", "((4,8),2):((16,1),8)">
// SUMS-NEXT:       %t = cute.map (%a = %0 : !cute.fragment<f32, "(16,4)", "((4,8),2):((16,1),8)">, %b = %r : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">, %c = %s : !cute.fragment<f32, "(16,4)", "((4,8),2):((16,1),8)">) -> !cute.fragment<f32, "(16,4)", "((4,8),2):((16,1),8)"> {
// SUMS-NEXT:         %d = math.fma %a, %b, %c : f32
// SUMS-NEXT:         cute.yield %d : f32
// SUMS-NEXT:       }
// SUMS-NEXT:       cute.copy %t, %0 : !cute.fragment<f32, "(16,4)", "((4,8),2):((16,1),8)"> -> !cute.fragment<f32, "(16,4)", "((4,8),2):((16,1),8)">
// SUMS-NEXT:     }
// SUMS-NEXT:     %1 = cute.reduce "add", %0 {mode = 1 : i64} : !cute.fragment<f32, "(16,4)", "((4,8),2):((16,1),8)"> -> !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">
// SUMS-NEXT:     cute.copy %1, %total : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)"> -> !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">
// SUMS-NEXT:     %any = cute.map (%a_1 = %total : !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)">) -> !cute.fragment<f32, "(16,1)", "((4,8),2):((0,1),8)"> {
// SUMS-NEXT:       cute.yield %a_1 : f32
// SUMS-NEXT:     }
// SUMS-NEXT:   }
// SUMS-NEXT:   cute.kernel @columns(%n: i32, %x: i32) {
// SUMS-NEXT:     %p = cute.alloc_fragment : !cute.fragment<i32, "(8,32)", "((2,16,2),(2,2)):((1,8,4),(2,128))">
// SUMS-NEXT:     cute.fill %p, %x : !cute.fragment<i32, "(8,32)", "((2,16,2),(2,2)):((1,8,4),(2,128))">
// SUMS-NEXT:     %total = cute.alloc_fragment : !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)">
// SUMS-NEXT:     cute.fill %total, %x : !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)">
// SUMS-NEXT:     %c0 = arith.constant 0 : i32
// SUMS-NEXT:     %c1 = arith.constant 1 : i32
// SUMS-NEXT:     %0 = cute.alloc_fragment : !cute.fragment<i32, "(4,32)", "((2,16,2),2):((1,4,2),64)">
// SUMS-NEXT:     %1 = cute.map (%2 = %total : !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)">) -> !cute.fragment<i32, "(4,32)", "((2,16,2),2):((1,4,2),64)"> {
// SUMS-NEXT:       %3 = cute.coord 0
// SUMS-NEXT:       %4 = arith.constant 0 : i32
// SUMS-NEXT:       %5 = arith.cmpi eq, %3, %4 : i32
// SUMS-NEXT:       %6 = arith.constant 0 : i32
// SUMS-NEXT:       %7 = arith.select %5, %2, %6 : i32
// SUMS-NEXT:       cute.yield %7 : i32
// SUMS-NEXT:     }
// SUMS-NEXT:     cute.copy %1, %0 : !cute.fragment<i32, "(4,32)", "((2,16,2),2):((1,4,2),64)"> -> !cute.fragment<i32, "(4,32)", "((2,16,2),2):((1,4,2),64)">
// SUMS-NEXT:     scf.for %j = %c0 to %n step %c1 : i32 {
// SUMS-NEXT:       %s = cute.reduce "add", %p {mode = 0 : i64, local} : !cute.fragment<i32, "(8,32)", "((2,16,2),(2,2)):((1,8,4),(2,128))"> -> !cute.fragment<i32, "(4,32)", "((2,16,2),2):((1,4,2),64)">
// SUMS-NEXT:       %t = cute.map (%a = %0 : !cute.fragment<i32, "(4,32)", "((2,16,2),2):((1,4,2),64)">, %c = %s : !cute.fragment<i32, "(4,32)", "((2,16,2),2):((1,4,2),64)">) -> !cute.fragment<i32, "(4,32)", "((2,16,2),2):((1,4,2),64)"> {
// SUMS-NEXT:         %d = arith.addi %a, %c : i32
// SUMS-NEXT:         cute.yield %d : i32
// SUMS-NEXT:       }
// SUMS-NEXT:       cute.copy %t, %0 : !cute.fragment<i32, "(4,32)", "((2,16,2),2):((1,4,2),64)"> -> !cute.fragment<i32, "(4,32)", "((2,16,2),2):((1,4,2),64)">
// SUMS-NEXT:     }
// SUMS-NEXT:     %8 = cute.reduce "add", %0 {mode = 0 : i64} : !cute.fragment<i32, "(4,32)", "((2,16,2),2):((1,4,2),64)"> -> !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)">
// SUMS-NEXT:     cute.copy %8, %total : !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)"> -> !cute.fragment<i32, "(1,32)", "((2,16,2),2):((0,1,0),16)">
// SUMS-NEXT:   }
// SUMS-NEXT: }
// END BLESSED
