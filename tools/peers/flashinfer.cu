/*
 * A peer of `plait bench`: FlashInfer's fused all-reduce + residual + RMSNorm, its kernel from its own
 * sources, which the user has (--peer flashinfer=DIR).  The command compiles this file with nvcc into a shared
 * object (-DRANKS=N: only the kernels of N ranks are made) and calls the functions at its end.  Ranks are
 * devices of this process.
 *
 * Its best setting: programmatic dependent launch, with the early trigger.
 */
#define FLASHINFER_LOGGING_H_ /* its logging.h wants spdlog: here nothing is logged */
#define FLASHINFER_LOG_TRACE(...)    ((void)0)
#define FLASHINFER_LOG_DEBUG(...)    ((void)0)
#define FLASHINFER_LOG_INFO(...)     ((void)0)
#define FLASHINFER_LOG_WARN(...)     ((void)0)
#define FLASHINFER_LOG_ERROR(...)    ((void)0)
#define FLASHINFER_LOG_CRITICAL(...) ((void)0)
#include <algorithm>
#include <array>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <iostream>
#include <vector>

#include "flashinfer/comm/trtllm_allreduce_fusion.cuh" /* which leaves the lines above to its users */

using namespace flashinfer::trtllm_allreduce_fusion;
using bf16 = __nv_bfloat16;

namespace {

enum { FLAGS = 256 };

struct rank_state {
	int device;
	void *comm, *flags, *lamport, *counters, **table;
};

struct {
	int n, hidden, oneshot_rows;
	rank_state rank[RANKS];
} peer;

#define TRY(x)                                          \
	do {                                            \
		cudaError_t e_ = (x);                   \
		if (e_ != cudaSuccess)                  \
			return cudaGetErrorString(e_);  \
	} while (0)

const char *reach(int from, int to)
{
	cudaError_t e;

	if (from == to)
		return nullptr;
	TRY(cudaSetDevice(from));
	e = cudaDeviceEnablePeerAccess(to, 0);
	if (e == cudaErrorPeerAccessAlreadyEnabled) {
		cudaGetLastError();
		return nullptr;
	}
	TRY(e);
	return nullptr;
}

const char *make_rank(rank_state &s, size_t bytes, size_t lamport)
{
	int counters[5] = {0, 0, 0, (int)lamport, 0}; /* counter, flag, clear, size, done */
	std::vector<unsigned short> negative_zero(lamport * 3 / 2, 0x8000);

	TRY(cudaSetDevice(s.device));
	TRY(cudaMalloc(&s.comm, 2 * bytes));
	TRY(cudaMalloc(&s.flags, FLAGS * RANKS * sizeof(int)));
	TRY(cudaMemset(s.flags, 0, FLAGS * RANKS * sizeof(int)));
	TRY(cudaMalloc(&s.lamport, lamport * 3));
	TRY(cudaMemcpy(s.lamport, negative_zero.data(), lamport * 3, cudaMemcpyHostToDevice));
	TRY(cudaMalloc(&s.counters, sizeof counters));
	TRY(cudaMemcpy(s.counters, counters, sizeof counters, cudaMemcpyHostToDevice));
	TRY(cudaMalloc((void **)&s.table, (3 * RANKS + 1) * sizeof(void *)));
	return nullptr;
}

const char *fill_table(rank_state &s)
{
	void *t[3 * RANKS + 1];

	for (int r = 0; r < peer.n; r++) {
		t[r] = peer.rank[r].comm;
		t[peer.n + r] = peer.rank[r].flags;
		t[2 * peer.n + r] = peer.rank[r].lamport;
	}
	t[3 * peer.n] = s.counters;
	TRY(cudaSetDevice(s.device));
	TRY(cudaMemcpy(s.table, t, sizeof t, cudaMemcpyHostToDevice));
	TRY(cudaDeviceSynchronize());
	return nullptr;
}

} // namespace

/* NULL, or why it cannot be. */
extern "C" const char *plait_peer_open(int n, const int *device, int max_rows, int oneshot_rows, int hidden)
{
	size_t row = (size_t)hidden * sizeof(bf16);

	if (n != RANKS)
		return "compiled for another number of ranks";
	peer.n = n;
	peer.hidden = hidden;
	peer.oneshot_rows = std::min(max_rows, oneshot_rows);
	for (int r = 0; r < n; r++)
		peer.rank[r].device = device[r];
	for (int r = 0; r < n; r++) {
		const char *why = make_rank(peer.rank[r], max_rows * row, peer.oneshot_rows * row * n);

		for (int q = 0; q < n && !why; q++)
			why = reach(device[r], device[q]);
		if (why)
			return why;
	}
	for (int r = 0; r < n; r++)
		if (const char *why = fill_table(peer.rank[r]))
			return why;
	return nullptr;
}

/* One launch on one rank; the residual is read and written in place.  NULL, or why it cannot be. */
extern "C" const char *plait_peer_launch(int rank, int oneshot, int rows, void *x, void *residual, void *gamma,
                                         void *y, void *stream)
{
	AllReduceFusionParams<bf16> p{};

	if (oneshot ? rows > peer.oneshot_rows : rows < peer.n)
		return "not for so many rows";
	p.nranks = peer.n;
	p.rank = rank;
	p.size = rows * peer.hidden;
	p.hidden_dim = peer.hidden;
	p.workspace = peer.rank[rank].table;
	p.allreduce_in = x;
	p.residual_in = residual;
	p.residual_out = residual;
	p.norm_out = y;
	p.rms_gamma = gamma;
	p.rms_eps = 1e-5f;
	p.use_oneshot = oneshot != 0;
	p.stream = (cudaStream_t)stream;
	p.pattern = AllReduceFusionPattern::kARResidualRMSNorm;
	p.trigger_completion_at_end = false;
	TRY(cudaSetDevice(peer.rank[rank].device));
	TRY((allreduce_fusion_kernel_launcher<AllReduceFusionPattern::kARResidualRMSNorm, bf16, RANKS, true>(p, true)));
	TRY(cudaGetLastError());
	return nullptr;
}

extern "C" void plait_peer_close(void)
{
	for (int r = 0; r < peer.n; r++) {
		rank_state &s = peer.rank[r];

		cudaSetDevice(s.device);
		cudaFree(s.comm);
		cudaFree(s.flags);
		cudaFree(s.lamport);
		cudaFree(s.counters);
		cudaFree(s.table);
		s = rank_state{};
	}
	peer.n = 0;
}
