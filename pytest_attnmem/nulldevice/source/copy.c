/* Copies and fills of host memory; those of device memory do nothing.
 *
 * Device memory has no contents. The host reads the bytes that were announced for its next reads,
 * those that a function knows, or else zeros; NaN if nobody computes values. The address of a buffer determines which kind of memory it is.
 */
#include "null.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_UPLOAD (64 * MIB) /* a larger copy to the device is not kept */

VISIBLE unsigned long attnmem_null_read_count; /* Python reads it as a variable */
static void (*listener)(void); /* called at the next read, then cleared */

static int (*known)(void *to, const void *from, size_t size); /* copies contents that it knows, or returns 0 */

/* True if somebody tells this process of its reads. A program that a test starts has nobody. */
static bool attended;
#define UNKNOWN "attnmem: this process reads the null device, and computes no values: numbers are NaN\n"

static _Thread_local struct {
    const char *bytes; /* NULL: zeros */
    size_t left;
} expected; /* bytes for the next reads of this thread */

static _Thread_local struct {
    uintptr_t to;
    size_t size, room;
    void *bytes;
} upload; /* this thread's last copy from the host */

/* Answers the next reads of this thread with `size` bytes, which must stay until the next call; NULL means zeros.
 * Returns how many bytes of the last call were not read. */
VISIBLE size_t attnmem_null_expect(const void *bytes, size_t size)
{
    size_t left = expected.left;
    expected.bytes = bytes;
    expected.left = size;
    return left;
}

/* Copies what this thread copied last to that address; returns 0 if it copied something else. */
VISIBLE int attnmem_null_uploaded(uintptr_t to, void *bytes, size_t size)
{
    if (!size || upload.to != to || upload.size != size)
        return 0;
    memcpy(bytes, upload.bytes, size);
    return 1;
}

static void keep_upload(uintptr_t to, const void *from, size_t size)
{
    upload.to = 0;
    if (size > LARGEST_UPLOAD)
        return;
    if (upload.room < size) {
        free(upload.bytes);
        upload.bytes = malloc(size);
        upload.room = upload.bytes ? size : 0;
    }
    if (upload.room < size)
        return;
    memcpy(upload.bytes, from, size);
    upload.to = to;
    upload.size = size;
}

void null_copy(void *to, const void *from, size_t size)
{
    if (!size)
        return;
    if (null_on_device(to)) {
        if (!null_on_device(from))
            keep_upload((uintptr_t)to, from, size);
        return;
    }
    if (null_on_device(from) && expected.left >= size) {
        if (expected.bytes) {
            memcpy(to, expected.bytes, size);
            expected.bytes += size;
        } else {
            memset(to, 0, size);
        }
        expected.left -= size;
    } else if (null_on_device(from)) {
        int (*answer)(void *, const void *, size_t) = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
        if (answer && answer(to, from, size))
            return;
        if (!__atomic_fetch_add(&attnmem_null_read_count, 1, __ATOMIC_RELAXED) && !attended)
            fputs(UNKNOWN, stderr);
        memset(to, attended ? 0 : 0xff, size); /* all bits of a NaN, in each dtype */
        void (*call)(void) = __atomic_exchange_n(&listener, NULL, __ATOMIC_ACQ_REL);
        if (call)
            call();
    } else {
        memmove(to, from, size);
    }
}

/* Returns how often the host read device memory: from then on the program depends on zeros. */
VISIBLE unsigned long attnmem_null_reads(void)
{
    return __atomic_load_n(&attnmem_null_read_count, __ATOMIC_RELAXED);
}

/* Calls a function at the next read, on the thread that reads; NULL removes the function. */
VISIBLE void attnmem_null_on_read(void (*call)(void))
{
    attended = true;
    __atomic_store_n(&listener, call, __ATOMIC_RELEASE);
}

/* Asks a function for the bytes of reads that no answer was announced for; NULL removes the function. */
VISIBLE void attnmem_null_ask(int (*answer)(void *to, const void *from, size_t size))
{
    attended = true;
    __atomic_store_n(&known, answer, __ATOMIC_RELEASE);
}

/* Returns cudaErrorInvalidValue, which is also the driver's error, if one pointer is NULL. */
static cudaError_t copy(void *to, const void *from, size_t size)
{
    if (size && (!to || !from))
        return cudaErrorInvalidValue;
    null_copy(to, from, size);
    return cudaSuccess;
}

/* Returns cudaErrorInvalidValue for memory of the host that a device does not reach. */
static cudaError_t fill(void *at, unsigned int value, size_t width, size_t count)
{
    bool device = null_on_device(at);
    if (count && ((uintptr_t)at % width || !(device || null_shared(at))))
        return cudaErrorInvalidValue;
    if (!count || device)
        return cudaSuccess;
    for (size_t i = 0; width > 1 && i < count; i++)
        ((unsigned int *)at)[i] = value;
    if (width == 1)
        memset(at, (int)value, count);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    if ((unsigned int)kind > cudaMemcpyDefault)
        return null_fail(cudaErrorInvalidMemcpyDirection);
    return null_fail(copy(to, from, size));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return cudaMemcpy(to, from, size, kind);
}

cudaError_t cudaMemcpyPeer(void *to, int device, const void *from, int source, size_t size)
{
    if (!null_is_device(device) || !null_is_device(source))
        return null_fail(cudaErrorInvalidDevice);
    return cudaMemcpy(to, from, size, cudaMemcpyDefault);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int device, const void *from, int source, size_t size, cudaStream_t stream)
{
    return cudaMemcpyPeer(to, device, from, source, size);
}

cudaError_t cudaMemcpy2D(void *to, size_t pitch, const void *from, size_t source_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind)
{
    if (width > pitch || width > source_pitch)
        return null_fail(cudaErrorInvalidPitchValue);
    cudaError_t error = cudaSuccess;
    for (size_t row = 0; !error && row < height; row++)
        error = cudaMemcpy((char *)to + row * pitch, (const char *)from + row * source_pitch, width, kind);
    return error;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t pitch, const void *from, size_t source_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return cudaMemcpy2D(to, pitch, from, source_pitch, width, height, kind);
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset,
                               enum cudaMemcpyKind kind)
{
    return cudaSuccess;
}

cudaError_t cudaMemset(void *at, int value, size_t size)
{
    return null_fail(fill(at, (unsigned char)value, 1, size));
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t size, cudaStream_t stream)
{
    return cudaMemset(at, value, size);
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size)
{
    return (CUresult)copy(to, (const void *)from, size);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    return cuMemcpyDtoH(to, from, size);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size)
{
    return (CUresult)copy((void *)to, from, size);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    return cuMemcpyHtoD(to, from, size);
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    return (CUresult)copy((void *)to, (const void *)from, size);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    return cuMemcpyDtoD(to, from, size);
}

CUresult cuMemsetD8(CUdeviceptr at, unsigned char value, size_t count)
{
    return (CUresult)fill((void *)at, value, 1, count);
}

CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t count, CUstream stream)
{
    return cuMemsetD8(at, value, count);
}

CUresult cuMemsetD32(CUdeviceptr at, unsigned int value, size_t count)
{
    return (CUresult)fill((void *)at, value, sizeof value, count);
}

CUresult cuMemsetD32Async(CUdeviceptr at, unsigned int value, size_t count, CUstream stream)
{
    return cuMemsetD32(at, value, count);
}
