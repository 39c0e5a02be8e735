/* See routes.h. */
#include "server/http/routes.h"

#include "proto/digits.h"
#include "proto/models.h"
#include "proto/text.h"
#include "server/http/route_table.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

EMBED(openapi_text, "build/openapi/openapi.json"); /* written by proto/openapi/make_openapi.c */

/* clang-format off */
#define CUMSUM(pattern, counted_as, totals) \
    {pattern, ROUTE_POST, ROUTE_CUMSUM, ROUTE_SCOPE_INFER, METRICS_ROUTE_##counted_as, NULL, NULL, totals, false, 0, NULL},
#define DIALECT(pattern, counted_as, codec, triton) \
    {pattern, ROUTE_POST, ROUTE_DIALECT, ROUTE_SCOPE_INFER, METRICS_ROUTE_##counted_as, NULL, &(codec), false, triton, 0, NULL},
#define PAGE(pattern, methods, scope, counted_as, page) \
    {pattern, methods, ROUTE_PAGE, ROUTE_SCOPE_##scope, METRICS_ROUTE_##counted_as, page, NULL, false, false, 0, NULL},
#define FIXED(pattern, methods, scope, counted_as, http_status, text) \
    {pattern, methods, ROUTE_PAGE, ROUTE_SCOPE_##scope, METRICS_ROUTE_##counted_as, NULL, NULL, false, false, http_status, text},
static const struct route routes[] = {ROUTE_TABLE(CUMSUM, DIALECT, PAGE, FIXED)};
/* clang-format on */

/* Match one segment of pattern and path, and advance both behind their segments. */
static bool segment_matches(const char **pattern, char **path, struct route_match *match,
                            int *captured)
{
    size_t pattern_bytes = strcspn(*pattern, "/");
    size_t path_bytes = strcspn(*path, "/");
    bool open = pattern_bytes == 2 && memcmp(*pattern, "{}", 2) == 0;
    bool same = open ? path_bytes > 0
                     : path_bytes == pattern_bytes && memcmp(*pattern, *path, path_bytes) == 0;
    if (same && open) {
        match->segments[(*captured)++] = *path;
    }
    *pattern += pattern_bytes;
    *path += path_bytes;
    return same;
}

/* True if the whole path matches the route's pattern. */
static bool route_matches(const struct route *route, char *path, struct route_match *match)
{
    const char *pattern = route->pattern;
    int captured = 0;
    memset(match->segments, 0, sizeof match->segments);
    while (*pattern == '/' && *path == '/') {
        pattern++;
        path++;
        if (!segment_matches(&pattern, &path, match, &captured)) {
            return false;
        }
    }
    return *pattern == '\0' && *path == '\0';
}

struct route_match route_find(char *path)
{
    struct route_match match = {.route = NULL};
    for (size_t i = 0; i < ARRAY_COUNT(routes); i++) {
        if (!route_matches(&routes[i], path, &match)) {
            continue;
        }
        match.route = &routes[i];
        for (int k = 0; k < PAGE_SEGMENTS && match.segments[k] != NULL; k++) {
            path[(size_t)(match.segments[k] - path) + strcspn(match.segments[k], "/")] = '\0';
        }
        return match;
    }
    memset(match.segments, 0, sizeof match.segments);
    return match;
}

enum {
    /* longest path that is compared; the cost of a comparison grows with its square */
    NEAR_BYTES = 128,
    NEAR_SEGMENTS = 2, /* number of equal segments that make a route similar */
    NEAR_NAME = 64,    /* longest name, in bytes, that a suggestion repeats */
    ABSENT_NAME = 2    /* number of edits that a missing name counts as */
};

/* Copy the next segment to `segment` and return it; *path advances. Returns "" at the end. */
static const char *next_segment(const char **path, char segment[NEAR_BYTES + 1])
{
    *path += **path == '/';
    const size_t bytes = strcspn(*path, "/");
    memcpy(segment, *path, bytes);
    segment[bytes] = '\0';
    *path += bytes;
    return segment;
}

/* The model whose name is most similar to a segment of the path. The result is reused for the
 * next routes, because all routes of models have the segment at the same position. */
struct near_model {
    const char *at; /* begin of the segment in the path; NULL: none was compared */
    const char *name;
    size_t distance; /* edits from the segment to the name */
};

static void find_near_model(const char *at, const char *found, struct near_model *model)
{
    if (model->at == at) {
        return;
    }
    *model = (struct near_model){.at = at, .name = model_at(0)->name, .distance = SIZE_MAX};
    for (size_t i = 0; i < model_count() && model->distance > 0; i++) {
        const size_t distance = edit_distance(found, model_at(i)->name);
        if (distance < model->distance) {
            model->name = model_at(i)->name;
            model->distance = distance;
        }
    }
    model->distance = found[0] == '\0' ? ABSENT_NAME : model->distance;
}

/* True if the name of a region can be in a path without escapes. */
static bool is_plain(const char *name)
{
    const size_t bytes = strlen(name);
    return bytes > 0 && bytes <= NEAR_NAME && text_span(name, bytes, "-._~") == bytes &&
           strspn(name, ".") < bytes;
}

/* Returns the number of edits between the path and a path of the route. *same is the number of
 * equal segments at the beginning. `text` gets a path of the route that exists: its models and
 * versions exist, and a region may have any name. The page of one region exists only while the
 * region is registered, so the page of all regions is used instead. */
static size_t compare_path(const char *path, const struct route *route,
                           struct near_model *model, size_t *same, char text[ROUTE_NEAR_BYTES])
{
    char of_path[NEAR_BYTES + 1];
    char of_pattern[NEAR_BYTES + 1];
    const char *pattern = route->pattern;
    size_t distance = 0;
    bool of_models = false; /* the previous segment is "models" */
    bool of_versions = false;
    bool page_of_region = false;
    *same = 0;
    text[0] = '\0';
    while (*path != '\0' || *pattern != '\0') {
        const bool ended = *pattern == '\0';
        const char *at = path;
        const char *found = next_segment(&path, of_path);
        const char *wanted = next_segment(&pattern, of_pattern);
        const bool open = strcmp(wanted, "{}") == 0;
        page_of_region = (open && page_of_region) ||
                         ((route->methods & ROUTE_GET) != 0 && strcmp(wanted, "region") == 0);
        if (open && of_models) {
            find_near_model(at, found, model);
            wanted = model->name;
            distance += model->distance;
        } else if (open && !of_versions) {
            wanted = is_plain(found) ? found : "NAME";
            distance += found[0] == '\0' ? ABSENT_NAME : 0;
        } else {
            wanted = open ? MODEL_VERSION : wanted;
            distance += edit_distance(found, wanted);
        }
        *same += distance == 0;
        of_models = strcmp(wanted, "models") == 0;
        of_versions = strcmp(wanted, "versions") == 0;
        if (!ended && !page_of_region) {
            text_append(text, ROUTE_NEAR_BYTES, "/%s", wanted);
        }
    }
    return distance;
}

/* Return the path that corresponds to a path without a version or to a path of KServe's v1
 * protocol: /cumsum means /v1/cumsum, and /v1/models/NAME:predict means /v2/models/NAME/infer.
 * Other paths are returned unchanged. The result is `path` or `room`. */
static const char *versioned_path(const char *path, char room[NEAR_BYTES + 1])
{
    static const char version[] = "/v1";
    static const char cumsum[] = "/cumsum";
    static const char models[] = "/v1/models";
    static const char predict[] = ":predict";
    const size_t bytes = strlen(path);
    const size_t begin = sizeof models - 1;
    const size_t end = sizeof predict - 1;
    if (bytes + sizeof version - 1 <= NEAR_BYTES &&
        strncmp(path, cumsum, sizeof cumsum - 1) == 0) {
        (void)snprintf(room, NEAR_BYTES + 1, "%s%s", version, path);
        return room;
    }
    if (bytes > NEAR_BYTES || strncmp(path, models, begin) != 0 ||
        (path[begin] != '\0' && path[begin] != '/')) {
        return path;
    }
    const bool infers = bytes > begin + end && strcmp(path + bytes - end, predict) == 0;
    (void)snprintf(room, NEAR_BYTES + 1, "/v2%.*s%s", (int)(bytes - 3 - (infers ? end : 0)),
                   path + 3, infers ? "/infer" : "");
    return room;
}

const struct route *route_nearest(const char *path, char text[ROUTE_NEAR_BYTES])
{
    char room[NEAR_BYTES + 1];
    path = versioned_path(path, room);
    const size_t bytes = strlen(path);
    const struct route *nearest = NULL;
    struct near_model model = {.at = NULL};
    size_t least = SIZE_MAX;
    for (size_t i = 0; path[0] == '/' && bytes <= NEAR_BYTES && i < ARRAY_COUNT(routes); i++) {
        char asked[ROUTE_NEAR_BYTES];
        size_t same = 0;
        const size_t distance = compare_path(path, &routes[i], &model, &same, asked);
        if (distance < least && (same >= NEAR_SEGMENTS || distance <= bytes / 4)) {
            nearest = &routes[i];
            least = distance;
            memcpy(text, asked, sizeof asked);
        }
    }
    return nearest;
}

const char *route_allow(const struct route *route)
{
    static const char *const allow[] = {"", "GET, HEAD", "POST", "GET, HEAD, POST"};
    return allow[route->methods & (ROUTE_GET | ROUTE_POST)];
}

/* Decode %XX in place. Returns false for a broken escape, a NUL or, in a path, an escaped
 * slash. */
static bool percent_decode(char *text, bool query)
{
    char *out = text;
    for (const char *in = text; *in != '\0'; in++) {
        if (*in == '+' && query) {
            *out++ = ' ';
            continue;
        }
        if (*in != '%') {
            *out++ = *in;
            continue;
        }
        int high = hex_digit(in[1]);
        int low = high < 0 ? -1 : hex_digit(in[2]);
        int byte = low < 0 ? 0 : high * 16 + low;
        if (byte == 0 || (byte == '/' && !query)) {
            return false;
        }
        *out++ = (char)byte;
        in += 2;
    }
    *out = '\0';
    return true;
}

/* Returns the length of "http://host:port" at the beginning; 0: the text has none. */
static size_t authority_bytes(const char *text)
{
    size_t scheme = 0;
    if (strncasecmp(text, "http://", 7) == 0) {
        scheme = 7;
    } else if (strncasecmp(text, "https://", 8) == 0) {
        scheme = 8;
    }
    return scheme == 0 ? 0 : scheme + strcspn(text + scheme, "/?");
}

const char *target_path(char *text)
{
    char *path = text + authority_bytes(text);
    path[strcspn(path, "?")] = '\0';
    return path;
}

static enum status parse_query(char *query, struct target *target, struct error *err)
{
    for (char *pair = strsep(&query, "&"); pair != NULL; pair = strsep(&query, "&")) {
        if (*pair == '\0') {
            continue;
        }
        if (target->param_count == LIMIT_QUERY_PARAMS) {
            return error_set(err, STATUS_INVALID_REQUEST,
                             "more than %d parameters in the query string", LIMIT_QUERY_PARAMS);
        }
        char *value = pair;
        char *name = strsep(&value, "=");
        value = value == NULL ? name + strlen(name) : value;
        if (!percent_decode(name, true) || !percent_decode(value, true)) {
            return error_set(
                err, STATUS_INVALID_REQUEST,
                "parameter %d of the query string holds a broken %%-escape or %%00",
                target->param_count + 1);
        }
        target->params[target->param_count++] = (struct codec_param){name, value};
    }
    return STATUS_OK;
}

enum status target_parse(char *text, struct target *target, struct error *err)
{
    target->param_count = 0;
    if (strpbrk(text, " \t") != NULL) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "the request line holds a blank inside the path or query: write %%20");
    }
    const size_t authority = authority_bytes(text);
    target->path = text + authority;
    if (authority > 0 && *target->path != '/') {
        /* "an empty path component is equivalent to an absolute path of "/"" (RFC 9110, 4.2.3),
         * which overwrites the authority's last byte. */
        *--target->path = '/';
    }
    char *query = target->path;
    (void)strsep(&query, "?");
    if (!percent_decode(target->path, false)) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "the path holds a broken %%-escape, %%00 or an escaped slash");
    }
    return query == NULL ? STATUS_OK : parse_query(query, target, err);
}
