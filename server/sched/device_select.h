/* The text of --devices. Thread: any. */
#ifndef TALLY_SERVER_DEVICE_SELECT_H
#define TALLY_SERVER_DEVICE_SELECT_H

#include "kernels/device.h"

/* Which devices a text like "gpu,0,pocl" names. A processor is used through one driver only:
 * where Tally's own is among the devices, "all" and "cpu" mean that one, and a number or a name
 * of another takes its place. out   chosen[0..count) err   NO_DEVICE: a part of it names none
 * of them; INVALID_REQUEST: Tally's own driver and another one are both named */
MUST_CHECK enum status device_select(const char *text, const struct scan_device_info *infos,
                                     size_t count, bool *chosen, struct error *err);

#endif
