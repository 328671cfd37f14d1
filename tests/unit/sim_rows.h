/* The rows of insns.def that compute, with what each has to give, made here in another way; for test_sim_insns.c alone. */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- values ---- */

static uint64_t state64 = 88172645463325252u;

static uint64_t draw(void)
{
	state64 ^= state64 << 13;
	state64 ^= state64 >> 7;
	state64 ^= state64 << 17;
	return state64;
}

static float f_of(uint64_t u)
{
	uint32_t v = (uint32_t)u;
	float f;

	memcpy(&f, &v, sizeof f);
	return f;
}

static uint64_t u_of(float f)
{
	uint32_t v;

	memcpy(&v, &f, sizeof v);
	return f != f ? 0x7fffffff : v;
}

static double d_of(uint64_t u)
{
	double d;

	memcpy(&d, &u, sizeof d);
	return d;
}

static uint64_t u_of_d(double d)
{
	uint64_t u;

	memcpy(&u, &d, sizeof u);
	return u;
}

/* A half-precision format by its fields; every value is found by searching all encodings. */
struct half {
	int mant, bias;
};
static const struct half bf16 = {7, 127}, f16 = {10, 15};

static double half_value(struct half h, uint64_t u)
{
	int e = (int)(u >> h.mant & ((1u << (15 - h.mant)) - 1));
	double m = (double)(u & ((1u << h.mant) - 1)), v;

	if (e == (1 << (15 - h.mant)) - 1)
		v = m != 0 ? (double)NAN : (double)INFINITY;
	else
		v = e ? ldexp(1 + ldexp(m, -h.mant), e - h.bias) : ldexp(m, 1 - h.bias - h.mant);
	return u & 0x8000 ? -v : v;
}

/* The nearest encoding: by bisection over magnitudes, which are ordered as their encodings are. */
static uint64_t half_nearest(struct half h, double v)
{
	uint32_t lo = 0, hi = ((1u << (15 - h.mant)) - 1) << h.mant, sign = signbit(v) ? 0x8000 : 0;
	double a = fabs(v), top = ldexp(2 - ldexp(1, -h.mant - 1), h.bias);

	if (isnan(v))
		return 0x7fff;
	if (a >= top)
		return sign | hi;
	while (hi - lo > 1) {
		uint32_t mid = (lo + hi) / 2;

		if (half_value(h, mid) <= a)
			lo = mid;
		else
			hi = mid;
	}
	if (hi == ((1u << (15 - h.mant)) - 1) << h.mant)
		return sign | lo;
	if (a - half_value(h, lo) > half_value(h, hi) - a ||
	    (a - half_value(h, lo) == half_value(h, hi) - a && (lo & 1)))
		lo = hi;
	return sign | lo;
}

/* Operands: the first lanes are special values of every type, the rest is random. */
static uint64_t operand(unsigned lane, unsigned round, unsigned which)
{
	static const uint64_t special[] = {
	        0,          1,          0xffffffffffffffff, 0x8000000080008000, 0x7fffffff7fffffff,
	        0x3f800000, 0xbf800000, 0x7f800000,         0xff800000,         0x7fc00000,
	        0x00000001, 0x807fffff, 0x7f7fffff,         0x3f803f80,         0x80000000,
	        0x3c003c00, 0x7bff7bff, 0x00010001,         0x7c007c00,         5};
	unsigned n = sizeof special / sizeof special[0];

	if (round < 3 && which == round)
		return special[(lane * 7 + round) % n];
	if (round == 3)
		return special[(lane + which * 5) % n];
	if (round == 4) { /* numbers near one, for floats */
		uint64_t u = 0x3f000000 + (draw() & 0x80ffffff);

		return u | u << 32;
	}
	return draw();
}

/* ---- the rows that compute ---- */

typedef uint64_t expect_fn(uint64_t a, uint64_t b, uint64_t c);

