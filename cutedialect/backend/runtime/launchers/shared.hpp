// What all launchers share in C++17: typed tensors, and errors as exceptions.
#ifndef CUTEDIALECT_LAUNCHER_HPP
#define CUTEDIALECT_LAUNCHER_HPP

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace cutedialect {

struct error : std::runtime_error {
  explicit error(const cute_error &told)
      : std::runtime_error(told.text), status(told.status), driver(told.driver) {}
  cute_status status;
  CUresult driver;
};

inline void check(cute_status status, const cute_error &told) {
  if (status != CUTE_OK) throw error(told);
}

// The element type of a pointer; a type of your own gets a specialization.
template <class T>
struct dtype_of;
template <> struct dtype_of<bool> { static constexpr cute_dtype value = CUTE_BOOL; };
template <> struct dtype_of<std::int8_t> { static constexpr cute_dtype value = CUTE_INT8; };
template <> struct dtype_of<std::int16_t> { static constexpr cute_dtype value = CUTE_INT16; };
template <> struct dtype_of<std::int32_t> { static constexpr cute_dtype value = CUTE_INT32; };
template <> struct dtype_of<std::int64_t> { static constexpr cute_dtype value = CUTE_INT64; };
template <> struct dtype_of<std::uint8_t> { static constexpr cute_dtype value = CUTE_UINT8; };
template <> struct dtype_of<std::uint16_t> { static constexpr cute_dtype value = CUTE_UINT16; };
template <> struct dtype_of<std::uint32_t> { static constexpr cute_dtype value = CUTE_UINT32; };
template <> struct dtype_of<std::uint64_t> { static constexpr cute_dtype value = CUTE_UINT64; };
template <> struct dtype_of<float> { static constexpr cute_dtype value = CUTE_FLOAT32; };
template <> struct dtype_of<double> { static constexpr cute_dtype value = CUTE_FLOAT64; };
#ifdef __CUDA_FP16_TYPES_EXIST__
template <> struct dtype_of<__half> { static constexpr cute_dtype value = CUTE_FLOAT16; };
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
template <> struct dtype_of<__nv_bfloat16> { static constexpr cute_dtype value = CUTE_BFLOAT16; };
#endif
#ifdef __CUDA_FP8_TYPES_EXIST__
template <> struct dtype_of<__nv_fp8_e4m3> {
  static constexpr cute_dtype value = CUTE_FLOAT8_E4M3FN;
};
template <> struct dtype_of<__nv_fp8_e5m2> { static constexpr cute_dtype value = CUTE_FLOAT8_E5M2; };
#endif

// Memory of the device with its extents and, unless the last dimension is contiguous without gaps,
// its strides in elements.
inline cute_tensor tensor(CUdeviceptr pointer, cute_dtype dtype,
                          std::initializer_list<std::int64_t> shape,
                          std::initializer_list<std::int64_t> stride = {}) {
  if (shape.size() > CUTE_MAX_RANK || (stride.size() != 0 && stride.size() != shape.size()))
    throw std::invalid_argument("expected at most 8 extents, and a stride for each or none");
  cute_tensor made = cute_packed(pointer, dtype, static_cast<int>(shape.size()), shape.begin());
  int mode = 0;
  for (std::int64_t step : stride) made.stride[mode++] = step;
  return made;
}

template <class T>
cute_tensor tensor(T *pointer, std::initializer_list<std::int64_t> shape,
                   std::initializer_list<std::int64_t> stride = {}) {
  return tensor(static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer)),
                dtype_of<std::remove_cv_t<T>>::value, shape, stride);
}

}  // namespace cutedialect

#endif
