// SPDX-License-Identifier: Apache-2.0
/* Records of a ring: kept, thrown away, of several lengths, until it is full. */
#include "bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

struct record {
	__u32 number, len;
	__u8 bytes[24];
};

__u32 number, full;
__u64 asked;

SEC("xdp")
int tell(struct xdp_md *xdp)
{
	struct record *record = ring_reserve(&ring, sizeof(*record), 0);

	number++;
	if (!record) {
		full++;
		return XDP_DROP;
	}
	*record = (struct record){ number, xdp->data_end - xdp->data };
	if (xdp_load_bytes(xdp, 0, record->bytes, sizeof(record->bytes)) || number % 5 == 0)
		ring_discard(record, 0);
	else
		ring_submit(record, BPF_RB_NO_WAKEUP);
	asked = asked * 3 + ring_query(&ring, BPF_RB_AVAIL_DATA);
	asked += ring_query(&ring, BPF_RB_RING_SIZE);
	asked ^= ring_query(&ring, BPF_RB_PROD_POS) << 7;
	return XDP_PASS;
}

SEC("socket")
int copy(struct __sk_buff *skb)
{
	__u8 bytes[20] = {};
	__u64 len = skb->len;

	skb_load_bytes(skb, 0, bytes, sizeof(bytes));
	/* As the verifier wants to see it. */
	asm volatile("%0 &= 15" : "+r"(len));
	return ring_output(&ring, bytes, len + 1, BPF_RB_FORCE_WAKEUP) + 1;
}
