// RUN: cute-opt %s -p cute-fold-static,cute-expand-ops | cute-opt | filecheck %s

// A view takes the run-time numbers of its layout; strides are as wide as in memory
// CHECK-LABEL: cute.kernel @view
// CHECK: %[[OF:.*]]:2 = cute.get_scalars<{only_dynamic}> (%l) : !cute.layout<"(?,8):(?{div=8},1)">
// CHECK-NEXT: %[[WIDE:.*]] = arith.extsi %[[OF]]#1 : i32 to i64
// CHECK-NEXT: %[[AT:.*]] = cute.get_scalars<{only_dynamic}> (%from) : !cute.int_tuple<"?{div=4}">
// CHECK-NEXT: cute.make_view %a(%[[OF]]#0, %[[WIDE]]) at %[[AT]] div 4 : !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)">, i32 -> !cute.memref<f32, gmem, align<16>, "(?,8):(?{i64 div=8},1)">
cute.kernel @view(%a: !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)">, %n: i32) {
  %s = cute.make_shape(%n) : (i32) -> !cute.shape<"(?,8)">
  %d = cute.make_stride(%n) : (i32) -> !cute.stride<"(?{div=8},1)">
  %l = cute.make_layout(%s, %d) : (!cute.shape<"(?,8)">, !cute.stride<"(?{div=8},1)">) -> !cute.layout<"(?,8):(?{div=8},1)">
  %from = cute.make_int_tuple(%n) : (i32) -> !cute.int_tuple<"?{div=4}">
  %v = cute.make_view %a, %l at %from : !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)">, !cute.layout<"(?,8):(?{div=8},1)">, !cute.int_tuple<"?{div=4}"> -> !cute.memref<f32, gmem, align<16>, "(?,8):(?{i64 div=8},1)">
  %x = cute.read %v[%n, %n] : !cute.memref<f32, gmem, align<16>, "(?,8):(?{i64 div=8},1)">
  cute.printf "%f", %x : f32
}

// What a thread has is a view: where it begins is computed from the thread, the rest from the tensor
// CHECK-LABEL: cute.kernel @partition
// CHECK: %[[LANE:.*]] = arith.remsi %i, %{{.*}} : i32
// CHECK: cute.make_view %a() at %{{.*}} div 4 : !cute.memref<f32, gmem, align<16>, "(16,64):(64,1)">, i32 -> !cute.memref<f32, gmem, align<16>, "(4,4,2):(1,256,32)">
// CHECK: %[[ROWS:.*]] = cute.dim %b, 0
// CHECK: %[[COLUMNS:.*]] = cute.dim %b, 1
// CHECK: arith.ceildivsi %[[ROWS]]
// CHECK: arith.ceildivsi %[[COLUMNS]]
// CHECK: cute.make_view %b({{.*}}) at %{{.*}} div 4 : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, i64 -> !cute.memref<f32, gmem, align<16>, "(4,?,?):(1,?{i64 div=16},32)">
cute.kernel @partition(%a: !cute.memref<f32, gmem, align<16>, "(16,64):(64,1)">, %b: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %i: i32) {
  %t = cute.static : !cute.layout<"(4,8):(8,1)">
  %v = cute.static : !cute.layout<"(1,4):(4,1)">
  %c = cute.make_tiled_copy %t, %v : !cute.layout<"(4,8):(8,1)">, !cute.layout<"(1,4):(4,1)"> -> !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">
  %p = cute.partition %a, %i by %c {side = "S"} : !cute.memref<f32, gmem, align<16>, "(16,64):(64,1)">, !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)"> -> !cute.memref<f32, gmem, align<16>, "(4,4,2):(1,256,32)">
  %q = cute.partition %b, %i by %c {side = "D"} : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)"> -> !cute.memref<f32, gmem, align<16>, "(4,?,?):(1,?{i64 div=16},32)">
  %x = cute.read %p[%i, %i, %i] : !cute.memref<f32, gmem, align<16>, "(4,4,2):(1,256,32)">
  %y = cute.read %q[%i, %i, %i] : !cute.memref<f32, gmem, align<16>, "(4,?,?):(1,?{i64 div=16},32)">
  cute.printf "%f %f", %x, %y : f32, f32
}
