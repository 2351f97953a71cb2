/* A server without Python: it loads a matrix multiply, products of lists and attention that were
 * compiled before, reads requests, a line each, and answers each with what it computed, held against the
 * same in double on the host, and with the time of a launch.
 *
 *   gemm M N K           f16 times f16 into f32, by the first of two variants that takes the rows
 *   grouped G M N K      G products in a launch, with M, 2 M, ... G M rows
 *   attention B S        causal, B batch entries of 8 heads of S queries and keys of 64 columns
 *
 * See Makefile for how the kernels are compiled; `server FOLDER` reads their files from a folder.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "gemm.h"
#include "grouped.h"

enum { HEADS = 8, COLUMNS = 64, LAUNCHES = 20, CHECKED = 64, MOST = 64 };

static CUstream stream;
static unsigned long long seed = 1;

static void need(CUresult result, const char *what) {
  cute_error error;
  if (cute_driver(&error, result, what) != CUTE_OK) {
    fprintf(stderr, "%s\n", error.text);
    exit(1);
  }
}

/* A number of -2 to 2, all of which f16 has. */
static double drawn(void) {
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return (double)((seed >> 33) % 5) - 2;
}

/* Halves of the small numbers that are drawn, and of any result. */
static uint16_t half_of(double value) {
  const double size = fabs(value);
  const uint16_t sign = value < 0 ? 0x8000 : 0;
  if (size == 0) return sign;
  return (uint16_t)(sign | (size >= 2 ? 0x4000 : 0x3c00)); /* 1 or 2 */
}

static double from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double size = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

typedef struct buffer {
  size_t count;
  double *host; /* of the inputs */
  CUdeviceptr device;
} buffer;

static buffer inputs(size_t count) {
  buffer made;
  uint16_t *bits = (uint16_t *)malloc(count * sizeof *bits);
  size_t i;
  made.count = count;
  made.host = (double *)malloc(count * sizeof *made.host);
  if (bits == NULL || made.host == NULL) exit(1);
  for (i = 0; i < count; ++i) bits[i] = half_of(made.host[i] = drawn());
  need(cuMemAlloc(&made.device, count * sizeof *bits), "cuMemAlloc");
  need(cuMemcpyHtoD(made.device, bits, count * sizeof *bits), "cuMemcpyHtoD");
  free(bits);
  return made;
}

static void drop(buffer *old) {
  cuMemFree(old->device);
  free(old->host);
}

/* Milliseconds of a launch, or a negative number and the reason in `error`. */
typedef cute_status launcher(void *state, cute_error *error);

static double timed(launcher *launch, void *state, cute_error *error) {
  CUevent begin, end;
  float milliseconds = 0;
  int i;
  if (launch(state, error) != CUTE_OK) return -1;
  need(cuEventCreate(&begin, 0), "cuEventCreate");
  need(cuEventCreate(&end, 0), "cuEventCreate");
  need(cuEventRecord(begin, stream), "cuEventRecord");
  for (i = 0; i < LAUNCHES; ++i)
    if (launch(state, error) != CUTE_OK) return -1;
  need(cuEventRecord(end, stream), "cuEventRecord");
  need(cuStreamSynchronize(stream), "cuStreamSynchronize");
  need(cuEventElapsedTime(&milliseconds, begin, end), "cuEventElapsedTime");
  cuEventDestroy(begin);
  cuEventDestroy(end);
  return milliseconds / LAUNCHES;
}

typedef struct gemm_request {
  gemm_kernel *kernel;
  gemm_arguments arguments;
  CUdeviceptr workspace;
  size_t bytes;
} gemm_request;

static cute_status run_gemm(void *state, cute_error *error) {
  gemm_request *request = (gemm_request *)state;
  return gemm_launch(request->kernel, &request->arguments, request->workspace, request->bytes,
                     stream, error);
}

