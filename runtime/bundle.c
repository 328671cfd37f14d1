/* Reading and writing kernels.image. */
#include "runtime/bundle.h"
#include "runtime/finalize.h"
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* [head][entry, image]... */
struct head {
	char magic[8];
	uint32_t format, n;
};

struct entry {
	uint32_t transport, zero;
	uint64_t bytes, hash; /* of the entry with zero here, and of the image: finds damage */
};

static const char magic[8] = "plait\r\nB";
enum { FORMAT = 2, MULTICAST = 1, PEER = 2, NCCL = 3, MOST_IMAGES = 16 };

static uint32_t transport_of(const struct rt_variants_options *o)
{
	return o->nccl ? NCCL : o->multicast ? MULTICAST : PEER;
}

/* ---- reading ---- */

static enum status bad(struct rt_image *m, const char *fmt, ...)
        __attribute__((format(printf, 2, 3)));

static enum status bad(struct rt_image *m, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	m->code.diagnostics = arena_printf(&m->code.arena, "error: the bundle %s\n",
	                                   arena_vprintf(&m->code.arena, fmt, ap));
	va_end(ap);
	m->nunit = m->nkernel = m->nvariant = 0;
	return ST_INPUT;
}

static uint64_t hash_of(const struct entry *e, struct rt_bytes image)
{
	struct entry zero = *e;

	zero.hash = 0;
	return XXH3_64bits_withSeed(image.p, image.n, XXH3_64bits(&zero, sizeof zero));
}

/* The bytes of the image for this transport, and its entry; 0 bytes: there is none, and *why. */
static struct rt_bytes find(struct rt_bytes b, uint32_t transport, struct entry *found,
                            const char **why)
{
	const struct rt_bytes none = {NULL, 0};
	const unsigned char *p = b.p;
	size_t left = b.n;
	struct head h;

	*why = "is none: give the file kernels.image of the folder";
	if (left < sizeof h)
		return none;
	memcpy(&h, p, sizeof h);
	if (memcmp(h.magic, magic, sizeof magic) != 0)
		return none;
	*why = "is of another version of plait: make it again";
	if (h.format != FORMAT)
		return none;
	*why = "is damaged: it is shorter than its images, or says what cannot be";
	if (h.n > MOST_IMAGES)
		return none;
	p += sizeof h;
	left -= sizeof h;
	for (uint32_t i = 0; i < h.n; i++) {
		if (left < sizeof *found)
			return none;
		memcpy(found, p, sizeof *found);
		p += sizeof *found;
		left -= sizeof *found;
		if (found->bytes > left)
			return none;
		if (found->transport == transport)
			return (struct rt_bytes){p, (size_t)found->bytes};
		p += found->bytes;
		left -= (size_t)found->bytes;
	}
	*why = NULL;
	return none;
}

static enum status suits(struct rt_image *m, const struct rt_variants_options *o)
{
	const struct cg_target *want = cg_target_by_name(o->compile.target);

	if (m->tp != o->compile.tp)
		return bad(m, "is for %u ranks, not %u", m->tp, o->compile.tp);
	if (!rt_image_clip(m, o->max_rows))
		return bad(m, "is for at most %llu rows, not %llu", (unsigned long long)m->max_rows,
		           (unsigned long long)o->max_rows);
	for (uint32_t i = 0; i < m->nvariant; i++) {
		const struct cg_plan *p = &m->variant[i].k->plan;

		if (!want || p->target->sm > want->sm)
			return bad(m, "is for %s, and the GPUs are %s", p->target->name,
			           o->compile.target);
		if (p->rows_in_memory != o->rows_in_memory)
			return bad(m, "was made %s --rows-in-memory",
			           p->rows_in_memory ? "with" : "without");
		if (p->pdl != (want->sm >= 90 ? o->pdl : CG_PDL_NONE))
			return bad(m, "was made with --pdl %s, not %s", cg_pdl_name(p->pdl),
			           cg_pdl_name(o->pdl));
	}
	return ST_OK;
}

