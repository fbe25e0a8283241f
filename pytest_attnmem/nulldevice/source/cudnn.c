/* cuDNN decides on its own scratch, so without a device nothing is known of it: no handle is given.
 *
 * Its version is the installed library's own, so PyTorch chooses it where it would on the device.
 */
#include "null.h"

VISIBLE int cudnnCreate(void **handle)
{
    COUNT_CALL();
    *handle = NULL;
    return 1001; /* CUDNN_STATUS_NOT_INITIALIZED */
}
