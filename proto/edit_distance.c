/* Levenshtein's distance, a row of the table at a time. */
#include "proto/edit_distance.h"

#include <string.h>

size_t edit_distance(const char *a, const char *b)
{
    size_t row[EDIT_DISTANCE_MAX + 1];
    size_t b_length = strlen(b);
    if (b_length > EDIT_DISTANCE_MAX) {
        return EDIT_DISTANCE_MAX;
    }
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b_length; j++) {
            size_t replace = diagonal + (a[i] != b[j]);
            size_t shift = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = replace < shift ? replace : shift;
        }
    }
    return row[b_length];
}
