#include "tests/unit/unit.h"
#include "tests/unit/folder.h"
#include "runtime/cache.h"
#include "runtime/net.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct fixture {
	struct arena arena;
	struct rt_cache cache;
	char dir[64];
	int calls;
	enum status answer;
};

static struct rt_bytes text(const char *s)
{
	return (struct rt_bytes){s, strlen(s)};
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	arena_init(&f->arena, 0);
	if (setjmp(f->arena.oom))
		return -1;
	strcpy(f->dir, "/tmp/plait-cache-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	rt_cache_open(&f->cache, f->dir, &f->arena);
	*state = f;
	return f->cache.dir < 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	rt_cache_close(&f->cache);
	remove_folder(f->dir);
	arena_free(&f->arena);
	free(f);
	return 0;
}

/* The one file of a value in the folder, or NULL; how many files there are whose names begin with
 * `prefix`.  Not inlined where a process forks. */
__attribute__((noinline)) static const char *value_file(struct fixture *f)
{
	DIR *d = opendir(f->dir);
	const char *found = NULL;

	for (struct dirent *e; (e = readdir(d));)
		if (strlen(e->d_name) == 32)
			found = arena_printf(&f->arena, "%s/%s", f->dir, e->d_name);
	closedir(d);
	return found;
}

static int files(struct fixture *f, const char *prefix)
{
	DIR *d = opendir(f->dir);
	int n = 0;

	for (struct dirent *e; (e = readdir(d));)
		n += strncmp(e->d_name, prefix, strlen(prefix)) == 0 && e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void expect(struct fixture *f, const char *key, enum rt_cached want, const char *value)
{
	struct rt_bytes v;

	assert_int_equal(rt_cache_get(&f->cache, text(key), &f->arena, &v), want);
	assert_int_equal(v.n, strlen(value));
	assert_memory_equal(v.p, value, v.n);
}

static void what_is_put_is_got_under_its_key_alone(void **state)
{
	struct fixture *f = *state;

	expect(f, "key", RT_CACHE_MISS, "");
	assert_true(rt_cache_put(&f->cache, text("key"), text("value"), false));
	expect(f, "key", RT_CACHE_HIT, "value");
	expect(f, "kez", RT_CACHE_MISS, "");
	assert_true(rt_cache_put(&f->cache, text("key"), text("another"), false));
	expect(f, "key", RT_CACHE_HIT, "another");
	assert_true(rt_cache_put(&f->cache, text(""), text(""), false));
	expect(f, "", RT_CACHE_HIT, "");
	rt_cache_drop(&f->cache, text("key"));
	expect(f, "key", RT_CACHE_MISS, "");
	assert_int_equal(files(f, "tmp-"), 0);
}

static void two_keys_of_one_name_are_told_apart(void **state)
{
	struct fixture *f = *state;
	const char *first, *second;

	/* as a collision of the hash would: the file of one key under the name of another */
	assert_true(rt_cache_put(&f->cache, text("one"), text("1"), false));
	first = value_file(f);
	assert_int_equal(rename(first, arena_printf(&f->arena, "%s/kept", f->dir)), 0);
	assert_true(rt_cache_put(&f->cache, text("two"), text("2"), false));
	second = value_file(f);
	assert_int_equal(rename(arena_printf(&f->arena, "%s/kept", f->dir), second), 0);
	expect(f, "two", RT_CACHE_MISS, "");
}

static void a_failure_is_remembered_with_its_log_until_it_expires(void **state)
{
	struct fixture *f = *state;

	assert_true(rt_cache_put(&f->cache, text("key"), text("line 4: no"), true));
	expect(f, "key", RT_CACHE_FAILED, "line 4: no");
	f->cache.failed_s = 0;
	sleep(1);
	expect(f, "key", RT_CACHE_MISS, "");
	assert_true(rt_cache_put(&f->cache, text("key"), text("good now"), false));
	expect(f, "key", RT_CACHE_HIT, "good now");
}

static size_t slurp(const char *path, unsigned char *p, size_t n)
{
	int fd = open(path, O_RDONLY);
	ssize_t k = read(fd, p, n);

	close(fd);
	assert_true(k > 0);
	return (size_t)k;
}

static void spew(const char *path, const unsigned char *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), n);
	close(fd);
}

