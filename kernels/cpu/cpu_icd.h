/* Tally's own OpenCL platform, the driver that is linked in. Its objects are used through the
 * ICD loader like all others, but the loader does not list it: contexts of its device are made
 * without CL_CONTEXT_PLATFORM, which the loader would look for in its list. Thread: any. */
#ifndef TALLY_KERNELS_CPU_ICD_H
#define TALLY_KERNELS_CPU_ICD_H

#include <CL/cl.h>

#define CPU_PLATFORM_NAME "Tally"

/* As clIcdGetPlatformIDsKHR() of the extension cl_khr_icd. */
cl_int CL_API_CALL cpu_icd_get_platform_ids(cl_uint room, cl_platform_id *ids, cl_uint *count);

/* As clGetExtensionFunctionAddress(), also before there is a platform. */
void *CL_API_CALL cpu_icd_get_function_address(const char *name);

#endif
