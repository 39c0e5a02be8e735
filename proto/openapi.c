/* Embeds the document that proto/openapi/make_openapi.c has made; the path is relative to the top
 * folder, where make runs. */
#include "proto/openapi.h"

#include <stdint.h>

__asm__(".pushsection .rodata\n"
        ".globl openapi_text\n"
        ".globl openapi_end\n"
        "openapi_text:\n"
        ".incbin \"build/openapi/openapi.json\"\n"
        "openapi_end:\n"
        ".byte 0\n"
        ".popsection\n");

extern const char openapi_end[];

size_t openapi_bytes(void)
{
    return (uintptr_t)openapi_end - (uintptr_t)openapi_text;
}
