/* A CUDA runtime and driver that compute nothing: what its parts share.
 *
 * Device memory is address space without pages. Calls that would only compute return at once; what
 * a program can ask of a device (how much memory, which pointer, what order) is answered truly.
 */
#ifndef ATTNMEM_NULL_H
#define ATTNMEM_NULL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Everything is hidden but what the headers of CUDA declare, and what Python reads. */
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop
#define VISIBLE __attribute__((visibility("default")))

#define MIB ((size_t)1 << 20)
#define GRANULARITY (2 * MIB) /* of device memory, as on every device since Kepler */

/* profile.c: the devices of this process, all of one kind */
struct profile {
    const char *name;
    int installed, devices; /* the latter as far as CUDA_VISIBLE_DEVICES shows them */
    int capability, multiprocessors;
    size_t memory, shared_per_block, shared_per_multiprocessor, l2;
    int threads_per_multiprocessor, blocks_per_multiprocessor;
    int bus_bits, clock_khz, memory_clock_khz;
};
const struct profile *null_profile(void);
int null_attribute(int attribute, int device);

/* device.c */
int null_device(void); /* the calling thread's */
bool null_is_device(int device);
struct CUctx_st *null_context(int device); /* made active; NULL where there is no such device */
cudaError_t null_fail(cudaError_t error);  /* makes it the thread's last error, and returns it */

/* ranges.c: disjoint stretches of addresses, sorted */
struct range {
    uintptr_t base;
    size_t size;
    int device;
    int kind; /* the table's own */
    void *owner;
};
struct ranges {
    struct range *items;
    size_t count, room;
};
size_t ranges_from(const struct ranges *table, uintptr_t address); /* first index at or after it */
struct range *ranges_find(const struct ranges *table, uintptr_t address); /* the one that has it */
bool ranges_add(struct ranges *table, struct range range);
void ranges_remove(struct ranges *table, struct range *range);

/* space.c: address space for device memory; callers hold the lock */
enum { MEMORY, MANAGED, RESERVED };
uintptr_t space_take(size_t size, int device, int kind); /* 0 where there is none left */
struct range *space_find(uintptr_t address);
bool space_has(uintptr_t address); /* also where nothing is allocated now */
void space_give_back(struct range *range);

/* memory.c: who holds how much of which device */
void memory_lock(void);
void memory_unlock(void);
bool memory_charge(int device, size_t size); /* under the lock; false: it does not fit */
void memory_discharge(int device, size_t size);
bool null_on_device(const void *pointer); /* memory that the host cannot read */
int null_pointer_device(uintptr_t pointer);
size_t null_round(size_t size, size_t granularity);

/* virtual.c: the device of a mapping in reserved address space; callers hold the lock */
int virtual_device(uintptr_t address);

/* copy.c */
void null_copy(void *to, const void *from, size_t size);

/* launch.c */
cudaError_t null_launchable(dim3 grid, dim3 block, size_t shared);
int null_occupancy(int threads, size_t shared);

/* tally.c: calls that this runtime does not know, or refuses, by name */
struct tally {
    const char *name;
    unsigned long calls;
    struct tally *next;
};
void null_count(struct tally *tally);
#define COUNT_CALL()                             \
    do {                                         \
        static struct tally tally = {__func__, 0, NULL}; \
        null_count(&tally);                      \
    } while (0)

#endif
