/* Makes the library do the steps that wait, in their order. */
#include "cudnn.h"
#include <stdlib.h>

/* Read by Python as a variable: the plans that the library made in this process. */
VISIBLE unsigned long attnmem_null_cudnn_plans;

/* Returns an array of the library's descriptors for ours; NULL: there is no memory. */
static backend_descriptor *real_ones(struct descriptor *const *ours, int64_t count)
{
    backend_descriptor *real = malloc(sizeof *real * (size_t)(count ? count : 1));
    for (int64_t i = 0; real && i < count; i++)
        real[i] = ours[i] ? ours[i]->real : NULL;
    return real;
}

int cudnn_set_real(struct descriptor *descriptor, int name, int type, int64_t count, const void *values)
{
    const struct cudnn_library *library = cudnn_library();
    if (type != TYPE_DESCRIPTOR)
        return library->set(descriptor->real, name, type, count, values);
    struct descriptor *const *parts = values;
    for (int64_t i = 0; i < count; i++) {
        int status = parts[i] ? cudnn_realise(parts[i]) : SUCCESS;
        if (status)
            return status;
    }
    backend_descriptor *real = real_ones(parts, count);
    int status = real ? library->set(descriptor->real, name, type, count, real) : ALLOC_FAILED;
    free(real);
    return status;
}

/* Gives a descriptor the device in place of the handle that a device would have. */
static int place(struct descriptor *descriptor)
{
    int name = descriptor->kind == HEURISTIC ? HEURISTIC_DEVICE : descriptor->kind == ENGINE ? ENGINE_DEVICE : 0;
    if (descriptor->kind == PLAN)
        name = PLAN_DEVICE;
    if (!name || descriptor->placed)
        return SUCCESS;
    backend_descriptor device = cudnn_device();
    descriptor->placed = true;
    return cudnn_library()->set(descriptor->real, name, TYPE_DESCRIPTOR, 1, &device);
}

int cudnn_finalize_real(struct descriptor *descriptor)
{
    int status = place(descriptor);
    if (!status && descriptor->kind == PLAN)
        __atomic_fetch_add(&attnmem_null_cudnn_plans, 1, __ATOMIC_RELAXED);
    return status ? status : cudnn_library()->finalize(descriptor->real);
}

/* Asks the owner again for all that it gave, and keeps what was given to this descriptor. */
static int fill(struct descriptor *descriptor, const struct step *step)
{
    const struct cudnn_library *library = cudnn_library();
    int status = cudnn_realise(step->owner);
    backend_descriptor *real = calloc((size_t)step->count, sizeof *real);
    if (!real)
        status = ALLOC_FAILED;
    for (int64_t i = 0; !status && i < step->count; i++) {
        if (i == step->index)
            real[i] = descriptor->real;
        else
            status = library->create(descriptor->kind, &real[i]);
    }
    int64_t found = 0;
    if (!status)
        status = library->get(step->owner->real, step->name, TYPE_DESCRIPTOR, step->count, &found, real);
    for (int64_t i = 0; real && i < step->count; i++)
        if (i != step->index && real[i])
            library->destroy(real[i]);
    free(real);
    return status;
}

static int do_step(struct descriptor *descriptor, const struct step *step)
{
    switch (step->what) {
    case SET:
        return cudnn_set_real(descriptor, step->name, step->type, step->count, step->values);
    case FILL:
        return fill(descriptor, step);
    default:
        return cudnn_finalize_real(descriptor);
    }
}

int cudnn_realise(struct descriptor *descriptor)
{
    while (descriptor->first) {
        int status = do_step(descriptor, descriptor->first);
        if (status)
            return status;
        cudnn_done(descriptor);
    }
    return SUCCESS;
}
