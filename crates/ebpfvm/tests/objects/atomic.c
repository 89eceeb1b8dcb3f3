// SPDX-License-Identifier: Apache-2.0
/* Atomic operations of both widths, on variables and on the stack. */
#include "bpf.h"

__u64 wide[8];
__u32 narrow[8];

SEC("xdp")
int atomic(struct xdp_md *xdp)
{
	__u64 len = xdp->data_end - xdp->data, on_stack = len, old;
	__u32 word = len * 77, local = word, was;

	__sync_fetch_and_add(&wide[0], len);
	__sync_fetch_and_or(&wide[1], len << 32);
	__sync_fetch_and_and(&wide[2], ~len);
	__sync_fetch_and_xor(&wide[3], len * len);
	wide[4] += __sync_fetch_and_add(&wide[5], len << 20);
	wide[6] ^= __sync_lock_test_and_set(&wide[7], len + wide[0]);
	old = __sync_val_compare_and_swap(&wide[5], wide[5] ^ (len & 1), len);
	wide[4] ^= old;
	wide[2] |= __sync_fetch_and_xor(&on_stack, wide[0]) + on_stack;

	__sync_fetch_and_add(&narrow[0], word);
	narrow[1] += __sync_fetch_and_or(&narrow[2], word);
	narrow[3] += __sync_fetch_and_and(&narrow[2], word >> 1);
	narrow[4] += __sync_fetch_and_xor(&narrow[5], word);
	narrow[6] += __sync_lock_test_and_set(&narrow[7], word);
	was = __sync_val_compare_and_swap(&narrow[7], word ^ (word & 4), 5);
	narrow[6] ^= was;
	narrow[1] ^= __sync_fetch_and_add(&local, word) + local;
	return old == len ? XDP_TX : XDP_PASS;
}
