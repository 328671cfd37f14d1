/* Bundles: text, cubins, C header and manifest of all kernels, in one folder. */
#include "tools/bundle.h"
#include "runtime/jit.h"
#include "runtime/plait.h"
#include "support/hash.h"
#include "tools/json.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int write_file(const char *path, const void *bytes, size_t n)
{
	bool std = !path || !strcmp(path, "-");
	FILE *f = std ? stdout : fopen(path, "wb");
	bool good = f && fwrite(bytes, 1, n, f) == n && !fflush(f);

	if (f && !std && fclose(f))
		good = false;
	if (good)
		return 0;
	fprintf(stderr, "plait compile: cannot write '%s': %s\n", std ? "standard output" : path,
	        strerror(errno));
	return 3;
}

static const char *path_of(const struct pipe *p, const char *file)
{
	const char *out = p->args->out;

	return arena_printf(p->a, "%s%s%s", out, out[strlen(out) - 1] == '/' ? "" : "/", file);
}

static const char *file_of(const struct pipe *p, const struct cg_kernel *k, const char *ending)
{
	return arena_printf(p->a, "%s.%s.%s", k->name, cg_protocol_name(k->plan.protocol), ending);
}

/* ---- the header ---- */

/* plait_KERNEL_PROTOCOL, or in capitals. */
static const char *identifier(struct arena *a, const struct cg_kernel *k, bool capitals)
{
	char *s = arena_printf(a, "plait_%s_%s", k->name, cg_protocol_name(k->plan.protocol));

	for (char *c = s; *c; c++)
		if (*c == '-')
			*c = '_';
		else if (capitals && *c >= 'a' && *c <= 'z')
			*c = (char)(*c - 'a' + 'A');
	return s;
}

/* What stands behind a member: the argument in words. */
static const char *meaning(struct arena *a, const struct cg_kernel *k, const struct cg_arg *g)
{
	static const char *const words[CG_NARGS] = {
	        [CG_ARG_UC] = "'%s' on this rank",
	        [CG_ARG_MC] = "multicast address of '%s'",
	        [CG_ARG_PEERS] = "'%s' on every rank, this one included",
	        [CG_ARG_WS_UC] = "this rank's workspace",
	        [CG_ARG_WS_MC] = "multicast address of the workspace",
	        [CG_ARG_WS_PEERS] = "the workspace of every rank",
	        [CG_ARG_XCHG_UC] = "this rank's exchange buffer",
	        [CG_ARG_XCHG_MC] = "multicast address of the exchange buffer",
	        [CG_ARG_XCHG_PEERS] = "the exchange buffer of every rank",
	        [CG_ARG_ROWS] = "T, the number of rows",
	        [CG_ARG_ROWS_PTR] = "address of T, a 32-bit number in device memory",
	        [CG_ARG_RANK] = "this rank",
	};
	bool of_param = g->kind == CG_ARG_UC || g->kind == CG_ARG_MC || g->kind == CG_ARG_PEERS;
	const char *name = of_param ? k->param[g->param].name : "";
	const char *w = words[g->kind], *at = strstr(w, "%s");

	return at ? arena_printf(a, "%.*s%s%s", (int)(at - w), w, name, at + 2) : w;
}

static void struct_of(struct strbuf *out, struct arena *a, const struct cg_kernel *k,
                      const char *id)
{
	strbuf_printf(out, "struct %s_args {\n", id);
	for (unsigned i = 0; i < k->narg; i++) {
		const struct cg_arg *g = &k->arg[i];
		const char *words = meaning(a, k, g);

		if (g->size > 8)
			strbuf_printf(out, "\tuint64_t %s[%u]; /* %s */\n", g->name, g->size / 8,
			              words);
		else
			strbuf_printf(out, "\tuint%u_t %s; /* %s */\n", g->size * 8, g->name,
			              words);
	}
	strbuf_puts(out, "};\n");
	for (unsigned i = 0; i < k->narg; i++)
		strbuf_printf(out,
		              "static_assert(offsetof(struct %s_args, %s) == %u, \"argument "
		              "block\");\n",
		              id, k->arg[i].name, k->arg[i].offset);
	strbuf_printf(out, "static_assert(sizeof(struct %s_args) >= %u, \"argument block\");\n", id,
	              k->param_bytes);
}

