// RUN: cute-opt %s --split-input-file -p cute-fold-static | filecheck %s

// What types say all of is a constant, and what nothing uses goes
// CHECK-LABEL: func.func @static
// CHECK-NEXT: %s = cute.static : !cute.int_tuple<"32">
// CHECK-NEXT: func.return %s
func.func @static(%l: !cute.layout<"(4,8):(8,1)">) -> !cute.int_tuple<"32"> {
  %shape = cute.get_shape(%l) : !cute.layout<"(4,8):(8,1)"> -> !cute.shape<"(4,8)">
  %c = cute.make_coord() : () -> !cute.coord<"(_,1)">
  %column = cute.slice(%l, %c) : !cute.layout<"(4,8):(8,1)">, !cute.coord<"(_,1)">
  %s = cute.size (%shape) : (!cute.shape<"(4,8)">) -> !cute.int_tuple<"32">
  func.return %s : !cute.int_tuple<"32">
}

// -----

// Of an op with several results those are folded that are static
// CHECK-LABEL: func.func @leaves
// CHECK-NEXT: %a = cute.static : !cute.shape<"4">
// CHECK-NEXT: %{{.*}}:2 = cute.get_leaves(%s) : !cute.shape<"(4,?)">
func.func @leaves(%s: !cute.shape<"(4,?)">) -> (!cute.shape<"4">, !cute.shape<"?">) {
  %a, %b = cute.get_leaves(%s) : !cute.shape<"(4,?)">
  func.return %a, %b : !cute.shape<"4">, !cute.shape<"?">
}

// -----

// CHECK-LABEL: func.func @compared
// CHECK-NEXT: arith.constant false
// CHECK-NEXT: arith.constant true
// CHECK-NEXT: %{{.*}} = cute.equal
func.func @compared(%a: !cute.coord<"(1,8)">, %b: !cute.shape<"(4,8)">, %c: !cute.shape<"(?,8)">) -> (i1, i1, i1) {
  %less = cute.elem_less(%a, %b) : (!cute.coord<"(1,8)">, !cute.shape<"(4,8)">) -> i1
  %same = cute.equal(%b, %b) : (!cute.shape<"(4,8)">, !cute.shape<"(4,8)">) -> i1
  %known_later = cute.equal(%b, %c) : (!cute.shape<"(4,8)">, !cute.shape<"(?,8)">) -> i1
  func.return %less, %same, %known_later : i1, i1, i1
}

// -----

// What writes stays, and so does what is dynamic
// CHECK-LABEL: func.func @kept
// CHECK-NEXT: %r = cute.coalesce
// CHECK-NEXT: cute.print(%r)
func.func @kept(%l: !cute.layout<"(?,8):(1,?)">) {
  %r = cute.coalesce(%l) : (!cute.layout<"(?,8):(1,?)">) -> !cute.layout<"(?,8):(1,?)">
  cute.print(%r) : !cute.layout<"(?,8):(1,?)">
  func.return
}
