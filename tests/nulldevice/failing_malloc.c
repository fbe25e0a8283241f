/* Memory of the host that the null runtime, and nobody else, asks for in vain while `failing` is set:
 * after `spared` more requests. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

int failing, spared;

static int fails(const void *caller) {
    Dl_info library;
    if (!failing || !dladdr(caller, &library) || !strstr(library.dli_fname, "libcuda.so.1"))
        return 0;
    if (spared > 0) {
        spared--;
        return 0;
    }
    return 1;
}

void *malloc(size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}
