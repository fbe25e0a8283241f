/* Launches of kernels that are not PyTorch's own: nobody knows which memory they write.
 *
 * PyTorch launches its kernels through the runtime, from its libraries. Triton, compiled code and
 * NVRTC use the driver, and an extension has a library of its own.
 */
#include "null.h"
#include <dlfcn.h>
#include <string.h>

#define SEEN 4096 /* kernels remembered, by address */

/* Read by Python as a variable: the number of these launches. */
VISIBLE unsigned long attnmem_null_foreign_launches;

bool null_of_library(const void *address, const char *prefix)
{
    Dl_info library;
    if (!dladdr(address, &library) || !library.dli_fname)
        return false;
    const char *name = strrchr(library.dli_fname, '/');
    return !strncmp(name ? name + 1 : library.dli_fname, prefix, strlen(prefix));
}

void null_launched(const void *kernel)
{
    static _Thread_local const void *seen[SEEN];
    const void **known = &seen[((uintptr_t)kernel >> 4) % SEEN];
    if (kernel && *known == kernel)
        return;
    if (kernel && null_of_library(kernel, "libtorch"))
        *known = kernel;
    else
        __atomic_fetch_add(&attnmem_null_foreign_launches, 1, __ATOMIC_RELAXED);
}
