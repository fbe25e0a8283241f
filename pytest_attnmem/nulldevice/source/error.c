/* The last error of each thread, as the CUDA runtime keeps it. */
#include "null.h"

static _Thread_local cudaError_t last_error;

cudaError_t null_fail(cudaError_t error)
{
    if (error)
        last_error = error;
    return error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}
