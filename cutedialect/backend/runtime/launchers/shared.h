/* What all launchers of compiled kernels share; each header NAME.h has this text, and the first one
 * that is included defines it. C99 on the CUDA driver API (cuda.h of CUDA 12.0 or later).
 *
 * Status and messages: every function returns CUTE_OK or says in `cute_error` what was expected and
 * what it got. Nothing is printed, and no function ends the process.
 * Threads: a kernel object belongs to the context that was current when it was loaded, and is used by
 * one thread at a time; several objects of one kernel are independent of each other.
 */
#ifndef CUTEDIALECT_LAUNCHER
#define CUTEDIALECT_LAUNCHER 3

#include <cuda.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define CUTE_UNUSED __attribute__((unused))
#else
#define CUTE_UNUSED
#endif

enum { CUTE_MAX_RANK = 8, CUTE_MAP_BYTES = 128, CUTE_MAP_ALIGNMENT = 64, CUTE_MAPS = 16 };

typedef enum cute_status {
  CUTE_OK = 0,
  CUTE_ARGUMENT = 1,  /* an argument is not what the kernel was compiled for */
  CUTE_WORKSPACE = 2, /* the workspace is too small or not aligned */
  CUTE_TARGET = 3,    /* no image runs on this device */
  CUTE_FILE = 4,      /* a file cannot be read */
  CUTE_DRIVER = 5,    /* the driver refused; `driver` of the error is what it said */
  CUTE_MEMORY = 6     /* the host has no memory left */
} cute_status;

typedef struct cute_error {
  cute_status status;
  CUresult driver;
  char text[256];
} cute_error;

typedef enum cute_dtype {
  CUTE_BOOL, CUTE_INT8, CUTE_INT16, CUTE_INT32, CUTE_INT64,
  CUTE_UINT8, CUTE_UINT16, CUTE_UINT32, CUTE_UINT64,
  CUTE_FLOAT8_E4M3FN, CUTE_FLOAT8_E5M2, CUTE_FLOAT16, CUTE_BFLOAT16, CUTE_FLOAT32, CUTE_FLOAT64,
  CUTE_FLOAT8_E8M0FNU, CUTE_FLOAT6_E2M3FN, CUTE_FLOAT6_E3M2FN, CUTE_FLOAT4_E2M1FN
} cute_dtype;

/* Memory of the device; strides in elements. */
typedef struct cute_tensor {
  CUdeviceptr pointer;
  cute_dtype dtype;
  int rank;
  int64_t shape[CUTE_MAX_RANK];
  int64_t stride[CUTE_MAX_RANK];
} cute_tensor;

/* PTX text (with its 0 at the end) or machine code of a target such as "sm_90a". */
typedef struct cute_image {
  const char *target;
  const void *data;
} cute_image;

/* A tensor map, and what it was encoded from. */
typedef struct cute_map {
  int known;
  int slot;
  uint64_t address;
  uint64_t dims[5];
  uint64_t strides[4];
  unsigned char bytes[CUTE_MAP_BYTES];
} cute_map;

typedef struct cute_maps {
  cute_map entries[CUTE_MAPS];
  int next;
} cute_maps;

static CUTE_UNUSED const char *cute_dtype_name(cute_dtype dtype) {
  static const char *const names[] = {
      "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
      "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64",
      "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"};
  return (unsigned)dtype < sizeof names / sizeof names[0] ? names[dtype] : "an unknown type";
}

/* A tensor whose last dimension is contiguous, without gaps. */
static CUTE_UNUSED cute_tensor cute_packed(CUdeviceptr pointer, cute_dtype dtype, int rank,
                                           const int64_t *shape) {
  cute_tensor made;
  int64_t step = 1;
  int mode;
  memset(&made, 0, sizeof made);
  made.pointer = pointer;
  made.dtype = dtype;
  made.rank = rank;
  for (mode = rank - 1; mode >= 0; --mode) {
    made.shape[mode] = shape[mode];
    made.stride[mode] = step;
    step *= shape[mode];
  }
  return made;
}

static CUTE_UNUSED cute_status cute_fail(cute_error *error, cute_status status, const char *format,
                                         ...) {
  if (error != NULL) {
    va_list arguments;
    error->status = status;
    error->driver = CUDA_SUCCESS;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
  }
  return status;
}

static CUTE_UNUSED cute_status cute_driver(cute_error *error, CUresult result, const char *what) {
  const char *name = NULL;
  if (result == CUDA_SUCCESS) return CUTE_OK;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL) name = "an unknown error";
  cute_fail(error, CUTE_DRIVER, "%s: expected CUDA_SUCCESS, got %s (%d)", what, name, (int)result);
  if (error != NULL) error->driver = result;
  return CUTE_DRIVER;
}

