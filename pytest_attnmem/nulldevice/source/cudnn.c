/* cuDNN chooses its own scratch, which is unknown without a device, so a handle is refused.
 *
 * The version is that of the installed library, so PyTorch selects cuDNN as it does on a device.
 */
#include "null.h"

VISIBLE int cudnnCreate(void **handle)
{
    COUNT_CALL();
    *handle = NULL;
    return 1001; /* CUDNN_STATUS_NOT_INITIALIZED */
}
