/* Checksums for a cache that its owner does not check: PoCL trusts the files of its kernel
 * cache and aborts the process on a truncated one, at every start anew. The seal is a file
 * beside the entries (DIRECTORY/AB/CDEF.../) with a checksum of each; an entry that does not
 * agree with it, or is not in it, is removed before PoCL sees it and built again. Thread: one
 * at a time. */
#ifndef TALLY_SERVER_CACHE_SEAL_H
#define TALLY_SERVER_CACHE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Remove what the seal does not vouch for; returns how many entries that were. No other process
 * may be using the directory. */
size_t cache_seal_verify(const char *directory);

/* Write a new seal over all that is there; false if that failed. */
bool cache_seal_write(const char *directory);

/* A number that changes when entries do: names, sizes and times, without reading them. */
uint64_t cache_seal_stamp(const char *directory);

#endif