struct row {
	const char *text;    /* R: the result; A B C: operands */
	const char *classes; /* of R A B C: r d(rd) f D(fd) h p */
	expect_fn *expect;
	double bound; /* relative to the value; 0: the same bits */
};

#define I32(x) ((int64_t)(int32_t)(x))
#define I16(x) ((int64_t)(int16_t)(x))
#define U16(x) ((uint64_t)(uint16_t)(x))
#define U32(x) ((uint64_t)(uint32_t)(x))
#define E(NAME, EXPR)                                            \
	static uint64_t NAME(uint64_t a, uint64_t b, uint64_t c) \
	{                                                        \
		(void)a;                                         \
		(void)b;                                         \
		(void)c;                                         \
		return (uint64_t)(EXPR);                         \
	}

E(e_a, a)
E(e_add, a + b)
E(e_sub, a - b)
E(e_mul, a *b)
E(e_mad, a *b + c)
E(e_mul_hi_u32, U32(a) * U32(b) >> 32)
E(e_mul_hi_s32, I32(a) * I32(b) >> 32)
E(e_mul_wide_u32, U32(a) * U32(b))
E(e_mul_wide_s32, I32(a) * I32(b))
E(e_mad_wide_u32, U32(a) * U32(b) + c)
E(e_mul_wide_s16, I16(a) * I16(b))
E(e_mul_hi_u64,
  (a >> 32) * (b >> 32) + ((a >> 32) * U32(b) >> 32) + (U32(a) * (b >> 32) >> 32) +
          (((U32(a) * U32(b) >> 32) + U32((a >> 32) * U32(b)) + U32(U32(a) * (b >> 32))) >> 32))
E(e_div_u32, U32(b) ? U32(a) / U32(b) : ~0u)
E(e_div_s32, I32(b) ? I32(a) / I32(b) : ~0u)
E(e_div_u64, b ? a / b : ~0ull)
E(e_rem_u32, U32(b) ? U32(a) % U32(b) : a)
E(e_rem_s32, I32(b) ? I32(a) % I32(b) : (int64_t)a)
E(e_min_u32, U32(a) < U32(b) ? a : b)
E(e_min_s32, I32(a) < I32(b) ? a : b)
E(e_max_u64, a > b ? a : b)
E(e_max_s64, (int64_t)a > (int64_t)b ? a : b)
E(e_max_s16, I16(a) > I16(b) ? a : b)
E(e_neg, 0 - a)
E(e_and, a &b)
E(e_or, a | b)
E(e_xor, a ^ b)
E(e_not, ~a)
E(e_shl_32, U32(b) > 31 ? 0 : a << (b & 31))
E(e_shl_64, U32(b) > 63 ? 0 : a << (b & 63))
E(e_shr_u32, U32(b) > 31 ? 0 : U32(a) >> (b & 31))
E(e_shr_s32, I32(a) >> (U32(b) > 31 ? 31 : b & 31))
E(e_shr_s64, (int64_t)a >> (U32(b) > 63 ? 63 : b & 63))
E(e_shr_u64, U32(b) > 63 ? 0 : a >> (b & 63))
E(e_shr_s16, I16(a) >> (U32(b) > 15 ? 15 : b & 15))
E(e_fadd, u_of(f_of(a) + f_of(b)))
E(e_fsub, u_of(f_of(a) - f_of(b)))
E(e_fmul, u_of(f_of(a) * f_of(b)))
E(e_ffma, u_of(fmaf(f_of(a), f_of(b), f_of(c))))
E(e_fdiv, u_of(f_of(a) / f_of(b)))
E(e_fsqrt, u_of(sqrtf(f_of(a))))
E(e_frcp, u_of(1 / f_of(a)))
E(e_fneg, u_of(-f_of(a)))
E(e_fabs, u_of(fabsf(f_of(a))))
E(e_dadd, u_of_d(d_of(a) + d_of(b)))
E(e_dmul, u_of_d(d_of(a) * d_of(b)))
E(e_dfma, u_of_d(fma(d_of(a), d_of(b), d_of(c))))
E(e_rsqrt, u_of((float)(1 / sqrt((double)f_of(a)))))
E(e_ex2, u_of((float)pow(2, (double)f_of(a))))
E(e_lg2, u_of((float)(log((double)f_of(a)) / log(2.0))))
E(e_tanh, u_of((float)tanh((double)f_of(a))))

