// SPDX-License-Identifier: Apache-2.0
/* Moves the boundaries of frames by what their bytes say, and notes what helpers return. */
#include "bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __s64);
} results SEC(".maps");

static inline void note(__u32 number, __s64 result)
{
	map_update(&results, &number, &result, BPF_ANY);
}

static inline int byte(struct xdp_md *xdp, int at)
{
	signed char value = 0;
	xdp_load_bytes(xdp, at, &value, 1);
	return value;
}

SEC("xdp")
int head(struct xdp_md *xdp)
{
	note(0, xdp_adjust_head(xdp, byte(xdp, 0)));
	note(1, xdp_adjust_head(xdp, byte(xdp, 1) * 4));
	note(2, xdp_buff_len(xdp));
	return XDP_PASS;
}

SEC("xdp")
int tail(struct xdp_md *xdp)
{
	note(3, xdp_adjust_tail(xdp, byte(xdp, 0)));
	note(4, xdp_adjust_tail(xdp, byte(xdp, 1) * 64));
	note(5, xdp_buff_len(xdp));
	return XDP_PASS;
}

SEC("xdp")
int meta(struct xdp_md *xdp)
{
	note(6, xdp_adjust_meta(xdp, byte(xdp, 0)));
	note(7, xdp_adjust_meta(xdp, -(byte(xdp, 1) & 0x7c)));
	__u32 *data = (void *)(long)xdp->data, *from = (void *)(long)xdp->data_meta;
	if (from + 1 <= data)
		*from = 0x12345678;
	note(8, (void *)data - (void *)from);
	note(9, xdp_adjust_head(xdp, byte(xdp, 2)));
	from = (void *)(long)xdp->data_meta;
	data = (void *)(long)xdp->data;
	if (from + 1 <= data)
		note(10, *from);
	return XDP_TX;
}

SEC("xdp")
int bytes(struct xdp_md *xdp)
{
	__u8 piece[16] = { 1, 2, 3 };
	note(11, xdp_load_bytes(xdp, byte(xdp, 0), piece, sizeof(piece)));
	note(12, xdp_store_bytes(xdp, byte(xdp, 1), piece, sizeof(piece)));
	note(13, xdp_load_bytes(xdp, 70000, piece, sizeof(piece)));
	return XDP_PASS;
}

/* IPv4 in IPv4. */
SEC("xdp")
int encapsulate(struct xdp_md *xdp)
{
	if (xdp_adjust_head(xdp, -(int)sizeof(struct iphdr)))
		return XDP_ABORTED;
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);
	if ((void *)(ip + 1) + sizeof(struct ethhdr) > end)
		return XDP_ABORTED;
	__builtin_memmove(data, data + sizeof(struct iphdr), sizeof(struct ethhdr));
	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->ttl = 64;
	ip->protocol = IPPROTO_IPIP;
	ip->tot_len = htons(end - (void *)ip);
	ip->saddr = htonl(0xc6120001);
	ip->daddr = htonl(0xc6130001);
	__u32 sum = csum_diff(0, 0, (__be32 *)ip, sizeof(*ip), 0);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~sum;
	return XDP_TX;
}
