/* cuSOLVER: handles, sizes of zero, and no decompositions.
 *
 * Only the library knows the size of a workspace, and it starts on a GPU alone. So each question for
 * a size is counted, and a window with a counted call is not enforced. Functions without a workspace
 * are not counted. All that a function writes is on the device, `info` too, so nothing is written.
 * The functions are declared here because some CUDA packages of PyTorch lack the headers of cuSOLVER;
 * tests/nulldevice/test_library_headers.py compares them with the headers.
 */
#include "null.h"

#define HANDED_OUT(name)              \
    VISIBLE int name(void **handle)   \
    {                                 \
        return null_hand_out(handle); \
    }
HANDED_OUT(cusolverDnCreate)
HANDED_OUT(cusolverDnCreateGesvdjInfo)
HANDED_OUT(cusolverDnCreateParams)

#define SETTING(name)      \
    VISIBLE int name(void) \
    {                      \
        return 0;          \
    }
SETTING(cusolverDnDestroy)
SETTING(cusolverDnDestroyGesvdjInfo)
SETTING(cusolverDnDestroyParams)
SETTING(cusolverDnSetStream)
SETTING(cusolverDnXgesvdjSetMaxSweeps)
SETTING(cusolverDnXgesvdjSetSortEig)
SETTING(cusolverDnXgesvdjSetTolerance)

#define COMPUTES(name)       \
    VISIBLE int name(void)   \
    {                        \
        null_launched(NULL); \
        return 0;            \
    }

/* Parameters: a pointer, an int or an enumeration, and a number of 64 bits. */
#define P const void *
#define I int
#define L long long

/* A function, and the one that tells the elements of its workspace. */
#define SIZED(name, ...)                       \
    VISIBLE int name##_bufferSize(__VA_ARGS__) \
    {                                          \
        COUNT_CALL();                          \
        *size = 0;                             \
        return 0;                              \
    }                                          \
    COMPUTES(name)
#define REAL(name, ...)                  \
    SIZED(cusolverDnS##name, __VA_ARGS__) \
    SIZED(cusolverDnD##name, __VA_ARGS__)
#define COMPLEX(name, ...)                \
    SIZED(cusolverDnC##name, __VA_ARGS__) \
    SIZED(cusolverDnZ##name, __VA_ARGS__)
#define EACH(name, ...)     \
    REAL(name, __VA_ARGS__) \
    COMPLEX(name, __VA_ARGS__)

EACH(potrf, P handle, I uplo, I n, P a, I lda, int *size)
EACH(getrf, P handle, I m, I n, P a, I lda, int *size)
EACH(geqrf, P handle, I m, I n, P a, I lda, int *size)
EACH(sytrf, P handle, I n, P a, I lda, int *size)
REAL(orgqr, P handle, I m, I n, I k, P a, I lda, P tau, int *size)
COMPLEX(ungqr, P handle, I m, I n, I k, P a, I lda, P tau, int *size)
REAL(ormqr, P handle, I side, I op, I m, I n, I k, P a, I lda, P tau, P c, I ldc, int *size)
COMPLEX(unmqr, P handle, I side, I op, I m, I n, I k, P a, I lda, P tau, P c, I ldc, int *size)
EACH(gesvd, P handle, I m, I n, int *size)
EACH(gesvdj, P handle, I job, I econ, I m, I n, P a, I lda, P s, P u, I ldu, P v, I ldv, int *size, P params)
EACH(gesvdjBatched, P handle, I job, I m, I n, P a, I lda, P s, P u, I ldu, P v, I ldv, int *size, P params, I batch)
EACH(gesvdaStridedBatched, P handle, I job, I rank, I m, I n, P a, I lda, L step_a, P s, L step_s, P u, I ldu,
     L step_u, P v, I ldv, L step_v, int *size, I batch)
REAL(syevd, P handle, I job, I uplo, I n, P a, I lda, P w, int *size)
COMPLEX(heevd, P handle, I job, I uplo, I n, P a, I lda, P w, int *size)
REAL(syevjBatched, P handle, I job, I uplo, I n, P a, I lda, P w, int *size, P params, I batch)
COMPLEX(heevjBatched, P handle, I job, I uplo, I n, P a, I lda, P w, int *size, P params, I batch)

/* The functions for all dtypes: the bytes of their workspaces on the device and on the host. */
#define BOTH_SIZED(name, ...)                  \
    VISIBLE int name##_bufferSize(__VA_ARGS__) \
    {                                          \
        COUNT_CALL();                          \
        *device = *host = 0;                   \
        return 0;                              \
    }                                          \
    COMPUTES(name)
BOTH_SIZED(cusolverDnXgeqrf, P handle, P params, L m, L n, I of_a, P a, L lda, I of_tau, P tau, I compute,
           size_t *device, size_t *host)
BOTH_SIZED(cusolverDnXpotrf, P handle, P params, I uplo, L n, I of_a, P a, L lda, I compute, size_t *device,
           size_t *host)
BOTH_SIZED(cusolverDnXsyevd, P handle, P params, I job, I uplo, L n, I of_a, P a, L lda, I of_w, P w, I compute,
           size_t *device, size_t *host)
BOTH_SIZED(cusolverDnXsyevBatched, P handle, P params, I job, I uplo, L n, I of_a, P a, L lda, I of_w, P w, I compute,
           size_t *device, size_t *host, L batch)
BOTH_SIZED(cusolverDnXgeev, P handle, P params, I left, I right, L n, I of_a, P a, L lda, I of_w, P w, I of_vl, P vl,
           L ldvl, I of_vr, P vr, L ldvr, I compute, size_t *device, size_t *host)
BOTH_SIZED(cusolverDnXsytrs, P handle, I uplo, L n, L columns, I of_a, P a, L lda, P pivots, I of_b, P b, L ldb,
           size_t *device, size_t *host)

/* Without a workspace. */
#define COMPUTES_EACH(name)      \
    COMPUTES(cusolverDnS##name) \
    COMPUTES(cusolverDnD##name) \
    COMPUTES(cusolverDnC##name) \
    COMPUTES(cusolverDnZ##name)
COMPUTES_EACH(getrs)
COMPUTES_EACH(potrs)
COMPUTES_EACH(potrfBatched)
COMPUTES_EACH(potrsBatched)
COMPUTES(cusolverDnXpotrs)
