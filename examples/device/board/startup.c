/* What a Cortex-M4 reads first: where its stack is, and where it begins. A board's own startup code takes the place of
   this file. */
extern int _start(void);
extern char stack_top[];

/* Nothing is to be done before and after main. */
void _init(void);
void _fini(void);
void _init(void) {}
void _fini(void) {}

static void begin(void) {
    *(volatile unsigned *)0xE000ED88 |= 0xFu << 20; /* the floating-point unit */
    __asm volatile("dsb\n isb");
    _start();
}

static void stop(void) {
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    stack_top, begin, stop, stop, stop, stop, stop, 0, 0, 0, 0, stop, stop, 0, stop, stop,
};
