/*
 * The barriers of a kernel that communicates, and their liveness (design section 5).  The text is
 * in templates/; here it is put together for a memory order and wired to the workspace.
 *
 * Warp 0 does the work: lane i watches slot[cta][i], lanes beyond the ranks watch the last one
 * again.
 */
#include "codegen/emit.h"
#include <assert.h>

/* What the templates spell as numbers. */
static_assert(offsetof(struct cg_workspace, abort) == 0, "wait.ptxt, abort_record.ptxt");
static_assert(offsetof(struct cg_workspace, limit_ns) == 8, "wait.ptxt");
static_assert(offsetof(struct cg_workspace, record) == 16, "abort_record.ptxt");
static_assert(offsetof(struct cg_ws_record, kernel) == 4 &&
                      offsetof(struct cg_ws_record, rank) == 8 &&
                      offsetof(struct cg_ws_record, cta) == 12 &&
                      offsetof(struct cg_ws_record, phase) == 16 &&
                      offsetof(struct cg_ws_record, peer) == 20 &&
                      offsetof(struct cg_ws_record, expected) == 24 &&
                      offsetof(struct cg_ws_record, seen) == 32,
              "abort_record.ptxt");
static_assert(CG_WS_TIMEOUT == 1 && CG_WS_CONTRACT == 2 && CG_WS_PEER == 3, "wait.ptxt");

struct order {
	/* templates at entry and exit; NULL: nothing */
	const char *arrive[2], *arrive_peers[2], *acquire[2];
};

#define RELEASE       "arrive_release"
#define PEERS_RELEASE "arrive_peers_release"
/* clang-format off */
static const struct order orders[] = {
	[CG_FORMAL] = {{RELEASE, RELEASE}, {PEERS_RELEASE, PEERS_RELEASE}, {"acquire", "acquire"}},
	[CG_HW]     = {{"arrive_relaxed", RELEASE}, {"arrive_peers_relaxed", PEERS_RELEASE}, {"acquire", NULL}},
	[CG_STRICT] = {{RELEASE, RELEASE}, {PEERS_RELEASE, PEERS_RELEASE}, {"acquire_alias", "acquire_alias"}},
};
/* clang-format on */

struct barrier {
	struct ptx_opnd ws, ws_mc; /* b64 */
	struct ptx_opnd epoch;     /* b32: the one expected */
	struct ptx_opnd epoch_at;  /* b64: where the CTA keeps its own */
	struct ptx_opnd tag, word; /* b32 T xor kernel; b64 {epoch, tag} */
	struct ptx_opnd source;    /* b32: the rank whose slot this lane watches */
	/* b64: that slot here; this rank's slot on all ranks, or on the rank that the lane tells */
	struct ptx_opnd watched, own;
	struct ptx_opnd why, seen, stop;
};

static struct ptx_opnd slot_address(struct cg_emit *e, struct ptx_opnd base, struct ptx_opnd source)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd n = ptx_mad(f, PTX_T_u32, e->cta, ptx_imm(CG_MAX_RANKS), source);

	base = ptx_add(f, PTX_T_s64, base, ptx_mul_wide(f, PTX_T_u32, n, ptx_imm(8)));
	return ptx_add(f, PTX_T_s64, base, ptx_imm(offsetof(struct cg_workspace, slot)));
}

/* Everything from the parameters and the epoch in memory: nothing of it lives in registers during
 * the loop. */
static void begin(struct cg_emit *e, struct barrier *b, unsigned phase)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd half[2];
	bool peers = e->ops->ws == CG_ARG_WS_PEERS;

	b->ws = cg_arg_load(e, CG_ARG_WS_UC, 0);
	if (!peers)
		b->ws_mc = cg_arg_load(e, CG_ARG_WS_MC, 0);
	b->epoch_at = ptx_add(f, PTX_T_s64, b->ws, ptx_mul_wide(f, PTX_T_u32, e->cta, ptx_imm(4)));
	b->epoch_at =
	        ptx_add(f, PTX_T_s64, b->epoch_at, ptx_imm(offsetof(struct cg_workspace, epoch)));
	b->epoch = ptx_ld(f, ptx_MODS(.space = PTX_GLOBAL), PTX_T_u32, ptx_at(b->epoch_at, 0));
	b->epoch = ptx_add(f, PTX_T_u32, b->epoch, ptx_imm(phase + 1));
	b->tag = ptx_xor(f, PTX_T_b32, e->T, ptx_imm((int64_t)(uint32_t)e->k->contract));
	half[0] = b->epoch;
	half[1] = b->tag;
	b->word = ptx_mov(f, PTX_T_b64, ptx_vec_of(half, 2));
	b->source = ptx_min(f, PTX_T_u32, e->lane, ptx_imm(e->p->tp - 1));
	b->watched = slot_address(e, b->ws, b->source);
	b->own = slot_address(
	        e, peers ? cg_arg_peer_of(e, CG_ARG_WS_PEERS, 0, b->source) : b->ws_mc, e->rank);
	b->why = ptx_reg(f, PTX_C_B32);
	b->seen = ptx_reg(f, PTX_C_B64);
	b->stop = ptx_reg(f, PTX_C_PRED);
}

