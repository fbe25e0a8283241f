/* The bytes in use on each device, and the lock over all tables of device memory. */
#include "null.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    size_t current, peak;
} *held; /* of each device */

static void make_ledger(void)
{
    int devices = null_profile()->devices;
    held = calloc(devices > 0 ? (size_t)devices : 1, sizeof *held);
    if (!held)
        abort();
}

void memory_lock(void)
{
    pthread_once(&once, make_ledger);
    pthread_mutex_lock(&lock);
}

void memory_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

bool memory_charge(int device, size_t size)
{
    if (size > null_profile()->memory - held[device].current)
        return false;
    held[device].current += size;
    if (held[device].current > held[device].peak)
        held[device].peak = held[device].current;
    return true;
}

void memory_discharge(int device, size_t size)
{
    held[device].current -= size;
}

/* Writes the bytes in use and their peak, multiples of 2 MiB; returns -1 if there is no such device. */
int attnmem_null_memory(int device, size_t *current, size_t *peak)
{
    if (!null_is_device(device))
        return -1;
    memory_lock();
    *current = held[device].current;
    *peak = held[device].peak;
    memory_unlock();
    return 0;
}

/* Sets the peak to the bytes in use. */
VISIBLE void attnmem_null_reset_peak(int device)
{
    if (!null_is_device(device))
        return;
    memory_lock();
    held[device].peak = held[device].current;
    memory_unlock();
}
