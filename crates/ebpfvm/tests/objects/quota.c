// SPDX-License-Identifier: Apache-2.0
/* Packets and bytes by source, per processor; who has had enough is dropped. */
#include "bpf.h"

struct usage {
	__u64 packets, bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, struct usage);
} sources SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct usage);
} totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 64);
	__type(key, __u8);
	__type(value, __u64);
} protocols SEC(".maps");

volatile const __u64 most = 700;

static inline void add(struct usage *to, __u64 bytes)
{
	to->packets++;
	to->bytes += bytes;
}

SEC("xdp")
int quota(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct iphdr *ip = data + ETH_HLEN;
	struct usage first = { 1, end - data }, *usage;
	__u32 verdict = 0, source;
	__u64 one = 1, *count;

	if ((void *)(ip + 1) > end)
		return XDP_PASS;
	source = ip->saddr & htonl(0xffffff03);
	usage = map_lookup(&sources, &source);
	if (usage) {
		add(usage, end - data);
		verdict = usage->bytes > most;
	} else {
		map_update(&sources, &source, &first, BPF_ANY);
	}
	count = map_lookup(&protocols, &ip->protocol);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		map_update(&protocols, &ip->protocol, &one, BPF_NOEXIST);
	usage = map_lookup(&totals, &verdict);
	if (usage)
		add(usage, end - data);
	/* Tests run on one processor, in one node. */
	return (verdict ? XDP_DROP : XDP_PASS) + processor() + numa_node();
}
