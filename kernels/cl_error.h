/* OpenCL error codes as text and as a status. Thread: any. */
#ifndef TALLY_KERNELS_CL_ERROR_H
#define TALLY_KERNELS_CL_ERROR_H

#include "proto/status.h"

#include <CL/cl.h>

/* "CL_OUT_OF_RESOURCES"; "unknown OpenCL error" for codes not in the standard. */
const char *cl_error_name(cl_int code);

/* STATUS_OK for CL_SUCCESS; else fills err ("clFinish: CL_OUT_OF_RESOURCES (-5)") and returns
 * OUT_OF_MEMORY where the host or the device has no room for an object, DEVICE_ERROR otherwise.
 */
MUST_CHECK enum status cl_check(cl_int code, const char *call, struct error *err);

#endif
