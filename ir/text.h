/* Internal to ir/: printing single lines of a function, for print.c and the verifier's annotated
 * program. */
#pragma once
#include "ir/ir.h"

/* Which values of a function may be printed by their name: those whose name no earlier value has.
 */
struct ir_names {
	const struct ir_func *f;
	const struct ir_value **slot;
	size_t mask;
};

/* Builds the table in `a`.  Function names, parameters and NULL operands may be anything: never
 * fails. */
void ir_names_init(struct ir_names *n, const struct ir_func *f, struct arena *a);

/* "%h" or "%12"; "%?" for NULL. */
void ir_print_ref(const struct ir_names *n, const struct ir_value *v, struct strbuf *out);

/* One line without indentation or newline: "%2 = add %0, %1 : f32[T, 64] sharded". */
void ir_print_value(const struct ir_names *n, const struct ir_value *v, struct strbuf *out);

/* The head of a function up to and with "{", and one type. */
void ir_print_head(const struct ir_func *f, struct strbuf *out);
void ir_print_type(struct ir_type t, struct strbuf *out);
