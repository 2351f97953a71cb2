/* What launchers of kernels that take lists of tensors share: views of all tensors, and the tables of
 * them that a workspace has.
 */
#ifndef CUTEDIALECT_LISTS
#define CUTEDIALECT_LISTS

/* A tile costs as much as this many elements more of the extent that its steps cover. */
enum { CUTE_TILE_ENDS = 128, CUTE_READY = 16 };

/* Views of the tensors of a list, in the order of the kernel. */
typedef struct cute_list {
  cute_tensor *tensors;
  int64_t size;
} cute_list;

/* Where an entry of the lists comes. */
typedef struct cute_place {
  int64_t key, number;
} cute_place;

/* Memory of the host, for as long as a call runs. */
typedef struct cute_memory {
  cute_place *order;
  cute_tensor *views;
  unsigned char *tables;
} cute_memory;

/* Workspaces whose tables are made, and a number for what they were made of. */
typedef struct cute_ready {
  CUdeviceptr workspaces[CUTE_READY];
  uint64_t digests[CUTE_READY];
  int next;
} cute_ready;

/* The tiles of the tensors of a list, in blocks: a table with what lies in front of each. */
typedef struct cute_blocks {
  const cute_list *list;
  int rank;
  int64_t tile[CUTE_MAX_RANK], block[CUTE_MAX_RANK];
  int64_t size;
} cute_blocks;

/* Who computes which block. */
typedef struct cute_shares {
  int64_t takers, size;
} cute_shares;

static CUTE_UNUSED cute_status cute_begin(cute_memory *memory, int64_t count, int lists,
                                          const char *name, cute_error *error) {
  if (count < 0 || count >= INT64_C(1) << 31)
    return cute_fail(error, CUTE_ARGUMENT, "%s: expected lists of 0 to 2^31 - 1 tensors, got %lld",
                     name, (long long)count);
  memory->order = (cute_place *)malloc(((size_t)count + 1) * sizeof *memory->order);
  memory->views =
      (cute_tensor *)malloc(((size_t)count * (size_t)lists + 1) * sizeof *memory->views);
  if (memory->order == NULL || memory->views == NULL)
    return cute_fail(error, CUTE_MEMORY, "%s: expected memory of the host for %lld tensors", name,
                     (long long)count);
  return CUTE_OK;
}

static CUTE_UNUSED void cute_end(cute_memory *memory) {
  free(memory->order);
  free(memory->views);
  free(memory->tables);
}

/* An error of one entry names it: "A: ..." becomes "A[3]: ...". */
static CUTE_UNUSED cute_status cute_entry(cute_status status, int64_t number, cute_error *error) {
  char text[sizeof error->text];
  const char *rest;
  if (error == NULL || (rest = strchr(error->text, ':')) == NULL) return status;
  snprintf(text, sizeof text, "%.*s[%lld]%.200s", (int)(rest - error->text), error->text,
           (long long)number, rest);
  memcpy(error->text, text, sizeof text);
  return status;
}

static CUTE_UNUSED int cute_compare(const void *one, const void *other) {
  const cute_place *a = (const cute_place *)one, *b = (const cute_place *)other;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->number < b->number ? -1 : a->number > b->number;
}

static CUTE_UNUSED int64_t cute_blocks_of(const cute_blocks *blocks, int64_t number) {
  const cute_tensor *tensor = &blocks->list->tensors[number];
  int64_t count = 1;
  int mode;
  for (mode = 0; mode < blocks->rank; ++mode) {
    const int64_t tiles =
        blocks->tile[mode] < 0 ? 1 : cute_ceildiv(tensor->shape[mode], blocks->tile[mode]);
    count *= cute_ceildiv(tiles, blocks->block[mode]);
  }
  return count;
}

static CUTE_UNUSED int64_t cute_tiles_before(const cute_blocks *blocks, int64_t number) {
  int64_t sum = 0, i;
  for (i = 0; i < number; ++i) sum += cute_blocks_of(blocks, i);
  return sum;
}

static CUTE_UNUSED cute_status cute_check_blocks(const cute_blocks *blocks, const char *name,
                                                 cute_error *error) {
  int64_t sum = 0, i;
  for (i = 0; i < blocks->list->size; ++i)
    if ((sum += cute_blocks_of(blocks, i)) >= INT64_C(1) << 31)
      return cute_fail(error, CUTE_ARGUMENT, "%s: expected fewer than 2^31 tiles in a group, got %lld",
                       name, (long long)sum);
  return CUTE_OK;
}

/* Tables hold integers in the order of bytes of the device, which is that of the host. */
static CUTE_UNUSED void cute_put(unsigned char **to, const void *value, size_t size) {
  memcpy(*to, value, size);
  *to += size;
}

static CUTE_UNUSED void cute_put_i32(unsigned char **to, int64_t value) {
  const int32_t narrow = (int32_t)value;
  cute_put(to, &narrow, sizeof narrow);
}

