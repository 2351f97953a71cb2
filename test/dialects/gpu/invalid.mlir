// RUN: cute-opt %s --split-input-file --verify-diagnostics

gpu.module @kernels {
  // expected-error @below {{expected a kernel without results, got (i32)}}
  gpu.func @k(%n: i32) -> i32 kernel {
    gpu.return %n : i32
  }
}

// -----

gpu.module @kernels {
  // expected-error @below {{expected gpu.return of (i32), got ()}}
  gpu.func @k(%n: i32) -> i32 {
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // expected-error @below {{expected 3 positive extents as known_block_size, got (64, 1)}}
  gpu.func @k() kernel attributes {known_block_size = array<i32: 64, 1>} {
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @k() kernel {
    // expected-error @below {{expected x, y or z}}
    %x = gpu.thread_id w
    gpu.return
  }
}

// -----

func.func @host(%c: index) {
  // expected-error @below {{expected 3 values, got 2}}
  gpu.launch blocks(%bx, %by) in (%gx = %c, %gy = %c, %gz = %c)
             threads(%tx, %ty, %tz) in (%sx = %c, %sy = %c, %sz = %c) {
    gpu.terminator
  }
  func.return
}

// -----

func.func @host(%c: index) {
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c, %gy = %c, %gz = %c)
             threads(%tx, %ty, %tz) in (%sx = %c, %sy = %c, %sz = %c) {
    // expected-error @below {{is not a terminator}}
    gpu.printf "no end"
  }
  func.return
}
