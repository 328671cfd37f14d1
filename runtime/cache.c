/* The cache's files: their names, what is in them, reading and writing them, locks. */
#include "runtime/cache.h"
#include "runtime/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/*
 * A file: this, the key, the value.  The hash finds damage; it is not meant to withstand somebody
 * who forges files, against whom there are the owner and mode of folder and files.
 */
struct head {
	char magic[8];
	uint32_t version, kind; /* enum rt_cached */
	uint64_t key, value;    /* bytes */
	uint64_t time;          /* seconds of the epoch */
	uint64_t hash[2];       /* of the file with zeroes here */
};

static const char magic[8] = "plait\r\n\x1a";
enum { VERSION = 1, LOCKS = 64, NAME = 40, POLL_US = 2000 };
static const uint64_t largest = (uint64_t)1 << 30;

/* ---- contents ---- */

static void hash_file(const struct head *h, struct rt_bytes key, struct rt_bytes value,
                      uint64_t out[2])
{
	struct head zero = *h;
	XXH3_state_t s;
	XXH128_hash_t d;

	memset(zero.hash, 0, sizeof zero.hash);
	XXH3_128bits_reset(&s);
	XXH3_128bits_update(&s, &zero, sizeof zero);
	XXH3_128bits_update(&s, key.p, key.n);
	XXH3_128bits_update(&s, value.p, value.n);
	d = XXH3_128bits_digest(&s);
	out[0] = d.low64;
	out[1] = d.high64;
}

enum rt_cached rt_cache_judge(struct rt_bytes file, struct rt_bytes key, uint64_t now,
                              uint64_t failed_s, struct rt_bytes *value)
{
	const unsigned char *p = file.p;
	struct head h;
	uint64_t hash[2];

	*value = (struct rt_bytes){"", 0};
	if (file.n < sizeof h)
		return RT_CACHE_MISS;
	memcpy(&h, p, sizeof h);
	if (memcmp(h.magic, magic, sizeof magic) != 0 || h.version != VERSION ||
	    (h.kind != RT_CACHE_HIT && h.kind != RT_CACHE_FAILED))
		return RT_CACHE_MISS;
	if (h.key != key.n || h.key > file.n - sizeof h || h.value != file.n - sizeof h - h.key)
		return RT_CACHE_MISS;
	if (key.n && memcmp(p + sizeof h, key.p, key.n) != 0)
		return RT_CACHE_MISS;
	*value = (struct rt_bytes){p + sizeof h + key.n, (size_t)h.value};
	hash_file(&h, key, *value, hash);
	if (memcmp(hash, h.hash, sizeof hash) == 0) {
		if (h.kind == RT_CACHE_HIT)
			return RT_CACHE_HIT;
		if (h.time <= now && now - h.time <= failed_s)
			return RT_CACHE_FAILED;
	}
	*value = (struct rt_bytes){"", 0};
	return RT_CACHE_MISS;
}

static void name_of(struct rt_bytes key, char name[NAME])
{
	XXH128_hash_t d = XXH3_128bits(key.p, key.n);

	snprintf(name, NAME, "%016llx%016llx", (unsigned long long)d.high64,
	         (unsigned long long)d.low64);
}

/* ---- the folder ---- */

const char *rt_cache_folder(const char *dir, struct arena *a)
{
	const char *s;

	if (!dir)
		dir = getenv("PLAIT_CACHE_DIR");
	if (dir)
		return *dir ? arena_printf(a, "%s", dir) : NULL;
	s = getenv("XDG_CACHE_HOME");
	if (s && *s == '/') /* relative ones are to be ignored, says its specification */
		return arena_printf(a, "%s/plait", s);
	s = getenv("HOME");
	return s && *s ? arena_printf(a, "%s/.cache/plait", s) : NULL;
}

/* mkdir -p; whether it worked shows when the folder is opened. */
static void make_folders(const char *path, struct arena *a)
{
	char *s = arena_printf(a, "%s", path);

	for (char *c = s + 1; *s && *c; c++)
		if (*c == '/') {
			*c = '\0';
			mkdir(s, 0700);
			*c = '/';
		}
	mkdir(s, 0700);
}

