/*
 * Protocols for the kernels of a spec together: each kernel's offer is what it can be compiled to,
 * and what it gets.  The program and the library choose by this.
 */
#pragma once
#include "codegen/select.h"
#include "ir/pass.h"

struct cg_offer {
	const struct ir_func *own, *all; /* fused, by row form; NULL: not to be had */
	struct cg_case which;
	struct cg_choice choice; /* cg_offers_choose */
	bool carried;            /* has carried parameters, which are taken for one chain */
};

/* A copy of kernel `name` of m, which is before all passes, through the passes; NULL: d says why not. */
struct ir_func *cg_fuse(const struct ir_module *m, const char *name,
                        const struct ir_pass_options *o, struct arena *a, struct diags *d);

/* Has it a carried parameter? */
bool cg_has_carried(const struct ir_func *f);

/*
 * The offer of a kernel that `made`, fused in form `rows`, is.  Its other form is made from
 * `before`; NULL: only this one was asked for.  `o` is as for cg_case_make.
 */
struct cg_offer cg_offer_make(const struct ir_func *made, enum ir_rows rows,
                              const struct ir_module *before, const struct cg_options *o,
                              bool multicast, struct arena *a);

/*
 * Chooses for T rows; T 0: by default.  Kernels with carried parameters get protocols of one form.
 * A choice of CG_AUTO: nothing can, see cg_offer_refuse.
 */
void cg_offers_choose(struct cg_offer *x, unsigned n, uint64_t T, struct arena *a);

/* Says what a kernel got, why, and what could not be (R830). */
void cg_offer_remark(const struct cg_offer *x, uint64_t T, struct span at, struct arena *a,
                     struct diags *d);

/* Says why the kernel gets nothing; never ST_OK. */
enum status cg_offer_refuse(const struct cg_offer *x, const struct cg_options *o, struct arena *a,
                            struct diags *d);
