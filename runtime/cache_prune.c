/* Keeps the cache's folder within its bounds.  Best effort: what cannot be removed stays. */
#include "runtime/cache.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_FILES = 16384, NAME = 40, LEFT_BEHIND_S = 3600 };

struct file {
	char name[NAME];
	time_t time;
	uint64_t bytes;
};

static int by_age(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	return (x->time > y->time) - (x->time < y->time);
}

/* Only names of the cache's own making are ever removed. */
static bool is_value(const char *name)
{
	return strlen(name) == 32 && strspn(name, "0123456789abcdef") == 32;
}

static void look_at(const struct rt_cache *c, const char *name, struct file *list, size_t *n,
                    time_t now)
{
	struct stat st;

	if (fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
		return;
	if (strncmp(name, "tmp-", 4) == 0 && st.st_mtime + LEFT_BEHIND_S < now) {
		unlinkat(c->dir, name, 0);
	} else if (is_value(name) && *n < MOST_FILES) {
		struct file *f = &list[(*n)++];

		memcpy(f->name, name, strlen(name) + 1);
		f->time = st.st_mtime;
		f->bytes = (uint64_t)st.st_size;
	}
}

void rt_cache_prune(const struct rt_cache *c)
{
	int fd = c->dir < 0 ? -1 : openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct file *list = malloc(MOST_FILES * sizeof *list);
	uint64_t bytes = 0;
	size_t n = 0;

	if (!d && fd >= 0)
		close(fd);
	for (struct dirent *e; d && list && (e = readdir(d));)
		look_at(c, e->d_name, list, &n, time(NULL));
	for (size_t i = 0; i < n; i++)
		bytes += list[i].bytes;
	if (bytes > c->most)
		qsort(list, n, sizeof *list, by_age);
	for (size_t i = 0; i < n && bytes > c->most; i++)
		if (unlinkat(c->dir, list[i].name, 0) == 0)
			bytes -= list[i].bytes;
	free(list);
	if (d)
		closedir(d);
}
