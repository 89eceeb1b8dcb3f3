// SPDX-License-Identifier: Apache-2.0
/* The longest prefix of addresses of both families, in tries that frames fill. */
#include "bpf.h"

struct prefix4 {
	__u32 len;
	__be32 address;
};

struct prefix6 {
	__u32 len;
	__u8 address[16];
};

#define TRIE(name, of)                                    \
	struct {                                          \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);      \
		__uint(max_entries, 12);                  \
		__uint(map_flags, BPF_F_NO_PREALLOC);     \
		__type(key, struct of);                   \
		__type(value, __u32);                     \
	} name SEC(".maps")

TRIE(four, prefix4);
TRIE(six, prefix6);

__u32 number;
__s64 results[4];

SEC("xdp")
int prefixes(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	__u8 *bytes = data;
	struct prefix4 key4 = { 32, 0 };
	struct prefix6 key6 = { 128, {} };
	__u32 *found;

	if (data + 40 > end)
		return XDP_DROP;
	number++;
	key4.address = htonl(0xc6120000 | (bytes[1] & 3) << 8 | (bytes[2] & 3));
	found = map_lookup(&four, &key4);
	results[0] = results[0] * 3 + (found ? *found : -1);
	key4.len = bytes[0] & 1 ? 24 : 30 + (bytes[3] & 1);
	results[1] += bytes[4] & 3 ? map_update(&four, &key4, &number, bytes[4] >> 4 & 3) :
				     map_delete(&four, &key4);
	__builtin_memcpy(key6.address, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0", 14);
	key6.address[5] = bytes[5] & 1;
	key6.address[15] = bytes[6] & 3;
	found = map_lookup(&six, &key6);
	results[2] = results[2] * 3 + (found ? *found : -1);
	key6.len = bytes[7] & 1 ? 48 : 126 + (bytes[8] & 3);
	results[3] += bytes[9] & 3 ? map_update(&six, &key6, &number, BPF_ANY) :
				     map_delete(&six, &key6);
	return XDP_PASS;
}
