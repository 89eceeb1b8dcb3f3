// SPDX-License-Identifier: Apache-2.0
/* Arithmetic that compilers turn into odd instructions: rotations, byte orders, products. */
#include "bpf.h"

__u64 results[16];

static noinline __u32 rotated(__u32 value, __u32 by)
{
	return value << (by & 31) | value >> (-by & 31);
}

static noinline __u64 product(__u64 a, __u64 b)
{
	__u64 low = (a & 0xffffffff) * (b & 0xffffffff), middle = (a >> 32) * (b & 0xffffffff);

	return (a >> 32) * (b >> 32) + ((middle + (low >> 32)) >> 32);
}

static noinline __u32 root(__u32 of)
{
	__u32 result = 0;

	for (int bit = 15; bit >= 0; bit--) {
		__u32 next = result | 1 << bit;

		if (next * next <= of)
			result = next;
	}
	return result;
}

SEC("xdp")
int numbers(struct xdp_md *xdp)
{
	__u64 words[4] = {};
	__s32 narrow;
	__s16 half;

	xdp_load_bytes(xdp, 0, words, sizeof(words));
	narrow = words[0] >> 16;
	half = words[1];
	results[0] ^= rotated(words[0], words[1]);
	results[1] ^= product(words[0], words[1]);
	results[2] ^= root(words[2]);
	results[3] ^= __builtin_bswap64(words[0]) ^ __builtin_bswap32(words[1]) ^
		      __builtin_bswap16(words[2]);
	results[4] += (__s64)narrow * half;
	results[5] += (words[0] >> (words[1] & 63)) + (narrow >> (words[2] & 31));
	results[6] += words[0] / ((words[1] & 0xffff) | 1) + (__u32)words[2] % 1000;
	results[7] += narrow < half ? -1 : (narrow == half) + ((__s8)words[3] > (__s8)words[0]);
	results[8] += words[3] % (words[2] | 1);
	results[9] -= (__u32)narrow / 7 + -(__s64)half;
	results[10] |= __builtin_parityll(words[0]) << (words[0] & 31);
	results[11] += (words[0] & 0x8000) ? ~words[1] : words[1] ^ 0xff;
	return results[0] & 3;
}
