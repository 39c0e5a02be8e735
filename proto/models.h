/* The models that the Open Inference Protocol offers. All are the one operator; they
 * differ in what a client that cannot send parameters gets: perf_analyzer over HTTP sends none,
 * so every combination of attributes and every element type has a name of its own. The names
 * are a fixed table: no file, no loading. Thread: any, static data. */
#ifndef TALLY_PROTO_MODELS_H
#define TALLY_PROTO_MODELS_H

#include "proto/dtype.h"
#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model {
    const char *name;
    enum dtype dtype;     /* declared in the metadata, and what raw binary requests carry */
    bool any_dtype;       /* takes the other types as well */
    bool axis_input;      /* the axis is a second input "axis" (ONNX) and must be sent */
    int64_t default_axis; /* without a parameter */
    bool exclusive;       /* default; a parameter overrides it */
    bool reverse;
};

/* Version of every model, as text on the wire. */
#define MODEL_VERSION "1"

/* Names of tensors, the same in every model. */
#define MODEL_INPUT   "x"
#define MODEL_AXIS    "axis"
#define MODEL_OUTPUT  "y"
#define MODEL_CARRY   "carry"   /* of a part, in and out */
#define MODEL_OFFSETS "offsets" /* of segments */

size_t model_count(void);
const struct model *model_at(size_t index);       /* index < model_count() */
const struct model *model_find(const char *name); /* NULL if there is none */
size_t model_index(const struct model *model); /* its position: the index of its statistics */

/* The model that a path names; a version that is NULL is the latest.
 * err   NOT_FOUND: no such model or version; says where the models are listed */
MUST_CHECK enum status model_require(const char *name, const char *version,
                                     const struct model **out, struct error *err);

#endif
