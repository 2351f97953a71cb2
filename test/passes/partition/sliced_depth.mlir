// RUN: cute-opt %s --split-input-file -p 'cute-tile{arch=sm_80},cute-partition{arch=sm_80}' | filecheck %s

// Two warps along K sum up a slice of the depth each, in parts that one reduction behind the loop adds.

// CHECK-LABEL: cute.kernel @loop
// CHECK:         %acc = cute.alloc_fragment : !cute.fragment<f32, "(32,32)", "((4,8,2,2),(2,2,4)):((64,1,16,0),(32,8,256))">
// CHECK:         %[[PARTS:acc_1]] = cute.alloc_fragment : !cute.fragment<f32, "(32,32,2)", "((4,8,2,2),((2,2),1,4)):((64,1,16,1024),((32,8),0,256))">
// CHECK:         cute.fill %[[PARTS]]
// CHECK:         scf.for
// CHECK:           cute.gemm %{{.+}}, %{{.+}}, %[[PARTS]] {atom = !cute_nvgpu.sm80.mma<16x8x16,
// CHECK-NOT:         cute.reduce
// CHECK:       {{^    }}}
// CHECK-NEXT:    %[[SUM:.+]] = cute.reduce "add", %[[PARTS]] {mode = 2 : i64}
// CHECK-NEXT:    cute.copy %[[SUM]], %acc :
!a = !cute.memref<f16, gmem, align<16>, "(32,128):(128,1)">
!c = !cute.memref<f32, gmem, align<16>, "(32,32):(32,1)">
!t = !cute.memref<f16, gmem, align<16>, "(32,32):(128,1)">
!acc = !cute.fragment<f32, "(32,32)">
cute.kernel @loop(%A: !a, %C: !c) {
  %acc = cute.alloc_fragment : !acc
  %zero = arith.constant 0.0 : f32
  cute.fill %acc, %zero : !acc
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  scf.for %k = %c0 to %c4 step %c1 : i32 {
    %t = cute.local_tile %A, [32, 32], (%c0, %k) : !a -> !t
    cute.gemm %t, %t, %acc {atom = "(mma_m16n8k16_f32_f16; (2,1,2))"} : !t, !t, !acc
  }
  cute.copy %acc, %C : !acc -> !c
}

// -----

// A loop that does more with the accumulator has it whole: the parts are added behind each multiply.

// CHECK-LABEL: cute.kernel @scaled
// CHECK:         scf.for
// CHECK:           cute.map
// CHECK:           cute.fill %[[PARTS:.+]], %{{.+}} : !cute.fragment<f32, "(32,32,2)"
// CHECK:           cute.gemm %{{.+}}, %{{.+}}, %[[PARTS]]
// CHECK-NEXT:      %[[SUM:.+]] = cute.reduce "add", %[[PARTS]]
// CHECK-NEXT:      %[[NEW:.+]] = cute.map (%{{.+}} = %acc : {{.+}}, %{{.+}} = %[[SUM]] :
// CHECK:           cute.copy %[[NEW]], %acc
!a = !cute.memref<f16, gmem, align<16>, "(32,128):(128,1)">
!c = !cute.memref<f32, gmem, align<16>, "(32,32):(32,1)">
!t = !cute.memref<f16, gmem, align<16>, "(32,32):(128,1)">
!acc = !cute.fragment<f32, "(32,32)">
cute.kernel @scaled(%A: !a, %C: !c) {
  %acc = cute.alloc_fragment : !acc
  %one = arith.constant 1.0 : f32
  cute.fill %acc, %one : !acc
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  scf.for %k = %c0 to %c4 step %c1 : i32 {
    %twice = cute.map (%x = %acc : !acc) -> !acc {
      %y = arith.addf %x, %x : f32
      cute.yield %y : f32
    }
    cute.copy %twice, %acc : !acc -> !acc
    %t = cute.local_tile %A, [32, 32], (%c0, %k) : !a -> !t
    cute.gemm %t, %t, %acc {atom = "(mma_m16n8k16_f32_f16; (2,1,2))"} : !t, !t, !acc
  }
  cute.copy %acc, %C : !acc -> !c
}
