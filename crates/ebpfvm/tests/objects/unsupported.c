// SPDX-License-Identifier: Apache-2.0
/* Maps that are refused, each used by one program. */
#include "bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u32);
} processors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u32);
} silent SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u32);
} four SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 4);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, 5);
		__type(key, __u32);
		__type(value, __u32);
	});
} of_fives SEC(".maps") = {
	.values = { [2] = (void *)&four },
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
		__uint(max_entries, 5);
		__uint(key_size, 4);
		__uint(value_size, 4);
	});
} of_programs SEC(".maps");

static inline int use(void *map)
{
	__u32 key = 0;

	return map_lookup(map, &key) != 0;
}

SEC("xdp")
int to_processors(struct xdp_md *xdp)
{
	return redirect_map(&processors, 0, 0);
}

SEC("xdp")
int in_silence(struct xdp_md *xdp)
{
	return use(&silent);
}

SEC("xdp")
int in_fives(struct xdp_md *xdp)
{
	return use(&of_fives);
}

SEC("xdp")
int in_programs(struct xdp_md *xdp)
{
	return use(&of_programs);
}
