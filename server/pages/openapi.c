/* The OpenAPI document, which proto/openapi/make_openapi.c has made when this is compiled. */
#include "server/pages/page.h"

/* The path is relative to the top folder, where make runs. */
__asm__(".pushsection .rodata\n"
        "openapi_text:\n"
        ".incbin \"build/openapi/openapi.json\"\n"
        ".byte 0\n"
        ".popsection\n");

extern const char openapi_text[] __attribute__((visibility("hidden")));

enum status page_openapi(const struct page_request *request, struct page *page,
                         struct error *err)
{
    (void)request;
    (void)err;
    page_fixed(page, openapi_text);
    return STATUS_OK;
}
