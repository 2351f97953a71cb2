/* Stands in for the CUDA driver: records each call as a line of text, and refuses what the driver
 * would: maps that are not aligned, images of other devices. */
#include "stand_in_driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int capability = 90, processors = 132, encodings = 0;
static const char *names[64];
static int known = 0;

void stand_in_device(int number, int count) {
  capability = number;
  processors = count;
}

int stand_in_encodings(void) { return encodings; }

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text) {
  *text = error == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE"
          : error == CUDA_ERROR_NO_BINARY_FOR_GPU ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
                                                  : "CUDA_ERROR_UNKNOWN";
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  (void)device;
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? capability / 10
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? capability % 10
                                                                       : processors;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image) {
  const char *text = (const char *)image;
  if (strncmp(text, "bad", 3) == 0) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (strncmp(text, "\177ELF", 4) == 0)
    printf("load machine code\n");
  else if (strstr(text, ".target") != NULL)
    printf("load %.13s\n", strstr(text, ".target") + 8);
  else
    printf("load %s\n", text);
  *module = (CUmodule)(void *)names;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  (void)module;
  printf("unload\n");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  (void)module;
  names[known] = name;
  *function = (CUfunction)(void *)&names[known++];
  printf("function %s\n", name);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                    int value) {
  printf("attribute %s %d %d\n", *(const char **)(void *)function, (int)attribute, value);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type,
                                        cuuint32_t rank, void *address, const cuuint64_t *dims,
                                        const cuuint64_t *strides, const cuuint32_t *box,
                                        const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle,
                                        CUtensorMapL2promotion promotion,
                                        CUtensorMapFloatOOBfill fill) {
  uint32_t words[32];
  cuuint32_t i;
  if ((uintptr_t)map % 64 != 0 || (uintptr_t)address % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  for (i = 0; i + 1 < rank; ++i)
    if (strides[i] % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  memset(words, 0, sizeof words);
  /* A map is its number here, and the line says what it is. */
  words[0] = (uint32_t)++encodings;
  memcpy(map, words, sizeof words);
  printf("map %d type %d rank %u address %" PRIuPTR, encodings, (int)type, rank,
         (uintptr_t)address);
  for (i = 0; i < rank; ++i) printf(" %" PRIu64, (uint64_t)dims[i]);
  for (i = 0; i + 1 < rank; ++i) printf(" %" PRIu64, (uint64_t)strides[i]);
  for (i = 0; i < rank; ++i) printf(" %u", box[i]);
  for (i = 0; i < rank; ++i) printf(" %u", steps[i]);
  printf(" %d %d %d %d\n", (int)interleave, (int)swizzle, (int)promotion, (int)fill);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type,
                                         cuuint32_t rank, void *address, const cuuint64_t *dims,
                                         const cuuint64_t *strides, const int *lower,
                                         const int *upper, cuuint32_t channels, cuuint32_t pixels,
                                         const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                         CUtensorMapSwizzle swizzle,
                                         CUtensorMapL2promotion promotion,
                                         CUtensorMapFloatOOBfill fill) {
  cuuint32_t box[5] = {1, 1, 1, 1, 1}, i;
  CUresult status;
  box[0] = channels;
  box[1] = pixels;
  status = cuTensorMapEncodeTiled(map, type, rank, address, dims, strides, box, steps, interleave,
                                  swizzle, promotion, fill);
  printf("pixels");
  for (i = 0; i + 2 < rank; ++i) printf(" %d", lower[i]);
  for (i = 0; i + 2 < rank; ++i) printf(" %d", upper[i]);
  printf("\n");
  return status;
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count,
                                 CUstream stream) {
  printf("memset %" PRIu64 " %d %" PRIu64 " stream %" PRIuPTR "\n", (uint64_t)address, value,
         (uint64_t)count, (uintptr_t)stream);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  *status = stream == STAND_IN_CAPTURED ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                        : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size,
                                   CUstream stream) {
  const unsigned char *bytes = (const unsigned char *)from;
  size_t i;
  printf("copy %" PRIu64 " stream %" PRIuPTR " ", (uint64_t)to, (uintptr_t)stream);
  for (i = 0; i < size; ++i) printf("%02x", bytes[i]);
  printf("\n");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                  void **parameters, void **extra) {
  const char *name = *(const char **)(void *)function;
  const int *sizes = stand_in_sizes(name);
  unsigned i;
  int place, byte;
  (void)extra;
  printf("launch %s grid %u %u %u block %u %u %u smem %u stream %" PRIuPTR, name, config->gridDimX,
         config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY,
         config->blockDimZ, config->sharedMemBytes, (uintptr_t)config->hStream);
  for (i = 0; i < config->numAttrs; ++i)
    printf(" attribute %d %d", (int)config->attrs[i].id,
           config->attrs[i].value.programmaticStreamSerializationAllowed);
  for (place = 0; sizes[place] != 0; ++place) {
    const unsigned char *bytes = (const unsigned char *)parameters[place];
    printf(" ");
    for (byte = 0; byte < sizes[place]; ++byte) printf("%02x", bytes[byte]);
  }
  printf("\n");
  return CUDA_SUCCESS;
}

/* What a server needs beside that: memory that is nowhere, and copies back that are zeros. */
static uint64_t end = 1 << 20;

CUresult CUDAAPI cuInit(unsigned flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN; }

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int number) {
  *device = number;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  (void)device;
  *context = (CUcontext)(void *)names;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  (void)device;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  return context != NULL ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  return context != NULL ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *context) {
  *context = (CUcontext)(void *)names;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned flags) {
  (void)flags;
  *stream = (CUstream)(void *)names;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  (void)stream;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
  (void)stream;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *address, size_t size) {
  *address = (CUdeviceptr)end;
  end += (size + 255) / 256 * 256;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr address) {
  return address != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size) {
  return to != 0 && from != NULL && size != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size) {
  (void)from;
  memset(to, 0, size);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned flags) {
  (void)flags;
  *event = (CUevent)(void *)names;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
  (void)event;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
  (void)event;
  (void)stream;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent last) {
  (void)begin;
  (void)last;
  *milliseconds = 1;
  return CUDA_SUCCESS;
}
