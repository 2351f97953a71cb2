// RUN: cute-opt %s -p cute-fuse | filecheck %s

// Of elements with their places behind them the elements alone are asked for: these are sorted.
// CHECK-LABEL: cute.kernel @elements
// CHECK:       %[[K:.*]] = cute.map (%[[X:.*]] = %{{.*}} : !cute.fragment<i32, "(8,32)">) -> !cute.fragment<i32, "(8,32)"> {
// CHECK:         cute.yield %[[X]] : i32
// CHECK:       %[[S:.*]] = cute.sort %[[K]] {mode = 1 : i64, leading = 4 : i64} : !cute.fragment<i32, "(8,32)"> -> !cute.fragment<i32, "(8,32)">
// CHECK-NEXT:  %[[P:.*]] = cute.extract %[[S]], (0, 0) : !cute.fragment<i32, "(8,32)"> -> !cute.fragment<i32, "(8,4)">
// CHECK-NEXT:  cute.map (%[[W:.*]] = %[[P]] : !cute.fragment<i32, "(8,4)">) -> !cute.fragment<i32, "(8,4)"> {
// CHECK-NOT:     arith.shrsi
// CHECK:         arith.xori %[[W]], %{{.*}} : i32
cute.kernel @elements(%x: !cute.memref<i32, gmem, align<16>, "(8,32):(32,1)">, %y: !cute.memref<i32, gmem, align<16>, "(8,4):(4,1)">) {
  %a = cute.load %x : !cute.memref<i32, gmem, align<16>, "(8,32):(32,1)"> -> !cute.fragment<i32, "(8,32)">
  %w = cute.map (%v = %a : !cute.fragment<i32, "(8,32)">) -> !cute.fragment<i64, "(8,32)"> {
    %at = cute.coord 1
    %wide = arith.extsi %v : i32 to i64
    %half = arith.constant 32 : i64
    %high = arith.shli %wide, %half : i64
    %low = arith.extsi %at : i32 to i64
    %both = arith.ori %high, %low : i64
    cute.yield %both : i64
  }
  %s = cute.sort %w {mode = 1 : i64, leading = 4 : i64} : !cute.fragment<i64, "(8,32)"> -> !cute.fragment<i64, "(8,32)">
  %p = cute.extract %s, (0, 0) : !cute.fragment<i64, "(8,32)"> -> !cute.fragment<i64, "(8,4)">
  %places = cute.map (%v = %p : !cute.fragment<i64, "(8,4)">) -> !cute.fragment<i32, "(8,4)"> {
    %place = arith.trunci %v : i64 to i32
    cute.yield %place : i32
  }
  %r = cute.map (%v = %p : !cute.fragment<i64, "(8,4)">) -> !cute.fragment<i32, "(8,4)"> {
    %half = arith.constant 32 : i64
    %high = arith.shrsi %v, %half : i64
    %cut = arith.trunci %high : i64 to i32
    %ones = arith.constant -1 : i32
    %turned = arith.xori %cut, %ones : i32
    cute.yield %turned : i32
  }
  cute.copy %r, %y : !cute.fragment<i32, "(8,4)"> -> !cute.memref<i32, gmem, align<16>, "(8,4):(4,1)">
}

// Where low halves are read, words are sorted whole.
// CHECK-LABEL: cute.kernel @places
// CHECK:       cute.sort %{{.*}} {mode = 1 : i64} : !cute.fragment<i64, "(8,32)"> -> !cute.fragment<i64, "(8,32)">
cute.kernel @places(%x: !cute.memref<i32, gmem, align<16>, "(8,32):(32,1)">) {
  %a = cute.load %x : !cute.memref<i32, gmem, align<16>, "(8,32):(32,1)"> -> !cute.fragment<i32, "(8,32)">
  %w = cute.map (%v = %a : !cute.fragment<i32, "(8,32)">) -> !cute.fragment<i64, "(8,32)"> {
    %wide = arith.extsi %v : i32 to i64
    cute.yield %wide : i64
  }
  %s = cute.sort %w {mode = 1 : i64} : !cute.fragment<i64, "(8,32)"> -> !cute.fragment<i64, "(8,32)">
  %r = cute.map (%v = %s : !cute.fragment<i64, "(8,32)">) -> !cute.fragment<i32, "(8,32)"> {
    %low = arith.trunci %v : i64 to i32
    cute.yield %low : i32
  }
  cute.copy %r, %x : !cute.fragment<i32, "(8,32)"> -> !cute.memref<i32, gmem, align<16>, "(8,32):(32,1)">
}