/* Functions of the expressions; division by zero gives 0 and is refused before a launch. */
static CUTE_UNUSED int64_t cute_min(int64_t a, int64_t b) { return a < b ? a : b; }
static CUTE_UNUSED int64_t cute_max(int64_t a, int64_t b) { return a > b ? a : b; }
static CUTE_UNUSED int64_t cute_abs(int64_t a) { return a < 0 ? -a : a; }
static CUTE_UNUSED int64_t cute_quotient(int64_t a, int64_t b) { return b == 0 ? 0 : a / b; }
static CUTE_UNUSED int64_t cute_remainder(int64_t a, int64_t b) { return b == 0 ? 0 : a % b; }
static CUTE_UNUSED int64_t cute_floordiv(int64_t a, int64_t b) {
  return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static CUTE_UNUSED int64_t cute_floormod(int64_t a, int64_t b) {
  return a - b * cute_floordiv(a, b);
}
static CUTE_UNUSED int64_t cute_ceildiv(int64_t a, int64_t b) { return -cute_floordiv(-a, b); }
static CUTE_UNUSED int64_t cute_select(int64_t c, int64_t a, int64_t b) { return c ? a : b; }
static CUTE_UNUSED int64_t cute_bitand(int64_t a, int64_t b) { return a & b; }
static CUTE_UNUSED int64_t cute_bitor(int64_t a, int64_t b) { return a | b; }
static CUTE_UNUSED int64_t cute_bitxor(int64_t a, int64_t b) { return a ^ b; }
static CUTE_UNUSED int64_t cute_shl(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a << (b & 63));
}
static CUTE_UNUSED int64_t cute_shr(int64_t a, int64_t b) {
  return a < 0 ? ~(int64_t)(~(uint64_t)a >> (b & 63)) : (int64_t)((uint64_t)a >> (b & 63));
}
static CUTE_UNUSED int64_t cute_wrapped(int64_t x, int bits) {
  const uint64_t half = (uint64_t)1 << (bits - 1), mask = 2 * half - 1;
  const uint64_t low = (uint64_t)x & mask;
  return low & half ? -(int64_t)(mask - low) - 1 : (int64_t)low;
}
static CUTE_UNUSED int64_t cute_i8(int64_t x) { return cute_wrapped(x, 8); }
static CUTE_UNUSED int64_t cute_i16(int64_t x) { return cute_wrapped(x, 16); }
static CUTE_UNUSED int64_t cute_i32(int64_t x) { return cute_wrapped(x, 32); }
static CUTE_UNUSED int64_t cute_i64(int64_t x) { return x; }

/* What a kernel was compiled for: -1 is a run-time value. */
typedef struct cute_expected {
  const char *name;
  cute_dtype dtype;
  int rank, element_bytes, alignment, written, whole_rows, mapped;
  int64_t shape[CUTE_MAX_RANK], stride[CUTE_MAX_RANK];
  int64_t shape_divisor[CUTE_MAX_RANK], stride_divisor[CUTE_MAX_RANK];
} cute_expected;

static CUTE_UNUSED cute_status cute_check_kind(const char *name, const cute_tensor *given,
                                               cute_dtype dtype, int rank, cute_error *error) {
  int mode;
  if (given->dtype != dtype)
    return cute_fail(error, CUTE_ARGUMENT, "%s: expected dtype %s, got %s", name,
                     cute_dtype_name(dtype), cute_dtype_name(given->dtype));
  if (given->rank != rank)
    return cute_fail(error, CUTE_ARGUMENT, "%s: expected %d dimensions, got %d", name, rank,
                     given->rank);
  for (mode = 0; mode < rank; ++mode)
    if (given->shape[mode] < 0)
      return cute_fail(error, CUTE_ARGUMENT, "%s: expected extents of 0 or more, got %lld", name,
                       (long long)given->shape[mode]);
  return CUTE_OK;
}

static CUTE_UNUSED cute_status cute_check_extent(const char *name, int mode, int64_t wanted,
                                                 int64_t got, cute_error *error) {
  if (wanted == got) return CUTE_OK;
  return cute_fail(error, CUTE_ARGUMENT, "%s: expected extent %lld in dimension %d, got %lld", name,
                   (long long)wanted, mode, (long long)got);
}

/* Compares a view with what the kernel was compiled for, and gives modes of fewer than two elements
 * the strides that it may assume. */
