// SPDX-License-Identifier: Apache-2.0
/* Filters of sockets, by instructions that load from packets and by a helper. */
#include "bpf.h"

unsigned long long load_byte(void *skb, unsigned long long at) asm("llvm.bpf.load.byte");
unsigned long long load_half(void *skb, unsigned long long at) asm("llvm.bpf.load.half");
unsigned long long load_word(void *skb, unsigned long long at) asm("llvm.bpf.load.word");

struct bpf_map_def {
	__u32 type, key, value, entries, flags;
};

struct bpf_map_def SEC("maps") lengths = { BPF_MAP_TYPE_ARRAY, 4, 8, 4, 0 };
struct bpf_map_def SEC("maps") others = { BPF_MAP_TYPE_HASH, 4, 8, 4, 0 };

SEC("socket")
int udp_only(struct __sk_buff *skb)
{
	if (load_byte(skb, 9) != IPPROTO_UDP)
		return 0;
	__u32 at = (load_byte(skb, 0) & 15) * 4;
	if (load_half(skb, at + 2) > 1024)
		return load_word(skb, 12) & 0xffff;
	return skb->len;
}

SEC("socket/count")
int count(struct __sk_buff *skb)
{
	__u32 key = skb->pkt_type & 3;
	__u64 *sum = map_lookup(&lengths, &key);
	if (sum)
		*sum += skb->len;
	__u8 four[4] = {};
	__u64 result = skb_load_bytes(skb, load_half(skb, 2) & 255, four, 4);
	__u32 word = *(__u32 *)four;
	map_update(&others, &word, &result, 0);
	skb->cb[2] = word;
	return load_half(skb, -0x200000 + 12);
}
