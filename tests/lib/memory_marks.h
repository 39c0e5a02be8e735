/* Marks for the sanitizer of a test build: bytes that no code may access, or whose content no
 * result may depend on. Without a sanitizer the functions have no effect. AddressSanitizer
 * works in words of 8 bytes: a forbidden range that begins inside a word takes effect from the
 * next word on. */
#ifndef TALLY_TESTS_LIB_MEMORY_MARKS_H
#define TALLY_TESTS_LIB_MEMORY_MARKS_H

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define MEMORY_FORBID(at, bytes) __asan_poison_memory_region(at, bytes)
#define MEMORY_ALLOW(at, bytes)  __asan_unpoison_memory_region(at, bytes)
#elif __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define MEMORY_FORGET(at, bytes) __msan_poison(at, bytes)
#define MEMORY_RECALL(at, bytes) __msan_unpoison(at, bytes)
#endif
#endif

/* Forbid access to these bytes. */
static inline void memory_forbid(const void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
#if defined(MEMORY_FORBID)
    MEMORY_FORBID(at, bytes);
#endif
}

/* Allow access to these bytes again. */
static inline void memory_allow(const void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
#if defined(MEMORY_ALLOW)
    MEMORY_ALLOW(at, bytes);
#endif
}

/* Declare the content of these bytes undefined until they are written again. */
static inline void memory_forget(const void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
#if defined(MEMORY_FORGET)
    MEMORY_FORGET(at, bytes);
#endif
}

/* Declare the content of these bytes defined again, because the test itself compares it. */
static inline void memory_recall(const void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
#if defined(MEMORY_RECALL)
    MEMORY_RECALL(at, bytes);
#endif
}

#endif
