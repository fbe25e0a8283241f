/* cuDNN's backend API, as programs call it: planned by the installed library, executed by nobody.
 *
 * A plan takes the library up to seconds. So answers about plans are remembered, here and for later
 * processes, by the content of the question: all that was set on the descriptor and on those that it
 * is made of. If the answer is known, the library is not asked, and the step waits; if a later
 * question needs it, the library does all the steps that wait.
 */
#include "cudnn.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool planning;

static void enter(void)
{
    pthread_mutex_lock(&lock);
    planning = true;
}

static int leave(int status)
{
    planning = false;
    pthread_mutex_unlock(&lock);
    return status;
}

bool null_is_planning(void)
{
    return planning;
}

VISIBLE int cudnnBackendCreateDescriptor(int kind, backend_descriptor *descriptor)
{
    const struct cudnn_library *library = cudnn_library();
    int status;
    if (!library)
        return NOT_INITIALIZED;
    if (null_of_library(__builtin_return_address(0), "libcudnn")) /* parts of it call by these names */
        return library->create(kind, descriptor);
    enter();
    *descriptor = cudnn_new(kind, &status);
    return leave(status);
}

VISIBLE int cudnnBackendDestroyDescriptor(backend_descriptor descriptor)
{
    struct descriptor *ours = cudnn_ours(descriptor);
    if (!ours)
        return cudnn_library()->destroy(descriptor);
    enter();
    cudnn_release(ours);
    return leave(SUCCESS);
}

static cudnn_key add_value(cudnn_key key, int type, int64_t count, const void *values)
{
    if (type != TYPE_DESCRIPTOR)
        return cudnn_key_add(key, values, (size_t)count * cudnn_size_of(type));
    struct descriptor *const *parts = values;
    for (int64_t i = 0; i < count; i++)
        if (parts[i])
            key = cudnn_key_add(key, &parts[i]->key, sizeof parts[i]->key);
    return key;
}

static cudnn_key named(cudnn_key key, char what, int name, int type, int64_t count)
{
    int64_t said[] = {what, name, type, count};
    return cudnn_key_add(key, said, sizeof said);
}

static bool waits(const struct descriptor *descriptor, int type, int64_t count, const void *values)
{
    struct descriptor *const *parts = values;
    if (descriptor->first)
        return true;
    for (int64_t i = 0; type == TYPE_DESCRIPTOR && i < count; i++)
        if (parts[i] && parts[i]->first)
            return true;
    return false;
}

static int set(struct descriptor *ours, int name, int type, int64_t count, const void *values)
{
    size_t size = (size_t)count * cudnn_size_of(type);
    struct descriptor *const *parts = values;
    ours->key = add_value(named(ours->key, 's', name, type, count), type, count, values);
    ours->placed |= name == HEURISTIC_DEVICE || name == ENGINE_DEVICE || name == PLAN_DEVICE;
    for (int64_t i = 0; type == TYPE_DESCRIPTOR && i < count; i++)
        ours->planned |= parts[i] && parts[i]->planned;
    if (!waits(ours, type, count, values))
        return cudnn_set_real(ours, name, type, count, values);
    void *copy = malloc(size ? size : 1);
    if (!copy || !cudnn_add(ours, (struct step){SET, name, type, count, .values = memcpy(copy, values, size)}))
        return ALLOC_FAILED;
    for (int64_t i = 0; type == TYPE_DESCRIPTOR && i < count; i++)
        if (parts[i])
            parts[i]->references++;
    return SUCCESS;
}

VISIBLE int cudnnBackendSetAttribute(backend_descriptor descriptor, int name, int type, int64_t count,
                                     const void *values)
{
    struct descriptor *ours = cudnn_ours(descriptor);
    if (!ours)
        return cudnn_library()->set(descriptor, name, type, count, values);
    if (name == GRAPH_HANDLE || name == PLAN_HANDLE || ours->kind == VARIANT_PACK)
        return SUCCESS; /* the device is in the place of the handle, and nothing reads the tensors */
    if (!cudnn_size_of(type)) {
        COUNT_CALL();
        return NOT_SUPPORTED;
    }
    if (count < 0 || (count && !values))
        return BAD_PARAM;
    enter();
    return leave(set(ours, name, type, count, values));
}

/* An answer is remembered if cuDNN asked nothing that this runtime does not know: such a call makes
 * a window not enforced, so it must be made again in the next. */
