/* The description of a launch, from JSON; every member is checked, and one that is not known is an
 * error, so that a misspelt one is no silent default. */
#include "tools/foreign.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	struct arena *a;
	struct foreign *f;
	const char *error; /* the first */
};

static void wrong(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void wrong(struct reader *r, const char *fmt, ...)
{
	va_list ap;

	if (r->error)
		return;
	va_start(ap, fmt);
	r->error = arena_vprintf(r->a, fmt, ap);
	va_end(ap);
}

static const char *text_of(struct reader *r, const cJSON *x, const char *what)
{
	if (cJSON_IsString(x) && *x->valuestring && strlen(x->valuestring) < 4096)
		return arena_strndup(r->a, x->valuestring, strlen(x->valuestring));
	wrong(r, "%s is a text", what);
	return "";
}

/* A whole number in [least, most]; numbers of JSON are doubles, so at most 2^53. */
static uint64_t number(struct reader *r, const cJSON *x, const char *what, uint64_t least,
                       uint64_t most)
{
	double v = cJSON_IsNumber(x) ? x->valuedouble : -1;

	if (v >= (double)least && v <= (double)most && v == floor(v))
		return (uint64_t)v;
	wrong(r, "%s is a whole number from %llu to %llu", what, (unsigned long long)least,
	      (unsigned long long)most);
	return least;
}

/* A number, or a text in hexadecimal for all 64 bits. */
static uint64_t bits(struct reader *r, const cJSON *x, const char *what)
{
	char *end;
	uint64_t v;

	if (!cJSON_IsString(x))
		return number(r, x, what, 0, UINT64_C(1) << 53);
	v = strtoull(x->valuestring, &end, 16);
	if (*end || end == x->valuestring)
		wrong(r, "%s is a number, or a text such as \"0x80000000\"", what);
	return v;
}

static bool known(struct reader *r, const cJSON *object, const char *where,
                  const char *const *names)
{
	if (!cJSON_IsObject(object)) {
		wrong(r, "%s is an object", where);
		return false;
	}
	for (const cJSON *x = object->child; x; x = x->next) {
		const char *const *n = names;

		while (*n && strcmp(*n, x->string))
			n++;
		if (!*n)
			wrong(r, "%s has no member '%.64s'", where, x->string);
	}
	return !r->error;
}

static const cJSON *get(const cJSON *object, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* ---- buffers ---- */

static void fill(struct reader *r, const cJSON *x, struct foreign_buffer *b)
{
	if (!x || (cJSON_IsString(x) && !strcmp(x->valuestring, "undefined")))
		return;
	if (cJSON_IsString(x) && !strcmp(x->valuestring, "random")) {
		b->fill = FOREIGN_RANDOM;
		return;
	}
	b->fill = FOREIGN_WORD;
	b->word = (uint32_t)bits(r, x, "fill");
}

static void symmetric(struct reader *r, const cJSON *x, struct foreign_buffer *b)
{
	if (!x)
		return;
	if (cJSON_IsString(x) && !strcmp(x->valuestring, "peer"))
		b->symmetric = FOREIGN_PEER;
	else if (cJSON_IsString(x) && !strcmp(x->valuestring, "multicast"))
		b->symmetric = FOREIGN_MULTICAST;
	else
		wrong(r, "symmetric is \"peer\" or \"multicast\"");
}

static void buffer(struct reader *r, const cJSON *x, struct foreign_buffer *b)
{
	static const char *const names[] = {"bytes", "symmetric", "fill", "same", "written", NULL};

	b->name = arena_strndup(r->a, x->string, strlen(x->string));
	if (!known(r, x, arena_printf(r->a, "buffer '%.64s'", b->name), names))
		return;
	b->bytes = number(r, get(x, "bytes"), "bytes", 1, FOREIGN_MAX_BYTES);
	symmetric(r, get(x, "symmetric"), b);
	fill(r, get(x, "fill"), b);
	b->same = cJSON_IsTrue(get(x, "same"));
	b->written = cJSON_IsTrue(get(x, "written"));
}

static void buffers(struct reader *r, const cJSON *list)
{
	uint64_t total = 0;

	if (!cJSON_IsObject(list) || cJSON_GetArraySize(list) > FOREIGN_MAX_BUFFERS) {
		wrong(r, "buffers is an object of at most %d", FOREIGN_MAX_BUFFERS);
		return;
	}
	r->f->buffer = arena_news(r->a, struct foreign_buffer, FOREIGN_MAX_BUFFERS);
	for (const cJSON *x = list->child; x && !r->error; x = x->next) {
		struct foreign_buffer *b = &r->f->buffer[r->f->nbuffer++];

		buffer(r, x, b);
		total += b->bytes * r->f->ranks;
		if (total > FOREIGN_MAX_BYTES)
			wrong(r, "the buffers of all ranks are larger than %llu bytes",
			      (unsigned long long)FOREIGN_MAX_BYTES);
	}
}

static unsigned buffer_by_name(struct reader *r, const cJSON *x)
{
	const char *name = text_of(r, x, "the buffer of an argument");

	for (unsigned k = 0; k < r->f->nbuffer; k++)
		if (!strcmp(r->f->buffer[k].name, name))
			return k;
	wrong(r, "there is no buffer '%.64s'", name);
	return 0;
}

/* ---- arguments ---- */

static void value(struct reader *r, const char *type, const cJSON *x, struct foreign_arg *g)
{
	g->kind = FOREIGN_VALUE;
	if (!strcmp(type, "f32")) {
		float v = cJSON_IsNumber(x) ? (float)x->valuedouble : 0;
		uint32_t u;

		if (!cJSON_IsNumber(x))
			wrong(r, "f32 is a number");
		memcpy(&u, &v, sizeof u);
		g->bits = u;
		g->size = 4;
		return;
	}
	g->size = !strcmp(type, "u64") ? 8 : 4;
	g->bits = bits(r, x, type);
	if (g->size == 4 && g->bits > UINT32_MAX)
		wrong(r, "a u32 is below 2^32");
}

static void argument(struct reader *r, const cJSON *x, struct foreign_arg *g)
{
	static const char *const names[] = {"address", "peers", "multicast", "offset", "rank",
	                                    "u32",     "u64",   "f32",       NULL};
	static const char *const values[] = {"u32", "u64", "f32", NULL};
	const cJSON *of;

	if (cJSON_IsString(x) && !strcmp(x->valuestring, "rank")) {
		*g = (struct foreign_arg){.kind = FOREIGN_RANK, .size = 4};
		return;
	}
	if (cJSON_IsString(x) && !strcmp(x->valuestring, "launch")) {
		*g = (struct foreign_arg){.kind = FOREIGN_LAUNCH, .size = 4};
		return;
	}
	if (!known(r, x, "an argument", names))
		return;
	g->offset =
	        get(x, "offset") ? number(r, get(x, "offset"), "offset", 0, FOREIGN_MAX_BYTES) : 0;
	g->size = 8;
	if ((of = get(x, "address"))) {
		g->buffer = buffer_by_name(r, of);
		g->kind = FOREIGN_ADDRESS;
		if (get(x, "rank")) {
			g->kind = FOREIGN_OF_RANK;
			g->of = (unsigned)number(r, get(x, "rank"), "rank", 0, r->f->ranks - 1);
		}
	} else if ((of = get(x, "peers"))) {
		g->buffer = buffer_by_name(r, of);
		g->kind = FOREIGN_PEERS;
		g->size = 8 * r->f->ranks;
	} else if ((of = get(x, "multicast"))) {
		g->buffer = buffer_by_name(r, of);
		g->kind = FOREIGN_MC;
	} else {
		const char *const *v = values;

		while (*v && !get(x, *v))
			v++;
		if (*v)
			value(r, *v, get(x, *v), g);
		else
			wrong(r, "an argument is \"rank\", \"launch\", or has one of address, "
			         "peers, multicast, u32, u64, f32");
		return;
	}
	if (!r->error && g->kind != FOREIGN_ADDRESS &&
	    r->f->buffer[g->buffer].symmetric == FOREIGN_OWN)
		wrong(r, "buffer '%.64s' is not symmetric: other ranks do not reach it",
		      r->f->buffer[g->buffer].name);
	if (!r->error && g->kind == FOREIGN_MC &&
	    r->f->buffer[g->buffer].symmetric != FOREIGN_MULTICAST)
		wrong(r, "buffer '%.64s' has no multicast address", r->f->buffer[g->buffer].name);
}

/* ---- launches ---- */

static unsigned optional(struct reader *r, const cJSON *launch, const char *name, unsigned other,
                         uint64_t least, uint64_t most)
{
	const cJSON *x = get(launch, name);

	return x ? (unsigned)number(r, x, name, least, most) : other;
}

static void launch(struct reader *r, const cJSON *x, struct foreign_launch *l)
{
	static const char *const names[] = {"entry",  "grid",  "block",     "shared", "stream",
	                                    "repeat", "ranks", "arguments", NULL};
	const cJSON *list;

	if (!known(r, x, "a launch", names))
		return;
	l->entry = text_of(r, get(x, "entry"), "entry");
	l->grid = (unsigned)number(r, get(x, "grid"), "grid", 1, 65535);
	l->block = (unsigned)number(r, get(x, "block"), "block", 1, 1024);
	l->shared = optional(r, x, "shared", 0, 0, 256 << 10);
	l->stream = optional(r, x, "stream", 0, 0, 3);
	l->repeat = optional(r, x, "repeat", 1, 1, 1000);
	l->ranks = (1u << r->f->ranks) - 1;
	if ((list = get(x, "ranks"))) {
		l->ranks = 0;
		cJSON *e;

		cJSON_ArrayForEach(e, list)
		{
			l->ranks |= 1u << number(r, e, "ranks", 0, r->f->ranks - 1);
		}
	}
	list = get(x, "arguments");
	if (list && (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > FOREIGN_MAX_ARGS))
		wrong(r, "arguments is a list of at most %d", FOREIGN_MAX_ARGS);
	l->arg = arena_news(r->a, struct foreign_arg, FOREIGN_MAX_ARGS);
	for (const cJSON *e = list ? list->child : NULL; e && !r->error; e = e->next)
		argument(r, e, &l->arg[l->narg++]);
}

static void launches(struct reader *r, const cJSON *list)
{
	if (!cJSON_IsArray(list) || !cJSON_GetArraySize(list) ||
	    cJSON_GetArraySize(list) > FOREIGN_MAX_LAUNCHES) {
		wrong(r, "launches is a list of 1 to %d", FOREIGN_MAX_LAUNCHES);
		return;
	}
	r->f->launch = arena_news(r->a, struct foreign_launch, FOREIGN_MAX_LAUNCHES);
	for (const cJSON *x = list->child; x && !r->error; x = x->next)
		launch(r, x, &r->f->launch[r->f->nlaunch++]);
}

static void document(struct reader *r, const cJSON *doc, const char *path)
{
	static const char *const names[] = {"ptx", "ranks", "buffers", "launches", NULL};
	const char *slash = strrchr(path, '/');

	if (!known(r, doc, "the description", names))
		return;
	r->f->ptx = text_of(r, get(doc, "ptx"), "ptx");
	if (slash && r->f->ptx[0] != '/')
		r->f->ptx = arena_printf(r->a, "%.*s%s", (int)(slash + 1 - path), path, r->f->ptx);
	r->f->ranks = (unsigned)number(r, get(doc, "ranks"), "ranks", 1, SIM_MAX_RANKS);
	buffers(r, get(doc, "buffers"));
	if (!r->error)
		launches(r, get(doc, "launches"));
}

struct foreign *foreign_read(struct arena *a, const char *text, size_t len, const char *path,
                             const char **error)
{
	struct reader r = {.a = a, .f = arena_new(a, struct foreign)};
	cJSON *doc = cJSON_ParseWithLength(text, len);
	jmp_buf outer;

	if (!doc) {
		const char *at = cJSON_GetErrorPtr();
		unsigned line = 1;

		for (const char *s = text; at && s < at && s < text + len; s++)
			line += *s == '\n';
		*error = arena_printf(a, "it is not JSON, near line %u", line);
		return NULL;
	}
	/* The document is of malloc's: without memory it is given up on the way out. */
	memcpy(&outer, &a->oom, sizeof outer);
	if (setjmp(a->oom)) {
		cJSON_Delete(doc);
		memcpy(&a->oom, &outer, sizeof outer);
		longjmp(a->oom, 1);
	}
	document(&r, doc, path);
	memcpy(&a->oom, &outer, sizeof outer);
	cJSON_Delete(doc);
	*error = r.error;
	return r.error ? NULL : r.f;
}
