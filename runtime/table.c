/*
 * Selection tables: text in and out.  The text may come from anywhere, so every number has its
 * range, every list its end, and the last line a sum over all before it.
 */
#include "runtime/table.h"
#include "runtime/file.h"
#include "support/hash.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD     "plait selection table 1"
#define MAX_LINE 200
#define MAX_TEXT 120 /* of the key's texts */
#define MAX_ROW  (UINT64_C(1) << 30)
#define MAX_T    (UINT64_C(1) << 32)
#define MAX_NS   (UINT64_C(1) << 40)

struct reader {
	const char *name, *text, *end, *at; /* `at`: the line that comes next */
	unsigned line;
	char buf[MAX_LINE + 1]; /* the line in hand */
	struct arena *a;
	struct diags *d;
};

static bool bad(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool bad(struct reader *r, const char *fmt, ...)
{
	va_list ap;
	const char *what;

	va_start(ap, fmt);
	what = arena_vprintf(r->a, fmt, ap);
	va_end(ap);
	diag_at(r->d, DIAG_ERROR, DIAG_RT_TABLE, (struct span){0, 0}, "%s, line %u: %s", r->name,
	        r->line, what);
	diag_note(r->d, (struct span){0, 0}, "remove the file, or write it anew with plait tune");
	return false;
}

/* The next line into buf. */
static bool next(struct reader *r)
{
	const char *nl;
	size_t n;

	r->line++;
	nl = r->at < r->end ? memchr(r->at, '\n', (size_t)(r->end - r->at)) : NULL;
	if (!nl)
		return bad(r, "the table ends in the middle");
	n = (size_t)(nl - r->at);
	if (n > MAX_LINE)
		return bad(r, "a line of more than %d bytes", MAX_LINE);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)r->at[i] < 0x20 || r->at[i] == 0x7f)
			return bad(r, "a control character");
	memcpy(r->buf, r->at, n);
	r->buf[n] = 0;
	r->at = nl + 1;
	return true;
}

/* "NAME VALUE": the value. */
static bool field(struct reader *r, const char *name, const char **value)
{
	size_t n = strlen(name);

	if (!next(r))
		return false;
	if (strncmp(r->buf, name, n) || r->buf[n] != ' ')
		return bad(r, "'%s' and its value are missing", name);
	if (strlen(r->buf + n + 1) > MAX_TEXT || !r->buf[n + 1])
		return bad(r, "'%s' has an empty or a long value", name);
	*value = arena_strndup(r->a, r->buf + n + 1, MAX_TEXT);
	return true;
}

/* A whole number in [least, most] at *s, followed by a blank or the end; *s goes behind it. */
static bool whole(const char **s, uint64_t least, uint64_t most, uint64_t *v)
{
	char *stop;

	errno = 0;
	if (**s < '0' || **s > '9')
		return false;
	*v = strtoull(*s, &stop, 10);
	if (errno || (*stop && *stop != ' ') || *v < least || *v > most)
		return false;
	*s = stop + (*stop == ' ');
	return true;
}

static bool key(struct reader *r, struct rt_table_key *k)
{
	const char *tp, *multicast;
	uint64_t n;

	if (!next(r))
		return false;
	if (strcmp(r->buf, HEAD))
		return bad(r, "this is not '%s'", HEAD);
	if (!field(r, "gpu", &k->gpu) || !field(r, "driver", &k->driver) ||
	    !field(r, "topology", &k->topology) || !field(r, "tp", &tp))
		return false;
	if (!whole(&tp, 1, CG_MAX_RANKS, &n) || *tp)
		return bad(r, "tp is from 1 to %d", CG_MAX_RANKS);
	k->tp = (unsigned)n;
	if (!field(r, "multicast", &multicast))
		return false;
	k->multicast = !strcmp(multicast, "yes");
	return k->multicast || !strcmp(multicast, "no") || bad(r, "multicast is yes or no");
}

