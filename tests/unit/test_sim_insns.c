/*
 * Every row of insns.def executed by itself, on ordinary and extreme operands, against values
 * computed here in another way. Rows that compute are a table; the others (memory, barriers,
 * control) have a test each.
 */
#include "tests/unit/unit.h"
#include "tests/unit/sim_run.h"
#include <math.h>

enum { LANES = 32, ROUNDS = 6 };

static bool covered[PTX_NOPS];

static void note_ops(const struct ptx_module *m)
{
	for (const struct ptx_fn *f = m->fn; f; f = f->next)
		for (uint32_t i = 0; i < f->ninsn; i++)
			covered[f->insn[i].op] = true;
}

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

static const char *register_of(char cls)
{
	switch (cls) {
	case 'd':
		return "%rd";
	case 'f':
		return "%f";
	case 'D':
		return "%fd";
	case 'h':
		return "%h";
	case 'p':
		return "%p";
	default:
		return "%r";
	}
}

/* Puts u64 operand k into register 10+k of its class. */
static void put_operand(struct strbuf *b, char cls, unsigned k)
{
	unsigned n = 10 + k;

	strbuf_printf(b, "ld.global.u64 %%rd%u, [%%rd%u+%u];\n", n, 5, k * 8);
	switch (cls) {
	case 'f':
		strbuf_printf(b, "cvt.u32.u64 %%r%u, %%rd%u; mov.b32 %%f%u, %%r%u;\n", n, n, n, n);
		break;
	case 'D':
		strbuf_printf(b, "mov.b64 %%fd%u, %%rd%u;\n", n, n);
		break;
	case 'h':
		strbuf_printf(b, "cvt.u16.u64 %%h%u, %%rd%u;\n", n, n);
		break;
	case 'p':
		strbuf_printf(
		        b,
		        "cvt.u32.u64 %%r%u, %%rd%u; and.b32 %%r%u, %%r%u, 1; setp.ne.u32 %%p%u, "
		        "%%r%u, 0;\n",
		        n, n, n, n, n, n);
		break;
	case 'r':
		strbuf_printf(b, "cvt.u32.u64 %%r%u, %%rd%u;\n", n, n);
		break;
	default:
		break;
	}
}

static void put_result(struct strbuf *b, char cls)
{
	static const char *const how[] = {['d'] = "mov.u64 %rd20, %rd9;",
	                                  ['f'] = "mov.b32 %r20, %f9; cvt.u64.u32 %rd20, %r20;",
	                                  ['D'] = "mov.b64 %rd20, %fd9;",
	                                  ['h'] = "cvt.u64.u16 %rd20, %h9;",
	                                  ['p'] = "selp.b64 %rd20, 1, 0, %p9;",
	                                  ['r'] = "cvt.u64.u32 %rd20, %r9;"};

	strbuf_puts(b, how[(unsigned char)cls]);
	strbuf_puts(b, "\nst.global.u64 [%rd5+24], %rd20;\n");
}

static const char *row_body(struct sim_test *t, const struct row *r)
{
	struct strbuf b;
	const unsigned n = (unsigned)strlen(r->classes) - 1;

	strbuf_init(&b, &t->arena);
	strbuf_puts(&b, "mul.wide.u32 %rd4, %r1, 32; add.s64 %rd5, %rd0, %rd4;\n");
	for (unsigned k = 0; k < n; k++)
		put_operand(&b, r->classes[k + 1], k);
	for (const char *s = r->text; *s; s++) {
		if (*s == 'R')
			strbuf_printf(&b, "%s9", register_of(r->classes[0]));
		else if (*s >= 'A' && *s <= 'C')
			strbuf_printf(&b, "%s%d", register_of(r->classes[*s - 'A' + 1]),
			              10 + *s - 'A');
		else
			strbuf_putc(&b, *s);
	}
	strbuf_puts(&b, ";\n");
	put_result(&b, r->classes[0]);
	return b.s;
}

static uint64_t keep_bits(char cls, uint64_t u)
{
	return cls == 'h' ? u & 0xffff : cls == 'd' || cls == 'D' ? u : u & 0xffffffff;
}

static bool near(const struct row *r, uint64_t got, uint64_t want)
{
	double g, w;

	if (got == want)
		return true;
	if (r->classes[0] == 'D')
		return isnan(d_of(got)) && isnan(d_of(want));
	if (r->classes[0] != 'f' || r->bound == 0)
		return false;
	g = (double)f_of(got);
	w = (double)f_of(want);
	return (isnan(g) && isnan(w)) || fabs(g - w) <= r->bound * fabs(w) + 3e-45;
}

