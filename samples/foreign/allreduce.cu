// A one-shot all-reduce of two ranks by peer loads, with a barrier of counters before and after.
__device__ void arrive(unsigned *a, unsigned v) { asm volatile("st.release.sys.global.u32 [%1], %0;" ::"r"(v), "l"(a) : "memory"); }
__device__ unsigned look(unsigned *a) { unsigned v; asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(a) : "memory"); return v; }
__device__ void barrier(unsigned *mine, unsigned *peer, unsigned epoch)
{
	__syncthreads();
	if (threadIdx.x == 0) {
		arrive(peer + blockIdx.x, epoch);
		for (int k = 0; k < 1000000 && (int)(look(mine + blockIdx.x) - epoch) < 0; k++)
			;
	}
	__syncthreads();
}
extern "C" __global__ void allreduce(unsigned *sig0, unsigned *sig1, const float4 *x0, const float4 *x1, float4 *y, int rank, int n, unsigned launch)
{
	unsigned *mine = rank ? sig1 : sig0, *peer = rank ? sig0 : sig1;
	barrier(mine, peer, 2 * launch - 1);
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
		float4 a = x0[i], b = x1[i];
		y[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
	}
	barrier(mine, peer, 2 * launch);
}
