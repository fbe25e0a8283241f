/* A sorted table of disjoint address ranges. Bisection, because a program has thousands of them. */
#include "null.h"
#include <stdlib.h>
#include <string.h>

size_t ranges_from(const struct ranges *table, uintptr_t address)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->items[middle].base < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct range *ranges_find(const struct ranges *table, uintptr_t address)
{
    size_t at = ranges_from(table, address);
    if (at < table->count && table->items[at].base == address)
        return &table->items[at];
    if (at == 0)
        return NULL;
    struct range *before = &table->items[at - 1];
    return address - before->base < before->size ? before : NULL;
}

bool ranges_add(struct ranges *table, struct range range)
{
    if (table->count == table->room) {
        size_t room = table->room ? 2 * table->room : 64;
        struct range *items = realloc(table->items, room * sizeof *items);
        if (!items)
            return false;
        table->items = items;
        table->room = room;
    }
    size_t at = ranges_from(table, range.base);
    memmove(&table->items[at + 1], &table->items[at], (table->count - at) * sizeof range);
    table->items[at] = range;
    table->count++;
    return true;
}

void ranges_remove(struct ranges *table, struct range *range)
{
    size_t after = table->count - (size_t)(range - table->items) - 1;
    memmove(range, range + 1, after * sizeof *range);
    table->count--;
}
