/* The functions of <string.h> that a model needs. */
#ifndef STRING_H
#define STRING_H
void *memcpy(void *to, const void *from, unsigned long n);
void *memset(void *to, int byte, unsigned long n);
int memcmp(const void *a, const void *b, unsigned long n);
#endif
