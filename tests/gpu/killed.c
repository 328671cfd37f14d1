/*
 * Two processes, one of which is killed in the middle of collectives: the other gets the error with its record within the limit,
 * and shuts down cleanly.  And two cold processes at once: one compiles, both run.
 *	gpu_killed SPEC
 */
#include "runtime/stage.h"
#include "tests/gpu/gpu.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_MS = 3000, MOST = 64, COLS = 1024 };

struct shared {                      /* of parent and children */
	volatile unsigned rounds[2]; /* collectives that each has finished */
	volatile unsigned compiled[2], from_cache[2], image_hit[2];
	volatile double noticed, gone; /* when rank 0 knew, and had freed all */
	volatile int kind_good;        /* the record names the dead rank */
	char text[200];
};

struct child {
	struct arena arena;
	struct rt_driver drv;
	struct rt_error e;
	plait_comm *comm;
	plait_stage *stage;
	plait_workspace *work;
	plait_buffer *x, *r, *gamma, *y;
	struct shared *shared;
	unsigned rank;
};

static void say(struct child *c, const char *what)
{
	printf("# rank %u: %s: %s%s\n", c->rank, what, c->e.text,
	       c->comm ? plait_comm_error(c->comm) : "");
	fflush(stdout);
	_exit(1);
}

/* Each rank is a process of its own, on a GPU of its own where there are two. */
static void join(struct child *c, const char *path)
{
	struct plait_comm_options o = PLAIT_COMM_OPTIONS_INIT;
	struct plait_stage_options so = PLAIT_STAGE_OPTIONS_INIT;
	int device;

	if (rt_driver_open(&c->drv, NULL, &c->e) != PLAIT_OK)
		say(c, "driver");
	device = gpu_count() > 1 ? (int)c->rank : 0;
	o.bootstrap = PLAIT_BOOT_ENV;
	o.device = &device;
	o.nlocal = 1;
	o.timeout_ns = (uint64_t)LIMIT_MS * 1000000;
	if (plait_comm_create(&o, &c->comm) != PLAIT_OK)
		say(c, "communicator");
	so.compile.text = gpu_read(path, &c->arena, &so.compile.text_len);
	so.max_rows = MOST;
	so.table = "";
	if (plait_stage_create(c->comm, &so, &c->stage) != PLAIT_OK ||
	    plait_workspace_create(c->stage, &c->work) != PLAIT_OK)
		say(c, "stage");
	c->shared->compiled[c->rank] = c->stage->stats.cubins;
	c->shared->from_cache[c->rank] = c->stage->stats.cubin_hits;
	c->shared->image_hit[c->rank] = c->stage->stats.image_hit;
	if (plait_buffer_create(c->comm, MOST * COLS * 2, &c->x) != PLAIT_OK ||
	    plait_buffer_create(c->comm, MOST * COLS * 2, &c->r) != PLAIT_OK ||
	    plait_buffer_create(c->comm, MOST * COLS * 2, &c->y) != PLAIT_OK ||
	    plait_buffer_create(c->comm, COLS * 2, &c->gamma) != PLAIT_OK)
		say(c, "buffers");
}

/* One collective; what became of it. */
static enum plait_status collective(struct child *c, struct cu_stream *s, struct plait_record *rec)
{
	struct plait_operand op[] = {{c->x, 0}, {c->r, 0}, {c->gamma, 0}, {c->y, 0}};
	struct plait_launch l = PLAIT_LAUNCH_INIT;
	enum plait_status st;

	l.workspace = c->work;
	l.stream = s;
	l.operand = op;
	l.noperand = 4;
	l.rows = 1 + c->shared->rounds[c->rank] % MOST;
	st = plait_launch(c->stage, &l);
	if (st != PLAIT_OK)
		return st;
	c->drv.stream_synchronize(s);
	for (int i = 0; i < 100; i++) { /* the record may come with a later call */
		st = plait_workspace_check(c->work, 0, rec);
		if (st != PLAIT_OK || c->shared->rounds[c->rank] % 16)
			break;
		usleep(100);
	}
	return st;
}

static void leave(struct child *c, struct cu_stream *s)
{
	c->drv.stream_destroy(s);
	plait_workspace_free(c->work);
	plait_stage_free(c->stage);
	plait_buffer_free(c->x);
	plait_buffer_free(c->r);
	plait_buffer_free(c->y);
	plait_buffer_free(c->gamma);
	plait_comm_free(c->comm);
	arena_free(&c->arena);
}

