/* The device that cuDNN plans for: its properties, from the profile.
 *
 * cuDNN names the 23 properties that it misses when it reads the text. All but three are attributes
 * that CUDA documents. `pciDeviceId` is the number of the slot on the bus, which CUDA reports as 0
 * on most machines; `isTccDriver` is a driver of Windows; `deviceName` is the profile's.
 */
#include "cudnn.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static char json[2048];
static backend_descriptor property;
static pthread_once_t described = PTHREAD_ONCE_INIT, made = PTHREAD_ONCE_INIT;

/* Copies a name without what JSON would quote. */
static void name_into(char *name, size_t size)
{
    const char *from = null_profile()->name;
    size_t at = 0;
    for (; from[at] && at + 1 < size; at++)
        name[at] = (unsigned char)from[at] < ' ' || from[at] == '"' || from[at] == '\\' ? '_' : from[at];
    name[at] = '\0';
}

static void describe(void)
{
    char name[256];
    name_into(name, sizeof name);
#define ASK(attribute) null_attribute(cudaDevAttr##attribute, 0)
    snprintf(json, sizeof json,
             "{\"maxGridSize\":[%d,%d,%d],\"maxBlockSize\":[%d,%d,%d],\"regsPerBlock\":%d,"
             "\"multiProcessorCount\":%d,\"warpSize\":%d,\"maxSharedMemoryPerBlock\":%d,"
             "\"maxSharedMemoryPerBlockOptin\":%d,\"reservedSharedMemoryPerBlock\":%d,"
             "\"maxRegistersPerSM\":%d,\"maxCtasPerSM\":%d,\"maxThreadsPerBlock\":%d,\"maxThreadsPerSM\":%d,"
             "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":%d,\"smClockRateKHz\":%d,"
             "\"memClockRateKHz\":%d,\"l2CacheSize\":%d,\"deviceName\":\"%s\",\"deviceVer\":%d,"
             "\"driverVer\":%d,\"totalGlobalMem\":%zu,\"cudaDeviceId\":0}",
             ASK(MaxGridDimX), ASK(MaxGridDimY), ASK(MaxGridDimZ), ASK(MaxBlockDimX), ASK(MaxBlockDimY),
             ASK(MaxBlockDimZ), ASK(MaxRegistersPerBlock), ASK(MultiProcessorCount), ASK(WarpSize),
             ASK(MaxSharedMemoryPerBlock), ASK(MaxSharedMemoryPerBlockOptin), ASK(ReservedSharedMemoryPerBlock),
             ASK(MaxRegistersPerMultiprocessor), ASK(MaxBlocksPerMultiprocessor), ASK(MaxThreadsPerBlock),
             ASK(MaxThreadsPerMultiProcessor), ASK(CooperativeLaunch), ASK(ClockRate), ASK(MemoryClockRate),
             ASK(L2CacheSize), name, 10 * null_profile()->capability, CUDART_VERSION,
             null_profile()->memory);
#undef ASK
}

const char *cudnn_device_json(void)
{
    pthread_once(&described, describe);
    return json;
}

static void make(void)
{
    const struct cudnn_library *library = cudnn_library();
    const char *text = cudnn_device_json();
    backend_descriptor fresh;
    if (!library || library->create(DEVICE_PROPERTY, &fresh))
        return;
    if (library->set(fresh, DEVICE_JSON, TYPE_CHAR, (int64_t)strlen(text) + 1, text) || library->finalize(fresh))
        library->destroy(fresh);
    else
        property = fresh;
}

backend_descriptor cudnn_device(void)
{
    pthread_once(&made, make);
    return property;
}
