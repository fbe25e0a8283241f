/* Declarations shared by the parts of a CUDA runtime and driver that compute nothing.
 *
 * Device memory is address space without pages. Calls that only compute return at once. Calls that
 * ask a device about memory, pointers or order get the answer of a real device.
 */
#ifndef ATTNMEM_NULL_H
#define ATTNMEM_NULL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Visible symbols: the functions that CUDA's headers declare, and those that Python calls. */
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop
#define VISIBLE __attribute__((visibility("default")))

#define MIB ((size_t)1 << 20)
#define GRANULARITY (2 * MIB) /* device memory comes in these units on every device since Kepler */

/* error.c */
cudaError_t null_fail(cudaError_t error); /* returns the error, now the thread's last error */

/* profile.c: the devices of this process, all of one kind */
struct profile {
    const char *name;
    int installed, devices; /* `devices` counts those in CUDA_VISIBLE_DEVICES */
    int capability, multiprocessors;
    size_t memory, shared_per_block, shared_per_multiprocessor, l2;
    int threads_per_multiprocessor, blocks_per_multiprocessor;
    int bus_bits, clock_khz, memory_clock_khz;
    bool peer_access; /* each device reads and writes the memory of the others */
};
const struct profile *null_profile(void);
bool null_is_device(int device);
int null_ordinal(unsigned int installed); /* its number in CUDA_VISIBLE_DEVICES, or -1 */
int null_attribute(int attribute, int device);
#define UUID_FORM "GPU-00000000-0000-0000-0000-%012x" /* of the number of an installed device, from 1 on */

/* device.c */
int null_device(void);                     /* the calling thread's device */
struct CUctx_st *null_context(int device); /* activates the context; NULL: no such device */

/* processes.c */
void null_used(void); /* this process uses a device from now on */

/* ranges.c: sorted tables of disjoint address ranges */
struct range {
    uintptr_t base;
    size_t size;
    int device;
    int kind; /* each table has its own kinds */
    void *owner;
};
struct ranges {
    struct range *items;
    size_t count, room;
};
size_t ranges_from(const struct ranges *table, uintptr_t address); /* index of the first range from there on */
struct range *ranges_find(const struct ranges *table, uintptr_t address); /* range with this address, or NULL */
bool ranges_add(struct ranges *table, struct range range);
void ranges_remove(struct ranges *table, struct range *range);

/* space.c: address space for device memory; callers hold the lock */
enum { MEMORY, MANAGED, RESERVED };
size_t null_round(size_t size, size_t granularity);      /* up to a multiple */
uintptr_t space_take(size_t size, int device, int kind); /* 0: no address space is left */
struct range *space_find(uintptr_t address);
bool space_has(uintptr_t address); /* true for free device memory too */
void space_give_back(struct range *range);

/* charge.c: the bytes in use on each device, and the lock over all tables of device memory */
void memory_lock(void);
void memory_unlock(void);
bool memory_charge(int device, size_t size);    /* callers hold the lock; false: they do not fit */
void memory_discharge(int device, size_t size); /* callers hold the lock */
VISIBLE int attnmem_null_memory(int device, size_t *current, size_t *peak);

/* memory.c: pointers */
bool null_on_device(const void *pointer);   /* true: the host cannot read it */
bool null_shared(const void *pointer);      /* true: the host and the device can: managed or pinned */
int null_pointer_device(uintptr_t pointer); /* -1: not device memory */

/* virtual.c */
int virtual_device(uintptr_t address); /* device mapped in reserved space, or -1; callers hold the lock */

/* copy.c */
void null_copy(void *to, const void *from, size_t size);

/* foreign.c */
void null_launched(const void *kernel); /* NULL: a kernel of the driver's API */
bool null_of_library(const void *address, const char *prefix); /* true: in a file whose name begins so */

/* cudnn_backend.c */
bool null_is_planning(void); /* true: cuDNN, called by this thread, plans without a device */

/* blas.c */
int null_hand_out(void **handle); /* a handle that no other call gets; returns 0 */

/* images.c: architectures such as 86; 0 if the device runs no image of a fat binary */
int images_architecture(const void *binary);
void images_add(const void *kernel, int architecture);
int images_of(const void *kernel); /* the device's own for a kernel without an image here */

/* launch.c */
cudaError_t null_launchable(dim3 grid, dim3 block, size_t shared);
int null_occupancy(int threads, size_t shared);

/* unknown_calls.c: counts of the calls that this runtime does not know or refuses */
struct unknown_call {
    const char *name;
    unsigned long calls;
    struct unknown_call *next;
};
void null_count(struct unknown_call *call);
unsigned long null_counted(void); /* all calls together */
#define COUNT_CALL()                                           \
    do {                                                       \
        static struct unknown_call call = {__func__, 0, NULL}; \
        null_count(&call);                                     \
    } while (0)

#endif
