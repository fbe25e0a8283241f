/* The last error of each thread, as the CUDA runtime keeps it, and the driver's log of errors. */
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

#if CUDA_VERSION >= 12090
/* PyTorch 2.14 registers a callback for the driver's log; the null driver logs nothing. */
CUresult cuLogsRegisterCallback(CUlogsCallback callback, void *data, CUlogsCallbackHandle *handle)
{
    static char registered;
    *handle = (CUlogsCallbackHandle)(void *)&registered;
    return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle)
{
    return CUDA_SUCCESS;
}
#endif