static uint64_t flush(uint64_t u)
{
	return u & 0x7f800000 ? u : u & 0x80000000;
}
E(e_fadd_ftz, flush(u_of(f_of(flush(a)) + f_of(flush(b)))))
E(e_fmul_ftz, flush(u_of(f_of(flush(a)) * f_of(flush(b)))))
E(e_ffma_ftz, flush(u_of(fmaf(f_of(flush(a)), f_of(flush(b)), f_of(flush(c))))))

static uint64_t directed(double exact, bool up)
{
	float f = (float)exact;

	if (isnan(exact) || isinf(exact))
		return u_of(f);
	if (up && (double)f < exact)
		f = nextafterf(f, INFINITY);
	if (!up && (double)f > exact)
		f = nextafterf(f, -INFINITY);
	return u_of(f);
}
static uint64_t toward_zero(double exact)
{
	return directed(exact, signbit(exact));
}
E(e_fmul_rz, toward_zero((double)f_of(a) * (double)f_of(b)))
E(e_fmul_rp, directed((double)f_of(a) * (double)f_of(b), true))
E(e_fmul_rm, directed((double)f_of(a) * (double)f_of(b), false))

#define PAIR(OP)                                                                                \
	(half_nearest(HF, half_value(HF, a & 0xffff) OP half_value(HF, b & 0xffff)) |           \
	 half_nearest(HF, half_value(HF, a >> 16 & 0xffff) OP half_value(HF, b >> 16 & 0xffff)) \
	         << 16)
#define HF bf16
E(e_badd, PAIR(+))
E(e_bmul, PAIR(*))
E(e_bsub, PAIR(-))
#undef HF
#define HF f16
E(e_hadd, PAIR(+))
E(e_hmul, PAIR(*))
#undef HF
E(e_hadd1, half_nearest(f16, half_value(f16, a & 0xffff) + half_value(f16, b & 0xffff)))
E(e_bneg, (a ^ 0x80008000) & 0xffffffff)

static uint64_t fmin_bits(uint64_t a, uint64_t b)
{
	float x = f_of(a), y = f_of(b);

	if (x != x || y != y)
		return x != x ? u_of(y) : u_of(x);
	if (x == 0 && y == 0)
		return u_of(signbit(x) ? x : y);
	return u_of(x < y ? x : y);
}
E(e_fmin, fmin_bits(a, b))
E(e_fmax, fmin_bits(a ^ 0x80000000, b ^ 0x80000000) == 0x7fffffff
                  ? 0x7fffffff
                  : fmin_bits(a ^ 0x80000000, b ^ 0x80000000) ^ 0x80000000)

E(e_f_of_bf16, u_of((float)half_value(bf16, a & 0xffff)))
E(e_bf16_of_f, half_nearest(bf16, (double)f_of(a)))
E(e_f16_of_f, half_nearest(f16, (double)f_of(a)))
E(e_f_of_f16, u_of((float)half_value(f16, a & 0xffff)))
E(e_bf16x2, half_nearest(bf16, (double)f_of(a)) << 16 | half_nearest(bf16, (double)f_of(b)))
E(e_f16x2, half_nearest(f16, (double)f_of(a)) << 16 | half_nearest(f16, (double)f_of(b)))
E(e_u64_u32, U32(a))
E(e_s64_s32, I32(a))
E(e_u32_u64, U32(a))
E(e_s32_s16, I16(a))
E(e_u32_u8, a & 0xff)
E(e_f_of_u32, u_of((float)(uint32_t)a))
E(e_f_of_s32, u_of((float)(int32_t)a))
E(e_f_of_u64, u_of((float)a))
E(e_d_of_f, u_of_d((double)f_of(a)))
E(e_f_of_d, u_of((float)d_of(a)))

