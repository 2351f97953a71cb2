// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// Where a mode ends at run time, a composition cuts in each of the modes
// CHECK: cute.composition(%{{.*}}, %{{.*}}) : (!cute.layout<"(?,?):(?,?)">, !cute.layout<"6:2">) -> !cute.layout<"(?,?):(?,?)">
func.func @composition(%a: !cute.layout<"(?,?):(?,?)">, %b: !cute.layout<"6:2">) {
  %r = cute.composition(%a, %b) : (!cute.layout<"(?,?):(?,?)">, !cute.layout<"6:2">) -> !cute.layout<"(?,?):(?,?)">
  func.return
}

// -----

// CHECK: cute.logical_divide(%{{.*}}, %{{.*}}) : (!cute.layout<"(?,?):(?,1)">, !cute.shape<"(16,8)">) -> !cute.layout<"((16,?),(8,?)):((?,?),(1,8))">
func.func @divide(%a: !cute.layout<"(?,?):(?,1)">, %b: !cute.shape<"(16,8)">) {
  %r = cute.logical_divide(%a, %b) : (!cute.layout<"(?,?):(?,1)">, !cute.shape<"(16,8)">) -> !cute.layout<"((16,?),(8,?)):((?,?),(1,8))">
  func.return
}

// -----

// A run-time number of 64 bits makes the result one; divisibility is kept where a leaf states it
// CHECK: cute.size (%{{.*}}) : (!cute.shape<"(4,?{i64},?)">) -> !cute.int_tuple<"?{i64}">
// CHECK: cute.size (%{{.*}}) : (!cute.shape<"(4,?{div=8})">) -> !cute.int_tuple<"?{div=32}">
func.func @sizes(%a: !cute.shape<"(4,?{i64},?)">, %b: !cute.shape<"(4,?{div=8})">) {
  %r = cute.size (%a) : (!cute.shape<"(4,?{i64},?)">) -> !cute.int_tuple<"?{i64}">
  %s = cute.size (%b) : (!cute.shape<"(4,?{div=8})">) -> !cute.int_tuple<"?{div=32}">
  func.return
}

// -----

// The complement up to a run-time shape keeps its modes apart from static ones
// CHECK: cute.complement(%{{.*}}, %{{.*}}) : (!cute.layout<"3:2">, !cute.shape<"(?,?)">) -> !cute.layout<"(2,?):(1,6)">
func.func @complement(%a: !cute.layout<"3:2">, %b: !cute.shape<"(?,?)">) {
  %r = cute.complement(%a, %b) : (!cute.layout<"3:2">, !cute.shape<"(?,?)">) -> !cute.layout<"(2,?):(1,6)">
  func.return
}

// -----

// Of a swizzled layout a slice keeps what the swizzle reads of the begin, and is a plain layout where
// it moves none of the slice's own offsets
// CHECK: func.return %{{.*}}, %{{.*}} : !cute.composed_layout<"S<3,4,3> o 0 o (128):(64)">, !cute.layout<"(16):(1)">
func.func @swizzled(%a: !cute.composed_layout<"S<3,4,3> o 0 o (64,128):(1,64)">, %b: !cute.composed_layout<"S<3,4,3> o 0 o (16,8):(1,16)">, %c: !cute.coord<"(1,_)">, %d: !cute.coord<"(_,1)">) -> (!cute.composed_layout<"S<3,4,3> o 0 o (128):(64)">, !cute.layout<"(16):(1)">) {
  %r = cute.slice(%a, %c) : !cute.composed_layout<"S<3,4,3> o 0 o (64,128):(1,64)">, !cute.coord<"(1,_)">
  %s = cute.slice(%b, %d) : !cute.composed_layout<"S<3,4,3> o 0 o (16,8):(1,16)">, !cute.coord<"(_,1)">
  func.return %r, %s : !cute.composed_layout<"S<3,4,3> o 0 o (128):(64)">, !cute.layout<"(16):(1)">
}