/* As cg_grid. */
static void grid_of(struct strbuf *out, const struct cg_plan *p, const char *id)
{
	strbuf_printf(out,
	              "/* CTAs to launch for T = rows, the same on every rank; wish 0: as many as "
	              "useful. */\n"
	              "static inline unsigned %s_grid(uint64_t rows, unsigned wish)\n{\n",
	              id);
	if (p->own_rows)
		strbuf_printf(out, "\tuint64_t most = rows / %u + (rows %% %u != 0);\n", p->tp,
		              p->tp);
	else
		strbuf_puts(out, "\tuint64_t most = rows;\n");
	strbuf_printf(out,
	              "\tuint64_t n = wish ? wish : 64;\n\n"
	              "\tn = n < most ? n : most;\n"
	              "\tn = n < %uu ? n : %uu;\n"
	              "\treturn n ? (unsigned)n : 1;\n}\n\n",
	              p->max_ctas, p->max_ctas);
}

/* As cg_exchange_bytes, which is linear in the rows. */
static void exchange_of(struct strbuf *out, const struct cg_plan *p, const char *id,
                        const char *big)
{
	uint64_t base = cg_exchange_bytes(p, 0), row = cg_exchange_bytes(p, 1) - base;

	if (!row)
		return;
	strbuf_printf(out, "#define %s_EXCHANGE_FILL 0x%08xu /* every 32-bit word, at first */\n",
	              big, cg_exchange_fill());
	strbuf_printf(out,
	              "/* Bytes of the exchange buffer for at most `rows` rows; a third of them is "
	              "the stride. */\n"
	              "static inline uint64_t %s_exchange_bytes(uint64_t rows)\n{\n"
	              "\treturn %" PRIu64 "u + rows * %" PRIu64 "u;\n}\n\n",
	              id, base, row);
}

static void kernel_of(struct strbuf *out, struct arena *a, const struct pipe_kernel *pk)
{
	const struct cg_kernel *k = pk->k;
	const struct cg_plan *p = &k->plan;
	const char *id = identifier(a, k, false), *big = identifier(a, k, true);

	strbuf_printf(out,
	              "/* kernel %s, protocol %s, memory order %s, %u ranks, rows of %lld */\n",
	              k->name, cg_protocol_name(p->protocol), cg_order_name(p->order), p->tp,
	              (long long)p->cols);
	strbuf_printf(out, "#define %s_ENTRY \"%s\"\n", big, k->name);
	strbuf_printf(out, "#define %s_PTX \"%s.%s.ptx\"\n", big, k->name,
	              cg_protocol_name(p->protocol));
	strbuf_printf(out, "#define %s_RANKS %uu\n", big, p->tp);
	strbuf_printf(out, "#define %s_BLOCK %uu\n", big, p->threads);
	strbuf_printf(out, "#define %s_MAX_GRID %uu\n", big, p->max_ctas);
	if (p->dynamic)
		strbuf_printf(out, "#define %s_DYNAMIC_BYTES %uu /* of shared memory */\n", big,
		              p->dynamic);
	strbuf_printf(out, "#define %s_SHARED_BYTES %uu /* static */\n", big, p->smem);
	strbuf_printf(out, "#define %s_ALL_ROWS %d\n", big, pk->rows == IR_ROWS_ALL);
	strbuf_printf(out, "#define %s_CONTRACT UINT64_C(0x%016" PRIx64 ")\n\n", big, k->contract);
	struct_of(out, a, k, id);
	strbuf_putc(out, '\n');
	grid_of(out, p, id);
	exchange_of(out, p, id, big);
}

const char *bundle_header(const struct pipe *p)
{
	struct strbuf b;

	strbuf_init(&b, p->a);
	strbuf_printf(
	        &b,
	        "/* Launching the kernels of this folder; made by plait %s.  C11 and C++11. "
	        "*/\n#pragma once\n"
	        "#include <assert.h>\n#include <stddef.h>\n#include <stdint.h>\n\n"
	        "/* Bytes of the workspace of a stream: symmetric, aligned to 256, zeroed once "
	        "on all ranks. */\n"
	        "#define PLAIT_WORKSPACE_BYTES %zuu\n\n",
	        plait_version(), sizeof(struct cg_workspace));
	for (size_t i = 0; i < p->nkernel; i++)
		kernel_of(&b, p->a, &p->kernel[i]);
	b.s[--b.n] = '\0'; /* the last empty line */
	return b.s;
}

