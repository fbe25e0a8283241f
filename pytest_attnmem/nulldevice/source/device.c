/* The device that each thread uses, and the primary context of each device. */
#include "null.h"
#include <pthread.h>
#include <stdlib.h>

#define NESTED 16 /* most contexts that a thread has pushed; programs pop each one soon */

static struct CUctx_st {
    int device;
    bool active;
    size_t limits[3]; /* of the stack, of printf and of malloc: those that come first in CUlimit */
    bool *peers;      /* by device: true for those whose memory this one may access */
} *contexts;          /* primary contexts; there are no others */
static pthread_once_t once = PTHREAD_ONCE_INIT;

struct binding {
    int device;
    bool unbound; /* the driver has no current context; the next call of the runtime binds one */
};
static _Thread_local struct binding now = {.unbound = true};
static _Thread_local struct binding below[NESTED]; /* those that others were pushed on */
static _Thread_local unsigned depth;

static void make_contexts(void)
{
    int devices = null_profile()->devices;
    contexts = calloc(devices > 0 ? (size_t)devices : 1, sizeof *contexts);
    if (!contexts)
        abort();
    for (int device = 0; device < devices; device++)
        contexts[device] = (struct CUctx_st){device, false, {1024, MIB, 8 * MIB}, NULL};
}

static CUcontext context_of(int device)
{
    pthread_once(&once, make_contexts);
    return &contexts[device];
}

int null_device(void)
{
    return now.device;
}

static bool initialized; /* the driver answers nothing before; the runtime initializes it */

static void initialize(void)
{
    __atomic_store_n(&initialized, true, __ATOMIC_RELEASE);
}

static CUcontext activate(int device)
{
    if (!null_is_device(device))
        return NULL;
    initialize();
    CUcontext context = context_of(device);
    if (!__atomic_exchange_n(&context->active, true, __ATOMIC_ACQ_REL))
        null_used();
    return context;
}

CUcontext null_context(int device)
{
    if (device == now.device)
        now.unbound = false;
    return activate(device);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = null_profile()->devices;
    if (*count)
        initialize();
    return *count ? cudaSuccess : null_fail(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = now.device;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (!null_context(device))
        return null_fail(cudaErrorInvalidDevice);
    now = (struct binding){.device = device};
    return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    return null_context(device) ? cudaSuccess : null_fail(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceSynchronize(void)
{
    null_context(now.device);
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

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    bool both = null_is_device(device) && null_is_device(peer);
    *can = both && device != peer && null_profile()->peer_access;
    return both ? cudaSuccess : null_fail(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    if (!null_is_device(peer) || peer == now.device)
        return null_fail(cudaErrorInvalidDevice);
    if (!null_profile()->peer_access)
        return null_fail(cudaErrorPeerAccessUnsupported);
    CUcontext context = null_context(now.device);
    if (!context->peers)
        context->peers = calloc((size_t)null_profile()->devices, sizeof *context->peers);
    if (!context->peers)
        return null_fail(cudaErrorMemoryAllocation);
    if (context->peers[peer])
        return null_fail(cudaErrorPeerAccessAlreadyEnabled);
    context->peers[peer] = true;
    return cudaSuccess;
}

CUresult cuInit(unsigned int flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    int count;
    return cudaGetDeviceCount(&count) ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    cudaDriverGetVersion(version);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    if (!__atomic_load_n(&initialized, __ATOMIC_ACQUIRE))
        return CUDA_ERROR_NOT_INITIALIZED;
    *count = null_profile()->devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!__atomic_load_n(&initialized, __ATOMIC_ACQUIRE))
        return CUDA_ERROR_NOT_INITIALIZED;
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
    *context = activate(device);
    return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    return null_is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUcontext bound(void)
{
    bool active = !now.unbound && null_is_device(now.device) &&
                  __atomic_load_n(&context_of(now.device)->active, __ATOMIC_ACQUIRE);
    return active ? context_of(now.device) : NULL;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = bound();
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    CUcontext top = bound();
    if (!top)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context)
        *context = top;
    now = depth ? below[--depth] : (struct binding){now.device, true};
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    if (!context)
        return bound() ? cuCtxPopCurrent(NULL) : CUDA_SUCCESS;
    now = (struct binding){.device = context->device};
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == NESTED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    below[depth++] = now;
    return cuCtxSetCurrent(context);
}

#undef cuCtxGetDevice
VISIBLE CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = now.device;
    return bound() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

#undef cuCtxSynchronize
VISIBLE CUresult cuCtxSynchronize(void)
{
    return bound() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* Nothing runs that could reach a limit: it is remembered. */
static CUresult limit_of(size_t **limit, unsigned int name)
{
    CUcontext context = bound();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (name >= sizeof context->limits / sizeof *context->limits)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *limit = &context->limits[name];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit name, size_t value)
{
    size_t *limit;
    CUresult error = limit_of(&limit, name);
    if (!error)
        __atomic_store_n(limit, value, __ATOMIC_RELAXED);
    return error;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit name)
{
    size_t *limit;
    CUresult error = limit_of(&limit, name);
    if (!error)
        *value = __atomic_load_n(limit, __ATOMIC_RELAXED);
    return error;
}
