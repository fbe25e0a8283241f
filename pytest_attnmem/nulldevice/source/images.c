/* The architecture that each kernel of this process was compiled for, among those that the device runs.
 *
 * CUB chooses its algorithms by the architecture of the kernel, not of the device: on a device of
 * compute capability 8.9 a program built for 8.0, 8.6 and 9.0 runs what was compiled for 8.6.
 */
#include "null.h"
#include <pthread.h>
#include <stdlib.h>

#define CONTAINER 0xBA55ED50u /* begins the images of a fat binary */
#define FIRST_ROOM 4096       /* a power of two */

struct wrapper { /* what the compiler hands over */
    unsigned magic, version;
    const unsigned char *images;
};
struct container {
    uint32_t magic;
    uint16_t version, header;
    uint64_t size;
};
struct image {
    uint16_t kind, version;
    uint32_t header;
    uint64_t size;
    uint32_t compressed, options;
    uint16_t minor, major;
    uint32_t architecture; /* 86 for compute capability 8.6 */
};
struct kernel {
    const void *address;
    int architecture;
};

static struct kernel *kernels; /* by the hash of the address */
static size_t count, room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A binary runs on later devices of its generation; those of a Tegra run only their own. */
static bool runs(int architecture, int capability)
{
    bool tegra = capability == 87 || capability == 101;
    return architecture == capability ||
           (!tegra && architecture / 10 == capability / 10 && architecture < capability);
}

int images_architecture(const void *binary)
{
    const unsigned char *at = ((const struct wrapper *)binary)->images;
    const struct container *all = (const struct container *)at;
    int best = 0;
    if (all->magic != CONTAINER)
        return 0;
    const unsigned char *end = at + all->header + all->size;
    for (at += all->header; at + sizeof(struct image) <= end;) {
        const struct image *image = (const struct image *)at;
        int architecture = (int)image->architecture;
        if (runs(architecture, null_profile()->capability) && architecture > best)
            best = architecture;
        at += image->header + image->size;
    }
    return best;
}

static struct kernel *place(struct kernel *table, size_t size, const void *address)
{
    size_t at = ((uintptr_t)address >> 4) * 0x9E3779B97F4A7C15u & (size - 1);
    while (table[at].address && table[at].address != address)
        at = (at + 1) & (size - 1);
    return &table[at];
}

static bool grown(void)
{
    size_t wider = room ? 2 * room : FIRST_ROOM;
    struct kernel *table = calloc(wider, sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i < room; i++)
        if (kernels[i].address)
            *place(table, wider, kernels[i].address) = kernels[i];
    free(kernels);
    kernels = table;
    room = wider;
    return true;
}

void images_add(const void *kernel, int architecture)
{
    pthread_mutex_lock(&lock);
    if (2 * count < room || grown()) {
        struct kernel *entry = place(kernels, room, kernel);
        count += !entry->address;
        entry->address = kernel;
        entry->architecture = architecture;
    }
    pthread_mutex_unlock(&lock);
}

int images_of(const void *kernel)
{
    pthread_mutex_lock(&lock);
    struct kernel *entry = room ? place(kernels, room, kernel) : NULL;
    int architecture = entry && entry->address ? entry->architecture : 0;
    pthread_mutex_unlock(&lock);
    return architecture ? architecture : null_profile()->capability;
}
