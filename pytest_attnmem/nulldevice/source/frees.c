/* The addresses that PyTorch's allocator frees, in their order.
 *
 * PyTorch reports each free to a tracer, which is a C++ object with virtual functions. Its own
 * tracer calls Python, which loses an exception that is being raised meanwhile; this one does not.
 */
#include "null.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Read by Python as a variable: the number of frees. */
VISIBLE unsigned long attnmem_null_frees;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t *freed; /* the addresses that nobody has taken yet */
static size_t count, room;

static void note(const void *tracer, signed char device_type, uintptr_t address)
{
    pthread_mutex_lock(&lock);
    if (count == room) {
        size_t larger = room ? 2 * room : 1024;
        uintptr_t *moved = realloc(freed, larger * sizeof *moved);
        if (!moved)
            abort(); /* a lost free would make an old value pass for a new one */
        freed = moved;
        room = larger;
    }
    freed[count++] = address;
    __atomic_fetch_add(&attnmem_null_frees, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

static void ignore(void)
{
}

/* Returns a tracer whose virtual function number `deallocation` of `functions` notes frees. */
VISIBLE const void *attnmem_null_tracer(size_t functions, size_t deallocation)
{
    static const void *table, *interpreter;
    void **entries = calloc(functions, sizeof *entries);
    if (!entries || deallocation >= functions)
        return NULL;
    for (size_t i = 0; i < functions; i++)
        entries[i] = (void *)ignore;
    entries[deallocation] = (void *)note;
    table = entries;
    interpreter = &table; /* an interpreter holds a pointer to an object, and that to its functions */
    return &interpreter;
}

/* Moves up to `size` freed addresses to `addresses`; returns their number. */
VISIBLE size_t attnmem_null_take_freed(uintptr_t *addresses, size_t size)
{
    pthread_mutex_lock(&lock);
    size_t taken = count < size ? count : size;
    memcpy(addresses, freed, taken * sizeof *addresses);
    memmove(freed, freed + taken, (count - taken) * sizeof *freed);
    count -= taken;
    pthread_mutex_unlock(&lock);
    return taken;
}
