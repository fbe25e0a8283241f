/* CUDA's virtual memory management, which expandable segments use: it separates addresses and memory.
 *
 * Memory is in use from its creation until it is released and unmapped everywhere, as on a device.
 */
#include "null.h"
#include <stdlib.h>
#include <string.h>

struct physical {
    int device;
    size_t size, references; /* one for the handle, and one for each mapping */
    CUmemAllocationProp properties;
};

static struct ranges handles, mappings; /* callers hold the lock; a handle is the address of its struct */

static struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
    struct range *range = ranges_find(&handles, (uintptr_t)handle);
    return range ? range->owner : NULL;
}

static void drop(struct physical *physical)
{
    if (--physical->references)
        return;
    memory_discharge(physical->device, physical->size);
    ranges_remove(&handles, ranges_find(&handles, (uintptr_t)physical));
    free(physical);
}

int virtual_device(uintptr_t address)
{
    struct range *mapping = ranges_find(&mappings, address);
    return mapping ? mapping->device : -1;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option)
{
    if (!null_is_device(properties->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    *granularity = GRANULARITY;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags)
{
    if (!size || size % GRANULARITY || alignment > GRANULARITY)
        return CUDA_ERROR_INVALID_VALUE;
    memory_lock();
    *pointer = (CUdeviceptr)space_take(size, -1, RESERVED);
    memory_unlock();
    return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size)
{
    memory_lock();
    struct range *range = space_find((uintptr_t)pointer);
    bool whole = range && range->kind == RESERVED && range->base == pointer && range->size == size;
    if (whole)
        space_give_back(range);
    memory_unlock();
    return whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
                     unsigned long long flags)
{
    int device = properties->location.id;
    if (!size || size % GRANULARITY)
        return CUDA_ERROR_INVALID_VALUE;
    if (!null_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct physical *physical = malloc(sizeof *physical);
    if (!physical)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *physical = (struct physical){device, size, 1, *properties};
    struct range range = {.base = (uintptr_t)physical, .size = 1, .device = device, .owner = physical};
    memory_lock();
    bool fits = memory_charge(device, size);
    bool added = fits && ranges_add(&handles, range);
    if (fits && !added)
        memory_discharge(device, size);
    memory_unlock();
    if (!added) {
        free(physical);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    memory_lock();
    struct physical *physical = physical_of(handle);
    if (physical)
        drop(physical);
    memory_unlock();
    return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool free_for_mapping(uintptr_t at, size_t size)
{
    struct range *space = space_find(at);
    bool inside = space && space->kind == RESERVED && at + size <= space->base + space->size;
    size_t next = ranges_from(&mappings, at);
    bool before_next = next == mappings.count || mappings.items[next].base >= at + size;
    return inside && before_next && !ranges_find(&mappings, at);
}

CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    memory_lock();
    struct physical *physical = physical_of(handle);
    bool valid = physical && !offset && size == physical->size && free_for_mapping((uintptr_t)pointer, size);
    if (valid) {
        struct range range = {(uintptr_t)pointer, size, physical->device, 0, physical};
        valid = ranges_add(&mappings, range);
        physical->references += valid;
    }
    memory_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t size)
{
    uintptr_t end = (uintptr_t)pointer + size;
    memory_lock();
    size_t at = ranges_from(&mappings, (uintptr_t)pointer);
    bool any = false;
    while (at < mappings.count && mappings.items[at].base + mappings.items[at].size <= end) {
        struct physical *physical = mappings.items[at].owner;
        ranges_remove(&mappings, &mappings.items[at]);
        drop(physical);
        any = true;
    }
    memory_unlock();
    return any ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Access is given to whole mappings without gaps. */
CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *access, size_t count)
{
    if (!access || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && !null_is_device(access[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
    memory_lock();
    uintptr_t at = (uintptr_t)pointer, end = at + size;
    const struct range *mapping;
    while (at < end && (mapping = ranges_find(&mappings, at)))
        at = mapping->base + mapping->size;
    memory_unlock();
    return size && at == end ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *pointer)
{
    memory_lock();
    struct range *mapping = ranges_find(&mappings, (uintptr_t)pointer);
    if (mapping) {
        struct physical *physical = mapping->owner;
        physical->references++;
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    }
    memory_unlock();
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                CUmemGenericAllocationHandle handle)
{
    memory_lock();
    struct physical *physical = physical_of(handle);
    if (physical)
        *properties = physical->properties;
    memory_unlock();
    return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    memory_lock();
    struct range *range = space_find((uintptr_t)pointer);
    if (range && base)
        *base = (CUdeviceptr)range->base;
    if (range && size)
        *size = range->size;
    memory_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
