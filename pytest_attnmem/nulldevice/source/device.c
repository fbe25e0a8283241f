/* The device that each thread uses, and the primary context of each device. */
#include "null.h"
#include <pthread.h>
#include <stdlib.h>

static struct CUctx_st {
    int device;
    bool active;
} *contexts; /* primary contexts; there are no others */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local int current;

static void make_contexts(void)
{
    int devices = null_profile()->devices;
    contexts = calloc(devices > 0 ? (size_t)devices : 1, sizeof *contexts);
    if (!contexts)
        abort();
    for (int device = 0; device < devices; device++)
        contexts[device].device = device;
}

static CUcontext context_of(int device)
{
    pthread_once(&once, make_contexts);
    return &contexts[device];
}

int null_device(void)
{
    return current;
}

CUcontext null_context(int device)
{
    if (!null_is_device(device))
        return NULL;
    CUcontext context = context_of(device);
    __atomic_store_n(&context->active, true, __ATOMIC_RELEASE);
    return context;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = null_profile()->devices;
    return *count ? cudaSuccess : null_fail(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (!null_context(device))
        return null_fail(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    return null_context(device) ? cudaSuccess : null_fail(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceSynchronize(void)
{
    null_context(current);
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}

/* Copies between devices go through the host, as on machines without a link between devices. */
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = 0;
    bool both = null_is_device(device) && null_is_device(peer);
    return both ? cudaSuccess : null_fail(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    return null_fail(null_is_device(peer) ? cudaErrorPeerAccessUnsupported : cudaErrorInvalidDevice);
}

CUresult cuInit(unsigned int flags)
{
    return null_profile()->devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version)
{
    cudaDriverGetVersion(version);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = null_profile()->devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return null_is_device(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    if (!null_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *active = __atomic_load_n(&context_of(device)->active, __ATOMIC_ACQUIRE);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    *context = null_context(device);
    return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    return null_is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    bool active = null_is_device(current) && __atomic_load_n(&context_of(current)->active, __ATOMIC_ACQUIRE);
    *context = active ? context_of(current) : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    if (context)
        current = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    return cuCtxSetCurrent(context);
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    return context ? cuCtxGetCurrent(context) : CUDA_SUCCESS;
}

#undef cuCtxGetDevice
VISIBLE CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = current;
    return CUDA_SUCCESS;
}

#undef cuCtxSynchronize
VISIBLE CUresult cuCtxSynchronize(void)
{
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    *value = MIB;
    return CUDA_SUCCESS;
}
