// SPDX-License-Identifier: Apache-2.0
/* Programs of netfilter and their maps: of every kind that such programs have. */
#include "nf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} sources SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 64);
	__type(key, __u16);
	__type(value, __u32);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} recent SEC(".maps");

struct prefix {
	__u32 bits;
	__u8 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16);
	__type(key, struct prefix);
	__type(value, __u32);
} prefixes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

struct state {
	__u32 count, word;
	__u64 sum;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct state);
} states SEC(".maps");

__u64 packets, bytes;
int limit = 40;
const volatile __u8 table[16] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3 };

static inline int source(struct bpf_nf_ctx *context, __u32 *to)
{
	struct bpf_dynptr packet;

	if (bpf_dynptr_from_skb((void *)context->skb, 0, &packet))
		return -1;
	return dynptr_read(to, 4, &packet, 12, 0);
}

SEC("netfilter")
int by_source(struct bpf_nf_ctx *context)
{
	__u32 key = 0;
	__u64 one = 1, *count;

	if (source(context, &key))
		return 1;
	count = map_lookup(&sources, &key);
	if (!count) {
		/* A full hash takes no more: these are dropped. */
		return map_update(&sources, &key, &one, BPF_NOEXIST) == 0;
	}
	__sync_fetch_and_add(count, 1);
	return *count < 3;
}

SEC("netfilter")
int forget(struct bpf_nf_ctx *context)
{
	__u32 key = 0;
	__u64 value = 9;

	if (source(context, &key))
		return 1;
	if (key & 0x1000000)
		return map_delete(&sources, &key) == 0;
	return map_update(&sources, &key, &value, BPF_EXIST) == 0;
}

SEC("netfilter")
int per_processor(struct bpf_nf_ctx *context)
{
	__u32 key = context->state->hook & 3, first = 1, *port;
	__u64 *total = map_lookup(&totals, &key);
	__u16 number = context->skb->len & 31;

	if (total)
		*total += context->skb->len;
	port = map_lookup(&ports, &number);
	if (port)
		++*port;
	else
		map_update(&ports, &number, &first, BPF_ANY);
	return processor() == 0;
}

SEC("netfilter")
int recently(struct bpf_nf_ctx *context)
{
	__u32 key = 0, first = 1, *times;

	if (source(context, &key))
		return 1;
	times = map_lookup(&recent, &key);
	if (!times) {
		map_update(&recent, &key, &first, BPF_ANY);
		return 1;
	}
	return ++*times % 3 != 0;
}

SEC("netfilter")
int learn(struct bpf_nf_ctx *context)
{
	struct prefix prefix = {};
	__u32 value = context->skb->len, key = 0;

	if (source(context, &key))
		return 1;
	prefix.bits = value % 33;
	__builtin_memcpy(prefix.address, &key, 4);
	return map_update(&prefixes, &prefix, &value, BPF_ANY) == 0;
}

SEC("netfilter")
int longest(struct bpf_nf_ctx *context)
{
	struct prefix prefix = { .bits = 32 };
	__u32 key = 0, *value;

	if (source(context, &key))
		return 1;
	__builtin_memcpy(prefix.address, &key, 4);
	value = map_lookup(&prefixes, &prefix);
	return value ? *value & 1 : 1;
}

SEC("netfilter")
int variables(struct bpf_nf_ctx *context)
{
	packets++;
	bytes += context->skb->len;
	if (packets % 8 == 0)
		limit += table[packets / 8 & 15];
	return context->skb->len > limit;
}

struct record {
	__u32 hook, len;
	__u8 bytes[8];
};

SEC("netfilter")
int report(struct bpf_nf_ctx *context)
{
	struct bpf_dynptr packet;
	struct record *record = ring_reserve(&records, sizeof(*record), 0);

	if (!record)
		return 0;
	record->hook = context->state->hook;
	record->len = context->skb->len;
	__builtin_memset(record->bytes, 0, 8);
	if (!bpf_dynptr_from_skb((void *)context->skb, 0, &packet))
		dynptr_read(record->bytes, 8, &packet, 0, 0);
	if (record->len & 1)
		ring_discard(record, 0);
	else
		ring_submit(record, 0);
	return 1;
}

SEC("netfilter")
int say(struct bpf_nf_ctx *context)
{
	__u64 word = context->skb->len;

	return ring_output(&records, &word, sizeof(word), 0) == 0;
}

static long add(void *map, const void *key, void *value, void *to)
{
	*(__u64 *)to += *(__u64 *)value;
	return 0;
}

SEC("netfilter")
int all(struct bpf_nf_ctx *context)
{
	__u64 sum = 0;
	long visited = for_each_map_elem(&sources, add, &sum, 0);

	bytes = sum;
	return visited < 10;
}

static long fold(__u32 round, void *to)
{
	struct state *state = to;

	state->sum = state->sum * 31 + round;
	state->count++;
	return state->count > 90;
}

SEC("netfilter")
int rounds(struct bpf_nf_ctx *context)
{
	struct state state = {};
	__u32 zero = 0;
	long done = bpf_loop(context->skb->len & 127, fold, &state, 0);
	struct state *kept = map_lookup(&states, &zero);

	if (kept)
		*kept = state;
	return done & 1;
}

static noinline __u32 mix(__u32 a, __u32 b)
{
	__u32 words[4] = { a, b, a ^ b, a + b };

	for (int i = 0; i < 4; i++) {
		words[i & 3] = words[i & 3] << 5 | words[i & 3] >> 27;
		words[(i + 1) & 3] ^= words[i & 3] * 0x9e3779b1;
	}
	return words[3];
}

SEC("netfilter")
int hashed(struct bpf_nf_ctx *context)
{
	__u32 key = 0, one = 1;
	struct state *state;

	source(context, &key);
	state = map_lookup(&states, &one);
	if (!state)
		return 0;
	state->word = mix(key, state->word);
	state->sum += state->word / 7;
	state->count = __sync_fetch_and_xor(&state->count, state->word);
	__sync_val_compare_and_swap(&state->sum, 5, 6);
	return state->word % 3 != 0;
}

/* Programs that continue others. */
int first(struct bpf_nf_ctx *context);
int second(struct bpf_nf_ctx *context);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 4);
	__uint(key_size, sizeof(__u32));
	__array(values, int(void *));
} programs SEC(".maps") = {
	.values = { [0] = (void *)&first, [2] = (void *)&second },
};

SEC("netfilter")
int first(struct bpf_nf_ctx *context)
{
	packets += 100;
	tail_call(context, &programs, 2);
	return 0;
}

SEC("netfilter")
int second(struct bpf_nf_ctx *context)
{
	bytes++;
	return context->skb->len & 1;
}

SEC("netfilter")
int continued(struct bpf_nf_ctx *context)
{
	tail_call(context, &programs, context->skb->len % 5);
	packets++;
	return 1;
}

SEC("netfilter")
int circular(struct bpf_nf_ctx *context)
{
	packets++;
	tail_call(context, &programs, 0);
	return 1;
}