static void a_file_cut_at_any_byte_or_longer_is_a_miss(void **state)
{
	struct fixture *f = *state;
	unsigned char whole[256] = {0};
	const char *path;
	size_t n;

	assert_true(rt_cache_put(&f->cache, text("a key"), text("some value"), false));
	path = value_file(f);
	n = slurp(path, whole, sizeof whole);
	for (size_t k = 0; k < n; k++) {
		spew(path, whole, k);
		expect(f, "a key", RT_CACHE_MISS, "");
	}
	spew(path, whole, n + 1);
	expect(f, "a key", RT_CACHE_MISS, "");
	spew(path, whole, n);
	expect(f, "a key", RT_CACHE_HIT, "some value");
}

static void a_file_with_any_bit_flipped_is_a_miss(void **state)
{
	struct fixture *f = *state;
	unsigned char whole[256] = {0};
	const char *path;
	size_t n;

	assert_true(rt_cache_put(&f->cache, text("a key"), text("some value"), false));
	path = value_file(f);
	n = slurp(path, whole, sizeof whole);
	for (size_t bit = 0; bit < n * 8; bit++) {
		whole[bit / 8] ^= (unsigned char)(1 << bit % 8);
		spew(path, whole, n);
		expect(f, "a key", RT_CACHE_MISS, "");
		whole[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
}

/* Values of two sizes take turns at one name until the process, or its parent, is ended. */
static void take_turns(struct fixture *f, const char *name)
{
	const char *const from[] = {arena_printf(&f->arena, "%s/small", f->dir),
	                            arena_printf(&f->arena, "%s/large", f->dir)};
	const char *next = arena_printf(&f->arena, "%s/next", f->dir);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned n = 0;; n++)
		if (link(from[n % 2], next) || rename(next, name))
			_exit(1);
}

static void keep_as(struct fixture *f, const char *as, size_t bytes)
{
	char *v = malloc(bytes);

	memset(v, *as, bytes);
	assert_true(rt_cache_put(&f->cache, text("key"), (struct rt_bytes){v, bytes}, false));
	assert_int_equal(rename(value_file(f), arena_printf(&f->arena, "%s/%s", f->dir, as)), 0);
	free(v);
}

/* The value's bytes, of which the last is looked at; 0: there is none. */
static size_t look(const struct rt_cache *c)
{
	struct arena a;
	struct rt_bytes v;

	arena_init(&a, 0);
	if (setjmp(a.oom))
		fail();
	if (rt_cache_get(c, text("key"), &a, &v) == RT_CACHE_HIT)
		assert_int_equal(((const char *)v.p)[v.n - 1], v.n == 100 ? 's' : 'l');
	arena_free(&a);
	return v.n;
}

/*
 * A look-up in the midst of another's put has one value or the other, or none.  It goes on until
 * both were seen: the writer may not run at all for as long as thousands of look-ups take.
 */
static void values_that_change_size_meanwhile_are_read_whole_or_not_at_all(void **state)
{
	struct fixture *f = *state;
	uint64_t deadline;
	const char *name;
	unsigned small = 0, large = 0;
	pid_t writer;

	assert_true(rt_cache_put(&f->cache, text("key"), text(""), false));
	name = value_file(f);
	keep_as(f, "small", 100);
	keep_as(f, "large", 1 << 20);
	deadline = rt_deadline(60000000000u);
	writer = fork();
	if (!writer)
		take_turns(f, name);
	for (unsigned i = 0; i < 4000 || ((!small || !large) && rt_now_ns() < deadline); i++) {
		size_t n = look(&f->cache);

		small += n == 100;
		large += n == 1 << 20;
		assert_true(n == 0 || n == 100 || n == 1 << 20);
	}
	kill(writer, SIGKILL);
	waitpid(writer, NULL, 0);
	assert_true(small > 0 && large > 0);
}

/* Files as long as the longest value and as short as nothing, sparse ones too: no memory for them. */
static void files_of_other_sizes_than_their_heads_say_cost_no_memory(void **state)
{
	static const long long size[] = {0, 1, 55, 56, 60, 1000, 900LL << 20, 1LL << 30, 1LL << 40};
	struct fixture *f = *state;
	const char *path;

	assert_true(rt_cache_put(&f->cache, text("key"), text("value"), false));
	path = value_file(f);
	for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
		struct arena a;
		struct rt_bytes v;

		assert_int_equal(truncate(path, size[i]), 0);
		arena_init(&a, 4096);
		if (setjmp(a.oom))
			fail_msg("memory for a file of %lld bytes", size[i]);
		assert_int_equal(rt_cache_get(&f->cache, text("key"), &a, &v), RT_CACHE_MISS);
		arena_free(&a);
	}
}

