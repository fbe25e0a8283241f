/* The properties of a device, read from the profile in the environment. */
#include "null.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct profile profile;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static long long number(const char *name)
{
    const char *text = getenv(name);
    return text ? atoll(text) : 0;
}

static struct {
    int ordinal;   /* of the installed device of this index: its number in CUDA_VISIBLE_DEVICES, or -1 */
    int installed; /* of the device that the program sees under this number: its index */
} *numbers;

/* Returns the index of the one device whose UUID begins with a word of a list, or -1. */
static long with_uuid(const char *word, int devices)
{
    long found = -1;
    for (int device = 0; device < devices; device++) {
        char uuid[48];
        snprintf(uuid, sizeof uuid, UUID_FORM, (unsigned int)device + 1);
        if (strncmp(word, uuid, strcspn(word, ",")))
            continue;
        if (found >= 0)
            return -1;
        found = device;
    }
    return found;
}

/* Returns the number of devices in CUDA_VISIBLE_DEVICES, and numbers them. */
static int visible(int devices)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    int count = 0;
    numbers = calloc(devices > 0 ? (size_t)devices : 1, sizeof *numbers);
    if (!numbers)
        abort();
    for (int device = 0; device < devices; device++) {
        numbers[device].ordinal = text ? -1 : device;
        numbers[device].installed = device;
    }
    while (text) {
        char *end;
        long index = strtol(text, &end, 10);
        if (!strncmp(text, "GPU-", 4)) {
            index = with_uuid(text, devices);
            end = strchr(text, '\0');
        }
        if (end == text || index < 0 || index >= devices)
            return count; /* CUDA also stops at the first missing device */
        if (numbers[index].ordinal >= 0)
            return 0; /* and shows none if one is named twice */
        numbers[index].ordinal = count;
        numbers[count++].installed = (int)index;
        text = strchr(text, ','); /* and reads the digits alone */
        text = text ? text + 1 : "";
    }
    return devices;
}

static void read_profile(void)
{
    const char *name = getenv("ATTNMEM_NULL_NAME");
    profile.name = name ? strdup(name) : "";
    profile.capability = (int)number("ATTNMEM_NULL_CAPABILITY");
    profile.multiprocessors = (int)number("ATTNMEM_NULL_MULTIPROCESSORS");
    profile.memory = (size_t)number("ATTNMEM_NULL_MEMORY");
    profile.shared_per_block = (size_t)number("ATTNMEM_NULL_SHARED_PER_BLOCK");
    profile.shared_per_multiprocessor = (size_t)number("ATTNMEM_NULL_SHARED_PER_MULTIPROCESSOR");
    profile.l2 = (size_t)number("ATTNMEM_NULL_L2");
    profile.threads_per_multiprocessor = (int)number("ATTNMEM_NULL_THREADS_PER_MULTIPROCESSOR");
    profile.blocks_per_multiprocessor = (int)number("ATTNMEM_NULL_BLOCKS_PER_MULTIPROCESSOR");
    profile.bus_bits = (int)number("ATTNMEM_NULL_BUS_BITS");
    profile.clock_khz = (int)number("ATTNMEM_NULL_CLOCK_KHZ");
    profile.memory_clock_khz = (int)number("ATTNMEM_NULL_MEMORY_CLOCK_KHZ");
    profile.peer_access = number("ATTNMEM_NULL_PEER_ACCESS");
    if (profile.memory) /* without a profile there is no device */
        profile.installed = (int)number("ATTNMEM_NULL_DEVICES");
    profile.devices = visible(profile.installed);
}

const struct profile *null_profile(void)
{
    pthread_once(&once, read_profile);
    return &profile;
}

int null_ordinal(unsigned int installed)
{
    return installed < (unsigned int)null_profile()->installed ? numbers[installed].ordinal : -1;
}

bool null_is_device(int device)
{
    return device >= 0 && device < null_profile()->devices;
}

/* The runtime and the driver number attributes alike. An attribute that is not listed is a feature
 * that this device lacks. */
