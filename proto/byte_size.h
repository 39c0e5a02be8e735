/* Byte counts as people write them: "64MiB" in a setting, "1.5 GiB" in a sentence. Units are
 * powers of 1024. Pure; thread: any. */
#ifndef TALLY_PROTO_BYTE_SIZE_H
#define TALLY_PROTO_BYTE_SIZE_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIZE_KIB UINT64_C(1024)
#define SIZE_MIB (SIZE_KIB * 1024)
#define SIZE_GIB (SIZE_MIB * 1024)
#define SIZE_TIB (SIZE_GIB * 1024)

/* Read a whole number of bytes, KiB, MiB, GiB or TiB: "65536", "64 KiB", "64k", "2G", "7B".
 * False, and *bytes as it was, if the text is none or 64 bits do not hold it. */
MUST_CHECK bool byte_size_read(const char *text, uint64_t *bytes);

/* Write "64 MiB", "1.5 GiB", "17 bytes". */
void byte_size_text(uint64_t bytes, char *text, size_t room);

/* The same of what is compared with `limit`: in bytes where both would read alike. */
void byte_size_compared_text(uint64_t bytes, uint64_t limit, char *text, size_t room);

#endif
