/* cuDNN's handles and streams, and the functions that take a handle.
 *
 * A handle of the library needs a device, so no function of the library may see a handle of ours.
 * Functions without scratch succeed. The scratch of the others is known on a GPU alone: they are
 * counted, and a window with a counted call is not enforced. PyTorch calls some of them from Python
 * (nulldevice/cudnn.py), with null pointers.
 */
#include "cudnn.h"
#include <stdlib.h>

struct handle {
    void *stream;
};

VISIBLE int cudnnCreate(void **handle)
{
    if (!cudnn_device()) {
        COUNT_CALL(); /* cuDNN is missing, or older than 9.8 */
        *handle = NULL;
        return NOT_INITIALIZED;
    }
    *handle = calloc(1, sizeof(struct handle));
    return *handle ? SUCCESS : ALLOC_FAILED;
}

VISIBLE int cudnnDestroy(void *handle)
{
    free(handle);
    return SUCCESS;
}

VISIBLE int cudnnSetStream(struct handle *handle, void *stream)
{
    if (!handle)
        return BAD_PARAM;
    handle->stream = stream;
    return SUCCESS;
}

VISIBLE int cudnnGetStream(struct handle *handle, void **stream)
{
    if (!handle)
        return BAD_PARAM;
    *stream = handle->stream;
    return SUCCESS;
}

/* These have no argument for a workspace: batch normalisation of an evaluated module, sampling. */
#define WITHOUT_SCRATCH(name)  \
    VISIBLE int name(void)     \
    {                          \
        null_launched(NULL);   \
        return SUCCESS;        \
    }
WITHOUT_SCRATCH(cudnnBatchNormalizationForwardInference)
WITHOUT_SCRATCH(cudnnSpatialTfGridGeneratorForward)
WITHOUT_SCRATCH(cudnnSpatialTfGridGeneratorBackward)
WITHOUT_SCRATCH(cudnnSpatialTfSamplerForward)
WITHOUT_SCRATCH(cudnnSpatialTfSamplerBackward)
WITHOUT_SCRATCH(cudnnPoolingForward)

/* Batch normalisation goes on with sizes of zero, which are counted, and then succeeds. */
#define SIZE(name, ...)                         \
    VISIBLE int name(__VA_ARGS__, size_t *size) \
    {                                           \
        COUNT_CALL();                           \
        *size = 0;                              \
        return SUCCESS;                         \
    }
#define P const void *
SIZE(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize, P h, int mode, int ops, P x, P z, P y, P scale, P act)
SIZE(cudnnGetBatchNormalizationBackwardExWorkspaceSize, P h, int mode, int ops, P x, P y, P dy, P dz, P dx, P scale,
     P act)
SIZE(cudnnGetBatchNormalizationTrainingExReserveSpaceSize, P h, int mode, int ops, P act, P x)
WITHOUT_SCRATCH(cudnnBatchNormalizationForwardTrainingEx)
WITHOUT_SCRATCH(cudnnBatchNormalizationBackwardEx)

VISIBLE int cudnnSetDropoutDescriptor(void)
{
    return SUCCESS;
}

VISIBLE int cudnnRestoreDropoutDescriptor(void)
{
    return SUCCESS;
}

#define REFUSED(name)           \
    VISIBLE int name(void)      \
    {                           \
        COUNT_CALL();           \
        return NOT_INITIALIZED; \
    }
REFUSED(cudnnCTCLoss)
REFUSED(cudnnCTCLoss_v8)
REFUSED(cudnnGetCTCLossWorkspaceSize)
REFUSED(cudnnGetCTCLossWorkspaceSize_v8)
REFUSED(cudnnDropoutGetStatesSize)
REFUSED(cudnnGetRNNTempSpaceSizes)
REFUSED(cudnnRNNForward)
REFUSED(cudnnRNNBackwardData_v8)
REFUSED(cudnnRNNBackwardWeights_v8)
REFUSED(cudnnConvolutionForward)
REFUSED(cudnnConvolutionBackwardData)
REFUSED(cudnnConvolutionBackwardFilter)
REFUSED(cudnnConvolutionBiasActivationForward)
REFUSED(cudnnFindConvolutionForwardAlgorithmEx)
REFUSED(cudnnFindConvolutionBackwardDataAlgorithmEx)
REFUSED(cudnnFindConvolutionBackwardFilterAlgorithmEx)
REFUSED(cudnnGetConvolutionForwardAlgorithm_v7)
REFUSED(cudnnGetConvolutionBackwardDataAlgorithm_v7)
REFUSED(cudnnGetConvolutionBackwardFilterAlgorithm_v7)
REFUSED(cudnnGetConvolutionForwardWorkspaceSize)
REFUSED(cudnnGetConvolutionBackwardDataWorkspaceSize)
REFUSED(cudnnGetConvolutionBackwardFilterWorkspaceSize)
