/* What is behind plait_stage and plait_workspace. */
#pragma once
#include "runtime/comm.h"
#include "runtime/net.h"
#include "runtime/image.h"
#include "runtime/table.h"
#include <pthread.h>

struct rt_held;

struct rt_loaded { /* one variant on one rank of this process */
	struct cu_module *module;
	struct cu_function *function;
	bool shared; /* the module is that of a rank before it on the same GPU */
};

struct plait_stage {
	plait_comm *comm;
	struct rt_image image;
	struct plait_code view;   /* a kernel for each unit: what plait_stage_code shows */
	struct rt_loaded *loaded; /* [nvariant][comm->nlocal] */
	uint32_t **element;       /* [unit][parameter]: bytes of an element */
	bool dependent, rows_in_memory;
	bool alone;   /* each rank is one of one: nothing communicates */
	bool shared;  /* ranks share a GPU */
	unsigned sms; /* of a rank alone, on every rank: those of a GPU by the ranks on it */
	/* Ranks may be launched by threads of their own: */
	pthread_mutex_t lock; /* of comm->error, for the time of writing it */
	pthread_mutex_t turn; /* of what is held, until it is enqueued */
	struct rt_held *held; /* [comm->nlocal], where NCCL carries the rows */
	struct rt_stage_stats {
		bool image_hit; /* the front half came from the cache */
		unsigned cubins, cubin_hits,
		        jit; /* finalized here; from the cache; by the driver */
		uint64_t front_ns, finalize_ns, load_ns;
	} stats;
};

/* Parts of a workspace's buffer begin at multiples of this. */
#define RT_PART_ALIGN 256

static inline size_t rt_align_part(uint64_t n)
{
	return (size_t)((n + RT_PART_ALIGN - 1) & ~(uint64_t)(RT_PART_ALIGN - 1));
}

/* For workspaces of one stage. */
struct rt_exchange {
	size_t at, bytes; /* in the workspace's buffer; 0 bytes: no kernel needs it */
};

struct rt_side { /* of one rank of this process: the way the record reaches the host */
	struct cu_stream *stream;
	struct rt_probe *probe; /* page-locked */
	bool asked;             /* a copy is on its way */
	bool dead;              /* an abort was seen; read by launches, too: atomically */
	struct cg_ws_record record;
	char text[512]; /* of the record */
};

/* Written by copies of the device's: the record's beginning, then `done`. */
struct rt_probe {
	unsigned char head[16 + sizeof(struct cg_ws_record)];
	volatile uint32_t done;
};

struct plait_workspace {
	plait_stage *stage;
	plait_buffer *buffer;
	struct rt_exchange xchg[CG_NPUSH];
	struct rt_exchange rows; /* padded rows, where NCCL carries them */
	struct rt_side side[CG_MAX_RANKS];
};

/* What a selection table of this communicator's ranks is for: the same on all of them. */
void rt_machine_key(const plait_comm *c, struct arena *a, struct rt_table_key *key);

/* The grid of a launch: as cg_grid, but no more CTAs than are sure to run at once. */
unsigned rt_stage_grid(const plait_stage *s, const struct rt_kernel *k, uint64_t rows,
                       unsigned wish);

/* Collective: as plait_stage_create, but of kernels as one rank has them (protocol `local`): of a sum
 * each has its own addend, and all rows are its own. */
enum plait_status rt_stage_create_alone(plait_comm *c, const struct plait_stage_options *o,
                                        plait_stage **out);

/* Finalizes all variants (runtime/finalize.c) and loads them on all GPUs of this process. Not collective; s->comm->error says what failed. */
bool rt_stage_load(plait_stage *s, const struct rt_cache *cache);
void rt_stage_unload(plait_stage *s);

/* Collective: PLAIT_MISMATCH, with ranks and field, unless all ranks have the same stage. */
enum plait_status rt_stage_agree(plait_stage *s);

/* The text of what ranks have to agree on, a line a field, in `a`. */
const char *rt_stage_contract(const plait_stage *s, struct arena *a);

/*
 * The first field that differs between two such texts: "kernel add_norm, hidden: 8192, but 4096"; in
 * `a`.
 */
const char *rt_contract_differs(const char *mine, const char *theirs, struct arena *a);
