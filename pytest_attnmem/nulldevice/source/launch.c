/* Kernels, identified by address: a launch is checked as on a device, and nothing runs. */
#include "null.h"
#include <string.h>

#define CONFIGURATIONS 16 /* most nested <<<>>>; compiled code pops each one right after the push */

static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    void *stream;
} pending[CONFIGURATIONS];
static _Thread_local unsigned depth;

VISIBLE unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    if (depth == CONFIGURATIONS)
        return 1;
    pending[depth].grid = grid;
    pending[depth].block = block;
    pending[depth].shared = shared;
    pending[depth++].stream = stream;
    return 0;
}

VISIBLE cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (!depth)
        return null_fail(cudaErrorMissingConfiguration);
    depth--;
    *grid = pending[depth].grid;
    *block = pending[depth].block;
    *shared = pending[depth].shared;
    *(void **)stream = pending[depth].stream;
    return cudaSuccess;
}

/* Programs register their kernels when they load. A handle is the architecture of its kernels. */
VISIBLE void **__cudaRegisterFatBinary(void *binary)
{
    return (void **)(intptr_t)(images_architecture(binary) + 1); /* never NULL */
}
VISIBLE void __cudaRegisterFatBinaryEnd(void **binary)
{
}
VISIBLE void __cudaUnregisterFatBinary(void **binary)
{
}
VISIBLE void __cudaRegisterFunction(void **binary, const void *kernel)
{
    images_add(kernel, (int)(intptr_t)binary - 1);
}
VISIBLE void __cudaRegisterVar(void)
{
}
VISIBLE char __cudaInitModule(void **binary)
{
    return 1;
}
VISIBLE cudaError_t __cudaGetKernel(const void **kernel, const void *function)
{
    *kernel = function;
    return cudaSuccess;
}

static bool within(dim3 size, unsigned x, unsigned y, unsigned z)
{
    return size.x && size.y && size.z && size.x <= x && size.y <= y && size.z <= z;
}

cudaError_t null_launchable(dim3 grid, dim3 block, size_t shared)
{
    unsigned long long threads = (unsigned long long)block.x * block.y * block.z;
    bool fits = within(grid, 2147483647, 65535, 65535) && within(block, 1024, 1024, 64) && threads <= 1024;
    if (!fits)
        return cudaErrorInvalidConfiguration;
    return shared <= null_profile()->shared_per_block ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream)
{
    null_launched(kernel);
    return null_fail(null_launchable(grid, block, shared));
}

VISIBLE cudaError_t __cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                       cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                        cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **arguments)
{
    return cudaLaunchKernel(kernel, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                            config->stream);
}

/* Only the compiler knows the number of registers; 64 is the most that 1024 threads can have. */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    memset(attributes, 0, sizeof *attributes);
    attributes->binaryVersion = attributes->ptxVersion = images_of(kernel);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 64;
    attributes->maxDynamicSharedSizeBytes = (int)null_profile()->shared_per_block;
    return cudaSuccess;
}

static bool allowed(int attribute, int value)
{
    bool shared = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize;
    return !shared || (size_t)value <= null_profile()->shared_per_block;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    return allowed(attribute, value) ? cudaSuccess : null_fail(cudaErrorInvalidValue);
}

cudaError_t cudaFuncSetCacheConfig(const void *kernel, enum cudaFuncCache config)
{
    return cudaSuccess;
}

int null_occupancy(int threads, size_t shared)
{
    const struct profile *p = null_profile();
    int warps = (threads + 31) / 32;
    if (warps < 1)
        return 0;
    size_t each = shared + (size_t)null_attribute(cudaDevAttrReservedSharedMemoryPerBlock, 0);
    int most = p->threads_per_multiprocessor / (32 * warps);
    if (most > p->blocks_per_multiprocessor)
        most = p->blocks_per_multiprocessor;
    if (each && p->shared_per_multiprocessor / each < (size_t)most)
        most = (int)(p->shared_per_multiprocessor / each);
    return most;
}

#undef cudaOccupancyMaxActiveBlocksPerMultiprocessor
VISIBLE cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads,
                                                                  size_t shared)
{
    *blocks = null_occupancy(threads, shared);
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel, int threads,
                                                                   size_t shared, unsigned int flags)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared);
}

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *kernel, const cudaLaunchConfig_t *config)
{
    *clusters = null_profile()->capability >= 90 ? 8 : 0;
    return cudaSuccess;
}
