// RUN: cute-opt %s --split-input-file -p cute-to-base | cute-opt --split-input-file | filecheck %s

// A value is a struct of its run-time leaves, one of them the number itself
// CHECK-LABEL: func.func private @types(i32, !llvm.struct<()>, !llvm.struct<(i32, i64)>)
// CHECK-SAME: -> !llvm.struct<(struct<(i32, i32)>, i32, struct<()>)>
func.func private @types(!cute.shape<"(?,4)">, !cute.coord<"(1,_)">, !cute.int_tuple<"(?,?{i64})">) -> !cute.composed_layout<"S<3,4,3> o ? o (?,4):(?,1)">

// -----

// CHECK-LABEL: func.func @layout(%s: !llvm.struct<(i32, i32)>, %d: i32) -> !llvm.struct<(struct<(i32, i32)>, i32)> {
// CHECK-NEXT: %[[POISON:.*]] = ub.poison : !llvm.struct<(struct<(i32, i32)>, i32)>
// CHECK-NEXT: %[[SHAPE:.*]] = llvm.insertvalue %s, %[[POISON]][0]
// CHECK-NEXT: %[[BOTH:.*]] = llvm.insertvalue %d, %[[SHAPE]][1]
// CHECK-NEXT: func.return %[[BOTH]]
func.func @layout(%s: !cute.shape<"(?,?)">, %d: !cute.stride<"(1,?)">) -> !cute.layout<"(?,?):(1,?)"> {
  %r = cute.make_layout(%s, %d) : (!cute.shape<"(?,?)">, !cute.stride<"(1,?)">) -> !cute.layout<"(?,?):(1,?)">
  func.return %r : !cute.layout<"(?,?):(1,?)">
}

// -----

// CHECK-LABEL: func.func @numbers
// CHECK-NEXT: %[[ROWS:.*]] = llvm.extractvalue %l[0, 0]
// CHECK-NEXT: %[[EIGHT:.*]] = arith.constant 8 : i32
// CHECK: func.return %[[ROWS]], %[[EIGHT]]
func.func @numbers(%l: !cute.layout<"(?,8,?):(1,2,?)">) -> (i32, i32) {
  %n:6 = cute.get_scalars (%l) : !cute.layout<"(?,8,?):(1,2,?)">
  func.return %n#0, %n#1 : i32, i32
}

// -----

// Values that loops carry are structs, too
// CHECK-LABEL: func.func @carried
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (!llvm.struct<(i32, i32)>)
func.func @carried(%c: !cute.coord<"(?,?)">, %from: index, %to: index, %by: index) -> !cute.coord<"(?,?)"> {
  %r = scf.for %i = %from to %to step %by iter_args(%at = %c) -> (!cute.coord<"(?,?)">) {
    %n:2 = cute.get_scalars<{only_dynamic}> (%at) : !cute.coord<"(?,?)">
    %next = cute.make_coord(%n#1, %n#0) : (i32, i32) -> !cute.coord<"(?,?)">
    scf.yield %next : !cute.coord<"(?,?)">
  }
  func.return %r : !cute.coord<"(?,?)">
}

// -----

// On the host a print is a call of printf
// CHECK: llvm.func @printf(!llvm.ptr, ...) -> i32
// CHECK-NEXT: llvm.mlir.global internal constant @printfFormat_0("(%d,%lld)\0A\00")
// CHECK-NEXT: llvm.mlir.global internal constant @printfFormat_1("S<3,4,3>\0A\00")
// CHECK: llvm.call @printf(%{{.*}}, %{{.*}}, %{{.*}}) vararg
// CHECK: llvm.call @printf(%{{.*}}) vararg
func.func @printed(%s: !cute.shape<"(?,?{i64})">) {
  cute.print(%s) : !cute.shape<"(?,?{i64})">
  %swizzle = cute.static : !cute.swizzle<"S<3,4,3>">
  cute.print(%swizzle) : !cute.swizzle<"S<3,4,3>">
  func.return
}
