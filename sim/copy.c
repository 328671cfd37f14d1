/*
 * Bulk copies under way.  Each is an agent of its own: 16 bytes at a time are read, and at some
 * later step written, in an order that the seed chooses.
 */
#include "sim/async.h"
#include "sim/order.h"
#include <string.h>

static uint32_t gcd(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

bool sim_copy_new(struct sim *s, const struct sim_copy *like)
{
	struct sim_copy *c = s->free_copy;

	if (!like->bytes)
		return true;
	if (c && c->npiece >= like->bytes / SIM_PIECE) {
		uint8_t *data = c->data;

		s->free_copy = NULL;
		*c = *like;
		c->data = data;
	} else {
		c = arena_new(s->arena, struct sim_copy);
		*c = *like;
		c->data = arena_alloc(s->arena, like->bytes);
	}
	c->npiece = like->bytes / SIM_PIECE;
	c->nread = c->nwritten = 0;
	c->start = (uint32_t)(sim_random(s) % c->npiece);
	c->stride =
	        s->o.schedule == SIM_ROUND_ROBIN ? 1 : (uint32_t)(sim_random(s) % c->npiece) | 1;
	while (gcd(c->stride, c->npiece) != 1)
		c->stride++;
	s->copy = arena_grow(s->arena, s->copy, s->ncopy, &s->cap_copy, s->ncopy + 1,
	                     sizeof(struct sim_copy *));
	s->copy[s->ncopy++] = c;
	return true;
}

static uint32_t piece_at(const struct sim_copy *c, uint32_t i)
{
	return (uint32_t)((c->start + (uint64_t)i * c->stride) % c->npiece) * SIM_PIECE;
}

static bool race_piece(struct sim *s, const struct sim_copy *c, uint32_t at)
{
	const struct race_access x = {
	        c->w,       c->op, c->lane,   c->load ? SIM_ACC_READ : SIM_ACC_WRITE,
	        RACE_ASYNC, c,     SIM_PIECE, NULL};

	return !s->race || sim_race_access(s, &x, c->b, c->off + at, SIM_PIECE);
}

static bool read_piece(struct sim *s, struct sim_copy *c)
{
	const uint32_t at = piece_at(c, c->nread);
	const uint8_t *from =
	        c->load ? c->b->data + c->off + at : c->w->cta->shared + c->shared + at;

	if (c->load && !sim_check_defined(s, c->w, c->op, c->lane, c->b, c->off + at, SIM_PIECE))
		return false;
	if (c->load && !race_piece(s, c, at))
		return false;
	if (c->load && s->o.on_access)
		sim_event(s, c->w, c->op, c->lane, SIM_ACC_READ, c->b, c->off + at, SIM_PIECE,
		          false);
	memcpy(c->data + at, from, SIM_PIECE);
	c->nread++;
	return true;
}

/* A piece arrives. */
static void write_piece(struct sim *s, struct sim_copy *c)
{
	const uint32_t at = piece_at(c, c->nwritten);
	struct sim_cta *cta = c->w->cta;

	c->nwritten++;
	s->progress++;
	if (!c->load) {
		if (!race_piece(s, c, at))
			return;
		sim_store(s, c->w, c->op, c->b, c->off + at, c->data + at, SIM_PIECE);
		if (s->o.on_access)
			sim_event(s, c->w, c->op, c->lane, SIM_ACC_WRITE, c->b, c->off + at,
			          SIM_PIECE, false);
		return;
	}
	memcpy(cta->shared + c->shared + at, c->data + at, SIM_PIECE);
	for (unsigned k = 0; k < SIM_PIECE; k++)
		cta->shared_defined[c->shared + at + k] |= SIM_SHARED_DEFINED;
	cta->async->mbar[c->mbar].tx -= SIM_PIECE;
	sim_mbar_check(s, cta, &cta->async->mbar[c->mbar]);
}

void sim_copies_advance(struct sim *s)
{
	const bool fair = s->o.schedule == SIM_ROUND_ROBIN;
	unsigned n = fair ? 256 : 1u << sim_random(s) % 12;

	while (n && s->ncopy && !s->findings) {
		size_t i = fair ? 0 : (size_t)(sim_random(s) % s->ncopy);
		struct sim_copy *c = s->copy[i];
		unsigned some = fair ? n : 1 + (unsigned)(sim_random(s) % n);

		n -= some < n ? some : n;
		/* Pieces that have been read wait for a while, in any order with other reads. */
		for (; some && c->nwritten < c->npiece; some--) {
			if (c->nread < c->npiece &&
			    (c->nread == c->nwritten || (!fair && sim_random(s) & 1))) {
				if (!read_piece(s, c))
					return;
			} else {
				write_piece(s, c);
			}
		}
		if (c->nwritten == c->npiece) {
			if (s->race)
				sim_rel_put(s, c->fence);
			s->free_copy = c;
			s->copy[i] = s->copy[--s->ncopy];
		}
	}
}

bool sim_copies_left(const struct sim *s, const struct sim_cta *c, unsigned issuer, uint32_t group,
                     bool read)
{
	for (size_t i = 0; i < s->ncopy; i++) {
		const struct sim_copy *x = s->copy[i];

		if (x->w->cta == c && !x->load && x->issuer == issuer && x->group < group &&
		    (!read || x->nread < x->npiece))
			return true;
	}
	return false;
}
