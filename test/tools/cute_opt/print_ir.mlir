// RUN: cute-opt %s --cse --dce --print-ir-after=cse --print-ir-before=dce 2>&1 | filecheck %s
// RUN: cute-opt %s --pass-pipeline='builtin.module(cse,dce)' --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC
// RUN: cute-opt %s -p cse,cse --print-ir-after-change 2>&1 | filecheck %s --check-prefix=CHANGE

// CHECK: // -----// IR Dump After cse //----- //
// CHECK-NEXT: builtin.module {
// CHECK-NOT: IR Dump After dce
// CHECK: // -----// IR Dump Before dce //----- //
// GENERIC: %{{.*}} = "arith.addi"(%a, %a) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
// GENERIC-NOT: arith.addi
// CHANGE: IR Dump After cse
// CHANGE-NOT: IR Dump After cse
func.func @twice(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  %1 = arith.addi %a, %a : i32
  func.return %1 : i32
}
