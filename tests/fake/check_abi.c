/* Compiled by check_abi.py where the real headers are installed: their types must satisfy what the
 * stand-ins assert, and their prototypes must agree with the stand-ins' (a conflict is an error).
 */
#define __CUDA_API_VERSION_INTERNAL /* the versioned names as functions, not as macros */
#include <cuda_runtime_api.h>
#include <cuda.h>
#include <nccl.h>

#include "abi_asserts.h"

/* Declared for compiler-generated code only, in a header for C++. */
#define __cudaGetKernel         stand_in_get_kernel
#define __cudaLaunchKernel      stand_in_launch
#define __cudaLaunchKernel_ptsz stand_in_launch_ptsz
#include "cuda_protos.h"
#include "nccl_protos.h"
