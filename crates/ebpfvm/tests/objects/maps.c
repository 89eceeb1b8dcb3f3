// SPDX-License-Identifier: Apache-2.0
/* Operations on maps that frames choose. */
#include "bpf.h"

#define MAP(name, kind, key_type, entries, flags) \
	struct {                                  \
		__uint(type, kind);               \
		__uint(max_entries, entries);     \
		__uint(map_flags, flags);         \
		__type(key, key_type);            \
		__type(value, __u64);             \
	} name SEC(".maps")

struct prefix {
	__u32 len;
	__u8 address[4];
};

MAP(hash, BPF_MAP_TYPE_HASH, __u32, 8, 0);
MAP(loose, BPF_MAP_TYPE_HASH, __u32, 8, BPF_F_NO_PREALLOC);
MAP(per_cpu, BPF_MAP_TYPE_PERCPU_HASH, __u32, 8, 0);
MAP(array, BPF_MAP_TYPE_ARRAY, __u32, 8, 0);
MAP(trie, BPF_MAP_TYPE_LPM_TRIE, struct prefix, 16, BPF_F_NO_PREALLOC);
MAP(results, BPF_MAP_TYPE_ARRAY, __u32, 64, 0);

static inline void note(__u32 number, __s64 result)
{
	map_update(&results, &number, &result, BPF_ANY);
}

static inline void work(void *map, void *key, __u8 what, __u64 value, int at)
{
	switch (what & 7) {
	case 0:
	case 1:
		note(at, map_update(map, key, &value, what >> 3 & 3));
		break;
	case 2:
		note(at, map_delete(map, key));
		break;
	case 3: {
		/* What a pointer finds after the key has another value. */
		__u64 *found = map_lookup(map, key);
		if (found) {
			value ^= *found;
			note(at, map_update(map, key, &value, 0));
			note(at + 1, *found);
		}
		break;
	}
	default: {
		__u64 *found = map_lookup(map, key);
		note(at, found ? *found : -1);
		if (found && what & 8)
			__sync_fetch_and_add(found, value);
	}
	}
}

SEC("xdp")
int operate(struct xdp_md *xdp)
{
	__u8 *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;

	if (data + 60 > end)
		return XDP_ABORTED;
	data += 14;
	__u32 key = data[0] & 15;
	work(&hash, &key, data[1], data[2], 0);
	key = data[3] & 15;
	work(&loose, &key, data[4], data[5], 8);
	key = data[6] & 15;
	work(&per_cpu, &key, data[7], data[8], 16);
	key = data[9] & 15;
	work(&array, &key, data[10], data[11], 24);
	struct prefix prefix = {
		.len = data[12] % 35,
		.address = { data[13] & 3, data[14] & 0x81, data[15] & 1, data[16] & 3 },
	};
	work(&trie, &prefix, data[17], data[18], 32);
	return XDP_DROP;
}
