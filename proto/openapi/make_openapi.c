/* Build tool: makes the OpenAPI document from the table of routes and from fragments that are
 * stored next to the code that they describe:
 *
 *   make_openapi ROUTES SERVICE FRAGMENT... >openapi.json
 *
 * ROUTES is the output of server/http/list_routes.c: one route per line, as in "tensor
 * GET,POST /pattern/{} infer,admin", with the scopes of which a token needs one. SERVICE
 * (service.json) and the fragments (NAME.openapi.json) are JSON with these keys:
 *
 *   tag          title under which the operations of the file are listed
 *   operations   "GET /path/{name}": the operation, see below
 *   parameters, schemas, headers    by name; every file may use those of all others
 *   document, securitySchemes, errors, common    in SERVICE only: the head of the document; the
 *                ways of authentication; the error answers by HTTP status; the headers,
 *                parameters and errors of every route, of each route with a tensor, and of each
 *                route that needs a token
 *
 * Values are copied to the document unchanged, except for these abbreviations:
 *
 *   "#Name" in place of a schema          the schema with that name
 *   "description": ["one", "two"]         the lines, joined by blanks
 *   "enum": "models"                      the names in a table of the product (add_names)
 *   an operation's "id", "like"           operationId; the operation whose members are copied
 *                                         unless this one defines them
 *   its "parameters": ["name"]            added to those of every request and of the path
 *   its "body", "200" ...: media types    as keys; {} if the body is bytes of that media type
 *   "headers": ["name"] of an answer      added to those of every answer
 *   its "errors": ["404"]                 added to those of every route
 *
 * Failure modes, each of which ends the build with a sentence: a route without an operation,
 * an operation without a route, broken JSON, a name that is unknown, defined twice or
 * unused. */
#include "proto/dtype.h"
#include "proto/macros.h"
#include "proto/models.h"

#include <err.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT_ROOM = 4096
};

/* The named parts of each kind from all files, and the set of parts that the document uses. */
static const char *const kinds[] = {"operations", "parameters", "headers", "errors", "schemas"};
static json_t *parts, *used;

/* The member "common" of SERVICE: parts of many routes. */
static json_t *common;

/* ---- reading ---- */

static json_t *load_file(const char *path)
{
    json_error_t error;
    json_t *file = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(file)) {
        errx(1, "%s:%d: %s", path, error.line, error.text);
    }
    return file;
}

/* Add the parts of a file to those of the files before it. */
static void gather_file(json_t *file, const char *path)
{
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(json_object_get(file, "operations"), name, value)
    {
        json_object_set(value, "tag", json_object_get(file, "tag"));
    }
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        json_t *all = json_object_get(parts, kinds[i]);
        json_object_foreach(json_object_get(file, kinds[i]), name, value)
        {
            if (json_object_get(all, name) != NULL) {
                errx(1, "%s: %s \"%s\" is in another file, too", path, kinds[i], name);
            }
            json_object_set(all, name, value);
        }
    }
}

/* ---- names ---- */

/* Return the part with this name and mark it as used. */
static json_t *find_part(const char *kind, const char *name)
{
    json_t *found = json_object_get(json_object_get(parts, kind), name);
    if (found == NULL) {
        errx(1, "there is no %.*s called \"%s\"", (int)strlen(kind) - 1, kind, name);
    }
    json_object_set_new(json_object_get(used, kind), name, json_true());
    return found;
}

static void check_all_used(void)
{
    const char *kind = NULL;
    const char *name = NULL;
    json_t *all = NULL;
    json_t *value = NULL;
    json_object_foreach(parts, kind, all)
    {
        json_object_foreach(all, name, value)
        {
            if (json_object_get(json_object_get(used, kind), name) == NULL) {
                errx(1, "nothing uses %.*s \"%s\"", (int)strlen(kind) - 1, kind, name);
            }
        }
    }
}

static json_t *make_reference(const char *kind, const char *name)
{
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/%s/%s", kind, name));
}

static json_t *reference_to(const char *kind, const char *name)
{
    (void)find_part(kind, name);
    return make_reference(kind, name);
}

/* Set the values of an enum from a table of the product ("enum": "dtypes" and the like), and
 * the names of their constants in generated clients: in Go all enums share one namespace. */
