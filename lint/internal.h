/* Inside lint: a function as a graph of instructions (graph.c), who runs them (guards.c), what its
 * registers stem from (flow.c), its loops (loops.c); spin.c and rules.c judge. */
#pragma once
#include "lint/lint.h"

#define LINT_NONE UINT32_MAX
enum { LINT_ROOTS = 64 };

/* What a register's value depends on; bits are only ever added. */
enum lint_fact {
	LINT_THREAD = 1,   /* the number of the thread in its CTA */
	LINT_TIME = 2,     /* a clock */
	LINT_POLLED = 4,   /* a strong or volatile load of global memory */
	LINT_COPIED = 8,   /* nothing but that: moved, unpacked, converted */
	LINT_SHARED = 16,  /* the address of a shared variable */
	LINT_WIDENED = 32, /* a 32-bit product that may overflow, widened since */
};

struct lint_value {
	uint64_t roots; /* pointer parameters: bit lint_fn.root[] */
	uint64_t most;  /* upper bound of a 32-bit value */
	uint8_t facts;
	bool product; /* 32 bits, a product that may pass 2^32; not yet widened */
};

struct lint_root { /* a 64-bit parameter, or a place in one */
	const char *param;
	int64_t off;
};

struct lint_fn {
	const struct ptx_fn *fn;
	struct arena *a;
	struct diags *d;
	uint32_t n;                           /* instructions; node n is the end */
	uint32_t (*succ)[2];                  /* LINT_NONE: none */
	uint32_t *pred, *pred_at;             /* pred[pred_at[i] .. pred_at[i + 1]) */
	uint32_t *after;                      /* immediate postdominator */
	uint32_t *bra_target;                 /* of a branch; LINT_NONE */
	uint32_t *stack, *list, *stamp, turn; /* scratch of searches */
	uint64_t steps;                       /* that searches may still make */
	bool large;                           /* they may make no more: what they say is not all */
	struct lint_guard *guard;             /* guards.c; NULL: not yet */
	uint32_t *def, *def_at;         /* who writes register r: def[def_at[r] .. def_at[r + 1]) */
	struct lint_set *slice, *cycle; /* scratch of spin.c */
	uint32_t first_reg[PTX_NCLASSES], nreg;
	struct lint_value *reg;
	struct lint_root root[LINT_ROOTS];
	unsigned nroot;
	const char *const *constant; /* parameters, whose memory no earlier kernel writes */
	unsigned nconstant;
	uint64_t multicast, written, strong; /* roots, by what is done with them */
	bool across;                         /* it talks to other GPUs */
	bool system_load, system_release;    /* there are strong ones at the scope of all */
	unsigned found, reported[LINT_NRULES];
	uint32_t *seen; /* what was reported */
	unsigned nseen;
	size_t cap_seen;
};

/* ---- graph.c ---- */
void lint_graph(struct lint_fn *f);
/* Marks what is reached from `from` without passing a stop; a stop itself is marked, not passed. */
void lint_reach(const struct lint_fn *f, uint32_t from, bool backward,
                bool (*stop)(const struct lint_fn *f, uint32_t i), bool *mark);
/* Lists what is reached backward from `from` without passing a stop (which is listed itself).  list: room
 * for all.  false: there are no steps left. */
bool lint_before(struct lint_fn *f, uint32_t from,
                 bool (*stop)(const struct lint_fn *f, uint32_t i), uint32_t *list, uint32_t *n);
/* A search makes n steps more; false: it may not.  So the time that lint takes is bounded by the text's length. */
bool lint_steps(struct lint_fn *f, uint64_t n);

/* ---- guards.c ---- */
/* The branches on the thread's number that decide whether i runs: each is 2 * branch + side.  At
 * most `max`; returns how many (all of them, unless the function is `large`). */
unsigned lint_guards(struct lint_fn *f, uint32_t i, uint32_t *guard, unsigned max);

/* ---- flow.c ---- */
void lint_flow(struct lint_fn *f);
const char *lint_shape(const struct ptx_insn *i); /* letters as in insns.def, for opaque ones too */
bool lint_is_dest(const struct ptx_insn *i, unsigned operand);
/* How many registers an operand names, in reg[0..n). */
unsigned lint_regs(const struct ptx_opnd *o);
/* Everything an operand's registers stem from. */
struct lint_value lint_opnd(const struct lint_fn *f, const struct ptx_opnd *o);
uint32_t lint_reg(const struct lint_fn *f, unsigned cls, uint32_t number);

enum lint_kind { LINT_NO_ACCESS, LINT_LOAD, LINT_STORE, LINT_RMW };
struct lint_access { /* to global memory, or to what may be it */
	enum lint_kind kind;
	unsigned opnd; /* of the address */
	bool strong, release, acquire, multimem, nc;
	enum ptx_scope scope; /* of a strong one */
};
/* The global accesses of an instruction (a bulk copy has one); false: none. */
bool lint_access(const struct lint_fn *f, uint32_t i, struct lint_access *x);

/* ---- loops.c ---- */
typedef void lint_loop_fn(struct lint_fn *f, const uint32_t *node, uint32_t n, const bool *in);
/* Calls `each` for every loop, inner ones too: in[i] says whether instruction i is in it. */
void lint_loops(struct lint_fn *f, lint_loop_fn *each);

/* ---- spin.c ---- */
void lint_spins(struct lint_fn *f);

/* ---- rules.c ---- */
/* Reports a finding at instruction i, with another one that it is about (LINT_NONE: none). */
void lint_found(struct lint_fn *f, enum lint_rule rule, uint32_t i, uint32_t other);
