/* The table of choices as it is where nobody says otherwise. */
#include "kernels/scan_tuning.h"

const struct scan_tuning scan_tuning_default = {
#define X(name, kind, value, min, max, multiple, unit, meaning) .name = (value),
    SCAN_TUNING_TABLE(X)
#undef X
};
