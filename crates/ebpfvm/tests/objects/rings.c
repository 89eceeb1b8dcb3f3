// SPDX-License-Identifier: Apache-2.0
/* Records, loops that call functions, lines of the trace. */
#include "bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 3);
	__type(key, __u32);
	__type(value, __u32);
} recent SEC(".maps");

struct event {
	__u32 len;
	__u32 number;
};

__u32 number;
__u64 sum;
__u64 refused;

SEC("xdp")
int tell(struct xdp_md *xdp)
{
	struct event *event = ring_reserve(&events, sizeof(*event), 0);

	if (!event) {
		refused++;
		return XDP_DROP;
	}
	event->len = xdp->data_end - xdp->data;
	event->number = ++number;
	if (number % 3 == 0) {
		ring_discard(event, 0);
	} else {
		ring_submit(event, 0);
	}
	if (number % 4 == 0)
		ring_output(&events, &number, sizeof(number), 0);
	return XDP_PASS;
}

static long step(__u32 round, void *context)
{
	*(__u64 *)context += round;
	return round == 9;
}

static long element(void *map, __u32 *key, __u32 *value, __u64 *total)
{
	*total += (__u64)*key << 32 | *value;
	return 0;
}

SEC("xdp")
int loops(struct xdp_md *xdp)
{
	__u64 total = 0;
	__u32 key = ++number, value = number * 10;
	static const char line[] = "%d frames, %x %lu\n";

	total += bpf_loop(100, step, &total, 0) << 16;
	map_update(&recent, &key, &value, 0);
	for_each_map_elem(&recent, element, &total, 0);
	sum = total;
	trace_printk(line, sizeof(line), number, 255, total);
	return XDP_PASS;
}
