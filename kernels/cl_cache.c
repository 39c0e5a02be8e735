/* One entry is   magic | key bytes | binary bytes | checksum of both | key | binary
 * under a name made from the key's hash. The key is in the file so that two keys of one hash
 * cannot be mistaken, the checksum so that a driver never sees a damaged binary. */
#include "kernels/cl_cache.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096
};

static const char magic[8] = {'T', 'a', 'l', 'l', 'y', 'B', 'n', '1'};

struct entry_head {
    char magic[8];
    uint64_t key_bytes;
    uint64_t binary_bytes;
    uint64_t checksum;
};

/* FNV-1a, continued from `hash`. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint64_t hash_entry(const char *key, const unsigned char *binary, size_t bytes)
{
    uint64_t hash = hash_bytes(UINT64_C(0xcbf29ce484222325), key, strlen(key));
    return hash_bytes(hash, binary, bytes);
}

static bool entry_path(char path[PATH_BYTES], const char *dir, const char *key,
                       const char *suffix)
{
    uint64_t name = hash_bytes(UINT64_C(0xcbf29ce484222325), key, strlen(key));
    int length = snprintf(path, PATH_BYTES, "%s/%016" PRIx64 ".clbin%s", dir, name, suffix);
    return length > 0 && length < PATH_BYTES;
}

/* Only a regular file that nobody else could have written. */
static int open_trusted(const char *path, size_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return -1;
    }
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size <= 0 ||
        (info.st_uid != geteuid() && info.st_uid != 0) ||
        (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        (void)close(fd);
        return -1;
    }
    *bytes = (size_t)info.st_size;
    return fd;
}

static bool read_all(int fd, unsigned char *data, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = read(fd, data + done, bytes - done);
        if (got <= 0) {
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    while (bytes > 0) {
        ssize_t put = write(fd, at, bytes);
        if (put <= 0) {
            return false;
        }
        at += put;
        bytes -= (size_t)put;
    }
    return true;
}

/* Whether data[0..bytes) is a whole entry for the key; says where its binary begins. */
static bool entry_valid(const unsigned char *data, size_t bytes, const char *key, size_t *start)
{
    struct entry_head head;
    size_t key_bytes = strlen(key);
    if (bytes < sizeof head) {
        return false;
    }
    memcpy(&head, data, sizeof head);
    size_t rest = bytes - sizeof head;
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.key_bytes != key_bytes ||
        key_bytes > rest || head.binary_bytes != rest - key_bytes || head.binary_bytes == 0) {
        return false;
    }
    *start = sizeof head + key_bytes;
    return memcmp(data + sizeof head, key, key_bytes) == 0 &&
           head.checksum == hash_entry(key, data + *start, bytes - *start);
}

unsigned char *cl_cache_load(const char *dir, const char *key, size_t *bytes)
{
    char path[PATH_BYTES];
    size_t size = 0;
    int fd = entry_path(path, dir, key, "") ? open_trusted(path, &size) : -1;
    if (fd < 0) {
        return NULL;
    }
    unsigned char *data = malloc(size);
    size_t start = 0;
    bool valid =
        data != NULL && read_all(fd, data, size) && entry_valid(data, size, key, &start);
    (void)close(fd);
    if (!valid) {
        free(data);
        return NULL;
    }
    *bytes = size - start;
    memmove(data, data + start, *bytes);
    return data;
}

void cl_cache_store(const char *dir, const char *key, const unsigned char *binary, size_t bytes)
{
    char path[PATH_BYTES];
    char temporary[PATH_BYTES];
    if (!entry_path(path, dir, key, "") || !entry_path(temporary, dir, key, ".XXXXXX")) {
        return;
    }
    (void)mkdir(dir, S_IRWXU);
    int fd = mkostemp(temporary, O_CLOEXEC); /* mode 0600 */
    if (fd < 0) {
        return;
    }
    struct entry_head head = {.key_bytes = strlen(key),
                              .binary_bytes = bytes,
                              .checksum = hash_entry(key, binary, bytes)};
    memcpy(head.magic, magic, sizeof magic);
    bool written = write_all(fd, &head, sizeof head) && write_all(fd, key, strlen(key)) &&
                   write_all(fd, binary, bytes);
    written = close(fd) == 0 && written;
    if (!written || rename(temporary, path) != 0) {
        (void)unlink(temporary);
    }
}

void cl_cache_remove(const char *dir, const char *key)
{
    char path[PATH_BYTES];
    if (entry_path(path, dir, key, "")) {
        (void)unlink(path);
    }
}
