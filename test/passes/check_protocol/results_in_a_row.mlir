// RUN: cute-opt %s --cute-check-protocol -o %t && filecheck %s --input-file %t

// Two results of straight-line code take a stage of a ring each: what is stored first is what was
// written first. `test_check_protocol.py` edits this text, and each edit is found.

// CHECK: pipeline.role "epilogue"

builtin.module attributes {cute.arch = "sm_90a"} {
  cute.kernel @program(%Y: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %tY: !cute_nvgpu.tma_descriptor<f32, (64,32), S<3,4,3>>) attributes {threads = 256 : i32} {
    %s = cute.alloc_smem : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32,2):(32,1,2048)">
    %ring = pipeline.create {kind = "threads", producers = 4 : i32, consumers = 1 : i32} : !pipeline.ring<2>
    pipeline.start
    pipeline.role "epilogue" attributes {first = 0 : i32, warps = 1 : i32, elect} {
      %from = pipeline.state "consumer" %ring : !pipeline.ring<2> -> !pipeline.state<2>
      %zero = arith.constant 0 : i32
      %Y_1 = cute.local_tile %Y, [64, 64], (%zero, %zero) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)">
      %first = cute.subview %Y_1, (0, 0) : !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,32):(?{i64 div=4},1)">
      pipeline.consumer_wait %ring at %from : !pipeline.ring<2>, !pipeline.state<2>
      %i = pipeline.index %from : !pipeline.state<2>
      %s_1 = cute.stage %s[%i] : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32,2):(32,1,2048)"> -> !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32):(32,1)">
      cute.copy %s_1, %first tma %tY : !cute_nvgpu.tma_descriptor<f32, (64,32), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32>} : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32):(32,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,32):(?{i64 div=4},1)">
      cute_nvgpu.tma_store_commit
      pipeline.advance %from : !pipeline.state<2>
      %second = cute.subview %Y_1, (0, 32) : !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,32):(?{i64 div=4},1)">
      pipeline.consumer_wait %ring at %from : !pipeline.ring<2>, !pipeline.state<2>
      %j = pipeline.index %from : !pipeline.state<2>
      %s_2 = cute.stage %s[%j] : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32,2):(32,1,2048)"> -> !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32):(32,1)">
      cute.copy %s_2, %second tma %tY : !cute_nvgpu.tma_descriptor<f32, (64,32), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32>} : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32):(32,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,32):(?{i64 div=4},1)">
      cute_nvgpu.tma_store_commit
      cute_nvgpu.tma_store_wait {pending = 1 : i32, read}
      pipeline.consumer_release %ring at %from {back = 1 : i32} : !pipeline.ring<2>, !pipeline.state<2>
      cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
      pipeline.consumer_release %ring at %from : !pipeline.ring<2>, !pipeline.state<2>
      pipeline.advance %from : !pipeline.state<2>
    }
    pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
      %to = pipeline.state "producer" %ring : !pipeline.ring<2> -> !pipeline.state<2>
      %tile = cute.alloc_fragment : !cute.fragment<f32, "(64,32)", "((4,8,4),(2,2,4)):((128,1,16),(64,8,512))">
      %x = arith.constant 1.0 : f32
      cute.fill %tile, %x : !cute.fragment<f32, "(64,32)", "((4,8,4),(2,2,4)):((128,1,16),(64,8,512))">
      pipeline.producer_acquire %ring at %to : !pipeline.ring<2>, !pipeline.state<2>
      %k = pipeline.index %to : !pipeline.state<2>
      %s_3 = cute.stage %s[%k] : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32,2):(32,1,2048)"> -> !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32):(32,1)">
      cute.copy %tile, %s_3 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,32)", "((4,8,4),(2,2,4)):((128,1,16),(64,8,512))"> -> !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32):(32,1)">
      cute_nvgpu.fence_proxy_async
      pipeline.producer_commit %ring at %to : !pipeline.ring<2>, !pipeline.state<2>
      pipeline.advance %to : !pipeline.state<2>
      pipeline.producer_acquire %ring at %to : !pipeline.ring<2>, !pipeline.state<2>
      %l = pipeline.index %to : !pipeline.state<2>
      %s_4 = cute.stage %s[%l] : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32,2):(32,1,2048)"> -> !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32):(32,1)">
      cute.copy %tile, %s_4 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,32)", "((4,8,4),(2,2,4)):((128,1,16),(64,8,512))"> -> !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32):(32,1)">
      cute_nvgpu.fence_proxy_async
      pipeline.producer_commit %ring at %to : !pipeline.ring<2>, !pipeline.state<2>
      pipeline.advance %to : !pipeline.state<2>
    }
  }
}
