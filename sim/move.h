/* Elements between registers and memory, one lane at a time. */
#pragma once
#include "sim/internal.h"
#include <string.h>

static inline uint64_t sim_extend(uint64_t x, unsigned type)
{
	switch (type) {
	case PTX_T_s8:
		return (uint64_t)(int64_t)(int8_t)x;
	case PTX_T_s16:
		return (uint64_t)(int64_t)(int16_t)x;
	case PTX_T_s32:
		return (uint64_t)(int64_t)(int32_t)x;
	default:
		return x;
	}
}

/* n is 1, 2, 4 or 8: copies of a fixed size are single moves. */
static inline uint64_t sim_get(const void *p, unsigned n)
{
	uint64_t x = 0;

	if (n == 4)
		memcpy(&x, p, 4);
	else if (n == 8)
		memcpy(&x, p, 8);
	else if (n == 2)
		memcpy(&x, p, 2);
	else
		memcpy(&x, p, 1);
	return x;
}

static inline void sim_put(void *p, uint64_t x, unsigned n)
{
	if (n == 4)
		memcpy(p, &x, 4);
	else if (n == 8)
		memcpy(p, &x, 8);
	else if (n == 2)
		memcpy(p, &x, 2);
	else
		memcpy(p, &x, 1);
}

/* Element k of lane i becomes x. */
static inline void sim_set_element(struct sim_warp *w, const struct sim_op *op, unsigned k,
                                   unsigned i, uint64_t x)
{
	if (op->v[k] == SIM_NOREG)
		return;
	if (op->dw == 8)
		((uint64_t *)sim_reg(w, op->v[k]))[i] = x;
	else
		((uint32_t *)sim_reg(w, op->v[k]))[i] = (uint32_t)x;
}

static inline uint64_t sim_element(const struct sim_warp *w, const struct sim_op *op, unsigned k,
                                   unsigned i)
{
	const void *v = sim_src(w, op->v[k]);

	return op->dw == 8 ? ((const uint64_t *)v)[i] : ((const uint32_t *)v)[i];
}

/* All elements of lane i from memory, and to memory. */
static inline void sim_load_lane(struct sim_warp *w, const struct sim_op *op, unsigned i,
                                 const uint8_t *p)
{
	for (unsigned k = 0; k < op->nv; k++)
		sim_set_element(w, op, k, i,
		                sim_extend(sim_get(p + k * op->size, op->size), op->type));
}

static inline void sim_store_lane(const struct sim_warp *w, const struct sim_op *op, unsigned i,
                                  uint8_t *p)
{
	for (unsigned k = 0; k < op->nv; k++)
		sim_put(p + k * op->size, sim_element(w, op, k, i), op->size);
}
