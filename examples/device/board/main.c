/* A network on a Cortex-M4 that learns to predict the next value of a noisy sine.

   It prints the mean error of its first and last hundred predictions, and how many instructions a step took. In QEMU, a
   tick of the timer is 40 instructions where -icount shift=0 is given, since the clock has 25 MHz. */
#include "live.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 2000
#define TIMER (*(volatile unsigned *)0xE000E010)
#define RELOAD (*(volatile unsigned *)0xE000E014)
#define NOW (*(volatile unsigned *)0xE000E018)

static struct live model;

static double noise(void) {
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return state / 4294967296.0 - 0.5;
}

int main(void) {
    double first = 0, last = 0, forecast[LIVE_OUTPUTS] = {0};
    unsigned long long ticks = 0;
    int i;
    live_init(&model);
    RELOAD = 0xFFFFFF;
    TIMER = 5; /* counts down with the processor's clock */
    for (i = 0; i < ROWS; i++) {
        double value = sin(i / 5.0) + 0.1 * noise(), error = fabs(forecast[0] - value);
        unsigned before = NOW;
        /* the value is a row, and the label of the one before */
        int code = live_step(&model, &value, &value, forecast);
        ticks += (before - NOW) & 0xFFFFFF;
        if (code != LIVE_OK) {
            printf("row %d: code %d\n", i, code);
            exit(1);
        }
        if (i > 0 && i <= 100) first += error / 100;
        if (i >= ROWS - 100) last += error / 100;
    }
    printf("error %.4f at first, %.4f in the end; %lu bytes, %lu instructions a step\n", first, last,
           (unsigned long)sizeof model, (unsigned long)(40 * ticks / ROWS));
    exit(last < first ? 0 : 1);
}
