// RUN: cute-opt %s | cute-opt | filecheck %s
// RUN: cute-opt %s --mlir-print-op-generic | cute-opt | filecheck %s

// ptx.clusterlaunchcontrol.try_cancel, ptx.clusterlaunchcontrol.query_cancel
// CHECK: ptx.kernel @k(%s: b32, %n: b32) attributes{target = "sm_100a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.clusterlaunchcontrol.try_cancel [%s + 16], [%s + 8]
// CHECK-NEXT:   ptx.clusterlaunchcontrol.try_cancel everywhere [%s], [%s]
// CHECK-NEXT:   %x = ptx.clusterlaunchcontrol.query_cancel [%s + 16] else %n
// CHECK-NEXT: }
ptx.kernel @k(%s: b32, %n: b32) attributes {target = "sm_100a", threads = 32 : i32} {
  ptx.clusterlaunchcontrol.try_cancel [%s + 16], [%s + 8]
  ptx.clusterlaunchcontrol.try_cancel everywhere [%s], [%s]
  %x = ptx.clusterlaunchcontrol.query_cancel [%s + 16] else %n
}
