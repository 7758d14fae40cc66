/* As much of <math.h> as a model needs. What is not built in comes from JavaScript. */
#ifndef MATH_H
#define MATH_H
#define NAN __builtin_nanf("")
#define INFINITY __builtin_inff()
#define isfinite(x) __builtin_isfinite(x)
#define fabs __builtin_fabs
#define fabsf __builtin_fabsf
#define sqrt __builtin_sqrt
#define sqrtf __builtin_sqrtf
#define floor __builtin_floor
#define floorf __builtin_floorf
#define ceil __builtin_ceil
#define ceilf __builtin_ceilf
double exp(double), log(double), pow(double, double), sin(double), cos(double), tanh(double), log1p(double);
double expm1(double);
float expf(float), logf(float), powf(float, float), sinf(float), cosf(float), tanhf(float), log1pf(float);
float expm1f(float);
#endif
