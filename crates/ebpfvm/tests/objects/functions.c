// SPDX-License-Identifier: Apache-2.0
/* Functions, static and global, with arguments on the stack of callers. */
#include "bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} results SEC(".maps");

struct number {
	__u64 low, high;
};

static noinline void add(struct number *to, __u64 what)
{
	to->low += what;
	to->high ^= to->low << 7 | to->low >> 57;
}

static noinline __u64 mix(struct number *of, __u32 times)
{
	struct number local = *of;

	for (__u32 i = 0; i < (times & 7); i++)
		add(&local, local.high * 3 + i);
	return local.low ^ local.high;
}

static noinline __s64 divide(__s64 a, __s64 b)
{
	if (b == 0)
		return -1;
	return (__u64)a / (__u64)b + (__u64)a % (__u64)b;
}

SEC("tc")
int compute(struct __sk_buff *skb)
{
	struct number number = { 5, 7 };
	__u8 *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 key = 0;

	if (data + 40 > end)
		return 2;
	for (int i = 0; i < 40; i += 4)
		add(&number, data[i] << (i & 15));
	__u64 value = mix(&number, data[3]);
	map_update(&results, &key, &value, 0);
	key = 1;
	value = divide(number.low, (__s8)data[5]);
	map_update(&results, &key, &value, 0);
	key = 2;
	value = (__s32)number.low >> (data[7] & 31);
	map_update(&results, &key, &value, 0);
	return value & 0xffff;
}