/* Without a kernel boundary on the path from a write through one address to the read through the
 * other, as with programmatic dependent launch, the alias fence has to do its work; order hw leans
 * on the hardware. */
void cg_alias_fence(struct cg_emit *e)
{
	bool multicast = cg_protocol_info[e->p->protocol].memory == CG_SYM_MULTICAST;

	if (e->p->pdl && multicast && e->p->order != CG_HW)
		ptx_fence_alias(e->f);
}

static struct ptx_opnd kernel_id(const struct cg_emit *e)
{
	return ptx_imm((int64_t)(uint32_t)e->k->contract);
}

bool cg_record(struct cg_emit *e, const struct cg_failure *x)
{
	struct ptx_opnd won = ptx_reg(e->f, PTX_C_PRED);

	if (!CG_EXPAND(e, "abort_record", {"ws", x->ws}, {"why", x->why}, {"seen", x->seen},
	               {"kernel", kernel_id(e)}, {"rank", e->rank}, {"cta", e->cta},
	               {"phase", ptx_imm(x->phase)}, {"peer", x->peer}, {"expected", x->expected},
	               {"won", won}))
		return false;
	for (unsigned i = 0; i < (e->ops->ws == CG_ARG_WS_PEERS ? e->p->tp : 1); i++) {
		const struct ptx_mod mod =
		        ptx_MODS(.order = PTX_RELAXED, .scope = PTX_SYS, .space = PTX_GLOBAL);
		struct ptx_opnd one = ptx_mov(e->f, PTX_T_u32, ptx_imm(1)), at;

		if (e->ops->ws == CG_ARG_WS_PEERS) {
			at = cg_arg_peer(e, CG_ARG_WS_PEERS, 0, i);
			ptx_guard(e->f, won, false);
			ptx_st(e->f, mod, PTX_T_u32, ptx_at(at, 0), one);
		} else {
			at = cg_arg_load(e, CG_ARG_WS_MC, 0);
			ptx_guard(e->f, won, false);
			ptx_mm_st(e->f, mod, PTX_T_u32, ptx_at(at, 0), one);
		}
		ptx_unguard(e->f);
	}
	return true;
}

/* Without a kernel boundary before it, order hw has to release too what the kernel before wrote. */
static const struct order *order_at(const struct cg_emit *e, unsigned phase)
{
	return &orders[e->p->pdl && !phase && e->p->order == CG_HW ? CG_FORMAL : e->p->order];
}

static bool arrive(struct cg_emit *e, const struct barrier *b, unsigned phase)
{
	const struct order *o = order_at(e, phase);

	if (e->ops->ws == CG_ARG_WS_MC)
		return CG_EXPAND(e, o->arrive[phase], {"slot", b->own}, {"word", b->word},
		                 {"lane", e->lane});
	return CG_EXPAND(e, o->arrive_peers[phase], {"slot", b->own}, {"word", b->word},
	                 {"lane", e->lane}, {"ranks", ptx_imm(e->p->tp)});
}