/* ---- the manifest ---- */

static void add_file(cJSON *to, const char *what, const char *file, const void *bytes, size_t n)
{
	cJSON *o = cJSON_AddObjectToObject(to, what);
	char hex[32];

	snprintf(hex, sizeof hex, "%016" PRIx64, hash_bytes(HASH_INIT, bytes, n));
	cJSON_AddStringToObject(o, "file", file);
	cJSON_AddNumberToObject(o, "bytes", (double)n);
	cJSON_AddStringToObject(o, "fnv1a64", hex);
}

/* ---- writing ---- */

struct bundle {
	struct pipe *p;
	const struct rt_nvjitlink *link; /* NULL: not here */
	cJSON *manifest, *kernels;
	int code;
};

/* Writes the cubin of a text where the linker is here. */
static enum status add_cubin(struct bundle *b, cJSON *o, const struct cg_kernel *k,
                             const struct strbuf *text)
{
	struct pipe *p = b->p;
	const char *file = file_of(p, k, "cubin");
	struct rt_cubin cubin;
	enum status s;

	if (!b->link) {
		cJSON_AddNullToObject(o, "cubin");
		return ST_OK;
	}
	s = rt_nvjitlink_link(b->link, text->s, text->n, p->args->target->name, p->a, &p->d,
	                      &cubin);
	if (s != ST_OK)
		return s;
	add_file(o, "cubin", file, cubin.data, cubin.size);
	b->code = write_file(path_of(p, file), cubin.data, cubin.size);
	return ST_OK;
}

static enum status add_kernel(struct bundle *b, const struct pipe_kernel *pk)
{
	cJSON *o = json_kernel(pk->k, pk->rows);
	const char *file = file_of(b->p, pk->k, "ptx");
	struct strbuf text;

	cJSON_AddItemToArray(b->kernels, o);
	strbuf_init(&text, b->p->a);
	ptx_print(pk->k->module, &text);
	add_file(o, "ptx", file, text.s, text.n);
	b->code = write_file(path_of(b->p, file), text.s, text.n);
	return b->code ? ST_OK : add_cubin(b, o, pk->k, &text);
}

/* nvJitLink, or a line on stderr that it is not here. */
static void open_link(struct bundle *b)
{
	struct diags quiet;

	diags_init(&quiet, b->p->a);
	if (rt_nvjitlink_open(b->p->a, &quiet, NULL, &b->link) == ST_OK)
		return;
	b->link = NULL;
	fputs("plait compile: no nvJitLink here, so the bundle has no cubins (\"cubin\": null); "
	      "drivers compile the PTX\n",
	      stderr);
}

int make_folder(const char *path)
{
	if (!mkdir(path, 0777) || errno == EEXIST)
		return 0;
	fprintf(stderr, "plait compile: cannot make the folder '%s': %s\n", path, strerror(errno));
	return 3;
}

enum status bundle_write(struct pipe *p, int *code)
{
	struct bundle b = {.p = p};
	enum status s = ST_OK;
	const char *text;

	*code = make_folder(p->args->out);
	if (*code)
		return ST_OK;
	open_link(&b);
	b.manifest = json_document(p->args);
	cJSON_AddNumberToObject(b.manifest, "workspace_bytes", sizeof(struct cg_workspace));
	b.kernels = cJSON_AddArrayToObject(b.manifest, "kernels");
	for (size_t i = 0; i < p->nkernel && s == ST_OK && !b.code; i++)
		s = add_kernel(&b, &p->kernel[i]);
	if (s == ST_OK && !b.code) {
		text = bundle_header(p);
		add_file(b.manifest, "header", "plait_kernels.h", text, strlen(text));
		b.code = write_file(path_of(p, "plait_kernels.h"), text, strlen(text));
	}
	text = json_text(b.manifest, p->a);
	if (s == ST_OK && !b.code)
		b.code = write_file(path_of(p, "manifest.json"), text, strlen(text));
	*code = b.code;
	return s;
}