static void add_names(json_t *schema, const char *list)
{
    json_t *names = json_array();
    json_t *constants = json_array();
    for (size_t i = 0; strcmp(list, "models") == 0 && i < model_count(); i++) {
        json_array_append_new(names, json_string(model_at(i)->name));
    }
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_info((enum dtype)i);
        if (strcmp(list, "dtypes") == 0) {
            json_array_append_new(names, json_string(info->name));
        } else if (strcmp(list, "kserve dtypes") == 0) {
            json_array_append_new(names, json_string(info->kserve));
            json_array_append_new(constants, json_sprintf("V2_%s", info->kserve));
        } else if (strcmp(list, "openvino dtypes") == 0) {
            json_array_append_new(names, json_string(info->openvino_ir));
            json_array_append_new(constants, json_sprintf("IR_%s", info->openvino_ir));
            json_array_append_new(names, json_string(info->openvino_type));
            json_array_append_new(constants, json_sprintf("OV_%s", info->openvino_type));
        }
    }
    if (json_array_size(names) == 0) {
        errx(1, "there is no list of names \"%s\"", list);
    }
    json_object_set_new(schema, "enum", names);
    if (json_array_size(constants) > 0) {
        json_object_set(schema, "x-enum-varnames", constants);
    }
    json_decref(constants);
}

/* Make a description from a text or a list of lines. NULL for NULL. */
static json_t *make_description(json_t *said)
{
    json_t *lines = json_object_get(said, "description");
    if (!json_is_array(lines)) {
        return json_incref(lines);
    }
    char text[TEXT_ROOM] = "";
    size_t i = 0;
    json_t *line = NULL;
    json_array_foreach(lines, i, line)
    {
        size_t length = strlen(text);
        (void)snprintf(text + length, sizeof text - length, "%s%s", length > 0 ? " " : "",
                       json_string_value(line));
    }
    return json_string(text);
}

/* Copy a value and expand every abbreviation in it. Examples are copied unchanged. */
/* NOLINTNEXTLINE(misc-no-recursion): the fragments are ours */
static json_t *expand_schemas(json_t *value)
{
    const char *key = NULL;
    size_t i = 0;
    json_t *child = NULL;
    if (json_is_string(value) && json_string_value(value)[0] == '#') {
        return reference_to("schemas", json_string_value(value) + 1);
    }
    if (json_is_array(value)) {
        json_t *copy = json_array();
        json_array_foreach(value, i, child)
        {
            json_array_append_new(copy, expand_schemas(child));
        }
        return copy;
    }
    if (!json_is_object(value)) {
        return json_deep_copy(value);
    }
    json_t *copy = json_object();
    json_object_foreach(value, key, child)
    {
        if (strcmp(key, "$ref") == 0) {
            json_t *target = expand_schemas(child);
            json_object_update(copy, target);
            json_decref(target);
        } else if (strcmp(key, "description") == 0) {
            json_object_set_new(copy, key, make_description(value));
        } else if (strcmp(key, "enum") == 0 && json_is_string(child)) {
            add_names(copy, json_string_value(child));
        } else if (strncmp(key, "example", strlen("example")) == 0) {
            json_object_set_new(copy, key, json_deep_copy(child));
        } else {
            json_object_set_new(copy, key, expand_schemas(child));
        }
    }
    return copy;
}

/* ---- operations ---- */

static void add_header(json_t *list, const char *name)
{
    json_object_set_new(list, name, expand_schemas(find_part("headers", name)));
}

static void add_parameter(json_t *list, const char *name)
{
    json_array_append_new(list, reference_to("parameters", name));
}

static void add_error(json_t *answers, const char *http_status)
{
    json_t *error = find_part("errors", http_status);
    if (json_object_get(answers, http_status) == NULL) {
        json_object_set_new(
            answers, http_status,
            make_reference("responses", json_string_value(json_object_get(error, "name"))));
    }
}

/* Call `add` for each name in the list under a key; NULL is an empty list. */
static void add_listed(json_t *to, void (*add)(json_t *to, const char *name), json_t *said,
                       const char *key)
{
    size_t i = 0;
    json_t *name = NULL;
    json_array_foreach(json_object_get(said, key), i, name)
    {
        add(to, json_string_value(name));
    }
}

