/* The driver's libraries and their kernels, which cuDNN loads when it plans. */
#include "null.h"

/* One library and one kernel stand for all, because nothing looks inside them. */
static char a_library, a_kernel;

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values,
                           unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
    if (!code)
        return CUDA_ERROR_INVALID_VALUE;
    *library = (CUlibrary)&a_library;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values,
                               unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
    CUmodule module;
    CUresult error = cuModuleLoad(&module, path);
    if (!error)
        *library = (CUlibrary)&a_library;
    return error;
}

static CUresult check(CUlibrary library)
{
    return library == (CUlibrary)&a_library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    return check(library);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *kernel = (CUkernel)&a_kernel;
    return check(library);
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    CUresult error = check(library);
    return error ? error : cuModuleLoadData(module, library);
}

/* The driver lets a kernel be used where a function is asked for. */
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    *function = (CUfunction)kernel;
    return kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
    return cuFuncGetAttribute(value, attribute, (CUfunction)kernel);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
    return cuFuncSetAttribute((CUfunction)kernel, attribute, value);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    return kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
