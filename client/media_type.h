/* Media types of answers. Thread: any. */
#ifndef TALLY_CLIENT_MEDIA_TYPE_H
#define TALLY_CLIENT_MEDIA_TYPE_H

#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* The media type of a Content-Type value equals `type`, parameters ignored. */
static inline bool media_type_is(const char *value, const char *type)
{
    size_t length = strcspn(value, "; \t");
    return length == strlen(type) && strncasecmp(value, type, length) == 0;
}

#endif