/* "ROW T PROTOCOL CTAS NANOSECONDS": no number depends on the host's locale */
static bool point(struct reader *r, struct cg_point *p)
{
	const char *s = r->buf, *blank;
	uint64_t ctas, ns;
	int protocol;

	if (!whole(&s, 1, MAX_ROW, &p->row))
		return bad(r, "bytes of a row are missing");
	if (!whole(&s, 1, MAX_T, &p->T))
		return bad(r, "a number of rows is missing");
	blank = strchr(s, ' ');
	protocol = blank ? cg_protocol_by_name(arena_strndup(r->a, s, (size_t)(blank - s))) : -1;
	if (protocol <= CG_AUTO)
		return bad(r, "there is no such protocol");
	p->protocol = (enum cg_protocol)protocol;
	s = blank + 1;
	if (!whole(&s, 1, CG_MAX_CTAS, &ctas))
		return bad(r, "CTAs are from 1 to %d", CG_MAX_CTAS);
	p->ctas = (unsigned)ctas;
	if (!whole(&s, 1, MAX_NS, &ns) || *s)
		return bad(r, "the line does not end in nanoseconds");
	p->us = (double)ns / 1e3;
	return true;
}

static bool same_point(const struct rt_table *t, const struct cg_point *p)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->point[i].row == p->row && t->point[i].T == p->T &&
		    t->point[i].protocol == p->protocol)
			return true;
	return false;
}

static bool points(struct reader *r, struct rt_table *t)
{
	size_t cap = 0;

	for (;;) {
		const char *begin = r->at;
		struct cg_point p;

		if (!next(r))
			return false;
		if (!strncmp(r->buf, "end ", 4)) {
			uint64_t h = hash_bytes(HASH_INIT, r->text, (size_t)(begin - r->text));

			if (strcmp(r->buf + 4, arena_printf(r->a, "%016" PRIx64, h)))
				return bad(r, "the sum does not fit the lines before it");
			return r->at == r->end || bad(r, "something follows the end");
		}
		if (t->n == RT_TABLE_POINTS)
			return bad(r, "more than %u points", RT_TABLE_POINTS);
		if (!point(r, &p))
			return false;
		if (same_point(t, &p))
			return bad(r, "this point was there before");
		t->point = arena_grow(r->a, t->point, t->n, &cap, t->n + 1, sizeof *t->point);
		t->point[t->n++] = p;
	}
}

enum status rt_table_parse(struct rt_table *t, const char *name, const char *text, size_t len,
                           struct arena *a, struct diags *d)
{
	struct reader r = {
	        .name = name, .text = text, .end = text + len, .at = text, .a = a, .d = d};
	struct rt_table made = {0};

	*t = (struct rt_table){0};
	if (len > RT_TABLE_BYTES) {
		bad(&r, "more than %u bytes", RT_TABLE_BYTES);
		return ST_INPUT;
	}
	if (!key(&r, &made.key) || !points(&r, &made))
		return ST_INPUT;
	*t = made;
	return ST_OK;
}

/* ---- files ---- */

static enum status lacks(struct diags *d, const char *path, const char *what)
{
	diag_at(d, DIAG_ERROR, DIAG_RT_TABLE, (struct span){0, 0}, "%s: %s: %s", path, what,
	        strerror(errno));
	return ST_ENV;
}

enum status rt_table_load(struct rt_table *t, const char *path, struct arena *a, struct diags *d)
{
	char *text = arena_alloc(a, RT_TABLE_BYTES + 2);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	size_t n = 0;

	*t = (struct rt_table){0};
	if (fd < 0)
		return lacks(d, path, "no selection table");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		errno = EINVAL;
		return lacks(d, path, "not a file");
	}
	while (n <= RT_TABLE_BYTES) {
		ssize_t got = read(fd, text + n, RT_TABLE_BYTES + 1 - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			close(fd);
			return lacks(d, path, "cannot be read");
		}
		if (!got)
			break;
		n += (size_t)got;
	}
	close(fd);
	return rt_table_parse(t, path, text, n, a, d);
}

