/* The installed cuDNN, which torch loads; this library defines functions of the same names. */
#include "cudnn.h"
#include <dlfcn.h>
#include <pthread.h>

static struct cudnn_library library;
static bool found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void)
{
    /* RTLD_NEXT would miss it: torch loads it after this library, and not for all. */
    void *file = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_NOLOAD);
    if (!file || dlsym(file, "attnmem_null_is_missing"))
        return;
    library.version = dlsym(file, "cudnnGetVersion");
    library.create = dlsym(file, "cudnnBackendCreateDescriptor");
    library.destroy = dlsym(file, "cudnnBackendDestroyDescriptor");
    library.set = dlsym(file, "cudnnBackendSetAttribute");
    library.finalize = dlsym(file, "cudnnBackendFinalize");
    library.get = dlsym(file, "cudnnBackendGetAttribute");
    library.network = dlsym(file, "cudnnGetRNNDescriptor_v8");
    library.set_tensor = dlsym(file, "cudnnSetTensorNdDescriptor");
    found = library.version && library.create && library.destroy && library.set && library.finalize && library.get;
}

const struct cudnn_library *cudnn_library(void)
{
    pthread_once(&once, find);
    return found ? &library : NULL;
}

/* torch.backends.cudnn.version() compares this with the version that PyTorch was built for. */
VISIBLE int cudnnGetProperty(int type, int *value)
{
    void *file = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_NOLOAD);
    size_t (*ask)(void) = file ? (size_t(*)(void))dlsym(file, "cudnnGetVersion") : NULL;
    if (!ask || type < 0 || type > 2)
        return BAD_PARAM;
    int version = (int)ask(), parts[] = {version / 10000, version / 100 % 100, version % 100};
    *value = parts[type];
    return SUCCESS;
}
