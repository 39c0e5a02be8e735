/* Every tests/golden/<format>/<case>: the request, run through its codec with the oracle as
 * device, must give exactly the bytes of the response. The files come from NumPy
 * (tests/golden/generate.py). */
#include "tests/lib/unit.h"
#include "tests/unit/codec_run.h"

#include <glob.h>

struct file {
    char *bytes;
    size_t count;
};

static struct file read_file(const char *path)
{
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        fail_msg("no file %s", path);
    }
    struct file file = {.bytes = malloc(1 << 20)};
    assert_non_null(file.bytes);
    file.count = fread(file.bytes, 1, (1 << 20) - 1, stream);
    file.bytes[file.count] = '\0';
    (void)fclose(stream);
    return file;
}

/* End the header lines at the empty line. Returns the body behind it. */
static struct byte_view split_body(struct file *file)
{
    char *gap = strstr(file->bytes, "\n\n");
    assert_non_null(gap);
    *gap = '\0';
    char *body = gap + 2;
    return (struct byte_view){body, file->count - (size_t)(body - file->bytes)};
}

/* Return the value of a header line, "" if there is none; static. */
static const char *header(const char *lines, const char *name)
{
    static char value[2048];
    const char *line = strstr(lines, name);
    value[0] = '\0';
    if (line != NULL) {
        (void)sscanf(line + strlen(name), ": %2047[^\n]", value);
    }
    return value;
}

static enum codec_format format_of(const char *type)
{
    static const char *const types[] = {
        [CODEC_FORMAT_JSON] = "application/json",
        [CODEC_FORMAT_RAW] = "application/octet-stream",
        [CODEC_FORMAT_NPY] = "application/x-npy",
    };
    for (int i = 0; i < 3; i++) {
        if (strcmp(type, types[i]) == 0) {
            return (enum codec_format)i;
        }
    }
    fail_msg("odd type %s", type);
    return CODEC_FORMAT_JSON;
}

static void compare(const char *folder, const struct run *run, const char *lines,
                    struct byte_view body)
{
    char slug[64] = "";
    assert_int_equal(sscanf(lines, "%63s", slug), 1);
    if (strcmp(slug, status_slug(run->status)) != 0) {
        fail_msg("%s: %s, expected %s (%s)", folder, status_slug(run->status), slug,
                 run->err.detail);
    }
    if (run->status != STATUS_OK) {
        if (strcmp(run->err.field, header(lines, "\nField")) != 0) {
            fail_msg("%s: blames '%s'", folder, run->err.field);
        }
        assert_true(strlen(run->err.detail) > 10);
        return;
    }
    if (run->bytes != body.count || memcmp(run->body, body.bytes, body.count) != 0) {
        fail_msg("%s: %zu bytes, expected %zu:\n%.400s\n%.400s", folder, run->bytes, body.count,
                 run->body, (const char *)body.bytes);
    }
    assert_string_equal(run->answer.content_type, header(lines, "\nContent-Type"));
    for (int i = 0; i < run->answer.header_count; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "\n%s", run->answer.headers[i].name);
        assert_string_equal(run->answer.headers[i].value, header(lines, name));
    }
}

static void run_case(const char *request_path)
{
    char response_path[512];
    (void)snprintf(response_path, sizeof response_path, "%.*sresponse",
                   (int)(strlen(request_path) - strlen("request")), request_path);
    struct file request = read_file(request_path);
    struct file response = read_file(response_path);
    const struct byte_view body = split_body(&request);
    const struct byte_view expected = split_body(&response);
    char target[RUN_QUERY_MAX] = "";
    assert_int_equal(sscanf(request.bytes, "POST %511s", target), 1);
    const char *query = strchr(target, '?');
    enum codec_format format = format_of(header(request.bytes, "\nContent-Type"));
    enum codec_format accept = format_of(header(request.bytes, "\nAccept"));
    struct run run;
    run_request(codec_cumsum(format), query != NULL ? query + 1 : "", accept, body, &run);
    compare(request_path, &run, response.bytes, expected);
    run_deinit(&run);
    free(request.bytes);
    free(response.bytes);
}

static void run_all(const char *pattern, size_t least)
{
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= least);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        run_case(found.gl_pathv[i]);
    }
    globfree(&found);
}

static void json_requests_give_their_golden_answers(void **state)
{
    (void)state;
    run_all("tests/golden/json/*/request", 25);
}
static void raw_requests_give_their_golden_answers(void **state)
{
    (void)state;
    run_all("tests/golden/raw/*/request", 12);
}
static void npy_requests_give_their_golden_answers(void **state)
{
    (void)state;
    run_all("tests/golden/npy/*/request", 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_requests_give_their_golden_answers),
        cmocka_unit_test(raw_requests_give_their_golden_answers),
        cmocka_unit_test(npy_requests_give_their_golden_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
