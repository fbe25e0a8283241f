/* NCCL: communicators of any size, and no communication.
 *
 * PyTorch's own ProcessGroupNCCL runs over these calls, so its staging buffers, streams and the
 * lifetimes of tensors are real. The buffers that NCCL itself takes from the device are not modelled.
 * The functions are declared here because NCCL's headers may be absent; the types are nccl.h's.
 * Calls that are not here reach the real library, which fails without a driver.
 */
#include "null.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4 };

struct unique_id { /* ncclUniqueId */
    char internal[128];
};

struct communicator {
    int ranks, rank, device;
};

static int communicate_on(int device, struct communicator **made, int ranks, int rank)
{
    *made = NULL;
    if (ranks < 1 || rank < 0 || rank >= ranks)
        return INVALID_ARGUMENT;
    struct communicator *comm = malloc(sizeof *comm);
    *made = comm;
    if (!comm)
        return SYSTEM_ERROR;
    *comm = (struct communicator){ranks, rank, device};
    return SUCCESS;
}

static int communicate(struct communicator **made, int ranks, int rank)
{
    return communicate_on(null_device(), made, ranks, rank);
}

/* The devices of one process; those of nn.DataParallel. */
VISIBLE int ncclCommInitAll(struct communicator **comms, int count, const int *devices)
{
    int error = count < 1 ? INVALID_ARGUMENT : SUCCESS;
    for (int rank = 0; !error && rank < count; rank++) {
        int device = devices ? devices[rank] : rank;
        error = null_is_device(device) ? communicate_on(device, &comms[rank], count, rank) : INVALID_ARGUMENT;
    }
    return error;
}

VISIBLE int ncclGetUniqueId(struct unique_id *id)
{
    memset(id, 0, sizeof *id);
    return SUCCESS;
}

VISIBLE int ncclGetVersion(int *version)
{
    int (*real)(int *) = (int (*)(int *))dlsym(RTLD_NEXT, "ncclGetVersion");
    *version = 22907;
    return real ? real(version) : SUCCESS;
}

VISIBLE int ncclCommInitRank(struct communicator **comm, int ranks, struct unique_id id, int rank)
{
    return communicate(comm, ranks, rank);
}

VISIBLE int ncclCommInitRankConfig(struct communicator **comm, int ranks, struct unique_id id, int rank, void *config)
{
    return communicate(comm, ranks, rank);
}

VISIBLE int ncclCommInitRankScalable(struct communicator **comm, int ranks, int rank, int ids, void *id, void *config)
{
    return communicate(comm, ranks, rank);
}

/* A split's size is the other ranks' choice as well. PyTorch knows it, and Python tells it before.
 * If nobody told it, the call is counted. */
static struct {
    int ranks, rank;
} next_split;

VISIBLE void attnmem_null_split(int ranks, int rank)
{
    next_split.ranks = ranks;
    next_split.rank = rank;
}

VISIBLE int ncclCommSplit(struct communicator *comm, int color, int key, struct communicator **made, void *config)
{
    *made = NULL;
    if (!comm)
        return INVALID_ARGUMENT;
    if (color < 0)
        return SUCCESS;
    if (next_split.ranks)
        return communicate(made, next_split.ranks, next_split.rank);
    COUNT_CALL();
    return communicate(made, comm->ranks, comm->rank);
}

VISIBLE int ncclCommDestroy(struct communicator *comm)
{
    free(comm);
    return SUCCESS;
}

VISIBLE int ncclCommAbort(struct communicator *comm)
{
    return ncclCommDestroy(comm);
}

VISIBLE int ncclCommGetAsyncError(struct communicator *comm, int *error)
{
    *error = SUCCESS;
    return comm ? SUCCESS : INVALID_ARGUMENT;
}

static int tell(const struct communicator *comm, int value, int *told)
{
    if (!comm || !told)
        return INVALID_ARGUMENT;
    *told = value;
    return SUCCESS;
}

VISIBLE int ncclCommCount(struct communicator *comm, int *count)
{
    return tell(comm, comm ? comm->ranks : 0, count);
}

VISIBLE int ncclCommUserRank(struct communicator *comm, int *rank)
{
    return tell(comm, comm ? comm->rank : 0, rank);
}

VISIBLE int ncclCommCuDevice(struct communicator *comm, int *device)
{
    return tell(comm, comm ? comm->device : 0, device);
}

VISIBLE int ncclCommRegister(struct communicator *comm, void *buffer, size_t size, void **handle)
{
    *handle = comm;
    return comm ? SUCCESS : INVALID_ARGUMENT;
}

VISIBLE int ncclMemAlloc(void **pointer, size_t size)
{
    return cudaMalloc(pointer, size) == cudaSuccess ? SUCCESS : SYSTEM_ERROR;
}

VISIBLE int ncclMemFree(void *pointer)
{
    return cudaFree(pointer) == cudaSuccess ? SUCCESS : SYSTEM_ERROR;
}

VISIBLE int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, struct communicator *comm)
{
    *op = 16; /* beyond ncclNumOps */
    return SUCCESS;
}

#define DOES_NOTHING(name) \
    VISIBLE int name(void) \
    {                      \
        return SUCCESS;    \
    }

DOES_NOTHING(ncclAllGather)
DOES_NOTHING(ncclAllReduce)
DOES_NOTHING(ncclAlltoAll)
DOES_NOTHING(ncclBcast)
DOES_NOTHING(ncclBroadcast)
DOES_NOTHING(ncclCommDeregister)
DOES_NOTHING(ncclCommFinalize)
DOES_NOTHING(ncclGather)
DOES_NOTHING(ncclGroupEnd)
DOES_NOTHING(ncclGroupStart)
DOES_NOTHING(ncclRecv)
DOES_NOTHING(ncclRedOpDestroy)
DOES_NOTHING(ncclReduce)
DOES_NOTHING(ncclReduceScatter)
DOES_NOTHING(ncclScatter)
DOES_NOTHING(ncclSend)
