#include "client/media_type.h"

#include <string.h>
#include <strings.h>

bool media_type_is(const char *value, const char *type)
{
    size_t length = strcspn(value, "; \t");
    return length == strlen(type) && strncasecmp(value, type, length) == 0;
}
