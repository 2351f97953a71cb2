// RUN: cute-opt %s -p cute-fold-static | cute-opt | filecheck %s

// A static layout is in the view's type alone; tiled copies and multiplies are attributes
// CHECK-LABEL: cute.kernel @static
// CHECK: %v = cute.make_view %a() : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(32,128):(128,1)">
// CHECK: %[[FROM:.*]] = arith.constant 128 : i64
// CHECK-NEXT: %{{.*}} = cute.make_view %a() at %[[FROM]] : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, i64 -> !cute.memref<f16, gmem, align<16>, "(16,128):(128,1)">
// CHECK: %plain = cute.local_tile %v, [32, 64], (%i, %i) :
// CHECK-NEXT: %[[TILE:.*]] = cute.local_tile %v, [32, 64], (%i, %i) {tiled = #cute.tiled_copy<"((8,16),8):((128,1),16)", tiler = "(16,64)">} :
// CHECK-NEXT: %x = cute.load %[[TILE]] :
// CHECK-NEXT: %y = cute.load %plain :
// CHECK: cute.gemm %[[TILE]], %plain, %acc {atom = "(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0); (_,_,_))"} :
cute.kernel @static(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %i: i32) {
  %l = cute.static : !cute.layout<"(32,128):(128,1)">
  %v = cute.make_view %a, %l : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute.layout<"(32,128):(128,1)"> -> !cute.memref<f16, gmem, align<16>, "(32,128):(128,1)">
  %k = cute.static : !cute.layout<"(16,128):(128,1)">
  %at = cute.static : !cute.int_tuple<"128">
  %w = cute.make_view %a, %k at %at : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute.layout<"(16,128):(128,1)">, !cute.int_tuple<"128"> -> !cute.memref<f16, gmem, align<16>, "(16,128):(128,1)">
  %threads = cute.static : !cute.layout<"(16,8):(8,1)">
  %values = cute.static : !cute.layout<"(1,8):(8,1)">
  %copy = cute.make_tiled_copy %threads, %values : !cute.layout<"(16,8):(8,1)">, !cute.layout<"(1,8):(8,1)"> -> !cute.tiled_copy<"((8,16),8):((128,1),16)", tiler = "(16,64)">
  %plain = cute.local_tile %v, [32, 64], (%i, %i) : !cute.memref<f16, gmem, align<16>, "(32,128):(128,1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(128,1)">
  %tile = cute.tiled_tile %plain by %copy : !cute.memref<f16, gmem, align<16>, "(32,64):(128,1)">, !cute.tiled_copy<"((8,16),8):((128,1),16)", tiler = "(16,64)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(128,1)">
  %x = cute.load %tile : !cute.memref<f16, gmem, align<16>, "(32,64):(128,1)"> -> !cute.fragment<f16, "(32,64)">
  %y = cute.load %plain : !cute.memref<f16, gmem, align<16>, "(32,64):(128,1)"> -> !cute.fragment<f16, "(32,64)">
  %warps = cute.static : !cute.layout<"(2,2,1):(1,2,0)">
  %mma = cute.make_tiled_mma %warps {atom = "mma_m16n8k16_f32_f16"} : !cute.layout<"(2,2,1):(1,2,0)"> -> !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0))">
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(32,32)">
  cute.tiled_gemm %tile, %plain, %acc by %mma : !cute.memref<f16, gmem, align<16>, "(32,64):(128,1)">, !cute.memref<f16, gmem, align<16>, "(32,64):(128,1)">, !cute.fragment<f32, "(32,32)">, !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0))">
}