/* Make the media types from the keys of an answer or a body. */
static json_t *make_content(json_t *said)
{
    json_t *content = json_object();
    const char *type = NULL;
    json_t *value = NULL;
    json_object_foreach(said, type, value)
    {
        if (strchr(type, '/') == NULL) {
            continue;
        }
        json_object_set_new(content, type,
                            json_object_size(value) > 0
                                ? expand_schemas(value)
                                : json_pack("{s:{s:s,s:s,s:s}}", "schema", "type", "string",
                                            "format", "binary", "contentMediaType", type));
    }
    return content;
}

static json_t *make_answer(json_t *said, bool tensor)
{
    json_t *answer = json_pack("{s:o,s:{}}", "description", make_description(said), "headers");
    json_t *list = json_object_get(answer, "headers");
    add_listed(list, add_header, json_object_get(common, "every"), "headers");
    add_listed(list, add_header, tensor ? json_object_get(common, "tensor") : NULL, "headers");
    add_listed(list, add_header, said, "headers");
    json_t *content = make_content(said);
    if (json_object_size(content) > 0) {
        json_object_set(answer, "content", content);
    }
    json_decref(content);
    return answer;
}

static json_t *make_answers(json_t *said, bool tensor)
{
    json_t *answers = json_object();
    const char *http_status = NULL;
    json_t *value = NULL;
    json_object_foreach(said, http_status, value)
    {
        if (strspn(http_status, "0123456789") == 3) {
            json_object_set_new(answers, http_status, make_answer(value, tensor));
        }
    }
    add_listed(answers, add_error, json_object_get(common, "every"), "errors");
    add_listed(answers, add_error, tensor ? json_object_get(common, "tensor") : NULL, "errors");
    add_listed(answers, add_error, said, "errors");
    return answers;
}

static json_t *make_parameters(json_t *said, const char *path, bool tensor)
{
    json_t *list = json_array();
    add_listed(list, add_parameter, json_object_get(common, "every"), "parameters");
    for (const char *at = strchr(path, '{'); at != NULL; at = strchr(at + 1, '{')) {
        char segment[TEXT_ROOM];
        (void)snprintf(segment, sizeof segment, "%.*s", (int)strcspn(at + 1, "}"), at + 1);
        add_parameter(list, segment);
    }
    add_listed(list, add_parameter, tensor ? json_object_get(common, "tensor") : NULL,
               "parameters");
    add_listed(list, add_parameter, said, "parameters");
    return list;
}

static json_t *make_operation(json_t *said, const char *path, bool tensor)
{
    const char *like = json_string_value(json_object_get(said, "like"));
    if (like != NULL) {
        json_t *merged = json_copy(find_part("operations", like));
        json_object_update(merged, said);
        said = merged;
    }
    json_t *operation = json_pack(
        "{s:[O],s:O,s:O,s:o,s:o}", "tags", json_object_get(said, "tag"), "operationId",
        json_object_get(said, "id"), "summary", json_object_get(said, "summary"), "parameters",
        make_parameters(said, path, tensor), "responses", make_answers(said, tensor));
    if (operation == NULL) {
        errx(1, "the operation of %s lacks id, summary or, in its file, tag", path);
    }
    if (json_object_get(said, "description") != NULL) {
        json_object_set_new(operation, "description", make_description(said));
    }
    json_t *body = json_object_get(said, "body");
    if (body != NULL) {
        json_object_set_new(operation, "requestBody",
                            json_pack("{s:O,s:o}", "required",
                                      json_object_get(body, "required"), "content",
                                      make_content(body)));
    }
    return operation;
}

/* Find the operation for a method and a pattern; the key of the operation has names in place
 * of {}. */
static const char *find_operation(const char *method, const char *pattern)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(json_object_get(parts, "operations"), key, value)
    {
        size_t method_length = strcspn(key, " ");
        if (strlen(method) != method_length || memcmp(method, key, method_length) != 0) {
            continue;
        }
        const char *path = key + method_length + 1;
        const char *at = pattern;
        while (*path != '\0' && *path == *at) {
            path += *path == '{' ? strcspn(path, "}") : 1;
            at++;
        }
        if (*path == '\0' && *at == '\0') {
            return key;
        }
    }
    errx(1, "no fragment describes the route %s %s", method, pattern);
}

/* Add the security requirement of an operation: none, or, if the service requires tokens, a
 * token with one of the scopes. */