/* How many results of a product differ from sums of small integers, which are exact. */
static int64_t wrong_results(const buffer *a, const buffer *b, const float *got, int64_t m,
                             int64_t n, int64_t k) {
  int64_t wrong = 0, i, j, p;
  for (i = 0; i < m; i += (m + CHECKED - 1) / CHECKED)
    for (j = 0; j < n; j += (n + CHECKED - 1) / CHECKED) {
      double sum = 0;
      for (p = 0; p < k; ++p) sum += a->host[i * k + p] * b->host[p * n + j];
      wrong += got[i * n + j] != sum;
    }
  return wrong;
}

static int serve_gemm(gemm_kernel *kernel, int64_t m, int64_t n, int64_t k) {
  const int64_t of_a[2] = {m, k}, of_b[2] = {k, n}, of_out[2] = {m, n};
  buffer a = inputs((size_t)(m * k)), b = inputs((size_t)(k * n));
  float *got = (float *)malloc((size_t)(m * n) * sizeof *got);
  CUdeviceptr out;
  gemm_request request;
  cute_error error;
  double milliseconds = -1;
  int64_t wrong = 0;
  int variant = 0;
  if (got == NULL) exit(1);
  need(cuMemAlloc(&out, (size_t)(m * n) * sizeof *got), "cuMemAlloc");
  memset(&request, 0, sizeof request);
  request.kernel = kernel;
  request.arguments.a = cute_packed(a.device, CUTE_FLOAT16, 2, of_a);
  request.arguments.b = cute_packed(b.device, CUTE_FLOAT16, 2, of_b);
  request.arguments.out = cute_packed(out, CUTE_FLOAT32, 2, of_out);
  request.arguments.alpha = 1;
  if (gemm_variant(kernel, &request.arguments, &variant, &error) == CUTE_OK &&
      gemm_workspace(kernel, &request.arguments, &request.bytes, &error) == CUTE_OK) {
    if (request.bytes != 0) need(cuMemAlloc(&request.workspace, request.bytes), "cuMemAlloc");
    if (gemm_clear(kernel, &request.arguments, request.workspace, request.bytes, stream, &error) ==
        CUTE_OK)
      milliseconds = timed(run_gemm, &request, &error);
  }
  if (milliseconds < 0) {
    printf("gemm %lld %lld %lld: error %d: %s\n", (long long)m, (long long)n, (long long)k,
           (int)error.status, error.text);
  } else {
    need(cuMemcpyDtoH(got, out, (size_t)(m * n) * sizeof *got), "cuMemcpyDtoH");
    wrong = wrong_results(&a, &b, got, m, n, k);
    printf("gemm %lld %lld %lld: %s (%s), %.4f ms, %.1f TFLOP/s\n", (long long)m, (long long)n,
           (long long)k, wrong > 0 ? "WRONG" : "exact", gemm_variants[variant], milliseconds,
           2e-9 * (double)m * (double)n * (double)k / milliseconds);
  }
  if (request.workspace != 0) cuMemFree(request.workspace);
  cuMemFree(out);
  drop(&a);
  drop(&b);
  free(got);
  return milliseconds < 0 || wrong > 0;
}

typedef struct grouped_request {
  grouped_kernel *kernel;
  grouped_arguments arguments;
  CUdeviceptr workspace;
  size_t bytes;
} grouped_request;

static cute_status run_grouped(void *state, cute_error *error) {
  grouped_request *request = (grouped_request *)state;
  return grouped_launch(request->kernel, &request->arguments, request->workspace, request->bytes,
                        stream, error);
}

