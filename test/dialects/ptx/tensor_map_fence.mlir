// RUN: cute-opt %s | cute-opt | filecheck %s
// RUN: cute-opt %s --mlir-print-op-generic | cute-opt | filecheck %s

// ptx.fence.tensormap
// CHECK: ptx.kernel @k(%maps: b64) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.fence.tensormap %maps
// CHECK-NEXT: }
ptx.kernel @k(%maps: b64) attributes {target = "sm_90a", threads = 32 : i32} {
  ptx.fence.tensormap %maps
}