static CUTE_UNUSED cute_status cute_check(const cute_expected *e, cute_tensor *t,
                                          cute_error *error) {
  int mode, empty = 0;
  for (mode = 0; mode < e->rank; ++mode) empty |= t->shape[mode] == 0;
  for (mode = 0; mode < e->rank; ++mode) {
    const int64_t extent = t->shape[mode];
    if (e->shape[mode] >= 0 && extent != e->shape[mode])
      return cute_check_extent(e->name, mode, e->shape[mode], extent, error);
    if (extent % e->shape_divisor[mode] != 0)
      return cute_fail(error, CUTE_ARGUMENT,
                       "%s: expected an extent divisible by %lld in dimension %d, got %lld",
                       e->name, (long long)e->shape_divisor[mode], mode, (long long)extent);
    if (extent >= INT64_C(1) << 31)
      return cute_fail(error, CUTE_ARGUMENT,
                       "%s: expected extents below 2^31, got %lld in dimension %d", e->name,
                       (long long)extent, mode);
  }
  for (mode = 0; mode < e->rank; ++mode) {
    const int64_t fixed = e->stride[mode], stride = t->stride[mode];
    if (t->shape[mode] < 2 || empty) {
      t->stride[mode] = fixed < 0 ? 0 : fixed;
      continue;
    }
    if (fixed >= 0 && stride != fixed)
      return cute_fail(error, CUTE_ARGUMENT, "%s: expected stride %lld in dimension %d, got %lld",
                       e->name, (long long)fixed, mode, (long long)stride);
    if (stride < 0 && e->mapped)
      return cute_fail(error, CUTE_ARGUMENT,
                       "%s: expected strides of zero or more, as the kernel copies its tiles by "
                       "TMA, got %lld",
                       e->name, (long long)stride);
    if (stride % e->stride_divisor[mode] != 0)
      return cute_fail(error, CUTE_ARGUMENT,
                       "%s: expected a stride divisible by %lld elements in dimension %d, got %lld",
                       e->name, (long long)e->stride_divisor[mode], mode, (long long)stride);
    if (stride == 0 && e->written)
      return cute_fail(error, CUTE_ARGUMENT,
                       "%s: expected elements that do not overlap, as the kernel writes them, got "
                       "stride 0 in dimension %d",
                       e->name, mode);
  }
  if (empty) return CUTE_OK;
  for (mode = 0; e->whole_rows && mode < e->rank; ++mode)
    if (e->stride[mode] == 1) {
      if (t->shape[mode] * e->element_bytes % 16 != 0)
        return cute_fail(error, CUTE_ARGUMENT,
                         "%s: expected rows of a multiple of 16 bytes, as the kernel stores to them "
                         "by TMA, got %lld bytes",
                         e->name, (long long)(t->shape[mode] * e->element_bytes));
      break;
    }
  if (t->pointer == 0)
    return cute_fail(error, CUTE_ARGUMENT, "%s: expected memory of the device, got address 0",
                     e->name);
  if (t->pointer % (CUdeviceptr)e->alignment != 0)
    return cute_fail(error, CUTE_ARGUMENT,
                     "%s: expected memory aligned to %d bytes, got address 0x%llx", e->name,
                     e->alignment, (unsigned long long)t->pointer);
  return CUTE_OK;
}

/* The tensor map for an address and extents; with corners, the lower ones first, one by which copies
   walk over pixels. The driver wants its 128 bytes at a multiple of 64. */
static CUTE_UNUSED cute_status cute_encode_tiled(unsigned char *made, CUtensorMapDataType type,
                                                 cuuint32_t rank, CUdeviceptr address,
                                                 const cuuint64_t *dims, const cuuint64_t *strides,
                                                 const cuuint32_t *box, const cuuint32_t *steps,
                                                 const int *corners,
                                                 CUtensorMapInterleave interleave,
                                                 CUtensorMapSwizzle swizzle,
                                                 CUtensorMapL2promotion promotion,
                                                 CUtensorMapFloatOOBfill fill, const char *name,
                                                 cute_error *error) {
  unsigned char memory[CUTE_MAP_BYTES + CUTE_MAP_ALIGNMENT], *aligned;
  CUresult result;
  aligned = memory + (CUTE_MAP_ALIGNMENT - (uintptr_t)memory % CUTE_MAP_ALIGNMENT) %
                         CUTE_MAP_ALIGNMENT;
  if (corners == NULL)
    result = cuTensorMapEncodeTiled((CUtensorMap *)(void *)aligned, type, rank,
                                    (void *)(uintptr_t)address, dims, strides, box, steps,
                                    interleave, swizzle, promotion, fill);
  else
    result = cuTensorMapEncodeIm2col((CUtensorMap *)(void *)aligned, type, rank,
                                     (void *)(uintptr_t)address, dims, strides, corners,
                                     corners + rank - 2, box[0], box[1], steps, interleave,
                                     swizzle, promotion, fill);
  if (result != CUDA_SUCCESS) return cute_driver(error, result, name);
  memcpy(made, aligned, CUTE_MAP_BYTES);
  return CUTE_OK;
}

