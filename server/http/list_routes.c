/* Prints the table of routes for proto/openapi/make_openapi.c, when Tally is built:
 * "tensor|page METHOD,... PATTERN", a line each. */
#include "server/http/route_table.h"
#include "server/http/routes.h"

#include <stdio.h>

static void list(const char *kind, unsigned methods, const char *pattern)
{
    static const char *const names[] = {"", "GET", "POST", "GET,POST"};
    printf("%s %s %s\n", kind, names[methods & (ROUTE_GET | ROUTE_POST)], pattern);
}

#define TENSOR(pattern, ...)        list("tensor", ROUTE_POST, pattern);
#define PAGE(pattern, methods, ...) list("page", methods, pattern);

int main(void)
{
    ROUTE_TABLE(TENSOR, TENSOR, PAGE)
    return 0;
}
