// SPDX-License-Identifier: Apache-2.0
/* Packets in tc that get longer and shorter at both ends, with tags. */
#include "bpf.h"

__u64 results[8];

static inline void note(__u32 at, __s64 value)
{
	if (at < 8)
		results[at] = results[at] * 5 + value;
}

SEC("tc")
int tail(struct __sk_buff *skb)
{
	__u8 last = 0xee;

	note(0, skb_change_tail(skb, skb->len / 2 + 40, 0));
	note(1, skb->len);
	note(2, skb_load_bytes(skb, skb->len - 1, &last, 1));
	note(3, last);
	note(4, skb_change_tail(skb, skb->len + 9, 1));
	return 0;
}

SEC("tc")
int head(struct __sk_buff *skb)
{
	void *data, *end;

	note(0, skb_change_head(skb, skb->len & 31, 0));
	note(1, skb_pull_data(skb, 20));
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (data + 16 <= end)
		*(__u64 *)(data + 8) ^= 0x1122334455667788;
	set_hash_invalid(skb);
	note(2, skb->hash);
	note(3, skb_pull_data(skb, 1 << 14));
	return 0;
}

SEC("tc")
int tagged(struct __sk_buff *skb)
{
	note(0, skb_vlan_push(skb, htons(ETH_P_8021Q), 100));
	note(1, skb->vlan_present);
	note(2, skb->vlan_tci);
	if (skb->len & 1)
		note(3, skb_vlan_push(skb, htons(ETH_P_8021AD), 7));
	note(4, skb->protocol);
	if (skb->len & 2)
		note(5, skb_vlan_pop(skb));
	note(6, skb->vlan_tci);
	note(7, skb_vlan_push(skb, 0x1234, 7));
	return 0;
}