static int finalize(struct descriptor *ours)
{
    struct cudnn_answer answer = {0};
    ours->key = named(ours->key, 'f', 0, 0, 0);
    if (ours->planned && cudnn_recall(ours->key, &answer)) {
        bool noted = answer.status || cudnn_add(ours, (struct step){.what = FINALIZE});
        return noted ? answer.status : ALLOC_FAILED;
    }
    unsigned long unknown = null_counted();
    answer.status = cudnn_realise(ours);
    if (!answer.status)
        answer.status = cudnn_finalize_real(ours);
    if (ours->planned && null_counted() == unknown)
        cudnn_remember(ours->key, &answer);
    return answer.status;
}

VISIBLE int cudnnBackendFinalize(backend_descriptor descriptor)
{
    struct descriptor *ours = cudnn_ours(descriptor);
    if (!ours)
        return cudnn_library()->finalize(descriptor);
    if (ours->kind == VARIANT_PACK)
        return SUCCESS;
    enter();
    return leave(finalize(ours));
}

/* Asks the library; descriptors of ours get the contents of the library's. */
static int ask(struct descriptor *ours, int name, int type, int64_t count, int64_t *found, void *values)
{
    int status = cudnn_realise(ours);
    struct descriptor *const *parts = values;
    if (status || type != TYPE_DESCRIPTOR || !values)
        return status ? status : cudnn_library()->get(ours->real, name, type, count, found, values);
    backend_descriptor *real = malloc(sizeof *real * (size_t)(count ? count : 1));
    for (int64_t i = 0; real && i < count; i++)
        real[i] = parts[i] ? parts[i]->real : NULL;
    status = real ? cudnn_library()->get(ours->real, name, type, count, found, real) : ALLOC_FAILED;
    free(real);
    return status;
}

/* Names the descriptors that an answer filled; they wait if the library did not fill them. */
static int name_parts(struct descriptor *ours, cudnn_key question, int name, int64_t count, int64_t found,
                      struct descriptor *const *parts, bool wait)
{
    for (int64_t i = 0; i < count && i < found; i++) {
        if (!parts[i])
            continue;
        parts[i]->key = cudnn_key_add(question, &i, sizeof i);
        parts[i]->planned |= ours->planned;
        struct step step = {FILL, name, TYPE_DESCRIPTOR, count, i, .owner = ours};
        if (wait && !cudnn_add(parts[i], step))
            return ALLOC_FAILED;
        ours->references += wait;
    }
    return SUCCESS;
}

static int get(struct descriptor *ours, int name, int type, int64_t count, int64_t *found, void *values)
{
    cudnn_key question = named(ours->key, values ? 'g' : 'n', name, type, count);
    struct cudnn_answer answer = {0};
    bool known = ours->planned && cudnn_recall(question, &answer);
    int64_t given = 0;
    if (!known) {
        unsigned long unknown = null_counted();
        answer.status = ask(ours, name, type, count, &given, values);
        answer.found = given;
        answer.bytes = values;
        if (values && type != TYPE_DESCRIPTOR && !answer.status)
            answer.size = (size_t)(given < count ? given : count) * cudnn_size_of(type);
        if (ours->planned && null_counted() == unknown)
            cudnn_remember(question, &answer);
    } else if (answer.size) {
        memcpy(values, answer.bytes, answer.size);
    }
    if (found)
        *found = answer.found;
    if (answer.status || !values || type != TYPE_DESCRIPTOR)
        return answer.status;
    return name_parts(ours, question, name, count, answer.found, values, known);
}

VISIBLE int cudnnBackendGetAttribute(backend_descriptor descriptor, int name, int type, int64_t count,
                                     int64_t *found, void *values)
{
    struct descriptor *ours = cudnn_ours(descriptor);
    if (!ours)
        return cudnn_library()->get(descriptor, name, type, count, found, values);
    if (!cudnn_size_of(type) || ours->kind == VARIANT_PACK) {
        COUNT_CALL();
        return NOT_SUPPORTED;
    }
    enter();
    return leave(get(ours, name, type, count, found, values));
}

/* Read by Python as a variable: the plans that were executed. */
VISIBLE unsigned long attnmem_null_cudnn_runs;

VISIBLE int cudnnBackendExecute(void *handle, backend_descriptor plan, backend_descriptor pack)
{
    struct descriptor *ours = cudnn_ours(plan);
    if (!ours || ours->kind != PLAN)
        return BAD_PARAM;
    __atomic_fetch_add(&attnmem_null_cudnn_runs, 1, __ATOMIC_RELAXED);
    null_launched(NULL);
    return SUCCESS;
}
