/*
 * What the command line names: targets, memory orders, dependent launch, protocols.
 */
#include "codegen/codegen.h"
#include <string.h>

/* clang-format off */
static const struct cg_target targets[] = {
	/*          suffix, .version x 10; registers of an SM, at most of a thread; of a CTA: bytes of shared memory, threads; spare_regs */
	{"sm_80",   80,  0,   70, 65536, 255, 166912, 1024, 4},
	{"sm_86",   86,  0,   71, 65536, 255, 101376, 1024, 4},
	{"sm_89",   89,  0,   78, 65536, 255, 101376, 1024, 4},
	{"sm_90",   90,  0,   78, 65536, 255, 232448, 1024, 4},
	{"sm_90a",  90,  'a', 80, 65536, 255, 232448, 1024, 4},
	{"sm_100",  100, 0,   86, 65536, 255, 232448, 1024, 4},
	{"sm_100a", 100, 'a', 86, 65536, 255, 232448, 1024, 4},
	{"sm_103",  103, 0,   88, 65536, 255, 232448, 1024, 4},
	{"sm_103a", 103, 'a', 88, 65536, 255, 232448, 1024, 4},
	{"sm_120",  120, 0,   87, 65536, 255, 101376, 1024, -8},
	{"sm_120a", 120, 'a', 87, 65536, 255, 101376, 1024, -8},
};
static const char *const orders[] = {
	[CG_FORMAL] = "formal", [CG_HW] = "hw", [CG_STRICT] = "strict",
};
static const char *const pdls[] = {
	[CG_PDL_NONE] = "none", [CG_PDL_WAIT] = "wait", [CG_PDL_EARLY] = "early",
};
const struct cg_protocol_info cg_protocol_info[CG_NPROTOCOLS] = {
	[CG_AUTO] = {"auto", CG_ROWS_OWN, CG_SYM_NONE, 0, "chosen"},
#define CG_PROTOCOL(ID, spelling, rows, memory, sm, doc) \
	[CG_##ID] = {spelling, CG_ROWS_##rows, CG_SYM_##memory, sm, doc},
#include "codegen/protocols.def"
};
/* clang-format on */

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))

static int find(const char *const *names, size_t n, const char *s)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], s) == 0)
			return (int)i;
	return -1;
}

int cg_protocol_by_name(const char *s)
{
	for (int i = 0; i < CG_NPROTOCOLS; i++)
		if (strcmp(cg_protocol_info[i].name, s) == 0)
			return i;
	return -1;
}

const char *cg_protocol_name(enum cg_protocol p)
{
	return p < CG_NPROTOCOLS ? cg_protocol_info[p].name : "?";
}

const char *cg_order_names(struct arena *a)
{
	const char *s = "";

	for (size_t i = 0; i < COUNT(orders); i++)
		s = arena_printf(a, "%s%s%s", s, *s ? ", " : "", orders[i]);
	return s;
}

const char *cg_protocol_names(struct arena *a, unsigned rows)
{
	const char *s = "";

	for (int i = CG_AUTO + 1; i < CG_NPROTOCOLS; i++)
		if (rows >> cg_protocol_info[i].rows & 1)
			s = arena_printf(a, "%s%s%s", s, *s ? ", " : "", cg_protocol_info[i].name);
	return s;
}

enum ir_rows cg_protocol_rows(enum cg_protocol p)
{
	return p < CG_NPROTOCOLS && cg_protocol_info[p].rows == CG_ROWS_ALL ? IR_ROWS_ALL
	                                                                    : IR_ROWS_OWN;
}

int cg_order_by_name(const char *s)
{
	return find(orders, COUNT(orders), s);
}

const char *cg_order_name(enum cg_order o)
{
	return (size_t)o < COUNT(orders) ? orders[o] : "?";
}

int cg_pdl_by_name(const char *s)
{
	return find(pdls, COUNT(pdls), s);
}

const char *cg_pdl_name(enum cg_pdl p)
{
	return (size_t)p < COUNT(pdls) ? pdls[p] : "?";
}

const struct cg_target *cg_target_by_name(const char *s)
{
	for (size_t i = 0; i < COUNT(targets); i++)
		if (strcmp(targets[i].name, s) == 0)
			return &targets[i];
	return NULL;
}

const struct cg_target *cg_target_of(unsigned sm)
{
	const struct cg_target *t = NULL;

	for (size_t i = 0; i < COUNT(targets); i++)
		if (!targets[i].suffix && targets[i].sm <= sm && (!t || targets[i].sm > t->sm))
			t = &targets[i];
	return t;
}

const char *cg_target_names(struct arena *a)
{
	const char *s = targets[0].name;

	for (size_t i = 1; i < COUNT(targets); i++)
		s = arena_printf(a, "%s, %s", s, targets[i].name);
	return s;
}