/* One of those encoded before, or a new one, which takes the place of the oldest. */
static CUTE_UNUSED cute_status cute_encode(cute_maps *maps, int slot, unsigned char *made,
                                           CUtensorMapDataType type, cuuint32_t rank,
                                           CUdeviceptr address, const cuuint64_t *dims,
                                           const cuuint64_t *strides, const cuuint32_t *box,
                                           const cuuint32_t *steps, const int *corners,
                                           CUtensorMapInterleave interleave,
                                           CUtensorMapSwizzle swizzle,
                                           CUtensorMapL2promotion promotion,
                                           CUtensorMapFloatOOBfill fill, const char *name,
                                           cute_error *error) {
  cute_map *entry;
  cute_status status;
  int i;
  for (i = 0; i < CUTE_MAPS; ++i) {
    entry = &maps->entries[i];
    if (entry->known && entry->slot == slot && entry->address == (uint64_t)address &&
        memcmp(entry->dims, dims, rank * sizeof *dims) == 0 &&
        memcmp(entry->strides, strides, (rank - 1) * sizeof *strides) == 0) {
      memcpy(made, entry->bytes, CUTE_MAP_BYTES);
      return CUTE_OK;
    }
  }
  status = cute_encode_tiled(made, type, rank, address, dims, strides, box, steps, corners,
                             interleave, swizzle, promotion, fill, name, error);
  if (status != CUTE_OK) return status;
  entry = &maps->entries[maps->next];
  maps->next = (maps->next + 1) % CUTE_MAPS;
  entry->known = 1;
  entry->slot = slot;
  entry->address = (uint64_t)address;
  memcpy(entry->dims, dims, rank * sizeof *dims);
  memcpy(entry->strides, strides, (rank - 1) * sizeof *strides);
  memcpy(entry->bytes, made, CUTE_MAP_BYTES);
  return CUTE_OK;
}

/* One kernel of a launch; a grid without CTAs launches nothing. */
static CUTE_UNUSED cute_status cute_start(CUfunction function, const int64_t *grid, int threads,
                                          const int *cluster, unsigned smem, int is_early,
                                          CUstream stream, void **parameters, const char *name,
                                          cute_error *error) {
  CUlaunchConfig config;
  CUlaunchAttribute attribute;
  int axis;
  for (axis = 0; axis < 3; ++axis) {
    if (grid[axis] == 0) return CUTE_OK;
    if (grid[axis] < 0 || grid[axis] > (axis == 0 ? INT64_C(2147483647) : INT64_C(65535)))
      return cute_fail(error, CUTE_ARGUMENT, "%s: expected a grid that fits the device, got %lld",
                       name, (long long)grid[axis]);
    if (grid[axis] % cluster[axis] != 0)
      return cute_fail(error, CUTE_ARGUMENT, "%s: expected a grid of whole clusters, got %lld CTAs",
                       name, (long long)grid[axis]);
  }
  memset(&config, 0, sizeof config);
  memset(&attribute, 0, sizeof attribute);
  config.gridDimX = (unsigned)grid[0];
  config.gridDimY = (unsigned)grid[1];
  config.gridDimZ = (unsigned)grid[2];
  config.blockDimX = (unsigned)threads;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = smem;
  config.hStream = stream;
  if (is_early) {
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  return cute_driver(error, cuLaunchKernelEx(&config, function, parameters, NULL), name);
}

/* Whether a device of compute capability `number` (90) runs a target ("sm_90a"). */
static CUTE_UNUSED int cute_fits(const char *target, int number) {
  char *end = NULL;
  const long wanted = strtol(target + 3, &end, 10);
  if (*end == 'a') return number == wanted;
  if (*end == 'f') return number >= wanted && number / 10 == wanted / 10;
  return number >= wanted;
}

/* A whole file with a 0 behind it, to be freed; NULL where there is none. */
static CUTE_UNUSED void *cute_read(const char *folder, const char *name) {
  char path[1024];
  unsigned char *data = NULL;
  long size;
  FILE *file;
  if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path) return NULL;
  file = fopen(path, "rb");
  if (file == NULL) return NULL;
  if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 &&
      fseek(file, 0, SEEK_SET) == 0 && (data = (unsigned char *)malloc((size_t)size + 1)) != NULL) {
    if (fread(data, 1, (size_t)size, file) != (size_t)size) {
      free(data);
      data = NULL;
    } else {
      data[size] = 0;
    }
  }
  fclose(file);
  return data;
}

#elif CUTEDIALECT_LAUNCHER != 3
#error "expected headers that one version of cutedialect wrote"
#endif