static void links_pipes_and_files_that_others_may_write_are_not_read(void **state)
{
	struct fixture *f = *state;
	const char *path, *away = arena_printf(&f->arena, "%s/away", f->dir);

	assert_true(rt_cache_put(&f->cache, text("key"), text("value"), false));
	path = value_file(f);
	assert_int_equal(chmod(path, 0666), 0);
	expect(f, "key", RT_CACHE_MISS, "");
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(symlink(away, path), 0);
	expect(f, "key", RT_CACHE_MISS, "");
	/* and a link is replaced, not followed */
	assert_true(rt_cache_put(&f->cache, text("key"), text("new"), false));
	expect(f, "key", RT_CACHE_HIT, "new");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect(f, "key", RT_CACHE_MISS, "");
}

static void a_folder_that_others_may_write_to_is_refused(void **state)
{
	struct fixture *f = *state;
	struct rt_cache c;

	assert_int_equal(chmod(f->dir, 0777), 0);
	rt_cache_open(&c, f->dir, &f->arena);
	assert_int_equal(c.dir, -1);
	assert_non_null(strstr(c.why, "another user may write"));
	assert_non_null(strstr(c.why, f->dir));
	assert_int_equal(chmod(f->dir, 0700), 0);
	rt_cache_open(&c, f->dir, &f->arena);
	assert_true(c.dir >= 0);
	rt_cache_close(&c);
}

static enum status make(void *ctx, struct arena *a, struct rt_bytes *value)
{
	struct fixture *f = ctx;

	f->calls++;
	*value = text(arena_printf(a, "made %d", f->calls));
	return f->answer;
}

static void made(struct fixture *f, const char *key, enum status want, const char *value, int calls)
{
	struct rt_bytes v;
	bool hit;
	int before = f->calls;

	assert_int_equal(rt_cache_make(&f->cache, text(key), make, f, &f->arena, &v, &hit), want);
	assert_int_equal(v.n, strlen(value));
	assert_memory_equal(v.p, value, v.n);
	assert_int_equal(f->calls - before, calls);
	assert_int_equal(hit, !calls);
}

static void without_a_folder_everything_is_made_anew(void **state)
{
	struct fixture *f = *state;
	const char *file = arena_printf(&f->arena, "%s/file", f->dir);

	rt_cache_close(&f->cache);
	close(open(file, O_CREAT | O_WRONLY, 0600));
	rt_cache_open(&f->cache, arena_printf(&f->arena, "%s/below", file), &f->arena);
	assert_int_equal(f->cache.dir, -1);
	assert_non_null(strstr(f->cache.why, "cannot be opened"));
	made(f, "key", ST_OK, "made 1", 1);
	made(f, "key", ST_OK, "made 2", 1);
	rt_cache_open(&f->cache, "", &f->arena);
	assert_int_equal(f->cache.dir, -1);
	made(f, "key", ST_OK, "made 3", 1);
}

