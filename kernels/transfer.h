/* Transfers of tensors to and from a device with memory of its own. The device has a queue for
 * each direction, a queue of launches, and some slots. A slot holds one wave (batch.c): a
 * device buffer, which is kept for reuse, and the events of its three phases. So one wave is
 * uploaded while another one is scanned and a third one is downloaded:
 *
 *     upload     | wave 1 | wave 2 | wave 3 | wave 4 |                waits for the slot's last download
 *     launches            | wave 1 | wave 2 | wave 3 | wave 4 |       waits for the wave's upload
 *     download                     | wave 1 | wave 2 | wave 3 | ...   waits for the wave's scan
 *     slot           0        1        2        0
 *
 * A tensor in a pinned slab is transferred directly between the slab and the device. For other
 * tensors the host copies the bytes through a pinned staging buffer; each slot has one.
 *
 * Possible failures: DEVICE_ERROR, OUT_OF_MEMORY. After a failure the caller must call
 * transfer_abandon(). Thread: the device's. */
#ifndef TALLY_KERNELS_TRANSFER_H
#define TALLY_KERNELS_TRANSFER_H

#include "kernels/opencl.h"

enum {
    TRANSFER_SLOTS = 3,
    TRANSFER_STAGE_BYTES = 8 << 20
};

/* A range of bytes on the host and its offset in a device buffer. */
struct transfer_span {
    struct slab *slab; /* borrowed: contains `host` */
    unsigned char *host;
    uint64_t at; /* offset in bytes */
    uint64_t bytes;
};

/* Start and end of a phase of a wave. */
struct transfer_phase {
    cl_event first; /* owned: the first command of the phase; NULL: none, or not enqueued */
    cl_event last;  /* owned: the last one, often the same */
};

struct transfer_slot {
    struct opencl_buffer buffer; /* owned: device memory of a wave */
    cl_mem stage_mem;            /* owned: pinned host memory of TRANSFER_STAGE_BYTES */
    unsigned char *stage;        /* mapping of `stage_mem` */
    cl_event stage_busy;         /* owned: the copy that uses the stage; NULL: none */
    struct transfer_span *spans; /* owned: array for the spans of a wave */
    size_t room;                 /* capacity of `spans` */

    /* The wave in flight. */
    struct transfer_phase upload;
    struct transfer_phase scan; /* a marker after the launches */
    struct transfer_phase download;
    const struct transfer_span *staged; /* spans whose download ends in the stage; NULL: none */
    size_t staged_count;
    bool overwrites; /* the download replaces the input */
};

/* A struct whose bytes are all zero owns nothing. */
struct transfer {
    const struct opencl *device; /* borrowed */
    cl_command_queue up;         /* owned */
    cl_command_queue down;       /* owned */
    struct transfer_slot slots[TRANSFER_SLOTS];
    struct scan_report *report; /* borrowed: report of the waves in flight */
    size_t next;                /* slot of the next wave */
    uint64_t scanned_ns;        /* end of the last scan on the device's clock */
};

MUST_CHECK enum status transfer_init(struct transfer *transfer, const struct opencl *device,
                                     struct error *err);
void transfer_deinit(struct transfer *transfer); /* the device is idle */

/* Get the slot for the next wave, with room for its spans. If an earlier wave still uses the slot,
 * the function first waits until that wave is downloaded.
 * report: receives the times of the wave; must stay valid until transfer_finish() or
 * transfer_abandon() */
MUST_CHECK enum status transfer_begin(struct transfer *transfer, size_t span_count,
                                      struct scan_report *report, struct transfer_slot **slot,
                                      struct error *err);

/* Enqueue copies of spans from the host to the buffer of the slot. Launches that are enqueued after
 * the call wait for the copies.
 * spans: in ascending order of `at` */
MUST_CHECK enum status transfer_upload(struct transfer *transfer, struct transfer_slot *slot,
                                       const struct transfer_span *spans, size_t count,
                                       struct error *err);

/* Enqueue copies of spans from the buffer of the slot to the host, behind the launches that are
 * already enqueued. The copies are complete when transfer_begin() returns the same slot again, or
 * when transfer_finish() returns; `spans` must stay valid until then.
 * overwrites: a span is the input of the scan, so the download replaces the input */
MUST_CHECK enum status transfer_download(struct transfer *transfer, struct transfer_slot *slot,
                                         const struct transfer_span *spans, size_t count,
                                         bool overwrites, struct error *err);

/* Wait until every wave is downloaded. Adds the times of their phases to the report. */
MUST_CHECK enum status transfer_finish(struct transfer *transfer, struct scan_report *report,
                                       struct error *err);

/* After a failure: wait until no command is in flight, and forget the waves. Clears
 * report->inputs_intact if a download may have replaced an input. */
void transfer_abandon(struct transfer *transfer, struct scan_report *report);

#endif
