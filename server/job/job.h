/* The life of a tensor request from its complete body to its answer, in every dialect. The
 * module is independent of HTTP: request->arrival has the parameters of the header.
 *
 *     PARSE --> PREPARE --> SCAN --> PRINT --> READY
 *
 * job.c has the table of steps and job_run(), the function that runs them. The four steps of a
 * small request run one after the other in one call, in the HTTP thread that read the request.
 * If a step is long, the request is handed over to another thread, which runs this step and the
 * following ones.
 *
 * Failure modes: a step that fails sets request->error, and the request is READY; the answer
 * reports the error. */
#ifndef TALLY_SERVER_JOB_H
#define TALLY_SERVER_JOB_H

#include "server/sched/request.h"

/* Run the request's steps, beginning with the step of its state. Returns true if the request is
 * READY and the caller owns it. Returns false if the request was handed over: another thread
 * may own it already and will return it through the completion list. Thread: the request's
 * loop. */
bool job_run(struct request *request);

#endif
