/* cuFFT: plans, and no transforms.
 *
 * PyTorch asks for the size of a plan's workspace, keeps the plan, and allocates the workspace at
 * each transform. Only the library knows the size, and it starts on a GPU alone. So a transform is
 * counted, and a window with a counted call is not enforced; a plan that was kept counts too. The
 * functions are declared here because some CUDA packages of PyTorch lack the headers of cuFFT;
 * tests/nulldevice/test_library_headers.py compares them with the headers.
 */
#include "null.h"

VISIBLE int cufftCreate(int *plan)
{
    static int plans;
    *plan = __atomic_add_fetch(&plans, 1, __ATOMIC_RELAXED);
    return 0;
}

VISIBLE int cufftXtMakePlanMany(int plan, int rank, long long *sizes, long long *embedded_in, long long step_in,
                                long long distance_in, int type_in, long long *embedded_out, long long step_out,
                                long long distance_out, int type_out, long long batch, size_t *workspace, int compute)
{
    *workspace = 0;
    return 0;
}

#define SETTING(name)      \
    VISIBLE int name(void) \
    {                      \
        return 0;          \
    }
SETTING(cufftDestroy)
SETTING(cufftSetAutoAllocation)
SETTING(cufftSetStream)
SETTING(cufftSetWorkArea)

VISIBLE int cufftXtExec(int plan, void *input, void *output, int direction)
{
    COUNT_CALL();
    null_launched(NULL);
    return 0;
}
