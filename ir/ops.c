/* The tables of ops.def and dtypes.def, and look-up by name. */
#include "ir/ir.h"
#include <string.h>

const struct ir_op_info ir_op_info[IR_NOPS] = {
#define IR_OP(ID, text, nsrc, kind, shape, linear, pub, ulp, abs, doc)                      \
	[IR_OP_##ID] = {text, doc, nsrc, IR_KIND_##kind, IR_SHAPE_##shape, IR_LIN_##linear, \
	                pub,  ulp, abs},
#include "ir/ops.def"
};

const struct ir_dtype_info ir_dtype_info[IR_NDTYPES] = {
#define IR_DTYPE(ID, text, bits, precision, emax, doc) \
	[IR_##ID] = {text, doc, bits, precision, emax},
#include "ir/dtypes.def"
#undef IR_DTYPE
};

const char *const ir_place_name[IR_NPLACES] = {
        [IR_REPLICATED] = "replicated",
        [IR_PARTIAL] = "partial",
        [IR_SHARDED] = "sharded",
        [IR_CARRIED] = "carried",
};

/* ir_op_compares() leans on the order of the table. */
_Static_assert(IR_OP_NE - IR_OP_LT == 5, "the six comparisons stand together");

static bool is_name(const char *name, const char *s, size_t n)
{
	return strlen(name) == n && !memcmp(name, s, n);
}

int ir_op_by_name(const char *s, size_t n)
{
	for (int i = 0; i < IR_NOPS; i++)
		if (is_name(ir_op_info[i].text, s, n))
			return i;
	return -1;
}

int ir_dtype_by_name(const char *s, size_t n)
{
	for (int i = 0; i < IR_NDTYPES; i++)
		if (is_name(ir_dtype_info[i].text, s, n))
			return i;
	return -1;
}

int ir_place_by_name(const char *s, size_t n)
{
	for (int i = 0; i < IR_NPLACES; i++)
		if (is_name(ir_place_name[i], s, n))
			return i;
	return -1;
}

/*
 * A thread adds at most 64 elements in sequence, the rest is a tree.  A row too short for that is
 * at worst one sequence.
 */
unsigned ir_reduction_depth(int64_t cols)
{
	unsigned log = 0;

	while (((int64_t)1 << log) < cols)
		log++;
	if (cols <= 1)
		return 0;
	return cols - 1 < (int64_t)(64 + log) ? (unsigned)(cols - 1) : 64 + log;
}
