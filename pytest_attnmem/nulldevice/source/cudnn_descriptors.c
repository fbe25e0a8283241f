/* Descriptors of ours: each stands for one of the library's, and owns the steps that wait. */
#include "cudnn.h"
#include <stdlib.h>
#include <string.h>

#define MARK 0x6174746e6d656d21 /* no object of cuDNN begins with it: they begin with a pointer */

struct descriptor *cudnn_ours(backend_descriptor descriptor)
{
    struct descriptor *ours = descriptor;
    return ours && ours->mark == MARK ? ours : NULL;
}

struct descriptor *cudnn_new(int kind, int *status)
{
    struct descriptor *made = calloc(1, sizeof *made);
    *status = made ? SUCCESS : ALLOC_FAILED;
    if (!made)
        return NULL;
    made->mark = MARK;
    made->kind = kind;
    made->references = 1;
    made->key = cudnn_key_add(cudnn_key_start(), &kind, sizeof kind);
    made->planned = kind == ENGINE || kind == HEURISTIC || kind == PLAN;
    made->last = &made->first;
    if (kind != VARIANT_PACK)
        *status = cudnn_library()->create(kind, &made->real);
    if (*status) {
        free(made);
        return NULL;
    }
    return made;
}

static void release_step(struct step *step)
{
    if (step->what == SET && step->type == TYPE_DESCRIPTOR)
        for (int64_t i = 0; i < step->count; i++)
            cudnn_release(((struct descriptor **)step->values)[i]);
    cudnn_release(step->owner);
    free(step->values);
    free(step);
}

void cudnn_release(struct descriptor *descriptor)
{
    if (!descriptor || --descriptor->references)
        return;
    for (struct step *step = descriptor->first, *next; step; step = next) {
        next = step->next;
        release_step(step);
    }
    if (descriptor->real)
        cudnn_library()->destroy(descriptor->real);
    descriptor->mark = 0;
    free(descriptor);
}

bool cudnn_add(struct descriptor *descriptor, struct step step)
{
    struct step *kept = malloc(sizeof *kept);
    if (!kept)
        return false;
    *kept = step;
    kept->next = NULL;
    *descriptor->last = kept;
    descriptor->last = &kept->next;
    return true;
}

void cudnn_done(struct descriptor *descriptor)
{
    struct step *step = descriptor->first;
    descriptor->first = step->next;
    if (!descriptor->first)
        descriptor->last = &descriptor->first;
    release_step(step);
}
