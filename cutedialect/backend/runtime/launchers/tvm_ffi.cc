// @name@ as a module of TVM FFI. Written by `python -m cutedialect compile --launcher tvm-ffi`, and
// compiled by any C++17 compiler:
//
//   c++ -std=c++17 -O2 -shared -fPIC @name@_tvm_ffi.cc -o @name@.so $(tvm-ffi-config --cxxflags --ldflags --libs) -lcuda
//
// In Python: tvm_ffi.load_module("@name@.so").@name@(...), with tensors of torch, JAX, CuPy or NumPy's
// kind on a device of CUDA; in C++: tvm::ffi::Module::LoadFromFile("@name@.so"). It launches on the
// stream that TVM FFI has for the device. Memory that kernels share is kept for each stream.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <map>
#include <mutex>
#include <utility>

#include "@name@.h"

namespace {

void need(cute_status status, const cute_error &error) {
  if (status == CUTE_OK) return;
  if (status == CUTE_ARGUMENT) TVM_FFI_THROW(ValueError) << error.text;
  TVM_FFI_THROW(RuntimeError) << error.text;
}

@context@
cute_dtype dtype_of(DLDataType type, const char *name) {
  const int bits = type.bits * type.lanes;
  switch (type.code) {
    case kDLBool: return CUTE_BOOL;
    case kDLBfloat: if (bits == 16) return CUTE_BFLOAT16; break;
    case kDLFloat8_e4m3fn: return CUTE_FLOAT8_E4M3FN;
    case kDLFloat8_e5m2: return CUTE_FLOAT8_E5M2;
    case kDLFloat:
      if (bits == 16) return CUTE_FLOAT16;
      if (bits == 32) return CUTE_FLOAT32;
      if (bits == 64) return CUTE_FLOAT64;
      break;
    case kDLInt:
      if (bits == 8) return CUTE_INT8;
      if (bits == 16) return CUTE_INT16;
      if (bits == 32) return CUTE_INT32;
      if (bits == 64) return CUTE_INT64;
      break;
    case kDLUInt:
      if (bits == 8) return CUTE_UINT8;
      if (bits == 16) return CUTE_UINT16;
      if (bits == 32) return CUTE_UINT32;
      if (bits == 64) return CUTE_UINT64;
      break;
    default: break;
  }
  TVM_FFI_THROW(TypeError) << name << ": expected elements of numbers, got DLPack's code "
                           << static_cast<int>(type.code) << " of " << bits << " bits";
  return CUTE_BOOL;
}

// A tensor of TVM FFI on a device as the launcher takes it.
cute_tensor taken(const tvm::ffi::TensorView &tensor, DLDevice device, const char *name) {
  const DLDevice its = tensor.device();
  if (its.device_type != kDLCUDA || its.device_id != device.device_id)
    TVM_FFI_THROW(ValueError) << name << ": expected memory of CUDA device " << device.device_id
                              << ", got that of device " << its.device_id << " of type "
                              << static_cast<int>(its.device_type);
  if (tensor.ndim() > CUTE_MAX_RANK)
    TVM_FFI_THROW(ValueError) << name << ": expected at most 8 dimensions, got " << tensor.ndim();
  cute_tensor made = cute_packed(reinterpret_cast<CUdeviceptr>(tensor.data_ptr()),
                                 dtype_of(tensor.dtype(), name), tensor.ndim(),
                                 tensor.shape().data());
  made.pointer += static_cast<CUdeviceptr>(tensor.byte_offset());
  for (int mode = 0; mode < tensor.ndim(); ++mode) made.stride[mode] = tensor.strides()[mode];
  return made;
}

struct Workspace {
  CUdeviceptr memory = 0;
  size_t size = 0;
};

// The kernel on a device, for one thread at a time, and the memory of each stream.
struct Loaded {
  @name@_kernel kernel{};
  bool is_loaded = false;
  std::map<CUstream, Workspace> workspaces;
};

std::mutex guard;
std::map<int, Loaded> loaded;

void run(@parameters@) {
  const DLDevice device = @first@.device();
  @name@_arguments given{};
@fields@
  const std::lock_guard<std::mutex> lock(guard);
  const Current current(device.device_id);
  Loaded &one = loaded[device.device_id];
  cute_error error{};
  if (!one.is_loaded) {
    need(@name@_load_embedded(&one.kernel, &error), error);
    one.is_loaded = true;
  }
  const CUstream stream =
      static_cast<CUstream>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  size_t bytes = 0;
  need(@name@_workspace(&one.kernel, &given, &bytes, &error), error);
  Workspace space;
  if (bytes > 0) {
    Workspace &kept = one.workspaces[stream];
    if (kept.size < bytes) {
      // What still runs on the stream may use the old memory.
      if (kept.memory != 0) {
        driver(cuStreamSynchronize(stream), "cuStreamSynchronize");
        cuMemFree(kept.memory);
        kept = Workspace{};
      }
      driver(cuMemAlloc(&kept.memory, bytes), "cuMemAlloc");
      kept.size = bytes;
    }
    space = kept;
    need(@name@_clear(&one.kernel, &given, space.memory, bytes, stream, &error), error);
  }
  need(@name@_launch(&one.kernel, &given, space.memory, bytes, stream, &error), error);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(@name@, run);
