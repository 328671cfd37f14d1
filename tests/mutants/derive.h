/* The mutants of a kernel's PTX (derive_ops.c), and what is looked at to find them. */
#pragma once
#include "codegen/codegen.h"
#include "sim/sim.h"

enum derive_op { DERIVE_DROP, DERIVE_ORDER, DERIVE_SCOPE, DERIVE_PLUS, DERIVE_MINUS, DERIVE_NOPS };
extern const char *const derive_name[DERIVE_NOPS];

struct derived {
	enum derive_op op;
	uint32_t at;     /* index of the instruction */
	unsigned opnd;   /* PLUS, MINUS */
	unsigned number; /* from 1 */
};

/* All of f, in order; *n of them.  sync: only those of instructions that order or publish. */
struct derived *derive_all(struct arena *a, const struct ptx_fn *f, bool sync, unsigned *n);

/* f's registers as a reader knows them: lane, T, ws, ..; the rest by class. */
struct derive_names;
struct derive_names *derive_names_new(struct arena *a, const struct ptx_fn *f);

/* The instruction as it was, with those names, and what became of it. */
const char *derive_line(struct arena *a, const struct ptx_fn *f, const struct derive_names *names,
                        uint32_t at);

void derive_apply(struct ptx_fn *f, const struct derived *x);

/*
 * What three ranks leave when one lapses, in words: the same for a kernel that does the same
 * (lapse.c).  Races are looked for at this level.  many: in more schedules, one of which has
 * all warps in step, for what two CTAs have to do at once; a sound kernel leaves the same.
 */
const char *derive_lapses(const struct cg_kernel *k, const struct ptx_module *m,
                          enum sim_races races, bool many, struct arena *a);

/* ---- the table of doc/mutants.md (derive_table.c) ---- */

/* Is it a word of the list, which spaces divide?  "*" has all. */
bool derive_has_word(const char *list, const char *word);

struct derive_table;
struct derive_table *derive_table_new(struct arena *a);

/* Counts a mutant of a kind of kernel; found: by what, or NULL.  Is it equivalent (equivalent.def), and not found? */
bool derive_table_add(struct derive_table *t, const char *kind, enum derive_op op, const char *line,
                      const char *found);
/* A row of equivalent.def that no mutant has needed, by its text; NULL: none. */
const char *derive_table_unused(const struct derive_table *t);
void derive_table_print(const struct derive_table *t, struct strbuf *out);
