// RUN: cute-opt %s --split-input-file --verify-diagnostics

%s = ptx.imm 0 : b32
// expected-error @+1 {{expected an offset that is a multiple of 16 bytes, got 8}}
ptx.clusterlaunchcontrol.try_cancel [%s + 8], [%s]

// -----

%s = ptx.imm 0 : b32
// expected-error @+1 {{expected an offset that is a multiple of 8 bytes, got 4}}
ptx.clusterlaunchcontrol.try_cancel [%s], [%s + 4]

// -----

%s = ptx.imm 0 : b32
// expected-error @+1 {{expected an offset that is a multiple of 16 bytes, got 8}}
%x = ptx.clusterlaunchcontrol.query_cancel [%s + 8] else %s
