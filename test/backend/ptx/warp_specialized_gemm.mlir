// RUN: cute-opt %s -t ptx | filecheck %s

// C = A B' in f16: a cluster of two CTAs, each with a tile of 128 x 128, a warp that loads and two
// warpgroups that multiply. Both CTAs need the same rows of B; each loads half and multicasts it.
// test_warp_specialized_gemm.py assembles and runs it.

// CHECK: .extern .shared .align 1024 .b8 gemm_smem[];
// CHECK: .param .align 64 .b8 gemm_param_0[128],
// CHECK: .reqntid 384, 1, 1
// CHECK-NEXT: .minnctapersm 1
// CHECK-NEXT: .reqnctapercluster 2, 1, 1
// CHECK: mov.b64 [[A:%rd[0-9]+]], gemm_param_0;
// CHECK-NEXT: cvta.param.u64 [[A]], [[A]];
// CHECK: mbarrier.init.shared::cta.b64 [%r{{[0-9]+}}+163840], 1;
// CHECK: fence.mbarrier_init.release.cluster;
// CHECK: setmaxnreg.dec.sync.aligned.u32 40;
// CHECK: elect.sync _|[[ELECTED:%p[0-9]+]], 0xffffffff;
// CHECK: $L_gemm_wait_
// CHECK-NEXT: mbarrier.try_wait.parity.shared::cta.b64 [[DONE:%p[0-9]+]], [%r{{[0-9]+}}+163872], %r{{[0-9]+}};
// CHECK-NEXT: @![[DONE]] bra $L_gemm_wait_
// CHECK: @[[ELECTED]] mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r{{[0-9]+}}+163840], 32768;
// CHECK: @[[ELECTED]] cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [
// CHECK: @[[ELECTED]] cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [
// CHECK: setmaxnreg.inc.sync.aligned.u32 232;
// CHECK: wgmma.fence.sync.aligned;
// CHECK: add.s64 [[A2:%rd[0-9]+]], %rd{{[0-9]+}}, 2;
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%f
// CHECK: wgmma.commit_group.sync.aligned;
// CHECK: mapa.shared::cluster.u32
// CHECK: mbarrier.arrive.shared::cluster.b64 _, [%r
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK: stmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: fence.proxy.async.shared::cta;
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [
// CHECK: cp.async.bulk.wait_group 0;
// CHECK: barrier.cluster.wait;
!matrix = !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
ptx.kernel @gemm(%A: tensor_map, %B: tensor_map, %C: tensor_map, %k_tiles: b32) attributes {
  target = "sm_90a", threads = 384 : i32, smem = 163904 : i32, cluster = array<i64: 2, 1, 1>
} {
  // 4 stages of A at 0 and of B at 65536, the tile of C at 131072, barriers "full" at 163840 and
  // "empty" at 163872.
  %zero = ptx.imm 0 : b32
  %one = ptx.imm 1 : b32
  %two = ptx.imm 2 : b32
  %three = ptx.imm 3 : b32
  %four = ptx.imm 4 : b32
  %five = ptx.imm 5 : b32
  %six = ptx.imm 6 : b32
  %seven = ptx.imm 7 : b32
  %thirteen = ptx.imm 13 : b32
  %fourteen = ptx.imm 14 : b32
  %all = ptx.imm 4294967295 : b32
  %last = ptx.imm 31 : b32
  %fzero = ptx.imm 0.0 : f32
  %tid = ptx.special "tid.x" : b32
  %lane = ptx.and "b32" %tid, %last : (b32, b32) -> b32
  %warp_of = ptx.shr "u32" %tid, %five : (b32, b32) -> b32
  %warp = ptx.shfl "sync.idx.b32", %warp_of, %zero, %last, %all : !ptx.reg<b32> -> !ptx.reg<b32>
  %group = ptx.shr "u32" %warp, %two : (b32, b32) -> b32
  %quarter = ptx.and "b32" %warp, %three : (b32, b32) -> b32
  %smem = ptx.smem_base : b32
  %rank = ptx.special "cluster_ctarank" : b32
  %m_tile = ptx.special "ctaid.x" : b32
  %n_tile = ptx.special "ctaid.y" : b32
  %m0 = ptx.shl "b32" %m_tile, %seven : (b32, b32) -> b32
  %n0 = ptx.shl "b32" %n_tile, %seven : (b32, b32) -> b32

  %is_first = ptx.setp "eq.s32" %warp, %zero : (b32, b32) -> pred
  ptx.if %is_first {
    %p = ptx.elect
    ptx.if %p {
      ptx.mbarrier.init [%smem + 163840], 1
      ptx.mbarrier.init [%smem + 163848], 1
      ptx.mbarrier.init [%smem + 163856], 1
      ptx.mbarrier.init [%smem + 163864], 1
      ptx.mbarrier.init [%smem + 163872], 4
      ptx.mbarrier.init [%smem + 163880], 4
      ptx.mbarrier.init [%smem + 163888], 4
      ptx.mbarrier.init [%smem + 163896], 4
      ptx.fence "mbarrier_init.release.cluster"
    }
  }
  ptx.barrier.cluster.arrive
  ptx.barrier.cluster.wait

  %loads = ptx.setp "eq.s32" %group, %zero : (b32, b32) -> pred
  ptx.if %loads {
    ptx.setmaxnreg "dec", 40
    ptx.if %is_first {
      %p = ptx.elect
      ptx.prefetch.tensormap %A if %p : !ptx.tensor_map
      ptx.prefetch.tensormap %B if %p : !ptx.tensor_map
      %mask = ptx.imm 3 : b16
      %half = ptx.shl "b32" %rank, %thirteen : (b32, b32) -> b32
      %half_row = ptx.shl "b32" %rank, %six : (b32, b32) -> b32
      %b_row = ptx.add "s32" %n0, %half_row : (b32, b32) -> b32
      ptx.for %i = %zero to %k_tiles step 1 {
        %stage = ptx.and "b32" %i, %three : (b32, b32) -> b32
        %round = ptx.shr "u32" %i, %two : (b32, b32) -> b32
        %phase = ptx.and "b32" %round, %one : (b32, b32) -> b32
        %other = ptx.xor "b32" %phase, %one : (b32, b32) -> b32
        %bar_at = ptx.shl "b32" %stage, %three : (b32, b32) -> b32
        %bar = ptx.add "s32" %smem, %bar_at : (b32, b32) -> b32
        %at = ptx.shl "b32" %stage, %fourteen : (b32, b32) -> b32
        %dst = ptx.add "s32" %smem, %at : (b32, b32) -> b32
        %b_dst = ptx.add "s32" %dst, %half : (b32, b32) -> b32
        %k0 = ptx.shl "b32" %i, %six : (b32, b32) -> b32
        ptx.mbarrier.wait [%bar + 163872], %other
        ptx.mbarrier.arrive.expect_tx [%bar + 163840], 32768 if %p
        ptx.tma.load [%dst], %A[%k0, %m0], [%bar + 163840] if %p : !ptx.tensor_map
        ptx.tma.load [%b_dst + 65536], %B[%k0, %b_row], [%bar + 163840] multicast %mask if %p : !ptx.tensor_map
      }
    }
  } else {
    ptx.setmaxnreg "inc", 232
    %mine = ptx.sub "s32" %group, %one : (b32, b32) -> b32
    %p = ptx.elect
    %leads = ptx.setp "eq.s32" %quarter, %zero : (b32, b32) -> pred
    %arrives = ptx.and "pred" %p, %leads : (pred, pred) -> pred
    %acc = ptx.regs : !ptx.regs<f32 x 64>
    ptx.fill %acc, %fzero : !ptx.regs<f32 x 64>, !ptx.reg<f32>
    %a_at = ptx.shl "b32" %mine, %thirteen : (b32, b32) -> b32
    %field = ptx.imm 16383 : b32
    %chunk = ptx.imm 65536 : b32
    ptx.for %i = %zero to %k_tiles step 1 {
      %stage = ptx.and "b32" %i, %three : (b32, b32) -> b32
      %round = ptx.shr "u32" %i, %two : (b32, b32) -> b32
      %phase = ptx.and "b32" %round, %one : (b32, b32) -> b32
      %bar_at = ptx.shl "b32" %stage, %three : (b32, b32) -> b32
      %bar = ptx.add "s32" %smem, %bar_at : (b32, b32) -> b32
      %at = ptx.shl "b32" %stage, %fourteen : (b32, b32) -> b32
      %stage_at = ptx.add "s32" %smem, %at : (b32, b32) -> b32
      %a_base = ptx.add "s32" %stage_at, %a_at : (b32, b32) -> b32
      %b_base = ptx.add "s32" %stage_at, %chunk : (b32, b32) -> b32
      %a_16 = ptx.shr "u32" %a_base, %four : (b32, b32) -> b32
      %b_16 = ptx.shr "u32" %b_base, %four : (b32, b32) -> b32
      %a_start = ptx.and "b32" %a_16, %field : (b32, b32) -> b32
      %b_start = ptx.and "b32" %b_16, %field : (b32, b32) -> b32
      %a_wide = ptx.cvt "u64.u32" %a_start : (b32) -> b64
      %b_wide = ptx.cvt "u64.u32" %b_start : (b32) -> b64
      // Rows of 128 bytes in atoms of 8 rows (stride 1024), swizzled by 128 bytes.
      %a = ptx.smem_desc %a_wide : !matrix
      %b = ptx.smem_desc %b_wide : !matrix
      %later = ptx.setp "ne.s32" %i, %zero : (b32, b32) -> pred
      ptx.mbarrier.wait [%bar + 163840], %phase
      ptx.wgmma.fence
      ptx.wgmma.mma_async "sync.aligned.m64n128k16.f32.f16.f16", %acc, %a, %b scale %later {
        counts = array<i64: 64, 0>, c = array<i64: 0, 0, 0, 0>, a = array<i64: 0, 2, 4, 6>,
        b = array<i64: 0, 2, 4, 6>, scale = array<i64: 0, -1, -1, -1>,
        immediates = array<i64: 1, 1, 0, 0>
      } : !ptx.regs<f32 x 64>, !matrix, !matrix
      ptx.wgmma.commit_group
      // The group before this one is done, and its stage free in both CTAs.
      ptx.wgmma.wait_group 1
      ptx.if %later {
        %before = ptx.sub "s32" %i, %one : (b32, b32) -> b32
        %free = ptx.and "b32" %before, %three : (b32, b32) -> b32
        %free_at = ptx.shl "b32" %free, %three : (b32, b32) -> b32
        %free_bar = ptx.add "s32" %smem, %free_at : (b32, b32) -> b32
        %first = ptx.mapa %free_bar, %zero
        %second = ptx.mapa %free_bar, %one
        ptx.mbarrier.arrive cluster [%first + 163872] if %arrives
        ptx.mbarrier.arrive cluster [%second + 163872] if %arrives
      }
    }
    ptx.wgmma.wait_group 0

    // Chunks of 16 bytes of a row, exclusive-or with the row: what the map of C undoes.
    %out = ptx.regs : !ptx.regs<b32 x 32>
    ptx.foreach 32 (%lo = %acc [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62], %hi = %acc [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63]) -> (%out [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]) {
      %both = ptx.cvt "rn.f16x2.f32" %hi, %lo : (f32, f32) -> b32
      ptx.yield %both : !ptx.reg<b32>
    }
    %fifteen = ptx.imm 15 : b32
    %row_in_warp = ptx.and "b32" %lane, %fifteen : (b32, b32) -> b32
    %row_of_warp = ptx.shl "b32" %quarter, %four : (b32, b32) -> b32
    %row = ptx.add "s32" %row_of_warp, %row_in_warp : (b32, b32) -> b32
    %row_bytes = ptx.shl "b32" %row, %seven : (b32, b32) -> b32
    %chunk_bit = ptx.shr "u32" %lane, %four : (b32, b32) -> b32
    %row7 = ptx.and "b32" %lane, %seven : (b32, b32) -> b32
    %turned = ptx.xor "b32" %chunk_bit, %row7 : (b32, b32) -> b32
    %along = ptx.shl "b32" %turned, %four : (b32, b32) -> b32
    %c_at = ptx.shl "b32" %mine, %fourteen : (b32, b32) -> b32
    %c_base = ptx.add "s32" %smem, %c_at : (b32, b32) -> b32
    %c_row = ptx.add "s32" %c_base, %row_bytes : (b32, b32) -> b32
    %x1 = ptx.imm 32 : b32
    %x2 = ptx.imm 64 : b32
    %x3 = ptx.imm 96 : b32
    %along1 = ptx.xor "b32" %along, %x1 : (b32, b32) -> b32
    %along2 = ptx.xor "b32" %along, %x2 : (b32, b32) -> b32
    %along3 = ptx.xor "b32" %along, %x3 : (b32, b32) -> b32
    %c0 = ptx.add "s32" %c_row, %along : (b32, b32) -> b32
    %c1 = ptx.add "s32" %c_row, %along1 : (b32, b32) -> b32
    %c2 = ptx.add "s32" %c_row, %along2 : (b32, b32) -> b32
    %c3 = ptx.add "s32" %c_row, %along3 : (b32, b32) -> b32
    ptx.stmatrix "sync.aligned.m8n8.x4.shared.b16", %out [%c0, %c1, %c2, %c3] {
      base = array<i64: 0, 1, 2, 3, 0, 1, 2, 3>,
      offset = array<i64: 131072, 131072, 131072, 131072, 139264, 139264, 139264, 139264>,
      regs = array<i64: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31>
    } : !ptx.regs<b32 x 32>, !ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>
    ptx.fence "proxy.async.shared::cta"
    ptx.bar.sync %group, 128
    ptx.if %leads {
      %mine64 = ptx.shl "b32" %mine, %six : (b32, b32) -> b32
      %c_m = ptx.add "s32" %m0, %mine64 : (b32, b32) -> b32
      %sixty4 = ptx.imm 64 : b32
      %c_n = ptx.add "s32" %n0, %sixty4 : (b32, b32) -> b32
      ptx.tma.store %C[%n0, %c_m], [%c_base + 131072] if %p : !ptx.tensor_map
      ptx.tma.store %C[%c_n, %c_m], [%c_base + 139264] if %p : !ptx.tensor_map
      ptx.cp.async.bulk.commit_group
      ptx.cp.async.bulk.wait_group 0
    }
  }
  // No CTA ends before its peer's last signal to it has arrived.
  ptx.barrier.cluster.arrive
  ptx.barrier.cluster.wait
}
