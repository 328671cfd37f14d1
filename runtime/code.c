/* The questions a caller may ask about compiled code, and the copies that answer them. */
#include "runtime/code.h"
#include "support/status.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *plait_version(void)
{
	return PLAIT_VERSION;
}

const char *plait_status_text(enum plait_status s)
{
	return status_text((enum status)s);
}

static const char *copy(struct arena *a, const char *s)
{
	return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

#define CHECK(a, b) _Static_assert((int)PLAIT_##a == (int)b, "the public enumerators agree")
CHECK(IN, IR_IN);
CHECK(OUT, IR_OUT);
CHECK(INOUT, IR_INOUT);
CHECK(SYM_NONE, CG_SYM_NONE);
CHECK(SYM_PEER, CG_SYM_PEER);
CHECK(SYM_MULTICAST, CG_SYM_MULTICAST);
CHECK(ARG_UC, CG_ARG_UC);
CHECK(ARG_MC, CG_ARG_MC);
CHECK(ARG_WS_UC, CG_ARG_WS_UC);
CHECK(ARG_WS_MC, CG_ARG_WS_MC);
CHECK(ARG_ROWS, CG_ARG_ROWS);
CHECK(ARG_RANK, CG_ARG_RANK);
CHECK(ARG_PEERS, CG_ARG_PEERS);
CHECK(ARG_WS_PEERS, CG_ARG_WS_PEERS);
CHECK(ARG_XCHG_UC, CG_ARG_XCHG_UC);
CHECK(ARG_XCHG_MC, CG_ARG_XCHG_MC);
CHECK(ARG_XCHG_PEERS, CG_ARG_XCHG_PEERS);
CHECK(ARG_ROWS_PTR, CG_ARG_ROWS_PTR);
_Static_assert(PLAIT_ARG_ROWS_PTR + 1 == CG_NARGS, "no kind of argument is missing");
#undef CHECK

static void keep_params(struct arena *a, struct rt_kernel *to, const struct cg_kernel *k)
{
	to->param = arena_news(a, struct plait_param_info, k->nparam);
	for (unsigned i = 0; i < k->nparam; i++) {
		const struct cg_param *p = &k->param[i];

		to->param[i] = (struct plait_param_info){
		        .name = copy(a, p->name),
		        .dtype = ir_dtype_info[p->type.dtype].text,
		        .placement = ir_place_name[p->type.place],
		        .mode = (enum plait_mode)p->mode,
		        .ndim = p->type.ndim,
		        .cols = p->type.cols,
		        .ld = p->ld,
		        .align = p->align,
		        .symmetric = (enum plait_symmetric)p->symmetric,
		        .local_index = p->local_index,
		        .constant = p->constant,
		};
	}
	to->arg = arena_news(a, struct plait_arg_info, k->narg);
	for (unsigned i = 0; i < k->narg; i++)
		to->arg[i] = (struct plait_arg_info){
		        .name = copy(a, k->arg[i].name),
		        .kind = (enum plait_arg_kind)k->arg[i].kind,
		        .param = k->arg[i].param,
		        .offset = k->arg[i].offset,
		        .size = k->arg[i].size,
		};
}

void rt_keep_kernel(struct plait_code *c, struct rt_kernel *to, struct cg_kernel *k,
                    struct arena *scratch)
{
	struct arena *a = &c->arena;
	struct strbuf text;

	strbuf_init(&text, scratch);
	ptx_print(k->module, &text);
	to->ptx = arena_strndup(a, text.s, text.n);
	to->ptx_len = text.n;
	strbuf_init(&text, scratch);
	cg_print_plan(k, &text);
	to->plan_text = arena_strndup(a, text.s, text.n);
	to->name = copy(a, k->name);
	to->entry = copy(a, k->module->fn->name);
	/* cg_grid reads the plan later; its text would dangle, and nobody asks for it. */
	to->plan = k->plan;
	to->plan.why = NULL;
	to->info = (struct plait_kernel_info){
	        .protocol = cg_protocol_name(k->plan.protocol),
	        .order = cg_order_name(k->plan.order),
	        .target = k->plan.target->name,
	        .tp = k->plan.tp,
	        .threads = k->plan.threads,
	        .shared_bytes = k->plan.smem,
	        .max_ctas = k->plan.max_ctas,
	        .nparam = k->nparam,
	        .narg = k->narg,
	        .argument_bytes = k->param_bytes,
	        .cols = k->plan.cols,
	        .contract = k->contract,
	        .communicates = k->plan.communicates,
	        .dynamic_bytes = k->plan.dynamic,
	};
	keep_params(a, to, k);
}

void plait_code_free(plait_code *c)
{
	if (!c)
		return;
	arena_free(&c->arena);
	free(c);
}

static const struct rt_kernel *get(const plait_code *c, size_t i)
{
	return c && i < c->nkernel ? &c->kernel[i] : NULL;
}

const char *plait_code_diagnostics(const plait_code *c)
{
	return c && c->diagnostics ? c->diagnostics : "error: out of memory\n";
}

size_t plait_code_count(const plait_code *c)
{
	return c ? c->nkernel : 0;
}

const char *plait_code_name(const plait_code *c, size_t i)
{
	const struct rt_kernel *k = get(c, i);

	return k ? k->name : NULL;
}

const char *plait_code_ptx(const plait_code *c, size_t i, size_t *len)
{
	const struct rt_kernel *k = get(c, i);

	if (len)
		*len = k ? k->ptx_len : 0;
	return k ? k->ptx : NULL;
}

const char *plait_code_entry(const plait_code *c, size_t i)
{
	const struct rt_kernel *k = get(c, i);

	return k ? k->entry : NULL;
}

const char *plait_code_plan(const plait_code *c, size_t i)
{
	const struct rt_kernel *k = get(c, i);

	return k ? k->plan_text : NULL;
}

/* Answers with as much of `from` as the caller's structure holds; its struct_size stays. */
static enum plait_status answer(void *to, const void *from, size_t size)
{
	size_t theirs;

	memcpy(&theirs, to, sizeof theirs);
	if (theirs < sizeof theirs)
		return PLAIT_USAGE;
	if (theirs < size)
		size = theirs;
	memcpy((char *)to + sizeof theirs, (const char *)from + sizeof theirs,
	       size - sizeof theirs);
	return PLAIT_OK;
}

enum plait_status plait_code_info(const plait_code *c, size_t i, struct plait_kernel_info *info)
{
	const struct rt_kernel *k = get(c, i);

	return k && info ? answer(info, &k->info, sizeof k->info) : PLAIT_USAGE;
}

enum plait_status plait_code_param(const plait_code *c, size_t i, size_t p,
                                   struct plait_param_info *info)
{
	const struct rt_kernel *k = get(c, i);

	return k && info && p < k->info.nparam ? answer(info, &k->param[p], sizeof k->param[p])
	                                       : PLAIT_USAGE;
}

enum plait_status plait_code_arg(const plait_code *c, size_t i, size_t a,
                                 struct plait_arg_info *info)
{
	const struct rt_kernel *k = get(c, i);

	return k && info && a < k->info.narg ? answer(info, &k->arg[a], sizeof k->arg[a])
	                                     : PLAIT_USAGE;
}

unsigned plait_code_grid(const plait_code *c, size_t i, uint64_t rows, unsigned wish)
{
	const struct rt_kernel *k = get(c, i);

	return k ? cg_grid(&k->plan, rows, wish) : 0;
}

enum plait_status plait_own_rows(uint64_t rows, unsigned tp, unsigned r, uint64_t *begin,
                                 uint64_t *end)
{
	uint64_t each;

	if (r >= tp || !begin || !end || rows > INT64_MAX)
		return PLAIT_USAGE;
	each = rows / tp + (rows % tp != 0);
	*begin = each * r < rows ? each * r : rows;
	*end = *begin + each < rows ? *begin + each : rows;
	return PLAIT_OK;
}

size_t plait_workspace_size(void)
{
	return sizeof(struct cg_workspace);
}

size_t plait_code_exchange_size(const plait_code *c, size_t i, uint64_t rows)
{
	const struct rt_kernel *k = get(c, i);
	uint64_t each;

	if (!k || !k->plan.xchg_row)
		return 0;
	each = (uint64_t)k->plan.xchg_ranks * k->plan.xchg_row;
	if (rows > (SIZE_MAX / 3 - CG_XCHG_HEAD) / each)
		return 0;
	return (size_t)cg_exchange_bytes(&k->plan, rows);
}

size_t plait_code_exchange_stride_at(const plait_code *c, size_t i)
{
	const struct rt_kernel *k = get(c, i);
	int set = k ? cg_push_set(k->plan.protocol) : -1;

	return set < 0 ? 0
	               : offsetof(struct cg_workspace, push) +
	                         (size_t)set * sizeof(struct cg_push_state) +
	                         offsetof(struct cg_push_state, stride);
}

uint32_t plait_exchange_fill(void)
{
	return cg_exchange_fill();
}
