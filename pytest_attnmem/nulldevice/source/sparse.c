/* cuSPARSE: handles alone. PyTorch's batched LU has MAGMA make one, and MAGMA does not use it.
 *
 * All other functions are refused, by name, in stubs.c. So is cuSPARSELt, by its first function: the
 * library has a CUDA runtime of its own, which fails without a word of what it lacks.
 */
#include "null.h"

VISIBLE int cusparseCreate(void **handle)
{
    return null_hand_out(handle);
}

VISIBLE int cusparseDestroy(void *handle)
{
    return 0;
}

VISIBLE int cusparseSetStream(void *handle, void *stream)
{
    return 0;
}

VISIBLE int cusparseLtInit(void *handle)
{
    COUNT_CALL();
    return 10; /* CUSPARSE_STATUS_NOT_SUPPORTED */
}