static bool ours(const struct stat *st)
{
	return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

void rt_cache_open(struct rt_cache *c, const char *dir, struct arena *a)
{
	const char *path = rt_cache_folder(dir, a);
	struct stat st;

	*c = (struct rt_cache){.dir = -1,
	                       .path = "",
	                       .why = "",
	                       .wait_ms = 60000,
	                       .failed_s = 3600,
	                       .most = largest};
	if (!path) {
		c->why = "there is no folder for it: neither PLAIT_CACHE_DIR, XDG_CACHE_HOME nor "
		         "HOME is set, or it is switched off";
		return;
	}
	c->path = path;
	make_folders(path, a);
	c->why = arena_printf(a, "another user may write to '%s', so it is not used", path);
	c->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->dir < 0)
		c->why = arena_printf(a, "'%s' cannot be opened: %s", path, strerror(errno));
	else if (fstat(c->dir, &st) != 0 || !ours(&st))
		rt_cache_close(c);
	else
		c->why = "";
}

void rt_cache_close(struct rt_cache *c)
{
	if (c->dir >= 0)
		close(c->dir);
	c->dir = -1;
}

/* ---- reading ---- */

static bool read_all(int fd, unsigned char *p, size_t n)
{
	while (n) {
		ssize_t k = read(fd, p, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		p += k;
		n -= (size_t)k;
	}
	return true;
}

/* A file of ours, and its size; -1: there is none. */
static int open_value(const struct rt_cache *c, const char *name, uint64_t *size)
{
	/* not blocking: what was a file may be a pipe by now */
	int fd = openat(c->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || !ours(&st))) {
		close(fd);
		fd = -1;
	}
	*size = fd < 0 ? 0 : (uint64_t)st.st_size;
	return fd;
}

/* The file's bytes if its head says that they are the key and a value; 0: there is no such file.  So
 * no memory is asked for that an honest file does not need. */
static size_t size_of(const struct rt_cache *c, const char *name, size_t key)
{
	uint64_t size;
	int fd = open_value(c, name, &size);
	struct head h;
	bool good;

	if (fd < 0)
		return 0;
	good = read_all(fd, (unsigned char *)&h, sizeof h) && h.key == key && h.value <= largest &&
	       size == sizeof h + key + h.value;
	close(fd);
	return good ? (size_t)size : 0;
}

/* Reads a file of n bytes, no more and no fewer. */
static bool read_file(const struct rt_cache *c, const char *name, unsigned char *p, size_t n)
{
	uint64_t size;
	int fd = open_value(c, name, &size);
	unsigned char more;
	bool good;

	if (fd < 0)
		return false;
	good = read_all(fd, p, n) && read(fd, &more, 1) == 0;
	close(fd);
	return good;
}

enum rt_cached rt_cache_get(const struct rt_cache *c, struct rt_bytes key, struct arena *a,
                            struct rt_bytes *value)
{
	char name[NAME];
	unsigned char *p;
	size_t n;

	*value = (struct rt_bytes){"", 0};
	if (c->dir < 0)
		return RT_CACHE_MISS;
	name_of(key, name);
	n = size_of(c, name, key.n);
	if (!n)
		return RT_CACHE_MISS;
	/* No file is open: running out of memory leaves no descriptor behind.  Another may put another
	 * value meanwhile: only one of this size is read. */
	p = arena_alloc(a, n);
	if (!read_file(c, name, p, n))
		return RT_CACHE_MISS;
	return rt_cache_judge((struct rt_bytes){p, n}, key, (uint64_t)time(NULL), c->failed_s,
	                      value);
}

/* ---- writing ---- */

/* A new file of a name that nobody has; -1: none. */
static int new_file(int dir, char name[NAME])
{
	int fd = -1;

	for (int i = 0; i < 16 && fd < 0; i++) {
		uint64_t r;

		if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r)
			return -1;
		snprintf(name, NAME, "tmp-%016llx", (unsigned long long)r);
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			return -1;
	}
	return fd;
}