static void run_row(const struct row *r, bool perturb)
{
	static struct sim_test t;
	const struct sim_kernel *k;
	struct ptx_module *m;
	uint64_t data[LANES][4];

	sim_test_begin(&t);
	t.o.perturb_approx = perturb;
	sim_test_start(&t);
	m = sim_test_parse(&t, sim_test_text(&t, "", row_body(&t, r)));
	assert_non_null(m);
	note_ops(m);
	k = sim_load(t.sim, m, "k");
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct sim_test_args args = {sim_alloc(t.sim, 0, sizeof data, "a"), 0, 0, 0};

		for (unsigned i = 0; i < LANES; i++)
			for (unsigned j = 0; j < 4; j++)
				data[i][j] = operand(i, round, j);
		assert_true(sim_write(t.sim, args.a, data, sizeof data));
		sim_launch(t.sim, 0, 0, k, 1, LANES, &args, SIM_TEST_ARGS);
		if (!sim_run(t.sim)) {
			sim_test_show(&t);
			fail_msg("%s", r->text);
		}
		for (unsigned i = 0; i < LANES; i++) {
			uint64_t got, a = keep_bits(r->classes[1], data[i][0]);
			uint64_t b = data[i][1], c = data[i][2], want;

			b = r->classes[2] ? keep_bits(r->classes[2], b) : b;
			c = r->classes[2] && r->classes[3] ? keep_bits(r->classes[3], c) : c;
			want = keep_bits(r->classes[0], r->expect(a, b, c));
			assert_true(sim_read(t.sim, args.a + i * 32 + 24, &got, 8));
			if (!near(r, got, want))
				fail_msg("%s of 0x%llx, 0x%llx, 0x%llx: 0x%llx, not 0x%llx",
				         r->text, (unsigned long long)a, (unsigned long long)b,
				         (unsigned long long)c, (unsigned long long)got,
				         (unsigned long long)want);
		}
	}
	sim_test_end(&t);
}

static void rows_that_compute_give_the_values_of_the_manual(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		run_row(&rows[i], false);
}

static void perturbed_approximations_stay_within_their_bounds(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].bound != 0)
			run_row(&rows[i], true);
}

/* ---- the others: a body, 32 threads, and what has to be in memory afterwards ---- */

/* a: 64 words 1000 + i on every rank; b: 64 words of zeros; mc in c when two ranks. Word i of b
 * afterwards is want(i). */
typedef uint32_t want_fn(unsigned i);

static void run_body(const char *vars, const char *body, unsigned ranks, want_fn *want)
{
	static struct sim_test t;
	struct ptx_module *m;
	const struct sim_kernel *k;
	struct sim_symmetric a, b;
	uint32_t words[64], zero[64] = {0};

	sim_test_begin(&t);
	t.o.ranks = ranks;
	sim_test_start(&t);
	m = sim_test_parse(&t, sim_test_text(&t, vars, body));
	assert_non_null(m);
	note_ops(m);
	k = sim_load(t.sim, m, "k");
	if (!k)
		sim_test_show(&t);
	assert_non_null(k);
	a = sim_alloc_symmetric(t.sim, sizeof words, true, "a");
	b = sim_alloc_symmetric(t.sim, sizeof words, true, "b");
	for (unsigned r = 0; r < ranks; r++) {
		for (unsigned i = 0; i < 64; i++)
			words[i] = 1000 + i;
		sim_write(t.sim, a.uc[r], words, sizeof words);
		sim_write(t.sim, b.uc[r], zero, sizeof zero);
	}
	for (unsigned r = 0; r < ranks; r++) {
		struct sim_test_args args = {ranks > 1 ? a.mc : a.uc[r], b.uc[r], b.mc, 32};

		sim_launch(t.sim, r, 0, k, 1, LANES, &args, SIM_TEST_ARGS);
		if (r == 0 && !sim_run(t.sim)) {
			sim_test_show(&t);
			fail_msg("%s", body);
		}
		if (r == 0)
			break;
	}
	for (unsigned r = 0; r < ranks; r++) {
		sim_read(t.sim, b.uc[r], words, sizeof words);
		for (unsigned i = 0; i < 64; i++)
			if (words[i] != want(i) &&
			    (r == 0 || strstr(body, "multimem.st") || strstr(body, "multimem.red")))
				fail_msg("%s: word %u of rank %u is %u, not %u", body, i, r,
				         words[i], want(i));
	}
	sim_test_end(&t);
}

