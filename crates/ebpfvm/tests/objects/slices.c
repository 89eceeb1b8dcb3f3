// SPDX-License-Identifier: Apache-2.0
/* Packets and memory by dynptrs: slices, parts, reads and writes. */
#include "bpf.h"

__u64 seen[12];

static inline void note(__u32 at, __s64 value)
{
	if (at < 12)
		seen[at] = seen[at] * 7 + value;
}

/* The kernel leaves more than the lowest byte of what is a truth. */
static inline __u64 truth(__u64 value)
{
	asm volatile("%0 &= 1" : "+r"(value));
	return value;
}

static inline int parts(struct bpf_dynptr *packet, __u32 salt)
{
	__u8 buffer[24] = {}, *slice;
	struct bpf_dynptr copy;

	note(0, bpf_dynptr_size(packet));
	note(1, truth(bpf_dynptr_is_null(packet)));
	note(2, truth(bpf_dynptr_is_rdonly(packet)));
	note(3, dynptr_read(buffer, sizeof(buffer), packet, salt & 63, 0));
	for (int i = 0; i < sizeof(buffer); i++)
		note(4, buffer[i]);
	if (!bpf_dynptr_clone(packet, &copy)) {
		note(5, bpf_dynptr_adjust(&copy, 4 + (salt & 31), 60));
		note(6, bpf_dynptr_size(&copy));
		slice = bpf_dynptr_slice(&copy, 2, buffer, 8);
		if (slice)
			note(7, slice[0] | slice[7] << 8);
	}
	buffer[0] = salt;
	note(8, dynptr_write(packet, 12 + (salt & 127), buffer, 5, 0));
	slice = bpf_dynptr_slice_rdwr(packet, salt & 7, buffer, 6);
	if (slice) {
		slice[1] ^= 0x55;
		slice[5] = slice[0];
	}
	note(9, slice == buffer);
	return bpf_dynptr_size(packet);
}

SEC("xdp")
int of_xdp(struct xdp_md *xdp)
{
	struct bpf_dynptr packet;
	__u8 salt = 0;

	xdp_load_bytes(xdp, 11, &salt, 1);
	if (bpf_dynptr_from_xdp(xdp, salt == 0, &packet))
		return XDP_ABORTED;
	note(10, parts(&packet, salt));
	return XDP_PASS;
}

SEC("tc")
int of_tc(struct __sk_buff *skb)
{
	struct bpf_dynptr packet;
	__u8 salt = 0;

	skb_load_bytes(skb, 11, &salt, 1);
	if (bpf_dynptr_from_skb(skb, 0, &packet))
		return 2;
	note(11, parts(&packet, salt));
	return 0;
}

typedef __u8 block[64];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, block);
} memory SEC(".maps");

SEC("xdp")
int of_memory(struct xdp_md *xdp)
{
	struct bpf_dynptr bytes;
	__u32 key = 0, word = xdp->data_end - xdp->data;
	__u8 *value = map_lookup(&memory, &key);
	__u32 *part;

	if (!value || dynptr_from_mem(value, 64, 0, &bytes))
		return XDP_ABORTED;
	note(0, dynptr_write(&bytes, word & 127, &word, 4, 0));
	note(1, dynptr_read(&word, 4, &bytes, word & 63, 0));
	part = dynptr_data(&bytes, 8, 4);
	if (part)
		*part += word;
	note(2, bpf_dynptr_adjust(&bytes, 16, 80));
	note(3, bpf_dynptr_adjust(&bytes, 16, 32));
	note(4, bpf_dynptr_size(&bytes));
	part = dynptr_data(&bytes, 12, 4);
	if (part)
		*part -= word;
	note(5, !dynptr_data(&bytes, 13, 4));
	return XDP_PASS;
}
