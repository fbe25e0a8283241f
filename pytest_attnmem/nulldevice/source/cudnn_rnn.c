/* The weights of cuDNN's recurrent networks: one buffer, whose size and parts are arithmetic.
 *
 * The matrices of all layers come first, then the biases of all layers, without gaps. Frameworks that
 * fill the buffer themselves rely on it (Keras' `_canonical_to_params`). The order inside a layer is a
 * choice of ours, and no size depends on it. cuDNN's own functions need a handle of a device.
 */
#include "cudnn.h"

enum { RELU, TANH, LSTM, GRU };
enum { NO_BIAS, INPUT_BIAS, BOTH_BIASES, STATE_BIAS };

struct network {
    int mode, biases, both_ways, type;
    int input, hidden, projected, layers;
    size_t item;  /* bytes of an element */
    size_t gates; /* rows of `hidden` elements in a matrix */
};

static int read_network(const void *descriptor, struct network *network)
{
    const struct cudnn_library *library = cudnn_library();
    int algorithm, input_mode, precision, math;
    unsigned flags;
    void *dropout;
    if (!descriptor)
        return BAD_PARAM;
    if (!library || !library->network || !library->set_tensor)
        return NOT_INITIALIZED;
    int status = library->network(descriptor, &algorithm, &network->mode, &network->biases, &network->both_ways,
                                  &input_mode, &network->type, &precision, &math, &network->input,
                                  &network->hidden, &network->projected, &network->layers, &dropout, &flags);
    if (status)
        return status;
    network->item = network->type == TYPE_FLOAT ? 4 : network->type == TYPE_DOUBLE ? 8 : 2;
    network->gates = network->mode == LSTM ? 4 : network->mode == GRU ? 3 : 1;
    return SUCCESS;
}

static int inputs(const struct network *network, int place)
{
    return place <= network->both_ways ? network->input : (1 + network->both_ways) * network->projected;
}

/* Returns the elements of the matrices before a place; places are layers, or layers and directions. */
static size_t matrices(const struct network *network, int places)
{
    size_t elements = 0, hidden = (size_t)network->hidden, projected = (size_t)network->projected;
    for (int place = 0; place < places; place++) {
        elements += network->gates * hidden * ((size_t)inputs(network, place) + projected);
        if (projected < hidden)
            elements += projected * hidden;
    }
    return elements;
}

static int places(const struct network *network)
{
    return network->layers * (1 + network->both_ways);
}

static size_t biases(const struct network *network)
{
    int vectors = network->biases == BOTH_BIASES ? 2 : network->biases != NO_BIAS;
    return (size_t)vectors * network->gates * (size_t)network->hidden;
}

VISIBLE int cudnnGetRNNWeightSpaceSize(const void *handle, const void *descriptor, size_t *size)
{
    struct network network;
    int status = size ? read_network(descriptor, &network) : BAD_PARAM;
    if (!status)
        *size = network.item * (matrices(&network, places(&network)) + (size_t)places(&network) * biases(&network));
    return status;
}

/* Describes a part of the weights with so many rows and columns; `descriptor` may be NULL. */
static int describe(const struct network *network, void *descriptor, int rows, int columns)
{
    int sizes[] = {1, rows, columns}, strides[] = {rows * columns, columns, 1};
    return descriptor ? cudnn_library()->set_tensor(descriptor, network->type, 3, sizes, strides) : SUCCESS;
}

VISIBLE int cudnnGetRNNWeightParams(const void *handle, const void *descriptor, int place, size_t size, char *space,
                                    int part, void *matrix, void **matrix_at, void *bias, void **bias_at)
{
    struct network network;
    int status = read_network(descriptor, &network);
    if (status)
        return status;
    int gates = (int)network.gates, hidden = network.hidden, projected = network.projected;
    bool projects = part == 2 * gates && projected < hidden;
    if (place < 0 || place >= places(&network) || part < 0 || (part >= 2 * gates && !projects))
        return BAD_PARAM;
    size_t of_input = (size_t)hidden * (size_t)inputs(&network, place);
    size_t of_state = (size_t)hidden * (size_t)projected;
    bool is_input = part < gates;
    size_t before = is_input ? (size_t)part * of_input
                             : network.gates * of_input + (size_t)(part - gates) * of_state;
    if (matrix_at)
        *matrix_at = space + network.item * (matrices(&network, place) + before);
    int columns = is_input ? inputs(&network, place) : projected;
    status = projects ? describe(&network, matrix, projected, hidden) : describe(&network, matrix, hidden, columns);
    if (status || (!bias && !bias_at))
        return status;
    int vector = network.biases == STATE_BIAS ? part - gates : part; /* the first ones are the input's */
    size_t last = biases(&network) / (size_t)hidden;
    bool has = !projects && vector >= 0 && (size_t)vector < last;
    size_t at = matrices(&network, places(&network)) + (size_t)place * biases(&network) + (size_t)vector * (size_t)hidden;
    if (bias_at)
        *bias_at = has ? space + network.item * at : NULL;
    return has ? describe(&network, bias, hidden, 1) : SUCCESS;
}