bool rt_cache_put(const struct rt_cache *c, struct rt_bytes key, struct rt_bytes value,
                  bool failure)
{
	struct head h = {.version = VERSION,
	                 .kind = failure ? RT_CACHE_FAILED : RT_CACHE_HIT,
	                 .key = key.n,
	                 .value = value.n,
	                 .time = (uint64_t)time(NULL)};
	char temp[NAME], name[NAME];
	bool good;
	int fd;

	if (c->dir < 0 || value.n > largest)
		return false;
	memcpy(h.magic, magic, sizeof magic);
	hash_file(&h, key, value, h.hash);
	name_of(key, name);
	fd = new_file(c->dir, temp);
	if (fd < 0)
		return false;
	good = rt_write_all(fd, &h, sizeof h) && rt_write_all(fd, key.p, key.n) &&
	       rt_write_all(fd, value.p, value.n) && fsync(fd) == 0;
	good = close(fd) == 0 && good;
	good = good && renameat(c->dir, temp, c->dir, name) == 0;
	if (!good)
		unlinkat(c->dir, temp, 0);
	else
		fsync(c->dir); /* else the name may be lost with the power: a miss, no more */
	return good;
}

void rt_cache_drop(const struct rt_cache *c, struct rt_bytes key)
{
	char name[NAME];

	if (c->dir < 0)
		return;
	name_of(key, name);
	unlinkat(c->dir, name, 0);
}

/* ---- one makes, others wait ---- */

/* Locks are few files that stay, for to remove a lock is a race.  -1: nobody let go in time, or
 * there is no folder: go on without. */
static int lock(const struct rt_cache *c, struct rt_bytes key)
{
	unsigned waited = 0;
	char name[NAME];
	int fd;

	if (c->dir < 0)
		return -1;
	snprintf(name, NAME, "lock-%02u", (unsigned)(XXH3_64bits(key.p, key.n) % LOCKS));
	fd = openat(c->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if ((errno != EWOULDBLOCK && errno != EINTR) || waited >= c->wait_ms * 1000) {
			close(fd);
			return -1;
		}
		usleep(POLL_US);
		waited += POLL_US;
	}
	return fd;
}

static enum status found(enum rt_cached got, bool *hit)
{
	*hit = true;
	return got == RT_CACHE_HIT ? ST_OK : ST_INPUT;
}

/* Makes and keeps the value, or finds that another has meanwhile. */
static enum status make_one(const struct rt_cache *c, struct rt_bytes key, rt_cache_maker make,
                            void *ctx, struct arena *a, struct rt_bytes *value, bool *hit)
{
	enum rt_cached got = rt_cache_get(c, key, a, value);
	enum status s;

	if (got != RT_CACHE_MISS)
		return found(got, hit);
	s = make(ctx, a, value);
	if (s == ST_OK || s == ST_INPUT)
		rt_cache_put(c, key, *value, s == ST_INPUT);
	return s;
}

/* The lock is closed also when the arena is out of memory, which then jumps on. */
static enum status make_locked(const struct rt_cache *c, struct rt_bytes key, rt_cache_maker make,
                               void *ctx, struct arena *a, struct rt_bytes *value, bool *hit,
                               const int fd)
{
	jmp_buf outer;
	enum status s;

	memcpy(&outer, &a->oom, sizeof outer);
	if (setjmp(a->oom)) {
		if (fd >= 0)
			close(fd);
		memcpy(&a->oom, &outer, sizeof outer);
		longjmp(a->oom, 1);
	}
	s = make_one(c, key, make, ctx, a, value, hit);
	if (fd >= 0)
		close(fd);
	memcpy(&a->oom, &outer, sizeof outer);
	return s;
}

enum status rt_cache_make(const struct rt_cache *c, struct rt_bytes key, rt_cache_maker make,
                          void *ctx, struct arena *a, struct rt_bytes *value, bool *hit)
{
	enum rt_cached got = rt_cache_get(c, key, a, value);
	enum status s;

	*hit = false;
	if (got != RT_CACHE_MISS)
		return found(got, hit);
	s = make_locked(c, key, make, ctx, a, value, hit, lock(c, key));
	if (!*hit)
		rt_cache_prune(c);
	return s;
}
