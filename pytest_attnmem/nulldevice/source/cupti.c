/* CUPTI, as the profiler of PyTorch calls it: no kernel runs, so there are no activities to record.
 *
 * NVIDIA's own asks for tables that only a real driver has; from CUDA 13.2 on it then calls itself
 * until the stack is full.
 */
#include "null.h"

#define DONE 0     /* CUPTI_SUCCESS */
#define NO_MORE 12 /* CUPTI_ERROR_MAX_LIMIT_REACHED */
#define EMPTY 18   /* CUPTI_ERROR_QUEUE_EMPTY */
#define ACCEPTED(name)     \
    VISIBLE int name(void) \
    {                      \
        return DONE;       \
    }

ACCEPTED(cudaProfilerStart)
ACCEPTED(cudaProfilerStop)
ACCEPTED(cuptiUnsubscribe)
ACCEPTED(cuptiFinalize)
ACCEPTED(cuptiEnableCallback)
ACCEPTED(cuptiEnableDomain)
ACCEPTED(cuptiActivityEnable)
ACCEPTED(cuptiActivityDisable)
ACCEPTED(cuptiActivityEnableCudaEventDeviceTimestamps)
ACCEPTED(cuptiActivityEnableDriverApi)
ACCEPTED(cuptiActivityEnableRuntimeApi)
ACCEPTED(cuptiActivityFlushAll)
ACCEPTED(cuptiActivityPushExternalCorrelationId)
ACCEPTED(cuptiActivityRegisterCallbacks)
ACCEPTED(cuptiActivityRegisterTimestampCallback)
ACCEPTED(cuptiActivitySetAttribute)

VISIBLE int cuptiGetVersion(uint32_t *version)
{
    *version = 10 * CUDART_VERSION; /* as from CUDA 13 on */
    return DONE;
}

VISIBLE int cuptiSubscribe(void **subscriber, void *callback, void *data)
{
    static char subscribed;
    *subscriber = &subscribed;
    return DONE;
}

VISIBLE int cuptiGetCallbackName(int domain, uint32_t callback, const char **name)
{
    *name = "";
    return DONE;
}

VISIBLE int cuptiGetResultString(int result, const char **text)
{
    *text = result ? "CUPTI_ERROR" : "CUPTI_SUCCESS";
    return DONE;
}

VISIBLE int cuptiActivityGetNextRecord(uint8_t *buffer, size_t size, void **record)
{
    return NO_MORE;
}

VISIBLE int cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
    *dropped = 0;
    return DONE;
}

VISIBLE int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last)
{
    return EMPTY;
}
