"""The C functions that statements call. A file has those that it needs."""

from collections.abc import Collection

#: what a helper needs before it
NEEDS = {"logistic32": ("tanh32",), "random_words_32": ("threefry",), "random_words_64": ("threefry",)}

_TEXTS = {
    "larger": """
/* the larger of two numbers; nan if one of them is */
static REAL larger(REAL x, REAL y) { return x > y || x != x ? x : y; }
""",
    "smaller": """
/* the smaller of two numbers; nan if one of them is */
static REAL smaller(REAL x, REAL y) { return x < y || x != x ? x : y; }
""",
    "sign": """
static REAL sign(REAL x) { return x > 0 ? ONE : x < 0 ? -ONE : x; }
""",
    "square": """
static REAL square(REAL x) { return x * x; }
""",
    "one_minus_square": """
static REAL one_minus_square(REAL x) { return ONE - x * x; }
""",
    "logistic": """
static REAL logistic(REAL x) { return ONE / (ONE + exp_(-x)); }
""",
    "tanh32": """
/* tanh as a quotient of polynomials, to 3e-7: without branches, so that several are computed at once (as Eigen's) */
static REAL tanh32(REAL x) {
    const REAL most = 7.90531110763549805f, c = x < -most ? -most : x > most ? most : x;
    const REAL s = c * c;
    REAL p = -2.76076847742355e-16f * s + 2.00018790482477e-13f;
    REAL q = 1.19825839466702e-06f * s + 1.18534705686654e-04f;
    p = p * s - 8.60467152213735e-11f;
    p = p * s + 5.12229709037114e-08f;
    p = p * s + 1.48572235717979e-05f;
    p = p * s + 6.37261928875436e-04f;
    p = p * s + 4.89352455891786e-03f;
    q = q * s + 2.26843463243900e-03f;
    q = q * s + 4.89352518554385e-03f;
    return c * p / q;
}
""",
    "logistic32": """
static REAL logistic32(REAL x) { return 0.5f + 0.5f * tanh32(0.5f * x); }
""",
    "rsqrt": """
static REAL rsqrt(REAL x) { return ONE / sqrt_(x); }
""",
    "power": """
static REAL power(REAL x, int n) {
    REAL found = ONE;
    int left = n < 0 ? -n : n;
    for (; left; left >>= 1, x *= x)
        if (left & 1) found *= x;
    return n < 0 ? ONE / found : found;
}
""",
    "dot": """
/* the sum of x[i] y[i], in eight partial sums */
static REAL dot(const REAL *x, const REAL *y, int n) {
    REAL s[8] = {0};
    int i = 0, k;
    for (; i + 8 <= n; i += 8)
        for (k = 0; k < 8; k++) s[k] += x[i + k] * y[i + k];
    for (k = 0; i < n; i++, k++) s[k] += x[i] * y[i];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}
""",
    "first_largest": """
/* the first place of the largest of n numbers, or of a nan */
static int first_largest(const REAL *x, int n, int step) {
    int best = 0, i;
    for (i = 0; i < n; i++) {
        if (x[i * step] != x[i * step]) return i;
        if (x[i * step] > x[best * step]) best = i;
    }
    return best;
}
""",
    "first_smallest": """
/* the first place of the smallest of n numbers, or of a nan */
static int first_smallest(const REAL *x, int n, int step) {
    int best = 0, i;
    for (i = 0; i < n; i++) {
        if (x[i * step] != x[i * step]) return i;
        if (x[i * step] < x[best * step]) best = i;
    }
    return best;
}
""",
    "float_of_bits": """
static REAL float_of_bits(BITS bits) {
    REAL found;
    memcpy(&found, &bits, sizeof found);
    return found;
}
""",
    "erf_inv": """
/* the inverse of erf: a rough start, and three steps of Newton's on the complement, which keeps digits in the tails */
static REAL erf_inv(REAL x) {
    double far = fabs((double)x), w, t, y;
    int i;
    if (far >= 1) return far > 1 ? (REAL)NAN : x > 0 ? (REAL)INFINITY : -(REAL)INFINITY;
    w = log(1 - far * far);
    t = 2 / (3.14159265358979324 * 0.147) + w / 2;
    y = sqrt(sqrt(t * t - w / 0.147) - t);
    for (i = 0; i < 3; i++) {
        double e = far < 0.5 ? far - erf(y) : erfc(y) - (1 - far);
        y += e * 0.886226925452758014 * exp(y * y);
    }
    return (REAL)(x < 0 ? -y : y);
}
""",
    "threefry": """
/* Threefry-2x32 (Salmon et al., 2011): two random words from a key of two words and a counter of two words. */
static void threefry(const unsigned *key, unsigned high, unsigned low, unsigned *words) {
    static const unsigned char turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    unsigned k[3], x = high, y = low;
    int round, i;
    k[0] = key[0];
    k[1] = key[1];
    k[2] = key[0] ^ key[1] ^ 0x1BD11BDAu;
    x += k[0];
    y += k[1];
    for (round = 0; round < 5; round++) {
        for (i = 0; i < 4; i++) {
            unsigned turn = turns[round % 2][i];
            x += y;
            y = (y << turn | y >> (32 - turn)) ^ x;
        }
        x += k[(round + 1) % 3];
        y += k[(round + 2) % 3] + (unsigned)(round + 1);
    }
    words[0] = x;
    words[1] = y;
}
""",
    "random_words_32": """
/* n random words, as jax.random.bits draws them */
static void random_words_32(const unsigned *key, unsigned *words, int n) {
    unsigned pair[2];
    int i;
    for (i = 0; i < n; i++) {
        threefry(key, 0, (unsigned)i, pair);
        words[i] = pair[0] ^ pair[1];
    }
}
""",
    "random_words_64": """
/* n random words of 64 bits, as jax.random.bits draws them */
static void random_words_64(const unsigned *key, unsigned long long *words, int n) {
    unsigned pair[2];
    int i;
    for (i = 0; i < n; i++) {
        threefry(key, 0, (unsigned)i, pair);
        words[i] = (unsigned long long)pair[0] << 32 | pair[1];
    }
}
""",
}


def texts(names: Collection[str], dtype: str) -> str:
    """The text of these helpers, for numbers of this type."""
    wanted = {*names, *(each for name in names for each in NEEDS.get(name, ()))}
    suffix = "f" if dtype == "float32" else ""
    found = "".join(text for name, text in _TEXTS.items() if name in wanted)
    found = found.replace("ONE", f"1.0{suffix}").replace("exp_(", f"exp{suffix}(").replace("sqrt_(", f"sqrt{suffix}(")
    return found.replace("BITS", "unsigned" if dtype == "float32" else "unsigned long long")
