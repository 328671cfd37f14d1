/*
 * What the CUDA driver's binary interface needs: types, structures and values, declared here, so
 * that no vendor header is needed to build.  They follow the driver API's reference (CUDA 12.0 to
 * 13.x); runtime/abi_cuda.c holds them against <cuda.h> where there is one.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int cu_result; /* 0: done; else see rt_cu_ok */
typedef int cu_device;
typedef unsigned long long cu_address;
typedef unsigned long long cu_handle; /* physical memory or a multicast object */

struct cu_ctx;
struct cu_stream;
struct cu_event;
struct cu_module;
struct cu_function;
struct cu_graph;
struct cu_graph_exec;

/* RT_CU_..., RT_CU_ERROR_... */
enum {
	RT_CU_SUCCESS = 0,
#define CUDA_VALUE(name, value)       RT_CU_##name = (value),
#define CUDA_ERROR_VALUE(name, value) RT_CU_ERROR_##name = (value),
#include "runtime/abi_value.def"
#undef CUDA_VALUE
#undef CUDA_ERROR_VALUE
};

struct cu_uuid {
	unsigned char bytes[16];
};

struct cu_location {
	int type, id;
};

struct cu_alloc_prop {
	int type;
	int handle_types;
	struct cu_location location;
	void *win32;
	unsigned char compression, rdma;
	unsigned short usage;
	unsigned char reserved[4];
};

struct cu_access {
	struct cu_location location;
	int flags;
};

struct cu_multicast_prop {
	unsigned num_devices;
	size_t size;
	unsigned long long handle_types, flags;
};

union cu_launch_value {
	char pad[64];
	int i; /* cooperative, priority, programmatic stream serialization */
	struct {
		unsigned x, y, z;
	} dim;
};

struct cu_launch_attr {
	int id;
	char pad[4];
	union cu_launch_value value;
};

struct cu_launch {
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	struct cu_stream *stream;
	struct cu_launch_attr *attr;
	unsigned nattr;
};
