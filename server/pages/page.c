/* What all pages share. */
#include "server/pages/page.h"

#include "proto/json/writer.h"

#include <string.h>

void page_fixed(struct page *page, const char *text)
{
    page->fixed = text;
    page->bytes = strlen(text);
}

enum status page_json(struct page *page, struct json_writer *writer, struct error *err)
{
    page->text = json_writer_take(writer, &page->bytes);
    if (page->text == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the answer");
    }
    return STATUS_OK;
}
