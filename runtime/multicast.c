/*
 * The multicast object of a symmetric allocation: create, add all devices, agree, bind, map, agree.
 * Binding and mapping block until every device has been added, so nobody binds before all have
 * voted that they have.  Every process keeps its reference until the memory is freed; so does the
 * creator, until all have imported.
 */
#include "runtime/comm.h"
#include "runtime/fdpass.h"
#include "runtime/machine.h"
#include <stdio.h>
#include <string.h>

enum { OPTION = 100 };

int rt_why_no_multicast(const struct rt_env *env, enum plait_transport at_most)
{
	if (at_most == PLAIT_BY_PEER || at_most == PLAIT_BY_NCCL)
		return OPTION;
	for (int i = 0; rt_multicast_switches[i].name; i++)
		if (rt_switched_off(&rt_multicast_switches[i],
		                    rt_getenv(env, rt_multicast_switches[i].name)))
			return i + 1;
	return 0;
}

bool rt_is_why_no_multicast(int why)
{
	int n = 0;

	while (rt_multicast_switches[n].name)
		n++;
	return (why >= 0 && why <= n) || why == OPTION;
}

void rt_why_no_multicast_text(int why, char *out, size_t n)
{
	if (why == OPTION)
		snprintf(out, n, "at_most");
	else
		snprintf(out, n, "%s=%s", rt_multicast_switches[why - 1].name,
		         rt_multicast_switches[why - 1].off);
}

/* Process 0 makes the object and hands it out. */
static bool create_object(plait_comm *c, struct rt_memory *m, union rt_shared *shared)
{
	struct cu_multicast_prop p = {.num_devices = c->size, .size = m->bytes};

	p.handle_types = (unsigned long long)c->handle_type;
	if (!RT_CU(c->drv, &c->error, multicast_create, &m->mc, &p))
		return false;
	m->have_mc = true;
	return c->processes == 1 || rt_export(c, m->mc, shared);
}

static enum plait_status share_object(plait_comm *c, struct rt_memory *m,
                                      const union rt_shared *shared)
{
	union rt_shared got[CG_MAX_RANKS * RT_FDS];
	unsigned n[CG_MAX_RANKS] = {1};

	if (rt_exchange(c, shared, n, got) && c->process != 0) {
		m->have_mc = rt_import(c, &got[0], &m->mc);
		rt_shared_close(c, got, 1);
	}
	return rt_vote(c);
}

static enum plait_status make_object(plait_comm *c, struct rt_memory *m)
{
	union rt_shared shared = {.fd = -1};

	if (c->process == 0)
		create_object(c, m, &shared);
	if (rt_vote(c) == PLAIT_OK && c->processes > 1)
		share_object(c, m, &shared);
	rt_shared_close(c, &shared, 1);
	return c->error.status;
}

static enum plait_status add_devices(plait_comm *c, struct rt_memory *m)
{
	for (unsigned l = 0; l < c->nlocal; l++)
		if (!RT_CU(c->drv, &c->error, multicast_add, m->mc, c->local[l].device)) {
			rt_blame(c, l);
			break;
		}
	return rt_vote(c);
}

static enum plait_status bind(plait_comm *c, struct rt_memory *m)
{
	for (unsigned l = 0; l < c->nlocal; l++) {
		m->mc_bound[l] = RT_CU(c->drv, &c->error, multicast_bind, m->mc, 0, m->own[l], 0,
		                       m->bytes, 0);
		if (!m->mc_bound[l]) {
			rt_blame(c, l);
			break;
		}
	}
	return rt_vote(c);
}

static enum plait_status map(plait_comm *c, struct rt_memory *m)
{
	for (unsigned l = 0; l < c->nlocal; l++)
		if (!rt_map(c, m->mc, m->bytes, (int)l, &m->mc_va[l], &m->mc_reserved[l],
		            &m->mc_mapped[l])) {
			rt_blame(c, l);
			break;
		}
	return rt_vote(c);
}

enum plait_status rt_multicast_create(plait_comm *c, struct rt_memory *m)
{
	if (make_object(c, m) != PLAIT_OK || add_devices(c, m) != PLAIT_OK ||
	    bind(c, m) != PLAIT_OK || map(c, m) != PLAIT_OK)
		rt_multicast_free(c, m);
	return c->error.status;
}

void rt_multicast_free(plait_comm *c, struct rt_memory *m)
{
	for (unsigned l = 0; l < c->nlocal; l++) {
		rt_unmap(c, &m->mc_va[l], &m->mc_reserved[l], &m->mc_mapped[l]);
		if (m->mc_bound[l])
			c->drv->multicast_unbind(m->mc, c->local[l].device, 0, m->bytes);
		m->mc_bound[l] = false;
	}
	if (m->have_mc)
		c->drv->vmm_release(m->mc);
	m->have_mc = false;
}