// Of words that another op makes the high halves are cut off.
// CHECK-LABEL: cute.kernel @words
// CHECK:       arith.shrsi %{{.*}}, %{{.*}} : i64
// CHECK-NEXT:  arith.trunci %{{.*}} : i64 to i32
// CHECK:       cute.sort %{{.*}} {mode = 0 : i64} : !cute.fragment<i32, "(8,32)"> -> !cute.fragment<i32, "(8,32)">
cute.kernel @words(%x: !cute.memref<i64, gmem, align<16>, "(8,32):(32,1)">, %y: !cute.memref<i32, gmem, align<16>, "(8,32):(32,1)">) {
  %a = cute.load %x : !cute.memref<i64, gmem, align<16>, "(8,32):(32,1)"> -> !cute.fragment<i64, "(8,32)">
  %w = cute.map (%v = %a : !cute.fragment<i64, "(8,32)">) -> !cute.fragment<i64, "(8,32)"> {
    %twice = arith.addi %v, %v : i64
    cute.yield %twice : i64
  }
  %s = cute.sort %w {mode = 0 : i64} : !cute.fragment<i64, "(8,32)"> -> !cute.fragment<i64, "(8,32)">
  %r = cute.map (%v = %s : !cute.fragment<i64, "(8,32)">) -> !cute.fragment<i32, "(8,32)"> {
    %half = arith.constant 32 : i64
    %high = arith.shrsi %v, %half : i64
    %cut = arith.trunci %high : i64 to i32
    cute.yield %cut : i32
  }
  cute.copy %r, %y : !cute.fragment<i32, "(8,32)"> -> !cute.memref<i32, gmem, align<16>, "(8,32):(32,1)">
}

// What is packed below may be negative, and then changes the high halves: these are cut off.
// CHECK-LABEL: cute.kernel @signed
// CHECK:       arith.ori
// CHECK:       arith.shrsi %{{.*}}, %{{.*}} : i64
// CHECK-NEXT:  arith.trunci %{{.*}} : i64 to i32
// CHECK:       cute.sort %{{.*}} {mode = 1 : i64} : !cute.fragment<i32, "(8,32)"> -> !cute.fragment<i32, "(8,32)">
cute.kernel @signed(%x: !cute.memref<i32, gmem, align<16>, "(8,32):(32,1)">) {
  %a = cute.load %x : !cute.memref<i32, gmem, align<16>, "(8,32):(32,1)"> -> !cute.fragment<i32, "(8,32)">
  %w = cute.map (%v = %a : !cute.fragment<i32, "(8,32)">) -> !cute.fragment<i64, "(8,32)"> {
    %wide = arith.extsi %v : i32 to i64
    %half = arith.constant 32 : i64
    %high = arith.shli %wide, %half : i64
    %both = arith.ori %high, %wide : i64
    cute.yield %both : i64
  }
  %s = cute.sort %w {mode = 1 : i64} : !cute.fragment<i64, "(8,32)"> -> !cute.fragment<i64, "(8,32)">
  %r = cute.map (%v = %s : !cute.fragment<i64, "(8,32)">) -> !cute.fragment<i32, "(8,32)"> {
    %half = arith.constant 32 : i64
    %high = arith.shrsi %v, %half : i64
    %cut = arith.trunci %high : i64 to i32
    cute.yield %cut : i32
  }
  cute.copy %r, %x : !cute.fragment<i32, "(8,32)"> -> !cute.memref<i32, gmem, align<16>, "(8,32):(32,1)">
}
