/* Counts the calls that this runtime answers without knowing them, by name, for the report. */
#include "null.h"
#include <stdio.h>
#include <stdlib.h>

static struct unknown_call *seen; /* a list that only grows, newest first */
static const char *last = "";     /* the name of the last call */

void null_count(struct unknown_call *call)
{
    __atomic_store_n(&last, call->name, __ATOMIC_RELAXED);
    if (__atomic_fetch_add(&call->calls, 1, __ATOMIC_RELAXED))
        return;
    call->next = __atomic_load_n(&seen, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&seen, &call->next, call, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
}

/* The stubs of nulldevice/stubs.py end here; a name is at the same address in each call. Two threads
 * that call one for the first time add it twice, and the report sums them up. */
VISIBLE long attnmem_null_stub(const char *name, long result)
{
    struct unknown_call *call = __atomic_load_n(&seen, __ATOMIC_ACQUIRE);
    while (call && call->name != name)
        call = call->next;
    if (!call && (call = calloc(1, sizeof *call)))
        call->name = name;
    if (call)
        null_count(call);
    return result;
}

unsigned long null_counted(void)
{
    unsigned long calls = 0;
    for (struct unknown_call *call = __atomic_load_n(&seen, __ATOMIC_ACQUIRE); call; call = call->next)
        calls += __atomic_load_n(&call->calls, __ATOMIC_RELAXED);
    return calls;
}

/* Returns the name of the last of these calls: the one that an error comes of. */
VISIBLE const char *attnmem_null_last_unknown(void)
{
    return __atomic_load_n(&last, __ATOMIC_RELAXED);
}

/* Writes "name calls" lines; returns the size of the whole text, as snprintf does. */
VISIBLE size_t attnmem_null_unknown(char *buffer, size_t size)
{
    size_t length = 0;
    if (size)
        buffer[0] = '\0';
    for (struct unknown_call *call = __atomic_load_n(&seen, __ATOMIC_ACQUIRE); call; call = call->next) {
        size_t at = length < size ? length : size;
        unsigned long calls = __atomic_load_n(&call->calls, __ATOMIC_RELAXED);
        int more = snprintf(buffer + at, size - at, "%s %lu\n", call->name, calls);
        length += more > 0 ? (size_t)more : 0;
    }
    return length;
}
