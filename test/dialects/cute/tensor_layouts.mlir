// RUN: cute-opt %s | cute-opt | filecheck %s
// RUN: cute-opt %s --print-op-generic | cute-opt | filecheck %s

// CHECK-LABEL: cute.kernel @views
cute.kernel @views(%a: !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)">, %n: i32, %wide: i64) {
  %shape = cute.make_shape(%n) : (i32) -> !cute.shape<"(?,8,8)">
  %stride = cute.static : !cute.stride<"(64,8,1)">
  %layout = cute.make_layout(%shape, %stride) : (!cute.shape<"(?,8,8)">, !cute.stride<"(64,8,1)">) -> !cute.layout<"(?,8,8):(64,8,1)">
  // CHECK: %v = cute.make_view %a, %layout : !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)">, !cute.layout<"(?,8,8):(64,8,1)"> -> !cute.memref<f32, gmem, align<16>, "(?,8,8):(64,8,1)">
  %v = cute.make_view %a, %layout : !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)">, !cute.layout<"(?,8,8):(64,8,1)"> -> !cute.memref<f32, gmem, align<16>, "(?,8,8):(64,8,1)">
  // CHECK: %w = cute.make_view %a(%n, %wide) : !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)"> -> !cute.memref<f32, gmem, align<16>, "(?,4):(?{i64 div=4},1)">
  %w = cute.make_view %a(%n, %wide) : !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)"> -> !cute.memref<f32, gmem, align<16>, "(?,4):(?{i64 div=4},1)">
  // CHECK: %x = cute.make_view %w() at %n div 2 : !cute.memref<f32, gmem, align<16>, "(?,4):(?{i64 div=4},1)">, i32 -> !cute.memref<f32, gmem, align<8>, "(4,4):(4,1)">
  %x = cute.make_view %w() at %n div 2 : !cute.memref<f32, gmem, align<16>, "(?,4):(?{i64 div=4},1)">, i32 -> !cute.memref<f32, gmem, align<8>, "(4,4):(4,1)">
  %at = cute.static : !cute.int_tuple<"4">
  %still = cute.static : !cute.layout<"(4,4):(4,1)">
  // CHECK: %y = cute.make_view %a, %still at %at : !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)">, !cute.layout<"(4,4):(4,1)">, !cute.int_tuple<"4"> -> !cute.memref<f32, gmem, align<16>, "(4,4):(4,1)">
  %y = cute.make_view %a, %still at %at : !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)">, !cute.layout<"(4,4):(4,1)">, !cute.int_tuple<"4"> -> !cute.memref<f32, gmem, align<16>, "(4,4):(4,1)">
}

// CHECK-LABEL: cute.kernel @tiled
cute.kernel @tiled(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %i: i32) {
  %threads = cute.static : !cute.layout<"(16,8):(8,1)">
  %values = cute.static : !cute.layout<"(1,8):(8,1)">
  // CHECK: %copy = cute.make_tiled_copy %threads, %values {order = array<i64: 1, 0>} : !cute.layout<"(16,8):(8,1)">, !cute.layout<"(1,8):(8,1)"> -> !cute.tiled_copy<"((8,16),8):((128,1),16)", tiler = "(16,64)", order = "(1,0)">
  %copy = cute.make_tiled_copy %threads, %values {order = array<i64: 1, 0>} : !cute.layout<"(16,8):(8,1)">, !cute.layout<"(1,8):(8,1)"> -> !cute.tiled_copy<"((8,16),8):((128,1),16)", tiler = "(16,64)", order = "(1,0)">
  %tile = cute.local_tile %a, [64, 64], (%i, %i) : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">
  // CHECK: %by = cute.tiled_tile %tile by %copy :
  %by = cute.tiled_tile %tile by %copy : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute.tiled_copy<"((8,16),8):((128,1),16)", tiler = "(16,64)", order = "(1,0)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">
  %warps = cute.static : !cute.layout<"(2,2,1):(1,2,0)">
  %over = cute.static : !cute.tile<"[32:1;(8,2,2):(1,16,8);16:1]">
  // CHECK: %mma = cute.make_tiled_mma %warps, %over {atom = "mma_m16n8k16_f32_f16"} : !cute.layout<"(2,2,1):(1,2,0)">, !cute.tile<"[32:1;(8,2,2):(1,16,8);16:1]"> -> !cute.tiled_mma<
  %mma = cute.make_tiled_mma %warps, %over {atom = "mma_m16n8k16_f32_f16"} : !cute.layout<"(2,2,1):(1,2,0)">, !cute.tile<"[32:1;(8,2,2):(1,16,8);16:1]"> -> !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0); (32:1,(8,2,2):(1,16,8),16:1))">
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
  // CHECK: cute.tiled_gemm %by, %by, %acc by %mma :
  cute.tiled_gemm %by, %by, %acc by %mma : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute.fragment<f32, "(64,64)">, !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0); (32:1,(8,2,2):(1,16,8),16:1))">
  // CHECK: %s = cute.partition %a, %i by %copy {side = "S"} :
  %s = cute.partition %a, %i by %copy {side = "S"} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute.tiled_copy<"((8,16),8):((128,1),16)", tiler = "(16,64)", order = "(1,0)"> -> !cute.memref<f16, gmem, align<16>, "(8,4,1):(1,1024,64)">
  // CHECK: %c = cute.partition %a, %i by %mma {side = "C"} :
  %c = cute.partition %a, %i by %mma {side = "C"} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0); (32:1,(8,2,2):(1,16,8),16:1))"> -> !cute.memref<f16, gmem, align<4>, "((2,2),2,(2,2)):((1,512),2048,(8,32))">
}

// CHECK-LABEL: cute.kernel @sides
cute.kernel @sides(%a: !cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">, %i: i32) {
  %threads = cute.static : !cute.layout<"(8,4):(4,1)">
  %values = cute.static : !cute.layout<"(1,2):(2,1)">
  %copy = cute.make_tiled_copy %threads, %values : !cute.layout<"(8,4):(4,1)">, !cute.layout<"(1,2):(2,1)"> -> !cute.tiled_copy<"((4,8),2):((16,1),8)", tiler = "(8,8)">
  // A row of 8 elements where ldmatrix reads, two elements where it writes
  // CHECK: %s = cute.partition %a, %i by %copy {side = "S", atom = "ldmatrix_x1"} :
  %s = cute.partition %a, %i by %copy {side = "S", atom = "ldmatrix_x1"} : !cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">, !cute.tiled_copy<"((4,8),2):((16,1),8)", tiler = "(8,8)"> -> !cute.memref<f16, gmem, align<16>, "(8,1,1):(1,64,8)">
  // CHECK: %d = cute.partition %a, %i by %copy {side = "D", atom = "ldmatrix_x1"} :
  %d = cute.partition %a, %i by %copy {side = "D", atom = "ldmatrix_x1"} : !cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">, !cute.tiled_copy<"((4,8),2):((16,1),8)", tiler = "(8,8)"> -> !cute.memref<f16, gmem, align<4>, "(2,1,1):(1,64,8)">
}
