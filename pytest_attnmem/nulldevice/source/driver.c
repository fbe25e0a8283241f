/* The driver API: kernels that Triton and compiled code load and launch, and lookup by name. */
#include "null.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One module and one function stand for all, because nothing looks inside them. */
static char a_module, a_function;
#define SHARED_SIZE CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    *module = (CUmodule)&a_module;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                            void **values)
{
    return cuModuleLoadData(module, image);
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    if (path && access(path, R_OK))
        return CUDA_ERROR_FILE_NOT_FOUND;
    return cuModuleLoadData(module, path);
}

CUresult cuModuleUnload(CUmodule module)
{
    return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *function = (CUfunction)&a_function;
    return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((unsigned int)attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 64;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = null_profile()->capability;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    bool fits = attribute != SHARED_SIZE || (size_t)value <= null_profile()->shared_per_block;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* The driver has one error for every launch that the runtime refuses. */
static CUresult launchable(dim3 grid, dim3 block, size_t shared)
{
    return null_launchable(grid, block, shared) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                        CUstream stream, void **arguments, void **extra)
{
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    null_launched(NULL);
    return launchable((dim3){grid_x, grid_y, grid_z}, (dim3){block_x, block_y, block_z}, shared);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **arguments, void **extra)
{
    return cuLaunchKernel(function, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
                          c->sharedMemBytes, c->hStream, arguments, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared, CUstream stream, void **arguments)
{
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments,
                          NULL);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared)
{
    *blocks = null_occupancy(threads, shared);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config)
{
    cudaOccupancyMaxActiveClusters(clusters, function, NULL);
    return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *dim, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill)
{
    if (rank < 1 || rank > 5 || (uintptr_t)address % 16)
        return CUDA_ERROR_INVALID_VALUE;
    for (cuuint32_t i = 0; i < rank; i++)
        if (!dim[i] || !box[i] || box[i] > 256)
            return CUDA_ERROR_INVALID_VALUE;
    memset(map, 0, sizeof *map); /* only kernels read it */
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    int device = null_pointer_device((uintptr_t)pointer);
    if (device < 0)
        return CUDA_ERROR_INVALID_VALUE; /* host memory, which Triton refuses */
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = pointer;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(CUmemorytype *)data = CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = null_context(device);
        return CUDA_SUCCESS;
    default:
        COUNT_CALL();
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* Libraries with their own runtime ask for tables that only a real driver has. This error makes them
 * fail with their own message before they compute. cuDNN asks for itself and for libraries that it
 * uses, and plans nevertheless: it was given the properties of a device. NVRTC asks too, and compiles
 * nevertheless, for the architecture that it is told; and so does CUDA's runtime, which has the texts
 * of errors. */
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    const void *caller = __builtin_return_address(0);
    if (!null_is_planning() && !null_of_library(caller, "libnvrtc") && !null_of_library(caller, "libcudart"))
        COUNT_CALL();
    *table = NULL;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* generated by nulldevice/stubs.py: the driver's calls that this runtime does not know */
bool null_is_stub(const char *name);

/* Returns a function by name: a known version if there is one, else a stub. */
static void *entry(const char *name)
{
    static const char *const versions[] = {"", "_v2", "_v3", "_v4"};
    Dl_info self;
    void *stub = NULL, *library = NULL;
    if (dladdr((void *)&a_module, &self))
        library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    for (size_t i = 0; library && i < sizeof versions / sizeof *versions; i++) {
        char versioned[256];
        snprintf(versioned, sizeof versioned, "%s%s", name, versions[i]);
        void *found = dlsym(library, versioned);
        if (found && !null_is_stub(versioned))
            return found;
        stub = stub ? stub : found;
    }
    return stub;
}

#undef cudaGetDriverEntryPoint
VISIBLE cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                            enum cudaDriverEntryPointQueryResult *result)
{
    *function = entry(name);
    if (result)
        *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

#if CUDART_VERSION >= 12050
VISIBLE cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned int version,
                                                     unsigned long long flags,
                                                     enum cudaDriverEntryPointQueryResult *result)
{
    return cudaGetDriverEntryPoint(name, function, flags, result);
}
#endif

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *result)
{
    *function = entry(name);
    if (result)
        *result = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
