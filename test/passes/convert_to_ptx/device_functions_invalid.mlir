// RUN: cute-opt %s --split-input-file --verify-diagnostics -p 'convert-to-ptx{arch=sm_80}'

gpu.module @kernels {
  // expected-error @below {{expected known_block_size = array<i32: N, 1, 1> (PTX: `.reqntid`), got none}}
  gpu.func @k() kernel {
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // expected-error @below {{expected kernels alone in a gpu.module: calls are not lowered}}
  gpu.func @f() {
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @k(%p: !llvm.ptr<3>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{expected a pointer to global memory, got address space 3}}
    %x = llvm.load %p : !llvm.ptr<3> -> i32
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // expected-error @below {{expected scalars, pointers and structs of them (cute-to-base makes these) as arguments}}
  gpu.func @k(%l: !cute.layout<"(?,8):(8,1)">) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    gpu.return
  }
}