int null_attribute(int attribute, int device)
{
    const struct profile *p = null_profile();
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
        return p->capability / 10;
    case cudaDevAttrComputeCapabilityMinor:
        return p->capability % 10;
    case cudaDevAttrMultiProcessorCount:
        return p->multiprocessors;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        return p->threads_per_multiprocessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
        return p->blocks_per_multiprocessor;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        return 48 * 1024;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        return (int)p->shared_per_block;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        return (int)p->shared_per_multiprocessor;
    case cudaDevAttrReservedSharedMemoryPerBlock:
        return p->capability >= 80 ? 1024 : 0;
    case cudaDevAttrL2CacheSize:
        return (int)p->l2;
    case cudaDevAttrGlobalMemoryBusWidth:
        return p->bus_bits;
    case cudaDevAttrClockRate:
        return p->clock_khz;
    case cudaDevAttrMemoryClockRate:
        return p->memory_clock_khz;
    case cudaDevAttrPciBusId:
        return numbers[device].installed + 1; /* as NVML has it */
    case cudaDevAttrWarpSize:
        return 32;
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
        return 1024;
    case cudaDevAttrMaxBlockDimZ:
        return 64;
    case cudaDevAttrMaxGridDimX:
    case cudaDevAttrMaxPitch:
        return 2147483647;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
        return 65535;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
    case cudaDevAttrTotalConstantMemory:
        return 65536;
    case cudaDevAttrTextureAlignment:
        return 512;
    case cudaDevAttrAsyncEngineCount:
        return 2;
    case cudaDevAttrClusterLaunch:
        return p->capability >= 90;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrComputePreemptionSupported:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        return 1;
    default:
        return 0;
    }
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    if (!null_is_device(device))
        return null_fail(cudaErrorInvalidDevice);
    *value = null_attribute((int)attribute, device);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    if (!null_is_device(device))
        return null_fail(cudaErrorInvalidDevice);
    struct cudaDeviceProp p;
    memset(&p, 0, sizeof p);
#define ASK(attribute) null_attribute(cudaDevAttr##attribute, device)
    snprintf(p.name, sizeof p.name, "%s", null_profile()->name);
    for (int i = 0; i < 4; i++) /* the same as in nvml.c */
        p.uuid.bytes[15 - i] = (char)((unsigned int)ASK(PciBusId) >> 8 * i);
    p.totalGlobalMem = null_profile()->memory;
    p.major = ASK(ComputeCapabilityMajor);
    p.minor = ASK(ComputeCapabilityMinor);
    p.multiProcessorCount = ASK(MultiProcessorCount);
    p.maxThreadsPerMultiProcessor = ASK(MaxThreadsPerMultiProcessor);
    p.maxBlocksPerMultiProcessor = ASK(MaxBlocksPerMultiprocessor);
    p.sharedMemPerBlock = (size_t)ASK(MaxSharedMemoryPerBlock);
    p.sharedMemPerBlockOptin = (size_t)ASK(MaxSharedMemoryPerBlockOptin);
    p.sharedMemPerMultiprocessor = (size_t)ASK(MaxSharedMemoryPerMultiprocessor);
    p.reservedSharedMemPerBlock = (size_t)ASK(ReservedSharedMemoryPerBlock);
    p.regsPerBlock = ASK(MaxRegistersPerBlock);
    p.regsPerMultiprocessor = ASK(MaxRegistersPerMultiprocessor);
    p.warpSize = ASK(WarpSize);
    p.maxThreadsPerBlock = ASK(MaxThreadsPerBlock);
    p.maxThreadsDim[0] = ASK(MaxBlockDimX);
    p.maxThreadsDim[1] = ASK(MaxBlockDimY);
    p.maxThreadsDim[2] = ASK(MaxBlockDimZ);
    p.maxGridSize[0] = ASK(MaxGridDimX);
    p.maxGridSize[1] = ASK(MaxGridDimY);
    p.maxGridSize[2] = ASK(MaxGridDimZ);
    p.memPitch = (size_t)ASK(MaxPitch);
    p.l2CacheSize = ASK(L2CacheSize);
    p.memoryBusWidth = ASK(GlobalMemoryBusWidth);
    p.totalConstMem = (size_t)ASK(TotalConstantMemory);
    p.textureAlignment = (size_t)ASK(TextureAlignment);
    p.asyncEngineCount = ASK(AsyncEngineCount);
    p.pciBusID = ASK(PciBusId);
    p.unifiedAddressing = ASK(UnifiedAddressing);
    p.canMapHostMemory = ASK(CanMapHostMemory);
    p.concurrentKernels = ASK(ConcurrentKernels);
    p.cooperativeLaunch = ASK(CooperativeLaunch);
    p.managedMemory = ASK(ManagedMemory);
    p.concurrentManagedAccess = ASK(ConcurrentManagedAccess);
    p.hostRegisterSupported = ASK(HostRegisterSupported);
    p.streamPrioritiesSupported = ASK(StreamPrioritiesSupported);
    p.computePreemptionSupported = ASK(ComputePreemptionSupported);
#undef ASK
    *properties = p;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device)
{
    if (!null_is_device(device))
        return null_fail(cudaErrorInvalidDevice);
    char id[16];
    int length = snprintf(id, sizeof id, "0000:%02X:00.0", null_attribute(cudaDevAttrPciBusId, device));
    if (size <= length)
        return null_fail(cudaErrorInvalidValue);
    strcpy(text, id);
    return cudaSuccess;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    if (!null_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)size, "%s", null_profile()->name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    *bytes = null_profile()->memory;
    return null_is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    if (!null_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *value = null_attribute((int)attribute, device);
    return CUDA_SUCCESS;
}
