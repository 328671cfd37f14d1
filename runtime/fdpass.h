/*
 * File descriptors from process to process, over abstract Unix datagram sockets with SCM_RIGHTS:
 * needs no file system and no right to trace.  A socket's name is random; a datagram counts only
 * when the kernel says that its sender is of the same user and when it has the token that the
 * receiver drew and gave to its group alone.  Waits are bounded, and whatever else comes is closed.
 */
#pragma once
#include "runtime/boot.h"

/*
 * A value that is equal in two processes if descriptors can be passed between them: of the host,
 * its boot, and the network namespace; or of PLAIT_HOST_ID, where that is set.
 */
uint64_t rt_host_id(const struct rt_env *env);

/*
 * Collective.  Process p gives give_n[p] descriptors (at most RT_FDS; all know the numbers), which
 * remain its own.  got[p * RT_FDS + i] becomes descriptor i of process p, for the caller to close;
 * -1 where there is none, and for this process's own.  false with a message, and then nothing is
 * left open; the others may have succeeded, so vote afterwards.
 */
enum { RT_FDS = 16 };
bool rt_fd_exchange(struct rt_boot *b, uint64_t timeout_ns, const int *give, const unsigned *give_n,
                    int *got, struct rt_error *e);