static uint64_t to_s32(double v)
{
	return isnan(v)             ? 0
	       : v >= 2147483647.0  ? 2147483647u
	       : v <= -2147483648.0 ? 0x80000000u
	                            : (uint64_t)(int64_t)v;
}
E(e_s32_rzi, to_s32(trunc((double)f_of(a))))
E(e_s32_rni, to_s32(nearbyint((double)f_of(a))))
E(e_s32_rmi, to_s32(floor((double)f_of(a))))
E(e_s16_sat, I32(a) > 32767 ? 32767 : I32(a) < -32768 ? 0x8000 : a)

static uint64_t permute(uint64_t a, uint64_t b, uint64_t c)
{
	uint8_t bytes[8], out[4];
	uint32_t lo = (uint32_t)a, hi = (uint32_t)b, r;

	memcpy(bytes, &lo, 4);
	memcpy(bytes + 4, &hi, 4);
	for (unsigned k = 0; k < 4; k++) {
		unsigned n = c >> 4 * k & 15;

		out[k] = n > 7 ? (bytes[n - 8] > 127 ? 255 : 0) : bytes[n];
	}
	memcpy(&r, out, 4);
	return r;
}

E(e_lt_s32, I32(a) < I32(b))
E(e_ge_u32, U32(a) >= U32(b))
E(e_hi_u64, a > b)
E(e_eq_b16, U16(a) == U16(b))
E(e_lt_f, f_of(a) < f_of(b))
E(e_neu_f, f_of(a) != f_of(b))
E(e_leu_f, !(f_of(a) > f_of(b)))
E(e_num_f, f_of(a) == f_of(a) && f_of(b) == f_of(b))
E(e_eq_or, U32(a) == U32(b) || (c & 1))
E(e_ne_and, U32(a) != U32(b) && (c & 1))
E(e_selp, (c & 1) ? a : b)
E(e_selp_not, (c & 1) ? b : a)