static CUTE_UNUSED void cute_fill_blocks(const cute_blocks *blocks, unsigned char *to) {
  int64_t sum = 0, i;
  for (i = 0; i < blocks->size; ++i) {
    cute_put_i32(&to, sum);
    if (i < blocks->list->size) sum += cute_blocks_of(blocks, i);
  }
}

/* A heap: the taker in front is free first, of equal ones the first. */
static CUTE_UNUSED void cute_sink(cute_place *takers, int64_t count) {
  const cute_place first = takers[0];
  int64_t place = 0, child;
  while ((child = 2 * place + 1) < count) {
    if (child + 1 < count && cute_compare(&takers[child + 1], &takers[child]) < 0) ++child;
    if (cute_compare(&takers[child], &first) >= 0) break;
    takers[place] = takers[child];
    place = child;
  }
  takers[place] = first;
}

/* Deals the blocks of tensors in order, each to the taker that would begin it first. */
static CUTE_UNUSED cute_status cute_fill_shares(const cute_shares *shares,
                                                const cute_blocks *blocks, const cute_list *work,
                                                int mode, unsigned char *to, cute_error *error) {
  const int64_t count = shares->takers, total = cute_tiles_before(blocks, work->size);
  cute_place *takers = (cute_place *)malloc((size_t)count * sizeof *takers);
  int32_t *owners = (int32_t *)malloc(((size_t)total + 1) * sizeof *owners);
  int32_t *ends = (int32_t *)calloc((size_t)count + 1, sizeof *ends);
  int64_t i, next = 0;
  if (takers != NULL && owners != NULL && ends != NULL) {
    for (i = 0; i < count; ++i) takers[i].key = 0, takers[i].number = i;
    for (i = 0; i < work->size; ++i) {
      const int64_t end = next + cute_blocks_of(blocks, i);
      for (; next < end; ++next) {
        owners[next] = (int32_t)takers[0].number;
        ++ends[takers[0].number + 1];
        takers[0].key += work->tensors[i].shape[mode] + CUTE_TILE_ENDS;
        cute_sink(takers, count);
      }
    }
    ends[0] = (int32_t)(count + 1);
    for (i = 0; i < count; ++i) ends[i + 1] += ends[i];
    memcpy(to, ends, ((size_t)count + 1) * sizeof *ends);
    for (i = 0; i < total; ++i) {
      const int32_t number = (int32_t)i;
      memcpy(to + (size_t)ends[owners[i]]++ * sizeof number, &number, sizeof number);
    }
  }
  i = takers != NULL && owners != NULL && ends != NULL;
  free(takers);
  free(owners);
  free(ends);
  return i ? CUTE_OK : cute_fail(error, CUTE_MEMORY, "expected memory of the host for shares");
}

/* FNV-1a, of the address, extents and strides of every tensor. */
static CUTE_UNUSED void cute_mix(uint64_t *digest, uint64_t value) {
  int i;
  for (i = 0; i < 8; ++i, value >>= 8) *digest = (*digest ^ (value & 255)) * UINT64_C(1099511628211);
}

static CUTE_UNUSED void cute_mix_list(uint64_t *digest, const cute_list *list) {
  int64_t i;
  int mode;
  cute_mix(digest, (uint64_t)list->size);
  for (i = 0; i < list->size; ++i) {
    const cute_tensor *tensor = &list->tensors[i];
    cute_mix(digest, (uint64_t)tensor->pointer);
    for (mode = 0; mode < tensor->rank; ++mode) {
      cute_mix(digest, (uint64_t)tensor->shape[mode]);
      cute_mix(digest, (uint64_t)tensor->stride[mode]);
    }
  }
}

static CUTE_UNUSED int cute_is_ready(const cute_ready *ready, CUdeviceptr workspace,
                                     uint64_t digest) {
  int i;
  for (i = 0; i < CUTE_READY; ++i)
    if (ready->workspaces[i] == workspace) return ready->digests[i] == digest;
  return 0;
}

/* Tables go to the workspace in the order of the stream. A copy that a graph would do again later reads
 * memory of the host that is gone then. */
static CUTE_UNUSED cute_status cute_upload(cute_ready *ready, CUdeviceptr workspace, size_t at,
                                           const unsigned char *tables, size_t size,
                                           uint64_t digest, CUstream stream, const char *name,
                                           cute_error *error) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  cute_status status = cute_driver(error, cuStreamIsCapturing(stream, &capture), name);
  int i = 0;
  if (status != CUTE_OK) return status;
  if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return cute_fail(error, CUTE_WORKSPACE,
                     "%s: expected a workspace that is cleared before a graph is captured", name);
  status = cute_driver(error, cuMemcpyHtoDAsync(workspace + at, tables, size, stream), name);
  if (status != CUTE_OK) return status;
  while (i < CUTE_READY && ready->workspaces[i] != workspace) ++i;
  if (i == CUTE_READY) {
    i = ready->next;
    ready->next = (ready->next + 1) % CUTE_READY;
  }
  ready->workspaces[i] = workspace;
  ready->digests[i] = digest;
  return CUTE_OK;
}

#endif
