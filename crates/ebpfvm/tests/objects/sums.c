// SPDX-License-Identifier: Apache-2.0
/* Differences of checksums, of parts of any length. */
#include "bpf.h"

__s64 results[8];

SEC("xdp")
int sums(struct xdp_md *xdp)
{
	__u32 a[8] = {}, b[8] = {};

	xdp_load_bytes(xdp, 0, a, sizeof(a));
	xdp_load_bytes(xdp, 16, b, sizeof(b));
	results[0] ^= csum_diff(0, 0, a, 32, 0);
	results[1] ^= csum_diff(a, 32, 0, 0, 0);
	results[2] ^= csum_diff(a, 16, b, 16, 0);
	results[3] ^= csum_diff(a, 4, b, 32, ~0);
	results[4] ^= csum_diff(a, 32, b, 4, 0x1234);
	results[5] ^= csum_diff(a, 3, b, 4, 0);
	results[6] ^= csum_diff(0, 0, 0, 0, 77);
	return XDP_PASS;
}

SEC("tc")
int of_tc(struct __sk_buff *skb)
{
	__u32 words[4] = {};

	skb_load_bytes(skb, 12, words, sizeof(words));
	results[7] = csum_diff(words, 8, words + 2, 8, results[7]);
	return 0;
}
