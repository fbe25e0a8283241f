/* Allocation of device memory and pinned host memory, and the attributes of pointers. */
#include "null.h"
#include <string.h>
#include <sys/mman.h>

static struct ranges pinned;
enum { ALLOCATED, REGISTERED }; /* kinds of pinned memory */

static void *allocate(size_t size, int kind)
{
    int device = null_device();
    uintptr_t at = 0;
    if (!null_context(device) || size > null_profile()->memory)
        return NULL;
    size = null_round(size, GRANULARITY);
    memory_lock();
    if (memory_charge(device, size)) {
        at = space_take(size, device, kind);
        if (!at)
            memory_discharge(device, size);
    }
    memory_unlock();
    return (void *)at;
}

cudaError_t cudaMalloc(void **pointer, size_t size)
{
    *pointer = NULL;
    if (!size)
        return cudaSuccess;
    *pointer = allocate(size, MEMORY);
    return *pointer ? cudaSuccess : null_fail(cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned int flags)
{
    *pointer = size ? allocate(size, MANAGED) : NULL;
    return *pointer ? cudaSuccess : null_fail(size ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
}

cudaError_t cudaFree(void *pointer)
{
    if (!pointer) { /* cudaFree(NULL) is an idiom that creates a context */
        null_context(null_device());
        return cudaSuccess;
    }
    memory_lock();
    struct range *range = space_find((uintptr_t)pointer);
    bool whole = range && range->base == (uintptr_t)pointer && range->kind != RESERVED;
    if (whole) {
        memory_discharge(range->device, range->size);
        space_give_back(range);
    }
    memory_unlock();
    return whole ? cudaSuccess : null_fail(cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    size_t current, peak;
    if (attnmem_null_memory(null_device(), &current, &peak))
        return null_fail(cudaErrorNoDevice);
    *total = null_profile()->memory;
    *available = *total - current;
    return cudaSuccess;
}

CUresult cuMemGetInfo(size_t *available, size_t *total)
{
    return cudaMemGetInfo(available, total) ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned int flags)
{
    *pointer = NULL;
    if (!size)
        return cudaSuccess;
    size = null_round(size, 4096);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return null_fail(cudaErrorMemoryAllocation);
    memory_lock();
    struct range range = {.base = (uintptr_t)at, .size = size, .device = null_device()};
    bool added = ranges_add(&pinned, range);
    memory_unlock();
    if (!added) {
        munmap(at, size);
        return null_fail(cudaErrorMemoryAllocation);
    }
    *pointer = at;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **pointer, size_t size)
{
    return cudaHostAlloc(pointer, size, 0);
}

static size_t unpin(void *pointer, int kind)
{
    memory_lock();
    struct range *range = ranges_find(&pinned, (uintptr_t)pointer);
    bool whole = range && range->base == (uintptr_t)pointer && range->kind == kind;
    size_t size = whole ? range->size : 0;
    if (whole)
        ranges_remove(&pinned, range);
    memory_unlock();
    return size;
}

cudaError_t cudaFreeHost(void *pointer)
{
    if (!pointer)
        return cudaSuccess;
    size_t size = unpin(pointer, ALLOCATED);
    if (!size)
        return null_fail(cudaErrorInvalidValue);
    munmap(pointer, size);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned int flags)
{
    if (!pointer || !size)
        return null_fail(cudaErrorInvalidValue);
    struct range range = {.base = (uintptr_t)pointer, .size = size, .device = null_device(), .kind = REGISTERED};
    memory_lock();
    size_t next = ranges_from(&pinned, range.base);
    bool overlaps = next < pinned.count && pinned.items[next].base - range.base < size;
    bool known = overlaps || ranges_find(&pinned, range.base);
    bool added = !known && ranges_add(&pinned, range);
    memory_unlock();
    if (known)
        return null_fail(cudaErrorHostMemoryAlreadyRegistered);
    return added ? cudaSuccess : null_fail(cudaErrorMemoryAllocation);
}

cudaError_t cudaHostUnregister(void *pointer)
{
    return unpin(pointer, REGISTERED) ? cudaSuccess : null_fail(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
    *device = host; /* unified addressing */
    return null_shared(host) ? cudaSuccess : null_fail(cudaErrorInvalidValue);
}

bool null_on_device(const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    memory_lock();
    bool ours = space_has(address);
    struct range *range = ours ? space_find(address) : NULL;
    bool readable = range && range->kind == MANAGED;
    memory_unlock();
    return ours && !readable;
}

bool null_shared(const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    memory_lock();
    struct range *range = space_find(address);
    bool shared = (range && range->kind == MANAGED) || ranges_find(&pinned, address);
    memory_unlock();
    return shared;
}

int null_pointer_device(uintptr_t pointer)
{
    memory_lock();
    struct range *range = space_find(pointer);
    int device = -1;
    if (range)
        device = range->kind == RESERVED ? virtual_device(pointer) : range->device;
    memory_unlock();
    return device;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    memset(attributes, 0, sizeof *attributes);
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    int device = null_pointer_device(address);
    memory_lock();
    struct range *range = space_find(address), *host = ranges_find(&pinned, address);
    if (device >= 0 && range) {
        attributes->type = range->kind == MANAGED ? cudaMemoryTypeManaged : cudaMemoryTypeDevice;
        attributes->device = device;
        attributes->devicePointer = (void *)pointer;
        attributes->hostPointer = range->kind == MANAGED ? (void *)pointer : NULL;
    } else if (host) {
        attributes->type = cudaMemoryTypeHost;
        attributes->device = host->device;
        attributes->devicePointer = attributes->hostPointer = (void *)pointer;
    }
    memory_unlock();
    return cudaSuccess;
}
