/*
 * Floating-point formats and rounding, as PTX states them.  The simulator's own: it shares no
 * arithmetic with the evaluator or code generation.
 */
#pragma once
#include "codegen/ptx/ptx.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum num_fmt { NUM_F16, NUM_BF16, NUM_F32, NUM_F64, NUM_NFMTS };

/* Rounding away from zero when inexact; beside enum ptx_round, for sums that are only faithful. */
enum { NUM_AWAY = 100 };

enum num_fmt num_fmt_of(enum ptx_type t);

/* The value of a number in format f; exact. */
double num_value(enum num_fmt f, uint64_t bits);

/* The bits of (-1)^neg * m * 2^e, plus less than one unit of m's last place when `sticky`. */
uint64_t num_pack(enum num_fmt f, bool neg, uint64_t m, int e, bool sticky, unsigned round);

/* The bits of hi + err, where |err| is at most half a last place of hi.  NaN gives the canonical
 * one. */
uint64_t num_round(enum num_fmt f, double hi, double err, unsigned round);

/* The exact sum of n values, at least one, rounded once: to nearest even (PTX_RN), or to either
 * neighbour (NUM_AWAY, PTX_RZ).  The result's bits. */
uint64_t num_exact_sum(enum num_fmt f, const double *v, unsigned n, unsigned round);

#define NUM_NAN32 UINT32_C(0x7fffffff)
#define NUM_NAN16 UINT32_C(0x7fff)

static inline uint32_t num_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return u;
}

static inline float num_float(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

static inline uint64_t num_bits64(double d)
{
	uint64_t u;

	memcpy(&u, &d, sizeof u);
	return u;
}

static inline double num_double(uint64_t u)
{
	double d;

	memcpy(&d, &u, sizeof d);
	return d;
}

/* Subnormals become zeros of their sign. */
static inline uint32_t num_flush(uint32_t u)
{
	return (u & UINT32_C(0x7f800000)) ? u : u & UINT32_C(0x80000000);
}

static inline uint32_t num_canonical(uint32_t u)
{
	return (u & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000) ? NUM_NAN32 : u;
}

static inline uint32_t num_bf16_of(uint32_t u)
{
	uint32_t r = (u + UINT32_C(0x7fff) + (u >> 16 & 1)) >> 16;

	return (u & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000) ? NUM_NAN16 : r;
}

/* The error of the rounded sum s = a + b. */
static inline double num_sum_err(double a, double b, double s)
{
	double bb = s - a;

	return (a - (s - bb)) + (b - bb);
}

/* a + b rounded to odd: safe to be rounded again to a format of at most 51 bits. */
static inline double num_sum_odd(double a, double b)
{
	double s = a + b, err = num_sum_err(a, b, s);
	uint64_t u = num_bits64(s);
	uint64_t step = (err > 0) == (s > 0) ? 1 : ~UINT64_C(0);

	return num_double(u + (((err > 0) | (err < 0)) && !(u & 1) ? step : 0));
}
