void driver(CUresult result, const char *what) {
  cute_error error;
  need(cute_driver(&error, result, what), error);
}

// The context of a device for as long as a call runs.
struct Current {
  explicit Current(int device) {
    CUcontext context = nullptr;
    driver(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    driver(cuCtxPushCurrent(context), "cuCtxPushCurrent");
  }
  ~Current() {
    CUcontext context = nullptr;
    cuCtxPopCurrent(&context);
  }
};
