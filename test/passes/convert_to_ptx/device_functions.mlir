// RUN: cute-opt %s --split-input-file -p 'cute-fold-static,cute-expand-ops,cute-to-base,convert-to-ptx{arch=sm_80}' | filecheck %s

// A layout of run-time extents is a parameter for each of them
gpu.module @kernels {
  // CHECK: ptx.kernel @offset(%0: b32, %1: b32, %2: b64) attributes{{.*}}threads = 32
  gpu.func @offset(%l: !cute.layout<"(?,?):(1,16)">, %to: !llvm.ptr) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // CHECK: ptx.special "tid.x"
    %x = gpu.thread_id x
    %i = arith.index_cast %x : index to i32
    %c = cute.make_coord(%i) : (i32) -> !cute.coord<"?">
    // CHECK: ptx.rem "s32" {{.*}}, %0
    %o = cute.layout_eval(%c, %l) : (!cute.coord<"?">, !cute.layout<"(?,?):(1,16)">) -> !cute.int_tuple<"?">
    %v = cute.get_scalars(%o) : !cute.int_tuple<"?">
    %at = llvm.getelementptr %to[%v] : (!llvm.ptr, i32) -> !llvm.ptr, i32
    // CHECK: ptx.st.scalar "global.b32"
    llvm.store %i, %at : i32, !llvm.ptr
    gpu.return
  }
}

// -----

// A loop carries a coordinate in registers
gpu.module @kernels {
  // CHECK: ptx.kernel @carried
  gpu.func @carried(%a: i32, %b: i32, %n: i32, %to: !llvm.ptr) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %first = cute.make_coord(%a, %b) : (i32, i32) -> !cute.coord<"(?,?)">
    // CHECK: ptx.for
    %last = scf.for %i = %zero to %n step %one iter_args(%c = %first) -> (!cute.coord<"(?,?)">) : i32 {
      // CHECK-COUNT-2: ptx.get
      %s:2 = cute.get_scalars<{only_dynamic}> (%c) : !cute.coord<"(?,?)">
      %next = cute.make_coord(%s#1, %s#0) : (i32, i32) -> !cute.coord<"(?,?)">
      // CHECK-COUNT-2: ptx.set
      scf.yield %next : !cute.coord<"(?,?)">
    }
    %s:2 = cute.get_scalars<{only_dynamic}> (%last) : !cute.coord<"(?,?)">
    llvm.store %s#0, %to : i32, !llvm.ptr
    // CHECK: ptx.printf "%d of %lld
    %block = gpu.block_id x
    gpu.printf "%d of %lld", %s#1, %block : i32, index
    gpu.return
  }
}
