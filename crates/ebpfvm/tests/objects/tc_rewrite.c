// SPDX-License-Identifier: Apache-2.0
/* Rewrites packets by helpers and in place. */
#include "bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 32);
	__type(key, __u32);
	__type(value, __s64);
} results SEC(".maps");

static inline void note(__u32 number, __s64 result)
{
	map_update(&results, &number, &result, BPF_ANY);
}

#define IP_AT sizeof(struct ethhdr)
#define UDP_AT (IP_AT + sizeof(struct iphdr))

static inline __u8 byte(struct __sk_buff *skb, int at)
{
	__u8 value = 0;
	skb_load_bytes(skb, at, &value, 1);
	return value;
}

SEC("tc")
int translate(struct __sk_buff *skb)
{
	__be32 from, to = htonl(0xc6120909);
	__be16 port, other = htons(4242);

	note(0, skb_load_bytes(skb, IP_AT + 16, &from, 4));
	note(1, skb_load_bytes(skb, UDP_AT + 2, &port, 2));
	note(2, l4_csum_replace(skb, UDP_AT + 6, from, to, 4 | BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0));
	note(3, l4_csum_replace(skb, UDP_AT + 6, port, other, 2 | BPF_F_MARK_MANGLED_0));
	note(4, l4_csum_replace(skb, UDP_AT + 6, 0, csum_diff(&from, 4, &to, 4, 0), 0));
	note(5, l3_csum_replace(skb, IP_AT + 10, from, to, 4));
	note(6, l3_csum_replace(skb, IP_AT + 10, port, other, 2));
	note(7, l3_csum_replace(skb, IP_AT + 10, 1, 2, 3));
	note(8, l3_csum_replace(skb, IP_AT + 11, from, to, 4));
	note(9, skb_store_bytes(skb, IP_AT + 16, &to, 4, 0));
	note(10, skb_store_bytes(skb, UDP_AT + 2, &other, 2, BPF_F_RECOMPUTE_CSUM));
	note(11, skb_store_bytes(skb, 5000, &other, 2, 0));
	note(12, skb_store_bytes(skb, 0, &other, 2, 64));
	return 0;
}

SEC("tc")
int tags(struct __sk_buff *skb)
{
	__u8 what = byte(skb, 0);

	for (int i = 0; i < 4; i++, what >>= 2) {
		if (what & 1)
			note(16 + i, skb_vlan_pop(skb));
		else
			note(16 + i, skb_vlan_push(skb, what & 2 ? htons(ETH_P_8021AD) : htons(1), 100 + i));
		note(20 + i, skb->vlan_tci | skb->vlan_present << 16 | (__u64)skb->vlan_proto << 32);
		note(24 + i, skb->protocol);
	}
	note(28, skb->len);
	return 0;
}

SEC("classifier")
int length(struct __sk_buff *skb)
{
	note(13, skb_change_tail(skb, byte(skb, 0) * 8, 0));
	note(14, skb_change_head(skb, byte(skb, 1) & 63, 0));
	note(15, skb_pull_data(skb, byte(skb, 2)));
	note(29, skb->len);
	return 2;
}

SEC("tcx/ingress")
int fields(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	skb->mark = skb->mark * 3 + 1;
	skb->priority = skb->len;
	skb->tc_index = 0x12345;
	skb->queue_mapping = 7;
	skb->tc_classid = 0x12345;
	skb->cb[0] = skb->cb[1] + 1;
	skb->cb[4] = skb->ifindex;
	skb->tstamp = 1234567890123;
	set_hash_invalid(skb);
	note(0, skb->tc_index | (__u64)skb->tc_classid << 32);
	note(1, skb->queue_mapping | (__u64)skb->hash << 32);
	note(2, *(volatile __u16 *)&skb->mark);
	note(3, *((volatile __u8 *)&skb->mark + 1));
	note(4, skb->pkt_type);
	note(5, skb->protocol);
	note(6, skb->gso_segs | (__u64)skb->gso_size << 32);
	note(7, skb->ingress_ifindex | (__u64)skb->wire_len << 32);
	note(8, skb->vlan_present | skb->vlan_tci | skb->vlan_proto);
	note(9, skb->tstamp);
	if (data + 20 > end)
		return 2;
	*(__u32 *)(data + 16) = skb->mark;
	return skb->priority & 1 ? -1 : 0;
}

SEC("tc")
int elsewhere(struct __sk_buff *skb)
{
	note(10, redirect(1, 4));
	return redirect(skb->ifindex, byte(skb, 0) & 1);
}
