/* Tally's own OpenCL platform: the driver that is linked in. Its objects are used through the
 * ICD loader like all others, but the loader does not list the platform: contexts of its
 * device are created without CL_CONTEXT_PLATFORM, which the loader would search in its list.
 * Thread: any. */
#ifndef TALLY_KERNELS_CPU_ICD_H
#define TALLY_KERNELS_CPU_ICD_H

#include <CL/cl.h>

#define CPU_PLATFORM_NAME "Tally"

/* Implementation of clIcdGetPlatformIDsKHR() (cl_khr_icd). */
cl_int CL_API_CALL cpu_icd_get_platform_ids(cl_uint room, cl_platform_id *ids, cl_uint *count);

/* Implementation of clGetExtensionFunctionAddress(); may be called before any other
 * function. */
void *CL_API_CALL cpu_icd_get_function_address(const char *name);

#endif
