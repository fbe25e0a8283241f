/* cuSPARSE: handles alone. PyTorch's batched LU has MAGMA make one, and MAGMA does not use it.
 *
 * All other functions are refused, by name, in stubs.c.
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
