/* The macros that CUDA's headers take from crt/host_defines.h, which the runtime packages lack.
 *
 * They state where a function runs and how a type is laid out. A host C compiler needs only the
 * layout.
 */
#ifndef ATTNMEM_NULL_HOST_DEFINES
#define ATTNMEM_NULL_HOST_DEFINES

#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __no_return__ __attribute__((noreturn))
#define __thread__ __thread
#define __location__(a) __attribute__((a))
#define __device_builtin__
#define __device_builtin_surface_type__
#define __device_builtin_texture_type__
#define __cudart_builtin__
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDAAPI

#endif
