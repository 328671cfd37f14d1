/* Mutants of p2p-bulk: one instruction each, of those that order copies with other accesses. */
#include "tests/mutants/mutants.h"

static struct ptx_insn *first_of(struct ptx_fn *f, enum ptx_op op)
{
	for (uint32_t i = 0; i < f->ninsn; i++)
		if (f->insn[i].op == op)
			return &f->insn[i];
	return NULL;
}

/* The next instruction of the row behind `from`; NULL: none. */
static struct ptx_insn *next_of(struct ptx_fn *f, struct ptx_insn *from, enum ptx_op op)
{
	for (struct ptx_insn *i = from; i && i < f->insn + f->ninsn; i++)
		if (i->op == op)
			return i;
	return NULL;
}

static bool becomes(struct ptx_insn *i, enum ptx_op op)
{
	if (i)
		i->op = (uint16_t)op;
	return i != NULL;
}

/* The CTA's barrier becomes the warp's. */
static bool only_warp(struct ptx_insn *i)
{
	if (i)
		i->o[0] = ptx_imm(-1);
	return becomes(i, PTX_bar_warp);
}

static bool no_fence_after_acquire(struct ptx_fn *f)
{
	return becomes(first_of(f, PTX_fence_async), PTX_fence_async_shared);
}

static bool no_fence_by_writers(struct ptx_fn *f)
{
	return becomes(first_of(f, PTX_fence_async_shared), PTX_fence_async_global);
}

static bool no_barrier_before_stores(struct ptx_fn *f)
{
	return only_warp(next_of(f, first_of(f, PTX_fence_async_shared), PTX_bar_sync));
}

static bool stage_filled_too_early(struct ptx_fn *f)
{
	return only_warp(next_of(f, first_of(f, PTX_mbar_try_parity), PTX_bar_sync));
}

static bool staging_reused_too_early(struct ptx_fn *f)
{
	struct ptx_insn *i = first_of(f, PTX_bulk_wait_read);

	if (i)
		i->o[0].imm += 1;
	return i != NULL;
}

static bool exit_waits_for_reads_only(struct ptx_fn *f)
{
	return becomes(first_of(f, PTX_bulk_wait), PTX_bulk_wait_read);
}

static bool wrong_parity(struct ptx_fn *f)
{
	struct ptx_insn *wait = first_of(f, PTX_mbar_try_parity);

	for (uint32_t i = 0; wait && i < f->ninsn; i++)
		if (f->insn[i].op == PTX_mov && f->insn[i].o[0].kind == PTX_REG &&
		    f->insn[i].o[0].reg[0] == wait->o[2].reg[0] &&
		    f->insn[i].o[1].kind == PTX_IMM && f->insn[i].o[0].cls == wait->o[2].cls) {
			f->insn[i].o[1].imm = 1;
			return true;
		}
	return false;
}

static bool fewer_bytes_expected(struct ptx_fn *f)
{
	struct ptx_insn *i = first_of(f, PTX_mbar_arrive_tx);

	if (i)
		i->o[2] = ptx_imm(16);
	return i != NULL;
}

static bool copies_of_another_row(struct ptx_fn *f)
{
	struct ptx_insn *i = first_of(f, PTX_bulk_ld);

	if (i)
		i->o[1].imm += 16;
	return i != NULL;
}

const struct mutant bulk_mutants[] = {
        {"no proxy fence behind the entry's acquire", no_fence_after_acquire},
        {"no proxy fence by the writers of results", no_fence_by_writers},
        {"no barrier between writers and bulk stores", no_barrier_before_stores},
        {"a stage filled again before all have read it", stage_filled_too_early},
        {"the staging buffer written before it was read", staging_reused_too_early},
        {"the exit waits for reads only", exit_waits_for_reads_only},
        {"waits for the other parity", wrong_parity},
        {"too few bytes expected", fewer_bytes_expected},
        {"a copy from 16 bytes further", copies_of_another_row},
        {NULL, NULL},
};
