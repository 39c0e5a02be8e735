/* The models of the Open Inference Protocol. All models are the same operator. They differ in
 * their defaults, for clients that cannot send parameters: perf_analyzer over HTTP sends none,
 * so every combination of flags and every element type has a model of its own. The table is
 * fixed: the server loads no model. Failure modes: an unknown name. Thread: any, static
 * data. */
#ifndef TALLY_PROTO_MODELS_H
#define TALLY_PROTO_MODELS_H

#include "proto/dtype.h"
#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model {
    const char *name;
    enum dtype dtype; /* type that the metadata declare, and the type of raw binary requests */
    bool any_dtype;   /* the model takes every other type, too */
    bool axis_input;  /* the second input "axis" (ONNX) is required */
    int64_t default_axis; /* axis of a request without this parameter */
    bool exclusive;       /* default of the parameter */
    bool reverse;
};

/* Version of every model, as text on the wire. */
#define MODEL_VERSION "1"

/* Names of tensors, equal in all models. */
#define MODEL_INPUT   "x"
#define MODEL_AXIS    "axis"
#define MODEL_OUTPUT  "y"
#define MODEL_CARRY   "carry"   /* carry of a part, as input and as output */
#define MODEL_OFFSETS "offsets" /* offsets of segments */

size_t model_count(void);
const struct model *model_at(size_t index);       /* index < model_count() */
const struct model *model_find(const char *name); /* NULL if no model has this name */
size_t model_index(const struct model *model);    /* index in the table and in the statistics */

/* Find the model of a path. version: NULL for the latest.
 * err   NOT_FOUND: no such model or version; the sentence names the route that lists the
 * models */
MUST_CHECK enum status model_require(const char *name, const char *version,
                                     const struct model **out, struct error *err);

#endif
