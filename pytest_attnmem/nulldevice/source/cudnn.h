/* Declarations shared by the parts that stand between a program and the installed cuDNN.
 *
 * cuDNN 9.8 and later plan an operation graph without a device, for a device that a descriptor of
 * its properties describes ("Deviceless AoT compilation" in cuDNN's documentation). Programs ask for
 * plans through the backend API; here the handle in such a question becomes that descriptor. The
 * numbers are those of cuDNN's header cudnn_graph.h, which need not be installed.
 */
#ifndef ATTNMEM_CUDNN_H
#define ATTNMEM_CUDNN_H

#include "null.h"

typedef void *backend_descriptor;

enum status { SUCCESS = 0, NOT_INITIALIZED = 1001, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, ALLOC_FAILED = 4003 };

enum kind {
    ENGINE = 2,
    HEURISTIC = 4,
    PLAN = 5,
    GRAPH = 15,
    VARIANT_PACK = 16,
    DEVICE_PROPERTY = 38
};

enum attribute {
    HEURISTIC_DEVICE = 204,
    PLAN_HANDLE = 400,
    PLAN_DEVICE = 407,
    GRAPH_HANDLE = 800,
    ENGINE_DEVICE = 1307,
    DEVICE_JSON = 2702
};

enum data_type { TYPE_FLOAT = 0, TYPE_DOUBLE = 1 }; /* others of recurrent networks have two bytes */

enum type { TYPE_HANDLE = 0, TYPE_DESCRIPTOR = 15, TYPE_CHAR = 24 };

/* cudnn_library.c: the functions of the installed library; NULL if it has none */
struct cudnn_library {
    size_t (*version)(void);
    int (*create)(int kind, backend_descriptor *descriptor);
    int (*destroy)(backend_descriptor descriptor);
    int (*set)(backend_descriptor descriptor, int name, int type, int64_t count, const void *values);
    int (*finalize)(backend_descriptor descriptor);
    int (*get)(backend_descriptor descriptor, int name, int type, int64_t count, int64_t *found, void *values);
    int (*network)(const void *descriptor, int *algorithm, int *mode, int *biases, int *directions, int *input_mode,
                   int *type, int *precision, int *math, int *input, int *hidden, int *projected, int *layers,
                   void **dropout, unsigned *flags);
    int (*set_tensor)(void *descriptor, int type, int count, const int *sizes, const int *strides);
};
const struct cudnn_library *cudnn_library(void);

/* cudnn_device.c */
const char *cudnn_device_json(void);
backend_descriptor cudnn_device(void); /* NULL: this cuDNN cannot plan without a device */

/* cudnn_keys.c: names of what a program asked, by content; equal in each process */
typedef unsigned __int128 cudnn_key;
cudnn_key cudnn_key_start(void);
cudnn_key cudnn_key_add(cudnn_key key, const void *bytes, size_t size);
size_t cudnn_size_of(int type); /* bytes of a value; 0: the type is unknown */

/* cudnn_answers.c: what the library answered, in this process and in those before */
struct cudnn_answer {
    int32_t status;
    int64_t found;
    size_t size;
    const void *bytes;
};
bool cudnn_recall(cudnn_key question, struct cudnn_answer *answer);
void cudnn_remember(cudnn_key question, const struct cudnn_answer *answer);

/* cudnn_descriptors.c: a descriptor of ours notes what was done to it, until the library must know */
struct step;
struct descriptor {
    uint64_t mark;
    int kind, references;
    bool planned; /* it depends on a plan, and answers about it are remembered */
    bool placed;  /* it has its device */
    cudnn_key key;
    backend_descriptor real;
    struct step *first, **last; /* what the library does not know yet */
};
struct step {
    enum { SET, FINALIZE, FILL } what;
    int name, type;
    int64_t count, index;
    void *values;             /* of SET; pointers to descriptors if they are of that type */
    struct descriptor *owner; /* of FILL: the descriptor that gives this one its contents */
    struct step *next;
};
struct descriptor *cudnn_ours(backend_descriptor descriptor); /* NULL: it is the library's own */
struct descriptor *cudnn_new(int kind, int *status);
void cudnn_release(struct descriptor *descriptor);
bool cudnn_add(struct descriptor *descriptor, struct step step); /* takes the references in the step */
void cudnn_done(struct descriptor *descriptor);                  /* removes the first step */

/* cudnn_realise.c: makes the library do the steps; callers hold the lock of cudnn_backend.c */
int cudnn_realise(struct descriptor *descriptor);
int cudnn_set_real(struct descriptor *descriptor, int name, int type, int64_t count, const void *values);
int cudnn_finalize_real(struct descriptor *descriptor);

#endif
