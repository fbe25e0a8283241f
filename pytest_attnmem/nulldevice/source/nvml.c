/* NVML, from which PyTorch reads the number and the identity of devices.
 *
 * No CUDA package of PyTorch has the header of NVML, so the few declarations are written here.
 */
#include "null.h"
#include <stdio.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

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
    return error ? "not supported by the null device" : "success";
}

VISIBLE int nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = (unsigned int)null_profile()->installed; /* NVML ignores CUDA_VISIBLE_DEVICES */
    return SUCCESS;
}

/* A handle is the index of the device plus one. */
VISIBLE int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
    *device = (void *)(uintptr_t)(index + 1);
    return (int)index < null_profile()->installed ? SUCCESS : INVALID_ARGUMENT;
}

VISIBLE int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    unsigned int number;
    if (sscanf(bus, "%*x:%x:", &number) != 1 || !number)
        return NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2(number - 1, device);
}

VISIBLE int nvmlDeviceGetName(void *device, char *name, unsigned int size)
{
    snprintf(name, size, "%s", null_profile()->name);
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetUUID(void *device, char *text, unsigned int size)
{
    snprintf(text, size, "GPU-00000000-0000-0000-0000-%012x", (unsigned int)(uintptr_t)device);
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetMemoryInfo(void *device, struct memory_info *info)
{
    size_t current, peak;
    if (attnmem_null_memory((int)(uintptr_t)device - 1, &current, &peak))
        return INVALID_ARGUMENT;
    *info = (struct memory_info){null_profile()->memory, null_profile()->memory - current, current};
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, void *processes)
{
    *count = 0;
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned int *count, void *processes)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}

VISIBLE int nvmlSystemGetDriverVersion(char *text, unsigned int size)
{
    snprintf(text, size, "0.0");
    return SUCCESS;
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
