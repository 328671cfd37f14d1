/*
 * What overlap.c and overlap_layers.c share: layers of a model on all GPUs, ready to be run by a plan.
 */
#pragma once
#include <cuda_runtime_api.h>
#include <plait_gemms.h>
#include <plait_schedule.h>

enum { MOST_GPUS = 8, LAYERS = 4 };

struct model {
	const char *name, *hidden, *ffn, *heads;
};

struct gpu { /* of a rank */
	int device;
	cudaStream_t stream;
	cudaEvent_t begin, end;
	void *memory[1024]; /* tensors that only this rank reads */
	unsigned nmemory;
};

struct named { /* tensors that other ranks reach, and those that are asked for again */
	char name[16];
	plait_buffer *buffer;
	void *at[MOST_GPUS];
};

struct app {
	const struct model *model;
	unsigned layers, ranks; /* ranks: 0: one for each GPU */
	uint64_t most;          /* rows */
	bool measured;          /* the machine was; else it is the database's */
	char gpu_name[256];
	struct plait_measured calibration;
	/* NULL where no GPU is asked */
	plait_comm *comm;
	plait_gemms *gemms;
	plait_stage *stage;
	plait_schedule *schedule;
	plait_planner *planner;
	struct plait_comm_info info;
	bool shared; /* ranks share GPUs: NCCL's sum cannot be had */
	struct plait_set set[4];
	char layers_text[12];
	struct gpu gpu[MOST_GPUS];
	plait_stream stream[MOST_GPUS];
	struct named named[32];
	unsigned nnamed;
};

/* All that running plans takes; a failure's message is on stderr, or plait_comm_error(). */
enum plait_status open_app(struct app *a);
/* Only the planner, of two H200s: no GPU is asked. */
enum plait_status open_planner(struct app *a);
void close_app(struct app *a);

/* bf16 of about 2^-7, of both signs; the thread's current GPU.  0: done. */
int fill_random(void *at, size_t bytes);

/* The tensor of that name, which is there. */
struct named *named_tensor(struct app *a, const char *name);
