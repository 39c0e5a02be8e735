/* The aids are one device's: nothing is left of them for the next. */
#include "tests/lib/device_aids.h"

_Thread_local struct scan_aids scan_aids_next;

enum status device_aids_open(size_t number, const struct scan_aids *aids,
                             struct scan_device **device, struct error *err)
{
    const struct scan_device_options options = {.lookback = (enum scan_lookback)aids->lookback};
    scan_aids_next = *aids;
    enum status status = scan_device_open(number, &options, device, err);
    scan_aids_next = (struct scan_aids){0};
    return status;
}
