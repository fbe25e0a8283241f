/* Streams and events. Work is done when it is submitted, so it is done in order.
 *
 * Each recorded event is a millisecond after the previous one, across all streams. A benchmark such
 * as that of Triton's autotuner then ends soon, gives the same times again, and does not divide by
 * zero.
 */
#include "null.h"
#include <stdlib.h>

struct CUstream_st {
    int device, priority;
    unsigned int flags;
    unsigned long long id;
};
struct CUevent_st {
    bool timed;
    unsigned long long at; /* 0: not recorded */
};

#define LEAST 0 /* the range of priorities of every device since Volta */
#define GREATEST (-5)

static unsigned long long streams = 2, records; /* ids 1 and 2 belong to the default streams */

/* A default stream is a small number, not a pointer. */
static bool is_default(cudaStream_t stream)
{
    return (uintptr_t)stream <= 2;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    if (flags & ~(unsigned int)cudaStreamNonBlocking)
        return null_fail(cudaErrorInvalidValue);
    if (priority > LEAST || priority < GREATEST)
        priority = priority > LEAST ? LEAST : GREATEST;
    null_context(null_device());
    *stream = malloc(sizeof **stream);
    if (!*stream)
        return null_fail(cudaErrorMemoryAllocation);
    unsigned long long id = __atomic_add_fetch(&streams, 1, __ATOMIC_RELAXED);
    **stream = (struct CUstream_st){null_device(), priority, flags, id};
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, 0, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    if (is_default(stream))
        return null_fail(cudaErrorInvalidResourceHandle);
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = LEAST;
    *greatest = GREATEST;
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    *priority = is_default(stream) ? 0 : stream->priority;
    return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
{
    *flags = is_default(stream) ? 0 : stream->flags;
    return cudaSuccess;
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
    if (!stream)
        stream = cudaStreamLegacy;
    *id = is_default(stream) ? (uintptr_t)stream : stream->id;
    return cudaSuccess;
}

#if CUDART_VERSION >= 12080
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
    *device = is_default(stream) ? null_device() : stream->device;
    return cudaSuccess;
}
#endif

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return cudaStreamQuery(stream);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    return CUDA_SUCCESS;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    return event ? cudaSuccess : null_fail(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned int flags)
{
    if (!callback || flags)
        return null_fail(cudaErrorInvalidValue);
    callback(stream, cudaSuccess, data);
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    if (!function)
        return null_fail(cudaErrorInvalidValue);
    function(data);
    return cudaSuccess;
}

/* A capture records nothing here, so its graph would replay nothing: refused, and counted. */
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    COUNT_CALL();
    return null_fail(cudaErrorNotSupported);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

/* The last arguments differ between versions, and mean nothing for a stream that does not capture. */
#undef cudaStreamGetCaptureInfo
#define CAPTURE_INFO(name, ...)                                                       \
    VISIBLE cudaError_t name(cudaStream_t stream, enum cudaStreamCaptureStatus *status, \
                             unsigned long long *id, ##__VA_ARGS__)                   \
    {                                                                                 \
        if (id)                                                                       \
            *id = 0;                                                                  \
        return cudaStreamIsCapturing(stream, status);                                 \
    }
#if CUDART_VERSION >= 13000
CAPTURE_INFO(cudaStreamGetCaptureInfo, cudaGraph_t *graph, const cudaGraphNode_t **nodes,
             const cudaGraphEdgeData **edges, size_t *count)
#else
CAPTURE_INFO(cudaStreamGetCaptureInfo)
CAPTURE_INFO(cudaStreamGetCaptureInfo_v2, cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *count)
CAPTURE_INFO(cudaStreamGetCaptureInfo_v3, cudaGraph_t *graph, const cudaGraphNode_t **nodes,
             const cudaGraphEdgeData **edges, size_t *count)
#endif

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    static _Thread_local enum cudaStreamCaptureMode now = cudaStreamCaptureModeGlobal;
    enum cudaStreamCaptureMode before = now;
    now = *mode;
    *mode = before;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    bool shared = flags & cudaEventInterprocess, untimed = flags & cudaEventDisableTiming;
    if (flags > (cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess) || (shared && !untimed))
        return null_fail(cudaErrorInvalidValue);
    null_context(null_device());
    *event = malloc(sizeof **event);
    if (!*event)
        return null_fail(cudaErrorMemoryAllocation);
    **event = (struct CUevent_st){!untimed, 0};
    return cudaSuccess;
}

#undef cudaEventCreate
VISIBLE cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return event ? cudaSuccess : null_fail(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (!event)
        return null_fail(cudaErrorInvalidResourceHandle);
    event->at = __atomic_add_fetch(&records, 1, __ATOMIC_RELAXED);
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return event ? cudaSuccess : null_fail(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return cudaEventQuery(event);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    bool known = start && end && start->timed && end->timed && start->at && end->at;
    if (!known)
        return null_fail(cudaErrorInvalidResourceHandle);
    *milliseconds = (float)((double)end->at - (double)start->at);
    return cudaSuccess;
}