/* Arrive and wait; on failure the record is written and control goes to `fail`. */
static bool meet(struct cg_emit *e, const struct barrier *b, unsigned phase, struct ptx_opnd fail)
{
	const char *acquire = orders[e->p->order].acquire[phase];
	struct ptx_opnd good = ptx_label_new(e->f, "met");
	struct cg_failure late = {b->ws, b->why, b->seen, b->source, b->word, phase};

	if (!arrive(e, b, phase) ||
	    !CG_EXPAND(e, "wait", {"ws", b->ws}, {"slot", b->watched}, {"epoch", b->epoch},
	               {"tag", b->tag}, {"default", ptx_imm(CG_DEFAULT_LIMIT_NS)},
	               {"seen", b->seen}, {"why", b->why}, {"stop", b->stop}))
		return false;
	ptx_guard(e->f, b->stop, true);
	ptx_bra(e->f, good);
	ptx_unguard(e->f);
	if (!cg_record(e, &late))
		return false;
	ptx_bra(e->f, fail);
	ptx_place(e->f, good);
	if (acquire && !ptx_expand(e->f, acquire, NULL, 0, e->d))
		return false;
	if (phase == 1 && e->p->order == CG_FORMAL)
		cg_alias_fence(e);
	return true;
}

struct ptx_opnd cg_only_warp0(struct cg_emit *e, const char *hint)
{
	struct ptx_opnd skip = ptx_label_new(e->f, hint),
	                others = ptx_setp(e->f, PTX_GE, PTX_T_u32, e->cta_tid, ptx_imm(32));

	ptx_guard(e->f, others, false);
	ptx_bra(e->f, skip);
	ptx_unguard(e->f);
	return skip;
}

static void store_flag(struct cg_emit *e, unsigned verdict)
{
	struct ptx_opnd v = ptx_mov(e->f, PTX_T_u32, ptx_imm(verdict));

	ptx_guard(e->f, e->lane0, false);
	ptx_st(e->f, ptx_MODS(.space = PTX_SHARED), PTX_T_u32, ptx_at(e->flag, 0), v);
	ptx_unguard(e->f);
}

bool cg_barrier_entry(struct cg_emit *e, struct ptx_opnd leave)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd join, fail = ptx_label_new(f, "dead"), dead, verdict;
	struct barrier b;

	e->flag = ptx_var_add(f, PTX_SHARED, PTX_T_u32, 4, 1, "dead");
	ptx_comment(f, "entry barrier");
	join = cg_only_warp0(e, "entered");
	cg_alias_fence(e);
	begin(e, &b, 0);
	dead = ptx_ld(f, ptx_MODS(.order = PTX_RELAXED, .scope = PTX_SYS, .space = PTX_GLOBAL),
	              PTX_T_u32, ptx_at(b.ws, 0));
	dead = ptx_setp(f, PTX_NE, PTX_T_u32, dead, ptx_imm(0));
	/* The word may change between two lanes' loads, and the wait votes with all lanes. */
	dead = ptx_vote(f, ptx_MODS(.vote = PTX_ANY), PTX_T_pred, dead, ptx_imm(0xffffffff));
	ptx_guard(f, dead, false);
	ptx_bra(f, fail);
	ptx_unguard(f);
	if (!meet(e, &b, 0, fail))
		return false;
	store_flag(e, 0);
	ptx_bra(f, join);
	ptx_place(f, fail);
	store_flag(e, 1);
	ptx_place(f, join);
	ptx_bar_sync(f, ptx_imm(0));
	verdict = ptx_ld(f, ptx_MODS(.space = PTX_SHARED), PTX_T_u32, ptx_at(e->flag, 0));
	verdict = ptx_setp(f, PTX_NE, PTX_T_u32, verdict, ptx_imm(0));
	ptx_guard(f, verdict, false);
	ptx_bra(f, leave);
	ptx_unguard(f);
	return true;
}

/* All stores of the CTA precede lane 0's arrival.  The epoch is kept only when everyone came. */
bool cg_barrier_exit(struct cg_emit *e)
{
	struct ptx_fn *f = e->f;
	struct ptx_opnd skip, epoch;
	struct barrier b;

	ptx_comment(f, "exit barrier");
	ptx_bar_sync(f, ptx_imm(0));
	skip = cg_only_warp0(e, "left");
	begin(e, &b, 1);
	if (!meet(e, &b, 1, skip))
		return false;
	epoch = b.epoch;
	/* All lanes have read the word that lane 0 now writes: votes order no memory. */
	ptx_bar_warp(f, ptx_imm(0xffffffff));
	ptx_guard(f, e->lane0, false);
	ptx_st(f, ptx_MODS(.space = PTX_GLOBAL), PTX_T_u32, ptx_at(b.epoch_at, 0), epoch);
	ptx_unguard(f);
	ptx_place(f, skip);
	return true;
}
