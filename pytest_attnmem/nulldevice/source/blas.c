/* cuBLAS: handles and descriptors, and no products.
 *
 * PyTorch allocates the workspace of cuBLAS, so cuBLAS itself allocates nothing. The calls that
 * compute are in stubs.c. The functions are declared here because some CUDA packages of PyTorch lack
 * the headers of cuBLAS.
 */
#include "null.h"
#include <string.h>

/* Handles are unique: PyTorch keeps a workspace for each handle, and each thread has its own. */
int null_hand_out(void **handle)
{
    static uintptr_t handles;
    *handle = (void *)__atomic_add_fetch(&handles, 16, __ATOMIC_RELAXED);
    return 0;
}

VISIBLE int cublasCreate_v2(void **handle)
{
    return null_hand_out(handle);
}

VISIBLE int cublasLtCreate(void **handle)
{
    return null_hand_out(handle);
}

static void (*on_workspace)(void *workspace);

/* Calls a function at each product, on its thread; NULL removes the function. */
VISIBLE void attnmem_null_on_workspace(void (*call)(void *workspace))
{
    __atomic_store_n(&on_workspace, call, __ATOMIC_RELEASE);
}

/* PyTorch calls this before each product, with the workspace of the handle and the stream. */
VISIBLE int cublasSetWorkspace_v2(void *handle, void *workspace, size_t size)
{
    void (*call)(void *) = __atomic_load_n(&on_workspace, __ATOMIC_ACQUIRE);
    if (call)
        call(workspace);
    return 0;
}

VISIBLE int cublasGetMathMode(void *handle, int *mode)
{
    *mode = 0; /* CUBLAS_DEFAULT_MATH */
    return 0;
}

VISIBLE int cublasGetPointerMode_v2(void *handle, int *mode)
{
    *mode = 0; /* CUBLAS_POINTER_MODE_HOST */
    return 0;
}

VISIBLE int cublasLtMatmulDescCreate(void **descriptor, int compute, int scale)
{
    return null_hand_out(descriptor);
}

VISIBLE int cublasLtMatmulPreferenceCreate(void **preference)
{
    return null_hand_out(preference);
}

VISIBLE int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride)
{
    return null_hand_out(layout);
}

struct heuristic { /* cublasLtMatmulHeuristicResult_t */
    uint64_t algorithm[8];
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
};

VISIBLE int cublasLtMatmulAlgoGetHeuristic(void *handle, void *descriptor, void *a, void *b, void *c, void *d,
                                           void *preference, int requested, struct heuristic *results, int *found)
{
    *found = requested > 0;
    if (*found)
        memset(results, 0, sizeof *results);
    return 0;
}

/* Batched solvers write to the host whether an argument was wrong; they have no workspace. */
#define BATCHED(name, ...)         \
    VISIBLE int name(__VA_ARGS__)  \
    {                              \
        *wrong = 0;                \
        return 0;                  \
    }
#define EACH(name, ...)                           \
    BATCHED(cublasS##name##Batched, __VA_ARGS__) \
    BATCHED(cublasD##name##Batched, __VA_ARGS__) \
    BATCHED(cublasC##name##Batched, __VA_ARGS__) \
    BATCHED(cublasZ##name##Batched, __VA_ARGS__)
#define P const void *
#define I int
EACH(geqrf, P handle, I m, I n, P a, I lda, P tau, int *wrong, I batch)
EACH(getrs, P handle, I op, I n, I columns, P a, I lda, P pivots, P b, I ldb, int *wrong, I batch)
EACH(gels, P handle, I op, I m, I n, I columns, P a, I lda, P c, I ldc, int *wrong, P info, I batch)
