// SPDX-License-Identifier: Apache-2.0
/* Queues, stacks, and filters that tell what was put into them. */
#include "bpf.h"

static long (*map_push)(void *map, const void *value, __u64 flags) = (void *)BPF_FUNC_map_push_elem;
static long (*map_pop)(void *map, void *value) = (void *)BPF_FUNC_map_pop_elem;
static long (*map_peek)(void *map, void *value) = (void *)BPF_FUNC_map_peek_elem;

struct item {
	__u32 len;
	__u8 bytes[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 5);
	__type(value, struct item);
} queue SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 5);
	__type(value, struct item);
} stack SEC(".maps");

/* So large that what was not put is not found, either. */
struct {
	__uint(type, BPF_MAP_TYPE_BLOOM_FILTER);
	__uint(max_entries, 100000);
	__type(value, struct item);
} filter SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct item);
} taken SEC(".maps");

__u32 number;
__u64 sum;

/* Keeps what a call gave: its result, and a value. */
static inline void keep(long result, const struct item *item)
{
	__u32 at = number++;

	map_update(&taken, &at, item, BPF_ANY);
	sum = sum * 31 + (__u64)result;
}

static inline int use(void *map, struct xdp_md *xdp)
{
	__u8 *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct item item = {};

	if (data + 14 > end)
		return XDP_DROP;
	item.len = end - data;
	__builtin_memcpy(item.bytes, data + 6, 8);
	switch (data[0] & 7) {
	case 0:
		keep(map_pop(map, &item), &item);
		break;
	case 1:
		keep(map_peek(map, &item), &item);
		break;
	case 2:
		keep(map_push(map, &item, BPF_EXIST), &item);
		break;
	case 3:
		keep(map_push(map, &item, data[1] & 3), &item);
		break;
	default:
		keep(map_push(map, &item, BPF_ANY), &item);
	}
	return XDP_PASS;
}

SEC("xdp")
int in_line(struct xdp_md *xdp)
{
	return use(&queue, xdp);
}

SEC("xdp")
int on_top(struct xdp_md *xdp)
{
	return use(&stack, xdp);
}

SEC("xdp")
int seen_before(struct xdp_md *xdp)
{
	__u8 *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct item item = {};

	if (data + 14 > end)
		return XDP_DROP;
	item.len = end - data;
	item.bytes[0] = data[0] & 3;
	if (map_peek(&filter, &item))
		return map_push(&filter, &item, data[1] & 1) ? XDP_ABORTED : XDP_PASS;
	return XDP_TX;
}

char LICENSE[] SEC("license") = "GPL";
