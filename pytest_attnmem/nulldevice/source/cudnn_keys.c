/* Names of questions: FNV-1a with 128 bits over all that a program said. */
#include "cudnn.h"

cudnn_key cudnn_key_start(void)
{
    return (cudnn_key)0x6c62272e07bb0142 << 64 | 0x62b821756295c58d;
}

cudnn_key cudnn_key_add(cudnn_key key, const void *bytes, size_t size)
{
    const cudnn_key prime = (cudnn_key)1 << 88 | 0x13b;
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++)
        key = (key ^ byte[i]) * prime;
    return key;
}

/* Up to cuDNN 9.26, all types that are not listed are enumerations. */
size_t cudnn_size_of(int type)
{
    enum { BOOLEAN = 2, INT64, FLOAT, DOUBLE, VOID_PTR, FRACTION = 26, NEWEST = 32 };
    switch (type) {
    case TYPE_HANDLE:
    case INT64:
    case DOUBLE:
    case VOID_PTR:
    case TYPE_DESCRIPTOR:
        return 8;
    case FRACTION:
        return 16;
    case BOOLEAN:
    case TYPE_CHAR:
        return 1;
    default:
        return type > 0 && type <= NEWEST ? 4 : 0;
    }
}
