/* cmocka, with the headers that it requires before it, in the required order. */
#ifndef TALLY_TESTS_LIB_UNIT_H
#define TALLY_TESTS_LIB_UNIT_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

#endif