const char *rt_table_text(const struct rt_table *t, struct arena *a)
{
	struct strbuf b;

	strbuf_init(&b, a);
	strbuf_printf(&b, HEAD "\ngpu %s\ndriver %s\ntopology %s\ntp %u\nmulticast %s\n",
	              t->key.gpu, t->key.driver, t->key.topology, t->key.tp,
	              t->key.multicast ? "yes" : "no");
	for (size_t i = 0; i < t->n; i++)
		strbuf_printf(&b, "%" PRIu64 " %" PRIu64 " %s %u %.0f\n", t->point[i].row,
		              t->point[i].T, cg_protocol_name(t->point[i].protocol),
		              t->point[i].ctas, fmax(1, rint(t->point[i].us * 1e3)));
	strbuf_printf(&b, "end %016" PRIx64 "\n", hash_bytes(HASH_INIT, b.s, b.n));
	return b.s;
}

enum status rt_table_save(const struct rt_table *t, const char *path, struct arena *a,
                          struct diags *d)
{
	char *temp = arena_printf(a, "%s.XXXXXX", path);
	const char *text = rt_table_text(t, a);
	int fd = mkostemp(temp, O_CLOEXEC);
	bool good;

	if (fd < 0)
		return lacks(d, temp, "cannot be made");
	good = !fchmod(fd, 0644) && rt_write_all(fd, text, strlen(text)) && !fsync(fd);
	good = !close(fd) && good;
	if (good && !rename(temp, path))
		return ST_OK;
	lacks(d, path, "cannot be written");
	unlink(temp);
	return ST_ENV;
}

/* ---- keys ---- */

void rt_table_merge(struct rt_table *t, const struct rt_table *by, struct arena *a)
{
	struct cg_point *all = arena_news(a, struct cg_point, t->n + by->n + 1);
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		bool gone = false;

		for (size_t j = 0; j < by->n && !gone; j++)
			gone = by->point[j].row == t->point[i].row;
		if (!gone)
			all[n++] = t->point[i];
	}
	for (size_t j = 0; j < by->n; j++)
		all[n++] = by->point[j];
	t->point = all;
	t->n = n;
}

const char *rt_table_differs(const struct rt_table_key *have, const struct rt_table_key *want,
                             struct arena *a)
{
	if (strcmp(have->gpu, want->gpu))
		return arena_printf(a, "gpu %s, not %s", have->gpu, want->gpu);
	if (strcmp(have->driver, want->driver))
		return arena_printf(a, "driver %s, not %s", have->driver, want->driver);
	if (strcmp(have->topology, want->topology))
		return arena_printf(a, "topology %s, not %s", have->topology, want->topology);
	if (have->tp != want->tp)
		return arena_printf(a, "tp %u, not %u", have->tp, want->tp);
	if (have->multicast != want->multicast)
		return have->multicast ? "multicast yes, not no" : "multicast no, not yes";
	return NULL;
}

const char *rt_table_name(const struct rt_table_key *k, struct arena *a)
{
	const char *s = arena_printf(a, HEAD "\n%s\n%s\n%s\n%u\n%d", k->gpu, k->driver, k->topology,
	                             k->tp, k->multicast);

	return arena_printf(a, "select-%016" PRIx64 ".table", hash_bytes(HASH_INIT, s, strlen(s)));
}

const char *rt_table_path(const char *folder, const struct rt_table_key *k, struct arena *a)
{
	return folder ? arena_printf(a, "%s/%s", folder, rt_table_name(k, a)) : NULL;
}

struct cg_table rt_table_select(const struct rt_table *t, struct arena *a)
{
	return (struct cg_table){
	        .tp = t->key.tp,
	        .multicast = t->key.multicast,
	        .note = arena_printf(a, "plait tune on %s, driver %s, %s", t->key.gpu,
	                             t->key.driver, t->key.topology),
	        .point = t->point,
	        .n = t->n,
	};
}
