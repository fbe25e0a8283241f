/* Calls that are only answered, not understood: counted by name, so that a report can tell. */
#include "null.h"
#include <stdio.h>

static struct tally *seen; /* a list that only grows, newest first */

void null_count(struct tally *tally)
{
    if (__atomic_fetch_add(&tally->calls, 1, __ATOMIC_RELAXED))
        return;
    tally->next = __atomic_load_n(&seen, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&seen, &tally->next, tally, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
}

/* Write "name calls" lines; return the size of the whole text, as snprintf does. */
VISIBLE size_t attnmem_null_unknown(char *buffer, size_t size)
{
    size_t length = 0;
    if (size)
        buffer[0] = '\0';
    for (struct tally *tally = __atomic_load_n(&seen, __ATOMIC_ACQUIRE); tally; tally = tally->next) {
        size_t at = length < size ? length : size;
        unsigned long calls = __atomic_load_n(&tally->calls, __ATOMIC_RELAXED);
        int more = snprintf(buffer + at, size - at, "%s %lu\n", tally->name, calls);
        length += more > 0 ? (size_t)more : 0;
    }
    return length;
}