static int serve_grouped(grouped_kernel *kernel, int64_t count, int64_t m, int64_t n, int64_t k) {
  static cute_tensor as[MOST], bs[MOST], outs[MOST];
  static buffer a[MOST], b[MOST];
  grouped_request request;
  cute_error error;
  double milliseconds = -1, flops = 0;
  int64_t wrong = 0, i;
  memset(&request, 0, sizeof request);
  request.kernel = kernel;
  request.arguments.as_ = as;
  request.arguments.bs = bs;
  request.arguments.out = outs;
  request.arguments.count = count;
  request.arguments.alpha = 1;
  for (i = 0; i < count; ++i) {
    const int64_t rows = m * (i + 1);
    const int64_t of_a[2] = {rows, k}, of_b[2] = {k, n}, of_out[2] = {rows, n};
    CUdeviceptr out;
    a[i] = inputs((size_t)(rows * k));
    b[i] = inputs((size_t)(k * n));
    need(cuMemAlloc(&out, (size_t)(rows * n) * sizeof(float)), "cuMemAlloc");
    as[i] = cute_packed(a[i].device, CUTE_FLOAT16, 2, of_a);
    bs[i] = cute_packed(b[i].device, CUTE_FLOAT16, 2, of_b);
    outs[i] = cute_packed(out, CUTE_FLOAT32, 2, of_out);
    flops += 2.0 * (double)rows * (double)n * (double)k;
  }
  if (grouped_workspace(kernel, &request.arguments, &request.bytes, &error) == CUTE_OK) {
    if (request.bytes != 0) need(cuMemAlloc(&request.workspace, request.bytes), "cuMemAlloc");
    if (grouped_clear(kernel, &request.arguments, request.workspace, request.bytes, stream,
                      &error) == CUTE_OK)
      milliseconds = timed(run_grouped, &request, &error);
  }
  for (i = 0; i < count; ++i) {
    const size_t size = (size_t)(m * (i + 1) * n) * sizeof(float);
    float *got = (float *)malloc(size);
    if (got == NULL) exit(1);
    if (milliseconds >= 0) {
      need(cuMemcpyDtoH(got, outs[i].pointer, size), "cuMemcpyDtoH");
      wrong += wrong_results(&a[i], &b[i], got, m * (i + 1), n, k);
    }
    free(got);
    cuMemFree(outs[i].pointer);
    drop(&a[i]);
    drop(&b[i]);
  }
  printf("grouped %lld %lld %lld %lld: ", (long long)count, (long long)m, (long long)n,
         (long long)k);
  if (milliseconds < 0)
    printf("error %d: %s\n", (int)error.status, error.text);
  else
    printf("%s, %.4f ms, %.1f TFLOP/s\n", wrong > 0 ? "WRONG" : "exact", milliseconds,
           1e-9 * flops / milliseconds);
  if (request.workspace != 0) cuMemFree(request.workspace);
  return milliseconds < 0 || wrong > 0;
}

typedef struct attention_request {
  attention_kernel *kernel;
  attention_arguments arguments;
  CUdeviceptr workspace;
  size_t bytes;
} attention_request;

static cute_status run_attention(void *state, cute_error *error) {
  attention_request *request = (attention_request *)state;
  return attention_launch(request->kernel, &request->arguments, request->workspace,
                          request->bytes, stream, error);
}

/* The largest error of some rows of the first head. */
static double attention_error(const buffer *q, const buffer *k, const buffer *v,
                              const uint16_t *got, int64_t rows) {
  double largest = 0;
  int64_t i, j, d;
  for (i = 0; i < rows; i += (rows + CHECKED - 1) / CHECKED) {
    double sum = 0, out[COLUMNS] = {0};
    for (j = 0; j <= i; ++j) {
      double score = 0;
      for (d = 0; d < COLUMNS; ++d) score += q->host[i * COLUMNS + d] * k->host[j * COLUMNS + d];
      score = exp(score / 8 - 32); /* scores are at most 256 / 8 */
      sum += score;
      for (d = 0; d < COLUMNS; ++d) out[d] += score * v->host[j * COLUMNS + d];
    }
    for (d = 0; d < COLUMNS; ++d)
      largest = fmax(largest, fabs(out[d] / sum - from_half(got[i * COLUMNS + d])));
  }
  return largest;
}

