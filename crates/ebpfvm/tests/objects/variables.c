// SPDX-License-Identifier: Apache-2.0
/* Variables of all sections, in C: tables, pointers to them, texts, structures. */
#include "bpf.h"

struct point {
	__s16 x, y;
	struct {
		__u8 red, green;
		__u32 blue : 20, rest : 12;
	} color;
};

__u32 counter = 17;
__u64 zeroes[4];
static __u8 table[16] = { 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6 };
static volatile struct point origin = { -3, 300, { 1, 2, 70000, 9 } };
const char text[] = "the quick brown fox";
volatile const __s64 offset = -5;
static __u64 by_class[2][4] SEC(".data.classes");
__u32 last SEC(".bss.last");
const __u32 primes[] SEC(".rodata.primes") = { 2, 3, 5, 7, 11, 13, 17, 19 };

static noinline __u32 letters(const char *of, __u32 len, __u8 which)
{
	__u32 count = 0;

	for (__u32 i = 0; i < 19; i++)
		count += i < len && of[i] == which;
	return count;
}

SEC("xdp")
int variables(struct xdp_md *xdp)
{
	__u32 len = xdp->data_end - xdp->data;
	__u64 *class = by_class[len & 1];

	counter += len + offset;
	zeroes[len & 3] += counter;
	table[counter & 15]++;
	origin.x -= len;
	origin.color.blue += origin.y * table[len & 15];
	origin.color.rest ^= len;
	class[len >> 1 & 3] += primes[len >> 1 & 7];
	last = letters(text, sizeof(text) - 1, 'a' + len % 26);
	return origin.color.blue & 3;
}