static void a_disk_that_is_full_costs_the_entry_and_nothing_else(void **state)
{
	struct fixture *f = *state;
	struct rlimit was, small;

	assert_true(rt_cache_put(&f->cache, text("old"), text("value"), false));
	getrlimit(RLIMIT_FSIZE, &was);
	small = (struct rlimit){60, was.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	assert_false(rt_cache_put(&f->cache, text("new"), text("a value of many bytes"), false));
	made(f, "another", ST_OK, "made 1", 1);
	setrlimit(RLIMIT_FSIZE, &was);
	assert_int_equal(files(f, "tmp-"), 0);
	expect(f, "old", RT_CACHE_HIT, "value");
	expect(f, "new", RT_CACHE_MISS, "");
}

static void what_is_made_is_made_once(void **state)
{
	struct fixture *f = *state;

	made(f, "key", ST_OK, "made 1", 1);
	made(f, "key", ST_OK, "made 1", 0);
	f->answer = ST_INPUT;
	made(f, "bad", ST_INPUT, "made 2", 1);
	made(f, "bad", ST_INPUT, "made 2", 0);
	/* a lack of the machine's may pass */
	f->answer = ST_ENV;
	made(f, "later", ST_ENV, "made 3", 1);
	made(f, "later", ST_ENV, "made 4", 1);
}

/* A maker that says in a shared file that it ran. */
static enum status slow(void *ctx, struct arena *a, struct rt_bytes *value)
{
	struct fixture *f = ctx;
	int fd = open(arena_printf(a, "%s/ran", f->dir), O_WRONLY | O_APPEND | O_CREAT, 0600);

	if (write(fd, "x", 1) != 1)
		return ST_ENV;
	close(fd);
	usleep(50000);
	*value = text("slow");
	return ST_OK;
}

static off_t runs(struct fixture *f)
{
	struct stat st;

	return stat(arena_printf(&f->arena, "%s/ran", f->dir), &st) == 0 ? st.st_size : 0;
}

static void of_many_cold_processes_one_makes_and_all_have_it(void **state)
{
	struct fixture *f = *state;
	enum { PROCESSES = 8 };
	pid_t pid[PROCESSES];

	for (int i = 0; i < PROCESSES; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			struct rt_bytes v;
			struct rt_cache c;
			bool hit;

			rt_cache_open(&c, f->dir, &f->arena);
			_exit(rt_cache_make(&c, text("key"), slow, f, &f->arena, &v, &hit) !=
			              ST_OK ||
			      v.n != 4 || memcmp(v.p, "slow", 4) != 0);
		}
	}
	for (int i = 0; i < PROCESSES; i++) {
		int status = -1;

		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(runs(f), 1);
}

static enum status die(void *ctx, struct arena *a, struct rt_bytes *value)
{
	(void)ctx;
	(void)a;
	(void)value;
	_exit(0);
}

static void a_lock_goes_with_its_owner_however_that_ends(void **state)
{
	struct fixture *f = *state;
	pid_t pid = fork();
	struct rt_bytes v;
	bool hit;
	int status;

	if (pid == 0)
		rt_cache_make(&f->cache, text("key"), die, f, &f->arena, &v, &hit);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	made(f, "key", ST_OK, "made 1", 1);
	assert_int_equal(f->calls, 1);
}

/* Holds all locks of the folder. */
static void hold(struct fixture *f, int *fd, int n)
{
	for (int i = 0; i < n; i++) {
		fd[i] = open(arena_printf(&f->arena, "%s/lock-%02d", f->dir, i), O_RDWR | O_CREAT,
		             0600);
		assert_int_equal(flock(fd[i], LOCK_EX), 0);
	}
}

static void a_lock_that_is_never_let_go_is_waited_for_only_so_long(void **state)
{
	struct fixture *f = *state;
	int fd[64];

	hold(f, fd, 64);
	f->cache.wait_ms = 20;
	made(f, "key", ST_OK, "made 1", 1);
	for (int i = 0; i < 64; i++)
		close(fd[i]);
	made(f, "key", ST_OK, "made 1", 0);
}

static enum status exhaust(void *ctx, struct arena *a, struct rt_bytes *value)
{
	(void)ctx;
	(void)value;
	a->fail_at = a->count + 1;
	arena_alloc(a, 1);
	return ST_OK;
}

static void running_out_of_memory_lets_go_of_the_lock(void **state)
{
	struct fixture *f = *state;
	struct arena a;
	struct rt_bytes v;
	bool hit;
	int fd[64];

	arena_init(&a, 0);
	if (!setjmp(a.oom)) {
		rt_cache_make(&f->cache, text("key"), exhaust, f, &a, &v, &hit);
		fail_msg("it did not jump");
	}
	arena_free(&a);
	hold(f, fd, 64); /* would hang */
	for (int i = 0; i < 64; i++)
		close(fd[i]);
}

static void age(struct fixture *f, const char *path, time_t seconds)
{
	struct timespec t[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};

	(void)f;
	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void the_oldest_go_when_there_are_too_many_bytes(void **state)
{
	struct fixture *f = *state;

	assert_true(rt_cache_put(&f->cache, text("old"), text("12345678"), false));
	age(f, value_file(f), 100);
	assert_true(rt_cache_put(&f->cache, text("new"), text("12345678"), false));
	close(open(arena_printf(&f->arena, "%s/README", f->dir), O_CREAT | O_WRONLY, 0600));
	f->cache.most = 128;
	rt_cache_prune(&f->cache);
	expect(f, "old", RT_CACHE_MISS, "");
	expect(f, "new", RT_CACHE_HIT, "12345678");
	assert_int_equal(files(f, "README"), 1);
}

static void what_a_crashed_writer_left_goes_after_an_hour(void **state)
{
	struct fixture *f = *state;
	const char *temp = arena_printf(&f->arena, "%s/tmp-0123", f->dir);

	close(open(temp, O_CREAT | O_WRONLY, 0600));
	rt_cache_prune(&f->cache);
	assert_int_equal(files(f, "tmp-"), 1);
	age(f, temp, 4000);
	rt_cache_prune(&f->cache);
	assert_int_equal(files(f, "tmp-"), 0);
}

static void the_folder_comes_from_the_environment(void **state)
{
	struct fixture *f = *state;
	char *home = arena_printf(&f->arena, "%s", getenv("HOME") ? getenv("HOME") : "/");

	setenv("HOME", "/h", 1);
	unsetenv("XDG_CACHE_HOME");
	unsetenv("PLAIT_CACHE_DIR");
	assert_string_equal(rt_cache_folder(NULL, &f->arena), "/h/.cache/plait");
	setenv("XDG_CACHE_HOME", "relative", 1);
	assert_string_equal(rt_cache_folder(NULL, &f->arena), "/h/.cache/plait");
	setenv("XDG_CACHE_HOME", "/x", 1);
	assert_string_equal(rt_cache_folder(NULL, &f->arena), "/x/plait");
	setenv("PLAIT_CACHE_DIR", "/p", 1);
	assert_string_equal(rt_cache_folder(NULL, &f->arena), "/p");
	assert_string_equal(rt_cache_folder("/d", &f->arena), "/d");
	setenv("PLAIT_CACHE_DIR", "", 1);
	assert_null(rt_cache_folder(NULL, &f->arena));
	unsetenv("PLAIT_CACHE_DIR");
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", home, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(what_is_put_is_got_under_its_key_alone),
	        TEST(two_keys_of_one_name_are_told_apart),
	        TEST(a_failure_is_remembered_with_its_log_until_it_expires),
	        TEST(a_file_cut_at_any_byte_or_longer_is_a_miss),
	        TEST(a_file_with_any_bit_flipped_is_a_miss),
	        TEST(values_that_change_size_meanwhile_are_read_whole_or_not_at_all),
	        TEST(files_of_other_sizes_than_their_heads_say_cost_no_memory),
	        TEST(links_pipes_and_files_that_others_may_write_are_not_read),
	        TEST(a_folder_that_others_may_write_to_is_refused),
	        TEST(without_a_folder_everything_is_made_anew),
	        TEST(a_disk_that_is_full_costs_the_entry_and_nothing_else),
	        TEST(what_is_made_is_made_once),
	        TEST(of_many_cold_processes_one_makes_and_all_have_it),
	        TEST(a_lock_goes_with_its_owner_however_that_ends),
	        TEST(a_lock_that_is_never_let_go_is_waited_for_only_so_long),
	        TEST(running_out_of_memory_lets_go_of_the_lock),
	        TEST(the_oldest_go_when_there_are_too_many_bytes),
	        TEST(what_a_crashed_writer_left_goes_after_an_hour),
	        TEST(the_folder_comes_from_the_environment),
	};

	return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
