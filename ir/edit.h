/* Internal to ir/: what several passes do to a function. */
#pragma once
#include "ir/ir.h"

/* aux = NULL and mark = false for every value. */
void ir_clear_scratch(struct ir_func *f);

void ir_insert_after(struct ir_func *f, struct ir_value *at, struct ir_value *v);

/* A typed value of one operand, not yet in the list.  The operand must suit the operation. */
struct ir_value *ir_unary(struct ir_func *f, enum ir_op op, struct span at, struct ir_value *src);

/* v becomes `op` of one operand, keeps its number, name and span, and is typed again. */
void ir_become(struct ir_func *f, struct ir_value *v, enum ir_op op, struct ir_value *src);

/*
 * v becomes a name for `by`: later passes over the operands go through ir_resolve, which sees `by`.
 * v stays in the list until dce.
 */
void ir_forward(struct ir_value *v, struct ir_value *by);

/* The value that v stands for now, and all of v's operands likewise. */
struct ir_value *ir_resolve(struct ir_value *v);
void ir_resolve_operands(struct ir_value *v);

/* Elementwise work and reductions within a row: what runs on any subset of the rows. */
bool ir_is_row_local(const struct ir_value *v);

/* Is it a tensor of rows that lie so? */
static inline bool ir_has_rows(const struct ir_value *v, enum ir_place p)
{
	return v->type.ndim == 2 && v->type.place == p;
}

/* One row of a tensor, in bytes. */
int64_t ir_row_bytes(struct ir_type t);

/* all_gather of `own` in front of a store, and the store of that; the remark R450 says what it
 * costs. */
void ir_gather_at(struct ir_func *f, struct ir_value *out, struct ir_value *own, struct diags *d);
