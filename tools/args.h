/* The command line of every command: one table of options (args.c), from which help is printed too.
 */
#pragma once
#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "support/arena.h"

enum command {
	CMD_CHECK = 1,
	CMD_COMPILE = 2,
	CMD_VERIFY = 4,
	CMD_FMT = 8,
	CMD_LINT = 16,
	CMD_SIMULATE = 32,
	CMD_DOCTOR = 64,
	CMD_BENCH = 128,
	CMD_TUNE = 256,
	CMD_PLAN = 512,
};

enum form { FORM_AUTO, FORM_OWN, FORM_ALL }; /* of rows; auto: what the protocol needs */

struct args {
	enum command command;
	struct arena *arena;
	const char *spec;   /* a file; "-": standard input; NULL: the command takes none */
	const char *kernel; /* only this one; NULL: all */
	unsigned tp;        /* 0: not given */
	bool remarks, dump_passes, check, in_place, json;
	struct fe_set *set;
	size_t nset, cap_set;
	const struct cg_target *target;
	enum cg_protocol protocol; /* the only one, where protocols is empty */
	enum cg_protocol protocols[CG_NPROTOCOLS];
	unsigned nprotocol;
	enum form form;
	enum { MULTICAST_AUTO, MULTICAST_NO, MULTICAST_YES } multicast; /* auto: codegen/offer.h */
	const char *export; /* a carried parameter, of which the gathering kernel is wanted */
	enum cg_order order;
	enum cg_pdl pdl;
	bool rows_in_memory;
	bool wide; /* of tests: cg_options.wide */
	const char *emit, *out, *stop_after;
	int64_t *tokens;
	size_t ntokens, cap_tokens;
	unsigned ctas, launches, schedules, threads; /* 0: not given */
	uint64_t seed;
	unsigned races;    /* enum sim_races + 1; 0: that of the order */
	bool no_weak;      /* no weak memory in any schedule */
	int sum;           /* enum sim_sum; -1: all in turn */
	const char *chain; /* kernels to run one after the other, with commas */
	const char *ptx;   /* a file with the text to verify; NULL: what is generated */
	const char *markdown, *json_file; /* of bench: files to write, as svg below */
	const char *table;                /* a selection table; NULL: the cache's; "": none */
	unsigned rounds;
	bool plain;          /* memory of the driver's ordinary allocator */
	struct fe_set *also; /* of bench: a run more with each of them set */
	size_t nalso, cap_also;
	const char **constant; /* of lint: parameters that no earlier kernel writes */
	unsigned nconstant;
	size_t cap_constant;
	struct fe_set *peer; /* value NULL: none given */
	size_t npeer, cap_peer;
	/* plan */
	const char *gpu, *machine, *measure, *model, *trace, *svg, *facts;
	bool explain, gantt;
	int64_t sweep[2], *request;
	size_t nrequest, cap_request;
	int64_t split; /* 0: as planned */
	unsigned align;
};

/*
 * Fills *a from argv (argv[0] is the command's name).  Returns -1 to go on, else the program's exit
 * code: help was printed (0), or the use was wrong and stderr says how (2).
 */
int args_parse(struct args *a, int argc, char **argv);

/* Says on stderr what is wrong with the use of a command; returns 2. */
int args_wrong(const struct args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void args_help(enum command c);

/* "verify" */
const char *args_command(enum command c);
