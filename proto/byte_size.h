/* Byte counts as text: "64MiB" in a setting, "1.5 GiB" in a sentence. Units mean what they mean in
 * Kubernetes and in IEC 80000-13: KiB or Ki is 1024, kB or k is 1000, and so on. Text is written
 * with the powers of 1024. Pure; thread: any. */
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

/* Read a whole number with a unit or without one: "65536", "64 KiB", "64Ki", "2GB", "2G", "7B". The
 * case of letters does not matter. Returns false, and leaves *bytes unchanged, if the text is no
 * such number or the count exceeds 64 bits. */
MUST_CHECK bool byte_size_read(const char *text, uint64_t *bytes);

/* Write "64 MiB", "1.5 GiB", "17 bytes". */
void byte_size_text(uint64_t bytes, char *text, size_t room);

/* The same for a count that stands beside `limit` in a sentence: in bytes if both texts would be
 * equal otherwise. */
void byte_size_compared_text(uint64_t bytes, uint64_t limit, char *text, size_t room);

#endif
