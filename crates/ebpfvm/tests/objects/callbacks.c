// SPDX-License-Identifier: Apache-2.0
/* Functions that helpers call: loops, and elements of arrays, hashes and tries of processors. */
#include "bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} own SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} hash SEC(".maps");

struct state {
	struct xdp_md *xdp;
	__u64 sum;
	__u32 most;
};

static long byte(__u32 at, struct state *state)
{
	__u8 value = 0;

	if (xdp_load_bytes(state->xdp, at, &value, 1))
		return 1;
	state->sum = state->sum * 31 + value;
	return at >= state->most;
}

static long grow(void *map, __u32 *key, __u64 *value, struct state *state)
{
	*value += *key + state->sum;
	state->sum ^= *value;
	return *key == state->most;
}

static long add(void *map, __u32 *key, __u64 *value, struct state *state)
{
	/* In whatever order. */
	state->sum += *key * 3 + *value;
	if (*key & 1)
		map_delete(&hash, key);
	return 0;
}

static long inner(__u32 round, __u64 *sum)
{
	*sum += round;
	return 0;
}

static long outer(__u32 round, __u64 *sum)
{
	*sum *= 3;
	return bpf_loop(round, inner, sum, 0) == 5;
}

SEC("xdp")
int callbacks(struct xdp_md *xdp)
{
	struct state state = { xdp, 0, xdp->data_end - xdp->data & 63 };
	__u64 rounds = bpf_loop(200, byte, &state, 0), sum = 1;
	__u32 key = state.sum & 63, at = 3;
	__u64 *value;

	map_update(&hash, &key, &rounds, BPF_ANY);
	state.most &= 15;
	rounds += for_each_map_elem(&array, grow, &state, 0) << 8;
	rounds += for_each_map_elem(&own, grow, &state, 0) << 16;
	rounds += for_each_map_elem(&hash, add, &state, 0) << 24;
	rounds += bpf_loop(9, outer, &sum, 0) << 32;
	value = map_lookup(&own, &at);
	if (value)
		*value ^= rounds ^ sum;
	value = map_lookup(&array, &at);
	if (value)
		*value = state.sum;
	/* Too many, and flags that there are not. */
	return (bpf_loop(1 << 24, inner, &sum, 0) << 8) ^ bpf_loop(1, inner, &sum, 1);
}
