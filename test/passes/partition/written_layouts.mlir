// RUN: cute-opt %s -p 'cute-tile{arch=sm_80},cute-partition{arch=sm_80}' --verify-diagnostics

// A layout that stands in a trace already would be lost: the pass chooses those of all tiles.
builtin.module {
  cute.kernel @k(%X: !cute.memref<f32, gmem, align<16>, "(16,16):(16,1)">, %Y: !cute.memref<f32, gmem, align<16>, "(16,16):(16,1)">) {
    // expected-error @+1 {{expected a register tile without a thread-value layout in front of cute-partition, which chooses it, got (128,2):(2,1); name the tiled copy}}
    %m = cute.alloc_fragment : !cute.fragment<f32, "(16,16)", "(128,2):(2,1)">
    %a = cute.load %X : !cute.memref<f32, gmem, align<16>, "(16,16):(16,1)"> -> !cute.fragment<f32, "(16,16)">
    cute.copy %a, %m : !cute.fragment<f32, "(16,16)"> -> !cute.fragment<f32, "(16,16)", "(128,2):(2,1)">
    cute.copy %m, %Y : !cute.fragment<f32, "(16,16)", "(128,2):(2,1)"> -> !cute.memref<f32, gmem, align<16>, "(16,16):(16,1)">
  }
}
