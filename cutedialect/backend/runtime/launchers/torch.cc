// @name@ as operators of torch for programs without Python, such as those that load a package of
// AOTInductor. Written by `python -m cutedialect compile --launcher torch`, and compiled by a
// compiler that libtorch takes:
//
//   c++ -std=c++17 -O2 -shared -fPIC @name@_torch.cc -o @name@_torch.so -I$TORCH/include
//       -I$TORCH/include/torch/csrc/api/include -L$TORCH/lib -ltorch -ltorch_cpu -lc10 -lcuda
//
// A program links it, or opens it (dlopen), before it loads the package. It defines @operators@ as
// `cutedialect.torch` does, so that a process has one of both. The first variant is run that was
// compiled for the options, types and extents of a call, on the current stream of the device.
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

@includes@

// What the operators are for; a test on a stand-in for the driver takes CPU.
#ifndef CUTE_TORCH_KEY
#define CUTE_TORCH_KEY CUDA
#endif

namespace {

void need(cute_status status, const cute_error &error) { TORCH_CHECK(status == CUTE_OK, error.text); }

@context@
// The arguments of a call, and its results, by name.
using Values = std::map<std::string, c10::IValue>;
using Results = std::map<std::string, at::Tensor>;

[[maybe_unused]] bool same(const c10::IValue &got, std::nullptr_t) { return got.isNone(); }
[[maybe_unused]] bool same(const c10::IValue &got, double wanted) {
  return got.isScalar() && got.toScalar().toDouble() == wanted;
}
[[maybe_unused]] bool same(const c10::IValue &got, bool wanted) {
  return got.isBool() && got.toBool() == wanted;
}
[[maybe_unused]] bool same(const c10::IValue &got, const char *wanted) {
  return got.isString() && got.toStringRef() == wanted;
}
[[maybe_unused]] bool same(const c10::IValue &got, at::ScalarType wanted) {
  return got.isInt() && got.toScalarType() == wanted;
}
[[maybe_unused]] bool same(const c10::IValue &got, const std::vector<std::int64_t> &wanted) {
  return got.isIntList() && got.toIntVector() == wanted;
}

cute_status dtype_of(at::ScalarType type, cute_dtype *dtype) {
  switch (type) {
@types@
    default: return CUTE_ARGUMENT;
  }
  return CUTE_OK;
}

// A tensor as the launcher takes it.
cute_status taken(const at::Tensor &tensor, const at::Tensor &first, const char *name,
                  cute_tensor *argument, cute_error *error) {
  cute_dtype dtype = CUTE_BOOL;
  if (tensor.device() != first.device())
    return cute_fail(error, CUTE_ARGUMENT, "%s: expected a tensor on %s, got one on %s", name,
                     first.device().str().c_str(), tensor.device().str().c_str());
  if (dtype_of(tensor.scalar_type(), &dtype) != CUTE_OK || tensor.dim() > CUTE_MAX_RANK)
    return cute_fail(error, CUTE_ARGUMENT,
                     "%s: expected numbers in at most 8 dimensions, got %s in %d", name,
                     c10::toString(tensor.scalar_type()), static_cast<int>(tensor.dim()));
  *argument = cute_packed(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()), dtype,
                          static_cast<int>(tensor.dim()), tensor.sizes().data());
  for (int mode = 0; mode < tensor.dim(); ++mode) argument->stride[mode] = tensor.stride(mode);
  return CUTE_OK;
}

// A kernel on the devices, for one thread at a time.
template <class Kernel>
struct Loaded {
  std::mutex guard;
  std::map<int, Kernel> kernels;
};

// The functions of a launcher in C.
template <class Kernel, class Arguments>
struct Functions {
  cute_status (*load)(Kernel *, cute_error *);
  cute_status (*workspace)(Kernel *, const Arguments *, size_t *, cute_error *);
  cute_status (*clear)(Kernel *, const Arguments *, CUdeviceptr, size_t, CUstream, cute_error *);
  cute_status (*launch)(Kernel *, const Arguments *, CUdeviceptr, size_t, CUstream, cute_error *);
};

template <class Kernel, class Arguments>
cute_status run(Loaded<Kernel> *loaded, const Functions<Kernel, Arguments> &functions,
                const Arguments &given, const at::Tensor &first, cute_error *error) {
  const std::lock_guard<std::mutex> lock(loaded->guard);
  const int device = first.is_cuda() ? first.get_device() : 0;
  const Current current(device);
  auto place = loaded->kernels.find(device);
  if (place == loaded->kernels.end()) {
    Kernel kernel{};
    const cute_status status = functions.load(&kernel, error);
    if (status != CUTE_OK) return status;
    place = loaded->kernels.emplace(device, kernel).first;
  }
  Kernel *kernel = &place->second;
  CUstream stream = nullptr;
  if (first.is_cuda()) {
    const c10::impl::VirtualGuardImpl guard(first.device().type());
    stream = static_cast<CUstream>(guard.getStream(first.device()).native_handle());
  }
  size_t bytes = 0;
  cute_status status = functions.workspace(kernel, &given, &bytes, error);
  if (status != CUTE_OK) return status;
  CUdeviceptr memory = 0;
  at::Tensor space;
  if (bytes > 0) {
    space = at::empty({static_cast<std::int64_t>(bytes)}, first.options().dtype(at::kByte));
    memory = reinterpret_cast<std::uintptr_t>(space.data_ptr());
    status = functions.clear(kernel, &given, memory, bytes, stream, error);
    if (status != CUTE_OK) return status;
  }
  return functions.launch(kernel, &given, memory, bytes, stream, error);
}

@functions@
// A kernel that was compiled: an option in which a call differs from its own (nullptr if it does in
// none), and what runs it.
struct Variant {
  const char *name;
  std::vector<std::string> results;
  const char *(*differs)(const Values &);
  cute_status (*run)(const Values &, Results *, cute_error *);
};

const std::vector<Variant> variants = {
@variants@
};

// The results of each operator.
const std::map<std::string, std::vector<std::string>> results_of = {
@results@
};

void call(const c10::OperatorHandle &operator_, torch::jit::Stack *stack) {
  const c10::FunctionSchema &schema = operator_.schema();
  const auto &wanted = results_of.at(schema.name());
  const size_t count = schema.arguments().size();
  Values values;
  for (size_t at = 0; at < count; ++at)
    values[schema.arguments()[at].name()] = torch::jit::peek(*stack, at, count);
  const c10::DeviceGuard guard(values.at("@first@").toTensor().device());
  std::string refused;
  for (const Variant &variant : variants) {
    Results results;
    cute_error error{};
    refused += std::string(refused.empty() ? "" : "; ") + variant.name + ": ";
    if (variant.results != wanted) {
      refused += "expected another operator, for its results";
      continue;
    }
    if (const char *option = variant.differs(values)) {
      refused += std::string("expected ") + option;
      continue;
    }
    const cute_status status = variant.run(values, &results, &error);
    if (status == CUTE_OK) {
      torch::jit::drop(*stack, count);
      for (const std::string &name : wanted) torch::jit::push(*stack, results.at(name));
      return;
    }
    TORCH_CHECK(status == CUTE_ARGUMENT, schema.name(), ": ", error.text);
    refused += error.text;
  }
  TORCH_CHECK_VALUE(false, schema.name(), ": expected what a variant was compiled for. ", refused);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cutedialect, library) {
@definitions@
}

TORCH_LIBRARY_IMPL(cutedialect, CUTE_TORCH_KEY, library) {
@implementations@
}
