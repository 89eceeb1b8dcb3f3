// SPDX-License-Identifier: Apache-2.0
/* Fields of a packet in tc: those that can be read, and what is written stays. */
#include "bpf.h"

__u64 fields[24];
__u64 runs;

SEC("tc")
int read_fields(struct __sk_buff *skb)
{
	fields[0] += skb->len;
	fields[1] = skb->pkt_type;
	fields[2] += skb->mark;
	fields[3] += skb->queue_mapping;
	fields[4] = skb->protocol;
	fields[5] += skb->vlan_present + skb->vlan_tci + skb->vlan_proto;
	fields[6] += skb->priority;
	fields[7] += skb->tc_index;
	fields[8] += skb->tc_classid;
	fields[9] += skb->data_end - skb->data;
	fields[10] += skb->napi_id;
	fields[11] += skb->data_meta == skb->data;
	fields[12] += skb->gso_segs + skb->gso_size;
	fields[13] += skb->wire_len;
	fields[14] += skb->tstamp;
	return 0;
}

SEC("tc")
int write_fields(struct __sk_buff *skb)
{
	skb->mark = 0x12345678 + runs;
	skb->priority = skb->mark >> 3;
	skb->tc_index = 0x9abc;
	skb->cb[0] = skb->mark ^ 5;
	skb->cb[4] = skb->cb[0] + 1;
	skb->queue_mapping = 3;
	skb->tc_classid = 0x10002;
	skb->tstamp = 1234567890123;
	runs++;
	fields[16] += skb->mark;
	fields[17] += skb->priority;
	fields[18] += skb->tc_index;
	fields[19] += skb->cb[0] + skb->cb[1] + skb->cb[4];
	fields[20] += skb->queue_mapping;
	fields[21] += skb->tstamp;
	/* Parts of a field. */
	fields[22] += *((__u8 *)&skb->mark + 1) + *((__u16 *)&skb->mark + 1);
	fields[23] += *(__u8 *)&skb->len + *(__u16 *)&skb->priority;
	return fields[16] & 3;
}
