/*
 * Machines: what a GPU and its links can do, as data.  The database is machines.def, comm.def and
 * tiles.def; a caller that has measured fills the structures itself.
 *
 * Units throughout the planner: microseconds, bytes, and rows (tokens) of a tensor.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { PL_MAX_CTA_ROWS = 12, PL_MAX_POINTS = 16, PL_MAX_RATES = 16 };

/* Bytes of a collective here: rows x row bytes of what is summed and gathered once (an all-reduce
 * of T rows of H elements of b bytes has T*H*b). */
struct pl_comm {
	unsigned n;                     /* CTA counts, rising; 0: the machine has no such table */
	unsigned ctas[PL_MAX_CTA_ROWS]; /* 0 alone: the library chooses (NCCL) */
	double alpha[PL_MAX_CTA_ROWS];  /* us */
	double gbs[PL_MAX_CTA_ROWS];    /* bytes / (us * 1000) beyond alpha */
	unsigned npoint;                /* if not 0, measured points take the place of a line */
	double bytes[PL_MAX_POINTS];    /* rising */
	double us[PL_MAX_CTA_ROWS][PL_MAX_POINTS];
};

/* GEMMs with [n, k] weights take `rate` times what gemm_eff says of a tile's K. */
struct pl_rate {
	int64_t n, k;
	double rate;
};

struct pl_machine {
	char name[32];
	unsigned tp; /* that the tables of collectives are for */
	unsigned sms, sms_per_gpc;
	double tflops;   /* dense bf16, of the data sheet */
	double hbm_gbs;  /* memory, of the data sheet */
	double link_gbs; /* NVLink, one direction, of the data sheet */
	bool multicast;  /* sums in the switch */
	/* what is reached, and fixed costs */
	double gemm_eff;       /* of the peak, by the best tile */
	double grouped_eff;    /* of that, by grouped GEMMs of experts */
	double attention_eff;  /* of the peak */
	double mem_eff;        /* of the memory's peak */
	double tile_us;        /* epilogue and start of a tile */
	double launch_us;      /* between two kernels of a stream */
	double join_us;        /* of two streams: what a stage costs beyond the longer of both */
	double gamma;          /* what runs beside a collective takes (1 + gamma) times as long */
	bool persistent;       /* GEMMs launch one CTA an SM, which waits when the SM is taken */
	struct pl_comm fused;  /* the fused kernel: reduce, row work, gather; by CTAs */
	struct pl_comm beside; /* the same beside a GEMM that leaves it its SMs; n 0: as fused */
	struct pl_comm push;   /* the same with all rows on every rank, for few rows */
	struct pl_comm plain;  /* an all-reduce alone, as engines run it */
	unsigned nrate;        /* measured GEMMs */
	struct pl_rate rate[PL_MAX_RATES];
};

/* The machine of the database with this name ("h100", case does not matter), for tp ranks, with or
 * without sums in the switch.  false: there is none. */
bool pl_machine_find(const char *name, unsigned tp, bool multicast, struct pl_machine *m);

/* The collective's table beside compute. */
const struct pl_comm *pl_comm_beside(const struct pl_machine *m);

/* Names in the database with commas; and the source of each of a machine's figures. */
const char *pl_machine_names(void);
const char *pl_machine_source(const char *name);

/* Time for `bytes` by `ctas` CTAs: between CTA counts and between points linearly; below the least
 * and above the most count, theirs. */
double pl_comm_us(const struct pl_comm *c, double bytes, unsigned ctas);

/* The CTA count of the table with the least time, and that time. */
unsigned pl_comm_best(const struct pl_comm *c, double bytes, double *us);

/*
 * alpha and gbs of the line alpha + bytes / gbs that has the least largest relative error over n
 * points; returns that error.
 */
double pl_comm_fit(const double *bytes, const double *us, unsigned n, double *alpha, double *gbs);
