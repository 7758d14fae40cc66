/* What JavaScript calls: a model, its numbers, and the functions of <string.h>, since there is no library here. */
#include "live.h"

#include <string.h>

#define EXPORTED(name) __attribute__((export_name(#name)))

static struct live model;
static double row[LIVE_INPUTS], label[LIVE_OUTPUTS], prediction[LIVE_OUTPUTS];

EXPORTED(begin) void begin(void) { live_init(&model); }

/* A value of the series: it is a row, and the label of an earlier one. Returns the forecast, or nan after an error. */
EXPORTED(step) double step(double value) {
    row[0] = label[0] = value;
    return live_step(&model, row, label, prediction) == LIVE_OK ? prediction[0] : __builtin_nan("");
}

EXPORTED(horizon) int horizon(void) { return LIVE_HORIZON; }

EXPORTED(bytes) unsigned long bytes(void) { return sizeof model; }

void *memcpy(void *to, const void *from, unsigned long n) {
    char *a = to;
    const char *b = from;
    while (n--) *a++ = *b++;
    return to;
}

void *memset(void *to, int byte, unsigned long n) {
    char *a = to;
    while (n--) *a++ = (char)byte;
    return to;
}

int memcmp(const void *a, const void *b, unsigned long n) {
    const unsigned char *x = a, *y = b;
    for (; n--; x++, y++)
        if (*x != *y) return *x - *y;
    return 0;
}
