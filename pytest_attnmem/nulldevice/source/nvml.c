/* NVML, from which PyTorch reads the number and the identity of devices.
 *
 * No CUDA package of PyTorch has the header of NVML, so the few declarations are written here.
 */
#include "null.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

struct memory_info {
    unsigned long long total, available, used;
};

VISIBLE int nvmlInit_v2(void)
{
    return SUCCESS;
}

VISIBLE int nvmlInit(void)
{
    return SUCCESS;
}

VISIBLE int nvmlShutdown(void)
{
    return SUCCESS;
}

VISIBLE const char *nvmlErrorString(int error)
{
    switch (error) {
    case SUCCESS:
        return "Success";
    case INVALID_ARGUMENT:
        return "Invalid Argument";
    case NOT_SUPPORTED:
        return "Not Supported";
    case NOT_FOUND:
        return "Not Found";
    case INSUFFICIENT_SIZE:
        return "Insufficient Size";
    default:
        return "Unknown Error";
    }
}

VISIBLE int nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = (unsigned int)null_profile()->installed; /* NVML ignores CUDA_VISIBLE_DEVICES */
    return SUCCESS;
}

/* A handle is the index of the device plus one. */
static bool known(const void *device)
{
    return device && (uintptr_t)device <= (uintptr_t)null_profile()->installed;
}

VISIBLE int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
    void *handle = (void *)((uintptr_t)index + 1);
    if (!known(handle))
        return INVALID_ARGUMENT;
    *device = handle;
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    unsigned int number;
    if (sscanf(bus, "%*x:%x:", &number) != 1)
        return INVALID_ARGUMENT;
    return nvmlDeviceGetHandleByIndex_v2(number - 1, device) ? NOT_FOUND : SUCCESS;
}

/* Writes a text if it fits. */
__attribute__((format(printf, 3, 4))) static int told(char *text, unsigned int size, const char *form, ...)
{
    char whole[256];
    va_list values;
    va_start(values, form);
    int length = vsnprintf(whole, sizeof whole, form, values);
    va_end(values);
    if ((unsigned int)length >= size)
        return INSUFFICIENT_SIZE;
    memcpy(text, whole, (size_t)length + 1);
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetName(void *device, char *name, unsigned int size)
{
    return known(device) ? told(name, size, "%s", null_profile()->name) : INVALID_ARGUMENT;
}

VISIBLE int nvmlDeviceGetUUID(void *device, char *text, unsigned int size)
{
    return known(device) ? told(text, size, UUID_FORM, (unsigned int)(uintptr_t)device) : INVALID_ARGUMENT;
}

VISIBLE int nvmlDeviceGetMemoryInfo(void *device, struct memory_info *info)
{
    size_t current = 0, peak;
    if (!known(device))
        return INVALID_ARGUMENT;
    /* The process uses nothing of a device that it does not see. */
    attnmem_null_memory(null_ordinal((unsigned int)(uintptr_t)device - 1), &current, &peak);
    *info = (struct memory_info){null_profile()->memory, null_profile()->memory - current, current};
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, void *processes)
{
    *count = 0;
    return known(device) ? SUCCESS : INVALID_ARGUMENT;
}

VISIBLE int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned int *count, void *processes)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}

VISIBLE int nvmlSystemGetDriverVersion(char *text, unsigned int size)
{
    return told(text, size, "0.0");
}

VISIBLE int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = CUDART_VERSION;
    return SUCCESS;
}

/* Devices have no link between them. */
VISIBLE int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned int link, int *type)
{
    return NOT_SUPPORTED;
}

VISIBLE int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned int link, void *info)
{
    return NOT_SUPPORTED;
}

/* PyTorch asks before it maps memory. It passes a zeroed struct, which means: no fabric. */
VISIBLE int nvmlDeviceGetGpuFabricInfoV(void *device, void *info)
{
    return SUCCESS;
}