#define W(NAME, EXPR)                    \
	static uint32_t NAME(unsigned i) \
	{                                \
		return (uint32_t)(EXPR); \
	}
W(w_copy, i < 32 ? 1000 + i : 0)
W(w_copy64, 1000 + i)
W(w_neighbour, i < 31 ? 1001 + i : i == 31 ? 1031 : 0)
W(w_xor, i < 32 ? 1000 + (i ^ 5) : 0)
W(w_up, i < 32 ? (i < 3 ? 1000 + i : 1000 + i - 3) : 0)
W(w_idx, i < 32 ? 1007 : 0)
W(w_in_range, i < 32 ? (i + 4 < 32) : 0)
W(w_ballot, i < 32 ? 0xff : 0)
W(w_one, i < 32)
W(w_count, i == 0 ? 32 : i < 33 ? i - 1 : 0)
W(w_cas, i == 0 ? 1 : i < 33 ? (i == 1 ? 0 : 1) : 0)
W(w_exch, i == 0 ? 31 : i < 33 ? (i == 1 ? 0 : i - 2) : 0)
W(w_sum2, i < 32 ? 2 * (1000 + i) : 0)
W(w_red32, i == 0 ? 32 : 0)
W(w_odd, i < 32 ? (i & 1 ? 7 : 0) : 0)
W(w_loop, i < 32 ? i * (i + 1) / 2 : 0)
W(w_warp, i < 32 ? 1000 + 31 - i : 0)
W(w_pack, i < 32 ? (1000 + i) << 16 | (1000 + i) : 0)

#define MINE                                                                                      \
	"mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd0, %rd4; add.s64 %rd6, %rd1, %rd4; add.s64 " \
	"%rd7, %rd2, %rd4;\n"
#define READ  MINE "ld.global.u32 %r10, [%rd5];\n"
#define WRITE "st.global.u32 [%rd6], %r11;\n"

static void loads_and_stores_move_what_they_say(void **state)
{
	(void)state;
	run_body("", MINE "ld.global.u32 %r11, [%rd5];" WRITE, 1, w_copy);
	run_body("",
	         MINE "cvta.global.u64 %rd8, %rd5; ld.u32 %r11, [%rd8]; cvta.to.global.u64 %rd9, "
	              "%rd6; st.global.u32 [%rd9], %r11;",
	         1, w_copy);
	run_body("", MINE "ld.global.nc.u32 %r11, [%rd5];" WRITE, 1, w_copy);
	run_body("",
	         "mul.wide.u32 %rd4, %r1, 8; add.s64 %rd5, %rd0, %rd4; add.s64 %rd6, %rd1, %rd4;"
	         "ld.relaxed.sys.global.v2.b32 {%r10, %r11}, [%rd5]; st.release.sys.global.v2.b32 "
	         "[%rd6], {%r10, %r11};",
	         1, w_copy64);
	run_body(".shared .align 16 .b32 buf[32];",
	         READ "mov.u32 %r12, buf; shl.b32 %r13, %r1, 2; add.u32 %r12, %r12, %r13; "
	              "st.shared.u32 [%r12], %r10;"
	              "bar.sync 0; mov.u32 %r14, buf; sub.u32 %r15, 31, %r1; shl.b32 %r15, %r15, "
	              "2; add.u32 %r14, %r14, %r15;"
	              "ld.shared.u32 %r11, [%r14];" WRITE,
	         1, w_warp);
	run_body(".shared .align 16 .b32 buf[32];",
	         READ "mov.u32 %r12, buf; shl.b32 %r13, %r1, 2; add.u32 %r12, %r12, %r13; "
	              "st.shared.u32 [%r12], %r10;"
	              "bar.warp.sync -1; mov.u32 %r14, buf; sub.u32 %r15, 31, %r1; shl.b32 %r15, "
	              "%r15, 2; add.u32 %r14, %r14, %r15;"
	              "ld.shared.u32 %r11, [%r14];" WRITE,
	         1, w_warp);
	run_body("",
	         READ "cvt.u16.u32 %h1, %r10; mov.b32 %r11, {%h1, %h1}; mov.b32 {%h2, %h3}, %r11; "
	              "mov.b32 %r11, {%h3, %h2};" WRITE,
	         1, w_pack);
}