/* `rounds` 0: until something happens. */
static int collectives(struct child *c, unsigned rounds)
{
	struct shared *shared = c->shared;
	struct plait_record rec = PLAIT_RECORD_INIT;
	enum plait_status st = PLAIT_OK;
	struct cu_stream *s;

	if (c->drv.ctx_set(c->comm->local[0].ctx) ||
	    c->drv.stream_create(&s, RT_CU_STREAM_NON_BLOCKING, 0))
		say(c, "stream");
	while (st == PLAIT_OK && (!rounds || shared->rounds[c->rank] < rounds)) {
		st = collective(c, s, &rec);
		shared->rounds[c->rank] += st == PLAIT_OK;
	}
	shared->noticed = gpu_seconds();
	shared->kind_good =
	        st == PLAIT_TIMEOUT && rec.peer == 1 - c->rank && !strcmp(rec.what, "time-out");
	snprintf(shared->text, sizeof shared->text, "%s",
	         rec.text ? rec.text : plait_comm_error(c->comm));
	leave(c, s);
	shared->gone = gpu_seconds();
	return st == (rounds ? PLAIT_OK : PLAIT_TIMEOUT) ? 0 : 1;
}

static int child(struct shared *shared, const char *path, unsigned rank, unsigned rounds)
{
	static struct child c;

	c.shared = shared;
	c.rank = rank;
	arena_init(&c.arena, 0);
	if (setjmp(c.arena.oom))
		_exit(1);
	join(&c, path);
	return collectives(&c, rounds);
}

static pid_t start(struct shared *shared, const char *path, unsigned rank, unsigned rounds,
                   int port)
{
	char text[32];
	pid_t pid = fork();

	if (pid)
		return pid;
	snprintf(text, sizeof text, "%u", rank);
	setenv("RANK", text, 1);
	setenv("LOCAL_RANK", text, 1);
	setenv("WORLD_SIZE", "2", 1);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	snprintf(text, sizeof text, "%d", port);
	setenv("MASTER_PORT", text, 1);
	_exit(child(shared, path, rank, rounds));
}

/* The exit code within `seconds`; else it is killed: -1. */
static int wait_for(pid_t pid, double seconds)
{
	double end = gpu_seconds() + seconds;
	int status;

	while (gpu_seconds() < end) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		usleep(2000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return -1;
}

static void one_is_killed(struct shared *shared, const char *path, int port)
{
	pid_t p[2];
	double end = gpu_seconds() + 60, killed;
	int code;

	for (unsigned r = 0; r < 2; r++)
		p[r] = start(shared, path, r, 0, port);
	while (shared->rounds[0] < 300 && gpu_seconds() < end && !kill(p[0], 0))
		usleep(1000);
	if (shared->rounds[0] < 300) {
		kill(p[0], SIGKILL);
		kill(p[1], SIGKILL);
		gpu_verdict(false, "two processes did %u and %u collectives", shared->rounds[0],
		            shared->rounds[1]);
		return;
	}
	kill(p[1], SIGKILL);
	killed = gpu_seconds();
	waitpid(p[1], NULL, 0);
	code = wait_for(p[0], 3.0 * LIMIT_MS / 1e3 + 10);
	gpu_verdict(code == 0 && shared->kind_good &&
	                    shared->noticed - killed < LIMIT_MS / 1e3 + 1.5,
	            "killed after %u collectives: the other knew after %.2f s (limit %.1f s) and "
	            "had freed all "
	            "%.2f s later, exit %d: %s",
	            shared->rounds[0], shared->noticed - killed, LIMIT_MS / 1e3,
	            shared->gone - shared->noticed, code, shared->text);
}

static void two_are_cold(struct shared *shared, const char *path, int port)
{
	pid_t p[2];
	int code[2];

	for (unsigned r = 0; r < 2; r++)
		p[r] = start(shared, path, r, 20, port);
	for (unsigned r = 0; r < 2; r++)
		code[r] = wait_for(p[r], 60);
	gpu_verdict(!code[0] && !code[1] && shared->image_hit[0] + shared->image_hit[1] == 1 &&
	                    shared->compiled[0] + shared->compiled[1] > 0 &&
	                    shared->compiled[0] + shared->compiled[1] ==
	                            shared->from_cache[0] + shared->from_cache[1],
	            "two cold processes: %u and %u cubins made, %u and %u from the cache, %u and "
	            "%u collectives",
	            shared->compiled[0], shared->compiled[1], shared->from_cache[0],
	            shared->from_cache[1], shared->rounds[0], shared->rounds[1]);
}

int main(int argc, char **argv)
{
	char cache[] = "/tmp/plait-gpu-XXXXXX";
	int port = 20000 + getpid() % 20000;
	struct shared *shared = mmap(NULL, 2 * sizeof *shared, PROT_READ | PROT_WRITE,
	                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (argc < 2 || shared == MAP_FAILED || !mkdtemp(cache)) {
		fprintf(stderr, "usage: gpu_killed SPEC\n");
		return 2;
	}
	setenv("PLAIT_CACHE_DIR", cache, 1);
	if (!fork()) { /* the driver must not be opened before the children are made */
		gpu_count();
		_exit(0);
	}
	{
		int status;

		wait(&status);
		if (WEXITSTATUS(status) == GPU_SKIPPED)
			return GPU_SKIPPED;
	}
	two_are_cold(&shared[0], argv[1], port);
	one_is_killed(&shared[1], argv[1], port + 100);
	return gpu_end();
}
