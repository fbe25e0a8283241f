/* cuDNN is not there: it decides on its own scratch, so without a device nothing is known of it.
 *
 * Of version 0, PyTorch's attention takes the next backend; what needs cuDNN fails, and is told.
 */
#include "null.h"

VISIBLE size_t cudnnGetVersion(void)
{
    return 0;
}

VISIBLE int cudnnCreate(void **handle)
{
    COUNT_CALL();
    *handle = NULL;
    return 1001; /* CUDNN_STATUS_NOT_INITIALIZED */
}