static int serve_attention(attention_kernel *kernel, int64_t batch, int64_t rows) {
  const int64_t shape[4] = {batch, HEADS, rows, COLUMNS};
  const size_t count = (size_t)(batch * HEADS * rows * COLUMNS);
  buffer q = inputs(count), k = inputs(count), v = inputs(count);
  uint16_t *got = (uint16_t *)malloc(count * sizeof *got);
  CUdeviceptr out;
  attention_request request;
  cute_error error;
  double milliseconds = -1, largest = 0;
  if (got == NULL) exit(1);
  need(cuMemAlloc(&out, count * sizeof *got), "cuMemAlloc");
  memset(&request, 0, sizeof request);
  request.kernel = kernel;
  request.arguments.q = cute_packed(q.device, CUTE_FLOAT16, 4, shape);
  request.arguments.k = cute_packed(k.device, CUTE_FLOAT16, 4, shape);
  request.arguments.v = cute_packed(v.device, CUTE_FLOAT16, 4, shape);
  request.arguments.out = cute_packed(out, CUTE_FLOAT16, 4, shape);
  if (attention_workspace(kernel, &request.arguments, &request.bytes, &error) == CUTE_OK) {
    if (request.bytes != 0) need(cuMemAlloc(&request.workspace, request.bytes), "cuMemAlloc");
    if (attention_clear(kernel, &request.arguments, request.workspace, request.bytes, stream,
                        &error) == CUTE_OK)
      milliseconds = timed(run_attention, &request, &error);
  }
  if (milliseconds < 0) {
    printf("attention %lld %lld: error %d: %s\n", (long long)batch, (long long)rows,
           (int)error.status, error.text);
  } else {
    need(cuMemcpyDtoH(got, out, count * sizeof *got), "cuMemcpyDtoH");
    largest = attention_error(&q, &k, &v, got, rows);
    printf("attention %lld %lld: %s %.1e, %.4f ms, %.1f TFLOP/s\n", (long long)batch,
           (long long)rows, largest < 4e-3 ? "error" : "WRONG", largest, milliseconds,
           2e-9 * (double)(batch * HEADS * COLUMNS) * (double)rows * (double)rows / milliseconds);
  }
  if (request.workspace != 0) cuMemFree(request.workspace);
  cuMemFree(out);
  drop(&q);
  drop(&k);
  drop(&v);
  free(got);
  return milliseconds < 0 || largest >= 4e-3;
}

int main(int count, char **words) {
  static gemm_kernel gemm;
  static grouped_kernel grouped;
  static attention_kernel attention;
  CUdevice device;
  CUcontext context;
  cute_error error;
  char line[256];
  int failed = 0;
  const char *folder = count > 1 ? words[1] : ".";
  need(cuInit(0), "cuInit");
  need(cuDeviceGet(&device, 0), "cuDeviceGet");
  need(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  need(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  need(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  if (gemm_load_files(&gemm, folder, &error) != CUTE_OK ||
      grouped_load_files(&grouped, folder, &error) != CUTE_OK ||
      attention_load_files(&attention, folder, &error) != CUTE_OK) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  printf("ready: %s\n", grouped_targets[grouped.variant]);
  while (fgets(line, sizeof line, stdin) != NULL) {
    long long count_of, m, n, k;
    if (sscanf(line, "gemm %lld %lld %lld", &m, &n, &k) == 3 && m > 0 && n > 0 && k > 0)
      failed |= serve_gemm(&gemm, m, n, k);
    else if (sscanf(line, "grouped %lld %lld %lld %lld", &count_of, &m, &n, &k) == 4 &&
             count_of > 0 && count_of <= MOST && m > 0 && n > 0 && k > 0)
      failed |= serve_grouped(&grouped, count_of, m, n, k);
    else if (sscanf(line, "attention %lld %lld", &m, &n) == 2 && m > 0 && n > 0)
      failed |= serve_attention(&attention, m, n);
    else
      printf("expected 'gemm M N K', 'grouped G M N K' or 'attention B S', got %s", line);
    fflush(stdout);
  }
  gemm_unload(&gemm);
  grouped_unload(&grouped);
  attention_unload(&attention);
  cuStreamDestroy(stream);
  cuDevicePrimaryCtxRelease(device);
  return failed;
}
