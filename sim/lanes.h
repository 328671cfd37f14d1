/*
 * Loops over the 32 lanes of a warp.  A lane that is not in the mask is computed too, and its
 * result dropped, so that the loops have no branches: an expression must be harmless for any
 * operands (no division by 0).
 *
 *	LANES2(uint32_t, uint32_t, x + y);      d[i] = x + y for the lanes of the mask; then returns
 */
#pragma once
#include "sim/internal.h"

#if defined(__clang__)
#define SIM_LOOP \
	_Pragma("clang loop vectorize(assume_safety)") for (unsigned i = 0; i < SIM_LANES; i++)
#else
#define SIM_LOOP _Pragma("GCC ivdep") for (unsigned i = 0; i < SIM_LANES; i++)
#endif

static inline void *sim_out(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	return mask == SIM_ALL_LANES ? sim_reg(w, op->d) : (void *)w->tmp;
}

static inline enum sim_step sim_close4(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	uint32_t *d = sim_reg(w, op->d);
	const uint32_t *t = (const void *)w->tmp;

	if (mask != SIM_ALL_LANES)
		SIM_EACH (i, mask)
			d[i] = t[i];
	return SIM_STEP_NEXT;
}

static inline enum sim_step sim_close8(struct sim_warp *w, const struct sim_op *op, uint32_t mask)
{
	uint64_t *d = sim_reg(w, op->d);

	if (mask != SIM_ALL_LANES)
		SIM_EACH (i, mask)
			d[i] = w->tmp[i];
	return SIM_STEP_NEXT;
}

#define SIM_CLOSE(T) (sizeof(T) == 8 ? sim_close8(w, op, mask) : sim_close4(w, op, mask))

/* D, T: types of destination and sources; the expression uses x, y, z. */
#define LANES1(D, T, EXPR)                             \
	do {                                           \
		const T *const a_ = sim_src(w, op->a); \
		D *const d_ = sim_out(w, op, mask);    \
		SIM_LOOP                               \
		{                                      \
			const T x = a_[i];             \
			d_[i] = (D)(EXPR);             \
		}                                      \
		return SIM_CLOSE(D);                   \
	} while (0)

#define LANES2(D, T, EXPR)                                                            \
	do {                                                                          \
		const T *const a_ = sim_src(w, op->a), *const b_ = sim_src(w, op->b); \
		D *const d_ = sim_out(w, op, mask);                                   \
		SIM_LOOP                                                              \
		{                                                                     \
			const T x = a_[i], y = b_[i];                                 \
			d_[i] = (D)(EXPR);                                            \
		}                                                                     \
		return SIM_CLOSE(D);                                                  \
	} while (0)

#define LANES3(D, T, C, EXPR)                                                         \
	do {                                                                          \
		const T *const a_ = sim_src(w, op->a), *const b_ = sim_src(w, op->b); \
		const C *const c_ = sim_src(w, op->c);                                \
		D *const d_ = sim_out(w, op, mask);                                   \
		SIM_LOOP                                                              \
		{                                                                     \
			const T x = a_[i], y = b_[i];                                 \
			const C z = c_[i];                                            \
			d_[i] = (D)(EXPR);                                            \
		}                                                                     \
		return SIM_CLOSE(D);                                                  \
	} while (0)

/* Sets the lanes of predicate op->d where the expression holds. */
#define LANES_SET(T, EXPR)                                                            \
	do {                                                                          \
		const T *const a_ = sim_src(w, op->a), *const b_ = sim_src(w, op->b); \
		uint32_t m_ = 0;                                                      \
		for (unsigned i = 0; i < SIM_LANES; i++) {                            \
			const T x = a_[i], y = b_[i];                                 \
			m_ |= (uint32_t)(EXPR) << i;                                  \
		}                                                                     \
		return m_;                                                            \
	} while (0)

/* A predicate source, negated where written !%p. */
static inline uint32_t sim_pred(const struct sim_warp *w, const struct sim_op *op)
{
	return op->p_not ? ~w->pred[op->p] : w->pred[op->p];
}

static inline enum sim_step sim_set_pred(struct sim_warp *w, const struct sim_op *op, uint32_t mask,
                                         uint32_t v)
{
	w->pred[op->d] = (w->pred[op->d] & ~mask) | (v & mask);
	return SIM_STEP_NEXT;
}
