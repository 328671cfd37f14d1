/* Ranks as threads or as forked processes; see ranks.h. */
#include "tests/fake/ranks.h"
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct ranks_meeting {
	pthread_mutex_t lock;
	pthread_cond_t change;
	unsigned processes, here, leaving, gone;
	unsigned long round;
	char *room;
	size_t bytes;
};

struct start {
	struct ranks_thread t;
	void (*f)(struct ranks_thread *t);
};

int ranks_gather(void *ctx, const void *send, void *recv, size_t bytes)
{
	struct ranks_thread *t = ctx;
	struct ranks_meeting *m = t->meeting;
	unsigned long round;
	int r = 1;

	pthread_mutex_lock(&m->lock);
	while (m->leaving) /* of the round before */
		pthread_cond_wait(&m->change, &m->lock);
	round = m->round;
	if (m->here == 0) {
		m->room = calloc(t->processes, bytes ? bytes : 1);
		m->bytes = bytes;
	}
	if (m->bytes != bytes) { /* the ranks have come to different places */
		if (!t->strays)
			abort();
		m->gone++;
		pthread_cond_broadcast(&m->change);
		pthread_mutex_unlock(&m->lock);
		return 1;
	}
	memcpy(m->room + t->process * bytes, send, bytes);
	if (++m->here == m->processes) {
		m->round++;
		m->leaving = m->here;
		pthread_cond_broadcast(&m->change);
	}
	while (m->round == round && !m->gone)
		pthread_cond_wait(&m->change, &m->lock);
	if (m->round != round) {
		r = 0;
		memcpy(recv, m->room, bytes * t->processes);
		m->leaving--;
	}
	if (--m->here == 0) {
		free(m->room);
		m->room = NULL;
		pthread_cond_broadcast(&m->change);
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}

static void *run_thread(void *p)
{
	struct start *s = p;
	struct ranks_meeting *m = s->t.meeting;

	s->f(&s->t);
	pthread_mutex_lock(&m->lock);
	m->gone++;
	pthread_cond_broadcast(&m->change);
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

void ranks_run(unsigned processes, void (*f)(struct ranks_thread *t), void *ctx)
{
	struct ranks_meeting m = {.lock = PTHREAD_MUTEX_INITIALIZER,
	                          .change = PTHREAD_COND_INITIALIZER,
	                          .processes = processes};
	struct start s[RANKS];
	pthread_t id[RANKS];

	for (unsigned i = 0; i < processes; i++) {
		s[i] = (struct start){{i, processes, &m, ctx, false}, f};
		if (pthread_create(&id[i], NULL, run_thread, &s[i]) != 0)
			abort();
	}
	for (unsigned i = 0; i < processes; i++)
		pthread_join(id[i], NULL);
	free(m.room);
}

void ranks_fork(unsigned processes, unsigned seconds, int (*f)(struct ranks_child *c), void *ctx,
                struct ranks_result *out)
{
	size_t bytes = sizeof out->said;
	char(*said)[1000] =
	        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[RANKS];
	time_t end = time(NULL) + seconds;
	unsigned left = processes;

	for (unsigned i = 0; i < processes; i++) {
		struct ranks_child c = {i, processes, said[i], ctx};

		out->exit[i] = -1;
		pid[i] = fork();
		if (pid[i] == 0)
			_exit(f(&c));
	}
	while (left && time(NULL) <= end) {
		for (unsigned i = 0; i < processes; i++) {
			int status;

			if (pid[i] <= 0 || waitpid(pid[i], &status, WNOHANG) != pid[i])
				continue;
			out->exit[i] = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
			pid[i] = 0;
			left--;
		}
		usleep(2000);
	}
	for (unsigned i = 0; i < processes; i++)
		if (pid[i] > 0) {
			kill(pid[i], SIGKILL);
			waitpid(pid[i], NULL, 0);
		}
	memcpy(out->said, said, bytes);
	munmap(said, bytes);
}

int ranks_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = -3; /* ".", ".." and the folder's own */

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}
