/* Byte counts as text: "64MiB" in a setting, "1.5 GiB" in a sentence. Units are those of
 * Kubernetes and IEC 80000-13: KiB or Ki is 1024, kB or k is 1000, and so on. Output uses
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

/* Read a whole number with or without a unit: "65536", "64 KiB", "64Ki", "2GB", "2G", "7B".
 * Case is ignored. Returns false and leaves *bytes unchanged if the text is not such a number
 * or the count exceeds 64 bits. */
MUST_CHECK bool byte_size_read(const char *text, uint64_t *bytes);

/* Write "64 MiB", "1.5 GiB", "17 bytes". */
void byte_size_text(uint64_t bytes, char *text, size_t room);

/* byte_size_text() for a count that stands beside `limit` in a sentence: the count is written
 * in bytes if both texts would otherwise be equal. */
void byte_size_compared_text(uint64_t bytes, uint64_t limit, char *text, size_t room);

#endif