static void add_security(json_t *operation, const char *scopes)
{
    json_t *ways = json_array();
    while (scopes != NULL && *scopes != '\0') {
        size_t length = strcspn(scopes, ",");
        json_array_append_new(ways, json_pack("{s:[s%]}", "token", scopes, length));
        scopes += length + (scopes[length] == ',');
    }
    if (json_array_size(ways) > 0) {
        json_array_insert_new(ways, 0, json_object());
        add_listed(json_object_get(operation, "responses"), add_error,
                   json_object_get(common, "token"), "errors");
    }
    json_object_set_new(operation, "security", ways);
}

/* Add one route. A route with an additional slash at its end is omitted. */
static void add_route(json_t *paths, char *line)
{
    char *rest = NULL;
    char *kind = strtok_r(line, " \n", &rest);
    char *methods = strtok_r(NULL, " \n", &rest);
    char *pattern = strtok_r(NULL, " \n", &rest);
    const char *scopes = strtok_r(NULL, " \n", &rest);
    if (pattern == NULL) {
        errx(1, "a route is \"page|tensor METHOD,... /pattern [scope,...]\"");
    }
    if (strlen(pattern) > 1 && pattern[strlen(pattern) - 1] == '/') {
        return;
    }
    for (char *method = strtok_r(methods, ",", &rest); method != NULL;
         method = strtok_r(NULL, ",", &rest)) {
        const char *key = find_operation(method, pattern);
        const char *path = strchr(key, ' ') + 1;
        json_t *operation =
            make_operation(find_part("operations", key), path, strcmp(kind, "tensor") == 0);
        add_security(operation, scopes);
        if (json_object_get(paths, path) == NULL) {
            json_object_set_new(paths, path, json_object());
        }
        json_object_set_new(json_object_get(paths, path),
                            strcmp(method, "GET") == 0 ? "get" : "post", operation);
    }
}

static json_t *make_paths(const char *routes)
{
    char line[TEXT_ROOM];
    json_t *paths = json_object();
    FILE *file = fopen(routes, "r");
    if (file == NULL) {
        errx(1, "cannot read %s", routes);
    }
    while (fgets(line, sizeof line, file) != NULL) {
        add_route(paths, line);
    }
    (void)fclose(file);
    return paths;
}

/* ---- components ---- */

/* Make the answers of all HTTP statuses of errors; each example is named by its error code. */
static json_t *make_responses(void)
{
    json_t *responses = json_object();
    const char *http_status = NULL;
    json_t *error = NULL;
    json_object_foreach(json_object_get(parts, "errors"), http_status, error)
    {
        json_t *response = make_answer(error, false);
        json_t *example = json_object_get(error, "example");
        json_object_set_new(response, "content",
                            json_pack("{s:{s:o,s:{s:{s:O}}}}", "application/json", "schema",
                                      reference_to("schemas", "Error"), "examples",
                                      json_string_value(json_object_get(example, "code")),
                                      "value", example));
        json_object_set_new(responses, json_string_value(json_object_get(error, "name")),
                            response);
    }
    return responses;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        errx(1, "make_openapi ROUTES SERVICE FRAGMENT...");
    }
    parts = json_object();
    used = json_object();
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        json_object_set_new(parts, kinds[i], json_object());
        json_object_set_new(used, kinds[i], json_object());
    }
    json_t *service = load_file(argv[2]);
    gather_file(service, argv[2]);
    common = json_object_get(service, "common");
    for (int i = 3; i < argc; i++) {
        gather_file(load_file(argv[i]), argv[i]);
    }
    json_t *document = expand_schemas(json_object_get(service, "document"));
    json_object_set_new(json_object_get(document, "info"), "version",
                        json_string(TALLY_VERSION));
    json_object_set_new(document, "paths", make_paths(argv[1]));
    json_object_set_new(
        document, "components",
        json_pack(
            "{s:o,s:o,s:o,s:O}", "schemas", expand_schemas(json_object_get(parts, "schemas")),
            "parameters", expand_schemas(json_object_get(parts, "parameters")), "responses",
            make_responses(), "securitySchemes", json_object_get(service, "securitySchemes")));
    check_all_used();
    if (json_dumpf(document, stdout, JSON_INDENT(1)) != 0 || fflush(stdout) != 0) {
        errx(1, "cannot write the document");
    }
    return 0;
}