enum status rt_bundle_read(struct rt_image *m, struct rt_bytes b,
                           const struct rt_variants_options *o)
{
	static const char *const names[] = {
	        [MULTICAST] = "multicast", [PEER] = "peers", [NCCL] = "NCCL"};
	uint32_t transport = transport_of(o);
	const char *why;
	struct entry e;
	struct rt_bytes image = find(b, transport, &e, &why);

	if (!image.n && why)
		return bad(m, "%s", why);
	if (!image.n)
		return bad(m, "has no kernels for %s", names[transport]);
	if (e.hash != hash_of(&e, image))
		return bad(m, "is damaged: its bytes are not those that were written");
	if (!rt_image_read(m, image) || m->nccl != o->nccl)
		return bad(m, "is of another version of plait than %s", plait_version());
	return suits(m, o);
}

/* ---- writing ---- */

struct writing {
	const struct rt_variants_options *o;
	struct arena *a;
	struct strbuf out;
	struct rt_image image;
	struct rt_cubin_job *job;
	const char *diagnostics;
};

/* Cubins where they can be made; the driver makes the rest. */
static void finalize(struct writing *w)
{
	struct rt_cache none = {.dir = -1, .path = "", .why = ""};
	struct rt_finalize f = {.cache = &none, .target = w->o->compile.target};
	struct rt_image *m = &w->image;

	w->job = arena_news(w->a, struct rt_cubin_job, m->nvariant);
	for (uint32_t i = 0; i < m->nvariant; i++) {
		w->job[i].ptx = m->variant[i].k->ptx;
		w->job[i].ptx_len = m->variant[i].k->ptx_len;
	}
	rt_finalize_all(&f, w->job, m->nvariant);
	for (uint32_t i = 0; i < m->nvariant; i++)
		m->variant[i].cubin = w->job[i].cubin;
}

static enum status add(struct writing *w)
{
	enum status s = rt_variants_make(&w->image, w->o, w->a);
	struct entry e = {.transport = transport_of(w->o)};
	struct rt_bytes b;

	w->diagnostics = arena_printf(w->a, "%s", w->image.code.diagnostics);
	if (s != ST_OK)
		return s;
	finalize(w);
	b = rt_image_write(&w->image, w->a);
	e.bytes = b.n;
	e.hash = hash_of(&e, b);
	strbuf_putn(&w->out, (const char *)&e, sizeof e);
	strbuf_putn(&w->out, b.p, b.n);
	return ST_OK;
}

static void forget(struct writing *w)
{
	for (uint32_t i = 0; w->job && i < w->image.nvariant; i++)
		arena_free(&w->job[i].arena);
	w->job = NULL;
	rt_image_free(&w->image);
}

/* Running out of memory passes through, when what the arena does not own is freed. */
static enum status guarded_add(struct writing *w)
{
	jmp_buf outer;
	enum status s;

	memcpy(&outer, &w->a->oom, sizeof outer);
	rt_image_init(&w->image);
	if (setjmp(w->a->oom) || setjmp(w->image.code.arena.oom)) {
		forget(w);
		memcpy(&w->a->oom, &outer, sizeof outer);
		longjmp(w->a->oom, 1);
	}
	s = add(w);
	forget(w);
	memcpy(&w->a->oom, &outer, sizeof outer);
	return s;
}

enum status rt_bundle_write(const struct rt_variants_options *o, struct arena *a,
                            struct rt_bytes *out, const char **diagnostics)
{
	const struct cg_target *t = cg_target_by_name(o->compile.target);
	struct rt_variants_options with = *o;
	struct head h = {.format = FORMAT};
	struct writing w = {.o = &with, .a = a};
	enum status s = ST_OK;

	memcpy(h.magic, magic, sizeof magic);
	*diagnostics = "";
	strbuf_init(&w.out, a);
	strbuf_putn(&w.out, (const char *)&h, sizeof h);
	for (uint32_t transport = MULTICAST; transport <= NCCL && s == ST_OK; transport++) {
		with.multicast = transport == MULTICAST;
		with.nccl = transport == NCCL;
		if (with.multicast && (!t || t->sm < 90))
			continue;
		/* NCCL carries no rows whose T it does not know, nor sums in an order */
		if (with.nccl && o->rows_in_memory)
			continue;
		s = guarded_add(&w);
		if (!with.nccl || s != ST_INPUT)
			*diagnostics = w.diagnostics;
		h.n += s == ST_OK;
		if (with.nccl && s == ST_INPUT)
			s = ST_OK;
	}
	memcpy(w.out.s, &h, sizeof h);
	*out = (struct rt_bytes){w.out.s, w.out.n};
	return s;
}
