/* What a test tells the stand-in, and what it asks for. */
#ifndef STAND_IN_DRIVER_H
#define STAND_IN_DRIVER_H

#include <cuda.h>

/* Compute capability (90) and multiprocessors of the device. */
void stand_in_device(int number, int count);
/* How many tensor maps were encoded. */
int stand_in_encodings(void);
/* A stream on which a graph is captured. */
#define STAND_IN_CAPTURED ((CUstream)0x99)
/* Bytes of each parameter of a kernel, and a 0 behind them; each test program has this. */
const int *stand_in_sizes(const char *kernel);

#endif
