/* @name@.h: the first of the variants @plain_names@ that is compiled for the arguments.
 *
 * Written by `python -m cutedialect compile --variant`. Functions and workspaces are those of one
 * kernel (see the header of a variant); @name@_variant tells which variant takes some arguments.
 */
#ifndef CUTEDIALECT_@guard@_H
#define CUTEDIALECT_@guard@_H

@includes@

enum { @name@_variant_count = @count@ };
static const char *const @name@_variants[] = {@names@};

typedef struct @name@_arguments {
@fields@
} @name@_arguments;

typedef struct @name@_kernel {
@kernels@
} @name@_kernel;

@forms@
/* Unloads all that is loaded. */
static CUTE_UNUSED void @name@_unload(@name@_kernel *kernel) {
@unloads@
}

static CUTE_UNUSED cute_status @name@_load_variant(@name@_kernel *kernel, int variant,
                                                   const char *folder, cute_error *error) {
  switch (variant) {
@files@
    default:
      return CUTE_TARGET;
  }
}

/* Loads every variant that the current context's device runs, from the files beside this header. */
static CUTE_UNUSED cute_status @name@_load_files(@name@_kernel *kernel, const char *folder,
                                                 cute_error *error) {
  cute_status status = CUTE_OK;
  int variant, loaded = 0;
  memset(kernel, 0, sizeof *kernel);
  for (variant = 0; variant < @name@_variant_count; ++variant) {
    status = @name@_load_variant(kernel, variant, folder, error);
    loaded += status == CUTE_OK;
    if (status != CUTE_OK && status != CUTE_TARGET) {
      @name@_unload(kernel);
      return status;
    }
  }
  return loaded > 0 ? CUTE_OK : status;
}

@embedded@
/* Whether the elements of all tensors are of the types of a variant. */
static CUTE_UNUSED int @name@_has_types(const @name@_arguments *given, int variant) {
  switch (variant) {
@types@
    default:
      return 0;
  }
}

static CUTE_UNUSED cute_status @name@_run_variant(@name@_kernel *kernel, int variant,
                                                  const @name@_arguments *given,
                                                  CUdeviceptr workspace, size_t available,
                                                  size_t *needed, int clears, int launches,
                                                  CUstream stream, cute_error *error) {
  switch (variant) {
@runs@
    default:
      return CUTE_TARGET;
  }
}

/* Each variant checks the arguments before it does anything: what is refused goes to the next one. */
static CUTE_UNUSED cute_status @name@_run(@name@_kernel *kernel, const @name@_arguments *given,
                                          int *taken, CUdeviceptr workspace, size_t available,
                                          size_t *needed, int clears, int launches,
                                          CUstream stream, cute_error *error) {
  cute_status status = CUTE_OK;
  int variant, known = 0, loaded = 0;
  for (variant = 0; variant < @name@_variant_count; ++variant) {
    cute_status told;
    if (!@name@_has_types(given, variant)) continue;
    known = 1;
    told = @name@_run_variant(kernel, variant, given, workspace, available, needed, clears,
                              launches, stream, error);
    if (told == CUTE_TARGET) continue;
    status = told;
    loaded = 1;
    if (taken != NULL) *taken = variant;
    if (status != CUTE_ARGUMENT) return status;
  }
  if (!known)
    return cute_fail(error, CUTE_ARGUMENT,
                     "@name@: expected elements of one of the variants @plain_names@, got @got@"@given@);
  if (!loaded)
    return cute_fail(error, CUTE_TARGET,
                     "@name@: expected a variant of these types that is loaded, got none");
  return status;
}

/* The number of the variant that takes some arguments (see @name@_variants). */
static CUTE_UNUSED cute_status @name@_variant(@name@_kernel *kernel, const @name@_arguments *given,
                                              int *variant, cute_error *error) {
  return @name@_run(kernel, given, variant, 0, 0, NULL, 0, 0, NULL, error);
}

static CUTE_UNUSED cute_status @name@_workspace(@name@_kernel *kernel,
                                                const @name@_arguments *given, size_t *bytes,
                                                cute_error *error) {
  return @name@_run(kernel, given, NULL, 0, 0, bytes, 0, 0, NULL, error);
}

static CUTE_UNUSED cute_status @name@_clear(@name@_kernel *kernel, const @name@_arguments *given,
                                            CUdeviceptr workspace, size_t bytes, CUstream stream,
                                            cute_error *error) {
  return @name@_run(kernel, given, NULL, workspace, bytes, NULL, 1, 0, stream, error);
}

static CUTE_UNUSED cute_status @name@_launch(@name@_kernel *kernel, const @name@_arguments *given,
                                             CUdeviceptr workspace, size_t bytes, CUstream stream,
                                             cute_error *error) {
  return @name@_run(kernel, given, NULL, workspace, bytes, NULL, 0, 1, stream, error);
}

#endif /* CUTEDIALECT_@guard@_H */
