// SPDX-License-Identifier: Apache-2.0
/* Maps whose values are maps: arrays and hashes of hashes, of arrays and of tries. */
#include "bpf.h"

struct counters {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
};

struct counters even SEC(".maps"), odd SEC(".maps");
/* Entries of hashes need not be as many. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 3);
	__type(key, __u32);
	__type(value, __u64);
} small SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 5);
	__type(key, __u32);
	__type(value, __u32);
	__array(values, struct counters);
} by_index SEC(".maps") = {
	.values = { [0] = (void *)&even, [1] = (void *)&odd, [3] = (void *)&small },
};

struct sizes {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u32);
};

struct sizes tcp SEC(".maps"), udp SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u32);
	__array(values, struct sizes);
} by_key SEC(".maps") = {
	.values = { [0] = &tcp, [1] = &udp, [2] = &tcp },
};

/* Arrays of this map may have other numbers of entries (BPF_F_INNER_MAP). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 7);
	__uint(map_flags, 1 << 12);
	__type(key, __u32);
	__type(value, __u32);
} seven SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, 1);
		__uint(map_flags, 1 << 12);
		__type(key, __u32);
		__type(value, __u32);
	});
} any_size SEC(".maps") = {
	.values = { [1] = (void *)&seven },
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, 8);
	__uint(value_size, 4);
} networks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);
		__uint(max_entries, 16);
		__uint(map_flags, BPF_F_NO_PREALLOC);
		__uint(key_size, 8);
		__uint(value_size, 4);
	});
} of_tries SEC(".maps") = {
	.values = { (void *)&networks },
};

/* Counts in the map of an index, if there is one. */
SEC("xdp")
int count(struct xdp_md *xdp)
{
	__u8 *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	__u64 *found, one = 1;
	__u32 index, key;
	void *inner;

	if (data + 14 > end)
		return XDP_DROP;
	index = data[0] & 7;
	key = data[1] & 15;
	inner = map_lookup(&by_index, &index);
	if (!inner)
		return XDP_ABORTED;
	found = map_lookup(inner, &key);
	if (!found)
		return map_update(inner, &key, &one, BPF_NOEXIST) ? XDP_DROP : XDP_PASS;
	*found += 1;
	if (*found > 3)
		map_delete(inner, &key);
	return XDP_TX;
}

SEC("tc")
int measure(struct __sk_buff *skb)
{
	__u32 key = skb->len % 4, at = skb->len % 5, *size;
	void *inner = map_lookup(&by_key, &key);

	if (!inner)
		return 3;
	size = map_lookup(inner, &at);
	if (!size)
		return 4;
	__sync_fetch_and_add(size, skb->len);
	key = at % 2;
	at = skb->len % 9;
	inner = map_lookup(&any_size, &key);
	size = inner ? map_lookup(inner, &at) : 0;
	if (!size)
		return 5;
	*size += 1;
	return *size & 0xff;
}

SEC("tc")
int route(struct __sk_buff *skb)
{
	struct {
		__u32 bits;
		__u32 address;
	} key = { 8 + skb->len % 25, skb->len << 8 & 0xf000 };
	__u32 zero = 0, *found, len = skb->len;
	void *inner = map_lookup(&of_tries, &zero);

	if (!inner)
		return 1;
	map_update(inner, &key, &len, BPF_ANY);
	key.bits = 32;
	found = map_lookup(inner, &key);
	return found ? *found & 0xffff : 2;
}

char LICENSE[] SEC("license") = "GPL";