static void lanes_exchange_by_shuffles_and_votes(void **state)
{
	(void)state;
	run_body("", READ "shfl.sync.down.b32 %r11, %r10, 1, 31, -1;" WRITE, 1, w_neighbour);
	run_body("", READ "shfl.sync.bfly.b32 %r11, %r10, 5, 31, -1;" WRITE, 1, w_xor);
	run_body("", READ "shfl.sync.up.b32 %r11, %r10, 3, 0, -1;" WRITE, 1, w_up);
	run_body("", READ "shfl.sync.idx.b32 %r11, %r10, 7, 31, -1;" WRITE, 1, w_idx);
	run_body("",
	         READ
	         "shfl.sync.down.b32 %r12|%p1, %r10, 4, 31, -1; selp.b32 %r11, 1, 0, %p1;" WRITE,
	         1, w_in_range);
	run_body("", READ "setp.lt.u32 %p1, %r1, 8; vote.sync.ballot.b32 %r11, %p1, -1;" WRITE, 1,
	         w_ballot);
	run_body("",
	         READ "setp.lt.u32 %p1, %r1, 8; vote.sync.any.pred %p2, %p1, -1; "
	              "vote.sync.all.pred %p3, %p1, -1;"
	              "selp.b32 %r11, 1, 0, %p2; @%p3 mov.u32 %r11, 9;" WRITE,
	         1, w_one);
}

static void atomics_return_the_old_value_and_store_the_new(void **state)
{
	(void)state;
	run_body("", MINE "atom.global.add.u32 %r11, [%rd1], 1; st.global.u32 [%rd6+4], %r11;", 1,
	         w_count);
	run_body(
	        "",
	        MINE
	        "atom.relaxed.gpu.global.cas.b32 %r11, [%rd1], 0, 1; st.global.u32 [%rd6+4], %r11;",
	        1, w_cas);
	run_body("", MINE "atom.global.exch.b32 %r11, [%rd1], %r1; st.global.u32 [%rd6+4], %r11;",
	         1, w_exch);
	run_body("", MINE "red.relaxed.sys.global.add.u32 [%rd1], 1;", 1, w_red32);
}

static void multimem_reaches_all_replicas(void **state)
{
	(void)state;
	run_body("", MINE "multimem.ld_reduce.relaxed.sys.global.add.u32 %r11, [%rd5];" WRITE, 2,
	         w_sum2);
	run_body("",
	         MINE "add.u32 %r11, %r1, 1000; multimem.st.relaxed.sys.global.b32 [%rd7], %r11;",
	         3, w_copy);
	run_body("", MINE "multimem.red.release.sys.global.add.u32 [%rd2], 1;", 4, w_red32);
}

static void control_goes_where_it_says(void **state)
{
	(void)state;
	run_body("",
	         MINE "and.b32 %r12, %r1, 1; setp.eq.u32 %p1, %r12, 0; mov.u32 %r11, 0; @%p1 bra "
	              "even; mov.u32 %r11, 7; even:" WRITE,
	         1, w_odd);
	run_body("",
	         MINE "mov.u32 %r11, 0; mov.u32 %r12, 0; again: add.u32 %r11, %r11, %r12; add.u32 "
	              "%r12, %r12, 1;"
	              "setp.le.u32 %p1, %r12, %r1; @%p1 bra again;" WRITE,
	         1, w_loop);
	run_body("",
	         MINE "setp.ge.u32 %p1, %r1, 32; @%p1 exit; mov.u32 %r11, 1;" WRITE "ret; trap;", 1,
	         w_one);
	run_body("",
	         MINE "fence.acq_rel.sys; fence.proxy.alias; griddepcontrol.wait; "
	              "griddepcontrol.launch_dependents; nanosleep.u32 20;"
	              "bar.sync 1, 32; mov.u64 %rd9, %globaltimer; setp.gt.u64 %p1, %rd9, 0; "
	              "selp.u32 %r11, 1, 0, %p1;" WRITE,
	         1, w_one);
}

static void every_row_has_been_executed(void **state)
{
	(void)state;
	for (unsigned op = 0; op < PTX_NOPS; op++)
		if (!covered[op] &&
		    !(op >= PTX_mbar_init && op <= PTX_fence_mbar_init)) /* test_sim_bulk.c */
			fail_msg("no test executes %s", ptx_insn_info[op].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(rows_that_compute_give_the_values_of_the_manual),
	        cmocka_unit_test(perturbed_approximations_stay_within_their_bounds),
	        cmocka_unit_test(loads_and_stores_move_what_they_say),
	        cmocka_unit_test(lanes_exchange_by_shuffles_and_votes),
	        cmocka_unit_test(atomics_return_the_old_value_and_store_the_new),
	        cmocka_unit_test(multimem_reaches_all_replicas),
	        cmocka_unit_test(control_goes_where_it_says),
	        cmocka_unit_test(every_row_has_been_executed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
