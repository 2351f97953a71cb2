static const char *const @name@_targets[] = {@targets@};

/* Unloads the module; a kernel that was not loaded is left alone. */
static CUTE_UNUSED void @name@_unload(@name@_kernel *kernel) {
  if (kernel->module != NULL) cuModuleUnload(kernel->module);
  memset(kernel, 0, sizeof *kernel);
}

static CUTE_UNUSED cute_status @name@_functions(@name@_kernel *kernel, cute_error *error) {
  cute_status status = CUTE_OK;
  switch (kernel->variant) {
@functions@
    default:
      break;
  }
  (void)error;
  return status;
}

/* Loads the first of the images that the current context's device runs. */
static CUTE_UNUSED cute_status @name@_load(@name@_kernel *kernel, const cute_image *images,
                                           size_t count, cute_error *error) {
  CUdevice device;
  int major = 0, minor = 0, variant;
  size_t i;
  CUresult last = CUDA_SUCCESS;
  cute_status status;
  memset(kernel, 0, sizeof *kernel);
  status = cute_driver(error, cuCtxGetDevice(&device), "@name@: cuCtxGetDevice");
  if (status != CUTE_OK) return status;
  cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  cuDeviceGetAttribute(&kernel->sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  for (variant = 0; variant < @target_count@; ++variant) {
    if (!cute_fits(@name@_targets[variant], 10 * major + minor)) continue;
    for (i = 0; i < count; ++i) {
      if (strcmp(images[i].target, @name@_targets[variant]) != 0) continue;
      last = cuModuleLoadData(&kernel->module, images[i].data);
      if (last != CUDA_SUCCESS) {
        kernel->module = NULL;
        continue;
      }
      kernel->variant = variant;
      status = @name@_functions(kernel, error);
      if (status != CUTE_OK) @name@_unload(kernel);
      return status;
    }
  }
  if (last != CUDA_SUCCESS) return cute_driver(error, last, "@name@: cuModuleLoadData");
  return cute_fail(error, CUTE_TARGET,
                   "@name@: expected an image that compute capability %d.%d runs, got %u of "
                   "@plain_targets@",
                   major, minor, (unsigned)count);
}

/* Loads from the files that stand beside this header, in a folder. */
static CUTE_UNUSED cute_status @name@_load_files(@name@_kernel *kernel, const char *folder,
                                                 cute_error *error) {
  static const char *const files[][2] = {@files@};
  cute_image images[@file_count@];
  void *data[@file_count@];
  size_t count = 0, i;
  cute_status status;
  memset(kernel, 0, sizeof *kernel);
  for (i = 0; i < @file_count@; ++i) {
    data[count] = cute_read(folder, files[i][1]);
    if (data[count] == NULL) continue;
    images[count].target = files[i][0];
    images[count].data = data[count];
    ++count;
  }
  if (count == 0)
    return cute_fail(error, CUTE_FILE, "@name@: expected %s in %s", files[0][1], folder);
  status = @name@_load(kernel, images, count, error);
  for (i = 0; i < count; ++i) free(data[i]);
  return status;
}
@embedded@
static CUTE_UNUSED cute_status @name@_run(@name@_kernel *kernel, const @name@_arguments *arguments,
                                          CUdeviceptr workspace, size_t available, size_t *needed,
                                          int clears, int launches, CUstream stream,
                                          cute_error *error) {
  if (kernel->module != NULL) switch (kernel->variant) {
@runs@
    default:
      break;
  }
  return cute_fail(error, CUTE_TARGET, "@name@: expected a kernel that is loaded");
}

/* The bytes of workspace that a problem takes; checks the arguments. */
static CUTE_UNUSED cute_status @name@_workspace(@name@_kernel *kernel,
                                                const @name@_arguments *arguments, size_t *bytes,
                                                cute_error *error) {
  return @name@_run(kernel, arguments, 0, 0, bytes, 0, 0, NULL, error);
}

/* Makes a workspace ready for its first launch, and for one of other extents than before. */
static CUTE_UNUSED cute_status @name@_clear(@name@_kernel *kernel,
                                            const @name@_arguments *arguments,
                                            CUdeviceptr workspace, size_t bytes, CUstream stream,
                                            cute_error *error) {
  return @name@_run(kernel, arguments, workspace, bytes, NULL, 1, 0, stream, error);
}

/* Checks the arguments and launches, in order, on a stream; does not wait. */
static CUTE_UNUSED cute_status @name@_launch(@name@_kernel *kernel,
                                             const @name@_arguments *arguments,
                                             CUdeviceptr workspace, size_t bytes, CUstream stream,
                                             cute_error *error) {
  return @name@_run(kernel, arguments, workspace, bytes, NULL, 0, 1, stream, error);
}
