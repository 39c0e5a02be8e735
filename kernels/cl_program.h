/* OpenCL programs from the embedded sources. Thread: that of the device. */
#ifndef TALLY_KERNELS_CL_PROGRAM_H
#define TALLY_KERNELS_CL_PROGRAM_H

#include "kernels/cl_device.h"

enum {
    CL_PROGRAM_SOURCES_MAX = 8
};

/* What to build: embedded files by name without ".cl", one after the other, and -D options. */
struct cl_program_spec {
    const char *sources[CL_PROGRAM_SOURCES_MAX]; /* up to the first NULL */
    const char *options;                         /* beside the ones every program gets */
};

/* Build from source. err DEVICE_ERROR with the end of the build log */
MUST_CHECK enum status cl_program_build(const struct cl_device *device,
                                        const struct cl_program_spec *spec, cl_program *program,
                                        struct error *err);

/* The built-in kernels of these names, with a semicolon between them. err DEVICE_ERROR: the
 * device does not have them */
MUST_CHECK enum status cl_program_take(const struct cl_device *device, const char *names,
                                       cl_program *program, struct error *err);

/* The text of an embedded file; NULL if there is none of that name. */
const char *cl_program_source(const char *name, size_t *bytes);

#endif
