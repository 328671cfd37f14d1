/*
 * Build tool: the manual's table of operations, from ops.def and dtypes.def.  Prints it; with a
 * file's name compares that file with it, exit 1 if they differ.  GOLDEN_UPDATE=1 writes the file.
 */
#include "ir/ir.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void put_error(struct strbuf *b, const struct ir_op_info *op)
{
	if (op->ulp == 0 && op->abs == 0)
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
	        "implementation against the correctly rounded f32 result (reductions add the\n"
	        "rounding of their sums).  A `*` marks what a spec calls by this name; the rest "
	        "is\n"
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

/* 0: FILE is as it should be, or now is. */
static int compare(struct arena *a, const char *path, const struct strbuf *want)
{
	char *have = arena_alloc(a, want->n + 2);
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(have, 1, want->n + 1, f) : 0;

	if (f)
		fclose(f);
	if (n == want->n && !memcmp(have, want->s, n))
		return 0;
	if (!getenv("GOLDEN_UPDATE")) {
		fprintf(stderr, "%s is not what the tables say; GOLDEN_UPDATE=1 writes it anew\n",
		        path);
		return 1;
	}
	f = fopen(path, "w");
	return !f || fwrite(want->s, 1, want->n, f) != want->n || fclose(f);
}

static int run(struct arena *a, const char *path)
{
	struct strbuf b;

	strbuf_init(&b, a);
	put_ops(&b);
	put_dtypes(&b);
	if (path)
		return compare(a, path, &b);
	fputs(b.s, stdout);
	return 0;
}

int main(int argc, char **argv)
{
	static struct arena a;
	int result;

	arena_init(&a, 0);
	if (setjmp(a.oom))
		return 1;
	result = run(&a, argc > 1 ? argv[1] : NULL);
	arena_free(&a);
	return result;
}
