/* Address space that stands for device memory: reserved, without access and without pages.
 *
 * The host cannot read it, as it cannot read device memory. An allocation takes the lowest gap that
 * fits, so addresses repeat from run to run, and so does the allocator's choice between blocks of
 * one size.
 */
#include "null.h"
#include <sys/mman.h>

#define ARENA ((size_t)1 << 40)

static struct ranges arenas, taken;

size_t null_round(size_t size, size_t granularity)
{
    return (size + granularity - 1) / granularity * granularity;
}

static uintptr_t reserve(size_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *at = mmap(NULL, size + GRANULARITY, PROT_NONE, flags, -1, 0);
    return at == MAP_FAILED ? 0 : null_round((uintptr_t)at, GRANULARITY);
}

static bool grow(size_t size)
{
    size_t room = size > ARENA ? size : ARENA;
    uintptr_t base = reserve(room);
    while (!base && room > size) { /* the process may have a limit on its address space */
        room = room / 2 > size ? room / 2 : size;
        base = reserve(room);
    }
    return base && ranges_add(&arenas, (struct range){.base = base, .size = room});
}

static uintptr_t gap_in(const struct range *arena, size_t size)
{
    uintptr_t at = arena->base, end = arena->base + arena->size;
    for (size_t i = ranges_from(&taken, at); i < taken.count && taken.items[i].base < end; i++) {
        if (taken.items[i].base - at >= size)
            return at;
        at = taken.items[i].base + taken.items[i].size;
    }
    return end - at >= size ? at : 0;
}

uintptr_t space_take(size_t size, int device, int kind)
{
    for (bool grown = false;; grown = true) {
        for (size_t i = 0; i < arenas.count; i++) {
            uintptr_t at = gap_in(&arenas.items[i], size);
            if (!at)
                continue;
            if (kind == MANAGED && mprotect((void *)at, size, PROT_READ | PROT_WRITE))
                return 0;
            struct range range = {.base = at, .size = size, .device = device, .kind = kind};
            return ranges_add(&taken, range) ? at : 0;
        }
        if (grown || !grow(size))
            return 0;
    }
}

struct range *space_find(uintptr_t address)
{
    return ranges_find(&taken, address);
}

bool space_has(uintptr_t address)
{
    return ranges_find(&arenas, address) != NULL;
}

void space_give_back(struct range *range)
{
    if (range->kind == MANAGED) { /* managed memory has real pages: drop them with the mapping */
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        mmap((void *)range->base, range->size, PROT_NONE, flags, -1, 0);
    }
    ranges_remove(&taken, range);
}
