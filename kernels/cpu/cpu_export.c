/* The functions that the ICD loader looks up in the shared object that a file tally.icd
 * names. */
#include "kernels/cpu/cpu_icd.h"
#include "kernels/cpu/driver.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint room, cl_platform_id *ids,
                                                   cl_uint *count)
{
    return cpu_icd_get_platform_ids(room, ids, count);
}

EXPORTED void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
    return cpu_icd_get_function_address(name);
}

EXPORTED cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what,
                                              size_t room, void *out, size_t *size)
{
    return cpu_get_platform_info(platform, what, room, out, size);
}