/* clang-format off */
static const struct row rows[] = {
	{"mov.b32 R, A", "rr", e_a, 0}, {"mov.u64 R, A", "dd", e_a, 0}, {"mov.f32 R, A", "ff", e_a, 0}, {"mov.b32 R, A", "fr", e_a, 0},
	{"mov.b16 R, A", "hh", e_a, 0}, {"mov.f64 R, A", "DD", e_a, 0},
	{"add.u32 R, A, B", "rrr", e_add, 0}, {"add.s64 R, A, B", "ddd", e_add, 0}, {"add.u16 R, A, B", "hhh", e_add, 0},
	{"sub.s32 R, A, B", "rrr", e_sub, 0}, {"sub.u64 R, A, B", "ddd", e_sub, 0}, {"sub.s16 R, A, B", "hhh", e_sub, 0},
	{"mul.lo.u32 R, A, B", "rrr", e_mul, 0}, {"mul.lo.s64 R, A, B", "ddd", e_mul, 0}, {"mul.lo.u16 R, A, B", "hhh", e_mul, 0},
	{"mul.hi.u32 R, A, B", "rrr", e_mul_hi_u32, 0}, {"mul.hi.s32 R, A, B", "rrr", e_mul_hi_s32, 0},
	{"mul.hi.u64 R, A, B", "ddd", e_mul_hi_u64, 0},
	{"mul.wide.u32 R, A, B", "drr", e_mul_wide_u32, 0}, {"mul.wide.s32 R, A, B", "drr", e_mul_wide_s32, 0},
	{"mul.wide.s16 R, A, B", "rhh", e_mul_wide_s16, 0},
	{"mad.lo.u32 R, A, B, C", "rrrr", e_mad, 0}, {"mad.lo.s64 R, A, B, C", "dddd", e_mad, 0}, {"mad.lo.u16 R, A, B, C", "hhhh", e_mad, 0},
	{"mad.wide.u32 R, A, B, C", "drrd", e_mad_wide_u32, 0},
	{"div.u32 R, A, B", "rrr", e_div_u32, 0}, {"div.s32 R, A, B", "rrr", e_div_s32, 0}, {"div.u64 R, A, B", "ddd", e_div_u64, 0},
	{"rem.u32 R, A, B", "rrr", e_rem_u32, 0}, {"rem.s32 R, A, B", "rrr", e_rem_s32, 0},
	{"min.u32 R, A, B", "rrr", e_min_u32, 0}, {"min.s32 R, A, B", "rrr", e_min_s32, 0},
	{"max.u64 R, A, B", "ddd", e_max_u64, 0}, {"max.s64 R, A, B", "ddd", e_max_s64, 0}, {"max.s16 R, A, B", "hhh", e_max_s16, 0},
	{"neg.s32 R, A", "rr", e_neg, 0}, {"neg.s64 R, A", "dd", e_neg, 0},
	{"and.b32 R, A, B", "rrr", e_and, 0}, {"and.b64 R, A, B", "ddd", e_and, 0}, {"or.b32 R, A, B", "rrr", e_or, 0},
	{"xor.b64 R, A, B", "ddd", e_xor, 0}, {"not.b32 R, A", "rr", e_not, 0}, {"not.b16 R, A", "hh", e_not, 0},
	{"shl.b32 R, A, B", "rrr", e_shl_32, 0}, {"shl.b64 R, A, B", "ddr", e_shl_64, 0},
	{"shr.u32 R, A, B", "rrr", e_shr_u32, 0}, {"shr.s32 R, A, B", "rrr", e_shr_s32, 0}, {"shr.b32 R, A, B", "rrr", e_shr_u32, 0},
	{"shr.s64 R, A, B", "ddr", e_shr_s64, 0}, {"shr.u64 R, A, B", "ddr", e_shr_u64, 0}, {"shr.s16 R, A, B", "hhr", e_shr_s16, 0},
	{"add.rn.f32 R, A, B", "fff", e_fadd, 0}, {"add.f32 R, A, B", "fff", e_fadd, 0}, {"add.rn.ftz.f32 R, A, B", "fff", e_fadd_ftz, 0},
	{"add.rn.f64 R, A, B", "DDD", e_dadd, 0}, {"sub.rn.f32 R, A, B", "fff", e_fsub, 0},
	{"mul.rn.f32 R, A, B", "fff", e_fmul, 0}, {"mul.rn.f64 R, A, B", "DDD", e_dmul, 0}, {"mul.rn.ftz.f32 R, A, B", "fff", e_fmul_ftz, 0},
	{"mul.rz.f32 R, A, B", "fff", e_fmul_rz, 0}, {"mul.rp.f32 R, A, B", "fff", e_fmul_rp, 0}, {"mul.rm.f32 R, A, B", "fff", e_fmul_rm, 0},
	{"fma.rn.f32 R, A, B, C", "ffff", e_ffma, 0}, {"fma.rn.ftz.f32 R, A, B, C", "ffff", e_ffma_ftz, 0},
	{"fma.rn.f64 R, A, B, C", "DDDD", e_dfma, 0},
	{"add.rn.bf16x2 R, A, B", "rrr", e_badd, 0}, {"mul.rn.bf16x2 R, A, B", "rrr", e_bmul, 0}, {"sub.rn.bf16x2 R, A, B", "rrr", e_bsub, 0},
	{"add.rn.f16x2 R, A, B", "rrr", e_hadd, 0}, {"mul.rn.f16x2 R, A, B", "rrr", e_hmul, 0}, {"add.rn.f16 R, A, B", "hhh", e_hadd1, 0},
	{"div.rn.f32 R, A, B", "fff", e_fdiv, 0}, {"sqrt.rn.f32 R, A", "ff", e_fsqrt, 0}, {"rcp.rn.f32 R, A", "ff", e_frcp, 0},
	{"div.full.f32 R, A, B", "fff", e_fdiv, 3e-7}, {"sqrt.approx.f32 R, A", "ff", e_fsqrt, 3e-7}, {"rcp.approx.f32 R, A", "ff", e_frcp, 3e-7},
	{"min.f32 R, A, B", "fff", e_fmin, 0}, {"max.f32 R, A, B", "fff", e_fmax, 0},
	{"neg.f32 R, A", "ff", e_fneg, 0}, {"abs.f32 R, A", "ff", e_fabs, 0}, {"neg.bf16x2 R, A", "rr", e_bneg, 0},
	{"rsqrt.approx.f32 R, A", "ff", e_rsqrt, 1.3e-7}, {"ex2.approx.f32 R, A", "ff", e_ex2, 3e-7},
	{"lg2.approx.f32 R, A", "ff", e_lg2, 3e-7}, {"tanh.approx.f32 R, A", "ff", e_tanh, 5e-4},
	{"cvt.f32.bf16 R, A", "fh", e_f_of_bf16, 0}, {"cvt.rn.bf16.f32 R, A", "hf", e_bf16_of_f, 0}, {"cvt.rn.f16.f32 R, A", "hf", e_f16_of_f, 0},
	{"cvt.f32.f16 R, A", "fh", e_f_of_f16, 0}, {"cvt.rn.bf16x2.f32 R, A, B", "rff", e_bf16x2, 0}, {"cvt.rn.f16x2.f32 R, A, B", "rff", e_f16x2, 0},
	{"cvt.u64.u32 R, A", "dr", e_u64_u32, 0}, {"cvt.s64.s32 R, A", "dr", e_s64_s32, 0}, {"cvt.u32.u64 R, A", "rd", e_u32_u64, 0},
	{"cvt.s32.s16 R, A", "rh", e_s32_s16, 0}, {"cvt.u32.u8 R, A", "rr", e_u32_u8, 0},
	{"cvt.rn.f32.u32 R, A", "fr", e_f_of_u32, 0}, {"cvt.rn.f32.s32 R, A", "fr", e_f_of_s32, 0}, {"cvt.rn.f32.u64 R, A", "fd", e_f_of_u64, 0},
	{"cvt.f64.f32 R, A", "Df", e_d_of_f, 0}, {"cvt.rn.f32.f64 R, A", "fD", e_f_of_d, 0},
	{"cvt.rzi.s32.f32 R, A", "rf", e_s32_rzi, 0}, {"cvt.rni.s32.f32 R, A", "rf", e_s32_rni, 0}, {"cvt.rmi.s32.f32 R, A", "rf", e_s32_rmi, 0},
	{"cvt.sat.s16.s32 R, A", "hr", e_s16_sat, 0},
	{"prmt.b32 R, A, B, C", "rrrr", permute, 0},
	{"setp.lt.s32 R, A, B", "prr", e_lt_s32, 0}, {"setp.ge.u32 R, A, B", "prr", e_ge_u32, 0}, {"setp.hi.u64 R, A, B", "pdd", e_hi_u64, 0},
	{"setp.eq.b16 R, A, B", "phh", e_eq_b16, 0}, {"setp.lt.f32 R, A, B", "pff", e_lt_f, 0}, {"setp.neu.f32 R, A, B", "pff", e_neu_f, 0},
	{"setp.leu.f32 R, A, B", "pff", e_leu_f, 0}, {"setp.num.f32 R, A, B", "pff", e_num_f, 0},
	{"setp.eq.or.b32 R, A, B, C", "prrp", e_eq_or, 0}, {"setp.ne.and.u32 R, A, B, C", "prrp", e_ne_and, 0},
	{"selp.b32 R, A, B, C", "rrrp", e_selp, 0}, {"selp.b64 R, A, B, C", "dddp", e_selp, 0}, {"selp.f32 R, A, B, !C", "fffp", e_selp_not, 0},
};
/* clang-format on */
