// RUN: cute-opt %s -p 'cute-unroll-loops' | filecheck %s

// A loop inside of another: of both, two trips are one, and what is odd is one more. Each of the
// outer loop's three trips has an inner loop like that.

// CHECK:      scf.for %[[J:.*]] = %first to %{{.*}} step
// CHECK:        cute.gemm %kept,
// CHECK:        scf.for
// CHECK:          cute.gemm %also,
// CHECK:          cute.gemm %inner,
// CHECK:        scf.if
// CHECK:        cute.fill %made,
// CHECK:        arith.addi %[[J]],
// CHECK:        cute.gemm %made,
// CHECK:        scf.for
// CHECK:        scf.if
// CHECK:        cute.fill %kept,
// CHECK:      scf.if
// CHECK:        cute.gemm %kept,
// CHECK:        scf.for
// CHECK:        scf.if
// CHECK:        cute.copy %{{made.*}}, %kept

cute.kernel @k(%first: i32, %last: i32) attributes {schedule = #cute.schedule<"unroll = 2">} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, "(8,16):(16,1)">
  %one = arith.constant 1 : i32
  %x = arith.constant 1.0 : f16
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,8)", "((4,8,4),(2,2)):((128,1,16),(64,8))">
  %kept = cute.alloc_fragment : !cute.fragment<f16, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
  %also = cute.alloc_fragment : !cute.fragment<f16, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
  scf.for %j = %first to %last step %one : i32 {
    cute_nvgpu.wgmma_fence
    cute.gemm %kept, %s, %acc {atom = !cute_nvgpu.sm90.mma<64x8x16, elem_type = (f16, f16, f32), a = rmem>} : !cute.fragment<f16, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">, !cute.memref<f16, smem, align<1024>, "(8,16):(16,1)">, !cute.fragment<f32, "(64,8)", "((4,8,4),(2,2)):((128,1,16),(64,8))">
    cute_nvgpu.wgmma_commit
    scf.for %i = %first to %last step %one : i32 {
      cute_nvgpu.wgmma_fence
      cute.gemm %also, %s, %acc {atom = !cute_nvgpu.sm90.mma<64x8x16, elem_type = (f16, f16, f32), a = rmem>} : !cute.fragment<f16, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">, !cute.memref<f16, smem, align<1024>, "(8,16):(16,1)">, !cute.fragment<f32, "(64,8)", "((4,8,4),(2,2)):((128,1,16),(64,8))">
      cute_nvgpu.wgmma_commit
      %inner = cute.alloc_fragment : !cute.fragment<f16, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
      cute.fill %inner, %x : !cute.fragment<f16, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
      cute_nvgpu.wgmma_wait {pending = 0 : i32}
      cute.copy %inner, %also : !cute.fragment<f16, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> -> !cute.fragment<f16, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
    }
    %made = cute.alloc_fragment : !cute.fragment<f16, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
    cute.fill %made, %x : !cute.fragment<f16, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
    cute_nvgpu.wgmma_wait {pending = 0 : i32}
    cute.copy %made, %kept : !cute.fragment<f16, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> -> !cute.fragment<f16, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
  }
}
