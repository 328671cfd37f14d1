/*
 * Build tool: prints the manual's table of operations, from ops.def and dtypes.def
 * (tests/golden/manual holds doc/ops.md to it).
 */
#include "ir/ir.h"
#include <stdio.h>

static const char *const kind[] = {
        [IR_KIND_SOURCE] = "source",     [IR_KIND_ELEM] = "elementwise",
        [IR_KIND_ROW] = "row reduction", [IR_KIND_GROUP] = "groups",
        [IR_KIND_COLL] = "collective",   [IR_KIND_MOVE] = "rows",
        [IR_KIND_SINK] = "store",        [IR_KIND_CALL] = "call",
};

static const char *const shape[] = {
        [IR_SHAPE_BCAST] = "common, extent 1 broadcasts",
        [IR_SHAPE_SAME] = "the operand's",
        [IR_SHAPE_ONE] = "[T, 1]",
        [IR_SHAPE_GRP] = "[T, cols / n]",
        [IR_SHAPE_EXPAND] = "[T, cols * n]",
        [IR_SHAPE_ATTR] = "as declared",
        [IR_SHAPE_NONE] = "none",
};

static const char *const linear[] = {
        [IR_LIN_NO] = "no",          [IR_LIN_UNARY] = "yes",
        [IR_LIN_SUM] = "if all are", [IR_LIN_SCALE] = "one, the other replicated",
        [IR_LIN_COLL] = "must be",
};

/* A reduction that adds: its error is that of adding in f32, whatever the operation's own. */
static bool adds(const struct ir_op_info *op)
{
	return (op->kind == IR_KIND_ROW || op->shape == IR_SHAPE_GRP) &&
	       (op->linear == IR_LIN_UNARY || op->nsrc == 2);
}

static void put_error(struct strbuf *b, const struct ir_op_info *op)
{
	if (adds(op))
		strbuf_puts(b, "of the sum");
	else if (op->ulp == 0 && op->abs == 0)
		strbuf_puts(b, "exact");
	else if (op->abs == 0)
		strbuf_printf(b, "%g ulp", op->ulp);
	else
		strbuf_printf(b, "%g ulp + %.2g", op->ulp, op->abs);
}

/* A table cell: "|" would end it. */
static void put_cell(struct strbuf *b, const char *s)
{
	for (; *s; s++) {
		if (*s == '|')
			strbuf_putc(b, '\\');
		strbuf_putc(b, *s);
	}
}

static void put_ops(struct strbuf *b)
{
	strbuf_puts(
	        b,
	        "# Operations\n\n"
	        "Written by `opsdoc` from `ir/ops.def` and `ir/dtypes.def`; do not edit.\n"
	        "\"partial\" says whether an operand may be partial; \"error\" is the bound on an\n"
	        "implementation against the correctly rounded f32 result (\"of the sum\":\n"
	        "that of adding in f32).  A `*` marks what a spec calls by this name; the rest is\n"
	        "written as an operator or made by the compiler.\n\n"
	        "| operation | operands | kind | result's shape | partial | error | meaning |\n"
	        "|---|---|---|---|---|---|---|\n");
	for (int i = 0; i < IR_NOPS; i++) {
		const struct ir_op_info *op = &ir_op_info[i];

		strbuf_printf(b, "| `%s`%s | ", op->text, op->pub ? " *" : "");
		if (op->nsrc < 0)
			strbuf_puts(b, "any");
		else
			strbuf_printf(b, "%d", op->nsrc);
		strbuf_printf(b, " | %s | %s | %s | ", kind[op->kind], shape[op->shape],
		              linear[op->linear]);
		put_error(b, op);
		strbuf_puts(b, " | ");
		put_cell(b, op->doc);
		strbuf_puts(b, " |\n");
	}
}

static void put_dtypes(struct strbuf *b)
{
	strbuf_puts(b, "\n# Element types\n\n"
	               "| dtype | bits | significand bits | largest exponent | meaning |\n"
	               "|---|---|---|---|---|\n");
	for (int i = 0; i < IR_NDTYPES; i++) {
		const struct ir_dtype_info *t = &ir_dtype_info[i];

		strbuf_printf(b, "| `%s` | %u | %u | %d | ", t->text, t->bits, t->precision,
		              t->emax);
		put_cell(b, t->doc);
		strbuf_puts(b, " |\n");
	}
}

int main(void)
{
	static struct arena a;
	struct strbuf b;

	arena_init(&a, 0);
	if (setjmp(a.oom))
		return 1;
	strbuf_init(&b, &a);
	put_ops(&b);
	put_dtypes(&b);
	fputs(b.s, stdout);
	arena_free(&a);
	return 0;
}
