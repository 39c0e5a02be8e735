/* Prints the table of routes for proto/openapi/make_openapi.c during the build. Each route is a
 * line "tensor|page METHOD,... PATTERN SCOPE,...". */
#include "server/http/route_table.h"
#include "server/http/routes.h"

#include <stdio.h>

static void print_route(const char *kind, unsigned methods, const char *pattern,
                        unsigned scopes)
{
    static const char *const names[] = {"", "GET", "POST", "GET,POST"};
    static const char *const of_scopes[] = {
        "",       " infer",       " metrics",       " infer,metrics",
        " admin", " infer,admin", " metrics,admin", " infer,metrics,admin"};
    printf("%s %s %s%s\n", kind, names[methods & (ROUTE_GET | ROUTE_POST)], pattern,
           of_scopes[scopes & ROUTE_SCOPE_ANY]);
}

#define TENSOR(pattern, ...) print_route("tensor", ROUTE_POST, pattern, ROUTE_SCOPE_INFER);
#define PAGE(pattern, methods, scope, ...) \
    print_route("page", methods, pattern, ROUTE_SCOPE_##scope);

int main(void)
{
    ROUTE_TABLE(TENSOR, TENSOR, PAGE, PAGE)
    return 0;
}
