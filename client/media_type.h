/* What an answer says that it is. Thread: any. */
#ifndef TALLY_CLIENT_MEDIA_TYPE_H
#define TALLY_CLIENT_MEDIA_TYPE_H

#include <stdbool.h>

/* The media type of a Content-Type value equals `type`, parameters ignored. */
bool media_type_is(const char *value, const char *type);

#endif
