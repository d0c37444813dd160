/* elementary.c: e^x, the natural logarithm, sine and cosine in double precision.
 *
 * WHY     A rotation's angle and a log-probability are part of an answer; libm may give other bits
 *         on the next machine.
 * HOW     Each reduces to a small argument exactly or with the rounded-off part carried along, sums
 *         a series from its smallest term, and lets the large exact term come last, so that only
 *         that addition's rounding counts. Plain operations: no fused ones, so every compiler and
 *         processor does the same.
 * ALWAYS  (1) n times a part of ln 2 or pi / 2 is exact, but for the last part: the others have 32
 *         bits, n at most 21.
 * THREAD  any; pure
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementary.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const double LN2_HIGH = 0x1.62e42fee00000p-1;
static const double LN2_LOW = 0x1.a39ef35793c76p-33;
static const double ROUNDER =
    0x1.8p52; /* adding and taking it away rounds to the nearest integer */

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* c[0] + c[1] x + ... */
static double polynomial(double x, const double *c, int n)
{
    double sum = c[n - 1];
    for (int i = n - 2; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

double elementary_exp(double x)
{
    /* 1/2!, 1/3!, ...: enough for |r| <= ln 2 / 2 */
    static const double c[] = {0.5,           1.0 / 6,        1.0 / 24,        1.0 / 120,
                               1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                               1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    if (x > 700.0)
        return INFINITY;
    if (x < -700.0)
        return 0.0;
    if (x != x)
        return x;
    double n = (x * 0x1.71547652b82fep+0 + ROUNDER) - ROUNDER;
    double high = x - n * LN2_HIGH;
    double low = n * LN2_LOW;
    double r = high - low;
    double lost = (high - r) - low;
    double tail = r * r * polynomial(r, c, sizeof c / sizeof c[0]) + lost;
    double scale = from_bits((uint64_t)((int64_t)n + 1023) << 52);
    return (1.0 + (r + tail)) * scale;
}

double elementary_log(double x)
{
    /* log(1 + f) = f - s (f - R) with s = f / (2 + f) and R = 2 s^2 (1/3 + s^2/5 + ...) */
    static const double c[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                               2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
    uint64_t bits = bits_of(x);
    int exponent = (int)(bits >> 52) - 1023;
    double m = from_bits((bits & 0xfffffffffffffu) | (uint64_t)1023 << 52);
    if (m > 0x1.6a09e667f3bcdp+0) { /* the square root of 2: keeps |f| small on both sides of 1 */
        m *= 0.5;
        exponent++;
    }
    double f = m - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double correction = s * (f - z * polynomial(z, c, sizeof c / sizeof c[0]));
    double k = exponent;
    return k * LN2_HIGH - ((correction - k * LN2_LOW) - f);
}

/* What is left of x by the nearest multiple of pi / 2, as the sum high + low; n: which multiple. */
struct reduced {
    double high;
    double low;
    int64_t n;
};

/* a - b, and in *lost what the rounding took. */
static double subtract(double a, double b, double *lost)
{
    double d = a - b;
    double b_seen = a - d;
    double a_seen = d + b_seen;
    *lost += (a - a_seen) + (b_seen - b);
    return d;
}

static struct reduced reduce(double x)
{
    double n = (x * 0x1.45f306dc9c883p-1 + ROUNDER) - ROUNDER;
    double lost = 0.0;
    double r = x - n * 0x1.921fb544p+0; /* exact: nearly equal, on one grid */
    r = subtract(r, n * 0x1.0b4611a6p-34, &lost);
    r = subtract(r, n * 0x1.3198a2ep-69, &lost);
    lost -= n * 0x1.b839a252049c1p-104;
    double high = r + lost;
    return (struct reduced){.high = high, .low = (r - high) + lost, .n = (int64_t)n};
}

void elementary_sincos(double x, double *ret_sine, double *ret_cosine)
{
    static const double sine_c[] = {-1.0 / 6,
                                    1.0 / 120,
                                    -1.0 / 5040,
                                    1.0 / 362880,
                                    -1.0 / 39916800,
                                    1.0 / 6227020800.0,
                                    -1.0 / 1307674368000.0,
                                    1.0 / 355687428096000.0};
    static const double cosine_c[] = {
        1.0 / 24,        -1.0 / 720,           1.0 / 40320,           -1.0 / 3628800,
        1.0 / 479001600, -1.0 / 87178291200.0, 1.0 / 20922789888000.0};
    struct reduced r = reduce(x);
    double y = r.high;
    double z = y * y;
    double half = 0.5 * z;
    double sine = y + (y * z * polynomial(z, sine_c, 8) + r.low * (1.0 - half));
    double first = 1.0 - half; /* what this rounding takes is given back below */
    double cosine =
        first + (((1.0 - first) - half) + (z * z * polynomial(z, cosine_c, 7) - y * r.low));
    double a = (r.n & 1) != 0 ? cosine : sine;
    double b = (r.n & 1) != 0 ? sine : cosine;
    *ret_sine = (r.n & 2) != 0 ? -a : a;
    *ret_cosine = ((r.n + 1) & 2) != 0 ? -b : b;
}
